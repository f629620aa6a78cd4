//! Client records: the cases of EXCHANGE_ID, and confirmation by CREATE_SESSION (RFC 8881 §18.35.4, §18.36.4).
//!
//! An owner has at most one confirmed and one unconfirmed record. What a client *has* (sessions, opens, locks) is not kept here: whoever
//! asks says whether it has any.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::Instant;

use super::budget::beyond;
use super::create_slot::CreateSlot;
use super::lease::{Lease, Standing};
use super::sessions::CreatedSession;
use crate::limits::{CLIENT_COST, CLIENTS};
use crate::v4::{ClientId, Principal, Status, Verifier};

/// What EXCHANGE_ID says about the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `co_ownerid`: who it is, across its restarts.
    pub id: Vec<u8>,
    /// `co_verifier`: which incarnation.
    pub verifier: Verifier,
    /// Who sends the request.
    pub principal: Principal,
}

/// EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Not set: establish a client ID.
    Establish,
    /// Set: change the properties of a confirmed record.
    Update,
}

/// Whether CREATE_SESSION has confirmed a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Not yet.
    Unconfirmed,
    /// Yes.
    Confirmed,
}

/// What a collision meets: what the owner of the confirmed record has (case 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// Neither opens nor locks, or its lease is over.
    Nothing,
    /// State that its lease protects.
    State,
}

/// One record.
#[derive(Debug)]
pub struct Client {
    /// Who.
    pub owner: Owner,
    /// Confirmed or not.
    pub confirmation: Confirmation,
    /// The slot of CREATE_SESSION.
    pub create: CreateSlot<CreatedSession>,
    /// Its lease.
    pub lease: Lease,
    /// True once it has said that it reclaims nothing more (RFC 8881 §18.51).
    pub reclaim_complete: bool,
    /// Bytes of what it has beside this record: sessions, opens and locks.
    pub bytes: usize,
}

impl Client {
    fn own_bytes(&self) -> usize {
        CLIENT_COST.saturating_add(self.owner.id.len())
    }
}

/// What EXCHANGE_ID answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchanged {
    /// `eir_clientid`.
    pub client: ClientId,
    /// `eir_sequenceid`.
    pub sequence: u32,
    /// EXCHGID4_FLAG_CONFIRMED_R.
    pub confirmation: Confirmation,
}

/// What one owner has.
#[derive(Debug, Default)]
struct Records {
    confirmed: Option<ClientId>,
    unconfirmed: Option<ClientId>,
}

/// All records.
#[derive(Debug)]
pub struct Clients {
    records: BTreeMap<ClientId, Client>,
    owners: BTreeMap<Vec<u8>, Records>,
    /// The upper half of each client ID: no ID of an earlier server is ever taken for one of this.
    boot: u32,
    last: u32,
    bytes: usize,
    /// Those that nobody has confirmed, by age.
    unconfirmed: BTreeSet<ClientId>,
}

impl Clients {
    /// No records. `boot` is another number than that of every earlier start of this server.
    pub fn new(boot: u32) -> Self {
        Self {
            records: BTreeMap::new(),
            owners: BTreeMap::new(),
            boot,
            last: 0,
            bytes: 0,
            unconfirmed: BTreeSet::new(),
        }
    }

    /// The record of that ID.
    pub fn get(&self, client: ClientId) -> Option<&Client> {
        self.records.get(&client)
    }

    /// The record of that ID, to be changed.
    pub fn get_mut(&mut self, client: ClientId) -> Option<&mut Client> {
        self.records.get_mut(&client)
    }

    /// The confirmed record of that ID.
    pub fn confirmed(&self, client: ClientId) -> Option<&Client> {
        self.get(client).filter(|record| record.confirmation == Confirmation::Confirmed)
    }

