//! What is compared: each arm starts its target and says how the load reaches it.
//!
//! An arm is an implementation, ours or a peer's. [`Served`] is what is there once the target (or the process that
//! speaks the protocol for the host) is ready: the processes whose time and memory are accounted, and the endpoints that a
//! load tool opens.

mod attach;
pub(crate) mod bareloop;
mod filesystem;
mod ganesha;
mod linerate;
mod nbdkit;
pub mod postgresql;
mod qemu;
mod ready;
mod stream;
mod tgt;

pub use filesystem::Filesystem;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::runner::ledger::{Ledger, Thing};
use crate::runner::process::{Placement, Running};
use crate::runner::program;
use crate::runner::topology::Host;
use crate::scenario::{Initiator, Target};

/// How long an adapter may take to end by itself.
const ADAPTER_PATIENCE: Duration = Duration::from_secs(5);
/// Folders that were made so far: each has a name of its own.
static SCRATCH: AtomicU32 = AtomicU32::new(0);

/// The volumes behind the targets of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volumes {
    /// Targets (iSCSI targets, NVMe subsystems, exports); at least 1.
    pub targets: u32,
    /// Volumes of each target; at least 1.
    pub luns: u32,
    /// What each volume is: a volume URL in which `{n}` is its number from 0 and `{folder}` the point's folder.
    pub url: String,
}

/// Something that a load tool opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// `iscsi://…`, `nvme+tcp://…`, `nbd+unix:///…?socket=…`, `nbd://…`, `nfs://…`, a path, a local volume's URL,
    /// `host:port` of a stream, or `postgresql:///…`.
    pub url: String,
    /// Its size in bytes; 0 when it has none.
    pub size: u64,
}

/// For whom a process works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// It speaks the protocol for the host.
    Adapter,
    /// It serves.
    Target,
}

/// A process that runs for an arm.
#[derive(Debug)]
pub struct Service {
    /// For whom.
    pub side: Side,
    /// The program's name.
    pub name: String,
    /// What it says of its version.
    pub version: String,
    /// The process.
    pub running: Running,
}

impl Drop for Service {
    fn drop(&mut self) {
        // An adapter is asked, so that it logs out and unmounts; what serves keeps nothing that would be worth waiting for.
        if self.side == Side::Adapter {
            self.running.stop(ADAPTER_PATIENCE);
        }
    }
}

/// What runs, and what can be opened. Dropping it ends the processes.
#[derive(Debug, Default)]
pub struct Served {
    /// The processes.
    pub services: Vec<Service>,
    /// Target 0 LUN 0, LUN 1, …, target 1 LUN 0, …
    pub endpoints: Vec<Endpoint>,
}

/// What a target needs to know.
#[derive(Debug, Clone, Copy)]
pub struct ServeSpec<'a> {
    /// What it serves.
    pub volumes: &'a Volumes,
    /// Where it listens.
    pub host: &'a Host,
    /// Where its files go; there must be nobody else's.
    pub folder: &'a Path,
    /// Where it runs.
    pub placement: &'a Placement,
    /// The `linerate` program itself.
    pub linerate: &'a Path,
    /// Event loops of Linerate's target; others have what they have.
    pub cores: u32,
    /// How long the target looks for work before it sleeps, where it is told.
    pub spin: Option<&'a str>,
}

/// What an adapter needs to know.
#[derive(Debug, Clone, Copy)]
pub struct AdaptSpec<'a> {
    /// What the targets offer.
    pub endpoints: &'a [Endpoint],
    /// The initiating host.
    pub host: &'a Host,
    /// Where its files go.
    pub folder: &'a Path,
    /// Where it runs.
    pub placement: &'a Placement,
    /// The `linerate` program itself.
    pub linerate: &'a Path,
}

/// Makes whoever opens these endpoints of Linerate's ask for digests.
pub fn protect(endpoints: &mut [Endpoint]) {
    endpoints.iter_mut().for_each(linerate::with_digests);
}

/// Starts what serves, and waits until it can be used.
pub fn serve(target: Target, spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    match target {
        Target::LinerateIscsi => linerate::serve(linerate::Protocol::Iscsi, spec, ledger),
        Target::LinerateNvme => linerate::serve(linerate::Protocol::Nvme, spec, ledger),
        Target::Tgt => tgt::serve(spec, ledger),
        Target::Stream => stream::serve(spec, ledger),
        Target::BareLoop => bareloop::serve(spec, ledger),
        Target::None => Ok(local(spec)),
        Target::Nbdkit => nbdkit::serve(spec, ledger),
        Target::Ganesha => ganesha::serve(spec, ledger),
        Target::Site => bail!("the target is the site's: name it with --site"),
    }
}

/// How an adapter hands volumes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handing {
    /// As NBD exports on a local socket.
    Nbd,
    /// As files, through FUSE.
    Fuse,
}

