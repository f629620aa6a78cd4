//! Faults that are planted into a server from outside: in what passes between its parts, its file system and its stable storage. Each breaks one promise, and
//! must be found.

use nfs::state::slot::{Fingerprint, Slot};
use nfs::v4::Principal;

/// What is wrong with a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    /// COMMIT is answered, and the file system never hears of it.
    CommitIsNotDone,
    /// A write that was to be durable stays in the cache.
    DurableIsCached,
    /// The write verifier is the same after a loss.
    VerifierIsKept,
    /// A client that sees another verifier takes what it has written for safe.
    ClientForgets,
    /// A slot goes from connection to connection without what it has executed.
    SlotForgets,
    /// A slot is handed over while a request of it is being carried out.
    BusySlotIsHandedOver,
    /// Deny modes are not looked at.
    SharesAreNotJudged,
    /// Every lock is taken for a shared one.
    LocksAreNotJudged,
    /// A loan counts as returned before its holder has heard of the recall.
    LoanIsNotRecalled,
    /// Grace is over at once.
    GraceIsSkipped,
    /// Grace ends, for everybody, with the first who comes back.
    GraceEndsEarly,
    /// A record counts as durable before it is.
    RecordIsNotDurable,
    /// The record of a client whose state was given away stays.
    RecordStays,
    /// No connection tells that a client was there.
    LeaseIsNotRenewed,
}

impl Bug {
    /// All, with words of what they break.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::CommitIsNotDone, "is lost"),
        (Self::DurableIsCached, "is lost"),
        (Self::VerifierIsKept, "is lost"),
        (Self::ClientForgets, "is lost"),
        (Self::SlotForgets, "carried out twice"),
        (Self::BusySlotIsHandedOver, "carried out twice"),
        (Self::SharesAreNotJudged, "shares that conflict"),
        (Self::LocksAreNotJudged, "locks that conflict"),
        (Self::LoanIsNotRecalled, "a write after"),
        (Self::GraceIsSkipped, "that conflict"),
        (Self::GraceEndsEarly, "that conflict"),
        (Self::RecordIsNotDurable, "that conflict"),
        (Self::RecordStays, "reclaims what another has had"),
        (Self::LeaseIsNotRenewed, "that conflict"),
    ];
}

/// A slot as it was before its request of that number.
pub fn before(sequence: u32) -> Slot {
    let mut slot = Slot::new();
    for earlier in 1..sequence {
        let _executes = slot.begin(earlier, Fingerprint { len: 0, sum: 0, principal: Principal::Nobody });
        slot.finish(None);
    }
    slot
}
