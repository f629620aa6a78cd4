//! The requests of a queue that are not answered yet, found by number instead of by search.
//!
//! A request's tag is its asker's and may be any number. Toward the connection it is a slot's number instead, so that an answer
//! finds its request with one look, and above it how many requests there were before: no other request ever has the same, so that
//! a protocol that has carried out a request over a connection before (NFS) recognises it.

use std::net::SocketAddr;

use ::volume::Tag;
use protocol::Instant;

use super::replay::Replay;
use crate::limits::NEXUSES;

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It waits for a connection.
    Parked,
    /// The connection has it.
    Sent,
    /// A lost connection had it, or the far end was too busy for it: it may be sent again at that time, or as soon as it is
    /// known that nothing of that nexus can still take effect.
    Held(Instant, Option<NexusNumber>),
}

/// Where a connection leads, as far as that decides what a later one proves: a login to the same portal group of the same
/// target, under the same session name, ends the session of before (RFC 7143 §6.3.5), and no other does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nexus {
    /// The portal. Another one may be another machine's, though its target and portal group have the same names.
    pub(crate) portal: SocketAddr,
    /// TargetPortalGroupTag.
    pub(crate) group: u16,
}

/// Which of a queue's nexuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NexusNumber(usize);

/// The nexuses that a queue has had writes in.
#[derive(Debug, Default)]
pub(super) struct Nexuses(Vec<Nexus>);

impl Nexuses {
    /// The number of a nexus; `None` if it is one too many.
    pub(super) fn number(&mut self, nexus: Nexus) -> Option<NexusNumber> {
        if let Some(known) = self.0.iter().position(|one| *one == nexus) {
            return Some(NexusNumber(known));
        }
        let room = self.0.len() < NEXUSES;
        room.then(|| {
            self.0.push(nexus);
            NexusNumber(self.0.len() - 1)
        })
    }
}

/// A request that is not answered yet.
#[derive(Debug)]
pub(super) struct Entry {
    /// What its asker calls it.
    pub(super) tag: Tag,
    pub(super) replay: Replay,
    pub(super) place: Place,
    pub(super) submitted: Instant,
    /// A connection has had it.
    pub(super) was_sent: bool,
    /// A flush's number.
    pub(super) flush: u64,
    /// How often the far end was too busy for it.
    pub(super) busy: u8,
}

/// A place for one, and which request it is for.
#[derive(Debug)]
struct Slot {
    own: Tag,
    entry: Option<Entry>,
}

/// All of a queue's.
#[derive(Debug, Default)]
pub(super) struct Entries {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Requests so far.
    count: u64,
}

/// Bits of a slot's number: more requests than a queue can have. The 40 above them count requests for weeks at a million a second, long after whatever was
/// carried out over a connection before is forgotten.
const SLOT_BITS: u32 = 24;

fn slot_of(own: Tag) -> usize {
    wire::index(own.0 & ((1 << SLOT_BITS) - 1))
}

impl Entries {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds one; the tag that it has toward the connection.
    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) -> Tag {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        self.count = self.count.wrapping_add(1);
        let own = Tag(u64::from(slot) | self.count << SLOT_BITS);
        self.slots[slot as usize] = Slot { own, entry: Some(entry) };
        own
    }

    /// A slot that was never used.
    #[cold]
    fn grow(&mut self) -> u32 {
        assert!(self.slots.len() >> SLOT_BITS == 0, "a queue's depth is below that");
        self.slots.push(Slot { own: Tag(u64::MAX), entry: None });
        wire::bounded::<u32>(self.slots.len() - 1)
    }

    /// The one with this tag toward the connection.
    #[inline]
    pub(super) fn get(&self, own: Tag) -> Option<&Entry> {
        self.slots.get(slot_of(own)).filter(|slot| slot.own == own)?.entry.as_ref()
    }

    /// The one with this tag toward the connection.
    pub(super) fn get_mut(&mut self, own: Tag) -> Option<&mut Entry> {
        self.slots.get_mut(slot_of(own)).filter(|slot| slot.own == own)?.entry.as_mut()
    }

    /// Ends one where it stands: it is too big to be moved out. Says what its asker calls it.
    #[inline]
    pub(super) fn remove(&mut self, own: Tag) -> Option<Tag> {
        let slot = self.slots.get_mut(slot_of(own)).filter(|slot| slot.own == own)?;
        let tag = slot.entry.as_ref()?.tag;
        slot.entry = None;
        self.free.push(wire::bounded::<u32>(slot_of(own)));
        Some(tag)
    }

    /// The tag toward the connection of the one that its asker calls `tag`.
    pub(super) fn find(&self, tag: Tag) -> Option<Tag> {
        let found = self.slots.iter().find(|slot| slot.entry.as_ref().is_some_and(|entry| entry.tag == tag));
        found.map(|slot| slot.own)
    }

    /// All.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut())
    }

    /// The tags toward the connection of those of a kind, in the order of what their askers call them.
    pub(super) fn select(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Tag> {
        let mut found: Vec<(Tag, Tag)> = Vec::new();
        for Slot { own, entry } in &self.slots {
            if let Some(entry) = entry.as_ref().filter(|entry| wanted(entry)) {
                found.push((entry.tag, *own));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, own)| own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: u64) -> Entry {
        Entry {
            tag: Tag(tag),
            replay: Replay::Flush,
            place: Place::Parked,
            submitted: Instant::ZERO,
            was_sent: false,
            flush: 0,
            busy: 0,
        }
    }

    #[test]
    fn a_slot_is_used_again_once_its_request_is_over_and_under_another_number() {
        let mut entries = Entries::default();
        let (first, second) = (entries.insert(entry(u64::MAX)), entries.insert(entry(7)));
        assert_ne!(first, second);
        assert_eq!((entries.find(Tag(7)), entries.find(first)), (Some(second), None));
        assert_eq!(entries.remove(first), Some(Tag(u64::MAX)));
        assert!(entries.remove(first).is_none() && entries.get_mut(first).is_none());
        assert_eq!(entries.len(), 1);
        let third = entries.insert(entry(9));
        assert_eq!(slot_of(third), slot_of(first));
        assert!(third != first && entries.get(first).is_none() && entries.remove(first).is_none());
        assert!(entries.get_mut(Tag(u64::MAX)).is_none());
    }

    #[test]
    fn a_selection_is_in_the_askers_order() {
        let mut entries = Entries::default();
        let own: Vec<Tag> = [5, 3, 9].into_iter().map(|tag| entries.insert(entry(tag))).collect();
        assert_eq!(entries.select(|entry| entry.tag != Tag(9)), [own[1], own[0]]);
    }
}
