//! A cache from its first opening to its last: what hits, what is found again, and what is said when a volume is lost, foreign or damaged.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, Pool};
use cache::CacheOpener;
use names::{Source, VolumeUrl};
use protocol::{Instant, SeededEntropy};
use volume::{
    CacheState, CacheStatus, Completion, CoreId, Designator, Durability, Extent, Features, Geometry,
    Identity, LeaveMode, Limits, OpenError, Opener, Openers, Operation, Outcome, PathState, PreparedOpen,
    QueueContext, QueueFull, Ram, Ready, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

const BLOCK: usize = 512;

/// Memory that outlives the cache, counts requests, and may be dead.
#[derive(Debug)]
struct Disk {
    ram: Ram,
    name: Option<&'static str>,
    life: Arc<Life>,
}

/// How a disk is.
#[derive(Debug)]
struct Life {
    dead: AtomicBool,
    /// Requests until it dies by itself.
    left: AtomicU64,
    reads: AtomicU64,
}

impl Disk {
    fn new(bytes: u64) -> Arc<Self> {
        Self::called(bytes, None)
    }

    fn named(bytes: u64, name: &'static str) -> Arc<Self> {
        Self::called(bytes, Some(name))
    }

    fn called(bytes: u64, name: Option<&'static str>) -> Arc<Self> {
        let (dead, left, reads) = (AtomicBool::new(false), AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let life = Arc::new(Life { dead, left, reads });
        Arc::new(Self { ram: Ram::new(bytes, 512).unwrap(), name, life })
    }

    fn set_dead(&self, dead: bool) {
        self.life.dead.store(dead, Ordering::Relaxed);
    }

    /// It dies with the request that comes after so many.
    fn die_after(&self, requests: u64) {
        self.life.left.store(requests, Ordering::Relaxed);
    }

    /// Reads that it was asked for.
    fn reads(&self) -> u64 {
        self.life.reads.load(Ordering::Relaxed)
    }
}

impl Volume for Disk {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn limits(&self) -> Limits {
        self.ram.limits()
    }

    fn features(&self) -> Features {
        self.ram.features()
    }

    fn identity(&self) -> Option<Identity> {
        let name = self.name?;
        Some(Identity { designators: vec![Designator::Name(name.to_owned())], ..Identity::default() })
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let (inner, life) = (self.ram.open_queue(context)?, Arc::clone(&self.life));
        Ok(Box::new(DiskQueue { inner, life, failed: Vec::new() }))
    }
}

struct DiskQueue {
    inner: Box<dyn VolumeQueue>,
    life: Arc<Life>,
    failed: Vec<Completion>,
}

impl VolumeQueue for DiskQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        let reads = u64::from(matches!(request.operation, Operation::Read { .. }));
        self.life.reads.fetch_add(reads, Ordering::Relaxed);
        let left = self.life.left.load(Ordering::Relaxed);
        self.life.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 0 || self.life.dead.load(Ordering::Relaxed) {
            self.failed.push(request.failed(VolumeErrorKind::Unreachable));
            return Ok(());
        }
        self.inner.submit(now, request)
    }

    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        self.inner.poll(now, done);
    }
}

/// Opens `ram:` as one of two disks: the one of that size.
struct Disks(Vec<Arc<Disk>>);

impl Opener for Disks {
    fn schemes(&self) -> &'static [&'static str] {
        &["ram"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Ram(ram) = &url.source else { return Err(OpenError::new("no disk")) };
        let disk = self.0.iter().find(|disk| disk.geometry().bytes() == ram.size.0).unwrap();
        Ok(Box::new(Ready::new(Arc::clone(disk) as Arc<dyn Volume>)))
    }
}

/// A cache that is driven by hand.
struct Driven {
    cache: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
    now: Instant,
}

fn context() -> QueueContext {
    QueueContext::new(CoreId(0), Waker::noop().clone(), Pool::new(1 << 20))
}

