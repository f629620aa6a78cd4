//! The dirty-region log: which regions may differ between legs.
//!
//! A region's bit is on stable media, on every leg that takes writes, before any write to the region is sent to any leg. It stays while a leg is out; only when
//! all legs have been in sync and the region quiet for a while, and a flush has covered it, is the bit cleared, and that need not be durable.
//!
//! A bit counts as durable only as long as every write of its part that has begun since carries it.

use protocol::Instant;
use volume::Extent;

use crate::bitmap;
use crate::bits::Bits;
use crate::limits::{CLEAN_AFTER, CLEANED, PART_REGIONS};
use crate::planted::{Fault, planted};
use crate::slots::Slots;

/// Writers of a region, and when the last one ended.
#[derive(Debug, Clone, Copy, Default)]
struct Activity {
    writers: u32,
    /// Writes that have begun; they tell what clocks of several cores cannot.
    begun: u64,
    last: Instant,
}

/// A region without writers, and how many there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quiet {
    pub(crate) region: u64,
    begun: u64,
}

/// A part of the bitmap, which one queue at a time writes.
#[derive(Debug, Clone, Default)]
struct Part {
    /// It has changed since it was last begun to be written.
    stale: bool,
    /// The queue that writes it.
    writer: Option<u64>,
    /// The regions that are set in what is being written.
    carried: Vec<u64>,
    /// The sequence of what is being written, and of what was written last.
    writing: u64,
    written: u64,
    slots: Slots,
}

/// A part that the caller is to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartWrite {
    pub(crate) part: u64,
    /// Which of its two places.
    pub(crate) slot: usize,
    /// Grows with every write of any part.
    pub(crate) sequence: u64,
}

/// The log of one mirror, as all queues see it.
#[derive(Debug)]
pub(crate) struct DirtyLog {
    /// A region's blocks are a power of two.
    region_shift: u32,
    set: Bits,
    durable: Bits,
    /// Of each region; it means something while the region is set.
    activity: Vec<Activity>,
    parts: Vec<Part>,
    /// A part may have to be written.
    stale: bool,
    sequence: u64,
    /// No part is written before, as the last attempt failed.
    retry_at: Instant,
}

impl DirtyLog {
    /// The log of `regions` regions of `region_blocks` blocks, a power of two. Those of `dirty` are set already; nothing of it is durable yet.
    pub(crate) fn new(regions: u64, region_blocks: u64, dirty: Bits, sequence: u64, now: Instant) -> Self {
        let activity = vec![Activity { last: now, ..Activity::default() }; wire::index(regions)];
        let part = Part { stale: true, ..Part::default() };
        let parts = vec![part; wire::index(bitmap::parts(regions))];
        Self {
            region_shift: region_blocks.trailing_zeros(),
            durable: Bits::new(regions),
            set: dirty,
            activity,
            parts,
            stale: true,
            sequence,
            retry_at: now,
        }
    }

    /// The regions that an extent touches.
    pub(crate) fn regions(&self, extent: Extent) -> std::ops::Range<u64> {
        let end = extent.start.saturating_add(extent.blocks);
        let beyond = (end >> self.region_shift) + u64::from(end & ((1 << self.region_shift) - 1) != 0);
        extent.start >> self.region_shift..beyond
    }

    /// The blocks of a region.
    pub(crate) fn extent(&self, region: u64) -> Extent {
        Extent::new(region << self.region_shift, 1 << self.region_shift)
    }

    /// The set bits.
    pub(crate) fn set(&self) -> &Bits {
        &self.set
    }

