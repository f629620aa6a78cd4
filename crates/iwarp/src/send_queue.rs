//! Requests other than receives, in the order of posting: they begin in that order, and complete in it. `send_queue.table` has how each goes on.

use alloc::collections::VecDeque;

use crate::ddp::Segment;
use buf::{Buf, BufList};
use verbs::{
    RegionMemory, RegionTable, RemoteRegion, STag, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory,
};

/// Tags of the memory that reads of ours go to. No region has one: [`RegionTable`] gives out none so large, so that only a response reaches that memory.
const READ_SINK: u32 = 1 << 31;

/// What a request is to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// See [`verbs::WorkRequest::Send`].
    Send { data: BufList, invalidate: Option<STag> },
    /// See [`verbs::WorkRequest::Write`].
    Write { data: BufList, to: RemoteRegion },
    /// See [`verbs::WorkRequest::Read`].
    Read(Read),
    /// The region, which the peer may use already.
    Register(RemoteRegion),
    /// See [`verbs::WorkRequest::Invalidate`]. Its memory, once the region has ended.
    Invalidate { stag: STag, memory: Option<RegionMemory> },
}

/// A read of the peer's memory.
#[derive(Debug)]
pub(crate) struct Read {
    /// Where it goes, unless the transport has it.
    pub(crate) into: Option<Buf>,
    /// What is read.
    pub(crate) from: RemoteRegion,
    /// Bytes that have come.
    pub(crate) placed: usize,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It has not begun.
    Waiting,
    /// So many bytes of its message have been put into sends.
    Sending { sent: usize },
    /// All of it has been put into a send.
    Sent,
    /// The request of a read has been put into a send.
    Requested,
    /// It is over, but for its completion.
    Done,
    /// The peer refuses it.
    Refused,
}

impl Progress {
    /// A segment of `bytes` has been put into a send.
    fn send(&mut self, bytes: usize, segment: Segment) {
        let sent = match *self {
            Self::Waiting => 0,
            Self::Sending { sent } => sent,
            _ => return,
        };
        *self = match segment {
            Segment::Last => Self::Sent,
            Segment::Intermediate => Self::Sending { sent: sent.saturating_add(bytes) },
        };
    }

    /// The request of a read has been put into a send.
    fn request(&mut self) {
        if *self == Self::Waiting {
            *self = Self::Requested;
        }
    }

    /// What had been put into a send has gone out.
    fn transmitted(&mut self) {
        if *self == Self::Sent {
            *self = Self::Done;
        }
    }

    /// The response to a read has come.
    fn respond(&mut self) {
        if *self == Self::Requested {
            *self = Self::Done;
        }
    }

    /// The region of this side has ended.
    fn release(&mut self) {
        if *self == Self::Waiting {
            *self = Self::Done;
        }
    }

    /// The peer refuses a read.
    fn refuse(&mut self) {
        if *self == Self::Requested {
            *self = Self::Refused;
        }
    }

    /// It has begun, and needs no more sending.
    fn is_out(self) -> bool {
        !matches!(self, Self::Waiting | Self::Sending { .. })
    }

    fn result(self) -> Option<Result<(), WorkError>> {
        match self {
            Self::Done => Some(Ok(())),
            Self::Refused => Some(Err(WorkError::RemoteAccess)),
            _ => None,
        }
    }
}

/// A request.
#[derive(Debug)]
struct Entry {
    /// Its name; the read that shows readiness has none, and nobody hears of it.
    id: Option<WorkId>,
    work: Work,
    progress: Progress,
    /// The number of its message, once it has begun.
    sequence: u32,
}

impl Entry {
    /// Its completion, with its memory; none for a read that nobody asked for.
    fn complete(self, result: Result<(), WorkError>) -> Option<WorkCompletion> {
        let id = self.id?;
        let (done, memory) = match self.work {
            Work::Send { data, .. } => (WorkDone::Sent, WorkMemory::List(data)),
            Work::Write { data, .. } => (WorkDone::Written, WorkMemory::List(data)),
            Work::Read(read) => (WorkDone::Read, read.into.map_or(WorkMemory::None, WorkMemory::Buf)),
            Work::Register(region) => (WorkDone::Registered(region), WorkMemory::None),
            Work::Invalidate { memory, .. } => {
                (WorkDone::Invalidated, memory.map_or(WorkMemory::None, WorkMemory::Region))
            }
        };
        Some(WorkCompletion { id, result: result.map(|()| done), memory })
    }
}

