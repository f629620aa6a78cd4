//! What lies in which slot, in memory: lookup, eviction, and which pages are valid and dirty.
//!
//! A line lies in one of the slots of its set, which follows from its number. A slot is given to another line only if nothing in it is dirty, nothing on the fast
//! volume says that something is, and nobody uses it. The hand of each set's clock goes over slots that were used lately once before it takes them.
//!
//! Memory: 72 bytes for each slot, which is 1.1 MiB for 1 GiB of lines of 64 KiB, and a few words for each line that is dirty.

use std::collections::BTreeMap;

use crate::admission::mix;
use crate::map_block::{Entry, NO_LINE};
use crate::page_set::PageSet;

/// Names a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlotId(pub(crate) u32);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slot {
    /// Pages that may be read here.
    pub(crate) valid: PageSet,
    /// Pages of which this is the only copy.
    pub(crate) dirty: PageSet,
    /// Pages that the map on the fast volume has as dirty, or may have, whatever becomes of what is under way.
    pub(crate) on_media: PageSet,
    /// Requests that use the slot.
    pins: u32,
    used: bool,
}

// There is one for each line of the fast volume.
const _: () = assert!(size_of::<Slot>() <= 64);

/// All slots.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The line of each slot, apart, as most slots are looked at for that alone.
    lines: Vec<u64>,
    slots: Vec<Slot>,
    hands: Vec<u8>,
    ways: u32,
    sets: u64,
    /// Lines with dirty pages, and where they are.
    dirty: BTreeMap<u64, SlotId>,
    dirty_pages: u64,
    in_use: u32,
    /// A fault that a test plants.
    #[cfg(test)]
    pub(crate) reuses_dirty: bool,
}

impl Directory {
    /// `slots` empty slots, `ways` in each set.
    pub(crate) fn new(slots: u32, ways: u32) -> Self {
        let ways = ways.max(1);
        let (count, sets) = (wire::index(u64::from(slots)), u64::from(slots / ways).max(1));
        Self {
            lines: vec![NO_LINE; count],
            slots: vec![Slot::default(); count],
            hands: vec![0; wire::index(sets)],
            ways,
            sets,
            dirty: BTreeMap::new(),
            dirty_pages: 0,
            in_use: 0,
            #[cfg(test)]
            reuses_dirty: false,
        }
    }

    /// Takes over what the map on the fast volume says of a slot. False if that cannot be: the line lies elsewhere, too, or belongs elsewhere.
    pub(crate) fn load(&mut self, id: SlotId, entry: Entry) -> bool {
        if entry.line == NO_LINE || entry.valid.is_empty() {
            return true;
        }
        let at_home = self.set_of(entry.line).contains(&id.0);
        if !at_home || self.find(entry.line).is_some() || !self.claim(id, entry.line) {
            return false;
        }
        if let Some(slot) = self.slot_mut(id) {
            (slot.valid, slot.on_media) = (entry.valid, entry.dirty);
        }
        self.set_dirty(id, entry.dirty);
        true
    }

    fn set_of(&self, line: u64) -> core::ops::Range<u32> {
        let set: u32 = wire::bounded(mix(line) % self.sets);
        set * self.ways..(set + 1) * self.ways
    }

    fn line_at(&self, id: u32) -> u64 {
        self.lines.get(wire::index(u64::from(id))).copied().unwrap_or(NO_LINE)
    }

    /// What is known of a slot.
    pub(crate) fn slot(&self, id: SlotId) -> Slot {
        self.slots.get(wire::index(u64::from(id.0))).copied().unwrap_or_default()
    }

