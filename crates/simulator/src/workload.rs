//! Keeps a volume busy and tells the checker what was promised.

use std::collections::HashMap;
use std::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use protocol::Instant;
use volume::{
    Completion, Durability, Extent, Operation, Outcome, Request, Tag, VolumeErrorKind, VolumeQueue,
};

use crate::dice::{Dice, Odds};
use crate::history::{Began, Content, History, Violation, WriteEnd, WriteId};

/// Requests under way at a time, at most.
const DEPTH: usize = 8;
/// Blocks in one request, at most.
const LONGEST: usize = 6;
/// How often a write must be durable.
const DURABLE: Odds = Odds(250);

/// How long the reading of everything may take: longer than any volume may take for an answer.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a request under way was for.
enum Pending {
    Write(WriteId),
    Read(Began, usize),
    Flush(Began),
}

/// Random requests on one queue, all of whose answers are checked.
pub struct Workload {
    /// What was promised so far.
    pub history: History,
    dice: Dice,
    longest: usize,
    pending: HashMap<Tag, Pending>,
    next: u64,
    done: Vec<Completion>,
    /// What requests are told the time is.
    pub now: Instant,
}

impl Workload {
    /// A workload on a volume of `blocks` blocks of `block` bytes, all zeros.
    pub fn new(blocks: usize, block: usize, dice: Dice) -> Self {
        Self {
            history: History::new(blocks, block),
            dice,
            longest: LONGEST,
            pending: HashMap::new(),
            next: 0,
            done: Vec::new(),
            now: Instant::ZERO,
        }
    }

    /// One of several users: see [`History::strict`].
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.history = self.history.strict();
        self
    }

    /// Answers may come late: see [`History::with_late_answers`].
    #[must_use]
    pub fn with_late_answers(mut self) -> Self {
        self.history = self.history.with_late_answers();
        self
    }

    /// Requests of so many blocks at most.
    #[must_use]
    pub fn with_longest(mut self, longest: usize) -> Self {
        self.longest = longest;
        self
    }

    /// Requests that have not ended.
    pub fn under_way(&self) -> usize {
        self.pending.len()
    }

    /// Submits something, or lets something end.
    pub fn step(&mut self, queue: &mut dyn VolumeQueue) -> Result<(), Violation> {
        self.ask(queue);
        queue.poll(self.now, &mut self.done);
        for completion in std::mem::take(&mut self.done) {
            self.take(completion)?;
        }
        Ok(())
    }

    /// Submits something, sometimes.
    pub fn ask(&mut self, queue: &mut dyn VolumeQueue) {
        if self.pending.len() < DEPTH && self.dice.coin() {
            self.submit(queue);
        }
    }

    /// The power was cut: nothing that was under way will end.
    pub fn cut(&mut self) {
        self.pending.clear();
        self.history.died();
    }

    /// Nobody hears any more how what is under way ends; it may still happen.
    pub fn disconnect(&mut self) {
        self.pending.clear();
    }

    /// Reads the whole volume after a cut and checks it; `pump` lets the world go on while the answer is awaited, and tells the time.
    /// An answer that does not come (the stream was cut again) checks nothing, and is `false`.
    pub fn check_after_cut(
        &mut self,
        queue: &mut dyn VolumeQueue,
        pump: &mut dyn FnMut() -> Instant,
    ) -> Result<bool, Violation> {
        let Some(data) = self.read_all(queue, pump) else { return Ok(false) };
        self.history.check_after_cut(0, &data).map(|()| true)
    }

    /// Reads the whole volume and checks it, as any read is checked. `false` as above.
    pub fn check_now(
        &mut self,
        queue: &mut dyn VolumeQueue,
        pump: &mut dyn FnMut() -> Instant,
    ) -> Result<bool, Violation> {
        let began = self.history.begin();
        let Some(data) = self.read_all(queue, pump) else { return Ok(false) };
        self.history.check_read(began, 0, &data).map(|()| true)
    }

    fn read_all(
        &mut self,
        queue: &mut dyn VolumeQueue,
        pump: &mut dyn FnMut() -> Instant,
    ) -> Option<SharedBuf> {
        let blocks = self.history.pieces();
        let into = Buf::zeroed(blocks * self.history.piece());
        let operation = Operation::Read { extent: Extent::new(0, blocks as u64), into };
        let tag = self.tag();
        queue.submit(self.now, Request { tag, operation }).ok()?;
        let end = self.now + PATIENCE;
        loop {
            self.now = pump();
            if self.now > end {
                return None;
            }
            queue.poll(self.now, &mut self.done);
            if let Some(completion) = self.done.pop() {
                let Ok(Outcome::Data(data)) = completion.result else { return None };
                return Some(data.into_one());
            }
        }
    }

    fn tag(&mut self) -> Tag {
        self.next += 1;
        Tag(self.next)
    }

    fn submit(&mut self, queue: &mut dyn VolumeQueue) {
        let count = self.dice.within(1..=self.longest.min(self.history.pieces()));
        let first = self.dice.index(self.history.pieces() - count + 1);
        let extent = Extent::new(first as u64, count as u64);
        let (operation, pending) = match self.dice.below(8) {
            0 => (Operation::Flush, Pending::Flush(self.history.begin())),
            1 => {
                let into = Buf::zeroed(count * self.history.piece());
                (Operation::Read { extent, into }, Pending::Read(self.history.begin_read(), first))
            }
            2 => {
                let id = self.history.begin_write(first..first + count, Content::Zeros, Durability::Cached);
                (Operation::Discard { extent }, Pending::Write(id))
            }
            _ => self.write(extent, (first, count)),
        };
        let tag = self.tag();
        match queue.submit(self.now, Request { tag, operation }) {
            Ok(()) => {
                self.pending.insert(tag, pending);
            }
            Err(_) => match pending {
                Pending::Write(id) => self.history.end_write(id, WriteEnd::Failed),
                Pending::Read(began, _) => self.history.end_read(began),
                Pending::Flush(_) => {}
            },
        }
    }

    fn write(&mut self, extent: Extent, (first, count): (usize, usize)) -> (Operation, Pending) {
        let durable = self.dice.happens(DURABLE);
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let id = self.history.begin_write(first..first + count, Content::Named, durability);
        let mut data = Buf::zeroed(count * self.history.piece());
        self.history.fill(id, first, &mut data);
        (Operation::Write { extent, data: BufList::from(data.freeze()), durability }, Pending::Write(id))
    }

    /// Something has ended.
    pub fn take(&mut self, completion: Completion) -> Result<(), Violation> {
        let Some(pending) = self.pending.remove(&completion.tag) else { return Ok(()) };
        if let Pending::Read(began, _) = pending {
            self.history.end_read(began);
        }
        match (pending, completion.outcome()) {
            (Pending::Write(id), Ok(_)) => self.history.end_write(id, WriteEnd::Done),
            (Pending::Write(id), Err(kind)) => {
                let unknown = matches!(kind, VolumeErrorKind::Unreachable | VolumeErrorKind::TimedOut);
                self.history.end_write(id, if unknown { WriteEnd::Unknown } else { WriteEnd::Failed });
            }
            (Pending::Flush(began), Ok(_)) => self.history.flushed(began),
            (Pending::Read(began, first), Ok(Outcome::Data(data))) => {
                return self.history.check_read(began, first, &data.into_one());
            }
            (Pending::Flush(_), Err(_)) => self.history.flush_failed(),
            (Pending::Read(..), _) => {}
        }
        Ok(())
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload").field("history", &self.history).finish_non_exhaustive()
    }
}
