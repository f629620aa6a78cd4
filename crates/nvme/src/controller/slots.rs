//! Commands under way on one queue, indexed by a slot number that is the volume's tag and the transfer tag.

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::Buf;
use protocol::Instant;
use volume::VolumeId;

use super::allocation::QueryProgress;
use super::command::{DataTransfer, EndedCommand, Position, ReceivedCommand};
use crate::limits::{ABANDONED, FIRST_SLOTS};

/// How far a command is.
#[derive(Debug)]
pub(crate) enum Step {
    /// No command.
    Free,
    /// It waits for memory for its data.
    Waiting,
    /// Its data is arriving.
    Data {
        buf: Option<Buf>,
        received: usize,
        length: usize,
        damaged: bool,
        heard: Instant,
        /// What the data is for, unless the queue entry says it.
        transfer: Option<DataTransfer>,
    },
    /// Requests are with a volume; Dataset Management has a list of ranges.
    Submitted { volume: VolumeId, ranges: Option<Buf>, position: Position },
    /// A volume is asked how blocks are allocated.
    Query(Box<QueryProgress>),
    /// It waits: an Asynchronous Event Request, an Abort, or a Connect for its group.
    Held,
    /// It was aborted and is complete, but the host was asked for its data: what still comes is passed over.
    Abandoned { received: usize, length: usize },
}

impl Step {
    /// A request without further ones of its own is with this volume.
    #[inline]
    pub(crate) const fn submitted(volume: VolumeId, position: Position) -> Self {
        Self::Submitted { volume, ranges: None, position }
    }

    /// Which volume has its request.
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self {
            Self::Submitted { volume, .. } => Some(*volume),
            Self::Query(query) => Some(query.volume()),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) command: ReceivedCommand,
    pub(crate) step: Step,
}

/// The slots of a queue. Identifiers stand apart, so that looking for a duplicate reads few lines of cache.
#[derive(Debug)]
pub(crate) struct Slots {
    /// As many as there have ever been commands at a time: room for more is not touched before it is used.
    list: Vec<Slot>,
    /// How many there may be, and for how many of them there is memory.
    room: u16,
    granted: u16,
    cids: Vec<u32>,
    /// How many outstanding identifiers end in the same bits as the place's number. Hosts number their commands densely, so
    /// that a new one meets an empty place, and nothing has to be searched.
    alike: Vec<u16>,
    free: Vec<u16>,
    abandoned: u16,
    /// Slots that were made for commands in place of abandoned ones.
    spare: u16,
}

/// Not a command identifier.
const NONE: u32 = u32::MAX;

impl Slots {
    pub(crate) fn new(count: u16) -> Self {
        let (list, cids, alike, free) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut slots =
            Self { list, room: 0, granted: FIRST_SLOTS, cids, alike, free, abandoned: 0, spare: 0 };
        slots.grow(count);
        slots
    }

    /// Makes room for `count` commands in all.
    pub(crate) fn grow(&mut self, count: u16) {
        self.room = self.room.max(count);
        let count = usize::from(self.room);
        self.list.reserve_exact(usize::from(self.granted.min(self.room)).saturating_sub(self.list.len()));
        self.cids.reserve_exact(count.saturating_sub(self.cids.len()));
        self.free.reserve_exact(count.saturating_sub(self.free.len()));
        self.alike.clear();
        self.alike.resize(count.next_power_of_two(), 0);
        for index in 0..self.cids.len() {
            if let Some(known) = self.cids.get(index).copied().filter(|known| *known != NONE) {
                self.count(known, 1);
            }
        }
    }

