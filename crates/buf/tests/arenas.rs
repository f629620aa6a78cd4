//! Pools as whoever registers their memory sees them: arenas that come and go, and buffers that say where in them they are.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use buf::{
    ARENA_SLACK, Account, ArenaId, ArenaObserver, ArenaSpan, ArenaWatch, Buf, Foreign, Heap, LARGEST,
    MemorySource, Pool, SharedBuf,
};

/// Numbers by seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((word ^ word >> 27) % bound as u64).unwrap()
    }

    /// Lengths of every class, small ones more often.
    fn len(&mut self) -> usize {
        let most = 512 << self.below(15).min(self.below(15));
        1 + self.below(most)
    }
}

/// The heap, which knows how much of it is out, and can be told to give no more.
#[derive(Default)]
struct Counted {
    out: Arc<AtomicUsize>,
    given: AtomicUsize,
    refuses: AtomicBool,
}

struct CountedMemory {
    memory: Box<dyn Foreign>,
    len: usize,
    out: Arc<AtomicUsize>,
}

impl MemorySource for Counted {
    fn obtain(&self, len: usize) -> Option<Box<dyn Foreign>> {
        if self.refuses.load(Ordering::Relaxed) {
            return None;
        }
        let memory = Heap.obtain(len)?;
        self.out.fetch_add(len, Ordering::Relaxed);
        self.given.fetch_add(1, Ordering::Relaxed);
        Some(Box::new(CountedMemory { memory, len, out: Arc::clone(&self.out) }))
    }
}

impl Counted {
    fn out(&self) -> usize {
        self.out.load(Ordering::Relaxed)
    }
}

impl Foreign for CountedMemory {
    fn memory(&mut self) -> &mut [u8] {
        self.memory.memory()
    }
}

impl Drop for CountedMemory {
    fn drop(&mut self) {
        self.out.fetch_sub(self.len, Ordering::Relaxed);
    }
}

fn counted(limit: usize) -> (Arc<Counted>, Pool) {
    let source = Arc::new(Counted::default());
    (Arc::clone(&source), Pool::with_source(limit, source))
}

/// A device that knows memory by what was registered with it, once for each arena.
#[derive(Default)]
struct Device {
    regions: RefCell<BTreeMap<ArenaId, ArenaSpan>>,
    registered: RefCell<Vec<ArenaId>>,
}

impl ArenaObserver for Device {
    fn added(&self, arena: ArenaSpan) {
        assert!(!self.registered.borrow().contains(&arena.id), "{arena:?} is registered twice");
        self.registered.borrow_mut().push(arena.id);
        self.regions.borrow_mut().insert(arena.id, arena);
    }

    fn removed(&self, arena: ArenaSpan) {
        assert_eq!(self.regions.borrow_mut().remove(&arena.id), Some(arena), "it was registered so");
    }
}

impl Device {
    /// Sends bytes by their place in a region, as a device does, and says what it has found there.
    fn send(&self, bytes: &SharedBuf) -> u8 {
        let place = bytes.location().expect("memory of a pool");
        let regions = self.regions.borrow();
        let region = regions.get(&place.arena).expect("a registered region");
        assert!(place.offset + bytes.len() <= region.len, "{place:?} of {} bytes", region.len);
        assert_eq!(region.base.as_ptr().addr() + place.offset, bytes.as_ptr().addr());
        bytes.first().copied().unwrap_or_default()
    }
}

fn watched(pool: &Pool, device: &Rc<Device>) -> ArenaWatch {
    let observer: Rc<dyn ArenaObserver> = Rc::<Device>::clone(device);
    pool.watch_arenas(&observer)
}

/// A buffer that is out, filled with what only it holds.
struct Out {
    bytes: SharedBuf,
    whole: usize,
    mark: u8,
}

impl Out {
    fn new(mut buf: Buf, mark: u8) -> Self {
        let whole = buf.capacity();
        buf.fill(mark);
        Self { bytes: buf.freeze(), whole, mark }
    }

    /// Nobody has written it since.
    fn check(&self) {
        assert!(self.bytes.iter().all(|byte| *byte == self.mark), "another buffer lies over this one");
    }
}

/// No two lie over each other, by their locations.
fn assert_apart(out: &[Out]) {
    let mut places: Vec<_> = out
        .iter()
        .map(|out| {
            let place = out.bytes.location().unwrap();
            (place.arena, place.offset, out.whole)
        })
        .collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        let [(arena, offset, len), (next_arena, next, _)] = pair else { continue };
        assert!(arena != next_arena || offset + len <= *next, "{pair:?}");
    }
}