/// The message that is next, or going on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// What it is.
    pub(crate) work: &'a Work,
    /// Bytes that have been put into sends.
    pub(crate) sent: usize,
    /// Its number in its queue.
    pub(crate) sequence: u32,
}

/// What comes next of a read: where it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The tag that was told to the peer.
    pub(crate) stag: STag,
    /// Bytes that have come.
    pub(crate) placed: usize,
    /// Bytes in all.
    pub(crate) length: usize,
}

/// The tag of the memory of the read with this number.
pub(crate) const fn sink_of(sequence: u32) -> STag {
    STag(READ_SINK | sequence)
}

/// The requests of a queue pair.
#[derive(Debug)]
pub(crate) struct SendQueue {
    entries: VecDeque<Entry>,
    /// Of those, the first so many are out.
    out: usize,
    /// Reads that are requested and not answered.
    requested: usize,
    limit: usize,
    /// Numbers of the next Send and of the next read request.
    next_send: u32,
    next_read: u32,
}

impl SendQueue {
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), out: 0, requested: 0, limit, next_send: 1, next_read: 1 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    pub(crate) fn post(&mut self, id: WorkId, work: Work) {
        let progress = match work {
            Work::Register(_) => Progress::Done,
            _ => Progress::Waiting,
        };
        self.entries.push_back(Entry { id: Some(id), work, progress, sequence: 0 });
    }

    /// Puts a read of no bytes before all else, which shows readiness; before anything has begun.
    pub(crate) fn post_rtr_read(&mut self) {
        debug_assert_eq!(self.out, 0, "nothing is sent before readiness is shown");
        let from = RemoteRegion { stag: STag(0), offset: 0, length: 0 };
        let work = Work::Read(Read { into: None, from, placed: 0 });
        self.entries.push_front(Entry { id: None, work, progress: Progress::Waiting, sequence: 0 });
    }

    /// Ends what regions are next to be ended, passes over what needs no sending, and says whether there is a message to send. While a part of a region is lent,
    /// what is behind its end waits.
    pub(crate) fn prepare(&mut self, regions: &mut RegionTable, ord: u16) -> bool {
        while let Some(entry) = self.entries.get_mut(self.out) {
            if let Work::Invalidate { stag, memory } = &mut entry.work
                && entry.progress == Progress::Waiting
            {
                *memory = regions.release(*stag);
                if memory.is_none() && regions.holds(*stag) {
                    return false;
                }
                entry.progress.release();
            }
            if !entry.progress.is_out() {
                let waits = matches!(entry.work, Work::Read(_))
                    && entry.id.is_some()
                    && self.requested >= usize::from(ord);
                return !waits;
            }
            self.out = self.out.saturating_add(1);
        }
        false
    }

    /// True when nothing can be read at the peer, and that is what is next.
    pub(crate) fn is_stuck(&self, ord: u16) -> bool {
        let next = self.entries.get(self.out);
        ord == 0 && next.is_some_and(|entry| matches!(entry.work, Work::Read(_)) && entry.id.is_some())
    }

    /// The message that is next or going on, after [`SendQueue::prepare`] said that there is one. A segment of it follows.
    pub(crate) fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        let entry = self.entries.get_mut(self.out)?;
        let sent = match entry.progress {
            Progress::Waiting => {
                entry.sequence = match entry.work {
                    Work::Send { .. } => take_number(&mut self.next_send),
                    Work::Read(_) => take_number(&mut self.next_read),
                    _ => 0,
                };
                if !matches!(entry.work, Work::Read(_)) {
                    entry.progress.send(0, Segment::Intermediate);
                }
                0
            }
            Progress::Sending { sent } => sent,
            _ => return None,
        };
        Some(Outgoing { work: &entry.work, sent, sequence: entry.sequence })
    }

    /// A segment of it has been put into a send.
    pub(crate) fn sent(&mut self, bytes: usize, segment: Segment) {
        if let Some(entry) = self.entries.get_mut(self.out) {
            entry.progress.send(bytes, segment);
        }
    }

    /// The request of a read has been put into a send.
    pub(crate) fn requested(&mut self) {
        if let Some(entry) = self.entries.get_mut(self.out) {
            entry.progress.request();
            self.requested = self.requested.saturating_add(1);
        }
    }

    /// Everything that had been put into a send has gone out.
    pub(crate) fn transmitted(&mut self) {
        self.entries
            .iter_mut()
            .take(self.out.saturating_add(1))
            .for_each(|entry| entry.progress.transmitted());
    }

    /// The read that is answered next.
    fn reading(&mut self) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.progress == Progress::Requested)
    }

    /// What comes next of it.
    pub(crate) fn expected(&mut self) -> Option<Expected> {
        let entry = self.reading()?;
        let Work::Read(Read { from, placed, .. }) = &entry.work else { return None };
        let length = usize::try_from(from.length).ok()?;
        Some(Expected { stag: sink_of(entry.sequence), placed: *placed, length })
    }

    /// Its memory, for the transport.
    pub(crate) fn lend(&mut self) -> Option<Buf> {
        match &mut self.reading()?.work {
            Work::Read(read) => read.into.take(),
            _ => None,
        }
    }

    /// Takes the memory back.
    pub(crate) fn give_back(&mut self, buf: Buf) {
        if let Some(Entry { work: Work::Read(read), .. }) = self.reading() {
            read.into = Some(buf);
        }
    }

    /// A segment of its response has come.
    pub(crate) fn responded(&mut self, bytes: usize, segment: Segment) {
        let Some(entry) = self.reading() else { return };
        if let Work::Read(read) = &mut entry.work {
            read.placed = read.placed.saturating_add(bytes);
        }
        if segment == Segment::Last {
            entry.progress.respond();
            self.requested = self.requested.saturating_sub(1);
        }
    }

    /// The peer refuses the read with this number.
    pub(crate) fn refuse(&mut self, sequence: u32) {
        let mut reads = self.entries.iter_mut().filter(|entry| entry.progress == Progress::Requested);
        if let Some(entry) = reads.find(|entry| entry.sequence == sequence) {
            entry.progress.refuse();
        }
    }

    /// The read that is next is refused before it is sent.
    pub(crate) fn refuse_next(&mut self) {
        if let Some(entry) = self.entries.get_mut(self.out) {
            entry.progress = Progress::Refused;
        }
    }

    /// The next completion.
    pub(crate) fn complete(&mut self) -> Option<WorkCompletion> {
        while let Some(result) = self.entries.front().and_then(|entry| entry.progress.result()) {
            let done = self.pop()?.complete(result);
            if done.is_some() {
                return done;
            }
        }
        None
    }

    fn pop(&mut self) -> Option<Entry> {
        self.out = self.out.saturating_sub(1);
        self.entries.pop_front()
    }

    /// The queue pair has ended: the next completion. What waits for memory that is `lent` to the transport stays, until it is lost.
    pub(crate) fn flush(&mut self, regions: &mut RegionTable, lent: LentMemory) -> Option<WorkCompletion> {
        loop {
            let entry = self.entries.front_mut()?;
            match &mut entry.work {
                Work::Read(Read { into: None, .. })
                    if entry.id.is_some() && lent == LentMemory::MayReturn =>
                {
                    return None;
                }
                Work::Invalidate { stag, memory } if entry.progress == Progress::Waiting => {
                    *memory = regions.release(*stag);
                    if memory.is_none() && regions.holds(*stag) && lent == LentMemory::MayReturn {
                        return None;
                    }
                    entry.progress.release();
                }
                _ => {}
            }
            let result = entry.progress.result().unwrap_or(Err(WorkError::Flushed));
            let done = self.pop()?.complete(result);
            if done.is_some() {
                return done;
            }
        }
    }
}

