//! The cores of a process: how they are made, started and stopped.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;

use host::{CoreIndex, Postbox, Service, World};
use rustix::thread::CpuSet;

use crate::config::Config;
use crate::core_local::CoreDialer;
use crate::driver::Wait;
use crate::event_loop::EventLoop;
use crate::file::Files;
use crate::listener_control::ListenerControl;
use crate::shared::{ACCEPTING_CORE, Shared};
use crate::turns::Turns;

/// Ends all cores' loops, from any thread.
pub struct Stopper(Arc<dyn Stop>);

trait Stop: Send + Sync {
    fn stop(&self);
}

impl<M: Send> Stop for Shared<M> {
    fn stop(&self) {
        self.stop_all();
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
        let shared = Shared::new(cores, config)?;
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
            let shared = Arc::clone(&self.shared);
            Core { index, inbox: InboxGuard { shared: Arc::clone(&shared), core: index }, shared }
        };
        (0..self.shared.core_count()).map(core).collect()
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
    inbox: InboxGuard<M>,
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
        self.begin(service)?.run()
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
            dialer: Arc::new(CoreDialer),
            postbox,
            waker: Waker::from(Arc::clone(&inbox.wakeup)),
        };
        let event_loop = EventLoop::begin(Arc::clone(&self.shared), self.index, || service(world))?;
        Ok(Running { event_loop, _inbox: self.inbox })
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
    event_loop: EventLoop<S>,
    _inbox: InboxGuard<S::Message>,
}

impl<S: Service> Running<S> {
    /// The service, to be given work before a turn.
    pub fn service(&mut self) -> &mut S {
        &mut self.event_loop.service
    }

    /// Lets what has happened have its effect, without a wait; true when the service is finished, or the cluster is
    /// stopped, and nothing is left to end. What the turn has to send goes out with the wait that follows it.
    pub fn turn(&mut self) -> bool {
        self.event_loop.run_once()
    }

    /// Starts what the turn has left, and waits until something happens or is due, but not beyond `limit`.
    pub fn wait(&mut self, limit: Wait) -> io::Result<()> {
        self.event_loop.wait_at_most(limit)
    }

    /// Turns until the service is finished or the cluster is stopped; gives the service back.
    fn run(self) -> io::Result<S> {
        self.event_loop.run()
    }
}

impl<S: Service> std::fmt::Debug for Running<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// Closes a core's inbox when the core is gone, whether or not it has run.
struct InboxGuard<M> {
    shared: Arc<Shared<M>>,
    core: CoreIndex,
}

impl<M> Drop for InboxGuard<M> {
    fn drop(&mut self) {
        if let Some(inbox) = self.shared.inboxes.get(usize::from(self.core)) {
            inbox.close();
        }
        if self.core == ACCEPTING_CORE {
            self.shared.listener_orders.stop();
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
