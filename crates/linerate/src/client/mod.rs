//! Volumes for programs that do many things at once: event loops on threads of their own, disks that any thread uses.
//!
//! A [`Client`] has cores, each an event loop on its own thread. A [`Disk`] is a volume that was opened by its URL; its
//! clones are one disk. There are three ways to use it, and they mix: callbacks ([`Disk::submit`]), futures that need no
//! particular runtime ([`Disk::read`] and its siblings), and calls that wait ([`Disk::blocking`]).
//!
//! ```
//! use linerate::{Client, ClientConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::start(&ClientConfig::default())?;
//! let disk = client.open(&"ram:1M".parse()?)?.blocking();
//! disk.write_at(4096, &[7; 512])?;
//! let mut back = [0; 512];
//! disk.read_at(4096, &mut back)?;
//! assert_eq!(back, [7; 512]);
//! # Ok(()) }
//! ```
//!
//! Programs with a loop of their own turn [`Inline`] instead, which has no thread at all.
//!
//! | module | what |
//! |---|---|
//! | `core` | what runs on a core's thread |
//! | `disk_queue` | one disk on one core |
//! | `disk`, `blocking`, `bytes` | what programs hold |
//! | `shared` | what clients and disks hold together |
//! | `answer`, `permits` | waiting: for a result, for room |
//! | `inline` | the same queues on the calling thread |

mod answer;
mod blocking;
mod bytes;
mod core;
mod disk;
mod disk_queue;
pub(crate) mod error;
mod inline;
mod permits;
mod shared;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ::volume::{OpenError, UsedVolumes};
use host::CoreIndex;
use names::VolumeUrl;
use reactor::{Cluster, Config, CoreDialer, Files};
use rustix::thread::CpuSet;

pub use answer::block_on;
pub use blocking::BlockingDisk;
pub use bytes::Bytes;
pub use disk::{Disk, Run};
pub use error::DiskError;
pub use inline::{Inline, InlineDone};
pub use reactor::driver::Wait;
pub use reactor::{Congestion, Driver};

use self::answer::answer;
use self::core::{CoreService, Message, OpenReply};
use self::shared::Shared;
use crate::error::Error;
use crate::limits::{CLIENT_DEPTH, CLIENT_MEMORY};
use crate::open::{PreparedOpening, openers};

/// How a client works. The default is right for most programs.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Event loops, each on a thread of its own; at least one. A remote disk has a connection for each.
    pub cores: CoreIndex,
    /// Processors that the cores' threads are bound to, the first core's first. Cores beyond the list stay free.
    pub cpus: Vec<usize>,
    /// How long a core that expects an answer looks for it before it sleeps; `None` for what suits the machine.
    pub spin: Option<Duration>,
    /// TCP congestion control of the connections.
    pub congestion: Congestion,
    /// Requests under way at a time for each disk and core, at least one; less where the volume takes less. More wait.
    pub depth: usize,
    /// Bytes of memory that a core keeps for reads that bring none of their own.
    pub memory: usize,
    /// Which mechanism of the kernel moves the bytes.
    pub driver: Driver,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            cores: 1,
            cpus: Vec::new(),
            spin: None,
            congestion: Congestion::default(),
            depth: CLIENT_DEPTH,
            memory: CLIENT_MEMORY,
            driver: Driver::Auto,
        }
    }
}

impl ClientConfig {
    /// The same for the event loops.
    fn reactor(&self) -> Config {
        let usual = Config::default();
        Config {
            driver: self.driver,
            spin: self.spin.unwrap_or(usual.spin),
            congestion: self.congestion,
            ..usual
        }
    }
}

/// Event loops that open volumes. Clones are handles to the same loops, which end when the last handle and the last
/// [`Disk`] are gone.
///
/// Threads do not survive a `fork`: start a client in the process that uses it.
#[derive(Debug, Clone)]
pub struct Client(Arc<Shared>);

