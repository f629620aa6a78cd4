//! The names that both roles give their work requests.

use verbs::WorkId;

/// What a work request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A capsule is received.
    Receive,
    /// A capsule is sent.
    Send,
    /// A read's data goes to the host.
    Write,
    /// The data of the command in this slot comes from the host.
    Read(u16),
    /// The memory of this command is registered.
    Register(u16),
    /// The memory of this command is the host's own again.
    Invalidate(u16),
}

impl Work {
    pub(super) const fn id(self) -> WorkId {
        let (kind, value) = match self {
            Self::Receive => (0, 0),
            Self::Send => (1, 0),
            Self::Write => (2, 0),
            Self::Read(slot) => (3, slot),
            Self::Register(cid) => (4, cid),
            Self::Invalidate(cid) => (5, cid),
        };
        WorkId(kind << 16 | value as u64)
    }

    /// What a work request of that name was for.
    pub(super) const fn of(id: WorkId) -> Self {
        let value = (id.0 & 0xffff) as u16;
        match id.0 >> 16 {
            0 => Self::Receive,
            1 => Self::Send,
            2 => Self::Write,
            3 => Self::Read(value),
            4 => Self::Register(value),
            _ => Self::Invalidate(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_understood() {
        let all = [
            Work::Receive,
            Work::Send,
            Work::Write,
            Work::Read(7),
            Work::Register(8),
            Work::Invalidate(u16::MAX),
        ];
        for work in all {
            assert_eq!(Work::of(work.id()), work);
        }
    }
}
