//! Commands that a host has under way, indexed by command identifier.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{Extent, Tag};

use crate::status::Status;

/// Data on its way to the host.
#[derive(Debug)]
pub(crate) struct Landing {
    /// `None` while the memory is lent for a placement.
    pub(crate) buf: Option<Buf>,
    pub(crate) received: usize,
    pub(crate) length: usize,
    /// A digest did not match.
    pub(crate) damaged: bool,
}

impl Landing {
    pub(crate) const fn new(buf: Buf, length: usize) -> Self {
        Self { buf: Some(buf), received: 0, length, damaged: false }
    }
}

/// Data on its way to the controller, as R2Ts ask for it.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) data: BufList,
    /// Bytes that were asked for: the next R2T begins there (NVMe TCP Transport §3.6.2.9).
    pub(crate) asked: usize,
    /// Bytes that were sent; as long as they are fewer, an R2T is open.
    pub(crate) sent: usize,
    /// The controller has ended the command before it had all that it asked for. The command keeps its place until that is sent.
    pub(crate) early: Option<Status>,
}

impl Sending {
    pub(crate) const fn new(data: BufList) -> Self {
        Self { data, asked: 0, sent: 0, early: None }
    }

    /// An R2T has asked for data that is not sent yet.
    pub(crate) const fn is_open(&self) -> bool {
        self.sent < self.asked
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.sent == self.data.len()
    }
}

/// One command.
#[derive(Debug)]
pub(crate) enum Work {
    Free,
    /// A step of the set-up, with data if it has any.
    Setup(Option<Landing>),
    AsyncEvent,
    KeepAlive,
    Disconnect,
    Read(Tag, Landing),
    /// A write or compare: its data, for R2Ts.
    Write(Tag, Sending),
    Plain(Tag),
    /// A verification by reading, with what is left after this command.
    Verify(Tag, Landing, Extent),
    /// Write zeroes of so many of the blocks that are left.
    Zeroes(Tag, Zeroes, u64),
    /// A write of zeros, with what is left after it.
    Zeros(Tag, Sending, Zeroes),
    /// A Reservation Report.
    Report(Tag, Landing),
    /// A Get LBA Status about these blocks.
    Query(Tag, Landing, Extent),
}

/// A write zeroes of any length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zeroes {
    pub(crate) left: Extent,
    pub(crate) fua: bool,
    pub(crate) deallocate: bool,
}

impl Work {
    pub(crate) const fn landing(&mut self) -> Option<&mut Landing> {
        match self {
            Self::Read(_, landing)
            | Self::Report(_, landing)
            | Self::Verify(_, landing, _)
            | Self::Query(_, landing, _)
            | Self::Setup(Some(landing)) => Some(landing),
            _ => None,
        }
    }

    pub(crate) const fn sending(&mut self) -> Option<&mut Sending> {
        match self {
            Self::Write(_, sending) | Self::Zeros(_, sending, _) => Some(sending),
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

/// All commands of a queue.
#[derive(Debug)]
pub(crate) struct Works {
    list: Vec<Slot>,
    free: Vec<u16>,
    /// Commands that the controller has ended before they had sent all that was asked for.
    early: usize,
}

/// A command's place.
#[derive(Debug)]
struct Slot {
    work: Work,
    /// When it is overdue.
    due: Option<Instant>,
    /// It was sent. Before that no answer can be meant for it.
    sent: bool,
}

impl Works {
    pub(crate) fn new(count: u16) -> Self {
        let list = (0..count).map(|_| Slot { work: Work::Free, due: None, sent: false }).collect();
        Self { list, free: (0..count).rev().collect(), early: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Gives a command an identifier; it is overdue at `due`.
    pub(crate) fn begin(&mut self, work: Work, due: Option<Instant>) -> Option<u16> {
        let cid = self.free.pop()?;
        let slot = self.list.get_mut(usize::from(cid))?;
        // A free place holds nothing: to say so spares looking for what is to be dropped there.
        debug_assert!(matches!(slot.work, Work::Free));
        core::mem::forget(core::mem::replace(&mut slot.work, work));
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
    pub(crate) fn get(&mut self, cid: u16) -> Option<&mut Work> {
        self.list.get_mut(usize::from(cid)).filter(|slot| slot.sent).map(|slot| &mut slot.work)
    }

    /// Keeps the end of a command until what was asked for is sent: false if it has come before.
    pub(crate) fn keep_early(&mut self, cid: u16, status: Status) -> bool {
        let Some(sending) = self.get(cid).and_then(Work::sending) else { return false };
        let first = sending.early.replace(status).is_none();
        self.early = self.early.saturating_add(usize::from(first));
        first
    }

    /// A command that was ended early and has sent what was asked for, with its status.
    pub(crate) fn take_early(&mut self) -> Option<(Work, Status)> {
        if self.early == 0 {
            return None;
        }
        let all = 0..u16::try_from(self.list.len()).unwrap_or(u16::MAX);
        let ended = all.into_iter().find_map(|cid| {
            let sending = self.get(cid).and_then(Work::sending)?;
            Some((cid, sending.early.filter(|_| !sending.is_open())?))
        });
        let (cid, status) = ended?;
        self.early = self.early.saturating_sub(1);
        Some((self.end(cid)?, status))
    }

    /// When the first command is overdue; looks at all of them.
    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.list.iter().filter(|slot| !matches!(slot.work, Work::Free)).filter_map(|slot| slot.due).min()
    }

    /// Ends a command; `None` if there is none of this identifier.
    pub(crate) fn end(&mut self, cid: u16) -> Option<Work> {
        let slot = self.list.get_mut(usize::from(cid))?;
        slot.sent = false;
        let work = core::mem::replace(&mut slot.work, Work::Free);
        if matches!(work, Work::Free) {
            return None;
        }
        self.free.push(cid);
        Some(work)
    }

    /// Ends all commands and gives the requests behind them, each with the time at which it was overdue.
    pub(crate) fn end_all(&mut self) -> Vec<(Tag, Option<Instant>)> {
        self.early = 0;
        let all = 0..u16::try_from(self.list.len()).unwrap_or(u16::MAX);
        all.filter_map(|cid| {
            let due = self.list.get(usize::from(cid)).and_then(|slot| slot.due);
            Some((self.end(cid)?.tag()?, due))
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