    /// True if a part may have to be written, now or later.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    fn make_stale(&mut self, region: u64) {
        self.stale = true;
        if let Some(part) = self.parts.get_mut(wire::index(region / PART_REGIONS)) {
            part.stale = true;
        }
    }

    /// Somebody is about to change these blocks. True if that may be sent now: all bits are durable.
    pub(crate) fn begin_write(&mut self, extent: Extent, now: Instant) -> bool {
        let mut durable = true;
        for region in self.regions(extent) {
            if let Some(activity) = self.activity.get_mut(wire::index(region)) {
                activity.writers += 1;
                activity.begun += 1;
            }
            durable &= self.durable.contains(region);
            // A bit that is cleared may be on the legs still: it is durable then, until the part is written without it.
            if !self.set.contains(region) {
                self.set.insert(region);
                self.make_stale(region);
                if let Some(activity) = self.activity.get_mut(wire::index(region)) {
                    activity.last = now;
                }
            }
        }
        durable || planted(Fault::SkippedBit)
    }

    /// True if the bits of all these blocks' regions are durable.
    pub(crate) fn is_durable(&self, extent: Extent) -> bool {
        planted(Fault::SkippedBit) || self.regions(extent).all(|region| self.durable.contains(region))
    }

    /// What [`DirtyLog::begin_write`] was told of has ended, well or not.
    pub(crate) fn end_write(&mut self, extent: Extent, now: Instant) {
        for region in self.regions(extent) {
            if let Some(activity) = self.activity.get_mut(wire::index(region)) {
                activity.writers = activity.writers.saturating_sub(1);
                activity.last = now;
            }
        }
    }

    /// Every part is to be written again: a leg is about to be in sync that may not have them. What to ask [`DirtyLog::is_rewritten`] about.
    pub(crate) fn rewrite(&mut self) -> u64 {
        self.parts.iter_mut().for_each(|part| part.stale = true);
        self.stale = true;
        self.sequence
    }

    /// True if every part was begun to be written, and has been, since `mark`.
    pub(crate) fn is_rewritten(&self, mark: u64) -> bool {
        self.parts.iter().all(|part| part.written > mark)
    }

    /// A part that `queue` is to write now, if there is one; or when there will be.
    pub(crate) fn claim(&mut self, queue: u64, now: Instant) -> Result<PartWrite, Option<Instant>> {
        let mut later: Option<Instant> = None;
        if now < self.retry_at {
            let wanted = self.parts.iter().any(|part| part.stale && part.writer.is_none());
            return Err(wanted.then_some(self.retry_at));
        }
        for (number, part) in (0..).zip(&mut self.parts) {
            if !part.stale || part.writer.is_some() {
                continue;
            }
            let slot = match part.slots.next(now) {
                Ok(slot) => slot,
                Err(at) => {
                    later = Some(later.map_or(at, |other| other.min(at)));
                    continue;
                }
            };
            let all = number * PART_REGIONS..(number + 1) * PART_REGIONS;
            (part.stale, part.writer) = (false, Some(queue));
            part.carried = all.clone().filter(|region| self.set.contains(*region)).collect();
            all.filter(|region| !self.set.contains(*region)).for_each(|region| self.durable.remove(region));
            self.sequence += 1;
            part.writing = self.sequence;
            return Ok(PartWrite { part: number, slot, sequence: self.sequence });
        }
        self.stale = self.parts.iter().any(|part| part.stale);
        Err(later)
    }

    /// The part was written on every leg that takes writes.
    pub(crate) fn written(&mut self, part: u64) {
        let Some(part) = self.parts.get_mut(wire::index(part)) else { return };
        (part.writer, part.written) = (None, part.writing);
        let carried = std::mem::take(&mut part.carried);
        for region in carried {
            self.durable.insert(region);
        }
    }

    /// The part could not be written; it may be tried again from `retry_at` on.
    pub(crate) fn not_written(&mut self, part: u64, retry_at: Instant) {
        if let Some(part) = self.parts.get_mut(wire::index(part)) {
            (part.writer, part.stale) = (None, true);
            part.carried.clear();
            (self.stale, self.retry_at) = (true, retry_at);
        }
    }

    /// A queue is gone; what it was writing may or may not be written, now or later.
    pub(crate) fn forget_queue(&mut self, queue: u64, now: Instant) {
        for part in self.parts.iter_mut().filter(|part| part.writer == Some(queue)) {
            (part.writer, part.stale) = (None, true);
            part.carried.clear();
            part.slots.abandon(now);
            self.stale = true;
        }
    }

    /// Regions without a write for a while, whose bits may go once a flush that begins now has succeeded on all legs.
    pub(crate) fn quiet(&self, now: Instant) -> Vec<Quiet> {
        let is_quiet = |activity: &Activity| activity.writers == 0 && activity.last + CLEAN_AFTER <= now;
        let quiet = self.active().filter(|(_, activity)| is_quiet(activity));
        quiet.map(|(region, activity)| Quiet { region, begun: activity.begun }).take(CLEANED).collect()
    }

    /// The regions that are set, and who writes to them.
    fn active(&self) -> impl Iterator<Item = (u64, Activity)> {
        let activity = |region: u64| self.activity.get(wire::index(region)).copied().unwrap_or_default();
        self.set.iter().map(move |region| (region, activity(region)))
    }

    /// True if some region is to be cleared some time.
    pub(crate) fn is_quiet_soon(&self) -> bool {
        self.set.count() > 0
    }

    /// When [`DirtyLog::quiet`] will have something, at the earliest.
    pub(crate) fn quiet_at(&self) -> Option<Instant> {
        let idle = self.active().filter(|(_, activity)| activity.writers == 0);
        idle.map(|(_, activity)| activity.last + CLEAN_AFTER).min()
    }

    /// Clears all bits: nothing is under way, and a flush has succeeded on all legs.
    pub(crate) fn clean_all(&mut self) {
        let quiet: Vec<u64> =
            self.active().filter(|(_, activity)| activity.writers == 0).map(|(region, _)| region).collect();
        for region in quiet {
            self.set.remove(region);
            self.durable.remove(region);
            self.make_stale(region);
        }
    }

    /// Clears the bits of those regions to which no write has begun since.
    pub(crate) fn clean(&mut self, regions: &[Quiet]) {
        for quiet in regions {
            let region = quiet.region;
            let begun = self.activity.get(wire::index(region)).map(|activity| activity.begun);
            if self.set.contains(region) && begun == Some(quiet.begun) {
                self.set.remove(region);
                self.durable.remove(region);
                self.make_stale(region);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Extent = Extent::new(3, 2);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// A log of ten regions of four blocks whose parts are all written.
    fn log() -> DirtyLog {
        let mut log = DirtyLog::new(10, 4, Bits::new(10), 0, at(0));
        write(&mut log);
        log
    }

    fn write(log: &mut DirtyLog) {
        let PartWrite { part, .. } = log.claim(1, at(0)).unwrap();
        log.written(part);
        assert!(log.claim(1, at(0)).is_err());
    }

    #[test]
    fn a_write_waits_until_its_bits_are_durable() {
        let mut log = log();
        assert!(!log.begin_write(ONE, at(0)));
        let PartWrite { part, .. } = log.claim(1, at(0)).unwrap();
        assert!(log.claim(2, at(0)).is_err(), "one writes at a time");
        assert!(!log.begin_write(Extent::new(20, 1), at(0)), "it came too late for that write");
        log.written(part);
        assert!(log.is_durable(ONE) && !log.is_durable(Extent::new(20, 1)));
        assert!(log.begin_write(Extent::new(0, 8), at(0)), "set already");
    }

    #[test]
    fn a_part_that_could_not_be_written_makes_nothing_durable() {
        let mut log = log();
        log.begin_write(ONE, at(0));
        let PartWrite { part, slot, .. } = log.claim(1, at(0)).unwrap();
        log.not_written(part, at(2));
        assert_eq!((log.is_durable(ONE), log.claim(1, at(1))), (false, Err(Some(at(2)))));
        let again = log.claim(1, at(2)).unwrap();
        assert_ne!(again.slot, slot);
        log.forget_queue(1, at(2));
        assert!(!log.is_durable(ONE));
        assert_eq!(log.claim(2, at(2)).unwrap().slot, slot, "the other place may still change");
    }

    #[test]
    fn quiet_regions_are_cleared_and_their_next_write_waits_again() {
        let mut log = log();
        log.begin_write(ONE, at(0));
        write(&mut log);
        assert_eq!(log.quiet(at(100)), [], "it is being written");
        log.end_write(ONE, at(1));
        assert_eq!((log.quiet(at(5)), log.quiet_at()), (vec![], Some(at(6))));
        let mut quiet = log.quiet(at(6));
        quiet.sort_unstable();
        assert_eq!(quiet, [Quiet { region: 0, begun: 1 }, Quiet { region: 1, begun: 1 }]);
        log.begin_write(Extent::new(0, 1), at(0));
        log.end_write(Extent::new(0, 1), at(0));
        log.clean(&quiet);
        assert_eq!(log.set().iter().collect::<Vec<_>>(), [0], "written after the flush had begun");
        assert!(!log.begin_write(Extent::new(4, 1), at(7)));
        write(&mut log);
        assert!(log.is_durable(Extent::new(4, 1)));
    }

    #[test]
    fn a_bit_that_is_cleared_while_its_part_is_written_is_not_durable_once_the_next_write_has_begun() {
        let mut log = log();
        log.begin_write(ONE, at(0));
        log.end_write(ONE, at(0));
        let first = log.claim(1, at(9)).unwrap();
        let quiet = log.quiet(at(9));
        log.clean(&quiet);
        log.written(first.part);
        assert!(log.is_durable(ONE), "it is on the legs");
        let second = log.claim(1, at(9)).unwrap();
        assert!(!log.begin_write(ONE, at(9)), "what is being written clears it");
        log.written(second.part);
        assert!(!log.is_durable(ONE));
        write(&mut log);
        assert!(log.is_durable(ONE));
    }
}