    /// A client whose record is as is asked.
    pub fn find(&self, mut is_wanted: impl FnMut(&Client) -> bool) -> Option<ClientId> {
        self.records.iter().find(|(_, record)| is_wanted(record)).map(|(id, _)| *id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all records, without what their clients have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The confirmed record of an owner.
    pub fn confirmed_of(&self, owner: &[u8]) -> Option<ClientId> {
        self.owners.get(owner)?.confirmed
    }

    /// EXCHANGE_ID (RFC 8881 §18.35.4), by the numbers of the cases there. `holding` says what the confirmed record of this owner has.
    ///
    /// In case 3 the confirmed record stays until the caller, which knows what it has, removes it: [`Clients::collides`] tells so before.
    ///
    /// # Errors
    /// NOENT, NOT_SAME, PERM and CLID_INUSE as the cases say; DELAY when there are too many records.
    pub fn exchange(
        &mut self,
        now: Instant,
        owner: Owner,
        purpose: Purpose,
        holding: Holding,
    ) -> Result<Exchanged, Status> {
        let confirmed = self.confirmed_of(&owner.id).and_then(|id| Some((id, self.get(id)?)));
        match (purpose, confirmed) {
            // 7: update, and nothing is confirmed.
            (Purpose::Update, None) => Err(Status::NOENT),
            // 9: update by the wrong principal.
            (Purpose::Update, Some((_, record))) if record.owner.principal != owner.principal => {
                Err(Status::PERM)
            }
            // 8: update with the wrong verifier.
            (Purpose::Update, Some((_, record))) if record.owner.verifier != owner.verifier => {
                Err(Status::NOT_SAME)
            }
            // 6: update; 2: the same client asks again.
            (Purpose::Update, Some((client, record))) => Ok(answer(client, record)),
            (Purpose::Establish, Some((client, record))) if record.owner == owner => {
                Ok(answer(client, record))
            }
            // 3: collision with somebody whose state is alive.
            (Purpose::Establish, Some((_, record)))
                if record.owner.principal != owner.principal && holding == Holding::State =>
            {
                Err(Status::CLID_INUSE)
            }
            // 1: new; 3: collision with somebody who has nothing; 4: replacement of an unconfirmed record; 5: restart.
            (Purpose::Establish, _) => self.add(now, owner),
        }
    }

    /// The confirmed record that case 3 removes for this owner: another principal's.
    pub fn collides(&self, owner: &Owner) -> Option<ClientId> {
        let client = self.confirmed_of(&owner.id)?;
        self.get(client).filter(|record| record.owner.principal != owner.principal).map(|_| client)
    }

    fn add(&mut self, now: Instant, owner: Owner) -> Result<Exchanged, Status> {
        if let Some(earlier) = self.owners.get(&owner.id).and_then(|records| records.unconfirmed) {
            self.remove(earlier);
        }
        if self.records.len() >= CLIENTS {
            return Err(Status::DELAY);
        }
        self.last = self.last.wrapping_add(1);
        let client = wire_id(self.boot, self.last);
        self.owners.entry(owner.id.clone()).or_default().unconfirmed = Some(client);
        let record = Client {
            bytes: 0,
            owner,
            confirmation: Confirmation::Unconfirmed,
            create: CreateSlot::new(),
            lease: Lease::new(now),
            reclaim_complete: false,
        };
        let exchanged = answer(client, &record);
        self.bytes = self.bytes.saturating_add(record.own_bytes());
        self.records.insert(client, record);
        self.unconfirmed.insert(client);
        Ok(exchanged)
    }

    /// The record that confirming `client` replaces: the confirmed one of the same owner (RFC 8881 §18.36.4). Its state goes with it.
    pub fn replaced_by(&self, client: ClientId) -> Option<ClientId> {
        let record = self.get(client).filter(|record| record.confirmation == Confirmation::Unconfirmed)?;
        self.confirmed_of(&record.owner.id)
    }

    /// CREATE_SESSION confirms a record; the one that it replaces is gone already.
    pub fn confirm(&mut self, client: ClientId) {
        let Some(record) = self.records.get_mut(&client) else { return };
        record.confirmation = Confirmation::Confirmed;
        self.unconfirmed.remove(&client);
        let records = self.owners.entry(record.owner.id.clone()).or_default();
        records.confirmed = Some(client);
        if records.unconfirmed == Some(client) {
            records.unconfirmed = None;
        }
    }

    /// Takes a record out, and gives what it was.
    pub fn remove(&mut self, client: ClientId) -> Option<Client> {
        let record = self.records.remove(&client)?;
        self.bytes = self.bytes.saturating_sub(record.own_bytes());
        self.unconfirmed.remove(&client);
        if let Some(records) = self.owners.get_mut(&record.owner.id) {
            for place in [&mut records.confirmed, &mut records.unconfirmed] {
                if *place == Some(client) {
                    *place = None;
                }
            }
            if records.confirmed.is_none() && records.unconfirmed.is_none() {
                self.owners.remove(&record.owner.id);
            }
        }
        Some(record)
    }

    /// Clients whose lease is over, and that hold more than nobody can take from them.
    pub fn idle_above_floor(&self, now: Instant) -> Vec<ClientId> {
        let idle =
            |record: &Client| record.lease.standing(now) != Standing::Active && beyond(record.bytes) > 0;
        self.records.iter().filter(|(_, record)| idle(record)).map(|(client, _)| *client).collect()
    }

    /// The unconfirmed record that was made first: what goes when there is no room.
    pub fn oldest_unconfirmed(&self) -> Option<ClientId> {
        self.unconfirmed.first().copied()
    }
}

fn answer(client: ClientId, record: &Client) -> Exchanged {
    Exchanged { client, sequence: record.create.next(), confirmation: record.confirmation }
}

fn wire_id(boot: u32, number: u32) -> ClientId {
    let mut id = [0; 8];
    for (byte, value) in id.iter_mut().zip(boot.to_be_bytes().into_iter().chain(number.to_be_bytes())) {
        *byte = value;
    }
    ClientId(u64::from_be_bytes(id))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use core::fmt::Write as _;

    use super::*;

    fn owner(id: u8, verifier: u8, user: u32) -> Owner {
        Owner { id: vec![id], verifier: Verifier([verifier; 8]), principal: Principal::User(user) }
    }

    /// What stands in the table before: nothing, an unconfirmed record, a confirmed one, or both.
    fn before(setting: &str) -> Clients {
        let mut clients = Clients::new(7);
        let mut establish = |owner| {
            clients.exchange(Instant::ZERO, owner, Purpose::Establish, Holding::Nothing).unwrap().client
        };
        match setting {
            "nothing" => {}
            "unconfirmed" => {
                establish(owner(1, 1, 1));
            }
            _ => {
                let client = establish(owner(1, 1, 1));
                clients.confirm(client);
                if setting == "both" {
                    clients
                        .exchange(Instant::ZERO, owner(1, 2, 1), Purpose::Establish, Holding::Nothing)
                        .unwrap();
                }
            }
        }
        clients
    }

    /// Every combination of RFC 8881 §18.35.4: what is there × what is asked × by whom.
    #[test]
    fn table_of_all_cases() {
        let mut table = String::new();
        for setting in ["nothing", "unconfirmed", "confirmed", "both"] {
            for purpose in [Purpose::Establish, Purpose::Update] {
                for (verifier, user) in [(1, 1), (2, 1), (1, 9), (2, 9)] {
                    for holding in [Holding::Nothing, Holding::State] {
                        let mut clients = before(setting);
                        let asked = owner(1, verifier, user);
                        let collides = clients.collides(&asked).is_some();
                        let result = match clients.exchange(Instant::ZERO, asked, purpose, holding) {
                            Ok(done) => format!("ID {} {:?}", done.client.0 & 0xff, done.confirmation),
                            Err(status) => format!("{status}"),
                        };
                        let note = if collides { ", collides" } else { "" };
                        writeln!(
                            table,
                            "{setting}: {purpose:?} verifier {verifier} user {user} {holding:?} -> {result}{note}; {} records",
                            clients.len()
                        )
                        .unwrap();
                    }
                }
            }
        }
        if std::env::var_os("UPDATE_TABLES").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/state/clients.table"), &table).unwrap();
        }
        assert_eq!(table, include_str!("clients.table"));
    }

    #[test]
    fn confirming_replaces_the_earlier_incarnation() {
        let mut clients = before("both");
        let [old, new] = [1, 2].map(|number| wire_id(7, number));
        assert_eq!((clients.replaced_by(new), clients.replaced_by(old)), (Some(old), None));
        clients.remove(old);
        clients.confirm(new);
        assert_eq!((clients.confirmed_of(&[1]), clients.len()), (Some(new), 1));
        clients.remove(new);
        assert!(clients.is_empty() && clients.owners.is_empty() && clients.unconfirmed.is_empty());
    }

    #[test]
    fn records_are_bounded_and_unconfirmed_ones_go_first() {
        let mut clients = Clients::new(1);
        for number in 0..CLIENTS {
            let owner = Owner { id: number.to_be_bytes().into(), ..owner(0, 0, 0) };
            let now = Instant::from_nanos(u64::try_from(number).unwrap());
            clients.exchange(now, owner, Purpose::Establish, Holding::Nothing).unwrap();
        }
        let more = clients.exchange(Instant::ZERO, owner(1, 1, 1), Purpose::Establish, Holding::Nothing);
        assert_eq!(more, Err(Status::DELAY));
        assert_eq!(clients.oldest_unconfirmed(), Some(wire_id(1, 1)));
    }

    #[test]
    fn no_id_of_another_start_is_known() {
        let mut clients = Clients::new(8);
        clients.exchange(Instant::ZERO, owner(1, 1, 1), Purpose::Establish, Holding::Nothing).unwrap();
        assert!(clients.get(wire_id(8, 1)).is_some() && clients.get(wire_id(7, 1)).is_none());
    }
}
