//! What is kept of a request while a connection has it, so that it can be sent again over the next one.
//!
//! May it be? A read, a comparison, a verification or an allocation query changes nothing. A write, a discard or a write-zeroes
//! leaves the same blocks behind however often it is carried out; but only if no copy of it is carried out *after* it was
//! reported complete, for then it would undo what was written later. So it is sent again only once the copy that the old
//! connection carried can no longer take effect: see [`super::queue::Route::quiet_time`]. A compare-and-write that has been
//! carried out would fail when carried out again: it never is. A flush can be, but may find nothing to flush: see
//! [`super::durability`]. docs/volume-contract.md has the promises.

use ::volume::{Durability, Extent, Operation};
use buf::{Buf, BufList};

/// A request's copy.
#[derive(Debug)]
pub(crate) enum Replay {
    /// The request's own memory is with the connection, which gives it back.
    Read {
        extent: Extent,
        length: usize,
    },
    Write {
        extent: Extent,
        data: BufList,
        durability: Durability,
    },
    Flush,
    Discard {
        extent: Extent,
    },
    WriteZeroes {
        extent: Extent,
        durability: Durability,
        may_unmap: bool,
    },
    Compare {
        extent: Extent,
        data: BufList,
    },
    Verify {
        extent: Extent,
    },
    QueryAllocation {
        extent: Extent,
    },
    /// It must not be carried out twice.
    Never(Durability),
}

impl Replay {
    /// The copy of an operation; its data is shared.
    #[inline]
    pub(crate) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Read { extent, into } => Self::Read { extent: *extent, length: into.len() },
            Operation::Write { extent, data, durability } => {
                Self::Write { extent: *extent, data: data.clone(), durability: *durability }
            }
            Operation::Flush => Self::Flush,
            Operation::Discard { extent } => Self::Discard { extent: *extent },
            Operation::WriteZeroes { extent, durability, may_unmap } => {
                Self::WriteZeroes { extent: *extent, durability: *durability, may_unmap: *may_unmap }
            }
            Operation::Compare { extent, data } => Self::Compare { extent: *extent, data: data.clone() },
            Operation::Verify { extent } => Self::Verify { extent: *extent },
            Operation::QueryAllocation { extent } => Self::QueryAllocation { extent: *extent },
            Operation::CompareAndWrite { durability, .. } => Self::Never(*durability),
            // Whoever changes reservations looks at them again first.
            Operation::Reserve(_) | Operation::ReadReservations => Self::Never(Durability::Durable),
            // What is not known here is not carried out twice.
            _ => Self::Never(Durability::Cached),
        }
    }

    /// The operation again, if it may be carried out again. A read's memory is `memory`; without it, as the connection ended while it was being
    /// filled, other memory is allocated.
    pub(crate) fn operation(&self, memory: Option<Buf>) -> Option<Operation> {
        Some(match self {
            Self::Read { extent, length } => {
                let whole = memory.filter(|memory| memory.len() == *length);
                Operation::Read { extent: *extent, into: whole.unwrap_or_else(|| Buf::zeroed(*length)) }
            }
            Self::Write { extent, data, durability } => {
                Operation::Write { extent: *extent, data: data.clone(), durability: *durability }
            }
            Self::Flush => Operation::Flush,
            Self::Discard { extent } => Operation::Discard { extent: *extent },
            Self::WriteZeroes { extent, durability, may_unmap } => {
                Operation::WriteZeroes { extent: *extent, durability: *durability, may_unmap: *may_unmap }
            }
            Self::Compare { extent, data } => Operation::Compare { extent: *extent, data: data.clone() },
            Self::Verify { extent } => Operation::Verify { extent: *extent },
            Self::QueryAllocation { extent } => Operation::QueryAllocation { extent: *extent },
            Self::Never(_) => return None,
        })
    }

    /// True when it may be carried out again.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self, Self::Never(_))
    }

    /// True when it changes the volume.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Discard { .. } | Self::WriteZeroes { .. } | Self::Never(_))
    }

    /// True when it is to be durable by itself.
    pub(crate) fn is_durable_write(&self) -> bool {
        match self {
            Self::Write { durability, .. }
            | Self::WriteZeroes { durability, .. }
            | Self::Never(durability) => *durability == Durability::Durable,
            _ => false,
        }
    }

    /// True when a flush must follow for its effect to be durable.
    pub(crate) fn is_cached_write(&self) -> bool {
        match self {
            Self::Write { durability, .. }
            | Self::WriteZeroes { durability, .. }
            | Self::Never(durability) => *durability == Durability::Cached,
            Self::Discard { .. } => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use ::volume::ComparedWrite;

    use super::*;

    #[test]
    fn everything_but_a_compare_and_write_comes_back_as_it_was() {
        let extent = Extent::new(3, 2);
        let data = || BufList::from(Buf::zeroed(1024).freeze());
        let durability = Durability::Cached;
        let operations = [
            Operation::Read { extent, into: Buf::zeroed(1024) },
            Operation::Write { extent, data: data(), durability },
            Operation::Flush,
            Operation::Discard { extent },
            Operation::WriteZeroes { extent, durability, may_unmap: true },
            Operation::Compare { extent, data: data() },
            Operation::Verify { extent },
            Operation::QueryAllocation { extent },
        ];
        for operation in operations {
            let again = Replay::of(&operation).operation(None).unwrap();
            assert_eq!(format!("{again:?}"), format!("{operation:?}"));
            assert_eq!(Replay::of(&operation).writes(), operation.writes());
        }
        let own = Buf::zeroed(1024);
        let place = own.as_ptr();
        let Some(Operation::Read { into, .. }) = (Replay::Read { extent, length: 1024 }).operation(Some(own))
        else {
            panic!("a read can be made again")
        };
        assert_eq!((into.as_ptr(), into.len()), (place, 1024));
        let once = Operation::CompareAndWrite {
            extent,
            data: Box::new(ComparedWrite { compare: data(), write: data() }),
            durability,
        };
        assert!(Replay::of(&once).operation(None).is_none() && Replay::of(&once).writes());
    }
}
