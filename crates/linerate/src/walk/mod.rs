//! Walks over volumes with a window of chunks: what copying, comparing, summing and zeroing have in common.
//!
//! A [`Feed`] hands out chunks in order. Each goes through the steps that a [`Visit`] asks for, many chunks side by side; a
//! visitor that needs them in order takes them in turn. The walk keeps the window full, waits where memory or queues are full,
//! ends at the first failure or when it is told to stop, and flushes what it wrote.

mod copy_end;
mod feed;
mod map;
pub(crate) mod piece;

use buf::{Pool, SharedBuf};
use protocol::Instant;
use volume::{Completion, Operation, Outcome, Request, Tag, VolumeErrorKind};

use crate::control::Control;
use crate::error::{DataError, DataErrorCause};
use crate::job::{Job, JobContext};
use crate::limits::{CHUNK_BUFFERS, CHUNK_LEN};
use crate::memory::pool_of;

pub(crate) use copy_end::{Ask, CopyEnd, EndRequest, NamedVolume};
pub(crate) use feed::Feed;
pub(crate) use map::{Cut, Map};
pub(crate) use piece::{Content, Fed, Piece, Span};

/// The allocation query's tag; chunks have the number of their slot.
const QUERY: Tag = Tag(u64::MAX);
/// The flush's tag.
const FLUSH: Tag = Tag(u64::MAX - 1);
/// The tag of the flushes that come before everything else.
const KNOCK: Tag = Tag(u64::MAX - 2);

/// What a chunk does next. `N` is what the visitor notes meanwhile.
#[derive(Debug)]
pub(crate) enum Step<N> {
    /// Asks an end.
    Ask(EndRequest, N),
    /// Waits until all chunks before it have had their turn.
    Turn(N),
    /// Nothing.
    Done,
}

/// What an end answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// The span's bytes.
    Data(SharedBuf),
    /// The whole span is a hole.
    Hole,
    /// Some of the span is not, or nobody can tell.
    Mapped,
}

/// How far a walk came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Bytes from the walk's beginning without a gap.
    pub(crate) bytes: u64,
    /// It was stopped before its end.
    pub(crate) stopped: bool,
}

/// What is done with each chunk.
pub(crate) trait Visit {
    /// What the job is called in messages.
    const JOB: &'static str;
    /// What is noted of a chunk between its steps.
    type Note;
    /// What comes of it all.
    type Output;

    /// The end to flush when all chunks are done.
    fn flushes(&self) -> Option<usize> {
        None
    }

    /// The first step of a chunk.
    fn begin(&mut self, piece: Piece) -> Result<Step<Self::Note>, DataErrorCause>;

    /// The step after an answer.
    fn answered(
        &mut self,
        span: Span,
        note: Self::Note,
        answer: Answer,
    ) -> Result<Step<Self::Note>, DataErrorCause>;

    /// A chunk's turn; gives the note back when it has to wait some more.
    fn turn(&mut self, _span: Span, _note: Self::Note) -> Result<Option<Self::Note>, DataErrorCause> {
        Ok(None)
    }

    /// Whether everything that was handed on has arrived, once all chunks are done.
    fn settle(&mut self) -> Result<bool, DataErrorCause> {
        Ok(true)
    }

    /// The result.
    fn finish(&mut self, walked: Walked) -> Self::Output;
}

/// A chunk's place in the window, among the volume's bytes, and in the order of chunks.
#[derive(Debug, Clone, Copy)]
struct Place {
    slot: usize,
    span: Span,
    order: u64,
}

/// A chunk under way.
struct Slot<N> {
    place: Place,
    state: State<N>,
}

