//! The tasks of one session: a slab, and a table that finds them by their initiator task tags.
//!
//! Neither grows after it was made: a command costs no allocation.

use alloc::vec::Vec;

use buf::Buf;
use volume::{Extent, VolumeId};

use super::data::Collection;

/// What a task waits for.
#[derive(Debug)]
pub(super) enum State {
    /// Its write data; the buffer is away while a piece is being received.
    Collecting(Option<Buf>),
    /// A buffer from the pool.
    AwaitBuffer { volume: VolumeId, extent: Extent, length: u32 },
    /// A volume.
    AtVolume(VolumeId),
    /// The owner of the reservations.
    AtReservations,
    /// Its answer to be sent.
    Answering,
}

/// One command.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) tag: u32,
    pub(super) lun: [u8; 8],
    pub(super) expected: u32,
    pub(super) reads: bool,
    pub(super) numbered: bool,
    pub(super) command: scsi::Task,
    pub(super) data: Collection,
    pub(super) needed: u32,
    pub(super) state: State,
    /// It was aborted: it ends with its request, without an answer.
    pub(super) doomed: bool,
}

/// The session's tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<u16>,
    /// Open addressing with linear probing; at most half full.
    index: Vec<Option<(u32, u16)>>,
}

impl Tasks {
    /// Room for `depth` tasks.
    pub(super) fn new(depth: u16) -> Self {
        let size = usize::from(depth.max(1)).saturating_mul(2).next_power_of_two();
        let mut slots = Vec::new();
        slots.resize_with(usize::from(depth), || None);
        Self { slots, free: (0..depth).rev().collect(), index: alloc::vec![None; size] }
    }

    fn home(&self, tag: u32) -> usize {
        let spread = u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
        usize::try_from(spread % self.index.len() as u64).unwrap_or(0)
    }

    fn place(&self, tag: u32) -> Option<usize> {
        let size = self.index.len();
        let probes = (0..size).map(|step| (self.home(tag) + step) % size);
        for at in probes {
            match self.index.get(at).copied().flatten() {
                None => return None,
                Some((found, _)) if found == tag => return Some(at),
                Some(_) => {}
            }
        }
        None
    }

    /// The slot of the task with this tag.
    pub(super) fn find(&self, tag: u32) -> Option<u16> {
        let (_, slot) = self.index.get(self.place(tag)?).copied().flatten()?;
        Some(slot)
    }

    /// Adds a task whose tag is not in use; `None` when there is no room.
    pub(super) fn insert(&mut self, task: Task) -> Option<u16> {
        let slot = self.free.pop()?;
        let size = self.index.len();
        let home = self.home(task.tag);
        let at = (0..size).map(|step| (home + step) % size).find(|at| self.index.get(*at) == Some(&None))?;
        if let Some(place) = self.index.get_mut(at) {
            *place = Some((task.tag, slot));
        }
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = Some(task);
        }
        Some(slot)
    }

    /// The task in a slot.
    pub(super) fn get(&mut self, slot: u16) -> Option<&mut Task> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// The task in a slot, to look at.
    pub(super) fn peek(&self, slot: u16) -> Option<&Task> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    /// Removes a task; its slot and tag are free again.
    pub(super) fn remove(&mut self, slot: u16) -> Option<Task> {
        let task = self.slots.get_mut(usize::from(slot))?.take()?;
        self.free.push(slot);
        if let Some(at) = self.place(task.tag) {
            self.close_gap(at);
        }
        Some(task)
    }

    /// Moves later entries of a probe run back, so that no search stops early.
    fn close_gap(&mut self, mut gap: usize) {
        let size = self.index.len();
        let mut at = gap;
        loop {
            at = (at + 1) % size;
            let Some((tag, slot)) = self.index.get(at).copied().flatten() else { break };
            let home = self.home(tag);
            // The entry may move into the gap unless its home lies between the gap and itself.
            if (at + size - home) % size >= (at + size - gap) % size {
                if let Some(place) = self.index.get_mut(gap) {
                    *place = Some((tag, slot));
                }
                gap = at;
            }
        }
        if let Some(place) = self.index.get_mut(gap) {
            *place = None;
        }
    }

    /// All slots that have a task.
    pub(super) fn slots(&self) -> impl Iterator<Item = u16> + use<> {
        0..u16::try_from(self.slots.len()).unwrap_or(u16::MAX)
    }

    /// All tasks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.slots.iter().flatten()
    }

    /// True while a task holds a buffer for data that is still in the stream. The stream must then go on, or the buffer
    /// would never come back.
    pub(super) fn are_collecting(&self) -> bool {
        self.iter().any(|task| matches!(task.state, State::Collecting(_)))
    }

    /// True when another task fits.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }
}
