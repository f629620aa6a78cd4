//! The commands under way.

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::Instant;
use scsi::builder::Block;
use volume::{Durability, Extent, Tag, VolumeErrorKind};

use crate::datamover::CommandData;
use crate::pdu::Residual;

/// Which way a command's data goes, and what becomes of it.
#[derive(Debug)]
pub(super) enum Transfer {
    /// No data.
    None,
    /// Read data, which is the outcome.
    Read,
    /// Read data that says how blocks are allocated.
    Status(Extent),
    /// Read data that is to be the same as this; apart, as it is rare.
    Compare(Box<BufList>),
    /// Read data that says what is reserved.
    Reservations,
    /// Write data.
    Write,
}

/// An extent to be zeroed by writing zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zeros {
    pub(super) left: Extent,
    pub(super) durability: Durability,
    /// Only if the unit refuses the command that is to zero it.
    pub(super) instead: bool,
}

/// A command to send.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) cdb: Block,
    pub(super) transfer: Transfer,
    /// Where read data goes, or write data is; away while the datamover has it.
    pub(super) data: CommandData,
    pub(super) length: u32,
    /// It counts as done only once a flush has followed.
    pub(super) flush_after: bool,
    /// What is to be zeroed after it, or instead of it.
    pub(super) zeros: Option<Zeros>,
    /// Every byte must have been moved. Not so for a parameter list: tgt 1.0.85 reports a residual for an UNMAP that it has
    /// carried out.
    pub(super) exact: bool,
}

impl Work {
    /// A command without data.
    pub(super) fn plain(cdb: Block) -> Self {
        Self {
            cdb,
            transfer: Transfer::None,
            data: CommandData::None,
            length: 0,
            flush_after: false,
            zeros: None,
            exact: true,
        }
    }

    /// A command that fills `buf`.
    pub(super) fn reading(cdb: Block, buf: Buf) -> Self {
        let length = wire::bounded::<u32>(buf.len());
        Self {
            cdb,
            transfer: Transfer::Read,
            data: CommandData::Read(buf),
            length,
            flush_after: false,
            zeros: None,
            exact: true,
        }
    }

    /// A command that reads what is to be the same as `data`.
    pub(super) fn comparing(cdb: Block, data: BufList) -> Self {
        let buf = Buf::zeroed(data.len());
        Self { transfer: Transfer::Compare(Box::new(data)), ..Self::reading(cdb, buf) }
    }

    /// A command that writes `data`.
    pub(super) fn writing(cdb: Block, data: BufList) -> Self {
        let length = wire::bounded::<u32>(data.len());
        Self {
            cdb,
            transfer: Transfer::Write,
            data: CommandData::Write(data),
            length,
            flush_after: false,
            zeros: None,
            exact: true,
        }
    }
}

/// Whose command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A request's.
    Request(Tag),
    /// The probe's.
    Probe,
    /// A later question for the size.
    Size,
}

/// One command.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) owner: Owner,
    pub(super) work: Work,
    pub(super) cmd_sn: u32,
    /// It was sent, and its status has not come. Before that no answer can be meant for it.
    pub(super) sent: bool,
    /// When it is overdue, counted from its request: a window that the target keeps closed does not make it wait for longer.
    pub(super) due: Instant,
    pub(super) retries: u8,
    /// It is being aborted, and ends with this.
    pub(super) aborting: Option<VolumeErrorKind>,
}

impl Task {
    /// The buffer that a read was to fill, for whoever asked for it: among what the datamover has given back, or still here if it never had it. `None`
    /// while data is being received into it.
    pub(super) fn unfilled(&mut self, given_back: CommandData) -> Option<Buf> {
        let reads = matches!(self.work.transfer, Transfer::Read) && matches!(self.owner, Owner::Request(_));
        match (given_back, core::mem::take(&mut self.work.data)) {
            (CommandData::Read(buf), _) | (_, CommandData::Read(buf)) if reads => Some(buf),
            _ => None,
        }
    }
}

/// How the target says that a command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandEnd<'a> {
    pub(super) status: u8,
    pub(super) residual: Residual,
    pub(super) sense: &'a [u8],
}

/// A slab of tasks whose tags tell a slot's successive tasks apart.
#[derive(Debug)]
pub(super) struct Tasks {
    slots: Vec<(u8, Option<Task>)>,
    free: Vec<u16>,
}

/// What a task tag stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A SCSI command.
    Command = 1,
    /// The abort of the command in the same slot.
    Abort = 2,
    /// Everything else: pings, text, logout.
    Other = 3,
}

