//! The contract test suite: the same checks on every provider of queue pairs.
//!
//! `docs/verbs-contract.md` names the promises; each names its check here. It is part of the library so that the tests of any provider can
//! use it; it panics at nothing and reports a [`Breach`].

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use buf::{Buf, BufList, Pool};
use protocol::{Instant, pair};

use crate::{
    EndReason, QueuePair, QueuePairState, Refusal, RegionMemory, RemoteRegion, WorkCompletion, WorkDone,
    WorkError, WorkId, WorkMemory, WorkRequest,
};

/// Two queue pairs that are each other's peer, and what lies between them.
pub trait Link {
    /// One of the two.
    fn end(&mut self, side: Side) -> &mut dyn QueuePair;

    /// Lets what is on its way move on, and time pass; says what time it is then.
    fn step(&mut self) -> Instant;

    /// Whether a queue pair hears why its peer has ended it.
    fn reasons(&self) -> Reasons {
        Reasons::Told
    }
}

/// Whether a queue pair hears why its peer has ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasons {
    /// It does.
    Told,
    /// A device keeps its peer's Terminate to itself: all that is heard of it is the end.
    Untold,
}

/// One of the two ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that asks, in most checks.
    Near,
    /// Its peer.
    Far,
}

/// A promise that a provider does not keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {finding}")]
pub struct Breach {
    /// The check that found it.
    pub check: &'static str,
    /// What the check saw.
    #[source]
    pub finding: Finding,
}

/// What a check saw that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A request is refused that must be taken.
    #[error("a request is refused: {0}")]
    Refused(#[source] Refusal),
    /// A request does not complete, or a queue pair does not end.
    #[error("{0}")]
    Unanswered(
        /// Which.
        String,
    ),
    /// A provider keeps memory after the end.
    #[error("{bytes} bytes of memory are held by nobody")]
    Leak {
        /// How much.
        bytes: usize,
    },
    /// The check's own pool is empty: a provider has kept what it was lent.
    #[error("the check has no memory")]
    NoMemory,
    /// The provider does something else than it promises.
    #[error("{0}")]
    Broken(
        /// What it does.
        String,
    ),
}

type Verdict = Result<(), Finding>;

/// A check: its name, and what it does.
struct Check(&'static str, fn(&mut Bench<'_>) -> Verdict);

const CHECKS: &[Check] = &[
    Check("messages_arrive_whole_and_in_order", messages_arrive_whole_and_in_order),
    Check("what_is_written_is_there_before_a_message", what_is_written_is_there_before_a_message),
    Check("reads_give_the_memory_of_the_peer", reads_give_the_memory_of_the_peer),
    Check("completions_keep_the_order_of_posting", completions_keep_the_order_of_posting),
    Check("parts_of_regions_are_named_by_offset", parts_of_regions_are_named_by_offset),
    Check("a_full_queue_gives_the_request_back", a_full_queue_gives_the_request_back),
    Check("what_is_too_long_is_refused", what_is_too_long_is_refused),
    Check("a_message_that_is_too_long_ends_both", a_message_that_is_too_long_ends_both),
    Check("no_access_outside_of_a_region", no_access_outside_of_a_region),
    Check("no_access_without_the_right", no_access_without_the_right),
    Check("no_access_to_an_invalidated_region", no_access_to_an_invalidated_region),
    Check("a_message_invalidates_a_region", a_message_invalidates_a_region),
    Check("disconnecting_gives_everything_back", disconnecting_gives_everything_back),
    Check("an_ended_queue_pair_takes_nothing", an_ended_queue_pair_takes_nothing),
];

/// Runs every check on links that `make` makes, a new one for each.
///
/// # Errors
/// The first promise that is not kept.
pub fn check(make: &mut dyn FnMut() -> Box<dyn Link>) -> Result<(), Breach> {
    CHECKS.iter().try_for_each(|check| check.run(make))
}

/// Runs every check, whatever the others find: one promise after the other, with how it is kept. For devices whose faults are known.
pub fn check_each(make: &mut dyn FnMut() -> Box<dyn Link>) -> Vec<CheckOutcome> {
    CHECKS.iter().map(|check| CheckOutcome { check: check.0, outcome: check.run(make) }).collect()
}

