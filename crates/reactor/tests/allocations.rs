//! The steady state allocates nothing: counted over ten stretches of a thousand echoes, and as many reads of a file, on
//! both drivers.
//!
//! A pool or a list grows when a busy machine lets more come together than before, however long it ran; what an
//! operation allocates is in every stretch. So the least of the stretches counts, and it must be nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/counting_allocator.rs"]
mod counting_allocator;
mod toy;

use std::cell::RefCell;
use std::rc::Rc;

use buf::Pool;
use host::{BlockDone, BlockOperation, BlockQueue, BlockRequest, OpenOptions, Service, Storage};
use protocol::Instant;
use reactor::{Cluster, Config, Driver, Files};
use toy::{Server, Workload, call};

/// Operations that come before counting begins, so that most has grown to its size.
const WARM: usize = 4000;
/// Operations of one stretch.
const STRETCH: usize = 1000;
const STRETCHES: usize = 10;
const TOTAL: usize = WARM + STRETCH * STRETCHES;

/// Allocations at the beginning of each stretch, and at the end of the last.
struct Marks(Vec<u64>);

impl Marks {
    /// With all its memory, which is none of an operation's.
    fn new() -> Self {
        Self(Vec::with_capacity(STRETCHES + 1))
    }

    /// Tells that `done` operations have ended.
    fn note(&mut self, done: usize) {
        if done >= WARM && (done - WARM).is_multiple_of(STRETCH) {
            self.0.push(counting_allocator::count());
        }
    }

    /// Allocations of the stretch that had the fewest.
    fn least(&self) -> u64 {
        assert_eq!(self.0.len(), STRETCHES + 1, "each stretch begins and ends once");
        self.0.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap()
    }
}

/// Allocations of both ends in the quietest stretch of echoes.
fn echoes(driver: Driver, size: usize, window: usize) -> u64 {
    let server = Server::start(driver, 1, 64 << 20);
    let workload = Workload::new(&[size], TOTAL, window);
    let marks = Rc::new(RefCell::new(Marks::new()));
    let seen = Rc::clone(&marks);
    *workload.progress.borrow_mut() = Box::new(move |done| seen.borrow_mut().note(done));
    call(driver, server.address, std::slice::from_ref(&workload), false);
    assert_eq!(workload.done.get(), TOTAL);
    server.stop();
    marks.borrow().least()
}

/// Reads a file over and over, eight operations at a time.
struct Reader {
    queue: Box<dyn BlockQueue>,
    pool: Pool,
    done: Vec<BlockDone>,
    open: usize,
    total: usize,
    marks: Marks,
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
            self.marks.note(self.total);
        }
        while self.open < 8 && self.total + self.open < TOTAL {
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
        self.total == TOTAL
    }
}

fn reads(driver: Driver) -> u64 {
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
        marks: Marks::new(),
    });
    reader.unwrap().marks.least()
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn the_steady_state_allocates_nothing_per_operation() {
    for driver in [Driver::Uring, Driver::Epoll] {
        for (size, window) in [(40, 1), (512, 32), (4096, 32), (131_072, 8)] {
            let count = echoes(driver, size, window);
            assert_eq!(count, 0, "{driver:?}, {size} bytes, {window} at a time: allocations in a thousand");
        }
        let count = reads(driver);
        assert_eq!(count, 0, "{driver:?}, reads of a file: allocations in a thousand");
    }
}
