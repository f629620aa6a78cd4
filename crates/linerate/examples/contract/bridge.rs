//! A volume whose queues live on a reactor's cores, driven from other threads.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;

use buf::Pool;
use host::{Accepted, Endpoint, EndpointId, Postbox, Refusal, Service, World};
use linerate::{CoreOpening, VolumeUrl};
use protocol::Instant;
use reactor::{Cluster, Config, Stopper};
use volume::{
    Changes, Completion, CoreId, Features, Geometry, Limits, OpenError, QueueContext, QueueFull, Request,
    Tag, Volume, VolumeErrorKind, VolumeQueue,
};

/// Event loops, each with connections of its own.
const CORES: u16 = 2;
/// Bytes that opening may use.
const POOL: usize = 16 << 20;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a core is told.
enum Message {
    Open(u64, Arc<dyn Volume>, Arc<Channel>),
    /// Look into the channels.
    Look,
    Close(u64),
}

/// What goes to and fro between a thread and a core.
struct Channel {
    requests: Mutex<VecDeque<Request>>,
    cancels: Mutex<Vec<Tag>>,
    done: Mutex<Vec<Completion>>,
    waker: Waker,
}

/// A volume that was opened on a core, for threads.
pub(crate) struct Bridge {
    inner: Arc<dyn Volume>,
    postbox: Arc<dyn Postbox<Message>>,
    channels: AtomicU64,
    stopper: Stopper,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Bridge {
    /// Opens the volume on the first of the loops.
    pub(crate) fn open(url: &VolumeUrl) -> Result<Self, String> {
        let cluster = Cluster::new(CORES, Config::default()).map_err(|error| error.to_string())?;
        let (postbox, stopper) = (cluster.postbox(), cluster.stopper());
        let (sender, answer) = channel();
        let mut threads = Vec::new();
        for core in cluster.into_cores() {
            let (url, sender) = (url.clone(), sender.clone());
            let thread = core.spawn(move |world| Queues::new(world, &url, sender));
            threads.push(thread.map_err(|error| error.to_string())?);
        }
        let opened = answer.recv().map_err(|error| error.to_string())?;
        let end = |error: OpenError| {
            stopper.stop();
            error.to_string()
        };
        let inner = opened.map_err(end)?;
        Ok(Self { inner, postbox, channels: AtomicU64::new(0), stopper, threads })
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stopper.stop();
        for thread in self.threads.drain(..) {
            if !matches!(thread.join(), Ok(Ok(()))) {
                eprintln!("an event loop did not end well");
            }
        }
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bridge").field(&self.inner).finish()
    }
}

impl Volume for Bridge {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    fn path(&self) -> volume::PathState {
        self.inner.path()
    }

    fn last_error(&self) -> Option<String> {
        self.inner.last_error()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let number = self.channels.fetch_add(1, Ordering::Relaxed);
        let core = u16::try_from(number % u64::from(CORES)).unwrap_or(0);
        let (requests, cancels, done) = (Mutex::default(), Mutex::default(), Mutex::default());
        let channel = Arc::new(Channel { requests, cancels, done, waker: context.waker.clone() });
        self.postbox.post(core, Message::Open(number, Arc::clone(&self.inner), Arc::clone(&channel)));
        let postbox = Arc::clone(&self.postbox);
        let depth = self.limits().depth as usize;
        Ok(Box::new(BridgeQueue { number, core, channel, postbox, outstanding: 0, depth }))
    }
}

/// A thread's end of a channel.
struct BridgeQueue {
    number: u64,
    core: u16,
    channel: Arc<Channel>,
    postbox: Arc<dyn Postbox<Message>>,
    outstanding: usize,
    depth: usize,
}

impl VolumeQueue for BridgeQueue {
    fn submit(&mut self, _now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.outstanding >= self.depth {
            return Err(QueueFull(request));
        }
        self.outstanding += 1;
        lock(&self.channel.requests).push_back(request);
        self.postbox.post(self.core, Message::Look);
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        lock(&self.channel.cancels).push(tag);
        self.postbox.post(self.core, Message::Look);
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        let mut ended = lock(&self.channel.done);
        self.outstanding -= ended.len();
        done.append(&mut ended);
    }
}

impl Drop for BridgeQueue {
    fn drop(&mut self) {
        self.postbox.post(self.core, Message::Close(self.number));
    }
}

/// Tells what came of opening the volume.
type Answer = Sender<Result<Arc<dyn Volume>, OpenError>>;

/// A channel with its queue; without one where none could be opened.
type Open = (Arc<Channel>, Option<Box<dyn VolumeQueue>>);

/// A core's service: the queues of its channels, and on the first core the opening.
struct Queues {
    world: World<Message>,
    opening: Option<(CoreOpening, Answer)>,
    open: HashMap<u64, Open>,
}

impl Queues {
    fn new(world: World<Message>, url: &VolumeUrl, answer: Answer) -> Self {
        let opening = (world.core == 0).then(|| (CoreOpening::begin(url, &world, &Pool::new(POOL)), answer));
        Self { world, opening, open: HashMap::new() }
    }
}

/// Carries a channel's requests to its queue and completions back; true if there are requests that now have room.
fn carry(now: Instant, channel: &Channel, queue: Option<&mut Box<dyn VolumeQueue>>) -> bool {
    let mut requests = lock(&channel.requests);
    let mut done = lock(&channel.done);
    let before = done.len();
    if let Some(queue) = queue {
        while let Some(request) = requests.pop_front() {
            if let Err(QueueFull(request)) = queue.submit(now, request) {
                requests.push_front(request);
                break;
            }
        }
        lock(&channel.cancels).drain(..).for_each(|tag| queue.cancel(tag));
        queue.poll(now, &mut done);
    } else {
        let failed = |request: Request| request.failed(VolumeErrorKind::Unreachable);
        done.extend(requests.drain(..).map(failed));
    }
    let has_ended = done.len() > before;
    if has_ended {
        channel.waker.wake_by_ref();
    }
    has_ended && !requests.is_empty()
}

impl Service for Queues {
    type Message = Message;

    fn accept(&mut self, _now: Instant, _accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("nothing listens here"))
    }

    fn handle_message(&mut self, _now: Instant, message: Message) {
        match message {
            Message::Look => {}
            Message::Close(number) => drop(self.open.remove(&number)),
            Message::Open(number, volume, channel) => {
                let queue = volume.open_queue(&QueueContext::without_pool(
                    CoreId(self.world.core),
                    self.world.waker.clone(),
                ));
                let queue = queue.inspect_err(|error| eprintln!("no queue: {error}")).ok();
                self.open.insert(number, (channel, queue));
            }
        }
    }

    fn turn(&mut self, now: Instant, _ready: &mut Vec<EndpointId>) {
        if let Some((opening, answer)) = &mut self.opening
            && let Some(opened) = opening.poll(now)
        {
            // Whoever asked waits for it.
            let _told = answer.send(opened);
            self.opening = None;
        }
        for (channel, queue) in self.open.values_mut() {
            if carry(now, channel, queue.as_mut()) {
                self.world.waker.wake_by_ref();
            }
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        let queues = self.open.values().filter_map(|(_, queue)| queue.as_ref()?.poll_timeout());
        let opening = self.opening.as_ref().and_then(|(opening, _)| opening.poll_timeout());
        queues.chain(opening).min()
    }

    fn is_finished(&self) -> bool {
        false
    }
}