fn open(fast: &Arc<Disk>, capacity: &Arc<Disk>, options: &str) -> Result<Driven, OpenError> {
    let url = format!(
        "cache=[ram:{},ram:{}]{}{options}",
        fast.geometry().bytes(),
        capacity.geometry().bytes(),
        if options.is_empty() { "" } else { "?" }
    );
    let cache = CacheOpener { entropy: Arc::new(|| Box::new(SeededEntropy::new(5))) };
    let disks = Disks(vec![Arc::clone(fast), Arc::clone(capacity)]);
    let openers = Openers::new().with(Arc::new(disks)).with(Arc::new(cache));
    let mut opening = openers.prepare(&url.parse().unwrap())?.begin(&context());
    let cache = opening.poll(Instant::ZERO).unwrap()?;
    let queue = cache.open_queue(&context())?;
    Ok(Driven { cache, queue, now: Instant::ZERO })
}

impl Driven {
    fn run(&mut self, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        assert!(self.queue.submit(self.now, Request { tag: Tag(1), operation }).is_ok());
        let mut done = Vec::new();
        for _ in 0..1000 {
            self.queue.poll(self.now, &mut done);
            if let Some(completion) = done.pop() {
                return completion.outcome();
            }
        }
        panic!("it never ends");
    }

    fn write(&mut self, start: u64, blocks: u64, byte: u8) -> Result<Outcome, VolumeErrorKind> {
        let data = Buf::from(vec![byte; usize::try_from(blocks).unwrap() * BLOCK]).freeze().into();
        let extent = Extent::new(start, blocks);
        self.run(Operation::Write { extent, data, durability: Durability::Cached })
    }

    fn read(&mut self, start: u64, blocks: u64) -> Result<Vec<u8>, VolumeErrorKind> {
        let into = Buf::zeroed(usize::try_from(blocks).unwrap() * BLOCK);
        match self.run(Operation::Read { extent: Extent::new(start, blocks), into })? {
            Outcome::Data(data) => Ok(data.into_one().to_vec()),
            other => panic!("{other:?}"),
        }
    }

    fn holds(&mut self, start: u64, blocks: u64, byte: u8) -> bool {
        self.read(start, blocks).unwrap().iter().all(|found| *found == byte)
    }

    fn status(&self) -> CacheStatus {
        self.cache.cache().unwrap().status()
    }

    /// Time goes by, and nobody asks for anything.
    fn idle(&mut self) {
        for _ in 0..200 {
            self.now = self.now + Duration::from_millis(20);
            self.queue.poll(self.now, &mut Vec::new());
        }
    }

    fn detach(&mut self) {
        self.leave(LeaveMode::Clean);
    }

    fn leave(&mut self, how: LeaveMode) {
        self.cache.cache().unwrap().leave(how);
        self.idle();
        assert_eq!(self.status().state, CacheState::Detached);
    }
}

const ALWAYS: &str = "admit=always";

#[test]
fn what_was_read_once_is_read_from_the_fast_volume_also_after_it_was_detached() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, ALWAYS).unwrap();
    one.write(1000, 64, 3).unwrap();
    one.write(5000, 8, 4).unwrap();
    assert!(
        one.holds(1000, 64, 3) && one.holds(5000, 8, 4) && one.holds(9000, 8, 0) && one.holds(9000, 8, 0)
    );
    let status = one.status();
    assert_eq!((status.hits, status.misses, status.dirty_bytes), (3, 1, 0));
    one.detach();
    assert_eq!(one.write(0, 1, 1).unwrap_err(), VolumeErrorKind::ShuttingDown);
    assert!(one.holds(1000, 64, 3), "reads go on");
    drop(one);
    let mut two = open(&fast, &capacity, ALWAYS).unwrap();
    assert!(two.status().lines_in_use >= 3);
    assert!(two.holds(1000, 64, 3) && two.holds(5000, 8, 4) && two.holds(9000, 8, 0));
    assert_eq!((two.status().hits, two.status().misses), (3, 0), "{}", two.status());
}