/// Buffers come and go at random, on three threads, with a device that is told of every arena; in the end everything is back with its source.
#[test]
fn buffers_lie_apart_in_registered_arenas_and_everything_goes_back() {
    for seed in 0..12 {
        let mut numbers = Numbers(seed);
        let (source, pool) = counted((4 << 20) << numbers.below(4));
        let device = Rc::new(Device::default());
        let watch = watched(&pool, &device);
        let mut out: Vec<Out> = Vec::new();
        std::thread::scope(|scope| {
            let elsewhere = [(); 2].map(|()| {
                let (give, taken) = mpsc::channel::<Out>();
                scope.spawn(move || taken.into_iter().for_each(|out| out.check()));
                give
            });
            for step in 0..3_000 {
                if numbers.below(5) < 3 {
                    let mark = u8::try_from(step % 251).unwrap();
                    out.extend(pool.take(numbers.len()).map(|buf| Out::new(buf, mark)));
                } else if !out.is_empty() {
                    let ended = out.swap_remove(numbers.below(out.len()));
                    assert_eq!(device.send(&ended.bytes), ended.mark, "seed {seed}");
                    match numbers.below(3) {
                        0 => ended.check(),
                        thread => elsewhere[thread - 1].send(ended).unwrap(),
                    }
                }
                if step % 100 == 0 {
                    assert_apart(&out);
                    let spans: Vec<_> = pool.arenas();
                    let lens = spans.iter().map(|span| span.len).sum::<usize>();
                    assert!(lens <= pool.usage().limit + ARENA_SLACK && pool.usage().allocated <= lens);
                    assert_eq!(spans, device.regions.borrow().values().copied().collect::<Vec<_>>());
                    assert_eq!(lens, source.out());
                }
            }
        });
        drop(watch);
        // Half of the time the pool ends first.
        if seed % 2 == 0 {
            drop(pool);
            assert!(out.is_empty() || source.out() > 0, "blocks that are out keep their arenas");
            out.iter().for_each(Out::check);
            drop(out);
        } else {
            drop((out, pool));
        }
        assert_eq!(source.out(), 0, "seed {seed}");
    }
}

#[test]
fn a_device_registers_each_arena_once_and_hears_of_those_that_go() {
    let (source, pool) = counted(16 << 20);
    let early = pool.take(4096).unwrap();
    let device = Rc::new(Device::default());
    let watch = watched(&pool, &device);
    assert_eq!(device.regions.borrow().len(), 1, "what was there before");
    assert_eq!(device.send(&early.freeze()), 0);
    for round in 0..50 {
        let held: Vec<_> = (0..8).map(|_| pool.take(1 << 20).unwrap().freeze()).collect();
        for buf in &held {
            assert_eq!(device.send(buf), 0, "round {round}");
        }
    }
    assert_eq!(device.registered.borrow().len(), 5, "in the steady state nothing is registered");
    // The largest find room only where those have been.
    let large = pool.take(LARGEST).unwrap().freeze();
    assert_eq!(device.send(&large), 0);
    assert!(source.out() <= 16 << 20, "{} bytes", source.out());
    assert_eq!(device.regions.borrow().values().map(|span| span.len).sum::<usize>(), source.out());
    assert!(device.regions.borrow().len() < device.registered.borrow().len(), "some have gone");
    drop(watch);
    let heard = device.registered.borrow().len();
    drop((pool.take(LARGEST), pool.take(1 << 20)));
    assert_eq!(device.registered.borrow().len(), heard, "it watches no longer");
}

#[test]
fn an_arena_stays_while_one_of_its_blocks_is_out() {
    let (source, pool) = counted(8 << 20);
    let mut small: Vec<_> = (0..128).map(|_| pool.take(64 << 10).unwrap().freeze()).collect();
    let last = small.pop().unwrap();
    let kept = last.slice(100..);
    drop((small, last));
    assert!(pool.take(LARGEST).is_none(), "beside what is out");
    let before = source.out();
    let _large = pool.take(4 << 20).unwrap();
    assert!(source.out() <= 8 << 20 && source.out() < before + (4 << 20), "{} bytes", source.out());
    let arena = kept.location().unwrap().arena;
    let span = pool.arenas().into_iter().find(|span| span.id == arena).expect("its arena is there");
    let offset = kept.as_ptr().addr() - span.base.as_ptr().addr();
    assert_eq!(kept.location().unwrap().offset, offset);
    drop(pool);
    assert!(source.out() >= span.len && kept.iter().all(|byte| *byte == 0));
    drop(kept);
    assert_eq!(source.out(), 4 << 20, "the large buffer's");
}

