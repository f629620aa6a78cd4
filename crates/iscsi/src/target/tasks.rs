//! The tasks of one session: a slab, and a table that finds them by their initiator task tags.
//!
//! Neither needs more memory than it was made with, until it is told to grow: a command costs no allocation. A slot's memory is not touched before the session has
//! had that many tasks at a time.

use alloc::vec::Vec;

use protocol::Instant;
use volume::{Epoch, Extent, VolumeId};

use super::buffer_need::BufferNeed;
use super::get_data::GetDataProgress;
use crate::sequence::Delivery;

/// What a buffer is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    /// To read into.
    Read { volume: VolumeId, epoch: Epoch, extent: Extent },
    /// For write data that is asked for then.
    Data,
}

/// What a task waits for.
#[derive(Debug)]
pub(super) enum State {
    /// There is no task.
    Free,
    /// Its write data, for which the datamover has the buffer.
    Collecting,
    /// A buffer from the pool.
    AwaitBuffer(Wanted),
    /// A buffer for data that came with the command, and has not been received.
    Unread,
    /// A volume.
    AtVolume(VolumeId),
    /// The owner of the reservations.
    AtReservations,
    /// Its answer to be sent.
    Answering,
}

/// Who aborted a task, which decides what its initiator hears (SAM-5 §5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbortedBy {
    /// The nexus that sent it, or the end of that nexus: it gets no answer.
    Itself,
    /// Another nexus, or whoever took its logical unit away: it ends with TASK ABORTED, as TAS is one.
    Others,
}

/// One command.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) tag: u32,
    pub(super) lun: [u8; 8],
    pub(super) expected: u32,
    pub(super) reads: bool,
    pub(super) delivery: Delivery,
    pub(super) command: scsi::Task,
    pub(super) get_data: GetDataProgress,
    /// When data last came, or was last asked for.
    pub(super) heard: Instant,
    /// The buffer that it has or waits for.
    pub(super) buffer: BufferNeed,
    pub(super) state: State,
    /// Who aborted it while its request was under way, with which it ends.
    pub(super) aborted: Option<AbortedBy>,
}

impl Task {
    fn is_live(&self) -> bool {
        !matches!(self.state, State::Free)
    }

    /// It was aborted while its request is under way. Who aborts its own task hears nothing more of it, whoever else did so.
    pub(super) fn abort(&mut self, by: AbortedBy) {
        if self.aborted != Some(AbortedBy::Itself) {
            self.aborted = Some(by);
        }
    }

    /// True while its data has not been received.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.state, State::Unread)
    }

    fn unused() -> Self {
        Self {
            tag: 0,
            lun: [0; 8],
            expected: 0,
            reads: false,
            delivery: Delivery::Immediate,
            command: scsi::Task::default(),
            get_data: GetDataProgress::default(),
            heard: Instant::ZERO,
            buffer: BufferNeed::default(),
            state: State::Free,
            aborted: None,
        }
    }
}

/// The session's tasks. They are filled in and emptied where they stand: a task is too big to be moved about for each command.
#[derive(Debug)]
pub(super) struct Tasks {
    /// As many as there have ever been at a time.
    slots: Vec<Task>,
    free: Vec<u16>,
    /// How many there may be.
    room: u16,
    /// Open addressing with linear probing; at most half full.
    index: Vec<Option<(u32, u16)>>,
}

impl Tasks {
    /// Room for `depth` tasks.
    pub(super) fn new(depth: u16) -> Self {
        let mut tasks = Self { slots: Vec::new(), free: Vec::new(), room: 0, index: Vec::new() };
        tasks.grow(depth);
        tasks
    }

    /// Makes room for `depth` tasks in all.
    pub(super) fn grow(&mut self, depth: u16) {
        self.slots.reserve_exact(usize::from(depth).saturating_sub(self.slots.len()));
        // Slots are used for the first time in the order of their numbers.
        let mut free: Vec<u16> = Vec::with_capacity(usize::from(depth));
        free.extend((self.room..depth).rev());
        free.append(&mut self.free);
        (self.free, self.room) = (free, self.room.max(depth));
        let size = usize::from(depth.max(1)).saturating_mul(2).next_power_of_two();
        let old = core::mem::replace(&mut self.index, alloc::vec![None; size]);
        for (tag, slot) in old.into_iter().flatten() {
            self.enter(tag, slot);
        }
    }

    /// Lets a tag that is not in the index be found.
    #[inline]
    fn enter(&mut self, tag: u32, slot: u16) -> Option<()> {
        let (home, mask) = (self.home(tag), self.mask());
        let at = (0..=mask).map(|step| (home + step) & mask).find(|at| self.index.get(*at) == Some(&None))?;
        *self.index.get_mut(at)? = Some((tag, slot));
        Some(())
    }

    fn home(&self, tag: u32) -> usize {
        let spread = u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
        usize::try_from(spread & u64::from(u32::MAX)).unwrap_or(0) & self.mask()
    }

    /// The index's length is a power of two.
    fn mask(&self) -> usize {
        self.index.len().saturating_sub(1)
    }