#[test]
fn copies_are_not_believed_after_another_end_as_the_capacity_volume_may_have_been_written() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, ALWAYS).unwrap();
    one.write(1000, 64, 3).unwrap();
    one.detach();
    drop(one);
    // It is opened and read, and then the fast volume is cut off.
    let mut two = open(&fast, &capacity, ALWAYS).unwrap();
    assert!(two.holds(1000, 64, 3));
    fast.set_dead(true);
    two.write(1000, 64, 7).unwrap();
    two.run(Operation::Flush).unwrap();
    assert!(two.holds(1000, 64, 7));
    assert_eq!((two.status().state, two.cache.path()), (CacheState::Off, PathState::Degraded { missing: 1 }));
    assert!(two.cache.last_error().unwrap().contains("nothing is lost"));
    drop(two);
    fast.set_dead(false);
    let mut three = open(&fast, &capacity, ALWAYS).unwrap();
    assert!(three.holds(1000, 64, 7), "the fast volume had 3");
    assert_eq!(three.cache.last_error(), None);
}

#[test]
fn what_is_dirty_is_written_back_while_nobody_asks() {
    let (fast, capacity) = (Disk::new(8 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, "mode=back&dirty=100").unwrap();
    for line in 0..20 {
        one.write(line * 200, 8, 5).unwrap();
    }
    assert_eq!(one.status().dirty_bytes, 20 * 8 * 512);
    let raw = |start| {
        let mut queue = Driven {
            cache: Arc::clone(&capacity) as _,
            queue: capacity.open_queue(&context()).unwrap(),
            now: Instant::ZERO,
        };
        queue.read(start, 8).unwrap()
    };
    assert!(raw(200).iter().all(|byte| *byte == 0));
    one.idle();
    assert_eq!((one.status().dirty_bytes, one.status().written_back), (0, 20 * 8 * 512));
    assert!(raw(200).iter().all(|byte| *byte == 5));
    assert_eq!(one.queue.poll_timeout(), None, "nothing is left to do");
}

#[test]
fn dirty_pages_do_not_cut_up_what_the_capacity_volume_has() {
    let (fast, capacity) = (Disk::new(8 << 20), Disk::new(16 << 20));
    let queue = capacity.open_queue(&context()).unwrap();
    let mut below = Driven { cache: Arc::clone(&capacity) as _, queue, now: Instant::ZERO };
    for place in 0..64 {
        below.write(place * 128, 128, 1).unwrap();
    }
    let mut one = open(&fast, &capacity, "mode=back&dirty=100").unwrap();
    for page in 0..20 {
        one.write(page * 256, 8, 2).unwrap();
    }
    one.write(20_000, 8, 2).unwrap();
    let mut run_at =
        |start| match one.run(Operation::QueryAllocation { extent: Extent::new(start, 32_768 - start) }) {
            Ok(Outcome::Allocation(run)) => (run.extent.start..run.extent.end().unwrap(), run.mapped),
            other => panic!("{other:?}"),
        };
    assert_eq!(run_at(0), (0..8, true), "dirty, which is known without the capacity volume");
    assert_eq!(run_at(8), (8..8192, true), "past nineteen dirty pages");
    assert_eq!(run_at(8192), (8192..20_000, false), "as far as the next dirty page");
    assert_eq!(run_at(20_000), (20_000..20_008, true));
    assert_eq!(run_at(20_008), (20_008..32_768, false));
}

#[test]
fn a_fast_volume_that_dies_with_dirty_data_says_what_is_lost_and_brings_it_back() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, "mode=back&idle=1000s").unwrap();
    one.write(0, 8, 1).unwrap();
    one.write(1000, 4, 2).unwrap();
    one.run(Operation::Flush).unwrap();
    let moved = one.cache.changes().path;
    fast.set_dead(true);
    assert!(one.write(1002, 1, 9).is_err());
    assert_eq!((one.status().state, one.status().dirty_bytes), (CacheState::Lost, 12 * 512));
    assert_eq!(one.cache.changes().path, moved + 1);
    let error = one.cache.last_error().unwrap();
    assert!(error.contains("6144 bytes that were written, at bytes 0-4095, 512000-514047;"), "{error}");
    assert_eq!(one.read(2, 1).unwrap_err(), VolumeErrorKind::Media);
    assert_eq!(one.run(Operation::Flush).unwrap_err(), VolumeErrorKind::Media);
    let discard = Operation::Discard { extent: Extent::new(0, 64) };
    assert_eq!(one.run(discard).unwrap_err(), VolumeErrorKind::Media);
    one.write(3000, 8, 6).unwrap();
    assert!(one.holds(3000, 8, 6), "everything else goes on");
    drop(one);
    fast.set_dead(false);
    let mut two = open(&fast, &capacity, "mode=back").unwrap();
    assert!(two.holds(0, 8, 1) && two.holds(1000, 2, 2) && two.holds(3000, 8, 6));
    assert_eq!(two.status().dirty_bytes, 12 * 512);
}

