//! Volumes by name that a test can cut, slow down and look into, and mirrors of them.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, Pool};
use mirror::{Background, MirrorOpener};
use names::{Source, VolumeUrl};
use protocol::{Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, Features, Geometry, Limits, OpenError, Opened, Opener, Openers,
    Operation, Outcome, PreparedOpen, QueueContext, QueueFull, Ram, Ready, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};

pub(crate) const MIB: u64 = 1 << 20;

/// Openings so far: each gets numbers of its own.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// A volume that is away, or hangs, while the test says so.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) ram: Arc<dyn Volume>,
    pub(crate) away: Arc<AtomicBool>,
    pub(crate) hangs: Arc<AtomicBool>,
    /// Blocks that cannot be read until they are written.
    pub(crate) bad: Arc<Mutex<Option<Extent>>>,
}

impl Volume for Leg {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }
    fn limits(&self) -> Limits {
        self.ram.limits()
    }
    fn features(&self) -> Features {
        self.ram.features()
    }
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let inner = self.ram.open_queue(context)?;
        let (away, hangs, bad) = (Arc::clone(&self.away), Arc::clone(&self.hangs), Arc::clone(&self.bad));
        Ok(Box::new(LegQueue {
            inner,
            away,
            hangs,
            bad,
            failed: Vec::new(),
            held: Vec::new(),
            now: Instant::ZERO,
        }))
    }
}

struct LegQueue {
    inner: Box<dyn VolumeQueue>,
    away: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    bad: Arc<Mutex<Option<Extent>>>,
    failed: Vec<Completion>,
    held: Vec<Request>,
    now: Instant,
}

impl VolumeQueue for LegQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.away.load(Ordering::Relaxed) {
            self.failed.push(request.failed(VolumeErrorKind::Unreachable));
            return Ok(());
        }
        if self.hangs.load(Ordering::Relaxed) {
            self.held.push(request);
            return Ok(());
        }
        let mut bad = self.bad.lock().unwrap();
        let touches = |bad: Extent| request.operation.extent().is_some_and(|extent| extent.overlaps(bad));
        if bad.is_some_and(touches) {
            if matches!(request.operation, Operation::Read { .. }) {
                self.failed.push(request.failed(VolumeErrorKind::Media));
                return Ok(());
            }
            if request.operation.writes() {
                *bad = None;
            }
        }
        drop(bad);
        self.inner.submit(now, request)
    }
    fn cancel(&mut self, tag: Tag) {
        self.inner.cancel(tag);
    }
    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.now = now;
        if !self.hangs.load(Ordering::Relaxed) {
            for request in self.held.drain(..) {
                self.inner.submit(now, request).unwrap();
            }
        }
        done.append(&mut self.failed);
        self.inner.poll(now, done);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        let held = (!self.held.is_empty()).then(|| self.now + Duration::from_millis(10));
        held.or(self.inner.poll_timeout())
    }
}

/// Volumes by name: `file:NAME`.
#[derive(Clone, Default)]
pub(crate) struct Shelf(Arc<Mutex<BTreeMap<String, Arc<dyn Volume>>>>);

impl Shelf {
    pub(crate) fn put(&self, name: &str, volume: Arc<dyn Volume>) {
        self.0.lock().unwrap().insert(name.to_owned(), volume);
    }

    pub(crate) fn take(&self, name: &str) {
        self.0.lock().unwrap().remove(name);
    }

    /// A new leg of so many bytes.
    pub(crate) fn leg(&self, name: &str, size: u64) -> Arc<Leg> {
        let ram: Arc<dyn Volume> = Arc::new(Ram::new(size, 512).unwrap());
        let leg = Arc::new(Leg { ram, away: Arc::default(), hangs: Arc::default(), bad: Arc::default() });
        self.put(name, Arc::clone(&leg) as Arc<dyn Volume>);
        leg
    }

    pub(crate) fn openers(&self) -> Openers {
        let mirrors = MirrorOpener {
            owner: "a test".to_owned(),
            entropy: Arc::new(|| Box::new(SeededEntropy::new(OPENINGS.fetch_add(1, Ordering::Relaxed)))),
            background: Arc::new(AtOnce),
        };
        Openers::new().with(Arc::new(self.clone())).with(Arc::new(mirrors))
    }