    fn slot_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(wire::index(u64::from(id.0)))
    }

    /// The line in a slot, or [`NO_LINE`].
    pub(crate) fn line_of(&self, id: SlotId) -> u64 {
        self.line_at(id.0)
    }

    /// The slot that a line lies in.
    pub(crate) fn find(&self, line: u64) -> Option<SlotId> {
        self.set_of(line).find(|id| self.line_at(*id) == line).map(SlotId)
    }

    /// What the map is to say of a slot.
    pub(crate) fn entry(&self, id: SlotId) -> Entry {
        let slot = self.slot(id);
        if slot.valid.is_empty() {
            return Entry::EMPTY;
        }
        Entry { line: self.line_of(id), valid: slot.valid, dirty: slot.dirty }
    }

    fn claim(&mut self, id: SlotId, line: u64) -> bool {
        let Some(place) = self.lines.get_mut(wire::index(u64::from(id.0))) else { return false };
        self.in_use += u32::from(*place == NO_LINE);
        *place = line;
        true
    }

    /// A slot for a line that has none: an empty one, or else one whose line goes. `None` if none can go. True if a line went.
    pub(crate) fn allocate(&mut self, line: u64) -> Option<(SlotId, bool)> {
        let set = self.set_of(line);
        let empty = set.clone().find(|id| self.line_at(*id) == NO_LINE).map(SlotId);
        let (id, evicted) = match empty {
            Some(id) => (id, false),
            None => (self.victim(&set)?, true),
        };
        if let Some(slot) = self.slot_mut(id) {
            *slot = Slot { used: true, ..Slot::default() };
        }
        self.claim(id, line).then_some((id, evicted))
    }

    /// The next slot of a set whose line may go. What was used since the hand was there last stays for this time.
    fn victim(&mut self, set: &core::ops::Range<u32>) -> Option<SlotId> {
        let number = wire::index(u64::from(set.start / self.ways));
        let mut hand = u32::from(self.hands.get(number).copied().unwrap_or(0));
        let mut found = None;
        #[cfg(test)]
        let reuses_dirty = self.reuses_dirty;
        for _ in 0..2 * self.ways {
            let id = SlotId(set.start + hand % self.ways);
            hand = (hand + 1) % self.ways;
            let Some(slot) = self.slot_mut(id) else { continue };
            #[cfg(test)]
            if reuses_dirty {
                slot.on_media = PageSet::NONE;
            }
            if slot.pins > 0 || !slot.dirty.is_empty() || !slot.on_media.is_empty() {
                continue;
            }
            if !core::mem::take(&mut slot.used) {
                found = Some(id);
                break;
            }
        }
        if let Some(place) = self.hands.get_mut(number) {
            *place = wire::bounded(hand);
        }
        found
    }

    /// Notes that a slot was used.
    pub(crate) fn touch(&mut self, id: SlotId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.used = true;
        }
    }

    /// Keeps a slot for its line until it is unpinned as often.
    pub(crate) fn pin(&mut self, id: SlotId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.pins += 1;
        }
    }

    /// See [`Directory::pin`].
    pub(crate) fn unpin(&mut self, id: SlotId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.pins = slot.pins.saturating_sub(1);
        }
    }

    /// Pages may be read here from now on.
    pub(crate) fn add_valid(&mut self, id: SlotId, pages: PageSet) {
        if let Some(slot) = self.slot_mut(id) {
            slot.valid = slot.valid.either(pages);
        }
    }

    /// Pages hold something newer than the capacity volume from now on. True if that is new of one of them.
    pub(crate) fn add_dirty(&mut self, id: SlotId, pages: PageSet) -> bool {
        let before = self.slot(id).dirty;
        self.add_valid(id, pages);
        self.set_dirty(id, before.either(pages));
        !before.has_all(pages)
    }

    /// Pages are on the capacity volume, too. True if one of them was dirty.
    pub(crate) fn clean(&mut self, id: SlotId, pages: PageSet) -> bool {
        let before = self.slot(id).dirty;
        self.set_dirty(id, before.without(pages));
        !before.both(pages).is_empty()
    }

    /// Pages mean nothing any more. True if one of them was dirty.
    pub(crate) fn drop_pages(&mut self, id: SlotId, pages: PageSet) -> bool {
        let was_dirty = self.clean(id, pages);
        if let Some(slot) = self.slot_mut(id) {
            slot.valid = slot.valid.without(pages);
        }
        was_dirty
    }

    /// No clean copy means anything any more.
    pub(crate) fn drop_clean(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.valid = slot.dirty);
    }

    /// The map on the fast volume has exactly these as dirty.
    pub(crate) fn set_on_media(&mut self, id: SlotId, pages: PageSet) {
        if let Some(slot) = self.slot_mut(id) {
            slot.on_media = pages;
        }
    }

    /// The map on the fast volume may have these as dirty, too.
    pub(crate) fn add_on_media(&mut self, id: SlotId, pages: PageSet) {
        if let Some(slot) = self.slot_mut(id) {
            slot.on_media = slot.on_media.either(pages);
        }
    }

    fn set_dirty(&mut self, id: SlotId, pages: PageSet) {
        let line = self.line_of(id);
        let Some(slot) = self.slot_mut(id) else { return };
        let before = core::mem::replace(&mut slot.dirty, pages);
        self.dirty_pages =
            (self.dirty_pages + u64::from(pages.count())).saturating_sub(u64::from(before.count()));
        if pages.is_empty() {
            self.dirty.remove(&line);
        } else {
            self.dirty.insert(line, id);
        }
    }

    /// Pages that are dirty.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.dirty_pages
    }

    /// Lines that have dirty pages.
    pub(crate) fn dirty_lines(&self) -> u64 {
        wire::widen(self.dirty.len())
    }

    /// Lines that have dirty pages, from `line` on.
    pub(crate) fn dirty_from(&self, line: u64) -> impl Iterator<Item = (u64, SlotId)> {
        self.dirty.range(line..).map(|(line, id)| (*line, *id))
    }

    /// The slots that hold lines of a range.
    pub(crate) fn in_lines(&self, lines: core::ops::Range<u64>) -> Vec<(u64, SlotId)> {
        if lines.end.saturating_sub(lines.start) <= wire::widen(self.lines.len()) {
            return lines.filter_map(|line| Some((line, self.find(line)?))).collect();
        }
        let held = (0..).zip(&self.lines).filter(|(_, line)| **line != NO_LINE && lines.contains(line));
        held.map(|(id, line)| (*line, SlotId(id))).collect()
    }

    /// Slots that hold a line.
    pub(crate) fn in_use(&self) -> u32 {
        self.in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: PageSet = PageSet(1);
    const P1: PageSet = PageSet(2);

    fn one_set(ways: u32) -> Directory {
        Directory::new(ways, ways)
    }

    #[test]
    fn a_line_is_found_where_it_was_put_and_one_that_was_used_lately_stays() {
        let mut directory = one_set(4);
        let ids: Vec<_> = (0..4).map(|line| directory.allocate(line).unwrap().0).collect();
        assert_eq!((directory.in_use(), directory.find(2)), (4, Some(ids[2])));
        // All were used when they came; the hand takes that away, and takes the first.
        assert_eq!(directory.allocate(10), Some((ids[0], true)));
        directory.touch(ids[1]);
        assert_eq!(directory.allocate(11), Some((ids[2], true)));
        assert_eq!((directory.find(0), directory.find(1), directory.find(2)), (None, Some(ids[1]), None));
    }

    #[test]
    fn what_is_dirty_here_or_on_media_or_pinned_does_not_go() {
        let mut directory = one_set(3);
        let ids: Vec<_> = (0..3).map(|line| directory.allocate(line).unwrap().0).collect();
        assert!(directory.add_dirty(ids[0], P0) && !directory.add_dirty(ids[0], P0));
        directory.add_on_media(ids[1], P1);
        directory.pin(ids[2]);
        assert_eq!(directory.allocate(9), None);
        directory.clean(ids[0], P0);
        assert_eq!(directory.allocate(9), Some((ids[0], true)));
        directory.pin(ids[0]);
        directory.set_on_media(ids[1], PageSet::NONE);
        assert_eq!(directory.allocate(10), Some((ids[1], true)));
        directory.unpin(ids[2]);
        assert_eq!(directory.allocate(11), Some((ids[2], true)));
    }

    #[test]
    fn dirty_lines_are_known_in_order_and_counted() {
        let mut directory = one_set(4);
        for line in [30, 10, 20] {
            let (id, _) = directory.allocate(line).unwrap();
            directory.add_dirty(id, P0.either(P1));
        }
        assert_eq!((directory.dirty_pages(), directory.dirty_lines()), (6, 3));
        let from: Vec<_> = directory.dirty_from(11).map(|(line, _)| line).collect();
        assert_eq!(from, [20, 30]);
        let id = directory.find(20).unwrap();
        assert!(directory.drop_pages(id, P0) && !directory.drop_pages(id, P0));
        assert_eq!((directory.slot(id).valid, directory.dirty_pages()), (P1, 5));
        assert!(directory.clean(id, P1));
        assert_eq!(directory.dirty_lines(), 2);
        assert_eq!(directory.entry(id), Entry { line: 20, valid: P1, dirty: PageSet::NONE });
    }

    #[test]
    fn a_map_that_has_a_line_twice_or_in_the_wrong_set_is_not_taken_over() {
        let mut directory = Directory::new(8, 4);
        let home = directory.set_of(5).start;
        let entry = Entry { line: 5, valid: P0, dirty: P0 };
        assert!(directory.load(SlotId(home), entry));
        assert!(!directory.load(SlotId(home + 1), entry), "twice");
        let away = if home == 0 { 4 } else { 0 };
        assert!(!directory.load(SlotId(away), Entry { line: 5, ..entry }), "elsewhere");
        assert_eq!((directory.slot(SlotId(home)).on_media, directory.dirty_pages()), (P0, 1));
    }

    #[test]
    fn lines_of_a_long_range_are_found_by_slot_and_of_a_short_one_by_line() {
        let mut directory = one_set(4);
        directory.allocate(7);
        directory.allocate(1 << 40);
        for range in [7..8, 0..1 << 30] {
            assert_eq!(directory.in_lines(range).len(), 1);
        }
        assert_eq!(directory.in_lines(0..u64::MAX).len(), 2);
    }
}