/// Starts what speaks the protocol for the host, if that is a process of its own.
pub fn adapt(initiator: Initiator, spec: &AdaptSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    match initiator {
        Initiator::LinerateNbd => attach::adapt(Handing::Nbd, spec, ledger),
        Initiator::LinerateFuse => attach::adapt(Handing::Fuse, spec, ledger),
        Initiator::LibiscsiNbd | Initiator::QemuNbd => qemu::adapt(Handing::Nbd, spec, ledger),
        Initiator::NbdkitNbd => nbdkit::adapt(spec, ledger),
        Initiator::LibiscsiFuse | Initiator::Libnfs => qemu::adapt(Handing::Fuse, spec, ledger),
        _ => Ok(Served { services: Vec::new(), endpoints: spec.endpoints.to_vec() }),
    }
}

/// Programs that an arm needs and that are not installed, each with its package.
pub fn missing(target: Target, initiator: Initiator) -> Vec<String> {
    let serving: &[&str] = match target {
        Target::Tgt => &["tgtd", "tgtadm"],
        Target::Stream => &["iperf3"],
        Target::Nbdkit => &[nbdkit::PROGRAM],
        Target::Ganesha => &[ganesha::PROGRAM, ganesha::MAPPER],
        _ => &[],
    };
    let asking: &[&str] = match initiator {
        Initiator::LibiscsiPerf => &["iscsi-perf"],
        Initiator::LibiscsiNbd | Initiator::LibiscsiFuse | Initiator::QemuNbd => &[qemu::PROGRAM, "fio"],
        Initiator::NbdkitNbd => &[nbdkit::PROGRAM, "fio"],
        Initiator::LinerateFio
        | Initiator::LinerateNbd
        | Initiator::LinerateFuse
        | Initiator::LibiscsiFio => &["fio"],
        Initiator::Stream => &["iperf3"],
        Initiator::Libnfs => &[qemu::PROGRAM],
        _ => &[],
    };
    let absent = serving.iter().chain(asking).filter(|name| program::find(name).is_none());
    let mut words: Vec<String> = absent.map(|name| program::not_there(name)).collect();
    if matches!(initiator, Initiator::LibiscsiNbd | Initiator::LibiscsiFuse) {
        words.extend(qemu::missing_module(qemu::ISCSI));
    }
    if initiator == Initiator::Libnfs {
        words.extend(qemu::missing_module(qemu::NFS));
    }
    if target == Target::BareLoop {
        words.extend(bareloop::missing());
    }
    words
}

/// The volumes themselves.
fn local(spec: &ServeSpec<'_>) -> Served {
    let size = volume_size(&spec.volumes.url);
    let url = |number| volume_url(&spec.volumes.url, number, spec.folder);
    let endpoints = numbers(spec.volumes).map(|(_, _, number)| Endpoint { url: url(number), size });
    Served { services: Vec::new(), endpoints: endpoints.collect() }
}

/// Target, LUN and number of every volume, in order.
fn numbers(volumes: &Volumes) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
    let luns = volumes.luns.max(1);
    (0..volumes.targets).flat_map(move |target| (0..luns).map(move |lun| (target, lun, target * luns + lun)))
}

/// A volume's URL with its number and folder in their places.
fn volume_url(url: &str, number: u32, folder: &Path) -> String {
    url.replace("{n}", &number.to_string()).replace("{folder}", &folder.display().to_string())
}

/// Bytes of a volume, as its URL says; 0 where it does not.
fn volume_size(url: &str) -> u64 {
    let size = match url.split_once("size=") {
        Some((_, size)) => size.split('&').next(),
        None => url.split_once(':').and_then(|(_, size)| size.split('?').next()),
    };
    size.and_then(|size| size.parse::<names::ByteSize>().ok()).map_or(0, |size| size.0)
}

/// The file of a `file:` volume, made and grown to `size` where it is smaller.
fn file(url: &str, size: u64) -> Result<PathBuf> {
    let path = url.strip_prefix("file:").and_then(|rest| rest.split('?').next());
    sized(path.with_context(|| format!("{url} is no file: volume"))?.into(), size)
}

/// Makes a file of at least `size` bytes.
fn sized(path: PathBuf, size: u64) -> Result<PathBuf> {
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let grown = file.and_then(|file| if file.metadata()?.len() < size { file.set_len(size) } else { Ok(()) });
    grown.with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// A folder of an arm in memory where there is such a place: for control sockets, whose paths must be short, and for
/// volumes that are to be in memory.
fn scratch(name: &str, ledger: &mut Ledger) -> Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let number = SCRATCH.fetch_add(1, Ordering::Relaxed);
    let path = base.join(format!("linerate-lab-{}-{number}-{name}", std::process::id()));
    ledger.add(Thing::Folder { path: path.clone() })?;
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// What a program says of its version, in its first line.
pub fn version(program: &str) -> Result<String> {
    let flag = if matches!(program, "iperf3" | ganesha::PROGRAM) { "-v" } else { "--version" };
    let said = program::output(&[program, flag], Duration::from_secs(10))?;
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}
