//! What runs on each core: it opens the volume (the first core), serves the rings that it is given, and at the end flushes once more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Waker;

use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Refusal, Service, WatchEndpoint, World};
use linerate::CoreOpening;
use names::VolumeUrl;
use protocol::{Ended, Instant};
use virtio::queue::Position;
use volume::{
    Completion, CoreId, OpenError, Operation, QueueContext, Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use super::guest::GuestMemory;
use super::ring::{Fault, Ring, RingPlan, Volumes};

/// Names a ring: no other one of this process ever has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RingId(pub(crate) u32);

/// Requests of one ring have tags from this times its number on.
const SPAN: u64 = 1 << 32;
/// The number of the core's own requests, which no ring gets.
const OWN: u64 = u32::MAX as u64;

/// What is sent to the cores.
pub(crate) enum Message {
    /// The volume is open.
    Volume(Arc<dyn Volume>),
    /// Serve a ring, which the front end notifies through `kick`.
    Start { ring: RingId, plan: Box<RingPlan>, kick: OwnedFd, done: Sender<()> },
    /// A ring's front end has lent other memory.
    Memory { ring: RingId, memory: Arc<GuestMemory>, done: Sender<()> },
    /// Notify a ring's front end through this.
    Call { ring: RingId, call: Option<OwnedFd>, done: Sender<()> },
    /// Serve a ring no longer: where it stands is told once nothing is under way.
    Stop { ring: RingId, done: Sender<Position> },
    /// End all rings, flush, finish.
    Shutdown,
}

/// What a core reports.
#[derive(Debug)]
pub(crate) enum News {
    /// It serves this volume, or why it cannot.
    Serving(Result<Arc<dyn Volume>, OpenError>),
    /// A signal asks to stop, sent before anything is served.
    Asked,
    /// A front end did something wrong.
    Fault(Fault),
    /// What the last flush came to.
    Flushed(Result<(), VolumeErrorKind>),
}

/// What all cores are given.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) url: VolumeUrl,
    pub(crate) read_only: bool,
    /// Bytes of data buffers of each core.
    pub(crate) memory: usize,
}

/// How far the end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Not asked for.
    Open,
    /// Rings end what they have under way.
    Leaving,
    /// The last flush is under way.
    Flushing,
    /// All is done.
    Over,
}

/// A ring with what is known of its end.
struct Served {
    ring: Ring,
    kick_is_over: Rc<Cell<bool>>,
    kick: EndpointId,
    stopping: Option<Sender<Position>>,
}

/// One core's service.
pub(crate) struct CoreService {
    plan: Plan,
    world: World<Message>,
    pool: Pool,
    tell: Sender<News>,
    opening: Option<CoreOpening>,
    /// Dropping the last handle of a remote volume logs out of its target.
    volume: Option<Arc<dyn Volume>>,
    queue: Option<Box<dyn VolumeQueue>>,
    rings: BTreeMap<RingId, Served>,
    done: Vec<Completion>,
    under_way: usize,
    has_more: bool,
    end: End,
}

impl CoreService {
    /// A core that opens the volume, if it is the first, or waits for it.
    pub(crate) fn new(plan: Plan, world: World<Message>, tell: Sender<News>) -> Self {
        let pool = Pool::new(plan.memory);
        let opening = (world.core == 0).then(|| CoreOpening::begin(&plan.url, &world, &pool));
        Self {
            plan,
            world,
            pool,
            tell,
            opening,
            volume: None,
            queue: None,
            rings: BTreeMap::new(),
            done: Vec::new(),
            under_way: 0,
            has_more: false,
            end: End::Open,
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens only while the process ends.
        let _unheard = self.tell.send(news);
    }

    fn fail(&mut self, error: OpenError) {
        self.tell(News::Serving(Err(error)));
        self.end = End::Over;
    }

    fn serve(&mut self, volume: Arc<dyn Volume>) {
        let context =
            QueueContext::new(CoreId(self.world.core), self.world.waker.clone(), self.pool.clone());
        match volume.open_queue(&context) {
            Ok(queue) => self.queue = Some(queue),
            Err(error) => return self.fail(error),
        }
        self.tell(News::Serving(Ok(Arc::clone(&volume))));
        self.volume = Some(volume);
    }

    fn go_on_opening(&mut self, now: Instant) {
        let Some(result) = self.opening.as_mut().and_then(|opening| opening.poll(now)) else { return };
        self.opening = None;
        match result {
            Ok(volume) => {
                for core in 1..self.world.postbox.cores() {
                    self.world.postbox.post(core, Message::Volume(Arc::clone(&volume)));
                }
                self.serve(volume);
            }
            Err(error) => self.fail(error),
        }
    }

    fn start(&mut self, ring: RingId, plan: RingPlan, kick: OwnedFd) {
        let served = Ring::new(plan, &self.world.waker);
        self.world.dialer.poll_memory(&served.available());
        let kick_is_over = Rc::new(Cell::new(false));
        let kicked = Kicked::new(&kick, self.world.waker.clone(), Rc::clone(&kick_is_over));
        let Ok(kicked) = kicked else { return };
        let kick = self.world.dialer.watch(kick, Box::new(kicked));
        self.rings.insert(ring, Served { ring: served, kick_is_over, kick, stopping: None });
        // What was made available before has had its kick already.
        self.has_more = true;
    }

    /// Takes what the volume has done, and what front ends have made available, until a turn's worth is done.
    fn serve_rings(&mut self, now: Instant) {
        let Some(queue) = self.queue.as_mut() else { return };
        let (pool, rings) = (&self.pool, &mut self.rings);
        self.has_more = false;
        for (id, served) in rings.iter_mut() {
            let tag = u64::from(id.0) * SPAN;
            self.has_more |= served.ring.take(now, &mut Volumes { queue: &mut **queue, pool, tag });
            if let Some(fault) = served.ring.take_fault() {
                let _unheard = self.tell.send(News::Fault(fault));
            }
        }
        queue.poll(now, &mut self.done);
        for mut completion in self.done.drain(..) {
            let (number, own) = (completion.tag.0 / SPAN, completion.tag.0 % SPAN);
            completion.tag = Tag(own);
            if number == OWN {
                let _unheard = self.tell.send(News::Flushed(completion.outcome().map(drop)));
                self.end = End::Over;
                continue;
            }
            let id = RingId(wire::saturate(number));
            if let Some(served) = rings.get_mut(&id) {
                let mut volumes = Volumes { queue: &mut **queue, pool, tag: number * SPAN };
                served.ring.complete(now, wire::index(own), completion, &mut volumes);
            }
        }
        self.under_way = 0;
        for served in rings.values_mut() {
            served.ring.publish();
            self.under_way += served.ring.under_way();
        }
    }

    /// Lets go of rings that were to stop and have nothing under way.
    fn end_rings(&mut self) {
        let dialer = &self.world.dialer;
        self.rings.retain(|_, served| {
            let is_over = served.stopping.is_some() && served.ring.under_way() == 0;
            if is_over {
                served.kick_is_over.set(true);
                dialer.wake(served.kick);
                if let Some(done) = served.stopping.take() {
                    let _unheard = done.send(served.ring.position());
                }
            }
            !is_over
        });
    }

    /// After the last ring: one flush, so that what front ends did not flush is not left to chance.
    fn go_on_ending(&mut self, now: Instant) {
        if self.end != End::Leaving || !self.rings.is_empty() {
            return;
        }
        let Some(queue) = self.queue.as_mut().filter(|_| !self.plan.read_only) else {
            (self.end, self.queue) = (End::Over, None);
            return;
        };
        let request = Request { tag: Tag(OWN * SPAN), operation: Operation::Flush };
        if queue.submit(now, request).is_ok() {
            self.end = End::Flushing;
            self.has_more = true;
        }
    }
}

impl Service for CoreService {
    type Message = Message;

