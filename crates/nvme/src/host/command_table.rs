//! Commands that a host has under way, indexed by command identifier.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{Extent, Tag};

use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

/// Data on its way to the host.
#[derive(Debug)]
pub struct ReadTarget {
    /// Where it goes; `None` while the memory is lent to the transport.
    pub buf: Option<Buf>,
    /// Bytes that have come.
    pub received: usize,
    /// Bytes that were asked for.
    pub length: usize,
    /// The transport has found that it is not as it was sent.
    pub damaged: bool,
}

impl ReadTarget {
    pub(super) const fn new(buf: Buf, length: usize) -> Self {
        Self { buf: Some(buf), received: 0, length, damaged: false }
    }
}

/// Data on its way to the controller, as that asks for it.
#[derive(Debug)]
pub struct WriteSource {
    /// All of it.
    pub data: BufList,
    /// Bytes that were asked for, from the first one.
    pub asked: usize,
    /// Bytes that were sent; as long as they are fewer, the controller waits for the rest.
    pub sent: usize,
    /// The controller has ended the command before it had all that it asked for. The command keeps its place until that is sent.
    pub(crate) early: Option<Status>,
}

impl WriteSource {
    pub(super) const fn new(data: BufList) -> Self {
        Self { data, asked: 0, sent: 0, early: None }
    }

    /// Data was asked for that is not sent yet.
    pub const fn is_open(&self) -> bool {
        self.sent < self.asked
    }

    /// The controller has ended the command, although it does not have what it asked for.
    pub const fn has_ended(&self) -> bool {
        self.early.is_some()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.sent == self.data.len()
    }
}

/// One command.
#[derive(Debug)]
pub(crate) enum HostCommand {
    Free,
    /// A step of the set-up, with data if it has any.
    Setup(Option<ReadTarget>),
    AsyncEvent,
    KeepAlive,
    Disconnect,
    Read(Tag, ReadTarget),
    /// A write or compare, with its data.
    Write(Tag, WriteSource),
    Plain(Tag),
    /// A verification by reading, with what is left after this command.
    Verify(Tag, ReadTarget, Extent),
    /// Write zeroes of so many of the blocks that are left.
    Zeroes(Tag, Zeroes, u64),
    /// A write of zeros, with what is left after it; apart, as it is rare, and commands are moved about.
    Zeros(Tag, WriteSource, Box<Zeroes>),
    /// A Reservation Report.
    Report(Tag, ReadTarget),
    /// A Get LBA Status about these blocks.
    Query(Tag, ReadTarget, Extent),
}

/// A write zeroes of any length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zeroes {
    pub(crate) left: Extent,
    pub(crate) fua: bool,
    pub(crate) deallocate: bool,
}

impl HostCommand {
    pub(crate) const fn target(&mut self) -> Option<&mut ReadTarget> {
        match self {
            Self::Read(_, target)
            | Self::Report(_, target)
            | Self::Verify(_, target, _)
            | Self::Query(_, target, _)
            | Self::Setup(Some(target)) => Some(target),
            _ => None,
        }
    }

    pub(crate) const fn source(&mut self) -> Option<&mut WriteSource> {
        match self {
            Self::Write(_, source) | Self::Zeros(_, source, _) => Some(source),
            _ => None,
        }
    }

    /// The request behind it.
    pub(crate) const fn tag(&self) -> Option<Tag> {
        match self {
            Self::Read(tag, _)
            | Self::Report(tag, _)
            | Self::Write(tag, _)
            | Self::Plain(tag)
            | Self::Verify(tag, ..)
            | Self::Query(tag, ..)
            | Self::Zeroes(tag, ..)
            | Self::Zeros(tag, ..) => Some(*tag),
            _ => None,
        }
    }
}

/// A command that is about to be sent.
#[derive(Debug)]
pub(super) struct NewCommand {
    pub(super) command: HostCommand,
    pub(super) in_capsule: BufList,
}

impl NewCommand {
    /// A command without data in its capsule.
    #[inline]
    pub(super) fn new(command: HostCommand) -> Self {
        Self { command, in_capsule: BufList::new() }
    }

    /// A command with data in its capsule.
    #[inline]
    pub(super) const fn with_data(command: HostCommand, in_capsule: BufList) -> Self {
        Self { command, in_capsule }
    }
}

/// Data for the controller, of a command of this request.
#[derive(Debug)]
pub(super) struct NewData {
    pub(super) tag: Tag,
    pub(super) data: BufList,
}

/// A command whose data must be as long as its extent.
#[derive(Debug)]
pub(super) struct DataCommand {
    pub(super) entry: SubmissionQueueEntry,
    pub(super) extent: Extent,
    pub(super) data: BufList,
}

/// The end of a command of the set-up, with what was read.
#[derive(Debug)]
pub(super) struct SetupEnd {
    pub(super) status: Status,
    pub(super) result: u64,
    pub(super) target: Option<ReadTarget>,
}

/// The end of a Get LBA Status.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryEnd<'a> {
    pub(super) status: Status,
    pub(super) target: &'a ReadTarget,
    pub(super) asked: Extent,
}

