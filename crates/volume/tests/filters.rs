//! What each filter changes: when requests go on, which fail, how fast they are, what is counted.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::Buf;
use protocol::Instant;
use volume::filter::{Apart, Delay, Fail, FailRate, Limit, OperationSet, ReadOnly, Stats};
use volume::{
    Completion, CoreId, Extent, Features, Operation, QueueContext, Ram, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};

const MS: Duration = Duration::from_millis(1);

fn ram() -> Arc<dyn Volume> {
    Arc::new(Ram::new(1 << 20, 512).unwrap())
}

fn at(ms: u32) -> Instant {
    Instant::ZERO + MS * ms
}

struct Driven(Box<dyn VolumeQueue>, u64);

impl Driven {
    fn new(volume: &dyn Volume) -> Self {
        Self(volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap(), 0)
    }

    fn submit(&mut self, now: Instant, operation: Operation) -> Tag {
        self.1 += 1;
        self.0.submit(now, Request { tag: Tag(self.1), operation }).unwrap();
        Tag(self.1)
    }

    fn read(&mut self, now: Instant, block: u64) -> Tag {
        self.submit(now, Operation::Read { extent: Extent::new(block, 1), into: Buf::zeroed(512) })
    }

    fn poll(&mut self, now: Instant) -> Vec<Completion> {
        let mut done = Vec::new();
        self.0.poll(now, &mut done);
        done
    }
}

/// A volume that says something of everything, and notes what it is asked to do.
#[derive(Debug)]
struct Telling {
    inner: Arc<dyn Volume>,
    asked: Arc<std::sync::Mutex<Vec<&'static str>>>,
}

impl Telling {
    fn note(&self, what: &'static str) {
        self.asked.lock().unwrap().push(what);
    }
}