/// What becomes of the memory that the transport has for what it reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LentMemory {
    /// The transport may still give it back.
    MayReturn,
    /// The transport is gone with it.
    Lost,
}

fn take_number(next: &mut u32) -> u32 {
    let number = *next;
    *next = next.wrapping_add(1);
    number
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Progress);
        let events: [(&str, Event); 7] = [
            ("segment of 100", |state| state.send(100, Segment::Intermediate)),
            ("last segment", |state| state.send(100, Segment::Last)),
            ("read request", Progress::request),
            ("transmitted", Progress::transmitted),
            ("response", Progress::respond),
            ("region released", Progress::release),
            ("refused", Progress::refuse),
        ];
        let states = [
            Progress::Waiting,
            Progress::Sending { sent: 100 },
            Progress::Sent,
            Progress::Requested,
            Progress::Done,
            Progress::Refused,
        ];
        let mut table = String::new();
        for state in states {
            for (name, event) in &events {
                let mut next = state;
                event(&mut next);
                if next != state {
                    writeln!(table, "{state:?} --{name}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("send_queue.table"));
    }

    #[test]
    fn no_region_has_the_tag_of_a_read() {
        let mut regions = RegionTable::new(usize::MAX);
        let last = (0..=u16::MAX).filter_map(|_| regions.register(RegionMemory::Source(BufList::new())).ok());
        let largest = last.map(|region| region.stag).max();
        assert!(largest.is_some_and(|stag| stag < sink_of(0)));
    }
}
