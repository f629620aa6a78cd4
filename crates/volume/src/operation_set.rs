//! Which operations a filter concerns.

use bitflags::bitflags;

use crate::Operation;

bitflags! {
    /// A set of operations.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OperationSet: u32 {
        /// Reads.
        const READ = 1 << 0;
        /// Writes.
        const WRITE = 1 << 1;
        /// Flushes.
        const FLUSH = 1 << 2;
        /// Discards.
        const DISCARD = 1 << 3;
        /// Write zeroes.
        const ZERO = 1 << 4;
        /// Compare, and compare-and-write.
        const COMPARE = 1 << 5;
        /// Verify.
        const VERIFY = 1 << 6;
        /// Allocation queries.
        const ALLOCATION = 1 << 7;
        /// Reservations: changes and reports.
        const RESERVATION = 1 << 8;
    }
}

impl OperationSet {
    /// The set that has just this operation.
    pub const fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Read { .. } => Self::READ,
            Operation::Write { .. } => Self::WRITE,
            Operation::Flush => Self::FLUSH,
            Operation::Discard { .. } => Self::DISCARD,
            Operation::WriteZeroes { .. } => Self::ZERO,
            Operation::Compare { .. } | Operation::CompareAndWrite { .. } => Self::COMPARE,
            Operation::Verify { .. } => Self::VERIFY,
            Operation::QueryAllocation { .. } => Self::ALLOCATION,
            Operation::Reserve(_) | Operation::ReadReservations => Self::RESERVATION,
        }
    }
}
