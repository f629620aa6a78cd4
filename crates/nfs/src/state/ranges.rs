//! The byte ranges that one lock owner has of one file (RFC 8881 §9.1, §18.10, §18.12): split and merged, never overlapping.

use alloc::vec::Vec;

use crate::v4::Status;

/// `nfs_lock_type4`, without what asks for waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

/// Bytes from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// The first byte.
    pub first: u64,
    /// The last byte; `u64::MAX` reaches to whatever end the file will have.
    pub last: u64,
}

impl ByteRange {
    /// The range of `offset` and `length` as LOCK has them: a length of all ones reaches to the end (RFC 8881 §18.10.3).
    ///
    /// # Errors
    /// INVAL for no bytes, and for a range that passes the largest offset.
    pub fn new(offset: u64, length: u64) -> Result<Self, Status> {
        if length == u64::MAX {
            return Ok(Self { first: offset, last: u64::MAX });
        }
        let beyond = length.checked_sub(1).ok_or(Status::INVAL)?;
        Ok(Self { first: offset, last: offset.checked_add(beyond).ok_or(Status::INVAL)? })
    }

    /// `length4` as LOCK has it.
    pub fn length(self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last.saturating_sub(self.first).saturating_add(1) }
    }

    /// True if both have a byte.
    pub fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// What of it lies before `other`.
    fn before(self, other: Self) -> Option<Self> {
        let last = other.first.checked_sub(1)?.min(self.last);
        (self.first <= last).then_some(Self { first: self.first, last })
    }

    /// What of it lies behind `other`.
    fn behind(self, other: Self) -> Option<Self> {
        let first = other.last.checked_add(1)?.max(self.first);
        (first <= self.last).then_some(Self { first, last: self.last })
    }

    /// True if `next` begins at the byte after this ends.
    fn adjoins(self, next: Self) -> bool {
        self.last.checked_add(1) == Some(next.first)
    }
}

/// A range with its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockedRange {
    /// Which bytes.
    pub range: ByteRange,
    /// How.
    pub mode: LockMode,
}

/// All ranges of one owner, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<LockedRange>);

impl Ranges {
    /// Locks `range`, whatever the owner had of it before.
    pub fn lock(&mut self, range: ByteRange, mode: LockMode) {
        self.unlock(range);
        let at = self.0.partition_point(|locked| locked.range.first < range.first);
        self.0.insert(at, LockedRange { range, mode });
        self.merge();
    }

    /// Unlocks `range`; what was not locked of it stays so.
    pub fn unlock(&mut self, range: ByteRange) {
        let parts = self.0.iter().flat_map(|locked| {
            let mode = locked.mode;
            let kept = if locked.range.meets(range) {
                [locked.range.before(range), locked.range.behind(range)]
            } else {
                [Some(locked.range), None]
            };
            kept.into_iter().flatten().map(move |range| LockedRange { range, mode })
        });
        self.0 = parts.collect();
    }

    fn merge(&mut self) {
        self.0.dedup_by(|next, earlier| {
            let one = earlier.mode == next.mode && earlier.range.adjoins(next.range);
            if one {
                earlier.range.last = next.range.last;
            }
            one
        });
    }

    /// The first range that another owner's lock of `range` conflicts with.
    pub fn conflict(&self, range: ByteRange, mode: LockMode) -> Option<LockedRange> {
        let exclusive = |locked: &LockedRange| mode == LockMode::Write || locked.mode == LockMode::Write;
        self.0.iter().copied().find(|locked| locked.range.meets(range) && exclusive(locked))
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing is locked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = LockedRange> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(first: u64, last: u64) -> ByteRange {
        ByteRange { first, last }
    }

    #[test]
    fn offsets_and_lengths() {
        assert_eq!(ByteRange::new(5, 3), Ok(range(5, 7)));
        assert_eq!(ByteRange::new(5, u64::MAX), Ok(range(5, u64::MAX)));
        assert_eq!(ByteRange::new(5, 0), Err(Status::INVAL));
        assert_eq!(ByteRange::new(u64::MAX, 1), Ok(range(u64::MAX, u64::MAX)));
        assert_eq!(ByteRange::new(u64::MAX, 2), Err(Status::INVAL));
        assert_eq!((range(5, 7).length(), range(5, u64::MAX).length()), (3, u64::MAX));
    }

    #[test]
    fn a_range_splits_and_merges() {
        let mut ranges = Ranges::default();
        ranges.lock(range(0, u64::MAX), LockMode::Write);
        ranges.unlock(range(10, 19));
        let parts = |ranges: &Ranges| ranges.iter().map(|locked| locked.range).collect::<Vec<_>>();
        assert_eq!(parts(&ranges), [range(0, 9), range(20, u64::MAX)]);
        ranges.lock(range(10, 19), LockMode::Read);
        assert_eq!(ranges.len(), 3);
        ranges.lock(range(10, 19), LockMode::Write);
        assert_eq!(parts(&ranges), [range(0, u64::MAX)]);
        ranges.unlock(range(0, u64::MAX));
        assert!(ranges.is_empty());
    }

    const BYTES: u64 = 24;
    const MODEL: usize = 24;

    fn step() -> impl Strategy<Value = (u64, u64, Option<LockMode>)> {
        let mode = prop_oneof![Just(None), Just(Some(LockMode::Read)), Just(Some(LockMode::Write))];
        (0..BYTES, 0..BYTES, mode).prop_map(|(a, b, mode)| (a.min(b), a.max(b), mode))
    }

    proptest! {
        /// A model has one entry for each byte.
        #[test]
        fn bytes_are_locked_as_a_model_says(steps in proptest::collection::vec(step(), 0..40)) {
            let mut ranges = Ranges::default();
            let mut model = [None; MODEL];
            for (first, last, mode) in steps {
                match mode {
                    Some(mode) => ranges.lock(range(first, last), mode),
                    None => ranges.unlock(range(first, last)),
                }
                for byte in first..=last {
                    model[wire::index(byte)] = mode;
                }
                for (at, expected) in model.iter().enumerate() {
                    let at = wire::widen(at);
                    let found = ranges.iter().find(|locked| locked.range.meets(range(at, at)));
                    prop_assert_eq!(found.map(|locked| locked.mode), *expected);
                    prop_assert_eq!(ranges.conflict(range(at, at), LockMode::Write).is_some(), expected.is_some());
                    prop_assert_eq!(ranges.conflict(range(at, at), LockMode::Read).is_some(), *expected == Some(LockMode::Write));
                }
                // In order, and as few as can be.
                let mut earlier: Option<LockedRange> = None;
                for locked in ranges.iter() {
                    if let Some(earlier) = earlier {
                        prop_assert!(earlier.range.last < locked.range.first);
                        prop_assert!(earlier.mode != locked.mode || !earlier.range.adjoins(locked.range));
                    }
                    earlier = Some(locked);
                }
            }
        }
    }
}
