//! A mirror of volumes, as small as it can be: it shows that a volume that is made of others needs nothing but the contract.
//!
//! Writes go to all legs, one at a time in the whole mirror, so that legs never differ in order. A read that fails goes to the next leg with the same memory. A
//! leg that fails a write is missing from then on, and is copied anew while nobody asks for anything, out of the context's pool.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use buf::{Account, Buf};
use protocol::Instant;
use volume::{
    Changes, Completion, Durability, Extent, Failure, Features, Geometry, Limits, Listeners, OpenError,
    Operation, Outcome, PathState, PollList, Polled, QueueContext, QueueFull, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue, shape,
};

/// Bytes that are copied at a time, and the time before a missing leg is tried again.
const CHUNK: u32 = 64 << 10;
const PAUSE: Duration = Duration::from_millis(10);
/// The copy's tag toward a leg.
const COPY: Tag = Tag(u64::MAX);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    Live,
    Missing,
    /// It gets all writes, and what was there before up to a block.
    Copying(u64),
}

#[derive(Debug)]
struct State {
    legs: Vec<Leg>,
    path: u64,
    /// Somebody writes.
    writing: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    listeners: Listeners,
    /// Queues that may wait to write.
    queues: Listeners,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn legs(&self) -> Vec<Leg> {
        self.lock().legs.clone()
    }

    fn set(&self, leg: usize, to: Leg) {
        let mut state = self.lock();
        let live = |legs: &[Leg]| legs.iter().filter(|leg| **leg == Leg::Live).count();
        let before = live(&state.legs);
        // The last one stays: without it there is nothing to copy from.
        if to != Leg::Live && state.legs[leg] == Leg::Live && before == 1 {
            return;
        }
        state.legs[leg] = to;
        if live(&state.legs) != before {
            state.path += 1;
            drop(state);
            self.listeners.wake();
        }
    }

    fn begin_write(&self) -> bool {
        !std::mem::replace(&mut self.lock().writing, true)
    }

    fn end_write(&self) {
        self.lock().writing = false;
        self.queues.wake();
    }
}

#[derive(Debug)]
pub(crate) struct Mirror {
    legs: Vec<Arc<dyn Volume>>,
    shared: Arc<Shared>,
}

impl Mirror {
    pub(crate) fn new(legs: Vec<Arc<dyn Volume>>) -> Self {
        let state = State { legs: vec![Leg::Live; legs.len()], path: 0, writing: false };
        let state = Mutex::new(state);
        let shared = Shared { state, listeners: Listeners::default(), queues: Listeners::default() };
        Self { legs, shared: Arc::new(shared) }
    }
}

impl Volume for Mirror {
    fn geometry(&self) -> Geometry {
        self.legs[0].geometry()
    }

    fn limits(&self) -> Limits {
        let least = |one: Limits, two: Limits| Limits {
            max_transfer: one.max_transfer.min(two.max_transfer),
            memory_alignment: one.memory_alignment.max(two.memory_alignment),
            depth: one.depth.min(two.depth),
            discard_granularity: one.discard_granularity.max(two.discard_granularity),
            max_discard: one.max_discard.min(two.max_discard),
            atomic_blocks: 1,
        };
        self.legs.iter().map(|leg| leg.limits()).reduce(least).unwrap()
    }

    fn features(&self) -> Features {
        self.legs.iter().map(|leg| leg.features()).reduce(Features::intersection).unwrap()
    }

    fn changes(&self) -> Changes {
        Changes { path: self.shared.lock().path, ..Changes::default() }
    }

    fn path(&self) -> PathState {
        match self.shared.legs().iter().filter(|leg| **leg != Leg::Live).count() {
            0 => PathState::Optimized,
            missing => PathState::Degraded { missing: u16::try_from(missing).unwrap() },
        }
    }