/// Small blocks that stay out, one in each arena, while what is charged and large buffers want all of the limit.
#[test]
fn what_is_free_in_arenas_never_exceeds_the_limit_by_more_than_the_slack() {
    let limit = 32 << 20;
    let (source, pool) = counted(limit);
    let mut account = Account::new(&pool);
    let mut all: Vec<_> = (0..limit / 4096 / 8 * 7).map(|_| account.take(4096).unwrap()).collect();
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at % 512 == 0
    });
    assert!(account.held() < limit / 64);
    let mut charged = 0;
    while account.charge(1 << 20) {
        charged += 1 << 20;
        assert!(source.out() + charged <= limit + ARENA_SLACK, "{} and {charged}", source.out());
    }
    assert!(charged >= ARENA_SLACK, "{charged}: what may exceed it is used");
    account.count(1 << 20);
    assert!(account.take(2 << 20).is_none() && account.take(1 << 20).is_some());
    drop(all);
    account.stop_waiting();
    assert!(account.charge(1 << 20), "empty arenas have gone");
    assert!(source.out() + charged <= limit + ARENA_SLACK);
}

/// One small block in each arena keeps out what is large, and others would take whatever comes back: it comes first.
#[test]
fn what_finds_no_room_in_one_piece_is_first_in_line() {
    let limit = 64 << 20;
    let (source, pool) = counted(limit);
    let mut holder = Account::new(&pool);
    let mut all: Vec<_> = (0..limit / 4096 / 8 * 7).map(|_| holder.take(4096).unwrap()).collect();
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        at % 256 == 0
    });
    let (mut large, mut other) = (Account::new(&pool), Account::new(&pool));
    let mut held = Vec::new();
    while let Some(buf) = large.take(LARGEST) {
        held.push(buf);
    }
    assert_eq!(large.held(), 2 * LARGEST, "the limit would have allowed more");
    assert!(source.out() <= limit + ARENA_SLACK);
    let mut small = Vec::new();
    while let Some(buf) = other.take(512 << 10) {
        small.push(buf);
    }
    assert!(other.held() < 2 << 20, "{} bytes: whoever is above its floor waits", other.held());
    let chances = pool.chances();
    drop(all);
    assert_ne!(pool.chances(), chances, "it is told to look again");
    held.push(large.take(LARGEST).expect("arenas that are empty have made room"));
    assert!(other.take(4 << 20).is_some(), "and nobody is in line any more");
}

#[test]
fn a_source_that_has_none_makes_a_pool_refuse_until_it_has_some() {
    let (source, pool) = counted(64 << 20);
    let mut account = Account::new(&pool);
    source.refuses.store(true, Ordering::Relaxed);
    assert!(account.take(4096).is_none());
    assert_eq!((pool.usage().allocated, pool.used()), (0, 0));
    source.refuses.store(false, Ordering::Relaxed);
    let first = account.take(4096).unwrap();
    source.refuses.store(true, Ordering::Relaxed);
    // What the one arena has left is used, also for what would have an arena of another kind.
    let other = account.take(128 << 10).unwrap();
    assert_eq!(first.location().unwrap().arena, other.location().unwrap().arena);
    assert!(account.take(LARGEST).is_none());
    let chances = pool.chances();
    drop(other);
    assert_ne!(pool.chances(), chances, "whoever was refused is to look again");
    assert!(!account.is_wanted(), "nobody is kept waiting for what the source does not have");
    source.refuses.store(false, Ordering::Relaxed);
    assert!(account.take(LARGEST).is_some());
}

#[test]
fn an_idle_pool_has_little_and_nothing_before_it_is_used() {
    let (source, pool) = counted(64 << 20);
    assert_eq!(source.out(), 0);
    drop(pool.take(4096));
    assert_eq!((source.out(), source.given.load(Ordering::Relaxed)), (256 << 10, 1));
}

#[test]
fn memory_of_no_pool_has_no_location_and_lent_memory_has_its_own() {
    let pool = Pool::new(1 << 20);
    assert_eq!(Buf::zeroed(4096).location(), None);
    assert_eq!(SharedBuf::from_static(b"static").location(), None);
    assert_eq!(SharedBuf::common(vec![0; 8]).location(), None);
    let page = Buf::zeroed(8192).freeze();
    let keeper = pool.take(4096).unwrap();
    assert!(keeper.location().is_some());
    assert_eq!(keeper.lend(page.slice(100..), None).location(), None, "it is a foreign page's");
    let page = pool.take(8192).unwrap().freeze();
    let lent = pool.take(512).unwrap().lend(page.slice(512..1024), None).slice(8..);
    let (place, start) = (lent.location().unwrap(), page.location().unwrap());
    assert_eq!((place.arena, place.offset), (start.arena, start.offset + 520));
}

#[test]
#[should_panic(expected = "changed its thread")]
fn a_pool_that_is_watched_stays_on_its_thread() {
    let pool = Pool::new(1 << 20);
    let _watch = watched(&pool, &Rc::default());
    let _pool = pool.clone().adopt();
}
