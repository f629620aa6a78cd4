//! One I/O over and over to a mirror of three null volumes that is in sync, for an instruction counter to look at: what is left is the mirror's own.
//!
//! No system call is made per I/O and the clock stands, so that the count depends on the program alone. `scripts/instructions.py` runs this under valgrind with two
//! counts and takes the difference.
//!
//! ```text
//! cargo run --release -p mirror --example three_legs -- read 4096 1000
//! ```
#![expect(clippy::print_stdout, reason = "a benchmark's result goes there")]

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::{BufList, Pool, SharedBuf};
use mirror::{Background, MirrorOpener};
use names::{Source, VolumeUrl};
use protocol::{Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, Null, OpenError, Opener, Openers, Operation, PathState,
    PreparedOpen, QueueContext, Ready, Request, Tag, Volume, VolumeQueue,
};

/// Requests under way at a time: a full queue of the usual depth.
const DEPTH: u64 = 32;
const BLOCK: u64 = 512;
const LEG: u64 = 16 << 20;

/// Which I/O, and how many of them.
struct Plan {
    write: bool,
    blocks: u64,
    count: u64,
}

impl Plan {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let write = match words.next()?.as_str() {
            "read" => false,
            "write" => true,
            _ => return None,
        };
        let bytes = words.next()?.parse::<u64>().ok()?;
        let fits = bytes > 0 && bytes.is_multiple_of(BLOCK);
        fits.then_some(Self { write, blocks: bytes / BLOCK, count: words.next()?.parse().ok()? })
    }
}

/// Opens null volumes.
struct Nulls;

impl Opener for Nulls {
    fn schemes(&self) -> &'static [&'static str] {
        &["null"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        match &url.source {
            Source::Null(_) => Ok(Box::new(Ready::new(Arc::new(Null::new(LEG, 512)?)))),
            _ => Err(OpenError::new("it is no null volume")),
        }
    }
}

/// Nothing is opened again here.
struct Nowhere;

impl Background for Nowhere {
    fn run(&self, _work: Box<dyn FnOnce() + Send>) {}
}

fn main() -> Result<(), OpenError> {
    let Some(plan) = Plan::parse(std::env::args().skip(1)) else {
        return Err(OpenError::new("usage: three_legs read|write BYTES COUNT, BYTES a multiple of 512"));
    };
    let pool = Pool::new(64 << 20);
    let context = QueueContext::new(CoreId(0), Waker::noop().clone(), pool.clone());
    let mut now = Instant::ZERO;
    let volume = open(&context, &mut now)?;
    let queue = volume.open_queue(&context)?;
    let mut load = Load { queue, pool, now, done: Vec::new() };
    load.wait_for_sync(&*volume)?;
    // All regions are dirty, as under any load.
    load.run(&Plan { write: true, blocks: 1 << 11, count: 64 })?;
    println!("{} I/Os", load.run(&plan)?);
    Ok(())
}

fn open(context: &QueueContext, now: &mut Instant) -> Result<Arc<dyn Volume>, OpenError> {
    let mirrors = MirrorOpener {
        owner: "an example".to_owned(),
        entropy: Arc::new(|| Box::new(SeededEntropy::new(1))),
        background: Arc::new(Nowhere),
    };
    let openers = Openers::new().with(Arc::new(Nulls)).with(Arc::new(mirrors));
    let url =
        "mirror=[null:16M,null:16M,null:16M]".parse().map_err(|error| OpenError::new(format!("{error}")))?;
    let mut opening = openers.prepare(&url)?.begin(context);
    loop {
        if let Some(opened) = opening.poll(*now) {
            return opened;
        }
        *now = *now + Duration::from_millis(1);
    }
}

/// Keeps a queue full until enough is done.
struct Load {
    queue: Box<dyn VolumeQueue>,
    pool: Pool,
    now: Instant,
    done: Vec<Completion>,
}

impl Load {
    fn wait_for_sync(&mut self, volume: &dyn Volume) -> Result<(), OpenError> {
        for _ in 0..100_000 {
            if volume.path() == PathState::Optimized {
                return Ok(());
            }
            self.queue.poll(self.now, &mut self.done);
            self.now = self.now + Duration::from_millis(1);
        }
        Err(OpenError::new("the legs are never in sync"))
    }

    fn run(&mut self, plan: &Plan) -> Result<u64, OpenError> {
        let data = SharedBuf::from(vec![1; ::wire::index(plan.blocks * BLOCK)]);
        let (mut started, mut ended) = (0, 0);
        while ended < plan.count {
            while started < plan.count && started - ended < DEPTH {
                let operation = self.operation(plan, started, &data)?;
                let request = Request { tag: Tag(started), operation };
                if self.queue.submit(self.now, request).is_err() {
                    return Err(OpenError::new("the queue is full"));
                }
                started += 1;
            }
            self.queue.poll(self.now, &mut self.done);
            for completion in self.done.drain(..) {
                completion.outcome().map_err(|kind| OpenError::new(kind.to_string()))?;
                ended += 1;
            }
        }
        Ok(ended)
    }

    fn operation(&self, plan: &Plan, number: u64, data: &SharedBuf) -> Result<Operation, OpenError> {
        // All over the mirror, as a random load is, and without two that overlap.
        let places = (LEG - (2 << 20)) / BLOCK / plan.blocks;
        let extent = Extent::new(number * 7 % places * plan.blocks, plan.blocks);
        if plan.write {
            let data = BufList::from(data.clone());
            return Ok(Operation::Write { extent, data, durability: Durability::Cached });
        }
        let into = self.pool.take(::wire::index(plan.blocks * BLOCK));
        let into = into.ok_or_else(|| OpenError::new("there is no memory"))?;
        Ok(Operation::Read { extent, into })
    }
}