#[test]
fn what_write_back_left_is_written_back_in_write_through() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, "mode=back&idle=1000s").unwrap();
    one.write(0, 8, 1).unwrap();
    one.run(Operation::Flush).unwrap();
    drop(one);
    let mut two = open(&fast, &capacity, "mode=through").unwrap();
    two.write(2, 1, 9).unwrap();
    assert!(two.holds(2, 1, 9) && two.holds(3, 5, 1));
    two.idle();
    assert_eq!(two.status().dirty_bytes, 0);
    assert!(two.holds(0, 2, 1) && two.holds(2, 1, 9) && two.holds(3, 5, 1));
}

#[test]
fn a_scan_and_a_long_stream_push_nothing_out() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(64 << 20));
    let mut one = open(&fast, &capacity, "bypass=256K").unwrap();
    for _ in 0..3 {
        for line in 0..8 {
            assert!(one.holds(line * 128, 8, 0));
        }
    }
    assert_eq!(one.status().insertions, 8, "with the second touch");
    for start in (0..100_000).step_by(128) {
        one.read(20_000 + start, 128).unwrap();
    }
    assert!(one.status().bypassed > 700, "{}", one.status());
    let before = one.status().hits;
    for line in 0..8 {
        assert!(one.holds(line * 128, 8, 0));
    }
    assert_eq!(one.status().hits, before + 8, "{}", one.status());
}

#[test]
fn a_cache_of_another_volume_and_anything_else_is_refused() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::named(16 << 20, "iqn.2026-11.org.linerate:one"));
    drop(open(&fast, &capacity, "line=16K").unwrap());
    let refused = |fast: &Arc<Disk>, capacity: &Arc<Disk>, options: &str| {
        open(fast, capacity, options).map(|_| ()).unwrap_err().to_string()
    };
    let other = Disk::named(16 << 20, "iqn.2026-11.org.linerate:two");
    let error = refused(&fast, &other, "");
    assert!(
        error.contains("belongs to another capacity volume: to name iqn.2026-11.org.linerate:one"),
        "{error}"
    );
    assert!(refused(&fast, &Disk::new(8 << 20), "").contains("another capacity volume"));
    let error = refused(&fast, &capacity, "line=64K");
    assert!(error.contains("the cache has lines of 16384 bytes: leave line= out"), "{error}");
    drop(open(&fast, &capacity, "").unwrap());
    let foreign = Disk::new(2 << 20);
    let mut raw = Driven {
        cache: Arc::clone(&foreign) as _,
        queue: foreign.open_queue(&context()).unwrap(),
        now: Instant::ZERO,
    };
    raw.write(0, 1, 0xeb).unwrap();
    assert!(refused(&foreign, &capacity, "").contains("something that is no cache"));
}

#[test]
fn damage_to_the_map_is_told_where_it_may_have_had_the_only_copy() {
    for (mode, refused) in [("mode=back", true), ("mode=through", false)] {
        let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
        let mut one = open(&fast, &capacity, mode).unwrap();
        one.write(0, 8, 1).unwrap();
        one.run(Operation::Flush).unwrap();
        drop(one);
        let mut raw = Driven {
            cache: Arc::clone(&fast) as _,
            queue: fast.open_queue(&context()).unwrap(),
            now: Instant::ZERO,
        };
        raw.write(17, 1, 0x55).unwrap();
        match open(&fast, &capacity, mode) {
            Err(error) if refused => {
                let error = error.to_string();
                assert!(
                    error.contains("block 17 of the fast volume") && error.contains("checksum"),
                    "{error}"
                );
            }
            Ok(mut two) if !refused => assert!(two.holds(0, 8, 1)),
            other => panic!("{mode}: {:?}", other.map(|two| two.cache)),
        }
    }
}

