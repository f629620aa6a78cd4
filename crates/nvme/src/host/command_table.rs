//! Commands that a host has under way, indexed by command identifier.

use alloc::boxed::Box;
use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{Durability, Extent, Tag};

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
    Read {
        tag: Tag,
        target: ReadTarget,
    },
    /// A write or compare, with its data.
    Write {
        tag: Tag,
        source: WriteSource,
    },
    Plain {
        tag: Tag,
    },
    Verify(VerifyRead),
    WriteZeroes(ZeroesCommand),
    /// A write of zeros in place of Write Zeroes, with what is left after it; apart, as it is rare, and commands are moved about.
    ZeroWrite {
        tag: Tag,
        source: WriteSource,
        rest: Box<Zeroes>,
    },
    /// A Reservation Report.
    Report {
        tag: Tag,
        target: ReadTarget,
    },
    Query(AllocationRead),
}

/// A read in place of Verify.
#[derive(Debug)]
pub(crate) struct VerifyRead {
    pub(crate) tag: Tag,
    pub(crate) target: ReadTarget,
    /// What is left to verify after it.
    pub(crate) rest: Extent,
}

/// A Get LBA Status.
#[derive(Debug)]
pub(crate) struct AllocationRead {
    pub(crate) tag: Tag,
    pub(crate) target: ReadTarget,
    /// The blocks that it is about.
    pub(crate) extent: Extent,
}

/// A Write Zeroes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZeroesCommand {
    pub(crate) tag: Tag,
    pub(crate) zeroes: Zeroes,
    /// How many of the blocks that are left it covers.
    pub(crate) blocks: u64,
}

/// How blocks are zeroed at a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZeroMethod {
    /// By Write Zeroes, until the controller refuses one.
    WriteZeroes,
    /// By writes of zeros.
    Write,
}

/// Blocks to be zeroed, as many as there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zeroes {
    pub(crate) left: Extent,
    pub(crate) durability: Durability,
    pub(crate) deallocate: bool,
}

impl HostCommand {
    pub(crate) const fn target(&mut self) -> Option<&mut ReadTarget> {
        match self {
            Self::Read { target, .. }
            | Self::Report { target, .. }
            | Self::Verify(VerifyRead { target, .. })
            | Self::Query(AllocationRead { target, .. })
            | Self::Setup(Some(target)) => Some(target),
            _ => None,
        }
    }

    pub(crate) const fn source(&mut self) -> Option<&mut WriteSource> {
        match self {
            Self::Write { source, .. } | Self::ZeroWrite { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The request behind it.
    pub(crate) const fn tag(&self) -> Option<Tag> {
        match self {
            Self::Read { tag, .. }
            | Self::Report { tag, .. }
            | Self::Write { tag, .. }
            | Self::Plain { tag }
            | Self::Verify(VerifyRead { tag, .. })
            | Self::Query(AllocationRead { tag, .. })
            | Self::WriteZeroes(ZeroesCommand { tag, .. })
            | Self::ZeroWrite { tag, .. } => Some(*tag),
            _ => None,
        }
    }
}

/// A command that ends because its connection does.
#[derive(Debug)]
pub(crate) struct EndedCommand {
    /// The request behind it.
    pub(crate) tag: Tag,
    /// It was overdue when that was looked at last.
    pub(crate) overdue: bool,
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
    /// When to look for overdue commands; never later than the first of them is.
    check_at: Option<Instant>,
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
        Self { list, count, free: (0..count).rev().collect(), early: 0, check_at: None }
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
        if let Some(due) = due
            && self.check_at.is_none_or(|check_at| due < check_at)
        {
            self.check_at = Some(due);
        }
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

    /// When to look for overdue commands.
    #[inline]
    pub(crate) fn check_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// True when a command is overdue.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        due(self.check_at) && due(self.first_due())
    }

    /// Looks for overdue commands, if it is time: true if there is one. They end with all others then: nothing is certain about those.
    pub(crate) fn on_check(&mut self, now: Instant) -> bool {
        if self.check_at.is_none_or(|check_at| check_at > now) {
            return false;
        }
        self.check_at = self.first_due();
        let overdue = self.check_at.is_some_and(|due| due <= now);
        if overdue {
            self.check_at = Some(now);
        }
        overdue
    }

    /// When the first command is overdue; looks at all of them.
    fn first_due(&self) -> Option<Instant> {
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
        let checked = self.check_at.take();
        self.identifiers()
            .filter_map(|cid| {
                let due = self.list.get(usize::from(cid)).and_then(|slot| slot.due);
                let command = self.end(cid)?;
                let tag = command.tag()?;
                let memory = if let HostCommand::Read { target, .. } = command { target.buf } else { None };
                let overdue = due.is_some_and(|due| Some(due) <= checked);
                Some(EndedCommand { tag, overdue, memory })
            })
            .collect()
    }
}
