//! A volume that is made of others, with nothing but what the contract offers: a mirror, opened by URL, that loses and regains legs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod mirror;
#[path = "mirror/mortal.rs"]
mod mortal;
#[path = "mirror/opener.rs"]
mod opener;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, Pool};
use mirror::Mirror;
use mortal::Mortal;
use names::{Source, VolumeUrl};
use opener::MirrorOpener;
use protocol::Instant;
use volume::contract::{self, FakeWorld, Options, World};
use volume::filter::{Fail, FailRate, OperationSet};
use volume::{
    Completion, CoreId, Durability, Extent, OpenError, OpenStage, Opener, Openers, Operation, Outcome,
    PathState, PreparedOpen, QueueContext, Ram, Ready, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

const SIZE: u64 = 1 << 20;
const POOL: usize = 1 << 20;

fn fake() -> Box<dyn World> {
    Box::new(FakeWorld::new())
}

fn ram() -> Arc<dyn Volume> {
    Arc::new(Ram::new(SIZE, 512).unwrap())
}

/// Opens `ram:`.
struct RamOpener;

impl Opener for RamOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["ram"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Ram(ram) = &url.source else { return Err(OpenError::new("no memory")) };
        Ok(Box::new(Ready::new(Arc::new(Ram::new(ram.size.0, 512)?))))
    }
}

fn context(pool: &Pool) -> QueueContext {
    QueueContext::new(CoreId(0), Waker::noop().clone(), pool.clone())
}

fn open(url: &str) -> Result<Arc<dyn Volume>, OpenError> {
    let openers = Openers::new().with(Arc::new(RamOpener)).with(Arc::new(MirrorOpener));
    let prepared = openers.prepare(&url.parse().unwrap())?;
    prepared.begin(&context(&Pool::new(POOL))).poll(Instant::ZERO).unwrap()
}

fn assert_keeps(volume: &Arc<dyn Volume>) {
    if let Err(violation) = contract::check(volume, &Options::default(), &fake) {
        panic!("it breaks {violation}");
    }
}

#[test]
fn a_mirror_keeps_the_contract() {
    let mirror: Arc<dyn Volume> = Arc::new(Mirror::new(vec![ram(), ram()]));
    assert_keeps(&mirror);
}

#[test]
fn a_mirror_of_mirrors_by_url_keeps_the_contract_though_a_leg_fails_now_and_then() {
    assert_keeps(&open("mirror=[ram:1M,mirror=[ram:1M,fail=1/50+ram:1M]]").unwrap());
}

#[test]
fn an_unknown_kind_is_named_with_those_that_are_known() {
    let error = open("mirror=[ram:1M,stripe=[ram:1M]]").unwrap_err();
    assert_eq!(error.stage(), OpenStage::Scheme);
    assert_eq!(error.to_string(), "there is no stripe volume in this program, which knows ram, mirror");
}

struct Driven {
    queue: Box<dyn VolumeQueue>,
    now: Instant,
}

impl Driven {
    fn run(&mut self, operation: Operation) -> Completion {
        assert!(self.queue.submit(self.now, Request { tag: Tag(1), operation }).is_ok());
        let mut done = Vec::new();
        (0..100).for_each(|_| self.queue.poll(self.now, &mut done));
        done.pop().unwrap()
    }

    /// Lets time pass, with nothing asked for.
    fn idle(&mut self) {
        let mut done = Vec::new();
        for _ in 0..1000 {
            self.now = self.now + Duration::from_millis(1);
            self.queue.poll(self.now, &mut done);
        }
        assert!(done.is_empty());
    }
}

fn write(start: u64, byte: u8) -> Operation {
    let data = Buf::from(vec![byte; 512]).freeze().into();
    Operation::Write { extent: Extent::new(start, 1), data, durability: Durability::Cached }
}

#[test]
fn a_leg_that_was_away_is_copied_while_nobody_asks_and_out_of_the_contexts_pool() {
    let (first, second, away) = (ram(), ram(), Arc::new(AtomicBool::new(false)));
    let mortal = Mortal { inner: Arc::clone(&second), away: Arc::clone(&away) };
    let mirror = Mirror::new(vec![Arc::clone(&first), Arc::new(mortal)]);
    let pool = Pool::new(256 << 10);
    let mut driven = Driven { queue: mirror.open_queue(&context(&pool)).unwrap(), now: Instant::ZERO };
    driven.run(write(7, 1)).result.unwrap();
    away.store(true, Ordering::Relaxed);
    driven.run(write(7, 2)).result.unwrap();
    driven.run(write(2047, 3)).result.unwrap();
    assert_eq!(mirror.path(), PathState::Degraded { missing: 1 });
    driven.idle();
    let moved = mirror.changes().path;
    assert_eq!((mirror.path(), moved), (PathState::Degraded { missing: 1 }, 1), "it is still away");
    away.store(false, Ordering::Relaxed);
    driven.idle();
    assert_eq!((mirror.path(), mirror.changes().path), (PathState::Optimized, 2));
    assert_eq!(pool.used(), 0);
    let mut copy = Driven { queue: second.open_queue(&context(&pool)).unwrap(), now: Instant::ZERO };
    for (start, byte) in [(7, 2), (2047, 3)] {
        let operation = Operation::Read { extent: Extent::new(start, 1), into: Buf::zeroed(512) };
        let Ok(Outcome::Data(data)) = copy.run(operation).result else { panic!("no data") };
        assert!(data.into_one().iter().all(|found| *found == byte), "block {start}");
    }
}

#[test]
fn a_read_that_fails_on_one_leg_is_read_into_the_same_memory_from_the_other() {
    let fails = Fail::new(ram(), FailRate::EveryNth(1), VolumeErrorKind::Media).on(OperationSet::READ);
    let mirror = Mirror::new(vec![Arc::new(fails), ram()]);
    let mut driven =
        Driven { queue: mirror.open_queue(&context(&Pool::new(4096))).unwrap(), now: Instant::ZERO };
    driven.run(write(3, 9)).result.unwrap();
    let into = Buf::zeroed(512);
    let place = into.as_ptr();
    let read = driven.run(Operation::Read { extent: Extent::new(3, 1), into });
    let Ok(Outcome::Data(data)) = read.result else { panic!("no data") };
    let data = data.into_one();
    assert!(data.iter().all(|byte| *byte == 9));
    assert_eq!(data.as_ptr(), place, "the same buffer");
}
