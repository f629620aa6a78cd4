//! What clients hold: opens, locks, and the loans of both. Every rule that needs no clock is here (RFC 8881 §8.2, §9).

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt::Debug;

use filesystem::OpenId;

use super::loans::Loan;
use super::loans::Loans;
use super::locks::{Denied, LockState, Locks};
use super::messages::{Answer, LockRequest, LockTest, Locker, OpenRequest, StateidLoan, StateidUse};
use super::opens::{Downgraded, Opening, Opens, StateOwner, check_seqid};
use super::ranges::{ByteRange, LockMode, LockedRange};
use crate::limits::{LOCK_COST, OPEN_COST, RANGE_COST};
use crate::v4::types::StateidKind;
use crate::v4::{ClientId, Modes, Share, Stateid, StateidOther, Status};

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hindrance {
    /// It cannot be: this is the answer.
    Refused(Status),
    /// Loans were recalled; once they are back it can be tried again.
    Recalling,
    /// These clients' opens stand against it.
    Shares(BTreeSet<ClientId>),
    /// This lock stands against it.
    Lock(Denied),
}

impl From<Status> for Hindrance {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// What something comes to.
pub type Outcome<F> = Result<Answer<F>, Hindrance>;

/// How many bytes a client holds more than before, or fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Whose.
    pub client: ClientId,
    /// More.
    pub more: usize,
    /// Fewer.
    pub fewer: usize,
}

/// A loan that is asked back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall<M, F> {
    /// Who has it.
    pub from: M,
    /// Which.
    pub loan: Loan<F>,
}

/// An open of the file system that nobody uses any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release<F> {
    /// The file.
    pub file: F,
    /// What the file system knows the open by.
    pub open: OpenId,
}

/// All opens, locks and loans.
#[derive(Debug)]
pub struct Holdings<M, F> {
    opens: Opens<F>,
    locks: Locks<F>,
    loans: Loans<M, F>,
    boot: u32,
    last: u64,
    recalls: VecDeque<Recall<M, F>>,
    growth: Vec<Growth>,
    releases: VecDeque<Release<F>>,
}

impl<M: Copy + Ord + Debug, F: Clone + Ord + Debug> Holdings<M, F> {
    /// Nothing. `boot` is another number than that of every earlier start.
    pub fn new(boot: u32) -> Self {
        Self {
            opens: Opens::new(),
            locks: Locks::new(),
            loans: Loans::new(),
            boot,
            last: 0,
            recalls: VecDeque::new(),
            growth: Vec::new(),
            releases: VecDeque::new(),
        }
    }

    /// True if the client has an open; a lock needs one.
    pub fn has_state(&self, client: ClientId) -> bool {
        self.opens.has(client)
    }