enum State<N> {
    /// Waits for memory or room.
    Waiting(EndRequest, N),
    /// Waits for an answer to a request of this verb.
    Asked(&'static str, N),
    /// Waits for its turn.
    Turn(N),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// So many queues of the end to be flushed have still to be asked, and to answer.
    Connecting {
        unasked: usize,
        unanswered: usize,
    },
    Moving,
    Settling,
    Flushing,
    Over,
}

/// What a walk goes over.
pub(crate) struct WalkPlan {
    /// The volumes, numbered as the visitor numbers them.
    pub(crate) ends: Vec<CopyEnd>,
    /// Where the chunks come from.
    pub(crate) feed: Feed,
    /// Chunks under way at a time.
    pub(crate) window: usize,
}

/// A walk under way.
pub(crate) struct Walk<V: Visit> {
    visit: V,
    ends: Vec<CopyEnd>,
    feed: Feed,
    fed: bool,
    slots: Vec<Option<Slot<V::Note>>>,
    /// The order of the next chunk to begin, and of the one whose turn it is.
    orders: (u64, u64),
    pool: Pool,
    done: Vec<Completion>,
    begun: u64,
    moved: u64,
    phase: Phase,
    failure: Option<DataError>,
    control: Control,
    stopped: bool,
    /// Something was answered at once: there may be more to do without anybody waking the job.
    again: bool,
}

impl<V: Visit> Walk<V> {
    /// A walk that has not begun.
    pub(crate) fn new(visit: V, plan: WalkPlan, JobContext { control, waker }: JobContext<'_>) -> Self {
        let WalkPlan { ends, feed, window } = plan;
        control.stop.listen(waker);
        let phase = match visit.flushes().map_or(0, |end| ends[end].queues()) {
            0 | 1 => Phase::Moving,
            queues => Phase::Connecting { unasked: queues, unanswered: queues },
        };
        let memory = ends.iter().find_map(|end| end.memory.clone());
        let pool = pool_of(memory, window.max(1) * CHUNK_BUFFERS * CHUNK_LEN);
        Self {
            visit,
            ends,
            feed,
            fed: false,
            slots: (0..window.max(1)).map(|_| None).collect(),
            orders: (0, 0),
            pool,
            done: Vec::new(),
            begun: 0,
            moved: 0,
            phase,
            failure: None,
            control,
            stopped: false,
            again: false,
        }
    }

    fn fail(&mut self, at: Option<u64>, cause: DataErrorCause) {
        self.failure.get_or_insert(DataError::new(V::JOB, at, cause));
    }

