//! What the world holds the server to: every promise that a client was given, and everything that the file system carried out.
//!
//! A grant counts from the moment in which its answer leaves the server until its client sends what ends it. It is protected as long as its client has
//! a lease by the client's own reckoning: from the sending of the last request that was answered (RFC 8881 §8.3).

use std::collections::{BTreeMap, BTreeSet};

use filesystem::{Memory, Operation};
use nfs::limits::LEASE;
use nfs::v4::{ClientId, SessionId, StateidOther};
use protocol::Instant;

use super::work::{PAGE, Place, Range, Share, Unstable, WRITE};

/// Whose a grant is: a client's worker has one open and one lock at most.
pub type Holder = (usize, usize);

/// What a grant is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    Open(Share),
    Lock(Range),
}

impl Right {
    fn conflicts(self, other: Self) -> bool {
        match (self, other) {
            (Self::Open(one), Self::Open(two)) => one.conflicts(two),
            (Self::Lock(one), Self::Lock(two)) => one.conflicts(two),
            _ => false,
        }
    }

    fn is_lock(self) -> bool {
        matches!(self, Self::Lock(_))
    }
}

/// Something that a client was granted.
#[derive(Debug, Clone)]
pub struct Grant {
    pub holder: Holder,
    pub file: usize,
    pub right: Right,
    pub other: StateidOther,
    /// The client has the answer.
    pub is_received: bool,
    /// The client knows that its server has forgotten it, and may reclaim this; its lease was renewed then for the last time.
    pub pending: Option<Instant>,
    /// It was given to somebody else since.
    pub is_lost: bool,
}

/// A WRITE.
#[derive(Debug, Clone, Copy)]
struct Written {
    place: Place,
    other: Option<StateidOther>,
    client: usize,
    /// When the file system carried it out, among all writes.
    order: Option<u64>,
    /// What it was sent by was withdrawn before it was carried out.
    is_dead: bool,
}

/// All promises.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The first thing that went wrong.
    pub failure: Option<String>,
    /// Everything is printed.
    pub is_told: bool,
    /// What happened, for the tests to know that something did.
    pub seen: BTreeMap<&'static str, u64>,
    writes: BTreeMap<u64, Written>,
    last_order: u64,
    /// The order of the newest write that must not be lost.
    floors: BTreeMap<Place, u64>,
    /// How often the file system was asked to change a name, by what it was asked.
    names: BTreeMap<(&'static str, String), u32>,
    verifiers: BTreeMap<[u8; 8], u32>,
    replies: BTreeMap<(SessionId, u32, u32), Vec<u8>>,
    grants: Vec<Grant>,
    /// Stateids that allow nothing any more, and those that do not allow writing.
    withdrawn: BTreeSet<StateidOther>,
    stateids: BTreeMap<StateidOther, (Holder, ClientId)>,
    /// When each client's lease was renewed for the last time, as it knows.
    pub leases: BTreeMap<usize, Instant>,
}