impl Client {
    /// Starts the event loops.
    pub fn start(config: &ClientConfig) -> Result<Self, Error> {
        static CLIENTS: AtomicU64 = AtomicU64::new(1);
        let id = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let cluster: Cluster<Message> = Cluster::new(config.cores.max(1), config.reactor())?;
        let postbox = cluster.postbox();
        let depth = config.depth.max(1);
        let mut shared = Shared { id, depth, postbox, threads: Vec::new(), next_disk: AtomicU64::new(0) };
        for core in cluster.into_cores() {
            let cpu = config.cpus.get(usize::from(core.index())).copied();
            shared.threads.push(start_core(core, CorePlan { client: id, cpu, memory: config.memory })?);
        }
        Ok(Self(Arc::new(shared)))
    }

    /// Opens a volume. Waits until it is open: a remote one is asked what it is, which takes a few round trips.
    pub fn open(&self, url: &VolumeUrl) -> Result<Disk, Error> {
        block_on(self.open_async(url))
    }

    /// The same for programs that must not wait.
    pub async fn open_async(&self, url: &VolumeUrl) -> Result<Disk, Error> {
        let failed = |error| Error::Open { url: url.to_string(), error };
        let gone = || OpenError::new("the client has ended");
        let (reply, opened) = answer();
        self.prepare(url, reply)?;
        let volume = opened.await.unwrap_or_else(|| Err(gone())).map_err(failed)?;
        let id = self.0.next_disk.fetch_add(1, Ordering::Relaxed);
        let disk = Disk::new(Arc::clone(&self.0), id, url.to_string(), Arc::clone(&volume));
        let used = UsedVolumes::new(vec![volume]);
        for core in 0..self.0.postbox.cores() {
            let (reply, attached) = answer();
            self.0.postbox.post(core, Message::Attach { disk: id, volume: used.clone(), reply });
            attached.await.unwrap_or_else(|| Err(gone())).map_err(failed)?;
        }
        Ok(disk)
    }

    /// Looks names up, reads secrets and opens files on a thread of its own, and leaves the rest to core 0: the disks that a core
    /// has already do not wait for it.
    fn prepare(&self, url: &VolumeUrl, reply: OpenReply) -> io::Result<()> {
        let postbox = Arc::clone(&self.0.postbox);
        let openers = openers(&(Arc::new(Files) as _), &(Arc::new(CoreDialer) as _));
        let then = move |prepared| postbox.post(0, Message::Open { prepared: Box::new(prepared), reply });
        PreparedOpening::on_thread(url, openers, then)
    }
}

impl Disk {
    /// The client that it belongs to.
    pub fn client(&self) -> Client {
        Client(Arc::clone(self.shared()))
    }
}

/// What a client's core is started with.
struct CorePlan {
    /// The client's number.
    client: u64,
    /// The processor to bind its thread to.
    cpu: Option<usize>,
    /// Bytes that it keeps for reads that bring no memory.
    memory: usize,
}

/// Runs a core on a new thread; gives the thread once its loop is there.
fn start_core(
    core: reactor::Core<Message>,
    CorePlan { client, cpu, memory }: CorePlan,
) -> Result<JoinHandle<io::Result<()>>, Error> {
    let (started, hears) = mpsc::channel();
    let run = move || {
        if let Some(cpu) = cpu {
            bind(cpu)?;
        }
        core.run(|world| {
            let service = CoreService::new(&world, client, memory);
            // Nobody hears it only when whoever started the core has given up.
            let _ = started.send(());
            service
        })
        .map(drop)
    };
    let thread = std::thread::Builder::new().name("linerate".to_owned()).spawn(run)?;
    if hears.recv().is_ok() {
        return Ok(thread);
    }
    match thread.join() {
        Ok(Err(error)) => Err(error.into()),
        _ => Err(io::Error::other("the event loop ended before it began").into()),
    }
}

/// Binds the calling thread to a processor.
fn bind(cpu: usize) -> io::Result<()> {
    let refused = |why: &str| io::Error::other(format!("a core cannot be bound to processor {cpu}: {why}"));
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused("there is none of that number"));
    }
    let mut one = CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).map_err(|error| refused(&error.to_string()))
}