    /// Begins chunks for as long as there is room in the window.
    fn fill(&mut self, now: Instant) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_some() {
                continue;
            }
            if !self.fed && self.control.stop.is_set() {
                (self.fed, self.stopped) = (true, true);
            }
            if self.fed || self.failure.is_some() {
                return;
            }
            match self.feed.next() {
                Fed::Piece(piece) => self.begin(now, slot, piece),
                Fed::Later => return,
                Fed::End => self.fed = true,
                Fed::Failed(error) => self.fail(None, error.into()),
            }
        }
    }

    fn begin(&mut self, now: Instant, slot: usize, piece: Piece) {
        let place = Place { slot, span: piece.span, order: self.orders.0 };
        self.orders.0 += 1;
        self.begun += place.span.len;
        let step = self.visit.begin(piece);
        self.follow(now, place, step);
    }

    /// Takes a chunk's next step.
    fn follow(&mut self, now: Instant, place: Place, step: Result<Step<V::Note>, DataErrorCause>) {
        let state = match step {
            Ok(Step::Ask(request, note)) => State::Waiting(request, note),
            Ok(Step::Turn(note)) => State::Turn(note),
            Ok(Step::Done) => return self.end(place),
            Err(cause) => return self.fail(Some(place.span.at), cause),
        };
        self.slots[place.slot] = Some(Slot { place, state });
        self.send(now, place.slot);
    }

    fn end(&mut self, place: Place) {
        self.moved += place.span.len;
        (self.control.meter)(self.moved, self.feed.total());
    }

    /// Sends a waiting request if there is memory and room.
    fn send(&mut self, now: Instant, slot: usize) {
        let Some(Slot { place, state }) = self.slots[slot].take() else { return };
        let state = match state {
            State::Waiting(request, note) if self.submit(now, place, &request) => {
                State::Asked(request.ask.verb(), note)
            }
            other => other,
        };
        self.slots[slot] = Some(Slot { place, state });
    }

    /// False while there is no memory or no room.
    fn submit(&mut self, now: Instant, place: Place, request: &EndRequest) -> bool {
        let end = &mut self.ends[request.end];
        let Some(operation) = end.operation(place.span, &request.ask, &self.pool) else { return false };
        end.submit(now, place.slot, Request { tag: Tag(place.slot as u64), operation })
    }

    /// Lets chunks have their turn, in order; true if any had.
    fn turns(&mut self) -> bool {
        let before = self.orders.1;
        self.take_turns();
        self.orders.1 > before
    }

    fn take_turns(&mut self) {
        while let Some(slot) = self.turn_of(self.orders.1) {
            let Some(Slot { place, state: State::Turn(note) }) = self.slots[slot].take() else { return };
            match self.visit.turn(place.span, note) {
                Ok(None) => {
                    self.orders.1 += 1;
                    self.end(place);
                }
                Ok(Some(note)) => {
                    self.slots[slot] = Some(Slot { place, state: State::Turn(note) });
                    return;
                }
                Err(cause) => return self.fail(Some(place.span.at), cause),
            }
        }
    }

    fn turn_of(&self, order: u64) -> Option<usize> {
        self.slots.iter().position(|slot| {
            slot.as_ref()
                .is_some_and(|slot| slot.place.order == order && matches!(slot.state, State::Turn(_)))
        })
    }

    /// Asks the volume at end 0 for its holes, ahead of the chunks.
    fn query(&mut self, now: Instant) {
        let (Feed::Volume(map), Some(end)) = (&mut self.feed, self.ends.first_mut()) else { return };
        if let Some(extent) = map.query() {
            let request = Request { tag: QUERY, operation: Operation::QueryAllocation { extent } };
            if end.submit(now, 0, request) {
                map.asked();
            }
        }
    }

    /// Takes completions; true if there were any.
    fn reap(&mut self, now: Instant) -> bool {
        let mut any = false;
        for end in 0..self.ends.len() {
            self.ends[end].poll(now, &mut self.done);
            for completion in std::mem::take(&mut self.done) {
                any = true;
                self.complete(now, end, completion);
            }
        }
        any
    }

    fn complete(&mut self, now: Instant, end: usize, completion: Completion) {
        match (completion.tag, &mut self.feed) {
            (QUERY, Feed::Volume(map)) => map.answered(&completion.outcome()),
            (FLUSH, _) => self.flushed(end, completion.error()),
            (KNOCK, _) => self.connected(end, completion.error()),
            (Tag(tag), _) => {
                let slot = usize::try_from(tag).ok().and_then(|slot| self.slots.get_mut(slot));
                let Some(Slot { place, state: State::Asked(verb, note) }) = slot.and_then(Option::take)
                else {
                    return;
                };
                let step = match self.answer(end, place.span, completion.outcome()) {
                    Ok(answer) => self.visit.answered(place.span, note, answer),
                    // Whoever cannot tell is read: if that cannot be done either, it will be said.
                    Err(_) if verb == Ask::Map.verb() => {
                        self.visit.answered(place.span, note, Answer::Mapped)
                    }
                    Err(kind) => Err(self.refused(end, verb, kind)),
                };
                self.follow(now, place, step);
            }
        }
    }

    fn answer(
        &self,
        end: usize,
        span: Span,
        result: Result<Outcome, VolumeErrorKind>,
    ) -> Result<Answer, VolumeErrorKind> {
        let end = &self.ends[end];
        Ok(match result? {
            Outcome::Data(data) => {
                Answer::Data(end.own(span, &data.into_one()).ok_or(VolumeErrorKind::Media)?)
            }
            Outcome::Allocation(told) => {
                let whole = end.around(span);
                let is_hole = !told.mapped && told.extent.end() >= whole.end();
                if is_hole { Answer::Hole } else { Answer::Mapped }
            }
            _ => Answer::Done,
        })
    }

    fn refused(&self, end: usize, verb: &'static str, source: VolumeErrorKind) -> DataErrorCause {
        DataErrorCause::Failed { volume: self.ends[end].name.clone(), verb, source }
    }

    fn flushed(&mut self, end: usize, failure: Option<VolumeErrorKind>) {
        self.phase = Phase::Over;
        if let Some(kind) = failure {
            self.fail(None, self.refused(end, "flushed", kind));
        }
    }

    /// Flushes each queue once before the first write. A volume on another machine answers once that queue is connected; one that
    /// connected after a write was acknowledged could not know whether the far end had lost it in between.
    fn connect(&mut self, now: Instant, mut unasked: usize, unanswered: usize) {
        if self.control.stop.is_set() {
            (self.fed, self.stopped, self.phase) = (true, true, Phase::Over);
            return;
        }
        let Some(end) = self.visit.flushes().and_then(|end| self.ends.get_mut(end)) else { return };
        let knock = || Request { tag: KNOCK, operation: Operation::Flush };
        while unasked > 0 && end.submit(now, unasked - 1, knock()) {
            unasked -= 1;
        }
        self.phase = Phase::Connecting { unasked, unanswered };
    }

    fn connected(&mut self, end: usize, failure: Option<VolumeErrorKind>) {
        if let Some(kind) = failure {
            return self.fail(None, self.refused(end, "flushed", kind));
        }
        self.phase = match self.phase {
            Phase::Connecting { unasked, unanswered } if unanswered > 1 => {
                Phase::Connecting { unasked, unanswered: unanswered - 1 }
            }
            Phase::Connecting { .. } => Phase::Moving,
            other => other,
        };
    }

    /// What follows when no chunk is under way and none will come.
    fn conclude(&mut self, now: Instant) {
        if self.phase == Phase::Moving && self.fed {
            self.phase = Phase::Settling;
        }
        if self.phase == Phase::Settling {
            match self.visit.settle() {
                Ok(true) => {
                    self.phase = self.visit.flushes().map_or(Phase::Over, |end| self.flush(now, end));
                }
                Ok(false) => {}
                Err(cause) => self.fail(None, cause),
            }
        }
    }

    fn flush(&mut self, now: Instant, end: usize) -> Phase {
        let request = Request { tag: FLUSH, operation: Operation::Flush };
        // A queue without room has completions to come; the next poll tries again.
        if self.ends[end].submit(now, 0, request) { Phase::Flushing } else { Phase::Settling }
    }

    /// True when no request is under way, or after a failure none that matters.
    fn is_quiet(&self) -> bool {
        let failed = self.failure.is_some();
        let waits = |slot: &Slot<V::Note>| !failed || matches!(slot.state, State::Asked(..));
        !self.slots.iter().flatten().any(waits)
    }
}