    #[inline]
    fn place(&self, tag: u32) -> Option<usize> {
        let (home, mask) = (self.home(tag), self.mask());
        let probes = (0..=mask).map(|step| (home + step) & mask);
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
    #[inline]
    pub(super) fn find(&self, tag: u32) -> Option<u16> {
        let (_, slot) = self.index.get(self.place(tag)?).copied().flatten()?;
        Some(slot)
    }

    /// Adds a task with a tag that is not in use, for the caller to fill in; `None` when there is no room.
    #[inline]
    pub(super) fn insert(&mut self, tag: u32) -> Option<u16> {
        let slot = self.free.pop()?;
        self.enter(tag, slot)?;
        if usize::from(slot) == self.slots.len() {
            self.slots.push(Task::unused());
        }
        if let Some(task) = self.slots.get_mut(usize::from(slot)) {
            (task.tag, task.buffer, task.aborted) = (tag, BufferNeed::default(), None);
            task.state = State::Answering;
        }
        Some(slot)
    }

    /// The task in a slot.
    pub(super) fn get(&mut self, slot: u16) -> Option<&mut Task> {
        self.slots.get_mut(usize::from(slot)).filter(|task| task.is_live())
    }

    /// The buffer that the task in a slot waits for, if it waits for one.
    #[inline]
    pub(super) fn awaited_buffer(&mut self, slot: u16) -> Option<&mut BufferNeed> {
        let task = self.slots.get_mut(usize::from(slot))?;
        matches!(task.state, State::AwaitBuffer(_)).then_some(&mut task.buffer)
    }

    /// The task in a slot, to look at.
    pub(super) fn peek(&self, slot: u16) -> Option<&Task> {
        self.slots.get(usize::from(slot)).filter(|task| task.is_live())
    }

    /// Removes a task and lets go of what it held; its slot and tag are free again. Says how its command was delivered.
    #[inline]
    pub(super) fn remove(&mut self, slot: u16) -> Option<Delivery> {
        let task = self.get(slot)?;
        task.state = State::Free;
        task.command.reset();
        let (tag, delivery) = (task.tag, task.delivery);
        self.free.push(slot);
        if let Some(at) = self.place(tag) {
            self.close_gap(at);
        }
        Some(delivery)
    }

    /// Moves later entries of a probe run back, so that no search stops early.
    fn close_gap(&mut self, mut gap: usize) {
        let (size, mask) = (self.index.len(), self.mask());
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let Some((tag, slot)) = self.index.get(at).copied().flatten() else { break };
            let home = self.home(tag);
            // The entry may move into the gap unless its home lies between the gap and itself.
            if (at + size - home) & mask >= (at + size - gap) & mask {
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

    /// Slots that were ever used.
    pub(super) fn used(&self) -> usize {
        self.slots.len()
    }

    /// All slots that have a task.
    pub(super) fn slots(&self) -> impl Iterator<Item = u16> + use<> {
        0..wire::bounded::<u16>(self.slots.len())
    }

    /// True while a task that was aborted is still at a volume, or at the owner of the reservations.
    pub(super) fn are_aborting(&self) -> bool {
        self.iter().any(|task| task.aborted.is_some())
    }

    /// All tasks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.slots.iter().filter(|task| task.is_live())
    }

    /// True while a task holds a buffer for data that is still to be received. Receiving must then go on, or the buffer
    /// would never come back.
    pub(super) fn are_collecting(&self) -> bool {
        self.iter().any(|task| matches!(task.state, State::Collecting))
    }

    /// True when another task fits.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    /// Numbers by seed (SplitMix64).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (word ^ word >> 27) % bound
        }
    }

    #[test]
    fn tags_are_found_as_long_as_their_tasks_last_whatever_came_and_went_between() {
        for seed in 0..60_u8 {
            let depth = [1, 2, 8, 31][usize::from(seed) % 4];
            let (mut tasks, mut model, mut numbers) =
                (Tasks::new(depth), BTreeMap::new(), Numbers(u64::from(seed) << 32));
            for step in 0..200 {
                // Few tags, so that they come back, and share their places in the index.
                let tag = u32::try_from(numbers.below(u64::from(depth) * 4)).unwrap_or(0);
                if let Some(slot) = model.remove(&tag) {
                    tasks.remove(slot);
                } else {
                    let slot = tasks.insert(tag);
                    let room = model.len() < usize::from(depth);
                    assert_eq!(
                        slot.is_some(),
                        room,
                        "seed {seed}, step {step}: a task fits as long as there are fewer than {depth}"
                    );
                    model.extend(slot.map(|slot| (tag, slot)));
                }
                assert_eq!(tasks.has_room(), model.len() < usize::from(depth), "seed {seed}, step {step}");
                for tag in 0..u32::from(depth) * 4 {
                    let found = tasks.find(tag);
                    assert_eq!(
                        found,
                        model.get(&tag).copied(),
                        "seed {seed}, step {step}: the slot of tag {tag}"
                    );
                    assert_eq!(
                        found.and_then(|slot| tasks.peek(slot)).map(|task| task.tag),
                        found.map(|_| tag)
                    );
                }
                assert_eq!(tasks.iter().count(), model.len(), "seed {seed}, step {step}");
            }
        }
    }
}