/// How a promise is kept.
#[derive(Debug)]
pub struct CheckOutcome {
    /// The check.
    pub check: &'static str,
    /// What it has found.
    pub outcome: Result<(), Breach>,
}

impl Check {
    fn run(&self, make: &mut dyn FnMut() -> Box<dyn Link>) -> Result<(), Breach> {
        let Self(name, run) = self;
        let mut link = make();
        let pool = Pool::new(POOL);
        let mut bench = Bench {
            link: &mut *link,
            pool: &pool,
            next: 0,
            under_way: [const { Vec::new() }; 2],
            done: [const { Vec::new() }; 2],
            breach: None,
        };
        let verdict = run(&mut bench).and_then(|()| bench.end());
        drop(bench);
        drop(link);
        let leak = match pool.used() {
            0 => Ok(()),
            bytes => Err(Finding::Leak { bytes }),
        };
        verdict.and(leak).map_err(|finding| Breach { check: name, finding })
    }
}

/// Bytes that a check may have.
const POOL: usize = 64 << 20;
/// Steps within which anything has come to its end.
const PATIENCE: usize = 100_000;
/// How often a region is registered anew, at most.
const REUSE: usize = 128;
/// Lengths of messages and regions: none, one, either side of powers of two, and more than a segment of any transport.
const LENGTHS: [usize; 9] = [0, 1, 3, 511, 512, 513, 4096, 65_537, 300_001];

struct Bench<'a> {
    link: &'a mut dyn Link,
    pool: &'a Pool,
    next: u64,
    /// What was posted on each side and has not completed.
    under_way: [Vec<WorkId>; 2],
    done: [Vec<WorkCompletion>; 2],
    /// What completed though it was not under way.
    breach: Option<Finding>,
}

impl Bench<'_> {
    fn buf(&self, len: usize) -> Result<Buf, Finding> {
        let mut buf = self.pool.take(len.max(1)).ok_or(Finding::NoMemory)?;
        buf.set_len(len);
        buf.fill(0);
        Ok(buf)
    }

    /// Data that repeats nowhere.
    fn data(&self, len: usize, seed: u64) -> Result<BufList, Finding> {
        let mut buf = self.buf(len)?;
        buf.copy_from_slice(&pair::aperiodic(len, seed));
        Ok(BufList::from(buf.freeze()))
    }

    fn offer(&mut self, side: Side, request: WorkRequest) -> Result<WorkId, Refusal> {
        let id = WorkId(self.next);
        self.next = self.next.saturating_add(1);
        self.link.end(side).post(id, request).map_err(|refused| refused.reason)?;
        self.under_way[side as usize].push(id);
        Ok(id)
    }

    fn post(&mut self, side: Side, request: WorkRequest) -> Result<WorkId, Finding> {
        self.offer(side, request).map_err(Finding::Refused)
    }

    fn receive(&mut self, side: Side, len: usize) -> Result<WorkId, Finding> {
        let into = self.buf(len)?;
        self.post(side, WorkRequest::Receive { into })
    }

    fn send(&mut self, side: Side, data: BufList) -> Result<WorkId, Finding> {
        self.post(side, WorkRequest::Send { data, invalidate: None })
    }

    fn step(&mut self) {
        let now = self.link.step();
        for side in [Side::Near, Side::Far] {
            let mut done = Vec::new();
            self.link.end(side).poll(now, &mut done);
            for completion in done {
                let id = completion.id;
                let under_way = &mut self.under_way[side as usize];
                match under_way.iter().position(|own| *own == id) {
                    Some(at) => drop(under_way.swap_remove(at)),
                    None => {
                        self.breach =
                            Some(Finding::Broken(format!("{id:?} completes, and is not under way")));
                    }
                }
                self.done[side as usize].push(completion);
            }
        }
    }

    /// The next completion on a side.
    fn next(&mut self, side: Side) -> Result<WorkCompletion, Finding> {
        for _ in 0..PATIENCE {
            if !self.done[side as usize].is_empty() {
                return Ok(self.done[side as usize].remove(0));
            }
            self.step();
        }
        Err(Finding::Unanswered(format!("nothing completes on the {side:?} side")))
    }

    /// The completion of one request; others stay.
    fn of(&mut self, side: Side, id: WorkId) -> Result<WorkCompletion, Finding> {
        for _ in 0..PATIENCE {
            if let Some(at) = self.done[side as usize].iter().position(|done| done.id == id) {
                return Ok(self.done[side as usize].remove(at));
            }
            self.step();
        }
        Err(Finding::Unanswered(format!("{id:?} does not complete on the {side:?} side")))
    }

    /// Registers memory, and gives what the peer is to be told.
    fn register(&mut self, side: Side, memory: RegionMemory) -> Result<RemoteRegion, Finding> {
        let id = self.post(side, WorkRequest::Register { memory })?;
        match self.of(side, id)?.result {
            Ok(WorkDone::Registered(region)) => Ok(region),
            other => Err(Finding::Broken(format!("memory is not registered: {other:?}"))),
        }
    }

    /// Ends a region, and gives its memory.
    fn release(&mut self, side: Side, region: RemoteRegion) -> Result<RegionMemory, Finding> {
        let id = self.post(side, WorkRequest::Invalidate { stag: region.stag })?;
        match self.of(side, id)? {
            WorkCompletion {
                result: Ok(WorkDone::Invalidated), memory: WorkMemory::Region(memory), ..
            } => Ok(memory),
            other => Err(Finding::Broken(format!("a region does not come back: {other:?}"))),
        }
    }

    /// Waits until both have ended.
    fn both_end(&mut self) -> Result<[EndReason; 2], Finding> {
        for _ in 0..PATIENCE {
            self.step();
            let states = [Side::Near, Side::Far].map(|side| self.link.end(side).state());
            if let [QueuePairState::Ended(near), QueuePairState::Ended(far)] = states {
                return Ok([near, far]);
            }
        }
        let states = [Side::Near, Side::Far].map(|side| self.link.end(side).state());
        Err(Finding::Unanswered(format!("the queue pairs do not end: {states:?}")))
    }

    /// Ends both, after which everything must have completed.
    fn end(&mut self) -> Verdict {
        for side in [Side::Near, Side::Far] {
            self.link.end(side).disconnect();
        }
        self.both_end()?;
        for _ in 0..PATIENCE {
            self.step();
            if let Some(breach) = self.breach.take() {
                return Err(breach);
            }
            if self.under_way.iter().all(Vec::is_empty) {
                return Ok(());
            }
        }
        Err(Finding::Unanswered(format!("{:?} do not complete", self.under_way)))
    }
}