impl Ledger {
    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.failure.is_none() {
            self.failure = Some(what());
        }
    }

    /// Tells the history of a single seed.
    pub fn tell(&self, now: Instant, what: impl FnOnce() -> String) {
        if self.is_told {
            println!("{:8} ms: {}", now.as_nanos() / 1_000_000, what());
        }
    }

    pub fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    // Data.

    /// A client is about to send a WRITE.
    pub fn begin_write(&mut self, number: u64, place: Place, client: usize, other: Option<StateidOther>) {
        self.writes.insert(number, Written { place, other, client, order: None, is_dead: false });
    }

    /// The file system is given a request.
    pub fn submitted(&mut self, operation: &Operation) {
        let text = |name: &filesystem::Name| String::from_utf8_lossy(name.as_bytes()).into_owned();
        let key = match operation {
            Operation::Make { name, .. } => ("make", text(name)),
            Operation::Remove { name, .. } => ("remove", text(name)),
            Operation::Rename { from, .. } => ("rename", text(from)),
            _ => return,
        };
        let count = self.names.entry(key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            self.fail(|| format!("the file system was asked twice to {} {}", key.0, key.1));
        }
    }

    /// The file system has carried out this WRITE.
    pub fn written(&mut self, now: Instant, number: u64) {
        let Some(write) = self.writes.get(&number).copied() else { return };
        if write.order.is_some() {
            self.fail(|| format!("write {number} was carried out twice"));
        }
        self.tell(now, || format!("write {number} takes effect"));
        self.last_order += 1;
        let order = self.last_order;
        self.writes.entry(number).and_modify(|write| write.order = Some(order));
        if write.is_dead || write.other.is_some_and(|other| self.withdrawn.contains(&other)) {
            self.fail(|| {
                format!("write {number} of client {} took effect by a withdrawn stateid", write.client)
            });
        }
        let denies = |grant: &Grant| match grant.right {
            Right::Open(share) => share.deny & WRITE != 0,
            Right::Lock(_) => false,
        };
        let file = write.place.file;
        let against = |grant: &Grant| grant.file == file && denies(grant) && Some(grant.other) != write.other;
        // An owner's own lock stateid stands for its open.
        let own = self.holder_of(write.other);
        self.meet(now, &format!("write {number} of client {}", write.client), |grant| {
            against(grant) && Some(grant.holder) != own
        });
    }

    fn holder_of(&self, other: Option<StateidOther>) -> Option<Holder> {
        self.stateids.get(&other?).map(|(holder, _)| *holder)
    }

    /// The value of a place must be at least as new as what was promised.
    pub fn check_data(&mut self, memory: &Memory, files: usize, pages: u64, when: &str) {
        for file in 0..files {
            for page in 0..pages {
                let place = Place { file, page };
                let Some(floor) = self.floors.get(&place).copied() else { continue };
                let number = super::disk::value(memory, file, page * PAGE);
                let write = self.writes.get(&number).filter(|write| write.place == place);
                let order = write.and_then(|write| write.order).unwrap_or(0);
                self.see("promises checked");
                if order < floor {
                    self.fail(|| {
                        format!("{when}, {place:?} has write {number}, which is older than what was promised")
                    });
                }
            }
        }
    }

    /// A client was told that a write is durable.
    pub fn promise(&mut self, number: u64) {
        let Some(write) = self.writes.get(&number).copied() else { return };
        let Some(order) = write.order else {
            return self.fail(|| format!("write {number} was answered and not carried out"));
        };
        let floor = self.floors.entry(write.place).or_default();
        *floor = (*floor).max(order);
    }

    /// A COMMIT was answered with this verifier: what it covers is durable if it was written under the same.
    pub fn committed(&mut self, covers: &[Unstable], verifier: [u8; 8]) {
        for unstable in covers.iter().filter(|unstable| unstable.verifier == verifier) {
            self.see("commits");
            self.promise(unstable.number);
        }
    }

    /// A verifier left the server that was started so many times.
    pub fn verifier(&mut self, verifier: [u8; 8], boot: u32) {
        if *self.verifiers.entry(verifier).or_insert(boot) != boot {
            self.fail(|| format!("the server of start {boot} has the write verifier of an earlier one"));
        }
    }

    // Slots.

    /// A request of a slot has its reply; true if it is the first.
    pub fn replied(&mut self, slot: (SessionId, u32, u32), reply: &[u8]) -> bool {
        // Behind the number of the call, which a retry may change.
        let reply = reply.get(4..).unwrap_or_default();
        match self.replies.get(&slot) {
            None => {
                self.replies.insert(slot, reply.to_vec());
                true
            }
            Some(first) => {
                if first != reply {
                    self.fail(|| format!("slot {} replays sequence {} with another reply", slot.1, slot.2));
                }
                self.see("replays");
                false
            }
        }
    }

    /// Whether a request of a slot has had a reply.
    pub fn has_replied(&self, slot: (SessionId, u32, u32)) -> bool {
        self.replies.contains_key(&slot)
    }

    // Opens and locks.

    fn is_protected(&self, now: Instant, grant: &Grant) -> bool {
        let renewed = grant.pending.or_else(|| self.leases.get(&grant.holder.0).copied());
        !grant.is_lost && renewed.is_some_and(|renewed| now < renewed + LEASE)
    }

    /// Something is granted or done against every grant that `against` says.
    fn meet(&mut self, now: Instant, what: &str, against: impl Fn(&Grant) -> bool) {
        let met: Vec<Grant> = self.grants.iter().filter(|grant| against(grant)).cloned().collect();
        for grant in met {
            if self.is_protected(now, &grant) {
                self.fail(|| format!("{what}, against {grant:?}, whose lease is alive"));
            } else {
                self.tell(now, || format!("client {} loses: {what}", grant.holder.0));
                self.lose(&grant);
            }
        }
    }

    /// A client has lost everything that it had: its lease was over, and somebody else wanted some of it. If this was only to be reclaimed after a restart,
    /// it is all that is known to be lost.
    fn lose(&mut self, lost: &Grant) {
        let is_lost = |grant: &Grant| match lost.pending {
            Some(_) => grant.other == lost.other,
            None => grant.holder.0 == lost.holder.0,
        };
        for grant in self.grants.iter_mut().filter(|grant| is_lost(grant)) {
            grant.is_lost = true;
            self.withdrawn.insert(grant.other);
        }
    }

    /// A grant has left the server.
    pub fn grant(&mut self, now: Instant, grant: Grant) {
        let (holder, file, right) = (grant.holder, grant.file, grant.right);
        self.meet(now, &format!("{right:?} of file {file} was granted to {holder:?}"), |other| {
            other.holder != holder && other.file == file && other.right.conflicts(right)
        });
        if self.find(holder, right.is_lock()).is_some_and(|earlier| earlier.is_lost) {
            self.fail(|| format!("{holder:?} reclaimed {right:?} of file {file}, which another had since"));
        }
        self.grants.push(grant);
    }

    /// A stateid is one of a client ID.
    pub fn lent(&mut self, other: StateidOther, holder: Holder, client: ClientId) {
        self.stateids.insert(other, (holder, client));
    }

    fn find(&self, holder: Holder, lock: bool) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.holder == holder && grant.right.is_lock() == lock)
    }

    fn drop_grants(&mut self, gone: impl Fn(&Grant) -> bool) {
        self.grants.retain(|grant| !gone(grant));
    }

    /// The client has the answer to what it asked for, which takes the place of what it had.
    pub fn received(&mut self, holder: Holder, lock: bool) {
        let is_meant = |grant: &Grant| grant.holder == holder && grant.right.is_lock() == lock;
        let Some(newest) = self.grants.iter().rposition(is_meant) else { return };
        let grant = Grant { is_received: true, ..self.grants.remove(newest) };
        self.drop_grants(is_meant);
        self.grants.push(grant);
    }

    /// The same where it adds to what it had: both are this together.
    pub fn received_upgrade(&mut self, holder: Holder, share: Share) {
        self.received(holder, false);
        self.reduce(holder, share);
    }

    /// A client was refused what it wanted to reclaim, and gives it up. That must not be while nobody else could have it.
    pub fn refused(&mut self, now: Instant, holder: Holder, status: &str) {
        self.see("reclaims refused");
        if let Some(grant) = self.grants.iter().find(|grant| grant.holder == holder).cloned()
            && self.is_protected(now, &grant)
        {
            self.fail(|| format!("{status} for who reclaims {grant:?}, whose lease is alive"));
        }
        self.end_open(holder);
    }

    /// The client gives up its lock.
    pub fn end_lock(&mut self, holder: Holder) {
        self.drop_grants(|grant| grant.holder == holder && grant.right.is_lock());
    }

    /// The client gives up its open, with its lock.
    pub fn end_open(&mut self, holder: Holder) {
        self.drop_grants(|grant| grant.holder == holder);
    }

    /// The client keeps less of its open.
    pub fn reduce(&mut self, holder: Holder, share: Share) {
        for grant in &mut self.grants {
            if grant.holder == holder && !grant.right.is_lock() {
                grant.right = Right::Open(share);
            }
        }
    }

    /// Nothing is written by these stateids from now on.
    pub fn withdraw(&mut self, others: impl IntoIterator<Item = StateidOther>) {
        self.withdrawn.extend(others);
    }

    /// No write that was sent by this stateid, or by a lock of its open, takes effect from now on.
    pub fn withdraw_writes(&mut self, other: StateidOther) {
        let holder = self.holder_of(Some(other));
        let stateids = &self.stateids;
        let whose = |other: Option<StateidOther>| {
            other.and_then(|other| stateids.get(&other)).map(|(holder, _)| *holder)
        };
        for write in self.writes.values_mut() {
            write.is_dead |= write.order.is_none() && holder.is_some() && whose(write.other) == holder;
        }
    }

    /// A client knows that its server has forgotten it.
    pub fn suspend(&mut self, client: usize) {
        let renewed = self.leases.get(&client).copied();
        for grant in self.grants.iter_mut().filter(|grant| grant.holder.0 == client) {
            grant.pending = grant.pending.or(renewed).or(Some(Instant::ZERO));
        }
        // What it never heard of it cannot reclaim.
        self.drop_grants(|grant| grant.holder.0 == client && !grant.is_received);
    }

    /// A client has another ID, or begins anew: what it had under earlier ones is withdrawn, unless the server forgot it.
    pub fn replace(&mut self, client: usize, id: ClientId) {
        let old = self.stateids.iter().filter(|(_, (whose, known))| whose.0 == client && *known != id);
        self.withdrawn.extend(old.map(|(other, _)| *other));
    }

    /// A client forgets everything.
    pub fn forget(&mut self, client: usize) {
        self.drop_grants(|grant| grant.holder.0 == client);
        self.leases.remove(&client);
    }

    /// The server dies: what was not received was never promised.
    pub fn crash(&mut self) {
        self.drop_grants(|grant| !grant.is_received);
    }

    /// Whether a client has a lease, as it knows.
    pub fn has_lease(&self, now: Instant, client: usize) -> bool {
        self.leases.get(&client).is_some_and(|renewed| now < *renewed + LEASE)
    }
}
