//! Opens and share reservations (RFC 8881 §9.7, §9.8, §18.16, §18.18, §18.2).
//!
//! The table answers what may be; it knows neither leases nor loans. `F` names a file.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt::Debug;

use filesystem::OpenId;

use crate::limits::OPEN_COST;
use crate::v4::{ClientId, Modes, Share, Stateid, StateidOther, Status};

/// An open owner, or a lock owner, of a client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateOwner {
    /// The client.
    pub client: ClientId,
    /// Its own name for who it is.
    pub owner: Vec<u8>,
}

/// What the file system knows an open by: it judged the permissions when it was asked for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenIds {
    /// For reading.
    pub read: Option<OpenId>,
    /// For writing.
    pub write: Option<OpenId>,
}

impl OpenIds {
    /// Takes one that is open for `access`; false if it is of no use, because there are others already.
    fn take(&mut self, id: OpenId, access: Modes) -> bool {
        let read = access.read && self.read.is_none();
        let write = access.write && self.write.is_none();
        if read {
            self.read = Some(id);
        }
        if write {
            self.write = Some(id);
        }
        read || write
    }

    /// Keeps what `access` needs, and gives what nothing needs any more.
    fn keep(&mut self, access: Modes) -> BTreeSet<OpenId> {
        let before = self.all();
        if !access.read {
            self.read = None;
        }
        if !access.write {
            self.write = None;
        }
        before.difference(&self.all()).copied().collect()
    }

    /// Each once.
    pub fn all(&self) -> BTreeSet<OpenId> {
        [self.read, self.write].into_iter().flatten().collect()
    }
}

/// The opens of one file, and how many of them access and deny what: where nobody denies anything, none has to be looked at.
#[derive(Debug, Default)]
struct FileOpens {
    others: BTreeSet<StateidOther>,
    shares: BTreeMap<Share, usize>,
}

impl FileOpens {
    fn count(&mut self, share: Share) {
        let count = self.shares.entry(share).or_default();
        *count = count.saturating_add(1);
    }

    fn uncount(&mut self, share: Share) {
        if let Some(count) = self.shares.get_mut(&share) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.shares.remove(&share);
            }
        }
    }
}

/// One open: what one owner has of one file.
#[derive(Debug, Clone)]
pub struct Open<F> {
    /// Whose.
    pub owner: StateOwner,
    /// Which file.
    pub file: F,
    /// The newest seqid of its stateid.
    pub seqid: u32,
    /// What it has altogether.
    pub share: Share,
    /// What the file system knows it by.
    pub ids: OpenIds,
    /// What it was asked for one by one, which a downgrade must match (RFC 8881 §18.18.3).
    asked: BTreeSet<Share>,
}

impl<F> Open<F> {
    /// Bytes that it counts for.
    pub fn bytes(&self) -> usize {
        OPEN_COST.saturating_add(self.owner.owner.len())
    }

    fn stateid(&self, other: StateidOther) -> Stateid {
        Stateid { seqid: self.seqid, other }
    }

    fn advance(&mut self) {
        self.seqid = next_seqid(self.seqid);
    }
}

/// The seqid after this one: zero is left out (RFC 8881 §8.2.2).
pub(crate) fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}

/// Judges the seqid of a stateid that names known state (RFC 8881 §8.2.2). Which of two is older is a matter of wrapping distance.
pub fn check_seqid(sent: u32, newest: u32) -> Result<(), Status> {
    if sent == 0 || sent == newest {
        return Ok(());
    }
    let half = u32::MAX / 2;
    if newest.wrapping_sub(sent) <= half { Err(Status::OLD_STATEID) } else { Err(Status::BAD_STATEID) }
}

/// What is to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening<F> {
    /// Whose.
    pub owner: StateOwner,
    /// Which file.
    pub file: F,
    /// What is wanted.
    pub share: Share,
    /// What the file system knows it by.
    pub id: OpenId,
}

/// What an OPEN came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The stateid.
    pub stateid: Stateid,
    /// To be closed at the file system: the owner had the file open already for as much.
    pub unused: Option<OpenId>,
}

/// What an OPEN_DOWNGRADE came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downgraded {
    /// The stateid.
    pub stateid: Stateid,
    /// To be closed at the file system.
    pub unused: BTreeSet<OpenId>,
}

/// All opens.
#[derive(Debug)]
pub struct Opens<F> {
    table: BTreeMap<StateidOther, Open<F>>,
    by_file: BTreeMap<F, FileOpens>,
    by_owner: BTreeMap<StateOwner, BTreeMap<F, StateidOther>>,
}

