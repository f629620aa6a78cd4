//! Opening a volume by its URL: what may block on a thread of its own, the rest on a core, for a remote volume over a few round trips.

use std::sync::Arc;

use backends::{LocalOpener, SystemResolver, SystemSecrets};
use cache::CacheOpener;
use engine::remote::{self, NfsUser, RemoteOpener};
use host::{Dialer, Storage};
use ibverbs::SystemAdapters;
use mirror::{Background, MirrorOpener};
use names::{Source, VolumeUrl};
use protocol::Instant;
use reactor::CoreDialer;
use vhost_user::{SharedMemory, VhostUserOpener};
use volume::{OpenError, OpenStage, Opened, Openers, PreparedOpen, QueueContext, Ready};

use crate::job::Environment;
use crate::limits::OPEN_TIMEOUT;
use crate::preparing::{Preparing, PreparingEnded, on_thread};

/// The openers of this library: volumes of this machine, with files and devices from `storage`, and of others, reached through `dialer`. A program
/// that has volumes of its own kinds adds an opener for them.
pub fn openers(storage: &Arc<dyn Storage>, dialer: &Arc<dyn Dialer>) -> Openers {
    let remote = RemoteOpener {
        dialer: Arc::clone(dialer),
        adapters: Arc::new(SystemAdapters::default()),
        entropy: Arc::new(|| Box::new(SystemEntropy)),
        resolver: Arc::new(SystemResolver),
        secrets: Arc::new(SystemSecrets),
        user: user(),
    };
    let mirrors = MirrorOpener {
        owner: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        entropy: Arc::new(|| Box::new(SystemEntropy)),
        background: Arc::new(Threads),
    };
    let shared = VhostUserOpener { memory: SharedMemory::of_process(), dialer: Arc::clone(dialer) };
    Openers::new()
        .with(Arc::new(LocalOpener(Arc::clone(storage))))
        .with(Arc::new(remote))
        .with(Arc::new(shared))
        .with(Arc::new(CacheOpener { entropy: Arc::new(|| Box::new(SystemEntropy)) }))
        .with(Arc::new(mirrors))
}

/// Who this process is to an NFS server.
pub(crate) fn user() -> NfsUser {
    let groups = rustix::process::getgroups().unwrap_or_default();
    NfsUser {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.iter().map(|group| group.as_raw()).collect(),
        reads_only: false,
    }
}

/// Prepares legs of mirrors that were not there when the mirror was opened, each on a thread of its own.
#[derive(Debug)]
struct Threads;

impl Background for Threads {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        // Without a thread the leg stays missing, and is tried again later.
        let _no_thread = on_thread(work);
    }
}

/// A volume of which everything that may block is done: files are open, secrets read, names of machines looked up. What is left to do for a
/// volume of another machine belongs to an event loop.
pub struct PreparedOpening {
    url: VolumeUrl,
    prepared: Box<dyn PreparedOpen>,
}

impl PreparedOpening {
    /// Does what may block, with files and devices from `storage`: a thread that serves must not call it. What went wrong is what opening
    /// ends with.
    pub fn new(url: &VolumeUrl, storage: &Arc<dyn Storage>) -> Self {
        Self::with(url, &openers(storage, &(Arc::new(CoreDialer) as Arc<dyn Dialer>)))
    }

    /// The same by other openers.
    pub fn with(url: &VolumeUrl, openers: &Openers) -> Self {
        let prepared = openers.prepare(url).unwrap_or_else(|error| Box::new(Ready::failed(error)));
        Self { url: url.clone(), prepared }
    }

    /// Does what may block on a thread of its own, which then calls `then`: a name, a secret or a file that is slow holds up nobody else.
    pub(crate) fn on_thread(
        url: &VolumeUrl,
        openers: Openers,
        then: impl FnOnce(Self) + Send + 'static,
    ) -> std::io::Result<()> {
        let url = url.clone();
        on_thread(move || then(Self::with(&url, &openers)))
    }

    /// Does the rest, on the calling core, which is described by `context`: its waker is woken when there is news, and the volume may use
    /// memory of its pool.
    pub fn begin(self, context: &QueueContext) -> Opening {
        Opening { url: self.url, stage: Stage::Begun(self.prepared.begin(context)), deadline: None }
    }
}

/// A volume that is being opened, on an event loop of the caller's own: whoever serves or attaches volumes. It is polled on the core's
/// thread that began it, whenever the core's waker is woken or its deadline comes.
pub struct Opening {
    url: VolumeUrl,
    stage: Stage,
    /// Counts from the first turn in which nothing is left that may block.
    deadline: Option<Instant>,
}

/// How far an opening is.
enum Stage {
    /// Another thread does what may block.
    Preparing { news: Preparing<PreparedOpening>, context: QueueContext },
    /// The rest is done here.
    Begun(Box<dyn volume::Opening>),
}

impl Opening {
    /// Begins to open what `url` names, on the calling core, which is described by `context`. A thread of its own does what may block; the
    /// core's waker is woken when that is done.
    pub(crate) fn new(url: &VolumeUrl, environment: &Environment, context: QueueContext) -> Self {
        Self::by(url, openers(&environment.storage, &environment.dialer), context)
    }

