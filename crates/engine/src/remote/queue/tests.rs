//! A queue whose connections are a script: what it sends over which of them, when, and what its users are told.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ::volume::{ComparedWrite, Durability, Extent, Features, Geometry, Identity, Limits, Outcome, PathState};
use buf::{Buf, BufList};

use super::*;
use crate::remote::ClientContext;
use crate::remote::far_end::Timing;
use crate::remote::route::NotConnected;

const COMMAND: Duration = Duration::from_secs(30);
const RECONNECT: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_mins(1);

fn compare_and_write(extent: Extent, data: BufList, durability: Durability) -> Operation {
    let data = Box::new(ComparedWrite { compare: data.clone(), write: data });
    Operation::CompareAndWrite { extent, data, durability }
}

/// What connections a script has made, and what the next one finds.
#[derive(Default)]
struct Script {
    links: Vec<Rc<Link>>,
    /// Taken by the next attempt; none while attempts hang.
    next: Option<Facts>,
}

struct Scripted(Rc<RefCell<Script>>);

impl Route for Scripted {
    fn begin(&mut self) -> Box<dyn Attempt> {
        Box::new(Self(Rc::clone(&self.0)))
    }

    fn quiet_time(&self) -> Duration {
        QUIET
    }
}

impl Attempt for Scripted {
    fn poll(&mut self) -> Option<Result<Connected, NotConnected>> {
        let mut script = self.0.borrow_mut();
        let facts = script.next.take()?;
        let link = Link::new(Waker::noop().clone());
        link.ready();
        script.links.push(Rc::clone(&link));
        Some(Ok(Connected { link, facts }))
    }

    fn give_up(&mut self) {}
}

#[expect(clippy::unnecessary_wraps, reason = "what a connection finds may be none")]
fn nexus(host: u8, group: u16) -> Option<Nexus> {
    Some(Nexus { portal: SocketAddr::from((Ipv4Addr::new(192, 0, 2, host), 3260)), group })
}

/// What a connection finds, with the mark of that incarnation.
fn facts(incarnation: Option<u8>, nexus: Option<Nexus>) -> Facts {
    let geometry = Geometry { blocks: 1 << 20, block_size: 512, physical_block_size: 4096 };
    let features = Features::all() - Features::READ_ONLY;
    let shape = Shape { geometry, limits: Limits::default(), features, discards: true };
    let incarnation = incarnation.map(|mark| [mark; 16]);
    Facts { shape, identity: b"it".to_vec(), told: Identity::default(), incarnation, nexus }
}

struct Bench {
    shared: Arc<Shared>,
    script: Rc<RefCell<Script>>,
    queue: RemoteQueue,
    now: Instant,
    done: Vec<(u64, Result<Outcome, VolumeErrorKind>)>,
}

impl Bench {
    /// A queue that is connected as `found` says.
    fn connected(found: Facts) -> Self {
        let timing = Timing { command: COMMAND, reconnect: RECONNECT };
        let shared = Shared::new(found.clone(), timing, ClientContext::without_network());
        Self::beside(shared, found)
    }

    /// One more queue of the same volume.
    fn beside(shared: Arc<Shared>, found: Facts) -> Self {
        Self::opened(shared, Some(found))
    }

    /// A queue whose first connection finds that; without anything it hangs.
    fn opened(shared: Arc<Shared>, next: Option<Facts>) -> Self {
        let script = Rc::new(RefCell::new(Script { links: Vec::new(), next }));
        let route = Box::new(Scripted(Rc::clone(&script)));
        let queue = RemoteQueue::new(Arc::clone(&shared), route, Waker::noop().clone());
        let mut bench = Self { shared, script, queue, now: Instant::ZERO, done: Vec::new() };
        bench.poll();
        bench
    }

    fn poll(&mut self) {
        let mut done = Vec::new();
        self.queue.poll(self.now, &mut done);
        self.done.extend(done.into_iter().map(|completion| (completion.tag.0, completion.outcome())));
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.poll();
    }