    /// Opens what the URL names, at this time.
    pub(crate) fn open_at(&self, url: &str, now: Instant) -> Opened {
        let pool = Pool::new(64 << 20);
        let prepared = self.openers().prepare(&url.parse().unwrap())?;
        let mut opening = prepared.begin(&context(&pool));
        let mut now = now;
        for _ in 0..1000 {
            if let Some(opened) = opening.poll(now) {
                return opened;
            }
            now = opening.poll_timeout().unwrap_or(now + Duration::from_millis(1)).max(now);
        }
        panic!("it is never opened");
    }

    pub(crate) fn open(&self, url: &str) -> Opened {
        self.open_at(url, Instant::ZERO)
    }
}

/// Runs everything on the calling thread.
struct AtOnce;

impl Background for AtOnce {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

impl Opener for Shelf {
    fn schemes(&self) -> &'static [&'static str] {
        &["file", "ram"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        match &url.source {
            Source::Ram(ram) => {
                let block = if url.to_string().contains("4096") { 4096 } else { 512 };
                Ok(Box::new(Ready::new(Arc::new(Ram::new(ram.size.0, block)?))))
            }
            Source::File(file) => {
                let found = self.0.lock().unwrap().get(&file.path).cloned();
                found
                    .map(|volume| Box::new(Ready::new(volume)) as Box<dyn PreparedOpen>)
                    .ok_or_else(|| OpenError::new(format!("{} is not there", file.path)))
            }
            _ => Err(OpenError::new("no such volume")),
        }
    }
}

pub(crate) fn context(pool: &Pool) -> QueueContext {
    QueueContext::new(CoreId(0), Waker::noop().clone(), pool.clone())
}

/// A queue, and the time that passes for it.
pub(crate) struct Driven {
    pub(crate) queue: Box<dyn VolumeQueue>,
    pub(crate) now: Instant,
    pub(crate) done: Vec<Completion>,
    last: u64,
}

impl Driven {
    pub(crate) fn new(volume: &dyn Volume, now: Instant) -> Self {
        let queue = volume.open_queue(&context(&Pool::new(64 << 20))).unwrap();
        Self { queue, now, done: Vec::new(), last: 0 }
    }

    pub(crate) fn start(&mut self, operation: Operation) -> Tag {
        self.last += 1;
        let tag = Tag(self.last);
        self.queue.submit(self.now, Request { tag, operation }).unwrap();
        tag
    }

    pub(crate) fn turn(&mut self) {
        self.queue.poll(self.now, &mut self.done);
    }

    /// Polls without letting time pass, and says how the request ended if it has.
    pub(crate) fn ended(&mut self, tag: Tag) -> Option<Completion> {
        (0..50).for_each(|_| self.turn());
        let place = self.done.iter().position(|completion| completion.tag == tag)?;
        Some(self.done.remove(place))
    }

    /// Runs a request, and lets time pass as far as it needs.
    pub(crate) fn run(&mut self, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        let tag = self.start(operation);
        for _ in 0..10_000 {
            if let Some(completion) = self.ended(tag) {
                return completion.outcome();
            }
            self.now =
                self.queue.poll_timeout().unwrap_or(self.now).max(self.now + Duration::from_micros(10));
        }
        panic!("it never ends");
    }

    pub(crate) fn write(&mut self, start: u64, blocks: u64, byte: u8) -> Result<Outcome, VolumeErrorKind> {
        self.run(write(start, blocks, byte))
    }

    pub(crate) fn read(&mut self, start: u64, blocks: u64) -> Result<Vec<u8>, VolumeErrorKind> {
        let into = Buf::zeroed(usize::try_from(blocks * 512).unwrap());
        match self.run(Operation::Read { extent: Extent::new(start, blocks), into })? {
            Outcome::Data(data) => Ok(data.into_one().to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn holds(&mut self, start: u64, blocks: u64, byte: u8) -> bool {
        self.read(start, blocks).unwrap().iter().all(|found| *found == byte)
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.turn();
            self.turn();
            let next = self.queue.poll_timeout().unwrap_or(until).max(self.now + Duration::from_micros(100));
            self.now = next.min(until);
        }
        self.turn();
    }
}

pub(crate) fn write(start: u64, blocks: u64, byte: u8) -> Operation {
    let data = Buf::from(vec![byte; usize::try_from(blocks * 512).unwrap()]).freeze().into();
    Operation::Write { extent: Extent::new(start, blocks), data, durability: Durability::Cached }
}

/// The content of a leg itself.
pub(crate) fn content(leg: &dyn Volume, start: u64, blocks: u64) -> Vec<u8> {
    Driven::new(leg, Instant::ZERO).read(start, blocks).unwrap()
}
