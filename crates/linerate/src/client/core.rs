//! What runs on a client's core: it opens volumes, and pumps the disks' queues.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use ::volume::{CoreId, Leaving, OpenError, QueueContext, UsedVolumes, Volume, VolumeErrorKind};
use buf::Pool;
use host::{Accepted, CoreIndex, Endpoint, EndpointId, Refusal, Service, World};
use protocol::Instant;

use super::answer::Reply;
use super::disk_queue::{DiskQueue, Ended, Work};
use super::permits::Permit;
use crate::open::{Opening, PreparedOpening};

/// For a volume, or why it cannot be opened.
pub(crate) type OpenReply = Reply<Result<Arc<dyn Volume>, OpenError>>;

/// What a core is asked to do.
pub(crate) enum Message {
    /// Open a volume of which everything that may block is done.
    Open {
        /// What is left to do; apart, as requests come by the same way, far more often.
        prepared: Box<PreparedOpening>,
        /// For the volume.
        reply: OpenReply,
    },
    /// Be ready for a disk's requests.
    Attach {
        /// The disk's number.
        disk: u64,
        /// Its volume.
        volume: UsedVolumes,
        /// Once it is so.
        reply: Reply<Result<(), OpenError>>,
    },
    /// Do a request.
    Submit {
        /// The disk's number.
        disk: u64,
        /// What to do.
        work: Work,
        /// Whom to tell.
        callback: Callback,
    },
    /// A disk's last handle is gone.
    Close {
        /// The disk's number.
        disk: u64,
    },
    /// End everything.
    Shutdown,
}

/// Whom a request's end is told to: exactly once, whatever happens to the request.
pub(crate) struct Callback {
    permit: Option<Permit>,
    call: Option<Box<dyn FnOnce(Ended) + Send>>,
}

impl Callback {
    /// Tells `call`; a permit is given back just before.
    pub(crate) fn new(permit: Option<Permit>, call: Box<dyn FnOnce(Ended) + Send>) -> Self {
        Self { permit, call: Some(call) }
    }

    /// Tells how the request ended.
    pub(crate) fn finish(mut self, ended: Ended) {
        self.tell(ended);
    }

    fn tell(&mut self, ended: Ended) {
        if let Some(call) = self.call.take() {
            self.permit = None;
            call(ended);
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.tell(Err(VolumeErrorKind::ShuttingDown));
    }
}

thread_local! {
    /// The client and the core that the thread belongs to, if it does.
    static HERE: Cell<Option<(u64, CoreIndex)>> = const { Cell::new(None) };
    static THREAD: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}

/// The core of a client that the calling thread is, if it is one.
pub(crate) fn core_here(client: u64) -> Option<CoreIndex> {
    HERE.get().filter(|(other, _)| *other == client).map(|(_, core)| core)
}

/// True on a thread that is a core of any client.
pub(crate) fn is_core() -> bool {
    HERE.get().is_some()
}

/// The core that the calling thread's requests go to, of `cores`.
pub(crate) fn core_for(client: u64, cores: CoreIndex) -> CoreIndex {
    let spread = || THREAD.with(|thread| thread % usize::from(cores.max(1)));
    core_here(client).unwrap_or_else(|| CoreIndex::try_from(spread()).unwrap_or(0))
}

/// A core of a client.
pub(crate) struct CoreService {
    core: CoreIndex,
    waker: Waker,
    pool: Pool,
    openings: Vec<(Opening, OpenReply)>,
    disks: HashMap<u64, Attached>,
    ended: Vec<(Callback, Ended)>,
    /// Volumes that no core uses any more, while they are left in order.
    leaving: Vec<Leaving>,
    shuts_down: bool,
}

/// A disk on this core.
struct Attached {
    queue: DiskQueue<Callback>,
    volume: UsedVolumes,
    /// Nobody can submit any more.
    closing: bool,
}

impl CoreService {
    /// A core without disks, on the calling thread.
    pub(crate) fn new(world: &World<Message>, client: u64, memory: usize) -> Self {
        HERE.set(Some((client, world.core)));
        Self {
            core: world.core,
            waker: world.waker.clone(),
            pool: Pool::new(memory),
            openings: Vec::new(),
            disks: HashMap::new(),
            ended: Vec::new(),
            leaving: Vec::new(),
            shuts_down: false,
        }
    }