fn expect(what: bool, words: &str) -> Verdict {
    if what { Ok(()) } else { Err(Finding::Broken(String::from(words))) }
}

fn same(bytes: &[u8], seed: u64, words: &str) -> Verdict {
    expect(bytes == pair::aperiodic(bytes.len(), seed), words)
}

fn messages_arrive_whole_and_in_order(bench: &mut Bench<'_>) -> Verdict {
    for (from, to) in [(Side::Near, Side::Far), (Side::Far, Side::Near)] {
        for len in LENGTHS {
            bench.receive(to, len.max(1))?;
        }
        for (seed, len) in (0..).zip(LENGTHS) {
            let data = bench.data(len, seed)?;
            bench.send(from, data)?;
        }
        for (seed, len) in (0..).zip(LENGTHS) {
            let done = bench.next(to)?;
            let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(buf)) = (done.result, done.memory)
            else {
                return Err(Finding::Broken(format!(
                    "a message of {len} bytes does not arrive: {:?}",
                    done.result
                )));
            };
            expect(length == len, "a message arrives with another length")?;
            same(buf.get(..length).unwrap_or_default(), seed, "a message arrives with other bytes")?;
        }
        for _ in LENGTHS {
            let done = bench.next(from)?;
            expect(done.result == Ok(WorkDone::Sent), "a message is not sent")?;
            expect(matches!(done.memory, WorkMemory::List(_)), "the memory of a message does not come back")?;
        }
    }
    Ok(())
}

