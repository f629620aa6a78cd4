//! What a client asks for, as a COMPOUND, and what the answer says.

use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Stateid, Status};

use crate::common::{Caller, CompoundCall, Op, Results, op};

/// Bytes between two places that writes go to: a page of the file system, which a crash takes whole or not at all.
pub const PAGE: u64 = 4096;
/// OPEN4_SHARE_ACCESS_WRITE, OPEN4_SHARE_DENY_WRITE.
pub const WRITE: u32 = 2;

/// A place that writes go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: usize,
    pub page: u64,
}

/// An OPEN's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub access: u32,
    pub deny: u32,
}

impl Share {
    pub fn union(self, other: Self) -> Self {
        Self { access: self.access | other.access, deny: self.deny | other.deny }
    }

    /// Whether both cannot be (RFC 8881 §9.7).
    pub fn conflicts(self, other: Self) -> bool {
        self.access & other.deny != 0 || self.deny & other.access != 0
    }
}

/// A byte-range lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub offset: u64,
    pub length: u64,
    pub exclusive: bool,
}

impl Range {
    pub fn conflicts(self, other: Self) -> bool {
        let apart = self.offset + self.length <= other.offset || other.offset + other.length <= self.offset;
        !apart && (self.exclusive || other.exclusive)
    }

    /// READ_LT, WRITE_LT.
    fn kind(self) -> u32 {
        if self.exclusive { 2 } else { 1 }
    }
}

/// An unstable write that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unstable {
    pub place: Place,
    pub number: u64,
    pub verifier: [u8; 8],
}

/// What one COMPOUND is for. `worker` is the one whose open or lock it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    ExchangeId,
    CreateSession(ClientId, u32),
    ReclaimComplete,
    ReclaimOpen { worker: usize, file: usize, share: Share },
    ReclaimLock { worker: usize, open: Stateid, file: usize, range: Range },
    Renew,
    Open { file: usize, share: Share },
    Downgrade { stateid: Stateid, file: usize, share: Share },
    Close { stateid: Stateid, lock: Option<Stateid>, file: usize },
    Lock { open: Stateid, known: Option<Stateid>, file: usize, range: Range },
    Unlock { stateid: Stateid, file: usize, range: Range },
    Write { number: u64, place: Place, stateid: Stateid, stable: u32 },
    Commit { file: usize, covers: Vec<Unstable> },
    Make { name: String },
    Rename { from: String, to: String },
    Remove { name: String },
}

/// What names a client and its handles.
pub struct Names<'a> {
    pub client: &'a str,
    pub incarnation: u8,
    pub worker: usize,
    pub root: &'a [u8],
    pub files: &'a [Vec<u8>],
}

impl Work {
    /// Whether a session is needed.
    pub fn is_in_session(&self) -> bool {
        !matches!(self, Self::ExchangeId | Self::CreateSession(..))
    }

    /// Whether it is asked for until it is done.
    pub fn must_succeed(&self) -> bool {
        matches!(self, Self::Close { .. } | Self::Unlock { .. } | Self::Downgrade { .. })
    }

    /// The operations behind SEQUENCE.
    pub fn operations(&self, names: &Names<'_>) -> Vec<Op> {
        let owner = |worker: usize| format!("{} {worker}", names.client).into_bytes();
        let at = |file: &usize| op::putfh(&names.files[*file]);
        let root = || op::putfh(names.root);
        match self {
            Self::ExchangeId => vec![op::exchange_id(names.client.as_bytes(), names.incarnation, 0)],
            Self::CreateSession(client, sequence) => vec![op::create_session(*client, *sequence, 8)],
            Self::ReclaimComplete => vec![op::reclaim_complete(false)],
            Self::ReclaimOpen { worker, file, share } => {
                let (how, claim) = (op::How::NoCreate, op::Claim::Previous);
                vec![at(file), op::open(&owner(*worker), share.access, share.deny, how, claim)]
            }
            Self::ReclaimLock { worker, open, file, range } => {
                let lock = op::lock_reclaim(range.kind(), range.offset, range.length, *open, &owner(*worker));
                vec![at(file), lock]
            }
            Self::Renew => vec![],
            Self::Open { file, share } => {
                let name = format!("f{file}");
                let (how, claim) = (op::How::NoCreate, op::Claim::Null(&name));
                vec![root(), op::open(&owner(names.worker), share.access, share.deny, how, claim)]
            }
            Self::Downgrade { stateid, file, share } => {
                vec![at(file), op::downgrade(*stateid, share.access, share.deny)]
            }
            Self::Close { stateid, file, .. } => vec![at(file), op::close(*stateid)],
            Self::Lock { open, known, file, range } => {
                let (kind, offset, length) = (range.kind(), range.offset, range.length);
                let lock = match known {
                    Some(known) => op::lock(kind, offset, length, *known),
                    None => op::lock_new(kind, offset, length, *open, &owner(names.worker)),
                };
                vec![at(file), lock]
            }
            Self::Unlock { stateid, file, range } => {
                vec![at(file), op::locku(*stateid, range.offset, range.length)]
            }
            Self::Write { number, place, stateid, stable } => {
                let data = [number.to_be_bytes(), number.to_be_bytes()].concat();
                vec![at(&place.file), op::write_as(*stable, *stateid, place.page * PAGE, &data)]
            }
            Self::Commit { file, .. } => vec![at(file), op::commit(0, 0)],
            Self::Make { name } => vec![root(), op::create(2, name)],
            Self::Rename { from, to } => vec![root(), op::savefh(), op::rename(from, to)],
            Self::Remove { name } => vec![root(), op::remove(name)],
        }
    }