    fn queue_context(&self) -> QueueContext {
        QueueContext::new(CoreId(self.core), self.waker.clone(), self.pool.clone())
    }

    fn attach(&mut self, disk: u64, volume: UsedVolumes) -> Result<(), OpenError> {
        let Some(used) = volume.volumes().first().cloned() else { return Ok(()) };
        match DiskQueue::open(used, &self.queue_context()) {
            Ok(queue) => {
                self.disks.insert(disk, Attached { queue, volume, closing: false });
                Ok(())
            }
            Err(error) => {
                self.let_go(volume);
                Err(error)
            }
        }
    }

    /// This core uses a volume no more; if it was the last one, it leaves it.
    fn let_go(&mut self, volume: UsedVolumes) {
        let volumes = volume.let_go();
        if volumes.iter().any(|volume| volume.leave_control().is_some()) {
            self.leaving.push(Leaving::begin(volumes, &self.queue_context()));
        }
    }

    /// Lets go of disks that nobody can submit to any more, once they have nothing under way.
    fn close_disks(&mut self) {
        let is_over = |attached: &mut Attached| attached.closing && attached.queue.is_idle();
        let over: Vec<Attached> =
            self.disks.extract_if(|_, attached| is_over(attached)).map(|(_, attached)| attached).collect();
        for Attached { queue, volume, .. } in over {
            drop(queue);
            self.let_go(volume);
        }
    }

    fn poll_openings(&mut self, now: Instant) {
        for index in (0..self.openings.len()).rev() {
            if let Some(result) = self.openings[index].0.poll(now) {
                let (_, reply) = self.openings.swap_remove(index);
                reply.send(result);
            }
        }
    }

    fn shut_down(&mut self) {
        self.shuts_down = true;
        self.openings.clear();
        for Attached { queue, volume, .. } in std::mem::take(&mut self.disks).into_values() {
            self.ended.extend(queue.abandon().map(|callback| (callback, Err(VolumeErrorKind::ShuttingDown))));
            self.let_go(volume);
        }
    }
}

impl Service for CoreService {
    type Message = Message;

    fn accept(&mut self, _now: Instant, _accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("a client does not serve"))
    }

    fn handle_message(&mut self, _now: Instant, message: Message) {
        match message {
            Message::Open { prepared, reply } => {
                self.openings.push((prepared.begin(&self.queue_context()), reply));
            }
            Message::Attach { disk, volume, reply } => {
                let attached = self.attach(disk, volume);
                reply.send(attached);
            }
            Message::Submit { disk, work, callback } => match self.disks.get_mut(&disk) {
                Some(attached) => attached.queue.push(work, callback),
                None => callback.finish(Err(VolumeErrorKind::ShuttingDown)),
            },
            Message::Close { disk } => {
                if let Some(attached) = self.disks.get_mut(&disk) {
                    attached.closing = true;
                }
            }
            Message::Shutdown => self.shut_down(),
        }
    }

    fn turn(&mut self, now: Instant, _ready: &mut Vec<EndpointId>) {
        self.poll_openings(now);
        let (pool, ended) = (&self.pool, &mut self.ended);
        for attached in self.disks.values_mut() {
            attached.queue.pump(now, pool, ended);
        }
        if self.disks.values().any(|attached| attached.closing) {
            self.close_disks();
        }
        self.leaving.retain_mut(|leaving| !leaving.poll(now));
        for (callback, result) in self.ended.drain(..) {
            callback.finish(result);
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        let disks = self.disks.values().filter_map(|attached| attached.queue.poll_timeout());
        let openings = self.openings.iter().filter_map(|(opening, _)| opening.poll_timeout());
        disks.chain(openings).chain(self.leaving.iter().filter_map(Leaving::poll_timeout)).min()
    }

    fn expects_work(&self) -> bool {
        self.disks.values().any(|attached| attached.queue.is_flying())
    }

    fn is_finished(&self) -> bool {
        self.shuts_down && self.leaving.is_empty()
    }
}