fn what_is_written_is_there_before_a_message(bench: &mut Bench<'_>) -> Verdict {
    for (seed, len) in (0..).zip(LENGTHS) {
        let sink = RegionMemory::Sink(bench.buf(len)?);
        let region = bench.register(Side::Far, sink)?;
        bench.receive(Side::Far, 1)?;
        let data = bench.data(len, seed)?;
        bench.post(Side::Near, WorkRequest::Write { data, to: region })?;
        bench.send(Side::Near, BufList::new())?;
        let done = bench.next(Side::Far)?;
        expect(matches!(done.result, Ok(WorkDone::Received { .. })), "the message does not arrive")?;
        match bench.release(Side::Far, region)? {
            RegionMemory::Sink(buf) => {
                expect(buf.len() == len, "a region comes back with another length")?;
                same(&buf, seed, "a message has overtaken the data that was written before it")?;
            }
            RegionMemory::Source(_) => {
                return Err(Finding::Broken(String::from("a region comes back as another kind")));
            }
        }
    }
    Ok(())
}

fn reads_give_the_memory_of_the_peer(bench: &mut Bench<'_>) -> Verdict {
    for (seed, len) in (0..).zip(LENGTHS) {
        let source = RegionMemory::Source(bench.data(len, seed)?);
        let region = bench.register(Side::Far, source)?;
        let into = bench.buf(len)?;
        let id = bench.post(Side::Near, WorkRequest::Read { into, from: region })?;
        let done = bench.of(Side::Near, id)?;
        let (Ok(WorkDone::Read), WorkMemory::Buf(buf)) = (done.result, done.memory) else {
            return Err(Finding::Broken(format!("{len} bytes cannot be read: {:?}", done.result)));
        };
        same(&buf, seed, "other bytes are read than the peer registered")?;
        bench.release(Side::Far, region)?;
    }
    Ok(())
}

fn completions_keep_the_order_of_posting(bench: &mut Bench<'_>) -> Verdict {
    let (source, sink) = (bench.data(100_000, 1)?, bench.buf(100)?);
    let source = bench.register(Side::Far, RegionMemory::Source(source))?;
    let sink = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    let mut posted = Vec::new();
    for turn in 0..4 {
        bench.receive(Side::Far, 64)?;
        let into = bench.buf(100_000)?;
        posted.push(bench.post(Side::Near, WorkRequest::Read { into, from: source })?);
        let data = bench.data(100, turn)?;
        posted.push(bench.post(Side::Near, WorkRequest::Write { data, to: sink })?);
        let data = bench.data(64, turn)?;
        posted.push(bench.send(Side::Near, data)?);
    }
    for id in posted {
        let done = bench.next(Side::Near)?;
        expect(done.result.is_ok(), "a request fails")?;
        expect(done.id == id, "completions come in another order than that of posting")?;
    }
    Ok(())
}

fn parts_of_regions_are_named_by_offset(bench: &mut Bench<'_>) -> Verdict {
    const WHOLE: usize = 5000;
    let (sink, source) = (bench.buf(WHOLE)?, bench.data(WHOLE, 7)?);
    let sink = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    let source = bench.register(Side::Far, RegionMemory::Source(source))?;
    for (at, len) in [(0, 1000_u32), (1000, 3999), (4999, 1)] {
        let into = bench.buf(len as usize)?;
        let from = RemoteRegion { offset: source.offset.saturating_add(at), length: len, ..source };
        let id = bench.post(Side::Near, WorkRequest::Read { into, from })?;
        let WorkMemory::Buf(buf) = bench.of(Side::Near, id)?.memory else {
            return Err(Finding::Broken(String::from("a part cannot be read")));
        };
        let to = RemoteRegion { offset: sink.offset.saturating_add(at), length: len, ..sink };
        bench.post(Side::Near, WorkRequest::Write { data: BufList::from(buf.freeze()), to })?;
    }
    bench.receive(Side::Far, 1)?;
    let id = bench.send(Side::Near, BufList::new())?;
    bench.of(Side::Near, id)?;
    match (bench.next(Side::Far)?.result, bench.release(Side::Far, sink)?) {
        (Ok(WorkDone::Received { .. }), RegionMemory::Sink(buf)) => {
            same(&buf, 7, "parts are at other places")
        }
        other => Err(Finding::Broken(format!("the message does not arrive: {other:?}"))),
    }
}

