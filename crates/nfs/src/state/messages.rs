//! What connections and the group say to each other.
//!
//! A [`Call`] is answered once, with its tag. A [`Notice`] is not answered.

use alloc::vec::Vec;

use buf::SharedBuf;
use filesystem::OpenId;

use super::answers::CallKey;
use super::clients::{Exchanged, Owner, Purpose};
use super::loans::Loan;
use super::locks::Denied;
use super::opens::{OpenIds, StateOwner};
use super::ranges::{ByteRange, LockMode};
use super::sessions::{ChannelAttributes, CreatedSession};
use super::slot::Slot;
use crate::v4::{ClientId, Modes, Principal, SessionId, Share, Stateid, StateidOther, Status};

/// Whether state is claimed anew or from before a restart (RFC 8881 §8.4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Anew.
    New,
    /// Reclaimed.
    Reclaim,
}

/// `rca_one_fs` (RFC 8881 §18.51).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimScope {
    /// Everything.
    Global,
    /// One file system, after a migration.
    OneFileSystem,
}

/// CREATE_SESSION.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// Whose.
    pub client: ClientId,
    /// `csa_sequence`.
    pub sequence: u32,
    /// Who asks.
    pub principal: Principal,
    /// The attributes of the fore channel that are asked for.
    pub attributes: ChannelAttributes,
}

/// A stateid of a client, with the file that it is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateidUse<F> {
    /// The client of the session.
    pub client: ClientId,
    /// The current file.
    pub file: F,
    /// What was sent.
    pub stateid: Stateid,
}

/// OPEN, once its file is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest<F> {
    /// The open owner.
    pub owner: StateOwner,
    /// The file.
    pub file: F,
    /// What is wanted.
    pub share: Share,
    /// What the file system knows it by. If it is refused, the connection closes that; afterwards the group says when.
    pub id: OpenId,
    /// Anew or from before.
    pub claim: Claim,
}

/// How a LOCK names its owner (`locker4`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locker {
    /// By the open that it belongs to.
    New {
        /// The open.
        open: Stateid,
        /// The lock owner.
        owner: Vec<u8>,
    },
    /// By its lock stateid.
    Existing(Stateid),
}

/// LOCK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest<F> {
    /// The client of the session.
    pub client: ClientId,
    /// The current file.
    pub file: F,
    /// Who wants it.
    pub locker: Locker,
    /// Which bytes.
    pub range: ByteRange,
    /// How.
    pub mode: LockMode,
    /// Anew or from before.
    pub claim: Claim,
}

/// LOCKT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockTest<F> {
    /// The lock owner.
    pub owner: StateOwner,
    /// The current file.
    pub file: F,
    /// Which bytes.
    pub range: ByteRange,
    /// How.
    pub mode: LockMode,
}

/// Something that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call<F> {
    /// EXCHANGE_ID.
    ExchangeId(Owner, Purpose),
    /// CREATE_SESSION.
    CreateSession(SessionRequest),
    /// A SEQUENCE came for a slot that the connection does not have.
    TakeSlot(SessionId, u32),
    /// BIND_CONN_TO_SESSION: does the session exist?
    FindSession(SessionId),
    /// DESTROY_SESSION.
    DestroySession(SessionId),
    /// DESTROY_CLIENTID.
    DestroyClientId(ClientId),
    /// RECLAIM_COMPLETE.
    ReclaimComplete(ClientId, ReclaimScope),
    /// READ, WRITE or SETATTR came with a stateid that the connection does not have, or not so new.
    Borrow(StateidUse<F>),
    /// The same with a special stateid.
    BorrowAnonymous(F, Modes),
    /// OPEN is about to make a file: may the client claim anything new? Once it may, it may for ever: a grace period does not come back.
    Admit(ClientId),
    /// OPEN.
    Open(OpenRequest<F>),
    /// OPEN_DOWNGRADE.
    Downgrade(StateidUse<F>, Share),
    /// CLOSE.
    Close(StateidUse<F>),
    /// LOCK.
    Lock(LockRequest<F>),
    /// LOCKT.
    TestLock(LockTest<F>),
    /// LOCKU.
    Unlock(StateidUse<F>, ByteRange),
    /// FREE_STATEID.
    FreeStateid(ClientId, Stateid),
    /// TEST_STATEID.
    TestStateids(ClientId, Vec<Stateid>),
    /// Version 3: is this call new? [`Answer::Done`], or [`Answer::Repeated`], or DELAY where it can be said only later.
    Once(CallKey),
}

/// Something that is not answered.
#[derive(Debug, Clone)]
pub enum Notice<F> {
    /// A slot comes back.
    ReturnSlot(SessionId, u32, Slot),
    /// A slot was asked for, and is being used.
    SlotBusy(SessionId, u32),
    /// A loan comes back: no request is under way any more that was judged by it.
    GiveBack(Loan<F>),
    /// The client was there.
    Renew(ClientId),
    /// A call of version 3 that was new has this answer.
    Answered(CallKey, SharedBuf),
}

/// From a connection to the group.
#[derive(Debug, Clone)]
pub enum Request<F> {
    /// To be answered.
    Call {
        /// Comes back with the answer.
        tag: u64,
        /// What is asked.
        call: Call<F>,
    },
    /// Not to be answered.
    Notice(Notice<F>),
}

/// What a connection knows of a stateid that it has on loan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateidLoan<F> {
    /// Whose.
    pub client: ClientId,
    /// Which.
    pub other: StateidOther,
    /// The newest seqid.
    pub seqid: u32,
    /// The file.
    pub file: F,
    /// What it allows.
    pub access: Modes,
    /// What the file system knows the open by.
    pub ids: OpenIds,
}

impl<F> StateidLoan<F> {
    /// The stateid, as it is newest.
    pub fn stateid(&self) -> Stateid {
        Stateid { seqid: self.seqid, other: self.other }
    }
}

/// A slot on loan, and what its holder has to know of the session.
#[derive(Debug, Clone)]
pub struct SlotLoan {
    /// The slot.
    pub slot: Slot,
    /// The session's client.
    pub client: ClientId,
    /// The session's attributes.
    pub attributes: ChannelAttributes,
}

/// What a call came to.
#[derive(Debug, Clone)]
pub enum Answer<F> {
    /// It is done.
    Done,
    /// EXCHANGE_ID.
    Exchanged(Exchanged),
    /// CREATE_SESSION.
    SessionCreated(CreatedSession),
    /// The slot.
    Slot(SlotLoan),
    /// A stateid: that of OPEN, OPEN_DOWNGRADE, LOCK or LOCKU, or what was borrowed. It is on loan now.
    Lent(StateidLoan<F>),
    /// Anonymous access is on loan now.
    Anonymous,
    /// LOCK, LOCKT: somebody else has a lock.
    Denied(Denied),
    /// TEST_STATEID.
    Tested(Vec<Status>),
    /// The call was carried out before, with this answer.
    Repeated(SharedBuf),
}

/// From the group to a connection.
#[derive(Debug, Clone)]
pub enum Reply<F> {
    /// The answer to a call.
    Answer {
        /// The call's tag.
        tag: u64,
        /// What it came to.
        result: Result<Answer<F>, Status>,
    },
    /// Give this back ([`Notice::GiveBack`]) once nothing is under way that was judged by it.
    Recall(Loan<F>),
    /// Give this slot back ([`Notice::ReturnSlot`]), or say that it is busy ([`Notice::SlotBusy`]).
    RecallSlot(SessionId, u32),
    /// There is no such session any more.
    SessionEnded(SessionId),
}
