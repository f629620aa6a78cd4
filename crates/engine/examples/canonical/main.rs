//! One canonical I/O over and over, initiator and target in one thread, for an instruction counter to look at.
//!
//! Everything between a volume and the wire is the product's code: remote volume, initiator, target, engine, null volume; for NFS a file system in memory.
//! The wire is memory, the clock stands, and no system call is made per I/O, so that the count depends on the program alone.
//! `scripts/instructions.py` runs this under valgrind with two counts and takes the difference.
//!
//! ```text
//! cargo run --release -p engine --example canonical -- iscsi read 4096 1000
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark's result goes there")]

mod exports;
mod files;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use buf::{BufList, Pool, SharedBuf};
use engine::remote::{self, ClientContext};
use protocol::{Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, OpenError, Operation, QueueContext, Request, Tag, Volume,
    VolumeQueue,
};

use exports::Protocol;
use wire::World;

/// Requests under way at a time: a full queue of the usual depth.
const DEPTH: u64 = 32;
const BLOCK: u64 = 512;

/// Which I/O, and how many of them.
struct Plan {
    protocol: Protocol,
    write: bool,
    blocks: u64,
    count: u64,
}

impl Plan {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let protocol = Protocol::named(&words.next()?)?;
        let write = match words.next()?.as_str() {
            "read" => false,
            "write" => true,
            _ => return None,
        };
        let blocks =
            words.next()?.parse::<u64>().ok().filter(|bytes| *bytes > 0 && bytes % BLOCK == 0)? / BLOCK;
        Some(Self { protocol, write, blocks, count: words.next()?.parse().ok()? })
    }
}

fn main() -> Result<(), OpenError> {
    let Some(plan) = Plan::parse(std::env::args().skip(1)) else {
        return Err(OpenError::new(
            "usage: canonical iscsi|nvme|iser|nvme+rdma|nfs read|write BYTES COUNT, BYTES a multiple of 512",
        ));
    };
    let mut world = World::new(plan.protocol)?;
    let volume = open(&mut world, plan.protocol)?;
    let queue = volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()))?;
    let pool = Pool::new(::wire::index(plan.blocks * BLOCK * DEPTH * 2));
    let done = Load { world, queue, plan, pool, done: Vec::new() }.run()?;
    println!("{done} I/Os");
    Ok(())
}

fn open(world: &mut World, protocol: Protocol) -> Result<Arc<dyn Volume>, OpenError> {
    // Each connection its own: two sessions of one initiator differ in what they throw.
    let seed = AtomicU64::new(7);
    let context = ClientContext {
        dialer: World::dialer(),
        adapters: Arc::new(host::NoAdapters),
        waker: Waker::noop().clone(),
        entropy: Arc::new(move || Box::new(SeededEntropy::new(seed.fetch_add(1, Ordering::Relaxed)))),
    };
    let mut opening = remote::open(exports::address(), protocol.access()?, &context);
    while world.run()? {
        if let Some(result) = opening.poll() {
            return result;
        }
    }
    opening.poll().unwrap_or_else(|| Err(OpenError::new("the volume does not open, and nothing moves")))
}

/// Keeps a queue full until enough is done.
struct Load {
    world: World,
    queue: Box<dyn VolumeQueue>,
    plan: Plan,
    /// Memory for reads.
    pool: Pool,
    done: Vec<Completion>,
}

impl Load {
    fn run(mut self) -> Result<u64, OpenError> {
        let bytes = ::wire::index(self.plan.blocks * BLOCK);
        let data = SharedBuf::from(vec![1; bytes]);
        let (mut started, mut ended) = (0, 0);
        while ended < self.plan.count {
            while started < self.plan.count && started - ended < DEPTH {
                let operation = self.operation(started, &data)?;
                let request = Request { tag: Tag(started % DEPTH), operation };
                if self.queue.submit(Instant::ZERO, request).is_err() {
                    return Err(OpenError::new("the queue is full"));
                }
                started += 1;
            }
            let moved = self.world.run()?;
            let reaped = self.reap()?;
            if !moved && reaped == 0 {
                return Err(OpenError::new(format!("nothing moves any more after {ended} I/Os")));
            }
            ended += reaped;
        }
        Ok(ended)
    }

    fn operation(&self, number: u64, data: &SharedBuf) -> Result<Operation, OpenError> {
        let extent = Extent::new(number % DEPTH * self.plan.blocks, self.plan.blocks);
        if self.plan.write {
            let data = BufList::from(data.clone());
            return Ok(Operation::Write { extent, data, durability: Durability::Cached });
        }
        let into = self.pool.take(data.len()).ok_or_else(|| OpenError::new("reads keep their memory"))?;
        Ok(Operation::Read { extent, into })
    }

    fn reap(&mut self) -> Result<u64, OpenError> {
        self.queue.poll(Instant::ZERO, &mut self.done);
        let mut ended = 0;
        for completion in self.done.drain(..) {
            ended += 1;
            completion.result.map_err(|kind| OpenError::new(format!("an I/O failed: {kind}")))?;
        }
        Ok(ended)
    }
}