    fn submit(&mut self, tag: u64, operation: Operation) {
        assert!(self.queue.submit(self.now, Request { tag: Tag(tag), operation }).is_ok());
        self.poll();
    }

    /// What the connection of that number has been given since the last look.
    fn sent(&self, link: usize) -> Vec<Request> {
        let mut inputs = VecDeque::new();
        let link = Rc::clone(&self.script.borrow().links[link]);
        link.take_inputs(&mut inputs);
        let requests = inputs.into_iter().filter_map(|input| match input {
            LinkInput::Submit(request) => Some(request),
            _ => None,
        });
        requests.collect()
    }

    fn answer(&mut self, link: usize, request: &Request, result: Result<Outcome, VolumeErrorKind>) {
        let link = Rc::clone(&self.script.borrow().links[link]);
        link.complete(Completion { tag: request.tag, result: result.map_err(VolumeErrorKind::into) });
        self.poll();
    }

    /// Carries one request out over the connection of that number, and says what its user was told.
    fn carry_out(&mut self, link: usize, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        self.submit(900, operation);
        for request in self.sent(link) {
            self.answer(link, &request, Ok(Outcome::Done));
        }
        let (tag, result) = self.done.pop().expect("a completion");
        assert_eq!(tag, 900);
        result
    }

    /// The connection ends, and the next one finds that, if anything.
    fn lose(&mut self, link: usize, next: Option<Facts>) {
        self.script.borrow_mut().next = next;
        let link = Rc::clone(&self.script.borrow().links[link]);
        link.fail("it was cut".to_owned());
        self.poll();
    }

    fn find(&mut self, next: Facts) {
        self.script.borrow_mut().next = Some(next);
        self.poll();
    }
}

