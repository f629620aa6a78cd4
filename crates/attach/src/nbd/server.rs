//! The server as a whole: from a plan to running cores, and back to nothing when a signal comes.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use host::ListenerId;
use names::VolumeUrl;
use reactor::{Cluster, Stopper};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use volume::Geometry;

use super::service::{CoreService, Message, News, Plan};
use crate::cores::Cores;
use crate::early::{self, Early};
use crate::limits::{GRACE, LEAST_MEMORY, MEMORY};
use crate::listen_address::{AllowedPeers, ListenAddress, check_reach, listen};
use crate::openings::Unopened;
use crate::ready_file;

/// A volume, and where it appears.
#[derive(Debug, Clone)]
pub struct NbdVolume {
    /// The volume.
    pub url: VolumeUrl,
    /// Where its clients connect.
    pub place: ListenAddress,
}

/// What is to be served, and how.
#[derive(Debug, Clone)]
pub struct NbdConfig {
    /// The volumes.
    pub volumes: Vec<NbdVolume>,
    /// Refuse writes.
    pub read_only: bool,
    /// Serve every client, also beyond loopback.
    pub allow_any: bool,
    /// Where the work is done.
    pub cores: Cores,
    /// Written once clients can connect: a line for each volume.
    pub ready_file: Option<PathBuf>,
}

/// How often the beginning is looked at: only a core that ends without a word needs it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

type CoreThread = JoinHandle<std::io::Result<()>>;

/// Serves until SIGTERM or SIGINT. `say` is given the lines that explain to the user how to connect.
pub fn serve(config: &NbdConfig, say: &dyn Fn(&str)) -> Result<()> {
    let peers = if config.allow_any { AllowedPeers::Anybody } else { AllowedPeers::ThisMachine };
    config.volumes.iter().try_for_each(|volume| check_reach(&volume.place, peers))?;
    // Signals are caught before anything begins, so that none is missed: the first listener is for the time until the volume is open.
    let (tell, news) = mpsc::channel();
    let early = Early::watch(tell.clone(), News::Asked)?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
    ready_file::remove(config.ready_file.as_deref())?;
    config.cores.bind()?;
    let count = config.cores.count();
    let cluster = Cluster::new(count, config.cores.reactor()).context("the event loops cannot be made")?;
    let (mut places, mut socket_files) = (Vec::new(), Vec::new());
    for (number, volume) in (0..).zip(&config.volumes) {
        let (listener, place, socket_file) = listen(&volume.place)?;
        cluster.control().open(ListenerId(number), listener)?;
        places.push(place);
        socket_files.extend(socket_file);
    }
    let (postbox, stopper) = (cluster.postbox(), cluster.stopper());
    let memory = (MEMORY / usize::from(count)).max(LEAST_MEMORY);
    let urls = config.volumes.iter().map(|volume| volume.url.clone()).collect();
    let plan = Plan { urls, read_only: config.read_only, memory };
    let threads = start(cluster, &plan, &tell)?;

    let served = wait_until_serving(config, &news, &threads).transpose();
    drop(early);
    let Some(served) = served else {
        say(early::STOPPED);
        stopper.stop();
        return end(threads, &stopper);
    };
    if let Ok(shapes) = &served {
        places.iter().zip(shapes).for_each(|(place, geometry)| announce(place, *geometry, say));
        let lines: Vec<String> = places.iter().map(|place| format!("nbd {place}")).collect();
        config.ready_file.as_deref().map_or(Ok(()), |path| ready_file::write(path, &lines.join("\n")))?;
        // Nothing else closes the handle: the iterator ends with the first signal only.
        if signals.forever().next().is_some() {
            say("detaching: requests under way are finished");
        }
    }
    for core in 0..count {
        postbox.post(core, Message::Shutdown);
    }
    let ended = end(threads, &stopper);
    served?;
    ended?;
    flushes(config, &news)
}

impl NbdConfig {
    /// How the user wrote a volume.
    fn url(&self, number: usize) -> String {
        self.volumes.get(number).map(|volume| volume.url.to_string()).unwrap_or_default()
    }
}

fn start(cluster: Cluster<Message>, plan: &Plan, tell: &mpsc::Sender<News>) -> Result<Vec<CoreThread>> {
    cluster
        .into_cores()
        .into_iter()
        .map(|core| {
            let (plan, tell) = (plan.clone(), tell.clone());
            core.spawn(move |world| CoreService::new(plan, world, tell))
                .context("an event loop's thread cannot be started")
        })
        .collect()
}

/// Waits for all cores to serve, or for the first that cannot; `None` when a signal comes before.
fn wait_until_serving(
    config: &NbdConfig,
    news: &Receiver<News>,
    threads: &[CoreThread],
) -> Result<Option<Vec<Geometry>>> {
    let (mut last, mut serving) = (None, 0);
    while serving < threads.len() {
        let ended = threads.iter().any(JoinHandle::is_finished);
        match news.recv_timeout(POLL_INTERVAL) {
            Ok(News::Serving(Ok(shapes))) => last = Some(shapes),
            Ok(News::Serving(Err(Unopened { number, error }))) => {
                return Err(error).with_context(|| format!("{} cannot be attached", config.url(number)));
            }
            Ok(News::Asked) => return Ok(None),
            // It would have reported that.
            Ok(News::Flushed(..)) => bail!("an event loop ended before it began"),
            Err(_) if ended => bail!("an event loop ended before it began"),
            Err(_) => continue,
        }
        serving += 1;
    }
    last.context("there is no event loop").map(Some)
}

/// Waits for the cores; connections that are still there after the grace are cut off.
fn end(threads: Vec<CoreThread>, stopper: &Stopper) -> Result<()> {
    let (over, wait) = mpsc::channel::<()>();
    let stopper = stopper.clone();
    let patient = std::thread::spawn(move || {
        if wait.recv_timeout(GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
            stopper.stop();
        }
    });
    let mut result = Ok(());
    for thread in threads {
        let outcome = thread.join().map_err(|_| anyhow!("an event loop panicked"));
        result = result.and(outcome.and_then(|outcome| outcome.context("an event loop failed")));
    }
    drop(over);
    patient.join().map_err(|_| anyhow!("the waiting thread failed"))?;
    result
}

fn flushes(config: &NbdConfig, news: &Receiver<News>) -> Result<()> {
    for one in news.try_iter() {
        if let News::Flushed(number, result) = one {
            result.with_context(|| format!("{}: the last flush failed", config.url(number)))?;
        }
    }
    Ok(())
}

fn announce(place: &ListenAddress, geometry: Geometry, say: &dyn Fn(&str)) {
    let uri = place.uri();
    say(&format!("{} bytes in blocks of {} at {uri}", geometry.bytes(), geometry.block_size));
    say(&format!("    QEMU:   qemu-img info '{uri}'"));
    say(&format!("            -drive 'file={uri},format=raw,if=virtio'"));
    say(&format!("    libnbd: nbdcopy '{uri}' disk.img"));
    match place {
        ListenAddress::Unix(path) => {
            say(&format!("    Linux:  nbd-client -unix {} /dev/nbd0", path.display()));
        }
        ListenAddress::Tcp(address) => {
            say(&format!("    Linux:  nbd-client {} {} /dev/nbd0", address.ip(), address.port()));
        }
    }
}
