//! The small types that messages and state share (RFC 8881 §3.2, §3.3).

use core::fmt;

/// `clientid4`: a client's record at this server (RFC 8881 §2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// `sessionid4` (RFC 8881 §2.10.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

/// `verifier4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Verifier(pub [u8; 8]);

/// The part of a stateid that names the state (RFC 8881 §8.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateidOther(pub [u8; 12]);

/// `stateid4` (RFC 8881 §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stateid {
    /// Which version of the state is meant; zero means the newest.
    pub seqid: u32,
    /// Which state.
    pub other: StateidOther,
}

/// What a stateid that is sent can be (RFC 8881 §8.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateidKind {
    /// All zeros: no open.
    Anonymous,
    /// All ones: no open, and no deny mode stands in a READ's way. A WRITE takes it as anonymous.
    ReadBypass,
    /// The stateid that an earlier operation of this COMPOUND gave.
    Current,
    /// Never valid: what `Current` means when no operation gave one.
    Invalid,
    /// State of this server, if it has it.
    State,
}

impl Stateid {
    /// No open (RFC 8881 §8.2.3).
    pub const ANONYMOUS: Self = Self { seqid: 0, other: StateidOther([0; 12]) };
    /// No open, and past deny modes.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: StateidOther([0xff; 12]) };
    /// That of the COMPOUND.
    pub const CURRENT: Self = Self { seqid: 1, other: StateidOther([0; 12]) };
    /// Never valid.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: StateidOther([0; 12]) };

    /// Which of the standard's kinds it is. Zeros or ones with another seqid name no state either, and are [`StateidKind::Invalid`].
    pub fn kind(self) -> StateidKind {
        match self {
            Self::ANONYMOUS => StateidKind::Anonymous,
            Self::READ_BYPASS => StateidKind::ReadBypass,
            Self::CURRENT => StateidKind::Current,
            Self { other: StateidOther(other), .. } if other == [0; 12] || other == [0xff; 12] => {
                StateidKind::Invalid
            }
            _ => StateidKind::State,
        }
    }
}

/// Who sends a request, as far as the owner of state is concerned (RFC 8881 §2.4.2): the RPC's credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Principal {
    /// AUTH_NONE.
    #[default]
    Nobody,
    /// AUTH_SYS, by its user.
    User(
        /// The user's number.
        u32,
    ),
}

/// Reading and writing, each wanted or not: what an open accesses, and what it denies others (RFC 8881 §9.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Modes {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

impl Modes {
    /// Neither.
    pub const NONE: Self = Self { read: false, write: false };
    /// Reading.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const BOTH: Self = Self { read: true, write: true };

    /// The value of `OPEN4_SHARE_ACCESS_*` or `OPEN4_SHARE_DENY_*` (RFC 8881 §18.16.1); `None` for others.
    pub fn from_wire(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::NONE),
            1 => Some(Self::READ),
            2 => Some(Self::WRITE),
            3 => Some(Self::BOTH),
            _ => None,
        }
    }

    /// What one or the other has.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }

    /// True if it has everything that `other` has.
    pub fn contains(self, other: Self) -> bool {
        self.union(other) == self
    }

    /// True if both have something.
    pub fn meets(self, other: Self) -> bool {
        (self.read && other.read) || (self.write && other.write)
    }
}

impl fmt::Debug for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.read, self.write) {
            (false, false) => "none",
            (true, false) => "read",
            (false, true) => "write",
            (true, true) => "both",
        })
    }
}

/// What one open wants (RFC 8881 §9.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share {
    /// What it accesses.
    pub access: Modes,
    /// What it denies to everybody else.
    pub deny: Modes,
}

impl Share {
    /// What the two have together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { access: self.access.union(other.access), deny: self.deny.union(other.deny) }
    }

    /// True if it has everything that `other` has.
    pub fn contains(self, other: Self) -> bool {
        self.access.contains(other.access) && self.deny.contains(other.deny)
    }

    /// True if two different owners cannot both have theirs (RFC 8881 §9.7).
    pub fn conflicts(self, other: Self) -> bool {
        self.access.meets(other.deny) || self.deny.meets(other.access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_stateids() {
        let odd = |seqid, byte| Stateid { seqid, other: StateidOther([byte; 12]) };
        let kinds = [
            (odd(0, 0), StateidKind::Anonymous),
            (odd(u32::MAX, 0xff), StateidKind::ReadBypass),
            (odd(1, 0), StateidKind::Current),
            (Stateid::INVALID, StateidKind::Invalid),
            (odd(2, 0), StateidKind::Invalid),
            (odd(0, 0xff), StateidKind::Invalid),
            (odd(0, 1), StateidKind::State),
        ];
        for (stateid, kind) in kinds {
            assert_eq!(stateid.kind(), kind, "{stateid:?}");
        }
    }

    #[test]
    fn conflicts_are_mutual_and_need_a_deny_mode() {
        let all = [Modes::NONE, Modes::READ, Modes::WRITE, Modes::BOTH];
        for (access, deny) in all.iter().flat_map(|access| all.iter().map(move |deny| (*access, *deny))) {
            let one = Share { access, deny };
            for other in all
                .iter()
                .flat_map(|access| all.iter().map(move |deny| Share { access: *access, deny: *deny }))
            {
                assert_eq!(one.conflicts(other), other.conflicts(one));
                if one.deny == Modes::NONE && other.deny == Modes::NONE {
                    assert!(!one.conflicts(other));
                }
            }
        }
        let writer = Share { access: Modes::WRITE, deny: Modes::NONE };
        assert!(writer.conflicts(Share { access: Modes::READ, deny: Modes::WRITE }));
        assert!(!writer.conflicts(Share { access: Modes::READ, deny: Modes::READ }));
    }
}
