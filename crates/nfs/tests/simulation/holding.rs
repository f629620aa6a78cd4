//! What a client holds: opens with their share reservations, and a byte-range lock of each.

use nfs::v4::{Modes, Share, Stateid};
use protocol::Instant;

/// Files that clients share.
pub const FILES: usize = 2;
/// Ranges that they lock: offset and length. The first two meet.
pub const RANGES: [(u64, u64); 3] = [(0, 10), (5, 10), (20, 5)];
pub const READ: u32 = 1;
pub const WRITE: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// OPEN is under way.
    Opening,
    Held,
    /// A CLOSE was sent.
    Closing,
    /// The CLOSE was answered.
    Closed,
    /// The server has forgotten it, or it was never given.
    Gone,
}

/// A lock by an open's own lock owner.
#[derive(Debug, Clone, Copy)]
pub struct Lock {
    /// Which of [`RANGES`].
    pub range: usize,
    pub kind: u32,
}

/// One open.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Names it among all of the world; its owners are called by it.
    pub number: u64,
    pub file: usize,
    pub access: u32,
    pub deny: u32,
    pub stateid: Stateid,
    pub standing: Standing,
    /// The lock that is held.
    pub lock: Option<Lock>,
    /// The lock stateid, once there is one.
    pub locker: Option<Stateid>,
    pub busy: bool,
    /// It was got from a client ID that the server does not know any more: until then it stands, if it is not reclaimed.
    pub frozen: Option<Instant>,
    /// When somebody else was heard to have what conflicts with it.
    pub tainted: Option<Instant>,
}

fn modes(bits: u32) -> Modes {
    Modes { read: bits & READ != 0, write: bits & WRITE != 0 }
}

impl Holding {
    pub fn owner(&self) -> Vec<u8> {
        format!("owner {}", self.number).into_bytes()
    }

    pub fn share(&self) -> Share {
        Share { access: modes(self.access), deny: modes(self.deny) }
    }

    /// How two holdings conflict, if they do.
    pub fn conflict(&self, other: &Self) -> Option<&'static str> {
        if self.file != other.file || self.number == other.number {
            return None;
        }
        if self.share().conflicts(other.share()) {
            return Some("shares that conflict");
        }
        let (one, two) = (self.lock?, other.lock?);
        let [(first, length), (second, width)] = [one.range, two.range].map(|range| RANGES[range]);
        let meet = first < second + width && second < first + length;
        (meet && (one.kind == WRITE || two.kind == WRITE)).then_some("locks that conflict")
    }
}