    fn listen(&self, waker: Waker) {
        self.shared.listeners.add(waker);
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let polls = PollList::new(self.legs.len(), context.waker.clone());
        let open =
            |(index, leg): (usize, &Arc<dyn Volume>)| leg.open_queue(&context.with_waker(polls.waker(index)));
        let legs = self.legs.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        self.shared.queues.add(context.waker.clone());
        Ok(Box::new(MirrorQueue {
            backlog: legs.iter().map(|_| VecDeque::new()).collect(),
            asked: vec![0; legs.len()],
            legs,
            polls,
            shared: Arc::clone(&self.shared),
            shape: (self.geometry(), self.limits(), self.features()),
            waiting: VecDeque::new(),
            flights: BTreeMap::new(),
            last: 0,
            copy: None,
            due: None,
            account: Account::new(&context.pool),
            ready: Vec::new(),
            waker: context.waker.clone(),
        }))
    }
}

/// A request under way.
struct Flight {
    tag: Tag,
    /// The request again, for other legs; a read's memory is with the leg that has it.
    again: Operation,
    /// Legs that have not answered.
    left: usize,
    /// It has the right to write.
    writes: bool,
    /// How it ends if no leg is left: with the last failure, unless a leg succeeded.
    end: Option<Result<Outcome, Failure>>,
}

struct MirrorQueue {
    legs: Vec<Box<dyn VolumeQueue>>,
    polls: PollList,
    /// Requests that a leg had no room for, and those that it has.
    backlog: Vec<VecDeque<Request>>,
    asked: Vec<usize>,
    shared: Arc<Shared>,
    shape: (Geometry, Limits, Features),
    /// Writes that wait for others to end.
    waiting: VecDeque<Request>,
    flights: BTreeMap<Tag, Flight>,
    last: u64,
    /// The leg that this queue copies to, and the blocks of the piece under way.
    copy: Option<(usize, Option<Extent>)>,
    /// When a missing leg is to be tried.
    due: Option<Instant>,
    account: Account,
    ready: Vec<Completion>,
    waker: Waker,
}

/// A copy of an operation; a read gets that memory.
fn copy_of(operation: &Operation, memory: Option<Buf>) -> Operation {
    match operation {
        Operation::Read { extent, .. } => Operation::Read { extent: *extent, into: memory.unwrap() },
        Operation::Write { extent, data, durability } => {
            Operation::Write { extent: *extent, data: data.clone(), durability: *durability }
        }
        Operation::Flush => Operation::Flush,
        Operation::Discard { extent } => Operation::Discard { extent: *extent },
        Operation::WriteZeroes { extent, durability, may_unmap } => {
            Operation::WriteZeroes { extent: *extent, durability: *durability, may_unmap: *may_unmap }
        }
        Operation::Compare { extent, data } => Operation::Compare { extent: *extent, data: data.clone() },
        Operation::CompareAndWrite { extent, data, durability } => {
            Operation::CompareAndWrite { extent: *extent, data: data.clone(), durability: *durability }
        }
        Operation::Verify { extent } => Operation::Verify { extent: *extent },
        Operation::QueryAllocation { extent } => Operation::QueryAllocation { extent: *extent },
        other => panic!("{other:?}"),
    }
}

impl MirrorQueue {
    fn ask(&mut self, now: Instant, leg: usize, request: Request) {
        self.asked[leg] += 1;
        self.backlog[leg].push_back(request);
        self.push(now, leg);
        self.polls.mark(leg);
        // What a poll gives to a leg is not seen from outside.
        self.waker.wake_by_ref();
    }

    fn push(&mut self, now: Instant, leg: usize) {
        while let Some(request) = self.backlog[leg].pop_front() {
            if let Err(QueueFull(request)) = self.legs[leg].submit(now, request) {
                self.backlog[leg].push_front(request);
                break;
            }
        }
    }

    fn first_live(&self, after: Option<usize>) -> Option<usize> {
        let legs = self.shared.legs();
        (after.map_or(0, |leg| leg + 1)..legs.len()).find(|leg| legs[*leg] == Leg::Live)
    }