#[test]
fn a_cache_that_was_left_in_order_answers_without_the_capacity_volume() {
    for options in ["admit=always", "mode=back&idle=1000s", "mode=back&idle=1000s&leave=dirty"] {
        let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
        let mut one = open(&fast, &capacity, options).unwrap();
        one.write(1000, 64, 3).unwrap();
        one.write(5000, 8, 4).unwrap();
        one.leave(LeaveMode::Configured);
        let dirty = one.status().dirty_bytes;
        assert_eq!(dirty > 0, options.contains("leave=dirty"), "{options}");
        drop(one);
        let reads = capacity.reads();
        let mut two = open(&fast, &capacity, options).unwrap();
        assert!(two.holds(1000, 64, 3) && two.holds(5000, 8, 4));
        assert_eq!((two.status().hits, two.status().misses), (2, 0), "{options}: {}", two.status());
        assert_eq!((capacity.reads(), two.status().dirty_bytes), (reads, dirty), "{options}");
        // What was left dirty can still be written back.
        two.leave(LeaveMode::Clean);
        drop(two);
        let (blank, mut raw) = (Disk::new(1 << 20), Vec::new());
        for (start, blocks) in [(1000, 64), (5000, 8)] {
            raw.push(open(&blank, &capacity, "").unwrap().read(start, blocks).unwrap());
        }
        assert!(raw[0].iter().all(|byte| *byte == 3) && raw[1].iter().all(|byte| *byte == 4), "{options}");
    }
}

#[test]
fn who_hurries_leaves_what_is_dirty_where_it_is() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, "mode=back&idle=1000s").unwrap();
    one.write(1000, 64, 3).unwrap();
    capacity.set_dead(true);
    one.cache.cache().unwrap().leave(LeaveMode::Clean);
    one.idle();
    assert_eq!((one.status().state, one.status().dirty_bytes), (CacheState::Detaching, 64 * 512));
    assert!(one.cache.last_error().unwrap().contains("it tries again, and keeps 32768 bytes"));
    capacity.set_dead(false);
    one.cache.cache().unwrap().leave(LeaveMode::Dirty);
    one.idle();
    assert_eq!((one.status().state, one.status().dirty_bytes), (CacheState::Detached, 64 * 512));
    drop(one);
    assert!(open(&fast, &capacity, "mode=back").unwrap().holds(1000, 64, 3));
}

#[test]
fn a_cache_is_left_with_the_caches_below_it() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let inner = open(&fast, &capacity, "mode=back&idle=1000s").unwrap().cache;
    let outer = |inner: &Arc<dyn Volume>| {
        let opener = CacheOpener { entropy: Arc::new(|| Box::new(SeededEntropy::new(6))) };
        let openers = Openers::new().with(Arc::new(Given(Arc::clone(inner)))).with(Arc::new(opener));
        let url = "cache=[ram:1M,ram:16M]?mode=back&idle=1000s".parse().unwrap();
        let mut opening = openers.prepare(&url).unwrap().begin(&context());
        let cache = opening.poll(Instant::ZERO).unwrap().unwrap();
        Driven { queue: cache.open_queue(&context()).unwrap(), cache, now: Instant::ZERO }
    };
    let mut driven = outer(&inner);
    driven.write(1000, 64, 3).unwrap();
    driven.leave(LeaveMode::Configured);
    let states = [&driven.cache, &inner].map(|cache| cache.cache().unwrap().status());
    assert_eq!(states.map(|status| (status.state, status.dirty_bytes)), [(CacheState::Detached, 0); 2]);
}

/// Opens `ram:16M` as a volume that is given, and others anew.
struct Given(Arc<dyn Volume>);

impl Opener for Given {
    fn schemes(&self) -> &'static [&'static str] {
        &["ram"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Ram(ram) = &url.source else { return Err(OpenError::new("no disk")) };
        let volume = match ram.size.0 {
            size if size == self.0.geometry().bytes() => Arc::clone(&self.0),
            size => Disk::new(size) as Arc<dyn Volume>,
        };
        Ok(Box::new(Ready::new(volume)))
    }
}