    /// True when a command must wait for a slot, or for memory for more of them.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.free.is_empty() && self.list.len() >= usize::from(self.granted)
    }

    /// By how many slots the memory for them is to grow next.
    pub(crate) fn wants(&self) -> u16 {
        self.room.saturating_sub(self.granted).min(self.granted)
    }

    /// There is memory for so many more slots.
    pub(crate) fn grant(&mut self, more: u16) {
        self.granted = self.granted.saturating_add(more);
        self.list.reserve_exact(usize::from(self.granted).saturating_sub(self.list.len()));
    }

    /// For how many slots there is memory.
    pub(crate) fn granted(&self) -> u16 {
        self.granted
    }

    /// A slot that was never used, if there is room for one.
    fn add(&mut self) -> Option<u16> {
        let index = u16::try_from(self.list.len()).ok().filter(|index| *index < self.room)?;
        self.list.push(Slot { command: ReceivedCommand::NONE, step: Step::Free });
        self.cids.push(NONE);
        Some(index)
    }

    /// Counts an identifier that has become outstanding (1), or is no longer (−1).
    fn count(&mut self, cid: u32, by: i16) {
        let mask = self.alike.len().saturating_sub(1);
        let place = usize::try_from(cid).unwrap_or(0) & mask;
        if let Some(count) = self.alike.get_mut(place) {
            *count = count.saturating_add_signed(by);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.list.len() >= usize::from(self.room)
    }

    pub(crate) fn is_outstanding(&self, cid: u16) -> bool {
        let mask = self.alike.len().saturating_sub(1);
        let alone = self.alike.get(usize::from(cid) & mask).is_some_and(|count| *count == 0);
        !alone && self.cids.contains(&u32::from(cid))
    }

    /// The slot of a command that has not completed.
    pub(crate) fn find(&self, cid: u16) -> Option<u16> {
        let index = self.cids.iter().position(|known| *known == u32::from(cid))?;
        u16::try_from(index).ok()
    }

    /// Begins a command; `None` when all slots are in use.
    pub(crate) fn begin(&mut self, command: &ReceivedCommand, step: Step) -> Option<u16> {
        let index = self.free.pop().or_else(|| self.add())?;
        let cid = u32::from(command.entry.cid.get());
        if let Some(place) = self.cids.get_mut(usize::from(index)) {
            *place = cid;
        }
        self.count(cid, 1);
        let slot = self.get(index)?;
        slot.command = *command;
        // A free slot holds nothing: to say so spares looking for what is to be dropped there.
        debug_assert!(matches!(slot.step, Step::Free));
        core::mem::forget(core::mem::replace(&mut slot.step, step));
        Some(index)
    }

    pub(crate) fn get(&mut self, index: u16) -> Option<&mut Slot> {
        self.list.get_mut(usize::from(index))
    }

    /// Ends a command and gives what it was; `None` if there is none.
    pub(crate) fn end(&mut self, index: u16) -> Option<EndedCommand> {
        let slot = self.list.get_mut(usize::from(index))?;
        match slot.step {
            Step::Free => return None,
            Step::Abandoned { .. } => self.abandoned = self.abandoned.saturating_sub(1),
            _ => {}
        }
        slot.step = Step::Free;
        let command = slot.command.ended();
        self.forget(index);
        self.free.push(index);
        Some(command)
    }

    /// A command's identifier is free again, if it was not already.
    fn forget(&mut self, index: u16) {
        let Some(place) = self.cids.get_mut(usize::from(index)) else { return };
        let cid = core::mem::replace(place, NONE);
        if cid != NONE {
            self.count(cid, -1);
        }
    }

    /// Ends a command whose data is still to come: its memory and its identifier are free at once, its slot, which is
    /// the transfer tag, once the data has come. `None` when that is not so, or there are too many already.
    pub(crate) fn abandon(&mut self, index: u16) -> Option<EndedCommand> {
        let slot = self.list.get_mut(usize::from(index))?;
        let Step::Data { received, length, .. } = slot.step else { return None };
        if self.abandoned >= ABANDONED {
            return None;
        }
        slot.step = Step::Abandoned { received, length };
        let command = slot.command.ended();
        self.forget(index);
        self.abandoned = self.abandoned.saturating_add(1);
        if self.abandoned > self.spare {
            self.spare = self.abandoned;
            self.granted = self.granted.saturating_add(1);
            self.grow(self.room.saturating_add(1));
        }
        Some(command)
    }

    /// Counts data of an abandoned command that was passed over up to `end`.
    pub(crate) fn pass_over(&mut self, index: u16, end: usize) {
        let Some(slot) = self.get(index) else { return };
        if let Step::Abandoned { received, length } = &mut slot.step {
            *received = end;
            if end == *length {
                self.end(index);
            }
        }
    }

    /// The slots of all commands that wait for memory, data or a volume.
    pub(crate) fn under_way(&self) -> Vec<u16> {
        let waits =
            |step: &Step| matches!(step, Step::Waiting | Step::Data { .. }) || step.volume().is_some();
        (0_u16..).zip(&self.list).filter(|(_, slot)| waits(&slot.step)).map(|(index, _)| index).collect()
    }

    /// All slots that were ever used.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.room).take(self.list.len())
    }

    /// Bytes of the slots that were ever used.
    pub(crate) fn size(&self) -> usize {
        size_of_val(self.list.as_slice())
    }

    /// The volumes of all requests that are with one.
    pub(crate) fn submitted(&self) -> impl Iterator<Item = VolumeId> + '_ {
        self.list.iter().filter_map(|slot| slot.step.volume())
    }
}
