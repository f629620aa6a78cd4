//! Disks on the calling thread: for programs that have a loop of their own and want no other thread in it. Only what may block while a
//! volume is opened has one, which ends with that.
//!
//! Load generators drive a core in this way: the thread that asks for completions is the one that fetches them.

use std::io;
use std::sync::Arc;

use ::volume::{CoreId, Leaving, OpenError, Operation, QueueContext, Volume};
use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Refusal, Service, World};
use names::VolumeUrl;
use protocol::Instant;
use reactor::driver::Wait;
use reactor::{Cluster, Running};

use super::ClientConfig;
use super::disk_queue::{DiskQueue, Ended, Work};
use crate::error::Error;
use crate::job::Environment;
use crate::open::Opening;

/// Volumes, and an event loop that its owner turns. It stays on the thread that began it.
///
/// ```
/// use linerate::{ClientConfig, Extent, Inline, Operation, Outcome, Wait};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut inline = Inline::start(&ClientConfig::default())?;
/// let disk = inline.open(&"ram:1M".parse()?)?;
/// let into = linerate::Buf::zeroed(4096);
/// inline.submit(disk, 7, Operation::Read { extent: Extent::new(0, 8), into });
/// let mut done = Vec::new();
/// while done.is_empty() {
///     inline.turn(Wait::Forever)?;
///     inline.take_done(&mut done);
/// }
/// assert_eq!((done[0].disk, done[0].token), (disk, 7));
/// assert!(matches!(&done[0].result, Ok(Outcome::Data(data)) if data.len() == 4096));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Inline {
    running: Running<InlineService>,
}

/// A request that has ended.
#[derive(Debug)]
pub struct InlineDone {
    /// The disk, as [`Inline::open`] numbered it.
    pub disk: usize,
    /// What [`Inline::submit`] was told.
    pub token: u64,
    /// Success, or why not.
    pub result: Ended,
}

impl Inline {
    /// An event loop on the calling thread, which must have no other. Of the configuration, what concerns threads is
    /// passed over, and so is the depth: how many requests are under way is the caller's.
    pub fn start(config: &ClientConfig) -> Result<Self, Error> {
        let cluster: Cluster<()> = Cluster::new(1, config.reactor())?;
        let Some(core) = cluster.into_cores().pop() else {
            return Err(io::Error::other("the event loop has no core").into());
        };
        let memory = config.memory;
        Ok(Self { running: core.begin(|world| InlineService::new(&world, memory))? })
    }

    /// Opens a volume, and says which number it has from then on: the first one 0, the next 1. Waits until it is open;
    /// what else is under way goes on meanwhile.
    pub fn open(&mut self, url: &VolumeUrl) -> Result<usize, Error> {
        let failed = |error| Error::Open { url: url.to_string(), error };
        let service = self.running.service();
        service.opening = Some(Opening::new(url, &service.environment, service.queue_context()));
        loop {
            self.running.turn();
            if let Some(result) = self.running.service().opened.take() {
                let volume = result.map_err(failed)?;
                return self.running.service().attach(volume).map_err(failed);
            }
            self.running.wait(Wait::Forever)?;
        }
    }

    /// The volume of a disk, for its geometry, limits and features; `None` if no disk has that number.
    pub fn volume(&mut self, disk: usize) -> Option<Arc<dyn Volume>> {
        self.running.service().disks.get(disk).map(|queue| Arc::clone(queue.volume()))
    }

    /// Takes a request, which goes out with the next turn. `token` comes back with its end. False if no disk has that
    /// number: the request is then dropped.
    pub fn submit(&mut self, disk: usize, token: u64, operation: Operation) -> bool {
        let queue = self.running.service().disks.get_mut(disk);
        queue.map(|queue| queue.push(Work::Operation(operation), (disk, token))).is_some()
    }

    /// Sends what was submitted, waits until something happens but not beyond `limit`, and takes what has ended. Does not
    /// wait where requests have ended that nobody has taken.
    pub fn turn(&mut self, limit: Wait) -> Result<(), Error> {
        self.running.turn();
        let limit = if self.running.service().done.is_empty() { limit } else { Wait::No };
        self.running.wait(limit)?;
        self.running.turn();
        Ok(())
    }

    /// Moves what has ended to `done`.
    pub fn take_done(&mut self, done: &mut Vec<InlineDone>) {
        let ended = self.running.service().done.drain(..);
        done.extend(ended.map(|((disk, token), result)| InlineDone { disk, token, result }));
    }
}

impl Drop for Inline {
    /// Leaves volumes in order, and takes leave of what is remote.
    fn drop(&mut self) {
        self.running.service().leave();
        while !self.running.turn() && self.running.wait(Wait::Forever).is_ok() {}
    }
}

/// The disks of one loop.
struct InlineService {
    environment: Environment,
    pool: Pool,
    opening: Option<Opening>,
    opened: Option<Result<Arc<dyn Volume>, OpenError>>,
    disks: Vec<DiskQueue<(usize, u64)>>,
    done: Vec<((usize, u64), Ended)>,
    /// What it ends with.
    leaving: Option<Leaving>,
    finished: bool,
}

impl InlineService {
    fn new(world: &World<()>, memory: usize) -> Self {
        Self {
            environment: Environment::from(world),
            pool: Pool::new(memory),
            opening: None,
            opened: None,
            disks: Vec::new(),
            done: Vec::new(),
            leaving: None,
            finished: false,
        }
    }

    /// Begins to end.
    fn leave(&mut self) {
        let volumes: Vec<_> = self.disks.drain(..).map(|queue| Arc::clone(queue.volume())).collect();
        self.leaving = Some(Leaving::begin(volumes, &self.queue_context()));
    }

    fn queue_context(&self) -> QueueContext {
        QueueContext::new(CoreId(0), self.environment.waker.clone(), self.pool.clone())
    }

    fn attach(&mut self, volume: Arc<dyn Volume>) -> Result<usize, OpenError> {
        self.disks.push(DiskQueue::open(volume, &self.queue_context())?);
        Ok(self.disks.len() - 1)
    }
}

impl Service for InlineService {
    type Message = ();

    fn accept(&mut self, _now: Instant, _accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("a client does not serve"))
    }

    fn handle_message(&mut self, _now: Instant, (): ()) {}

    fn turn(&mut self, now: Instant, _ready: &mut Vec<EndpointId>) {
        if let Some(result) = self.opening.as_mut().and_then(|opening| opening.poll(now)) {
            self.opening = None;
            self.opened = Some(result);
        }
        for queue in &mut self.disks {
            queue.pump(now, &self.pool, &mut self.done);
        }
        if self.leaving.as_mut().is_some_and(|leaving| leaving.poll(now)) {
            (self.leaving, self.finished) = (None, true);
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        let disks = self.disks.iter().filter_map(DiskQueue::poll_timeout);
        let leaving = self.leaving.as_ref().and_then(Leaving::poll_timeout);
        disks.chain(self.opening.as_ref().and_then(Opening::poll_timeout)).chain(leaving).min()
    }

    fn expects_work(&self) -> bool {
        self.disks.iter().any(DiskQueue::is_flying)
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
