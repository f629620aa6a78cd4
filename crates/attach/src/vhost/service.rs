//! What runs on each core: it opens the volumes (the first core), serves the rings that it is given, and at the end flushes once more.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Waker;

use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Refusal, Service, WatchEndpoint, World};
use names::VolumeUrl;
use protocol::{Ended, Instant};
use virtio::queue::Position;
use volume::{
    Completion, CoreId, Leaving, Operation, QueueContext, Request, Tag, UsedVolumes, Volume, VolumeErrorKind,
    VolumeQueue,
};

use super::guest::GuestMemory;
use super::ring::{Asking, Fault, Ring, RingPlan};
use crate::openings::{Openings, Unopened};

/// Names a ring: no other one of this process ever has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RingId(pub(crate) u32);

/// Requests of one ring have tags from this times its number on.
const SPAN: u64 = 1 << 32;
/// The number of the core's own requests, which no ring gets.
const OWN: u64 = u32::MAX as u64;

/// What is sent to the cores.
pub(crate) enum Message {
    /// The volumes are open.
    Volumes(UsedVolumes),
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
    /// It serves these volumes, or why it cannot.
    Serving(Result<Vec<Arc<dyn Volume>>, Unopened>),
    /// A signal asks to stop.
    Asked,
    /// A front end of a volume did something wrong.
    Fault(usize, Fault),
    /// What the last flush of a volume came to.
    Flushed(usize, Result<(), VolumeErrorKind>),
}

/// What all cores are given.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) urls: Vec<VolumeUrl>,
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
    /// So many of the last flushes are under way.
    Flushing(usize),
    /// All is done.
    Over,
}

/// A ring with what is known of its end.
struct Served {
    /// Which volume it is of.
    volume: usize,
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
    opening: Option<Openings>,
    /// Dropping the last handle of a remote volume logs out of its target.
    volumes: UsedVolumes,
    /// What no core uses any more, while it is left in order.
    leaving: Option<Leaving>,
    /// One for each volume.
    queues: Vec<Box<dyn VolumeQueue>>,
    rings: BTreeMap<RingId, Served>,
    done: Vec<Completion>,
    has_more: bool,
    end: End,
}