impl<F: Ord + Clone + Debug> Opens<F> {
    /// None.
    pub fn new() -> Self {
        Self { table: BTreeMap::new(), by_file: BTreeMap::new(), by_owner: BTreeMap::new() }
    }

    /// The open of that stateid.
    pub fn get(&self, other: StateidOther) -> Option<&Open<F>> {
        self.table.get(&other)
    }

    /// The opens of a file.
    pub fn of_file<'a>(&'a self, file: &F) -> impl Iterator<Item = &'a Open<F>> {
        let others = self.by_file.get(file).into_iter().flat_map(|opens| &opens.others);
        others.filter_map(|other| self.table.get(other))
    }

    /// The opens of a client, by their stateids.
    pub fn of_client(&self, client: ClientId) -> impl Iterator<Item = StateidOther> {
        let least = StateOwner { client, owner: Vec::new() };
        let owners = self.by_owner.range(least..).take_while(move |(owner, _)| owner.client == client);
        owners.flat_map(|(_, files)| files.values().copied())
    }

    /// True if the client has an open.
    pub fn has(&self, client: ClientId) -> bool {
        self.of_client(client).next().is_some()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Which open this owner has of this file.
    pub fn find(&self, owner: &StateOwner, file: &F) -> Option<StateidOther> {
        self.by_owner.get(owner)?.get(file).copied()
    }

    /// The clients whose opens stand against what `owner` wants; its own does not (RFC 8881 §9.7). Without an owner everybody's do.
    pub fn conflicts(&self, owner: Option<&StateOwner>, file: &F, share: Share) -> BTreeSet<ClientId> {
        let shares = self.by_file.get(file).into_iter().flat_map(|opens| opens.shares.keys());
        if !shares.copied().any(|known| known.conflicts(share)) {
            return BTreeSet::new();
        }
        let others = self.of_file(file).filter(|open| Some(&open.owner) != owner);
        others.filter(|open| open.share.conflicts(share)).map(|open| open.owner.client).collect()
    }

    /// OPEN: adds to what the owner has of the file, or begins. The caller has looked for [`Opens::conflicts`]; `fresh` is the name of a new open.
    pub fn open(&mut self, opening: Opening<F>, fresh: StateidOther) -> Opened {
        let Opening { owner, file, share, id } = opening;
        let opens = self.by_file.entry(file.clone()).or_default();
        if let Some(other) = self.by_owner.get(&owner).and_then(|files| files.get(&file)).copied()
            && let Some(open) = self.table.get_mut(&other)
        {
            opens.uncount(open.share);
            open.asked.insert(share);
            open.share = open.share.union(share);
            opens.count(open.share);
            open.advance();
            let needed = open.ids.take(id, share.access);
            return Opened { stateid: open.stateid(other), unused: (!needed).then_some(id) };
        }
        opens.others.insert(fresh);
        opens.count(share);
        self.by_owner.entry(owner.clone()).or_default().insert(file.clone(), fresh);
        let mut ids = OpenIds::default();
        let needed = ids.take(id, share.access);
        let open = Open { owner, file, seqid: 1, share, ids, asked: BTreeSet::from([share]) };
        let stateid = open.stateid(fresh);
        self.table.insert(fresh, open);
        Opened { stateid, unused: (!needed).then_some(id) }
    }

    /// OPEN_DOWNGRADE: leaves `share`, which must be what some of the opens asked for together (RFC 8881 §18.18.3).
    ///
    /// # Errors
    /// INVAL if it is not.
    pub fn downgrade(&mut self, other: StateidOther, share: Share) -> Result<Downgraded, Status> {
        let open = self.table.get_mut(&other).ok_or(Status::BAD_STATEID)?;
        let kept: BTreeSet<Share> =
            open.asked.iter().copied().filter(|asked| share.contains(*asked)).collect();
        let together = kept.iter().copied().reduce(Share::union);
        if together != Some(share) {
            return Err(Status::INVAL);
        }
        open.asked = kept;
        if let Some(opens) = self.by_file.get_mut(&open.file) {
            opens.uncount(open.share);
            opens.count(share);
        }
        open.share = share;
        open.advance();
        Ok(Downgraded { stateid: open.stateid(other), unused: open.ids.keep(share.access) })
    }

    /// CLOSE: takes an open out.
    pub fn remove(&mut self, other: StateidOther) -> Option<Open<F>> {
        let open = self.table.remove(&other)?;
        if let Some(files) = self.by_owner.get_mut(&open.owner) {
            files.remove(&open.file);
            if files.is_empty() {
                self.by_owner.remove(&open.owner);
            }
        }
        if let Some(opens) = self.by_file.get_mut(&open.file) {
            opens.others.remove(&other);
            opens.uncount(open.share);
            if opens.others.is_empty() {
                self.by_file.remove(&open.file);
            }
        }
        Some(open)
    }
}