impl Volume for Telling {
    fn geometry(&self) -> volume::Geometry {
        self.inner.geometry()
    }
    fn limits(&self) -> volume::Limits {
        volume::Limits { depth: 77, ..self.inner.limits() }
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn identity(&self) -> Option<volume::Identity> {
        Some(volume::Identity { serial: "77".into(), ..volume::Identity::default() })
    }
    fn changes(&self) -> volume::Changes {
        volume::Changes { resized: 7, ..volume::Changes::default() }
    }
    fn path(&self) -> volume::PathState {
        volume::PathState::Degraded { missing: 3 }
    }
    fn last_error(&self) -> Option<String> {
        Some("a leg is away".to_owned())
    }
    fn listen(&self, _: Waker) {
        self.note("listen");
    }
    fn rescan(&self) -> Result<(), volume::OpenError> {
        self.note("rescan");
        Ok(())
    }
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, volume::OpenError> {
        self.inner.open_queue(context)
    }
}

type Filter = fn(Arc<dyn Volume>) -> Arc<dyn Volume>;

#[test]
fn what_a_filter_does_not_change_is_its_volumes() {
    let filters: [(&str, Filter); 5] = [
        ("read-only", |inner| Arc::new(ReadOnly::new(inner))),
        ("delay", |inner| Arc::new(Delay::new(inner, MS))),
        ("limit", |inner| Arc::new(Limit::new(inner, None, None))),
        ("fail", |inner| Arc::new(Fail::new(inner, FailRate::EveryNth(1000), VolumeErrorKind::Media))),
        ("stats", |inner| Arc::new(Stats::new(inner))),
    ];
    for (name, filter) in filters {
        let asked = Arc::default();
        let telling = Arc::new(Telling { inner: ram(), asked: Arc::clone(&asked) });
        let filtered = filter(Arc::clone(&telling) as Arc<dyn Volume>);
        assert_eq!(filtered.geometry(), telling.geometry(), "{name}");
        assert_eq!(filtered.limits(), telling.limits(), "{name}");
        assert_eq!(filtered.identity(), telling.identity(), "{name}");
        assert_eq!(filtered.changes(), telling.changes(), "{name}");
        assert_eq!(filtered.path(), telling.path(), "{name}");
        assert_eq!(filtered.last_error(), telling.last_error(), "{name}");
        filtered.listen(Waker::noop().clone());
        filtered.rescan().unwrap();
        assert_eq!(*asked.lock().unwrap(), ["listen", "rescan"], "{name}");
    }
}

#[test]
fn a_delayed_request_completes_when_its_time_has_come_and_not_before() {
    let mut queue = Driven::new(&Delay::new(ram(), MS * 5).on(OperationSet::READ));
    queue.read(at(1), 0);
    queue.submit(at(1), Operation::Flush);
    assert_eq!(queue.poll(at(1)).len(), 1, "a flush is not delayed");
    assert_eq!(queue.0.poll_timeout(), Some(at(6)));
    assert!(queue.poll(at(5)).is_empty());
    assert_eq!(queue.poll(at(6)).len(), 1);
    assert_eq!(queue.0.poll_timeout(), None);
}

#[test]
fn a_delayed_request_is_cancelled_at_once() {
    let mut queue = Driven::new(&Delay::new(ram(), MS * 5));
    let tag = queue.read(at(0), 0);
    queue.0.cancel(tag);
    let done = queue.poll(at(0));
    let ends: Vec<_> = done.iter().map(Completion::error).collect();
    assert_eq!(ends, [Some(VolumeErrorKind::Cancelled)]);
    assert_eq!(queue.0.poll_timeout(), None);
}

#[test]
fn jitter_is_the_same_for_the_same_seed() {
    let deadlines = |seed| {
        let mut queue = Driven::new(&Delay::new(ram(), MS).with_jitter(MS * 100, seed));
        (0..5).map(|block| (queue.read(at(0), block), queue.0.poll_timeout()).1).collect::<Vec<_>>()
    };
    assert_eq!(deadlines(3), deadlines(3));
    assert_ne!(deadlines(3), deadlines(4));
}

#[test]
fn every_nth_request_of_the_chosen_ones_fails() {
    let fail = Fail::new(ram(), FailRate::EveryNth(3), VolumeErrorKind::NoSpace);
    let mut queue = Driven::new(&fail.on(OperationSet::READ).within(Some(Extent::new(8, 8))));
    let failed: Vec<bool> = (0..12)
        .map(|number| {
            queue.submit(at(0), Operation::Flush);
            queue.read(at(0), number % 2 * 8);
            queue.poll(at(0)).iter().any(|done| done.result.is_err())
        })
        .collect();
    let expected: Vec<bool> = (0..12).map(|number| [5, 11].contains(&number)).collect();
    assert_eq!(failed, expected);
}

#[test]
fn a_rate_in_parts_per_million_is_near_what_it_says() {
    let fail = Fail::new(ram(), FailRate::PartsPerMillion(100_000), VolumeErrorKind::Media).with_seed(5);
    let mut queue = Driven::new(&fail);
    let failures = (0..10_000).filter(|_| {
        queue.read(at(0), 0);
        queue.poll(at(0)).iter().any(|done| done.result.is_err())
    });
    let failures = failures.count();
    assert!((900..1100).contains(&failures), "{failures} of 10000 at 10 %");
}

/// Completions in a second of a clock that jumps from deadline to deadline, with `depth` reads always waiting.
fn in_a_second(volume: &dyn Volume, depth: usize) -> usize {
    let mut queue = Driven::new(volume);
    let mut now = at(0);
    let mut done = 0;
    for _ in 0..depth {
        queue.read(now, 0);
    }
    while now < at(1000) {
        let ended = queue.poll(now).len();
        done += ended;
        for _ in 0..ended {
            queue.read(now, 0);
        }
        now = queue.0.poll_timeout().unwrap_or(now + Duration::from_nanos(100));
    }
    done
}

#[test]
fn a_limit_lets_no_more_through_than_its_rate_and_a_burst() {
    let by_count = in_a_second(&Limit::new(ram(), Some(1_000), None), 32);
    assert!((990..=1_020).contains(&by_count), "{by_count}");
    let by_bytes = in_a_second(&Limit::new(ram(), None, Some(512 * 2_000)), 32);
    assert!((1_990..=2_030).contains(&by_bytes), "{by_bytes}");
    let both = in_a_second(&Limit::new(ram(), Some(500), Some(512 * 2_000)), 32);
    assert!((490..=510).contains(&both), "{both}");
}

#[test]
fn a_limit_is_the_volumes_not_the_queues() {
    let limit = Limit::new(ram(), Some(1_000), None);
    let (mut one, mut two) = (Driven::new(&limit), Driven::new(&limit));
    let mut done = 0;
    for ms in 0..1_000 {
        one.read(at(ms), 0);
        two.read(at(ms), 0);
        done += one.poll(at(ms)).len() + two.poll(at(ms)).len();
    }
    assert!((990..=1_020).contains(&done), "{done}");
}

#[test]
fn statistics_are_summed_over_queues_open_and_closed() {
    let stats = Stats::new(Arc::new(Delay::new(ram(), MS * 2).on(OperationSet::READ)));
    let mut closed = Driven::new(&stats);
    closed.read(at(0), 0);
    closed.poll(at(2));
    drop(closed);
    let mut open = Driven::new(&stats);
    open.read(at(0), 0);
    open.read(at(4), 1 << 40);
    open.submit(at(4), Operation::Flush);
    open.poll(at(10));
    let reads = stats.snapshot().of(OperationSet::READ);
    assert_eq!((reads.count, reads.errors, reads.bytes), (3, 1, 1024));
    assert_eq!((reads.min, reads.max, reads.mean()), (MS * 2, MS * 10, MS * 6));
    assert_eq!(stats.snapshot().of(OperationSet::FLUSH).count, 1);
    assert_eq!(stats.snapshot().of(OperationSet::all()).count, 4);
}

#[test]
fn a_protected_volume_says_so_and_reads_on() {
    let protected = ReadOnly::new(ram());
    assert!(protected.features().contains(Features::READ_ONLY | Features::COMPARE));
    assert!(!protected.features().contains(Features::DISCARD));
    let mut queue = Driven::new(&protected);
    queue.submit(at(0), Operation::Discard { extent: Extent::new(0, 1) });
    queue.read(at(0), 0);
    let done = queue.poll(at(0));
    let [read, discard] = &done[..] else { panic!("{done:?}") };
    assert!(read.result.is_ok());
    assert_eq!(discard.error(), Some(VolumeErrorKind::ReadOnly));
}

/// A volume that ends what it is asked for a millisecond later, and keeps requests apart that overlap.
fn slow_and_apart() -> Apart {
    Apart::new(Arc::new(Delay::new(ram(), MS)))
}

fn tags(done: &[Completion]) -> Vec<u64> {
    done.iter().map(|completion| completion.tag.0).collect()
}

fn write(driven: &mut Driven, now: Instant, block: u64) -> Tag {
    let (extent, data) = (Extent::new(block, 1), Buf::zeroed(512).freeze().into());
    driven.submit(now, Operation::Write { extent, data, durability: volume::Durability::Cached })
}

#[test]
fn apart_has_what_overlaps_go_one_after_the_other() {
    let volume = slow_and_apart();
    let mut queue = Driven::new(&volume);
    // Blocks 0 to 7 are one unit of 4 KiB, block 8 is another.
    write(&mut queue, at(0), 0);
    write(&mut queue, at(0), 8);
    write(&mut queue, at(0), 1);
    assert_eq!(tags(&queue.poll(at(1))), [1, 2]);
    assert_eq!(tags(&queue.poll(at(2))), [3], "it was passed on when the first had ended");
    // Reads meet reads, and flushes nothing.
    for block in 0..3 {
        queue.read(at(2), block);
    }
    queue.submit(at(2), Operation::Flush);
    assert_eq!(queue.poll(at(3)).len(), 4);
}

#[test]
fn apart_holds_for_all_queues_and_a_queue_that_goes_lets_others_in() {
    let volume = slow_and_apart();
    let (mut one, mut two) = (Driven::new(&volume), Driven::new(&volume));
    write(&mut one, at(0), 0);
    two.read(at(0), 7);
    two.read(at(0), 100);
    assert!(two.poll(at(1)).is_empty(), "in order");
    drop(one);
    assert!(two.poll(at(2)).is_empty());
    assert_eq!(tags(&two.poll(at(3))), [1, 2]);
}

#[test]
fn apart_lets_what_waits_be_cancelled() {
    let volume = slow_and_apart();
    let (mut one, mut two) = (Driven::new(&volume), Driven::new(&volume));
    write(&mut one, at(0), 0);
    let waits = write(&mut two, at(0), 0);
    let other = write(&mut two, at(0), 50);
    two.0.cancel(waits);
    let done = two.poll(at(0));
    assert_eq!(tags(&done), [waits.0]);
    assert_eq!(done[0].result.as_ref().unwrap_err().kind, VolumeErrorKind::Cancelled);
    assert_eq!(tags(&two.poll(at(1))), [other.0]);
    assert_eq!(one.poll(at(1)).len(), 1);
}
