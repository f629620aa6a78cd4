//! Bugs that the world plants in what goes between the parts of the server, each of which a trial must find. The product knows none of them.

use std::collections::BTreeMap;

use filesystem::{Completion, Operation, Outcome, Request, Stability, WccData, WriteVerifier};
use nfs::server::exports::FileKey;
use nfs::state::messages::{Answer, Call, Notice, Reply, Request as GroupRequest};
use nfs::state::ranges::LockMode;
use nfs::state::slot::{Fingerprint, Slot};
use nfs::v4::{Modes, Principal, SessionId};

/// What may be wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// COMMIT is answered before the file system has carried it out.
    EarlyCommit,
    /// WRITE is answered as durable though it is not.
    FalseStability,
    /// The write verifier is the same after a restart.
    SameVerifier,
    /// A slot forgets its last request when it goes from one connection to another.
    ForgetfulSlot,
    /// A slot goes to another connection while its request is under way.
    BusySlotGivenAway,
    /// A lock for writing is looked at as one for reading.
    LocksShared,
    /// What an OPEN denies is not looked at.
    DenyIgnored,
    /// A stateid counts as given back at once when it is recalled.
    NoRecall,
    /// Grace ends as soon as it has begun.
    ShortGrace,
    /// A client's record counts as durable when it is asked for.
    RecordNotDurable,
    /// The record of a client that gave way counts as removed when that is asked for.
    RecordNotRemoved,
    /// Connections do not tell the group that a client was there.
    RenewalsLost,
}

/// The bug of a world, if it has one.
#[derive(Debug, Default)]
pub struct Planted {
    pub bug: Option<Bug>,
    verifier: Option<WriteVerifier>,
    /// Commits that were answered already.
    answered: Vec<(usize, u64)>,
    /// Slots that connections have asked for, by the call.
    taken: BTreeMap<(usize, u64), (SessionId, u32)>,
    /// The sequence ID that each slot was used with last.
    pub sequences: BTreeMap<(SessionId, u32), u32>,
}

impl Planted {
    pub fn new(bug: Option<Bug>) -> Self {
        Self { bug, ..Self::default() }
    }

    pub fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// A request goes to the file system; its end, if the bug is that it does not wait for that.
    pub fn submitted(&mut self, link: usize, request: &Request) -> Option<Completion> {
        let is_commit = matches!(request.operation, Operation::Commit { .. });
        if !is_commit || !self.is(Bug::EarlyCommit) {
            return None;
        }
        let verifier = self.verifier?;
        self.answered.push((link, request.tag.0));
        let file = WccData::default();
        Some(Completion { tag: request.tag, result: Ok(Outcome::Committed { verifier, file }) })
    }

    /// A request as the file system gets it.
    pub fn weakened(&self, mut request: Request) -> Request {
        if self.is(Bug::FalseStability)
            && let Operation::Write { stability, .. } = &mut request.operation
        {
            *stability = Stability::Unstable;
        }
        request
    }

    /// The file system has carried a request out; what is told of it, if anything.
    pub fn completed(&mut self, link: usize, mut completion: Completion) -> Option<Completion> {
        let is_same = self.is(Bug::SameVerifier);
        let is_false = self.is(Bug::FalseStability);
        if let Ok(Outcome::Written { verifier, .. } | Outcome::Committed { verifier, .. }) =
            &mut completion.result
        {
            let first = *self.verifier.get_or_insert(*verifier);
            if is_same {
                *verifier = first;
            } else {
                self.verifier = Some(*verifier);
            }
        }
        if is_false && let Ok(Outcome::Written { stability, .. }) = &mut completion.result {
            *stability = Stability::FileSync;
        }
        let key = (link, completion.tag.0);
        if let Some(at) = self.answered.iter().position(|answered| *answered == key) {
            self.answered.swap_remove(at);
            return None;
        }
        Some(completion)
    }

    /// The server has stopped.
    pub fn stopped(&mut self) {
        self.answered.clear();
        if !self.is(Bug::SameVerifier) {
            self.verifier = None;
        }
    }

    /// A connection says something to the group.
    pub fn said(&mut self, link: usize, request: GroupRequest<FileKey>) -> Option<GroupRequest<FileKey>> {
        Some(match (self.bug, request) {
            (Some(Bug::RenewalsLost), GroupRequest::Notice(Notice::Renew(_))) => return None,
            (Some(Bug::BusySlotGivenAway), GroupRequest::Notice(Notice::SlotBusy(session, number))) => {
                let slot = self.before(session, number);
                GroupRequest::Notice(Notice::ReturnSlot(session, number, slot))
            }
            (Some(Bug::ForgetfulSlot), GroupRequest::Call { tag, call: Call::TakeSlot(session, number) }) => {
                self.taken.insert((link, tag), (session, number));
                GroupRequest::Call { tag, call: Call::TakeSlot(session, number) }
            }
            (Some(Bug::LocksShared), GroupRequest::Call { tag, call: Call::Lock(mut lock) }) => {
                lock.mode = LockMode::Read;
                GroupRequest::Call { tag, call: Call::Lock(lock) }
            }
            (Some(Bug::DenyIgnored), GroupRequest::Call { tag, call: Call::Open(mut open) }) => {
                open.share.deny = Modes::NONE;
                GroupRequest::Call { tag, call: Call::Open(open) }
            }
            (_, request) => request,
        })
    }

    /// A slot as it was before its last request.
    fn before(&self, session: SessionId, number: u32) -> Slot {
        let request = Fingerprint { len: 0, sum: 0, principal: Principal::Nobody };
        let mut slot = Slot::new();
        for sequence in 1..self.sequences.get(&(session, number)).copied().unwrap_or(0) {
            slot.begin(sequence, request);
            slot.finish(None);
        }
        slot
    }

    /// The group says something to a connection; or what the group hears in place of that.
    pub fn heard(
        &mut self,
        link: usize,
        reply: Reply<FileKey>,
    ) -> Result<Reply<FileKey>, GroupRequest<FileKey>> {
        match reply {
            Reply::Recall(loan) if self.is(Bug::NoRecall) => {
                Err(GroupRequest::Notice(Notice::GiveBack(loan)))
            }
            Reply::Answer { tag, result: Ok(Answer::Slot(mut loan)) } => {
                if let Some((session, number)) = self.taken.remove(&(link, tag)) {
                    loan.slot = self.before(session, number);
                }
                Ok(Reply::Answer { tag, result: Ok(Answer::Slot(loan)) })
            }
            reply => Ok(reply),
        }
    }
}