fn a_full_queue_gives_the_request_back(bench: &mut Bench<'_>) -> Verdict {
    let limits = bench.link.end(Side::Near).limits();
    for _ in 0..limits.receives {
        bench.receive(Side::Near, 1)?;
    }
    let into = bench.buf(1)?;
    let refused = bench.offer(Side::Near, WorkRequest::Receive { into });
    expect(refused == Err(Refusal::ReceiveQueueFull), "more receives are taken than the limit says")?;
    for _ in 0..limits.sends {
        bench.receive(Side::Far, 1)?;
    }
    let mut taken = 0_usize;
    while taken <= limits.sends {
        match bench.offer(Side::Near, WorkRequest::Send { data: BufList::new(), invalidate: None }) {
            Ok(_) => taken = taken.saturating_add(1),
            Err(reason) => {
                expect(reason == Refusal::SendQueueFull, "a full send queue is told otherwise")?;
                break;
            }
        }
    }
    expect(taken == limits.sends, "another number of sends is taken than the limit says")?;
    for _ in 0..taken {
        expect(bench.next(Side::Near)?.result == Ok(WorkDone::Sent), "a message is not sent")?;
    }
    bench.receive(Side::Far, 1)?;
    let id = bench.send(Side::Near, BufList::new())?;
    expect(bench.of(Side::Near, id)?.result.is_ok(), "the queue does not go on")
}

fn what_is_too_long_is_refused(bench: &mut Bench<'_>) -> Verdict {
    let sink = bench.buf(100)?;
    let region = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    let data = bench.data(101, 1)?;
    let refused = bench.offer(Side::Near, WorkRequest::Write { data, to: region });
    expect(refused == Err(Refusal::TooLong), "a write beyond its region is taken")?;
    let into = bench.buf(99)?;
    let refused = bench.offer(Side::Near, WorkRequest::Read { into, from: region });
    expect(refused == Err(Refusal::TooLong), "a read beyond its buffer is taken")?;
    let refused = bench.offer(Side::Near, WorkRequest::Invalidate { stag: region.stag });
    expect(refused == Err(Refusal::UnknownRegion), "a region of the peer is invalidated here")
}

fn a_message_that_is_too_long_ends_both(bench: &mut Bench<'_>) -> Verdict {
    let short = bench.receive(Side::Far, 99)?;
    let other = bench.receive(Side::Far, 99)?;
    let data = bench.data(100, 1)?;
    bench.send(Side::Near, data)?;
    let done = bench.of(Side::Far, short)?;
    expect(done.result == Err(WorkError::MessageTooLong), "a message is longer than its buffer")?;
    expect(matches!(done.memory, WorkMemory::Buf(_)), "its memory does not come back")?;
    let done = bench.of(Side::Far, other)?;
    expect(done.result == Err(WorkError::Flushed), "a receive goes on after the end")?;
    bench.both_end().map(|_| ())
}

/// Lets the near side access a region that it may not access so; the far side's memory stays as it was.
fn refuse(bench: &mut Bench<'_>, request: WorkRequest, what: &str) -> Verdict {
    let id = bench.post(Side::Near, request)?;
    let done = bench.of(Side::Near, id)?;
    let [near, _] = bench.both_end()?;
    // A write is sent without an answer: its sender may hear of the refusal by the end alone.
    let is_refusal = match near {
        EndReason::Terminated(_) => true,
        EndReason::ByPeer => bench.link.reasons() == Reasons::Untold,
        EndReason::ByUs | EndReason::Violation(_) | EndReason::Lost => false,
    };
    let told = done.result == Err(WorkError::RemoteAccess) || is_refusal && done.result != Ok(WorkDone::Read);
    let result = done.result;
    if told { Ok(()) } else { Err(Finding::Broken(format!("{what}: {result:?}, and {near:?}"))) }
}

fn no_access_outside_of_a_region(bench: &mut Bench<'_>) -> Verdict {
    let sink = bench.buf(4096)?;
    let region = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    // Short enough for one segment of any transport: one that cannot know a message's length when it begins places what lies inside.
    let offset = region.offset.saturating_add(4096 - 255);
    let beyond = RemoteRegion { offset, length: 256, ..region };
    let data = bench.data(256, 1)?;
    refuse(bench, WorkRequest::Write { data, to: beyond }, "a write beyond a region is carried out")?;
    untouched(bench, region)
}