    fn accept(&mut self, _now: Instant, _accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("front ends have a thread of their own"))
    }

    fn handle_message(&mut self, _now: Instant, message: Message) {
        match message {
            Message::Volume(volume) => self.serve(volume),
            Message::Start { ring, plan, kick, done } => {
                self.start(ring, *plan, kick);
                let _unheard = done.send(());
            }
            Message::Memory { ring, memory, done } => {
                if let Some(served) = self.rings.get_mut(&ring) {
                    served.ring.set_memory(memory);
                }
                let _unheard = done.send(());
            }
            Message::Call { ring, call, done } => {
                if let Some(served) = self.rings.get_mut(&ring) {
                    served.ring.set_call(call);
                }
                let _unheard = done.send(());
            }
            Message::Stop { ring, done } => {
                if let Some(served) = self.rings.get_mut(&ring) {
                    served.ring.stop();
                    served.stopping = Some(done);
                }
            }
            Message::Shutdown => {
                self.opening = None;
                if self.end == End::Open {
                    self.end = if self.queue.is_some() { End::Leaving } else { End::Over };
                }
                for served in self.rings.values_mut() {
                    served.ring.stop();
                    served.stopping.get_or_insert_with(|| std::sync::mpsc::channel().0);
                }
            }
        }
    }

    fn turn(&mut self, now: Instant, _ready: &mut Vec<EndpointId>) {
        self.go_on_opening(now);
        self.serve_rings(now);
        self.end_rings();
        self.go_on_ending(now);
        if self.has_more {
            self.world.waker.wake_by_ref();
        }
        if self.end == End::Over {
            self.queue = None;
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        let opening = self.opening.as_ref().and_then(CoreOpening::poll_timeout);
        let queue = self.queue.as_ref().and_then(|queue| queue.poll_timeout());
        opening.into_iter().chain(queue).min()
    }

    /// Front ends answer what they are answered: while a ring is served, the next request is near.
    fn expects_work(&self) -> bool {
        !self.rings.is_empty()
    }

    fn is_finished(&self) -> bool {
        self.end == End::Over
    }
}

impl std::fmt::Debug for CoreService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoreService").field("end", &self.end).finish_non_exhaustive()
    }
}

/// The descriptor by which a front end notifies its ring.
struct Kicked {
    kick: OwnedFd,
    waker: Waker,
    is_over: Rc<Cell<bool>>,
}

impl Kicked {
    fn new(kick: &OwnedFd, waker: Waker, is_over: Rc<Cell<bool>>) -> std::io::Result<Self> {
        let kick = kick.try_clone()?;
        rustix::io::ioctl_fionbio(&kick, true)?;
        Ok(Self { kick, waker, is_over })
    }
}

impl WatchEndpoint for Kicked {
    fn handle_ready(&mut self, _now: Instant) {
        // It has been read if there is nothing to read.
        let _count = rustix::io::read(&self.kick, &mut [0; 8]);
        self.waker.wake_by_ref();
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.is_over.set(true);
    }

    fn turn(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_over.get()
    }

    fn expects_work(&self) -> bool {
        false
    }
}
