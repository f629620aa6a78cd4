//! A file system whose queues live on a reactor's cores, driven from test threads: so the contract suite, which waits, runs over
//! the loops, which do not.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread::JoinHandle;

use filesystem::{
    Completion, CoreId, Features, FileHandle, FileSystem, FileSystemQueue, Identity, Limits, OpenError,
    QueueContext, QueueFull, Request, Statistics, Tag,
};
use host::{Accepted, Endpoint, EndpointId, Postbox, Refusal, Service, World};
use protocol::Instant;
use reactor::{Cluster, Config, Driver, Stopper};

const CORES: u16 = 2;

/// What a core is told.
pub(crate) enum Message {
    Open(u64, Arc<Channel>),
    /// Look into the channels.
    Look,
    Close(u64),
}

/// What goes to and fro between a test thread and a core.
pub(crate) struct Channel {
    requests: Mutex<VecDeque<Request>>,
    cancels: Mutex<Vec<Tag>>,
    done: Mutex<Vec<Completion>>,
    waker: Waker,
}

/// The file system `inner`, used on cores.
pub(crate) struct Bridge {
    inner: Arc<dyn FileSystem>,
    postbox: Arc<dyn Postbox<Message>>,
    channels: AtomicU64,
    stopper: Stopper,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Bridge {
    pub(crate) fn new(inner: Arc<dyn FileSystem>, driver: Driver) -> Self {
        let cluster = Cluster::new(CORES, Config { driver, ..Config::default() }).unwrap();
        let (postbox, stopper) = (cluster.postbox(), cluster.stopper());
        let threads = cluster.into_cores().into_iter().map(|core| {
            let system = Arc::clone(&inner);
            core.spawn(move |world| Queues { world, system, open: HashMap::new() }).unwrap()
        });
        let threads = threads.collect();
        Self { inner, postbox, channels: AtomicU64::new(0), stopper, threads }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stopper.stop();
        for thread in self.threads.drain(..) {
            thread.join().unwrap().unwrap();
        }
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bridge").field(&self.inner).finish()
    }
}

impl FileSystem for Bridge {
    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn root(&self) -> FileHandle {
        self.inner.root()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn FileSystemQueue>, OpenError> {
        let number = self.channels.fetch_add(1, Ordering::Relaxed);
        let core = u16::try_from(number % u64::from(CORES)).unwrap();
        let channel = Arc::new(Channel {
            requests: Mutex::default(),
            cancels: Mutex::default(),
            done: Mutex::default(),
            waker: context.waker.clone(),
        });
        self.postbox.post(core, Message::Open(number, Arc::clone(&channel)));
        let postbox = Arc::clone(&self.postbox);
        let depth = self.limits().depth as usize;
        Ok(Box::new(BridgeQueue { number, core, channel, postbox, outstanding: 0, depth }))
    }
}

struct BridgeQueue {
    number: u64,
    core: u16,
    channel: Arc<Channel>,
    postbox: Arc<dyn Postbox<Message>>,
    outstanding: usize,
    depth: usize,
}

impl FileSystemQueue for BridgeQueue {
    fn submit(&mut self, _now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.outstanding >= self.depth {
            return Err(QueueFull(request));
        }
        self.outstanding += 1;
        self.channel.requests.lock().unwrap().push_back(request);
        self.postbox.post(self.core, Message::Look);
        Ok(())
    }

    fn cancel(&mut self, tag: Tag) {
        self.channel.cancels.lock().unwrap().push(tag);
        self.postbox.post(self.core, Message::Look);
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        let mut ended = self.channel.done.lock().unwrap();
        self.outstanding -= ended.len();
        done.append(&mut ended);
    }
}

impl Drop for BridgeQueue {
    fn drop(&mut self) {
        self.postbox.post(self.core, Message::Close(self.number));
    }
}

/// A core's service: the queues of its channels.
struct Queues {
    world: World<Message>,
    system: Arc<dyn FileSystem>,
    open: HashMap<u64, (Arc<Channel>, Box<dyn FileSystemQueue>)>,
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
            Message::Open(number, channel) => {
                let core = CoreId(self.world.core);
                let queue = self
                    .system
                    .open_queue(&QueueContext::without_pool(core, self.world.waker.clone()))
                    .unwrap();
                self.open.insert(number, (channel, queue));
            }
        }
    }

    fn turn(&mut self, now: Instant, _ready: &mut Vec<EndpointId>) {
        for (channel, queue) in self.open.values_mut() {
            let mut requests = channel.requests.lock().unwrap();
            while let Some(request) = requests.pop_front() {
                if let Err(QueueFull(request)) = queue.submit(now, request) {
                    requests.push_front(request);
                    break;
                }
            }
            drop(requests);
            channel.cancels.lock().unwrap().drain(..).for_each(|tag| queue.cancel(tag));
            let mut done = channel.done.lock().unwrap();
            let before = done.len();
            queue.poll(now, &mut done);
            if done.len() > before {
                channel.waker.wake_by_ref();
            }
        }
    }

    fn handle_gone(&mut self, _now: Instant, _endpoint: EndpointId) {}

    fn poll_timeout(&self) -> Option<Instant> {
        self.open.values().filter_map(|(_, queue)| queue.poll_timeout()).min()
    }

    fn is_finished(&self) -> bool {
        false
    }
}
