//! The cores of a process: what they share, how they are started, and how streams are spread over them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;

use host::{CoreIndex, ListenerId, Postbox, Service, World};
use rustix::thread::CpuSet;

use crate::alarm::Alarm;
use crate::config::Config;
use crate::core::Turning;
use crate::driver::Wait;
use crate::file::Files;
use crate::listener::Stream;
use crate::listener_control::{ListenerControl, ListenerOrders};
use crate::local::LocalDialer;
use crate::turns::Turns;

/// What one core receives from the others.
pub(crate) struct Inbox<M> {
    messages: Mutex<Vec<M>>,
    streams: Mutex<Vec<(ListenerId, Stream)>>,
    pub(crate) alarm: Arc<Alarm>,
    /// Accepted streams that the core has, or is about to have.
    pub(crate) load: AtomicUsize,
    pub(crate) turns: Arc<Turns>,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M> Inbox<M> {
    /// Moves what has arrived to the caller's lists.
    pub(crate) fn collect(&self, messages: &mut Vec<M>, streams: &mut Vec<(ListenerId, Stream)>) {
        messages.append(&mut lock(&self.messages));
        streams.append(&mut lock(&self.streams));
    }

    /// Takes a stream that another core has accepted.
    pub(crate) fn hand_over(&self, listener: ListenerId, stream: Stream) {
        lock(&self.streams).push((listener, stream));
        self.alarm.raise();
    }

    /// From now on everything is swallowed.
    pub(crate) fn close(&self) {
        let mut messages = lock(&self.messages);
        self.stopped.store(true, Ordering::SeqCst);
        let swallowed = std::mem::take(&mut *messages);
        drop(messages);
        // Dropping a message may post another: without the lock.
        drop(swallowed);
        lock(&self.streams).clear();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The core that accepts streams, for all of them.
pub(crate) const ACCEPTING_CORE: CoreIndex = 0;

/// What all cores share.
pub(crate) struct Shared<M> {
    pub(crate) inboxes: Vec<Inbox<M>>,
    pub(crate) listener_orders: Arc<ListenerOrders>,
    pub(crate) config: Config,
    stop: AtomicBool,
}

impl<M> Shared<M> {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl<M: Send> Postbox<M> for Shared<M> {
    fn post(&self, core: CoreIndex, message: M) {
        let Some(inbox) = self.inboxes.get(usize::from(core)).filter(|inbox| !inbox.is_stopped()) else {
            return;
        };
        let mut messages = lock(&inbox.messages);
        if inbox.is_stopped() {
            // It has stopped meanwhile; whatever the message does when it is dropped, it does without the lock.
            drop(messages);
            return;
        }
        messages.push(message);
        drop(messages);
        inbox.alarm.raise();
    }

    fn cores(&self) -> CoreIndex {
        CoreIndex::try_from(self.inboxes.len()).unwrap_or(CoreIndex::MAX)
    }
}

/// Ends all cores' loops, from any thread.
pub struct Stopper(Arc<dyn Stop>);

trait Stop: Send + Sync {
    fn stop(&self);
}

impl<M: Send> Stop for Shared<M> {
    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for inbox in &self.inboxes {
            inbox.alarm.raise();
        }
    }
}

impl Stopper {
    /// Ends the loops: every stream ends, and each core returns once its endpoints are idle.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Clone for Stopper {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stopper")
    }
}

/// Cores that are about to run.
///
/// ```no_run
/// # fn start<S: host::Service<Message = u32> + 'static>(service: fn(host::World<u32>) -> S) -> std::io::Result<()> {
/// let cluster = reactor::Cluster::<u32>::new(2, reactor::Config::default())?;
/// let portal = reactor::Listener::bind("127.0.0.1:3260".parse().unwrap())?;
/// cluster.control().open(host::ListenerId(0), portal).map_err(std::io::Error::other)?;
/// let postbox = cluster.postbox();
/// let threads: Vec<_> = cluster.into_cores().into_iter().map(|core| core.spawn(service)).collect();
/// postbox.post(1, 7);
/// # Ok(()) }
/// ```
pub struct Cluster<M> {
    shared: Arc<Shared<M>>,
}

impl<M: Send + 'static> Cluster<M> {
    /// A cluster of `cores` cores, at least one.
    pub fn new(cores: CoreIndex, config: Config) -> io::Result<Self> {
        let inbox = |_| {
            Ok(Inbox {
                messages: Mutex::default(),
                streams: Mutex::default(),
                alarm: Arc::new(Alarm::new()?),
                load: AtomicUsize::new(0),
                turns: Arc::default(),
                stopped: AtomicBool::new(false),
            })
        };
        let first = inbox(ACCEPTING_CORE)?;
        let listener_orders = Arc::new(ListenerOrders::new(Arc::clone(&first.alarm)));
        let others = (1..cores.max(1)).map(inbox);
        let inboxes = std::iter::once(Ok(first)).chain(others).collect::<io::Result<_>>()?;
        let shared = Shared { inboxes, listener_orders, config, stop: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens and closes listeners, whose streams are spread over the cores.
    pub fn control(&self) -> ListenerControl {
        ListenerControl::new(Arc::clone(&self.shared.listener_orders))
    }

    /// Sends messages to the cores, from any thread.
    pub fn postbox(&self) -> Arc<dyn Postbox<M>> {
        Arc::<Shared<M>>::clone(&self.shared)
    }

    /// What the turns of each core take.
    pub fn turns(&self) -> Vec<Arc<Turns>> {
        self.shared.inboxes.iter().map(|inbox| Arc::clone(&inbox.turns)).collect()
    }

    /// Ends the cores' loops.
    pub fn stopper(&self) -> Stopper {
        let shared = Arc::clone(&self.shared);
        Stopper(shared)
    }

    /// The cores, each to be run on a thread of its own. The first also accepts for the others.
    pub fn into_cores(self) -> Vec<Core<M>> {
        let core = |index| {
            let index = CoreIndex::try_from(index).unwrap_or(CoreIndex::MAX);
            let shared = Arc::clone(&self.shared);
            Core { index, closing: Closing(Arc::clone(&shared), index), shared }
        };
        (0..self.shared.inboxes.len()).map(core).collect()
    }
}

impl<M> std::fmt::Debug for Cluster<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("cores", &self.shared.inboxes.len()).finish_non_exhaustive()
    }
}

/// One core, before it runs.
pub struct Core<M> {
    index: CoreIndex,
    shared: Arc<Shared<M>>,
    closing: Closing<M>,
}

impl<M: Send + 'static> Core<M> {
    /// Which core.
    pub fn index(&self) -> CoreIndex {
        self.index
    }