impl CoreService {
    /// A core that opens the volumes, if it is the first, or waits for them.
    pub(crate) fn new(plan: Plan, world: World<Message>, tell: Sender<News>) -> Self {
        let pool = Pool::new(plan.memory);
        let opening = (world.core == 0).then(|| Openings::begin(plan.urls.iter(), &world, &pool));
        Self {
            plan,
            world,
            pool,
            tell,
            opening,
            volumes: UsedVolumes::default(),
            leaving: None,
            queues: Vec::new(),
            rings: BTreeMap::new(),
            done: Vec::new(),
            has_more: false,
            end: End::Open,
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens only while the process ends.
        let _unheard = self.tell.send(news);
    }

    fn fail(&mut self, unopened: Unopened) {
        self.tell(News::Serving(Err(unopened)));
        self.end = End::Over;
    }

    fn serve(&mut self, used: UsedVolumes) {
        let volumes = used.volumes();
        let context = QueueContext::new(CoreId(self.world.core), self.world.waker.clone(), self.pool.clone());
        for (number, volume) in volumes.iter().enumerate() {
            match volume.open_queue(&context) {
                Ok(queue) => self.queues.push(queue),
                Err(error) => return self.fail(Unopened { number, error }),
            }
        }
        self.tell(News::Serving(Ok(volumes.to_vec())));
        self.volumes = used;
    }

    fn go_on_opening(&mut self, now: Instant) {
        let Some(result) = self.opening.as_mut().and_then(|opening| opening.poll(now)) else { return };
        self.opening = None;
        match result {
            Ok(volumes) => {
                let volumes = UsedVolumes::new(volumes);
                for core in 1..self.world.postbox.cores() {
                    self.world.postbox.post(core, Message::Volumes(volumes.clone()));
                }
                self.serve(volumes);
            }
            Err(unopened) => self.fail(unopened),
        }
    }

    /// Begins to serve a ring; false if there is no memory for one more.
    fn start(&mut self, ring: RingId, plan: RingPlan, kick: OwnedFd) -> bool {
        let volume = plan.volume;
        let Some(served) = Ring::new(plan, &self.world.waker, &self.pool) else { return false };
        self.world.dialer.poll_memory(&served.available());
        let kick_is_over = Rc::new(Cell::new(false));
        let kicked = Kicked::new(&kick, self.world.waker.clone(), Rc::clone(&kick_is_over));
        let Ok(kicked) = kicked else { return false };
        let kick = self.world.dialer.watch(kick, Box::new(kicked));
        self.rings.insert(ring, Served { volume, ring: served, kick_is_over, kick, stopping: None });
        // What was made available before has had its kick already.
        self.has_more = true;
        true
    }

    /// Takes what front ends have made available and what the volumes have done, until a turn's worth is done.
    fn serve_rings(&mut self, now: Instant) {
        self.has_more = false;
        for (id, served) in &mut self.rings {
            let Some(queue) = self.queues.get_mut(served.volume) else { continue };
            let tag = u64::from(id.0) * SPAN;
            self.has_more |= served.ring.take(now, &mut Asking { queue: &mut **queue, tag });
            if let Some(fault) = served.ring.take_fault() {
                let _unheard = self.tell.send(News::Fault(served.volume, fault));
            }
        }
        let mut has_ended = false;
        for volume in 0..self.queues.len() {
            has_ended |= self.take_completions(now, volume);
        }
        for served in self.rings.values_mut() {
            served.ring.publish();
            // What has ended has left memory, and room in the volume's queue.
            self.has_more |= has_ended && served.ring.has_waiting();
        }
    }

    /// Takes what one volume has done; true if there was something.
    fn take_completions(&mut self, now: Instant, volume: usize) -> bool {
        let Some(queue) = self.queues.get_mut(volume) else { return false };
        queue.poll(now, &mut self.done);
        let has_ended = !self.done.is_empty();
        for mut completion in self.done.drain(..) {
            let (number, own) = (completion.tag.0 / SPAN, completion.tag.0 % SPAN);
            completion.tag = Tag(own);
            if number == OWN {
                let result = completion.outcome().map(drop);
                let _unheard = self.tell.send(News::Flushed(volume, result));
                self.end = match self.end {
                    End::Flushing(left) if left > 1 => End::Flushing(left - 1),
                    _ => End::Over,
                };
                continue;
            }
            let id = RingId(wire::saturate(number));
            if let Some(served) = self.rings.get_mut(&id) {
                let mut asking = Asking { queue: &mut **queue, tag: number * SPAN };
                served.ring.complete(now, wire::index(own), completion, &mut asking);
            }
        }
        has_ended
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

    /// All is done here: the last core leaves the volumes.
    fn leave(&mut self, now: Instant) {
        self.queues.clear();
        let volumes = std::mem::take(&mut self.volumes).let_go();
        if !volumes.is_empty() {
            let context = QueueContext::without_pool(CoreId(self.world.core), self.world.waker.clone());
            self.leaving = Some(Leaving::begin(volumes, &context));
        }
        if self.leaving.as_mut().is_some_and(|leaving| leaving.poll(now)) {
            self.leaving = None;
        }
    }

    /// After the last ring: one flush of each volume, so that what front ends did not flush is not left to chance.
    fn go_on_ending(&mut self, now: Instant) {
        if self.end != End::Leaving || !self.rings.is_empty() {
            return;
        }
        let mut under_way = 0;
        if !self.plan.read_only {
            for queue in &mut self.queues {
                let request = Request { tag: Tag(OWN * SPAN), operation: Operation::Flush };
                // Nothing else is under way, so that there is room.
                under_way += usize::from(queue.submit(now, request).is_ok());
            }
        }
        self.end = if under_way == 0 { End::Over } else { End::Flushing(under_way) };
        self.has_more = true;
    }
}

impl Service for CoreService {
    type Message = Message;

    fn accept(&mut self, _now: Instant, _accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("front ends have a thread of their own"))
    }

    fn handle_message(&mut self, _now: Instant, message: Message) {
        match message {
            Message::Volumes(volumes) => self.serve(volumes),
            Message::Start { ring, plan, kick, done } => {
                // A front end whose queue is not served hears that its request failed, as nobody answers.
                if self.start(ring, *plan, kick) {
                    let _unheard = done.send(());
                }
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
                    self.end = if self.queues.is_empty() { End::Over } else { End::Leaving };
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
            self.leave(now);
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        let opening = self.opening.as_ref().and_then(Openings::poll_timeout);
        let queues = self.queues.iter().filter_map(|queue| queue.poll_timeout());
        let leaving = self.leaving.as_ref().and_then(Leaving::poll_timeout);
        opening.into_iter().chain(queues).chain(leaving).min()
    }

    /// Front ends answer what they are answered: while a ring is served, the next request is near.
    fn expects_work(&self) -> bool {
        !self.rings.is_empty()
    }

    fn is_finished(&self) -> bool {
        self.end == End::Over && self.leaving.is_none()
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