#[test]
fn a_fast_volume_that_dies_at_any_request_loses_nothing_in_write_through() {
    let mut ends = 0;
    for requests in 0..60 {
        let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
        let mut one = open(&fast, &capacity, "admit=always&line=4K").unwrap();
        fast.die_after(requests);
        let moved = one.cache.changes().path;
        for round in 1..4 {
            for place in 0..6 {
                one.write(place * 300, 12, round).unwrap();
            }
            one.run(Operation::Discard { extent: Extent::new(300, 12) }).unwrap();
            one.run(Operation::Flush).unwrap();
            for place in 0..6 {
                assert!(one.holds(place * 300, 12, if place == 1 { 0 } else { round }), "after {requests}");
            }
        }
        let state = one.status().state;
        let told = (one.cache.changes().path - moved, one.cache.last_error().is_some());
        ends += u64::from(state == CacheState::Off);
        assert_eq!(told, if state == CacheState::Off { (1, true) } else { (0, false) }, "after {requests}");
    }
    assert!(ends > 30, "it died in {ends} of 60 cases");
}

#[test]
fn a_fast_volume_that_dies_at_any_request_says_exactly_what_is_lost_in_write_back() {
    let mut ends = 0;
    for requests in 0..80 {
        let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
        let mut one = open(&fast, &capacity, "mode=back&line=4K&idle=1000s&dirty=3").unwrap();
        fast.die_after(requests);
        let mut written = std::collections::BTreeMap::new();
        for round in 1..4 {
            for place in 0..6 {
                let start = place * 300;
                let well = one.write(start, 12, round).is_ok();
                for block in start..start + 12 {
                    let possible: &mut Vec<u8> = written.entry(block).or_insert_with(|| vec![0]);
                    if well {
                        possible.clear();
                    }
                    possible.push(round);
                }
            }
            let _maybe = one.run(Operation::Flush);
            one.now = one.now + Duration::from_millis(20);
            one.queue.poll(one.now, &mut Vec::new());
        }
        let mut refused = 0;
        for (block, possible) in &written {
            match one.read(*block, 1) {
                Ok(data) => {
                    assert!(possible.contains(&data[0]), "after {requests}: {block} is {}", data[0]);
                }
                Err(kind) => {
                    assert_eq!(kind, VolumeErrorKind::Media);
                    refused += BLOCK as u64;
                }
            }
        }
        let status = one.status();
        if status.state == CacheState::Lost {
            ends += 1;
            assert_eq!(refused, status.dirty_bytes, "after {requests}");
            let error = one.cache.last_error().unwrap();
            assert!(refused == 0 || error.contains(&format!("it alone has {refused} bytes")), "{error}");
            assert!(one.run(Operation::Flush).is_err());
        } else {
            assert_eq!(refused, 0, "after {requests}");
        }
    }
    assert!(ends > 20, "it died with data in {ends} of 80 cases");
}

#[test]
fn what_is_read_most_is_what_is_kept() {
    let (fast, capacity) = (Disk::new(2 << 20), Disk::new(16 << 20));
    let mut one = open(&fast, &capacity, "line=4K&bypass=0").unwrap();
    let (lines, slots) = (4096_u64, u64::from(one.status().lines));
    // Line n is read as often as 1/n says: what could hit at best is the share of as many as there is room for.
    let weight = |line: u64| (1 << 20) / (line + 1);
    let (all, best) = ((0..lines).map(weight).sum::<u64>(), (0..slots).map(weight).sum::<u64>());
    let sums: Vec<u64> = (0..lines)
        .scan(0, |sum, line| {
            *sum += weight(line);
            Some(*sum)
        })
        .collect();
    let mut dice = SeededEntropy::new(9);
    let mut draw = |from: u64| protocol::Entropy::number(&mut dice) % from;
    for _ in 0..40_000 {
        let wanted = draw(all);
        let rank = sums.partition_point(|sum| *sum <= wanted) as u64;
        // Neighbours in rank are no neighbours on the volume.
        one.read(rank * 1_597 % lines * 8, 8).unwrap();
    }
    let before = one.status();
    for _ in 0..20_000 {
        let wanted = draw(all);
        let rank = sums.partition_point(|sum| *sum <= wanted) as u64;
        one.read(rank * 1_597 % lines * 8, 8).unwrap();
    }
    let hits = one.status().hits - before.hits;
    let possible = 20_000 * best / all;
    assert!(hits * 100 > possible * 80, "{hits} of {possible} that were possible hit: {}", one.status());
}