/// A write of bytes that depend on block and seed.
fn write(start: u64, seed: u64) -> Operation {
    let word = |at: u64| (at ^ start << 20 ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let bytes: Vec<u8> = (0..64).flat_map(word).collect();
    let data = BufList::from(buf::SharedBuf::from(bytes));
    Operation::Write { extent: Extent::new(start, 1), data, durability: Durability::Cached }
}

fn read() -> Operation {
    Operation::Read { extent: Extent::new(0, 1), into: Buf::zeroed(512) }
}

fn starts(requests: &[Request]) -> Vec<u64> {
    requests.iter().filter_map(|request| Some(request.operation.extent()?.start)).collect()
}

#[test]
fn a_write_goes_again_at_once_only_to_the_nexus_that_had_it() {
    for (found, at_once, why) in [
        (nexus(1, 1), true, "RFC 7143 §6.3.5: the login has ended the old session"),
        (nexus(1, 2), false, "another portal group begins a session beside the old one"),
        (nexus(2, 1), false, "another portal may be another machine's"),
        (nexus(2, 2), false, "another portal group elsewhere"),
        (None, false, "a login that does not say which portal group it is in proves nothing"),
    ] {
        let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
        bench.submit(1, write(7, 1));
        bench.submit(2, read());
        assert_eq!(bench.sent(0).len(), 2);
        bench.lose(0, Some(facts(Some(1), found)));
        let again = bench.sent(1);
        assert_eq!(starts(&again).contains(&7), at_once, "{why}");
        assert!(starts(&again).contains(&0), "a read has no ghost");
        // What is new does not wait.
        bench.submit(3, write(9, 1));
        assert_eq!(starts(&bench.sent(1)), [9]);
        if !at_once {
            bench.wait(QUIET.saturating_sub(Duration::from_nanos(1)));
            assert_eq!(starts(&bench.sent(1)), [0; 0], "the old session may still carry it out: {why}");
            bench.wait(Duration::from_nanos(1));
            assert_eq!(starts(&bench.sent(1)), [7]);
        }
        assert!(bench.done.is_empty());
    }
}

#[test]
fn a_connection_that_says_nothing_of_its_nexus_ends_none() {
    let mut bench = Bench::connected(facts(Some(1), None));
    bench.submit(1, write(7, 1));
    bench.sent(0);
    bench.lose(0, Some(facts(Some(1), None)));
    assert!(bench.sent(1).is_empty(), "an NVMe association proves nothing about the one before");
    bench.wait(QUIET);
    assert_eq!(starts(&bench.sent(1)), [7]);
}

#[test]
fn each_nexus_has_its_own_ghosts() {
    let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    bench.submit(1, write(1, 1));
    bench.sent(0);
    bench.lose(0, Some(facts(Some(1), nexus(2, 1))));
    bench.submit(2, write(2, 1));
    assert_eq!(starts(&bench.sent(1)), [2]);
    bench.wait(Duration::from_secs(5));
    // Back at the first portal: only what that one had is surely over.
    bench.lose(1, None);
    bench.wait(Duration::from_secs(1));
    bench.find(facts(Some(1), nexus(1, 1)));
    assert_eq!(starts(&bench.sent(2)), [1]);
    bench.wait(QUIET.saturating_sub(Duration::from_secs(2)));
    assert_eq!(starts(&bench.sent(2)), [0; 0]);
    bench.wait(Duration::from_secs(1));
    assert_eq!(starts(&bench.sent(2)), [2]);
}

#[test]
fn everything_that_changes_blocks_is_held_and_what_may_not_be_repeated_ends() {
    let extent = Extent::new(5, 1);
    let durability = Durability::Durable;
    let data = || BufList::from(Buf::zeroed(512).freeze());
    let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    bench.submit(1, Operation::Discard { extent });
    bench.submit(2, Operation::WriteZeroes { extent, durability, may_unmap: true });
    bench.submit(3, Operation::Write { extent, data: data(), durability });
    bench.submit(4, compare_and_write(extent, data(), durability));
    assert_eq!(bench.sent(0).len(), 4);
    bench.lose(0, Some(facts(Some(1), nexus(2, 1))));
    assert!(bench.sent(1).is_empty());
    assert!(
        matches!(bench.done[..], [(4, Err(VolumeErrorKind::Unreachable))]),
        "whether it was done is not known"
    );
    // One that is cancelled meanwhile may have been done as well.
    bench.queue.cancel(Tag(3));
    bench.poll();
    assert!(matches!(bench.done[1..], [(3, Err(VolumeErrorKind::Unreachable))]));
    bench.wait(QUIET);
    assert_eq!(bench.sent(1).len(), 2);
}

#[test]
fn what_is_held_ends_with_its_queues_patience() {
    let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    bench.submit(1, write(1, 1));
    bench.sent(0);
    bench.lose(0, None);
    bench.wait(RECONNECT);
    assert!(matches!(bench.done[..], [(1, Err(VolumeErrorKind::Unreachable))]));
    // The slot's next user has no ghost: nothing of the first is sent when the nexus comes back.
    bench.find(facts(Some(1), nexus(1, 1)));
    bench.submit(2, read());
    assert_eq!(starts(&bench.sent(1)), [0]);
}

#[test]
fn a_first_connection_that_hangs_keeps_no_request_beyond_its_bound() {
    let found = || facts(Some(1), nexus(1, 1));
    let one = Bench::connected(found());
    let mut bench = Bench::opened(Arc::clone(&one.shared), None);
    bench.wait(Duration::from_mins(5));
    bench.submit(1, read());
    assert_eq!(bench.queue.poll_timeout(), Some(bench.now + COMMAND + RECONNECT), "it asks to be polled");
    bench.wait(COMMAND + RECONNECT);
    assert!(matches!(bench.done[..], [(1, Err(VolumeErrorKind::Unreachable))]), "{:?}", bench.done);
    bench.submit(2, read());
    assert!(matches!(bench.done[1..], [(2, Err(VolumeErrorKind::Unreachable))]), "others end at once");
    bench.find(found());
    bench.submit(3, read());
    assert_eq!(starts(&bench.sent(0)), [0], "the connection is of use once it is there");
}

#[test]
fn the_path_changes_with_the_connection_and_not_with_each_message() {
    let found = || facts(Some(1), nexus(1, 1));
    let mut one = Bench::connected(found());
    let shared = Arc::clone(&one.shared);
    let seen = || (shared.paths.state(), shared.paths.changes());
    let mut two = Bench::beside(Arc::clone(&shared), found());
    assert_eq!(seen(), (PathState::Optimized, 0));
    one.lose(0, None);
    assert_eq!(seen(), (PathState::Degraded { missing: 1 }, 1));
    two.lose(0, None);
    assert_eq!(seen(), (PathState::Inaccessible, 2));
    (1..5).for_each(|tag| one.submit(tag, read()));
    one.wait(RECONNECT);
    one.wait(RECONNECT);
    assert_eq!((seen(), one.done.len()), ((PathState::Inaccessible, 2), 4), "requests do not move it");
    one.find(found());
    assert_eq!(seen(), (PathState::Degraded { missing: 1 }, 3));
    drop(two);
    assert_eq!(seen(), (PathState::Optimized, 4), "a queue that is closed misses nothing");
}

/// The memory that reads are to be read into.
fn places(requests: &[Request]) -> Vec<usize> {
    let into = requests.iter().filter_map(|request| match &request.operation {
        Operation::Read { into, .. } => Some(into.as_ptr().addr()),
        _ => None,
    });
    into.collect()
}

#[test]
fn a_read_keeps_its_memory_from_connection_to_connection_and_to_its_end() {
    let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    let mut expected = Vec::new();
    let mut read = |start| {
        let into = Buf::zeroed(512);
        expected.push(into.as_ptr().addr());
        Operation::Read { extent: Extent::new(start, 1), into }
    };
    bench.submit(1, read(1));
    bench.submit(2, read(2));
    let [first, second] = <[Request; 2]>::try_from(bench.sent(0)).unwrap();
    // The connection that ends never takes the third, and the far end was too busy for the second.
    let link = Rc::clone(&bench.script.borrow().links[0]);
    link.complete(second.failed(VolumeErrorKind::Busy));
    bench.poll();
    bench.submit(3, read(3));
    link.complete(first.failed(VolumeErrorKind::Unreachable));
    bench.lose(0, Some(facts(Some(1), nexus(1, 1))));
    let mut again = bench.sent(1);
    bench.wait(limits::BUSY_FIRST);
    again.append(&mut bench.sent(1));
    again.sort_by_key(|request| request.operation.extent().unwrap().start);
    assert_eq!(places(&again), expected, "each is read into its own memory");
    for request in again {
        Rc::clone(&bench.script.borrow().links[1]).complete(request.failed(VolumeErrorKind::Unreachable));
    }
    bench.lose(1, None);
    bench.now = bench.now + RECONNECT;
    let mut done = Vec::new();
    bench.queue.poll(bench.now, &mut done);
    let ended = done.into_iter().map(|done| done.result.unwrap_err());
    let memory: Vec<_> = ended.map(|end| (end.kind, end.memory.map(|own| own.as_ptr().addr()))).collect();
    assert_eq!(memory.len(), 3);
    assert!(memory.iter().all(|(kind, place)| {
        *kind == VolumeErrorKind::Unreachable && place.is_some_and(|place| expected.contains(&place))
    }));
    assert!(bench.queue.spare.is_empty());
}

#[test]
fn an_answer_of_a_lost_connection_is_heard_once_or_not_at_all() {
    let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    bench.submit(1, write(1, 1));
    let sent = bench.sent(0);
    bench.lose(0, Some(facts(Some(1), nexus(1, 1))));
    bench.answer(0, &sent[0], Ok(Outcome::Done));
    assert!(bench.done.is_empty(), "it was sent again: the second answer decides");
    let again = bench.sent(1);
    bench.answer(1, &again[0], Ok(Outcome::Done));
    assert!(matches!(bench.done[..], [(1, Ok(_))]));
}

/// An operation on that extent with that data and durability.
type Make = fn(Extent, BufList, Durability) -> Operation;

#[test]
fn every_cached_change_needs_a_flush_and_a_loss_fails_one() {
    let extent = Extent::new(5, 1);
    let data = || BufList::from(Buf::zeroed(512).freeze());
    let cached = Durability::Cached;
    let durable = Durability::Durable;
    let cases: [(Make, Durability, bool); 8] = [
        (|extent, data, durability| Operation::Write { extent, data, durability }, cached, true),
        (|extent, data, durability| Operation::Write { extent, data, durability }, durable, false),
        (
            |extent, _, durability| Operation::WriteZeroes { extent, durability, may_unmap: true },
            cached,
            true,
        ),
        (
            |extent, _, durability| Operation::WriteZeroes { extent, durability, may_unmap: true },
            durable,
            false,
        ),
        (|extent, _, _| Operation::Discard { extent }, cached, true),
        (compare_and_write, cached, true),
        (compare_and_write, durable, false),
        (|extent, _, _| Operation::Verify { extent }, cached, false),
    ];
    for (index, (operation, durability, counts)) in cases.into_iter().enumerate() {
        for flushed in [false, true] {
            let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
            assert!(bench.carry_out(0, operation(extent, data(), durability)).is_ok());
            if flushed {
                assert!(bench.carry_out(0, Operation::Flush).is_ok());
            }
            // Another incarnation: what was in memory is gone.
            bench.lose(0, Some(facts(Some(2), nexus(1, 1))));
            let failed = bench.carry_out(1, Operation::Flush).is_err();
            assert_eq!(failed, counts && !flushed, "operation {index}, flushed before: {flushed}");
            assert!(bench.carry_out(1, Operation::Flush).is_ok(), "a loss is told once");
        }
    }
}

#[test]
fn a_flush_under_way_when_the_connection_is_lost_promises_nothing_that_it_cannot_keep() {
    for (mark, survives) in [(Some(1), true), (Some(2), false), (None, false)] {
        let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
        assert!(bench.carry_out(0, write(1, 1)).is_ok());
        bench.submit(1, Operation::Flush);
        assert_eq!(bench.sent(0).len(), 1);
        bench.lose(0, Some(facts(mark, nexus(1, 1))));
        if survives {
            let again = bench.sent(1);
            assert!(matches!(again[..], [Request { operation: Operation::Flush, .. }]));
            bench.answer(1, &again[0], Ok(Outcome::Done));
        } else {
            assert!(bench.sent(1).is_empty(), "it would find nothing to flush");
        }
        assert_eq!(bench.done.pop().unwrap().1.is_ok(), survives, "mark {mark:?}");
    }
}

#[test]
fn a_late_acknowledgement_of_an_old_incarnation_is_not_flushed_by_a_new_one() {
    // Two cores; one is slow to take its answers, and the other reconnects and finds another incarnation meanwhile.
    let mut slow = Bench::connected(facts(Some(1), nexus(1, 1)));
    let mut quick = Bench::beside(Arc::clone(&slow.shared), facts(Some(1), nexus(1, 1)));
    slow.submit(1, write(1, 1));
    let sent = slow.sent(0);
    let link = Rc::clone(&slow.script.borrow().links[0]);
    link.complete(Completion { tag: sent[0].tag, result: Ok(Outcome::Done) });
    quick.lose(0, Some(facts(Some(2), nexus(1, 1))));
    assert!(quick.carry_out(1, Operation::Flush).is_ok(), "nothing is known to be lost yet");
    slow.poll();
    assert!(matches!(slow.done[..], [(1, Ok(_))]));
    for bench in [&mut slow, &mut quick] {
        let link = bench.script.borrow().links.len() - 1;
        assert!(bench.carry_out(link, Operation::Flush).is_err(), "each queue's user is told of the loss");
        assert!(bench.carry_out(link, Operation::Flush).is_ok());
    }
}

#[test]
fn a_queue_that_stands_still_holds_up_no_other() {
    let mut still = Bench::connected(facts(Some(1), nexus(1, 1)));
    let mut other = Bench::beside(Arc::clone(&still.shared), facts(Some(1), nexus(1, 1)));
    still.submit(1, write(1, 1));
    still.sent(0);
    still.lose(0, None);
    assert!(other.carry_out(0, write(2, 1)).is_ok());
    assert!(other.carry_out(0, Operation::Flush).is_ok());
    still.find(facts(Some(1), nexus(1, 1)));
    let again = still.sent(1);
    still.answer(1, &again[0], Ok(Outcome::Done));
    assert!(matches!(still.done[..], [(1, Ok(_))]));
    assert!(still.script.borrow().next.is_none() && other.done.is_empty());
}

#[test]
fn more_nexuses_than_are_told_apart_are_held_for_their_whole_time() {
    let mut bench = Bench::connected(facts(Some(1), nexus(0, 1)));
    for number in 1..=u8::try_from(limits::NEXUSES).unwrap() + 1 {
        let link = usize::from(number) - 1;
        bench.submit(number.into(), write(number.into(), 1));
        bench.sent(link);
        bench.lose(link, None);
        // Each connection that ends without an answer makes the next wait longer.
        bench.wait(Duration::from_secs(6));
        bench.find(facts(Some(1), nexus(number, 1)));
        bench.done.clear();
    }
    // Whatever was sent again by now had waited its time.
    let last = bench.script.borrow().links.len() - 1;
    let again = starts(&bench.sent(last));
    assert!(again.iter().all(|start| *start <= 8), "{again:?}");
}

/// What a request is told that is carried out with that end.
fn end_with(
    bench: &mut Bench,
    operation: Operation,
    result: Result<Outcome, VolumeErrorKind>,
) -> Result<Outcome, VolumeErrorKind> {
    bench.submit(700, operation);
    let sent = bench.sent(0);
    if let [request] = &sent[..] {
        bench.answer(0, request, result);
    }
    bench.done.pop().expect("a completion").1
}

fn durable_write() -> Operation {
    let Operation::Write { extent, data, .. } = write(3, 1) else { panic!("a write") };
    Operation::Write { extent, data, durability: Durability::Durable }
}

/// What a far end answers, and whether writes are lost then, for everybody and from then on.
const ENDS: [(VolumeErrorKind, bool); 12] = [
    (VolumeErrorKind::Media, true),
    (VolumeErrorKind::NoSpace, true),
    (VolumeErrorKind::ReadOnly, true),
    (VolumeErrorKind::Protection, true),
    (VolumeErrorKind::OutOfRange, true),
    (VolumeErrorKind::Misaligned, true),
    (VolumeErrorKind::TimedOut, false),
    (VolumeErrorKind::Cancelled, false),
    (VolumeErrorKind::Unsupported, false),
    (VolumeErrorKind::ReservationConflict, false),
    (VolumeErrorKind::ShuttingDown, false),
    (VolumeErrorKind::Unreachable, false),
];

#[test]
fn a_flush_that_the_far_end_fails_once_fails_on_every_queue_from_then_on() {
    for (kind, lost) in ENDS {
        let found = || facts(Some(1), nexus(1, 1));
        let mut one = Bench::connected(found());
        let mut two = Bench::beside(Arc::clone(&one.shared), found());
        assert!(two.carry_out(0, write(1, 1)).is_ok());
        let told = end_with(&mut one, Operation::Flush, Err(kind));
        let expected = if lost { VolumeErrorKind::Media } else { kind };
        assert_eq!(told.unwrap_err(), expected, "a flush that ends with {kind:?}");
        let mut later = Bench::beside(Arc::clone(&one.shared), found());
        for (name, bench) in [("its", &mut one), ("another", &mut two), ("a later", &mut later)] {
            for operation in [Operation::Flush, write(2, 1), durable_write()] {
                let about = format!("after {kind:?}, on {name} queue: {operation:?}");
                let told = bench.carry_out(0, operation).map(drop);
                assert_eq!(told, if lost { Err(VolumeErrorKind::Media) } else { Ok(()) }, "{about}");
            }
            assert!(bench.carry_out(0, read()).is_ok(), "reads go on");
        }
        assert_eq!(one.shared.last_error().is_some(), lost, "{kind:?}");
    }
}

#[test]
fn a_flush_that_was_given_up_may_have_failed() {
    for (mark, fails) in [(None, true), (Some(1), false)] {
        for kind in [VolumeErrorKind::TimedOut, VolumeErrorKind::Cancelled] {
            let mut one = Bench::connected(facts(mark, nexus(1, 1)));
            let mut two = Bench::beside(Arc::clone(&one.shared), facts(mark, nexus(1, 1)));
            assert!(two.carry_out(0, write(1, 1)).is_ok());
            assert_eq!(end_with(&mut one, Operation::Flush, Err(kind)).unwrap_err(), kind);
            for bench in [&mut one, &mut two] {
                assert_eq!(bench.carry_out(0, Operation::Flush).is_err(), fails, "{kind:?}, mark {mark:?}");
                assert!(bench.carry_out(0, Operation::Flush).is_ok(), "once");
            }
        }
    }
}

#[test]
fn a_durable_write_that_fails_may_have_failed_for_others_data() {
    for (operation, kind, lost) in [
        (durable_write(), VolumeErrorKind::Media, true),
        (durable_write(), VolumeErrorKind::NoSpace, false),
        (write(3, 1), VolumeErrorKind::Media, false),
        (read(), VolumeErrorKind::Media, false),
    ] {
        let mut one = Bench::connected(facts(None, nexus(1, 1)));
        let mut two = Bench::beside(Arc::clone(&one.shared), facts(None, nexus(1, 1)));
        let about = format!("{operation:?} ends with {kind:?}");
        assert_eq!(end_with(&mut one, operation, Err(kind)).unwrap_err(), kind, "{about}");
        for bench in [&mut one, &mut two] {
            assert_eq!(bench.carry_out(0, Operation::Flush).is_err(), lost, "{about}");
        }
    }
}

/// A record that is never kept.
#[derive(Debug, Default)]
struct Unkept(std::sync::Mutex<Vec<String>>);

impl ::volume::LossRecord for Unkept {
    fn keep(&self, what: &str, kept: Box<dyn FnOnce() + Send>) {
        self.0.lock().unwrap().push(what.to_owned());
        std::mem::forget(kept);
    }
}

#[test]
fn whoever_hands_the_volume_on_keeps_the_loss_before_anybody_is_told() {
    let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    let record = Arc::new(Unkept::default());
    bench.shared.losses.keep_in(Arc::<Unkept>::clone(&record), None);
    bench.submit(1, Operation::Flush);
    let sent = bench.sent(0);
    bench.answer(0, &sent[0], Err(VolumeErrorKind::Media));
    bench.submit(2, write(1, 1));
    bench.poll();
    assert!(bench.done.is_empty(), "told before it is kept");
    assert!(record.0.lock().unwrap().concat().contains("the far end failed a flush"));
    let bench = Bench::connected(facts(Some(1), nexus(1, 1)));
    bench.shared.losses.keep_in(record, Some("a flush failed".to_owned()));
    let mut later = Bench::beside(Arc::clone(&bench.shared), facts(Some(1), nexus(1, 1)));
    assert_eq!(later.carry_out(0, Operation::Flush).unwrap_err(), VolumeErrorKind::Media);
    assert!(later.carry_out(0, read()).is_ok());
}

#[test]
fn what_is_held_goes_again_when_its_time_has_come_however_late_anybody_looks() {
    for late in [Duration::ZERO, Duration::from_nanos(1), QUIET] {
        let mut bench = Bench::connected(facts(Some(1), nexus(1, 1)));
        bench.submit(1, write(7, 1));
        bench.sent(0);
        bench.lose(0, Some(facts(Some(1), nexus(2, 1))));
        bench.wait(QUIET / 2);
        assert_eq!(starts(&bench.sent(1)), [], "the nexus before may still write it");
        bench.wait(QUIET / 2 + late);
        assert_eq!(starts(&bench.sent(1)), [7], "{late:?} after its time");
    }
}