impl<F: Ord + Clone + Debug> Default for Opens<F> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::v4::Modes;

    fn owner(client: u64, owner: u8) -> StateOwner {
        StateOwner { client: ClientId(client), owner: vec![owner] }
    }

    fn other(number: u8) -> StateidOther {
        StateidOther([number; 12])
    }

    fn share(access: Modes, deny: Modes) -> Share {
        Share { access, deny }
    }

    fn open(opens: &mut Opens<char>, who: StateOwner, file: char, share: Share, fresh: u8) -> Opened {
        opens.open(Opening { owner: who, file, share, id: OpenId(fresh.into()) }, other(fresh))
    }

    #[test]
    fn an_owner_upgrades_and_downgrades_only_to_what_it_asked_for() {
        let mut opens = Opens::new();
        let reading = share(Modes::READ, Modes::NONE);
        let writing = share(Modes::WRITE, Modes::READ);
        let first = open(&mut opens, owner(1, 1), 'f', reading, 1);
        let second = open(&mut opens, owner(1, 1), 'f', writing, 2);
        assert_eq!((first.stateid.seqid, second.stateid), (1, Stateid { seqid: 2, other: other(1) }));
        let ids = OpenIds { read: Some(OpenId(1)), write: Some(OpenId(2)) };
        assert_eq!((opens.get(other(1)).unwrap().ids, second.unused), (ids, None));
        let third = open(&mut opens, owner(1, 1), 'f', reading, 3);
        assert_eq!(third.unused, Some(OpenId(3)));
        assert_eq!(opens.get(other(1)).unwrap().share, share(Modes::BOTH, Modes::READ));
        assert_eq!(opens.downgrade(other(1), share(Modes::WRITE, Modes::NONE)), Err(Status::INVAL));
        assert_eq!(opens.downgrade(other(1), share(Modes::READ, Modes::READ)), Err(Status::INVAL));
        let downgraded = opens.downgrade(other(1), reading).unwrap();
        assert_eq!((downgraded.stateid.seqid, downgraded.unused), (4, BTreeSet::from([OpenId(2)])));
        assert_eq!(opens.downgrade(other(1), writing), Err(Status::INVAL));
        assert_eq!(opens.downgrade(other(9), reading), Err(Status::BAD_STATEID));
    }

    #[test]
    fn conflicts_are_those_of_other_owners() {
        let mut opens = Opens::new();
        open(&mut opens, owner(1, 1), 'f', share(Modes::BOTH, Modes::WRITE), 1);
        open(&mut opens, owner(2, 1), 'f', share(Modes::READ, Modes::NONE), 2);
        let writing = share(Modes::WRITE, Modes::NONE);
        let denied = |who: Option<&StateOwner>, file| opens.conflicts(who, &file, writing).len();
        assert_eq!(denied(Some(&owner(1, 1)), 'f'), 0);
        assert_eq!(denied(Some(&owner(1, 2)), 'f'), 1);
        assert_eq!((denied(None, 'f'), denied(None, 'g')), (1, 0));
        let all = share(Modes::READ, Modes::BOTH);
        assert_eq!(
            opens.conflicts(Some(&owner(3, 1)), &'f', all),
            BTreeSet::from([ClientId(1), ClientId(2)])
        );
    }

    #[test]
    fn a_client_has_its_own_opens_only_and_nothing_stays_behind() {
        let mut opens = Opens::new();
        let reading = share(Modes::READ, Modes::NONE);
        for (number, (client, file)) in [(1, 'a'), (2, 'a'), (2, 'b'), (3, 'a')].into_iter().enumerate() {
            open(&mut opens, owner(client, 1), file, reading, u8::try_from(number).unwrap());
        }
        assert!(opens.of_client(ClientId(2)).eq([other(1), other(2)]));
        assert!(opens.has(ClientId(3)) && !opens.has(ClientId(4)) && !opens.has(ClientId(0)));
        for number in 0..4 {
            assert!(opens.remove(other(number)).is_some());
        }
        assert!(opens.is_empty() && opens.by_file.is_empty() && opens.by_owner.is_empty());
    }

    #[test]
    fn seqids() {
        assert_eq!((check_seqid(0, 5), check_seqid(5, 5)), (Ok(()), Ok(())));
        assert_eq!(
            (check_seqid(4, 5), check_seqid(6, 5)),
            (Err(Status::OLD_STATEID), Err(Status::BAD_STATEID))
        );
        assert_eq!((check_seqid(u32::MAX, 1), next_seqid(u32::MAX)), (Err(Status::OLD_STATEID), 1));
    }
}