    /// Sends a request to its legs: all for what changes something, else the first.
    fn start(&mut self, now: Instant, request: Request) {
        let Request { tag, operation } = request;
        self.last += 1;
        let own = Tag(self.last);
        let writes = operation.writes();
        let all = (writes && !matches!(operation, Operation::CompareAndWrite { .. }))
            || matches!(operation, Operation::Flush);
        let (again, first) = match operation {
            Operation::Read { extent, into } => {
                (Operation::Read { extent, into: Buf::zeroed(0) }, Operation::Read { extent, into })
            }
            other => (copy_of(&other, None), other),
        };
        self.flights.insert(own, Flight { tag, again, left: 0, writes, end: None });
        if all {
            self.spread(now, own, None);
        } else {
            let leg = self.first_live(None).unwrap();
            self.flights.get_mut(&own).unwrap().left = 1;
            self.ask(now, leg, Request { tag: own, operation: first });
        }
    }

    /// Sends what changes something to all legs but one, which has it already.
    fn spread(&mut self, now: Instant, own: Tag, but: Option<usize>) {
        for (leg, state) in self.shared.legs().into_iter().enumerate() {
            if state != Leg::Missing && Some(leg) != but {
                let flight = self.flights.get_mut(&own).unwrap();
                flight.left += 1;
                let operation = copy_of(&flight.again, None);
                self.ask(now, leg, Request { tag: own, operation });
            }
        }
    }

    fn answered(&mut self, now: Instant, leg: usize, completion: Completion) {
        self.asked[leg] -= 1;
        let Completion { tag: own, result } = completion;
        if own == COPY {
            return self.copied(now, result);
        }
        let flight = self.flights.get_mut(&own).unwrap();
        flight.left -= 1;
        let miscompares =
            matches!(&result, Err(failure) if matches!(failure.kind, VolumeErrorKind::Miscompare { .. }));
        match (result, &flight.again) {
            (Ok(outcome), Operation::CompareAndWrite { extent, data, durability })
                if flight.end.is_none() =>
            {
                // The first leg has decided.
                let (extent, data, durability) = (*extent, data.write.clone(), *durability);
                flight.end = Some(Ok(outcome));
                flight.again = Operation::Write { extent, data, durability };
                self.spread(now, own, Some(leg));
            }
            (Ok(outcome), _) => flight.end = Some(Ok(outcome)),
            (Err(failure), _) if miscompares => flight.end = Some(Err(failure)),
            (Err(failure), again) => {
                let alone = !matches!(again, Operation::Flush) && !flight.writes;
                let decides = matches!(again, Operation::CompareAndWrite { .. });
                if !alone {
                    self.shared.set(leg, Leg::Missing);
                }
                let next = if alone || decides { self.first_live(Some(leg)) } else { None };
                let flight = self.flights.get_mut(&own).unwrap();
                if let Some(next) = next {
                    flight.left = 1;
                    let operation = copy_of(&flight.again, failure.memory);
                    return self.ask(now, next, Request { tag: own, operation });
                }
                if !matches!(flight.end, Some(Ok(_))) {
                    flight.end = Some(Err(failure));
                }
            }
        }
        self.end_if_over(own);
    }

    fn end_if_over(&mut self, own: Tag) {
        if self.flights.get(&own).is_some_and(|flight| flight.left == 0)
            && let Some(flight) = self.flights.remove(&own)
        {
            if flight.writes {
                self.shared.end_write();
            }
            self.ready.push(Completion { tag: flight.tag, result: flight.end.unwrap() });
        }
    }