    /// How many stateids there are.
    pub fn len(&self) -> usize {
        self.opens.len().saturating_add(self.locks.len())
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is to be asked back from whom.
    pub fn poll_recall(&mut self) -> Option<Recall<M, F>> {
        self.recalls.pop_front()
    }

    /// What clients hold more or fewer since the last call.
    pub fn poll_growth(&mut self) -> Option<Growth> {
        self.growth.pop()
    }

    /// What is to be closed at the file system: nobody uses it any more.
    pub fn poll_release(&mut self) -> Option<Release<F>> {
        self.releases.pop_front()
    }

    /// Has these closed.
    pub fn release(&mut self, file: &F, ids: impl IntoIterator<Item = OpenId>) {
        self.releases.extend(ids.into_iter().map(|open| Release { file: file.clone(), open }));
    }

    /// A loan came back.
    pub fn give_back(&mut self, loan: &Loan<F>, from: M, times: u32) {
        self.loans.give_back(loan, from, times);
    }

    /// Whose state a loan is of; nobody's for anonymous access.
    pub fn client_of(&self, loan: &Loan<F>) -> Option<ClientId> {
        let Loan::Stateid(other) = loan else { return None };
        let open = self.opens.get(*other).map(|open| open.owner.client);
        open.or_else(|| self.locks.get(*other).map(|lock| lock.owner.client))
    }

    /// A connection is gone, after its requests.
    pub fn forget(&mut self, holder: M) {
        self.loans.forget(holder);
    }

    fn fresh(&mut self) -> StateidOther {
        self.last = self.last.wrapping_add(1);
        let mut other = [0; 12];
        let bytes = self.boot.to_be_bytes().into_iter().chain(self.last.to_be_bytes());
        for (byte, value) in other.iter_mut().zip(bytes) {
            *byte = value;
        }
        StateidOther(other)
    }

    /// Asks loans back.
    ///
    /// # Errors
    /// Recalling, until all are back.
    fn recall(&mut self, loan: &Loan<F>, except: Option<M>) -> Result<(), Hindrance> {
        for from in self.loans.recall(loan, except) {
            self.recalls.push_back(Recall { from, loan: loan.clone() });
        }
        if self.loans.is_lent(loan, except) { Err(Hindrance::Recalling) } else { Ok(()) }
    }

    fn lend(&mut self, loan: StateidLoan<F>, to: M) -> Answer<F> {
        self.loans.lend(Loan::Stateid(loan.other), to);
        Answer::Lent(loan)
    }

    /// OPEN. `room` is how many bytes the client may still take.
    pub fn open(&mut self, from: M, request: &OpenRequest<F>, room: usize) -> Outcome<F> {
        let OpenRequest { owner, file, share, id, .. } = request;
        let conflicts = self.opens.conflicts(Some(owner), file, *share);
        if !conflicts.is_empty() {
            return Err(Hindrance::Shares(conflicts));
        }
        self.recall_anonymous(file, share.deny)?;
        let known = self.opens.find(owner, file);
        if let Some(other) = known {
            self.recall(&Loan::Stateid(other), Some(from))?;
        }
        let cost = OPEN_COST.saturating_add(owner.owner.len());
        if known.is_none() && cost > room {
            return Err(Status::DELAY.into());
        }
        let fresh = self.fresh();
        let opening = Opening { owner: owner.clone(), file: file.clone(), share: *share, id: *id };
        let opened = self.opens.open(opening, fresh);
        self.release(file, opened.unused);
        if known.is_none() {
            self.growth.push(Growth { client: owner.client, more: cost, fewer: 0 });
        }
        let loan = self.open_loan(opened.stateid.other).ok_or(Status::SERVERFAULT)?;
        Ok(self.lend(loan, from))
    }

    /// Nobody may go on by anonymous access that an open denies (RFC 8881 §9.1.2).
    fn recall_anonymous(&mut self, file: &F, deny: Modes) -> Result<(), Hindrance> {
        let mut result = Ok(());
        for access in [Modes::READ, Modes::WRITE].into_iter().filter(|access| deny.meets(*access)) {
            let recalled = self.recall(&Loan::Anonymous(file.clone(), access), None);
            result = result.and(recalled);
        }
        result
    }

    fn open_loan(&self, other: StateidOther) -> Option<StateidLoan<F>> {
        let open = self.opens.get(other)?;
        let (client, file, access) = (open.owner.client, open.file.clone(), open.share.access);
        Some(StateidLoan { client, other, seqid: open.seqid, file, access, ids: open.ids })
    }

    fn lock_loan(&self, other: StateidOther) -> Option<StateidLoan<F>> {
        let lock = self.locks.get(other)?;
        let open = self.opens.get(lock.open)?;
        let (client, file, access) = (lock.owner.client, lock.file.clone(), open.share.access);
        Some(StateidLoan { client, other, seqid: lock.seqid, file, access, ids: open.ids })
    }

    /// The open that a stateid names (RFC 8881 §8.2.4).
    fn named_open(&self, named: &StateidUse<F>) -> Result<StateidLoan<F>, Status> {
        Self::check(self.open_loan(named.stateid.other), named)
    }

    /// The lock that a stateid names.
    fn named_lock(&self, named: &StateidUse<F>) -> Result<StateidLoan<F>, Status> {
        Self::check(self.lock_loan(named.stateid.other), named)
    }

    fn check(found: Option<StateidLoan<F>>, named: &StateidUse<F>) -> Result<StateidLoan<F>, Status> {
        if named.stateid.kind() != StateidKind::State {
            return Err(Status::BAD_STATEID);
        }
        let found = found.filter(|found| found.client == named.client && found.file == named.file);
        let found = found.ok_or(Status::BAD_STATEID)?;
        check_seqid(named.stateid.seqid, found.seqid)?;
        Ok(found)
    }

    /// OPEN_DOWNGRADE (RFC 8881 §18.18).
    pub fn downgrade(&mut self, from: M, named: &StateidUse<F>, share: Share) -> Outcome<F> {
        let found = self.named_open(named)?;
        self.recall(&Loan::Stateid(found.other), None)?;
        for lock in self.locks.of_open(found.other, &found.file) {
            self.recall(&Loan::Stateid(lock), None)?;
        }
        let Downgraded { unused, .. } = self.opens.downgrade(found.other, share)?;
        self.release(&found.file, unused);
        let loan = self.open_loan(found.other).ok_or(Status::SERVERFAULT)?;
        Ok(self.lend(loan, from))
    }

    /// CLOSE (RFC 8881 §18.2); locks of the open are released with it.
    pub fn close(&mut self, named: &StateidUse<F>) -> Outcome<F> {
        let found = self.named_open(named)?;
        self.end_open(found.other)?;
        Ok(Answer::Done)
    }

    /// Ends an open with its locks, once nobody has a loan of them any more.
    fn end_open(&mut self, other: StateidOther) -> Result<(), Hindrance> {
        let Some(open) = self.opens.get(other) else { return Ok(()) };
        let (client, file) = (open.owner.client, open.file.clone());
        let locks = self.locks.of_open(other, &file);
        let all: Vec<Loan<F>> = locks.iter().copied().chain([other]).map(Loan::Stateid).collect();
        let back: Vec<Result<(), Hindrance>> = all.iter().map(|loan| self.recall(loan, None)).collect();
        back.into_iter().collect::<Result<(), Hindrance>>()?;
        for lock in locks {
            self.end_lock(client, lock);
        }
        if let Some(open) = self.opens.remove(other) {
            self.growth.push(Growth { client, more: 0, fewer: open.bytes() });
            self.release(&file, open.ids.all());
        }
        Ok(())
    }

    fn end_lock(&mut self, client: ClientId, lock: StateidOther) {
        let fewer = self.locks.bytes(lock);
        self.locks.remove(lock);
        self.growth.push(Growth { client, more: 0, fewer });
    }

    /// Ends everything that a client has.
    ///
    /// # Errors
    /// Recalling, until every loan is back.
    pub fn end_client(&mut self, client: ClientId) -> Result<(), Hindrance> {
        let mine: Vec<StateidOther> = self.opens.of_client(client).collect();
        let ended: Vec<Result<(), Hindrance>> = mine.into_iter().map(|other| self.end_open(other)).collect();
        ended.into_iter().collect()
    }

    /// A stateid for READ, WRITE or SETATTR of a connection that does not know it.
    pub fn borrow(&mut self, from: M, named: &StateidUse<F>) -> Outcome<F> {
        let loan = self.named_open(named).or_else(|status| match status {
            Status::BAD_STATEID => self.named_lock(named),
            other => Err(other),
        })?;
        if self.loans.is_recalled(&Loan::Stateid(loan.other)) {
            return Err(Hindrance::Recalling);
        }
        Ok(self.lend(loan, from))
    }

    /// Access without an open (RFC 8881 §8.2.3).
    pub fn borrow_anonymous(&mut self, from: M, file: &F, access: Modes) -> Outcome<F> {
        let conflicts = self.opens.conflicts(None, file, Share { access, deny: Modes::NONE });
        if !conflicts.is_empty() {
            return Err(Hindrance::Shares(conflicts));
        }
        let loan = Loan::Anonymous(file.clone(), access);
        if self.loans.is_recalled(&loan) {
            return Err(Hindrance::Recalling);
        }
        self.loans.lend(loan, from);
        Ok(Answer::Anonymous)
    }

    /// LOCK (RFC 8881 §18.10). `room` is how many bytes the client may still take.
    pub fn lock(&mut self, from: M, request: &LockRequest<F>, room: usize) -> Outcome<F> {
        let (owner, open) = self.locker(request)?;
        let needed = if request.mode == LockMode::Write { Modes::WRITE } else { Modes::READ };
        if !self.opens.get(open).is_some_and(|open| open.share.access.contains(needed)) {
            return Err(Status::OPENMODE.into());
        }
        let wanted = LockedRange { range: request.range, mode: request.mode };
        if let Some(denied) = self.locks.conflict(&owner, &request.file, wanted) {
            return Err(Hindrance::Lock(denied));
        }
        let known = self.locks.find(&owner, &request.file);
        if let Some(other) = known {
            self.recall(&Loan::Stateid(other), Some(from))?;
        }
        // A range splits another into two at most.
        let cost = LOCK_COST.saturating_add(owner.owner.len()).saturating_add(RANGE_COST.saturating_mul(2));
        if cost > room {
            return Err(Status::DELAY.into());
        }
        let other = known.unwrap_or_else(|| self.begin_lock(owner, open, request.file.clone()));
        self.change(from, other, request.range, Some(request.mode))
    }

    /// Who locks, and by which open.
    fn locker(&self, request: &LockRequest<F>) -> Result<(StateOwner, StateidOther), Status> {
        let named = |stateid| StateidUse { client: request.client, file: request.file.clone(), stateid };
        match &request.locker {
            Locker::New { open, owner } => {
                let open = self.named_open(&named(*open))?;
                Ok((StateOwner { client: request.client, owner: owner.clone() }, open.other))
            }
            Locker::Existing(stateid) => {
                let lock = self.named_lock(&named(*stateid))?;
                let lock = self.locks.get(lock.other).ok_or(Status::BAD_STATEID)?;
                Ok((lock.owner.clone(), lock.open))
            }
        }
    }

    fn begin_lock(&mut self, owner: StateOwner, open: StateidOther, file: F) -> StateidOther {
        let fresh = self.fresh();
        let client = owner.client;
        self.locks.begin(LockState { owner, file, open, seqid: 0 }, fresh);
        self.growth.push(Growth { client, more: self.locks.bytes(fresh), fewer: 0 });
        fresh
    }

    fn change(
        &mut self,
        from: M,
        other: StateidOther,
        range: ByteRange,
        mode: Option<LockMode>,
    ) -> Outcome<F> {
        let fewer = self.locks.bytes(other);
        self.locks.change(other, range, mode).ok_or(Status::BAD_STATEID)?;
        let loan = self.lock_loan(other).ok_or(Status::SERVERFAULT)?;
        self.growth.push(Growth { client: loan.client, more: self.locks.bytes(other), fewer });
        Ok(self.lend(loan, from))
    }

    /// LOCKT (RFC 8881 §18.11).
    pub fn test_lock(&self, request: &LockTest<F>) -> Outcome<F> {
        let wanted = LockedRange { range: request.range, mode: request.mode };
        let denied = self.locks.conflict(&request.owner, &request.file, wanted);
        denied.map_or(Ok(Answer::Done), |denied| Err(Hindrance::Lock(denied)))
    }

    /// LOCKU (RFC 8881 §18.12). It may split a range in two.
    pub fn unlock(&mut self, from: M, named: &StateidUse<F>, range: ByteRange, room: usize) -> Outcome<F> {
        let found = self.named_lock(named)?;
        self.recall(&Loan::Stateid(found.other), Some(from))?;
        let splits = self.locks.ranges(found.other).is_some_and(|ranges| {
            ranges.iter().any(|locked| locked.range.first < range.first && range.last < locked.range.last)
        });
        if splits && RANGE_COST > room {
            return Err(Status::DELAY.into());
        }
        self.change(from, found.other, range, None)
    }

    /// FREE_STATEID (RFC 8881 §18.38): a lock stateid without locks. Nothing is ever revoked alone.
    pub fn free(&mut self, client: ClientId, stateid: Stateid) -> Outcome<F> {
        self.test(client, stateid)?;
        if self.opens.get(stateid.other).is_some() {
            return Err(Status::LOCKS_HELD.into());
        }
        if self.locks.ranges(stateid.other).is_some_and(|ranges| !ranges.is_empty()) {
            return Err(Status::LOCKS_HELD.into());
        }
        self.recall(&Loan::Stateid(stateid.other), None)?;
        self.end_lock(client, stateid.other);
        Ok(Answer::Done)
    }

    /// TEST_STATEID (RFC 8881 §18.48), for one.
    pub fn test(&self, client: ClientId, stateid: Stateid) -> Result<(), Status> {
        if stateid.kind() != StateidKind::State {
            return Err(Status::BAD_STATEID);
        }
        let found = self.open_loan(stateid.other).or_else(|| self.lock_loan(stateid.other));
        let found = found.filter(|found| found.client == client).ok_or(Status::BAD_STATEID)?;
        check_seqid(stateid.seqid, found.seqid)
    }
}