/// The end of a read that stands for a verification.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceRead<'a> {
    pub(super) status: Status,
    pub(super) target: &'a ReadTarget,
    /// What is left to verify.
    pub(super) rest: Extent,
}

/// The end of a Write Zeroes command.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZeroesEnd {
    pub(super) status: Status,
    pub(super) zeroes: Zeroes,
    /// How many of the blocks it covered.
    pub(super) blocks: u64,
}

/// A command that ends because its connection does.
#[derive(Debug)]
pub(crate) struct EndedCommand {
    /// The request behind it.
    pub(crate) tag: Tag,
    /// When it was overdue.
    pub(crate) due: Option<Instant>,
    /// The buffer that a read was to fill; `None` while data is being received into it.
    pub(crate) memory: Option<Buf>,
}

/// All commands of a queue.
#[derive(Debug)]
pub(crate) struct CommandTable {
    list: Vec<Slot>,
    /// How many places there are.
    count: u16,
    free: Vec<u16>,
    /// Commands that the controller has ended before they had sent all that was asked for.
    early: usize,
}

/// A command's place.
#[derive(Debug)]
struct Slot {
    command: HostCommand,
    /// When it is overdue.
    due: Option<Instant>,
    /// It was sent. Before that no answer can be meant for it.
    sent: bool,
}

impl CommandTable {
    pub(crate) fn new(count: u16) -> Self {
        let list = (0..count).map(|_| Slot { command: HostCommand::Free, due: None, sent: false }).collect();
        Self { list, count, free: (0..count).rev().collect(), early: 0 }
    }

    /// Every identifier that a command can have.
    fn identifiers(&self) -> impl Iterator<Item = u16> + use<> {
        0..self.count
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Gives a command an identifier; it is overdue at `due`.
    pub(crate) fn begin(&mut self, command: HostCommand, due: Option<Instant>) -> Option<u16> {
        let cid = self.free.pop()?;
        let slot = self.list.get_mut(usize::from(cid))?;
        // A free place holds nothing: to say so spares looking for what is to be dropped there.
        debug_assert!(matches!(slot.command, HostCommand::Free));
        core::mem::forget(core::mem::replace(&mut slot.command, command));
        (slot.due, slot.sent) = (due, false);
        Some(cid)
    }

    /// The command has been given to the transport.
    pub(crate) fn mark_sent(&mut self, cid: u16) {
        if let Some(slot) = self.list.get_mut(usize::from(cid)) {
            slot.sent = true;
        }
    }

    /// A command that was sent.
    pub(crate) fn get(&mut self, cid: u16) -> Option<&mut HostCommand> {
        self.list.get_mut(usize::from(cid)).filter(|slot| slot.sent).map(|slot| &mut slot.command)
    }

    /// Keeps the end of a command until what was asked for is sent: false if it has come before.
    pub(crate) fn keep_early(&mut self, cid: u16, status: Status) -> bool {
        let Some(source) = self.get(cid).and_then(HostCommand::source) else { return false };
        let first = source.early.replace(status).is_none();
        self.early = self.early.saturating_add(usize::from(first));
        first
    }

    /// A command that was ended early and has sent what was asked for, with its status.
    pub(crate) fn take_early(&mut self) -> Option<(HostCommand, Status)> {
        if self.early == 0 {
            return None;
        }
        let ended = self.identifiers().find_map(|cid| {
            let source = self.get(cid).and_then(HostCommand::source)?;
            Some((cid, source.early.filter(|_| !source.is_open())?))
        });
        let (cid, status) = ended?;
        self.early = self.early.saturating_sub(1);
        Some((self.end(cid)?, status))
    }

    /// When the first command is overdue; looks at all of them.
    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.list
            .iter()
            .filter(|slot| !matches!(slot.command, HostCommand::Free))
            .filter_map(|slot| slot.due)
            .min()
    }

    /// Ends a command; `None` if there is none of this identifier.
    pub(crate) fn end(&mut self, cid: u16) -> Option<HostCommand> {
        let slot = self.list.get_mut(usize::from(cid))?;
        slot.sent = false;
        let command = core::mem::replace(&mut slot.command, HostCommand::Free);
        if matches!(command, HostCommand::Free) {
            return None;
        }
        self.free.push(cid);
        Some(command)
    }

    /// Ends all commands and gives the requests behind them.
    pub(crate) fn end_all(&mut self) -> Vec<EndedCommand> {
        self.early = 0;
        self.identifiers()
            .filter_map(|cid| {
                let due = self.list.get(usize::from(cid)).and_then(|slot| slot.due);
                let command = self.end(cid)?;
                let tag = command.tag()?;
                let memory = if let HostCommand::Read(_, target) = command { target.buf } else { None };
                Some(EndedCommand { tag, due, memory })
            })
            .collect()
    }
}

/// Queries of an admin queue.
#[derive(Debug, Default)]
pub(super) struct Queries {
    pub(super) under_way: usize,
    pub(super) waiting: VecDeque<(Tag, Extent)>,
}

impl Queries {
    /// Forgets all; gives those that were not sent.
    pub(super) fn end(&mut self) -> VecDeque<(Tag, Extent)> {
        self.under_way = 0;
        core::mem::take(&mut self.waiting)
    }
}