    /// Runs the core on the calling thread, until its service is finished or the cluster is stopped; gives the service
    /// back.
    pub fn run<S, F>(self, service: F) -> io::Result<S>
    where
        S: Service<Message = M>,
        F: FnOnce(World<M>) -> S,
    {
        self.begin(service)?.turn_until_done()
    }

    /// Puts the core into the hands of the calling thread, which turns it by itself: for callers that have a loop of
    /// their own.
    pub fn begin<S, F>(self, service: F) -> io::Result<Running<S>>
    where
        S: Service<Message = M>,
        F: FnOnce(World<M>) -> S,
    {
        let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let postbox: Arc<dyn Postbox<M>> = Arc::<Shared<M>>::clone(&self.shared);
        let world = World {
            core: self.index,
            storage: Arc::new(Files),
            dialer: Arc::new(LocalDialer),
            postbox,
            waker: Waker::from(Arc::clone(&inbox.alarm)),
        };
        let turning = Turning::begin(Arc::clone(&self.shared), self.index, || service(world))?;
        Ok(Running { turning, _closing: self.closing })
    }

    /// Runs the core on a new thread.
    pub fn spawn<S, F>(self, service: F) -> io::Result<JoinHandle<io::Result<()>>>
    where
        S: Service<Message = M>,
        F: FnOnce(World<M>) -> S + Send + 'static,
    {
        let name = format!("core {}", self.index);
        std::thread::Builder::new().name(name).spawn(move || {
            if self.shared.config.pin {
                pin(usize::from(self.index));
            }
            self.run(service).map(drop)
        })
    }
}

/// A core that its caller turns. It lives on the thread that began it.
///
/// ```
/// # use reactor::driver::Wait;
/// # fn turns<S: host::Service>(mut core: reactor::Running<S>, done: impl Fn(&S) -> bool) -> std::io::Result<()> {
/// loop {
///     core.turn();
///     if done(core.service()) {
///         return Ok(());
///     }
///     core.wait(Wait::Forever)?;
/// }
/// # }
/// ```
pub struct Running<S: Service> {
    turning: Turning<S>,
    _closing: Closing<S::Message>,
}

impl<S: Service> Running<S> {
    /// The service, to be given work before a turn.
    pub fn service(&mut self) -> &mut S {
        &mut self.turning.service
    }

    /// Lets what has happened have its effect, without a wait; true when the service is finished, or the cluster is
    /// stopped, and nothing is left to end. What the turn has to send goes out with the wait that follows it.
    pub fn turn(&mut self) -> bool {
        self.turning.turn_once()
    }

    /// Starts what the turn has left, and waits until something happens or is due, but not beyond `limit`.
    pub fn wait(&mut self, limit: Wait) -> io::Result<()> {
        self.turning.wait_at_most(limit)
    }

    /// Turns until the service is finished or the cluster is stopped; gives the service back.
    fn turn_until_done(self) -> io::Result<S> {
        self.turning.turn_until_done()
    }
}

impl<S: Service> std::fmt::Debug for Running<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// Closes a core's mailbox when the core is gone, whether or not it has run.
struct Closing<M>(Arc<Shared<M>>, CoreIndex);

impl<M> Drop for Closing<M> {
    fn drop(&mut self) {
        if let Some(inbox) = self.0.inboxes.get(usize::from(self.1)) {
            inbox.close();
        }
        if self.1 == ACCEPTING_CORE {
            self.0.listener_orders.stop();
        }
    }
}

/// Binds the calling thread to the `index`-th of the processors it may use; where there are fewer, it stays free.
fn pin(index: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let Some(processor) = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).nth(index) else { return };
    let mut one = CpuSet::new();
    one.set(processor);
    // Not being allowed to is no reason not to run.
    let _ = rustix::thread::sched_setaffinity(None, &one);
}

impl<M> std::fmt::Debug for Core<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("index", &self.index).finish_non_exhaustive()
    }
}