    /// Copies the next piece to a leg that is missing, if it is time and nobody writes.
    fn copy_on(&mut self, now: Instant) {
        if self.copy.is_none() {
            let legs = self.shared.legs();
            let taken = legs.iter().any(|leg| matches!(leg, Leg::Copying(_)));
            let Some(leg) = legs.iter().position(|leg| *leg == Leg::Missing).filter(|_| !taken) else {
                return self.due = None;
            };
            if *self.due.get_or_insert(now + PAUSE) > now {
                return;
            }
            (self.due, self.copy) = (None, Some((leg, None)));
            self.shared.set(leg, Leg::Copying(0));
        }
        let Some((leg, None)) = self.copy else { return };
        let Leg::Copying(from) = self.shared.legs()[leg] else { return self.copy = None };
        let blocks = u64::from(CHUNK / self.shape.0.block_size).min(self.shape.0.blocks - from);
        let bytes = usize::try_from(blocks).unwrap() * self.shape.0.block_size as usize;
        if !self.shared.begin_write() {
            return;
        }
        let Some(into) = self.account.take(bytes) else { return self.shared.end_write() };
        let extent = Extent::new(from, blocks);
        self.copy = Some((leg, Some(extent)));
        let source = self.first_live(None).unwrap();
        self.ask(now, source, Request { tag: COPY, operation: Operation::Read { extent, into } });
    }

    fn copied(&mut self, now: Instant, result: Result<Outcome, Failure>) {
        let Some((leg, Some(extent))) = self.copy else { return };
        match result {
            Ok(Outcome::Data(data)) => {
                let operation = Operation::Write { extent, data, durability: Durability::Durable };
                return self.ask(now, leg, Request { tag: COPY, operation });
            }
            Ok(_) => {
                self.copy = Some((leg, None));
                let end = extent.end().unwrap();
                let state = if end == self.shape.0.blocks { Leg::Live } else { Leg::Copying(end) };
                self.shared.set(leg, state);
                self.waker.wake_by_ref();
            }
            // A piece that cannot be read is tried again later, as is a leg that cannot be written.
            Err(_) => {
                self.shared.set(leg, Leg::Missing);
                (self.copy, self.due) = (None, Some(now + PAUSE));
            }
        }
        self.shared.end_write();
    }

    fn admit(&mut self, now: Instant) {
        while !self.waiting.is_empty() && self.shared.begin_write() {
            let request = self.waiting.pop_front().unwrap();
            self.start(now, request);
        }
    }
}

impl VolumeQueue for MirrorQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let (geometry, limits, features) = &self.shape;
        if self.flights.len() + self.waiting.len() + self.ready.len() >= limits.depth as usize {
            return Err(QueueFull(request));
        }
        if let Err(kind) = shape::check(&request.operation, *geometry, limits, *features) {
            self.ready.push(request.failed(kind));
            self.waker.wake_by_ref();
        } else if request.operation.writes() {
            self.waiting.push_back(request);
            self.admit(now);
        } else {
            self.start(now, request);
        }
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        let waiting = self.waiting.iter().position(|request| request.tag == tag);
        if let Some(request) = waiting.and_then(|index| self.waiting.remove(index)) {
            self.ready.push(request.failed(VolumeErrorKind::Cancelled));
            self.waker.wake_by_ref();
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        let (mut wanted, mut ended) = (Vec::new(), Vec::new());
        self.polls.take(now, &mut wanted);
        for leg in wanted {
            self.push(now, leg);
            self.legs[leg].poll(now, &mut ended);
            let gave = !ended.is_empty();
            ended.drain(..).for_each(|completion| self.answered(now, leg, completion));
            let may_have_more = gave && self.asked[leg] > 0;
            let timeout = self.legs[leg].poll_timeout();
            self.polls.handle_polled(leg, Polled { may_have_more, timeout });
        }
        self.admit(now);
        self.copy_on(now);
        done.append(&mut self.ready);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.due, self.polls.poll_timeout()].into_iter().flatten().min()
    }
}

impl Drop for MirrorQueue {
    /// What was being written may be on some legs and not on others: all but the first are copied anew.
    fn drop(&mut self) {
        let copies = matches!(self.copy, Some((_, Some(_))));
        if let Some((leg, _)) = self.copy {
            self.shared.set(leg, Leg::Missing);
        }
        if copies || self.flights.values().any(|flight| flight.writes) {
            let first = self.first_live(None).unwrap();
            let others = (0..self.legs.len()).filter(|leg| *leg != first);
            others.for_each(|leg| self.shared.set(leg, Leg::Missing));
            self.shared.end_write();
        }
    }
}