impl<V: Visit> Job for Walk<V> {
    type Output = Result<V::Output, DataError>;

    fn poll(&mut self, now: Instant) -> Option<Self::Output> {
        self.reap(now);
        self.again = false;
        if let Phase::Connecting { unasked, unanswered } = self.phase {
            self.connect(now, unasked, unanswered);
        } else if self.failure.is_none() {
            (0..self.slots.len()).for_each(|slot| self.send(now, slot));
            self.query(now);
            self.fill(now);
            self.again = self.turns();
        }
        self.again |= self.reap(now);
        if self.is_quiet() {
            if self.failure.is_none() {
                self.conclude(now);
                self.again |= self.reap(now);
            }
            if let Some(failure) = &self.failure {
                return Some(Err(failure.clone()));
            }
            if self.phase == Phase::Over {
                let walked = Walked { bytes: self.begun, stopped: self.stopped };
                return Some(Ok(self.visit.finish(walked)));
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let again = self.again.then_some(Instant::ZERO);
        self.ends.iter().filter_map(CopyEnd::poll_timeout).chain(again).min()
    }

    fn expects_work(&self) -> bool {
        true
    }
}

impl<V: Visit> std::fmt::Debug for Walk<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("job", &V::JOB).field("moved", &self.moved).finish_non_exhaustive()
    }
}