/// A tag of that kind.
pub(super) fn tag(kind: Kind, generation: u8, slot: u16) -> u32 {
    let [high, low] = slot.to_be_bytes();
    u32::from_be_bytes([kind as u8, generation, high, low])
}

impl Tasks {
    /// Room for `depth` tasks.
    pub(super) fn new(depth: u16) -> Self {
        let slots = (0..depth).map(|_| (0, None)).collect();
        Self { slots, free: (0..depth).rev().collect() }
    }

    #[inline]
    pub(super) fn insert(&mut self, task: Task) -> Result<u16, Task> {
        let Some(slot) = self.free.pop() else { return Err(task) };
        if let Some((_, place)) = self.slots.get_mut(usize::from(slot)) {
            *place = Some(task);
        }
        Ok(slot)
    }

    /// The task in a slot and its tag's generation.
    pub(super) fn get(&mut self, slot: u16) -> Option<(u8, &mut Task)> {
        let (generation, task) = self.slots.get_mut(usize::from(slot))?;
        Some((*generation, task.as_mut()?))
    }

    /// The slot that a tag of this kind names, if it is in use by that task.
    pub(super) fn find(&self, kind: Kind, wanted: u32) -> Option<u16> {
        let [of, generation, high, low] = wanted.to_be_bytes();
        let slot = u16::from_be_bytes([high, low]);
        let (current, task) = self.slots.get(usize::from(slot))?;
        (of == kind as u8 && generation == *current && task.is_some()).then_some(slot)
    }

    /// The slot of a request.
    pub(super) fn of_request(&self, wanted: Tag) -> Option<u16> {
        let owns = |(_, task): &(u8, Option<Task>)| {
            task.as_ref().is_some_and(|task| task.owner == Owner::Request(wanted))
        };
        self.slots.iter().position(owns).and_then(|slot| u16::try_from(slot).ok())
    }

    /// Frees a slot; its old tag is not known any more. Says whose task it was, and what it was to end with if it was being
    /// aborted.
    #[inline]
    pub(super) fn remove(&mut self, slot: u16) -> Option<(Owner, Option<VolumeErrorKind>)> {
        let (generation, place) = self.slots.get_mut(usize::from(slot))?;
        let task = place.as_ref()?;
        let ended = (task.owner, task.aborting);
        // Where it stands: it is too big to be moved out.
        *place = None;
        *generation = generation.wrapping_add(1);
        self.free.push(slot);
        Some(ended)
    }

    /// Gives a task that is sent again a new tag.
    pub(super) fn renew(&mut self, slot: u16) {
        if let Some((generation, _)) = self.slots.get_mut(usize::from(slot)) {
            *generation = generation.wrapping_add(1);
        }
    }

    pub(super) fn slots(&self) -> core::ops::Range<u16> {
        0..wire::bounded::<u16>(self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u64) -> Task {
        Task {
            owner: Owner::Request(Tag(number)),
            work: Work::plain(scsi::builder::test_unit_ready()),
            cmd_sn: 0,
            sent: true,
            due: Instant::ZERO,
            retries: 0,
            aborting: None,
        }
    }

    #[test]
    fn a_tag_names_its_task_and_no_other_of_its_slot() {
        let mut tasks = Tasks::new(2);
        let slot = tasks.insert(task(7)).unwrap_or(9);
        let (generation, _) =
            tasks.get(slot).map(|(generation, task)| (generation, task.retries)).unwrap_or_default();
        let own = tag(Kind::Command, generation, slot);
        assert_eq!((tasks.find(Kind::Command, own), tasks.of_request(Tag(7))), (Some(slot), Some(slot)));
        assert_eq!(tasks.find(Kind::Abort, own), None, "a tag of another kind");
        assert_eq!(
            tasks.find(Kind::Command, tag(Kind::Abort, generation, slot)),
            None,
            "a tag of another kind"
        );
        let other = generation.wrapping_add(1);
        assert_eq!(
            tasks.find(Kind::Command, tag(Kind::Command, other, slot)),
            None,
            "the tag of the slot's next task"
        );
        assert_eq!(tasks.find(Kind::Command, tag(Kind::Command, generation, 40_000)), None, "no slot");
        tasks.renew(slot);
        assert_eq!(tasks.find(Kind::Command, own), None, "the tag under which it was sent before");
        assert_eq!(tasks.find(Kind::Command, tag(Kind::Command, other, slot)), Some(slot));
        tasks.remove(slot);
        for generation in 0..=u8::MAX {
            assert_eq!(tasks.find(Kind::Command, tag(Kind::Command, generation, slot)), None, "it has ended");
        }
    }
}