    /// The operation that matters, which is the last.
    fn number(&self) -> OpNumber {
        match self {
            Self::ExchangeId => OpNumber::EXCHANGE_ID,
            Self::CreateSession(..) => OpNumber::CREATE_SESSION,
            Self::ReclaimComplete => OpNumber::RECLAIM_COMPLETE,
            Self::ReclaimOpen { .. } | Self::Open { .. } => OpNumber::OPEN,
            Self::ReclaimLock { .. } | Self::Lock { .. } => OpNumber::LOCK,
            Self::Renew => OpNumber::SEQUENCE,
            Self::Downgrade { .. } => OpNumber::OPEN_DOWNGRADE,
            Self::Close { .. } => OpNumber::CLOSE,
            Self::Unlock { .. } => OpNumber::LOCKU,
            Self::Write { .. } => OpNumber::WRITE,
            Self::Commit { .. } => OpNumber::COMMIT,
            Self::Make { .. } => OpNumber::CREATE,
            Self::Rename { .. } => OpNumber::RENAME,
            Self::Remove { .. } => OpNumber::REMOVE,
        }
    }
}

/// What was answered, as far as anybody here wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    None,
    Client(ClientId, u32),
    Session(SessionId),
    Stateid(Stateid),
    Written { stable: u32, verifier: [u8; 8] },
    Committed([u8; 8]),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// SEQUENCE was accepted (or none was needed): the status is that of an operation behind it.
    pub in_slot: bool,
    pub body: Body,
}

/// Reads an answer to `work`.
pub fn read(work: &Work, record: &[u8]) -> Answer {
    let mut results = Results::new(record.to_vec());
    let mut answer = Answer { status: results.status, in_slot: true, body: Body::None };
    if work.is_in_session() {
        let sequence = results.next(OpNumber::SEQUENCE);
        if sequence != Status::OK {
            return Answer { in_slot: false, ..answer };
        }
        results.get::<[u8; 16]>();
        for _ in 0..5 {
            results.get::<u32>();
        }
    }
    if answer.status != Status::OK || *work == Work::Renew {
        return answer;
    }
    loop {
        let number = OpNumber(results.get::<u32>());
        assert_eq!(Status(results.get::<u32>()), Status::OK);
        if number == work.number() {
            break;
        }
    }
    answer.body = match work {
        Work::ExchangeId => Body::Client(ClientId(results.get()), results.get()),
        Work::CreateSession(..) => Body::Session(SessionId(results.get())),
        Work::Open { .. }
        | Work::ReclaimOpen { .. }
        | Work::Downgrade { .. }
        | Work::Lock { .. }
        | Work::ReclaimLock { .. }
        | Work::Unlock { .. } => Body::Stateid(results.stateid()),
        Work::Write { .. } => {
            results.get::<u32>();
            Body::Written { stable: results.get(), verifier: results.get() }
        }
        Work::Commit { .. } => Body::Committed(results.get()),
        _ => Body::None,
    };
    answer
}

/// A COMPOUND without a session.
pub fn alone(work: &Work, names: &Names<'_>) -> CompoundCall {
    CompoundCall::of(&work.operations(names))
}

/// A COMPOUND in a slot.
pub fn in_slot(work: &Work, names: &Names<'_>, slot: &Slot) -> CompoundCall {
    let number = u32::try_from(names.worker).unwrap();
    let mut operations = vec![op::sequence(slot.session, slot.sequence, number, 7, slot.cache)];
    operations.extend(work.operations(names));
    CompoundCall::of(&operations)
}

/// Where a COMPOUND stands in its session; the slot's number is that of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub session: SessionId,
    pub sequence: u32,
    pub cache: bool,
}

/// In whose name clients call.
pub const CALLER: Caller = Caller::User(1000);