fn no_access_without_the_right(bench: &mut Bench<'_>) -> Verdict {
    let sink = bench.buf(4096)?;
    let region = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    let into = bench.buf(4096)?;
    refuse(bench, WorkRequest::Read { into, from: region }, "memory that is for writing alone is read")
}

fn no_access_to_an_invalidated_region(bench: &mut Bench<'_>) -> Verdict {
    let sink = bench.buf(4096)?;
    let region = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    let mut again = region;
    // Until whatever names regions is used anew.
    for _ in 0..bench.link.end(Side::Far).limits().regions.min(REUSE) {
        let memory = bench.release(Side::Far, again)?;
        again = bench.register(Side::Far, memory)?;
        expect(again.stag != region.stag, "a region has the tag of one before")?;
    }
    let data = bench.data(4096, 1)?;
    refuse(bench, WorkRequest::Write { data, to: region }, "a region that is no more is written to")?;
    untouched(bench, again)
}

/// Gives a region back, which must hold nothing but zeros: also after the end.
fn untouched(bench: &mut Bench<'_>, region: RemoteRegion) -> Verdict {
    match bench.release(Side::Far, region)? {
        RegionMemory::Sink(buf) => expect(buf.iter().all(|byte| *byte == 0), "memory was changed"),
        RegionMemory::Source(_) => Err(Finding::Broken(String::from("a region comes back as another kind"))),
    }
}

fn a_message_invalidates_a_region(bench: &mut Bench<'_>) -> Verdict {
    if !bench.link.end(Side::Near).limits().remote_invalidation {
        return Ok(());
    }
    let sink = bench.buf(4096)?;
    let region = bench.register(Side::Far, RegionMemory::Sink(sink))?;
    bench.receive(Side::Far, 1)?;
    let data = BufList::new();
    bench.post(Side::Near, WorkRequest::Send { data, invalidate: Some(region.stag) })?;
    let told = bench.next(Side::Far)?.result;
    let Ok(WorkDone::Received { invalidated, .. }) = told else {
        return Err(Finding::Broken(format!("the message does not arrive: {told:?}")));
    };
    expect(invalidated == Some(region.stag), "who receives does not hear what was invalidated")?;
    let memory = bench.release(Side::Far, region)?;
    expect(memory.len() == 4096, "the memory of an invalidated region does not come back")?;
    drop(memory);
    let data = bench.data(4096, 1)?;
    refuse(bench, WorkRequest::Write { data, to: region }, "an invalidated region is written to")
}

fn disconnecting_gives_everything_back(bench: &mut Bench<'_>) -> Verdict {
    let (sink, source) = (bench.buf(4096)?, bench.data(4096, 1)?);
    bench.register(Side::Near, RegionMemory::Sink(sink))?;
    bench.register(Side::Near, RegionMemory::Source(source))?;
    let posted = [bench.receive(Side::Near, 4096)?, bench.receive(Side::Near, 4096)?];
    let peer = bench.receive(Side::Far, 4096)?;
    bench.link.end(Side::Near).disconnect();
    for id in posted {
        let done = bench.of(Side::Near, id)?;
        expect(done.result == Err(WorkError::Flushed), "a receive ends otherwise")?;
    }
    let done = bench.of(Side::Far, peer)?;
    expect(done.result == Err(WorkError::Flushed), "a receive of the peer ends otherwise")?;
    let [near, far] = bench.both_end()?;
    expect(near == EndReason::ByUs, "who disconnects hears another reason")?;
    expect(far == EndReason::ByPeer, "the peer hears another reason")
}

fn an_ended_queue_pair_takes_nothing(bench: &mut Bench<'_>) -> Verdict {
    bench.link.end(Side::Far).disconnect();
    bench.both_end()?;
    for side in [Side::Near, Side::Far] {
        let into = bench.buf(1)?;
        let refused = bench.offer(side, WorkRequest::Receive { into });
        expect(refused == Err(Refusal::Ended), "an ended queue pair takes a receive")?;
        let refused = bench.offer(side, WorkRequest::Send { data: BufList::new(), invalidate: None });
        expect(refused == Err(Refusal::Ended), "an ended queue pair takes a message")?;
    }
    Ok(())
}
