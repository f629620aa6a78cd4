//! What a volume has counted of the requests that passed it.

use core::time::Duration;

use crate::operation_set::OperationSet;

/// What has been counted of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationStats {
    /// Requests that have completed.
    pub count: u64,
    /// Of these, how many failed.
    pub errors: u64,
    /// Bytes of the extents of those that succeeded.
    pub bytes: u64,
    /// The shortest time from submission to completion; zero if there was none.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// All times together: divided by the count, it is the mean.
    pub total: Duration,
}

/// What has been counted so far, by operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsSnapshot {
    pub(crate) operations: [OperationStats; KINDS.len()],
}

/// The operations that are counted apart.
pub(crate) const KINDS: [OperationSet; 9] = [
    OperationSet::READ,
    OperationSet::WRITE,
    OperationSet::FLUSH,
    OperationSet::DISCARD,
    OperationSet::ZERO,
    OperationSet::COMPARE,
    OperationSet::VERIFY,
    OperationSet::ALLOCATION,
    OperationSet::RESERVATION,
];

impl OperationStats {
    /// The mean time from submission to completion; zero if nothing has completed.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(wire::saturate::<u64>(nanos))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.min = match (self.count, other.count) {
            (_, 0) => self.min,
            (0, _) => other.min,
            _ => self.min.min(other.min),
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.total += other.total;
    }
}

impl StatsSnapshot {
    /// The operations that are counted apart.
    pub fn kinds() -> impl Iterator<Item = OperationSet> {
        KINDS.into_iter()
    }

    /// What has been counted of the operations in `set`, together.
    pub fn of(&self, set: OperationSet) -> OperationStats {
        let mut sum = OperationStats::default();
        let named = KINDS.iter().zip(&self.operations).filter(|(kind, _)| set.contains(**kind));
        named.for_each(|(_, stats)| sum.add(stats));
        sum
    }
}
