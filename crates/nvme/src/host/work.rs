//! Commands that a host has under way, indexed by command identifier.

use alloc::vec::Vec;

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{Extent, Tag};

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
    Write(Tag, BufList),
    Plain(Tag),
    /// A verification by reading, with what is left after this command.
    Verify(Tag, Landing, Extent),
    /// Write zeroes of so many of the blocks that are left.
    Zeroes(Tag, Zeroes, u64),
    /// A write of zeros, with what is left after it.
    Zeros(Tag, BufList, Zeroes),
    /// A Reservation Report.
    Report(Tag, Landing),
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
            | Self::Setup(Some(landing)) => Some(landing),
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
            | Self::Zeroes(tag, ..)
            | Self::Zeros(tag, ..) => Some(*tag),
            _ => None,
        }
    }
}

/// All commands of a queue.
#[derive(Debug)]
pub(crate) struct Works {
    /// Each with the time at which it is overdue.
    list: Vec<(Work, Option<Instant>)>,
    free: Vec<u16>,
}

impl Works {
    pub(crate) fn new(count: u16) -> Self {
        let list = (0..count).map(|_| (Work::Free, None)).collect();
        Self { list, free: (0..count).rev().collect() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Gives a command an identifier; it is overdue at `due`.
    pub(crate) fn begin(&mut self, work: Work, due: Option<Instant>) -> Option<u16> {
        let cid = self.free.pop()?;
        *self.list.get_mut(usize::from(cid))? = (work, due);
        Some(cid)
    }

    pub(crate) fn get(&mut self, cid: u16) -> Option<&mut Work> {
        self.list.get_mut(usize::from(cid)).map(|(work, _)| work)
    }

    /// When the first command is overdue; looks at all of them.
    pub(crate) fn first_due(&self) -> Option<Instant> {
        self.list.iter().filter(|(work, _)| !matches!(work, Work::Free)).filter_map(|(_, due)| *due).min()
    }

    /// Ends a command; `None` if there is none of this identifier.
    pub(crate) fn end(&mut self, cid: u16) -> Option<Work> {
        let work = core::mem::replace(self.get(cid)?, Work::Free);
        if matches!(work, Work::Free) {
            return None;
        }
        self.free.push(cid);
        Some(work)
    }

    /// Ends all commands and gives the requests behind them, each with the time at which it was overdue.
    pub(crate) fn end_all(&mut self) -> Vec<(Tag, Option<Instant>)> {
        let all = 0..u16::try_from(self.list.len()).unwrap_or(u16::MAX);
        all.filter_map(|cid| {
            let due = self.list.get(usize::from(cid)).and_then(|(_, due)| *due);
            Some((self.end(cid)?.tag()?, due))
        })
        .collect()
    }
}
