//! The steady state allocates nothing: counted over ten thousand echoes, and as many reads of a file, on both drivers.
#![allow(unsafe_code, clippy::unwrap_used, reason = "an allocator that counts; tests")]

mod toy;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use buf::Pool;
use host::{BlockDone, BlockOperation, BlockQueue, BlockRequest, OpenOptions, Service, Storage};
use protocol::Instant;
use reactor::{Cluster, Config, Driver, Files};
use toy::{Errand, Server, call};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Echoes that come before counting begins, so that everything has grown to its size.
const WARM: usize = 4000;
const COUNTED: usize = 10_000;

/// Allocations of both ends during the counted echoes.
fn echoes(driver: Driver, size: usize, window: usize) -> usize {
    let server = Server::start(driver, 1, 64 << 20);
    let errand = Errand::new(&[size], WARM + COUNTED, window);
    let counted = Rc::new(Cell::new(0));
    let (seen, before) = (Rc::clone(&counted), Cell::new(0));
    *errand.progress.borrow_mut() = Box::new(move |done| {
        if done == WARM {
            before.set(COUNT.load(Ordering::Relaxed));
        } else if done == WARM + COUNTED {
            seen.set(COUNT.load(Ordering::Relaxed) - before.get());
        }
    });
    call(driver, server.address, std::slice::from_ref(&errand), false);
    assert_eq!(errand.done.get(), WARM + COUNTED);
    server.stop();
    counted.get()
}

/// Reads a file over and over, eight operations at a time.
struct Reader {
    queue: Box<dyn BlockQueue>,
    pool: Pool,
    done: Vec<BlockDone>,
    open: usize,
    total: usize,
    before: usize,
    counted: Option<usize>,
}

impl Service for Reader {
    type Message = u32;
    fn accept(&mut self, _: Instant, _: host::Accepted) -> Result<Box<dyn host::Endpoint>, host::Refusal> {
        Err(host::Refusal("no"))
    }
    fn handle_message(&mut self, _: Instant, _: u32) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<host::EndpointId>) {
        self.queue.poll(&mut self.done);
        for done in self.done.drain(..) {
            assert_eq!(done.result, Ok(()));
            self.open -= 1;
            self.total += 1;
            match self.total {
                WARM => self.before = COUNT.load(Ordering::Relaxed),
                total if total == WARM + COUNTED => {
                    self.counted = Some(COUNT.load(Ordering::Relaxed) - self.before);
                }
                _ => {}
            }
        }
        while self.open < 8 && self.counted.is_none() {
            let operation = BlockOperation::Read { offset: 4096, into: self.pool.take(4096).unwrap() };
            self.queue.submit(BlockRequest { tag: 1, operation }).unwrap();
            self.open += 1;
        }
    }
    fn handle_gone(&mut self, _: Instant, _: host::EndpointId) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.counted.is_some() && self.open == 0
    }
}

fn reads(driver: Driver) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let options = OpenOptions { size: Some(1 << 20), ..OpenOptions::default() };
    let file = Files.open(path.to_str().unwrap(), options).unwrap();
    let cluster = Cluster::<u32>::new(1, Config { driver, ..Config::default() }).unwrap();
    let core = cluster.into_cores().pop().unwrap();
    let reader = core.run(|world| Reader {
        queue: file.open_queue(world.waker.clone()).unwrap(),
        pool: Pool::new(1 << 20),
        done: Vec::new(),
        open: 0,
        total: 0,
        before: 0,
        counted: None,
    });
    reader.unwrap().counted.unwrap()
}

/// Allocations that are none of an operation's: a list that grows when a busy machine lets more come together than before.
const GROWTH: usize = 16;

/// One test, so that nothing else allocates meanwhile.
#[test]
fn the_steady_state_allocates_nothing_per_operation() {
    for driver in [Driver::Uring, Driver::Epoll] {
        for (size, window) in [(40, 1), (512, 32), (4096, 32), (131_072, 8)] {
            let count = echoes(driver, size, window);
            assert!(count <= GROWTH, "{driver:?}, {size} bytes, {window} at a time: {count} allocations");
        }
        let count = reads(driver);
        assert!(count <= GROWTH, "{driver:?}, reads of a file: {count} allocations");
    }
}