    /// The same by these openers.
    fn by(url: &VolumeUrl, openers: Openers, context: QueueContext) -> Self {
        let (mut preparer, news) = Preparing::begin(&context.waker);
        let stage = match PreparedOpening::on_thread(url, openers, move |prepared| preparer.tell(prepared)) {
            Ok(()) => Stage::Preparing { news, context },
            Err(error) => Stage::Begun(Box::new(Ready::failed(no_thread(&error)))),
        };
        Self { url: url.clone(), stage, deadline: None }
    }

    /// The volume or why it could not be opened, once that is known.
    pub fn poll(&mut self, now: Instant) -> Option<Opened> {
        if let Stage::Preparing { news, context } = &self.stage {
            let begun = match news.poll()? {
                Ok(PreparedOpening { prepared, .. }) => prepared.begin(context),
                Err(PreparingEnded) => {
                    Box::new(Ready::failed(OpenError::new("the thread that prepares it has failed")))
                }
            };
            self.stage = Stage::Begun(begun);
        }
        let Stage::Begun(inner) = &mut self.stage else { return None };
        let deadline = *self.deadline.get_or_insert(now + OPEN_TIMEOUT);
        let opened = inner.poll(now);
        if opened.is_none() && now >= deadline {
            return Some(Err(OpenError::new(format!(
                "no answer within {} s; check the address, and that the server is well",
                OPEN_TIMEOUT.as_secs()
            ))
            .at(OpenStage::Connection)));
        }
        opened
    }

    /// When to poll again even if nothing wakes the core.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let inner = match &self.stage {
            Stage::Preparing { .. } => None,
            Stage::Begun(inner) => inner.poll_timeout(),
        };
        [self.deadline, inner].into_iter().flatten().min()
    }
}

/// Why an opening cannot be prepared.
fn no_thread(error: &std::io::Error) -> OpenError {
    OpenError::new(format!("no thread can be started that prepares it: {error}"))
}

impl std::fmt::Debug for PreparedOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedOpening").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opening").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

/// What trying to open a volume without leaving this machine came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// It is on this machine, and can be opened.
    Here,
    /// It is on another machine, which was not asked: only the secrets for it were read.
    Elsewhere,
}

/// Tries to open what `url` names as far as that goes on this machine, with files and devices from `storage`. The error is the one that
/// opening would end with.
pub fn try_here(url: &VolumeUrl, storage: &Arc<dyn Storage>) -> Result<Tried, OpenError> {
    match &url.source {
        Source::Iscsi(url) => remote::read_secrets(&url.options, &SystemSecrets).map(|_| Tried::Elsewhere),
        Source::Nvme(_) | Source::Nfs(_) => Ok(Tried::Elsewhere),
        Source::Composite(composite) => {
            let mut all = Tried::Here;
            for child in &composite.children {
                if try_here(child, storage)? == Tried::Elsewhere {
                    all = Tried::Elsewhere;
                }
            }
            Ok(all)
        }
        _ => backends::open(url, storage).map(|_| Tried::Here),
    }
}

/// What remote volumes may use of a job's environment.
pub(crate) fn client_environment(environment: &Environment) -> remote::ClientContext {
    remote::ClientContext {
        dialer: Arc::clone(&environment.dialer),
        adapters: Arc::new(SystemAdapters::default()),
        waker: environment.waker.clone(),
        entropy: Arc::new(|| Box::new(SystemEntropy)),
    }
}

/// The operating system's randomness.
#[derive(Debug)]
struct SystemEntropy;

impl protocol::Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Without randomness no challenge is safe: a process that cannot get any must not go on.
        if getrandom::fill(bytes).is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use buf::Pool;
    use volume::{CoreId, Opener};

    use super::*;

    /// Opens nothing, and tells how many bytes the pool has that it is given.
    #[derive(Clone, Default)]
    struct Curious(Arc<Mutex<Vec<usize>>>);

    impl Opener for Curious {
        fn schemes(&self) -> &'static [&'static str] {
            &["null"]
        }

        fn prepare(&self, _url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl PreparedOpen for Curious {
        fn begin(self: Box<Self>, context: &QueueContext) -> Box<dyn volume::Opening> {
            self.0.lock().unwrap().push(context.pool.usage().limit);
            Box::new(Ready::failed(OpenError::new("opens nothing")))
        }
    }

    #[test]
    fn a_volume_is_opened_with_the_pool_of_its_core() {
        let curious = Curious::default();
        let openers = Openers::new().with(Arc::new(curious.clone()));
        let url: VolumeUrl = "null:1M".parse().unwrap();
        let context = || QueueContext::new(CoreId(0), std::task::Waker::noop().clone(), Pool::new(12 << 10));
        let mut here = PreparedOpening::with(&url, &openers).begin(&context());
        assert!(here.poll(Instant::ZERO).is_some());
        let mut elsewhere = Opening::by(&url, openers, context());
        while elsewhere.poll(Instant::ZERO).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(*curious.0.lock().unwrap(), [12 << 10; 2]);
    }
}
