//! Serving: from a checked configuration to running cores, and back to nothing when a signal comes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use engine::{ConnectionLimits, ControlObserver, EngineConfig, Message};
use host::{Event, Journal, Kind, ListenerId};
use names::{ISCSI_PORT, NVME_PORT, Portal};
use reactor::{Cluster, Listener, Stopper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::accounts::Accounts;
use crate::config::{Config, PortalEntry, Protocol};
use crate::early::Early;
use crate::exports::{self, Opened, Wanted};
use crate::log::Log;
use crate::prepare::{prepare, reactor_config};
use crate::retired::Retired;
use crate::starter::{News, Start, Started, Starter};
use crate::state::States;
use crate::{descriptors, help, loss, randomness, ready, rescan, state, statistics};

/// Memory for data buffers in all, unless the configuration says otherwise.
const USUAL_MEMORY: u64 = 512 << 20;
/// The least memory for data buffers on each core: one largest transfer in, one out.
const LEAST_MEMORY: usize = 16 << 20;
/// How often the beginning is looked at: only a core that ends without a word needs it.
const GLANCE: Duration = Duration::from_secs(1);
/// How long connections get to end by themselves when the process is asked to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How long the flush that follows the last connection may take: what a page cache holds of a slow disk, and less than service managers wait.
const FLUSH: Duration = Duration::from_mins(1);

/// Serves what `config` says until SIGTERM or SIGINT; SIGHUP looks whether files and devices have other sizes. `say` is given
/// the lines that tell the user how to connect, and what has changed; `log` what happens.
pub fn serve(config: &Config, ready_file: Option<&Path>, say: &dyn Fn(&str), log: &Arc<Log>) -> Result<()> {
    let config = &with_usual_portals(config);
    let (accounts, findings) = prepare(config);
    if let Some(problem) = findings.problems.into_iter().next() {
        bail!(problem);
    }
    if let Some(path) = ready_file {
        ready::remove(path)?;
    }
    for warning in findings.warnings {
        log.record(Event::new(Kind::Configuration, warning));
    }
    let had_terminal = has_terminal();
    // Signals are caught before anything begins, so that none is missed: the first listener is for the time until all is open.
    let (tell, started) = mpsc::channel();
    let early = Early::watch(tell.clone())?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("signals cannot be caught")?;
    let cores = config.daemon.cores.unwrap_or(1);
    let cluster = Cluster::new(cores, reactor_config(config)?).context("the event loops cannot be made")?;
    let portals = listen(config, &cluster)?;
    let start = start_of(config, (accounts, Arc::clone(log)), portals.clone());
    let postbox = cluster.postbox();
    let stopper = cluster.stopper();
    let turns = cluster.turns();
    let threads = spawn(cluster, &start, &tell)?;
    let serving = start.ended(await_start(&started, &threads))?;
    drop(early);
    if !serving {
        say("stopped before every volume was open");
        stopper.stop();
        return Ok(());
    }
    // What opening took says nothing of serving.
    for core in &turns {
        core.forget();
    }
    let told = help::lines(&config.daemon, start.opened(), &portals)?;
    for line in told.into_iter().chain(start.missing()).chain(loss::lines(start.opened())) {
        say(&line);
    }
    start.ended(ready_file.map_or(Ok(()), |path| ready::write(path, &portals)).map(|()| true))?;

    let ended = Arc::new(OnceLock::new());
    let watcher = watch(threads, Arc::clone(&ended), signals.handle());
    for signal in &mut signals {
        if signal == SIGHUP && has_terminal() == had_terminal {
            for line in rescan::lines(start.opened()) {
                say(&line);
            }
            continue;
        }
        say("stopping: connections are told to leave");
        for core in 0..cores {
            postbox.post(core, Message::Shutdown);
        }
        let patience =
            Patience { ended: Arc::clone(&ended), start: Arc::clone(&start), cores: usize::from(cores) };
        let patient = stopper.clone();
        std::thread::spawn(move || patience.cut_off(&patient));
    }
    let outcome = watcher.join().map_err(|_| anyhow!("the watching thread failed"))?;
    if outcome.is_ok() {
        state::keep_marks(start.opened(), &start.secured(), say);
    }
    let told = if config.daemon.turns { statistics::turns(&turns) } else { Vec::new() };
    let lost = loss::lines(start.opened());
    for line in statistics::lines(start.opened()).into_iter().chain(told).chain(lost) {
        say(&line);
    }
    outcome
}

/// How long a stop may take.
struct Patience {
    ended: Arc<OnceLock<()>>,
    start: Arc<Start>,
    cores: usize,
}

impl Patience {
    /// Cuts off whoever is still connected after the grace. A last flush has longer: without it the clients must take what they wrote as lost.
    fn cut_off(&self, stopper: &Stopper) {
        std::thread::sleep(GRACE);
        if self.start.closing() == self.cores {
            let begun = Instant::now();
            while self.ended.get().is_none() && begun.elapsed() < FLUSH {
                std::thread::sleep(GLANCE);
            }
        }
        if self.ended.get().is_none() {
            stopper.stop();
        }
    }
}

/// Waits until all cores serve; false if a signal asks to stop before they do.
fn await_start(started: &Receiver<News>, threads: &[CoreThread]) -> Result<bool> {
    let mut serving = 0;
    while serving < threads.len() {
        let ended = threads.iter().any(JoinHandle::is_finished);
        match started.recv_timeout(GLANCE) {
            Ok(News::Core(result)) => result.map_err(|error| anyhow!(error))?,
            Ok(News::Asked) => return Ok(false),
            // It would have told.
            Err(_) if ended => bail!("an event loop ended before it began"),
            Err(_) => continue,
        }
        serving += 1;
    }
    Ok(true)
}

/// True while the process belongs to a terminal. One whose terminal is closed gets SIGHUP too, and is to end.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// The portals of the command line's simplest form: both protocols on loopback, when none is named.
fn with_usual_portals(config: &Config) -> Config {
    let mut config = config.clone();
    let loopback = |port| Portal::from(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    if config.portals.is_empty() {
        let usual = [(Protocol::Iscsi, ISCSI_PORT), (Protocol::Nvme, NVME_PORT)];
        config.portals = usual.map(|(protocol, port)| PortalEntry::at(protocol, loopback(port))).to_vec();
    }
    config
}

fn listen(config: &Config, cluster: &Cluster<Message>) -> Result<Vec<(Protocol, SocketAddr)>> {
    let mut portals = Vec::new();
    for (id, entry) in (0..).map(ListenerId).zip(&config.portals) {
        let Some(address) = entry.listen.address() else {
            bail!("{} is not an address to listen at: write an IP address and a port", entry.listen);
        };
        let listener = Listener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        portals.push((entry.protocol, listener.local()));
        cluster.control().open(id, listener)?;
    }
    Ok(portals)
}

fn engine_config(config: &Config, log: &Arc<Log>, retired: &Arc<Retired>) -> EngineConfig {
    let cores = usize::from(config.daemon.cores.unwrap_or(1).max(1));
    let memory = config.limits.memory.map_or(USUAL_MEMORY, |size| size.0);
    EngineConfig {
        pool_limit: (usize::try_from(memory).unwrap_or(usize::MAX) / cores).max(LEAST_MEMORY),
        entropy: randomness::source(),
        journal: Arc::clone(log) as Arc<dyn Journal>,
        observer: Arc::clone(retired) as Arc<dyn ControlObserver>,
    }
}

fn limits(config: &Config, log: &Log) -> ConnectionLimits {
    let cores = usize::from(config.daemon.cores.unwrap_or(1).max(1));
    let connections = descriptors::connections(config.limits.connections, config.volumes.len(), log);
    ConnectionLimits { per_core: connections.div_ceil(cores) }
}

/// What the cores begin with: the volumes to open, and what to make of them.
fn start_of(
    config: &Config,
    (accounts, log): (Accounts, Arc<Log>),
    portals: Vec<(Protocol, SocketAddr)>,
) -> Arc<Start> {
    let given = config.clone();
    let retired = Arc::new(Retired::default());
    let engine = engine_config(config, &log, &retired);
    let compose = Box::new(move |opened: &[Opened]| {
        let wanted = Wanted { config: &given, accounts: &accounts, opened };
        exports::catalogue(wanted, &portals, limits(&given, &log))
    });
    Start::new(config.volumes.clone(), States::new(config), (compose, engine), retired)
}

type CoreThread = JoinHandle<std::io::Result<()>>;

fn spawn(cluster: Cluster<Message>, start: &Arc<Start>, tell: &Started) -> Result<Vec<CoreThread>> {
    cluster
        .into_cores()
        .into_iter()
        .map(|core| {
            let (start, tell) = (Arc::clone(start), tell.clone());
            core.spawn(move |world| Starter::new(start, world, tell))
                .context("an event loop's thread cannot be started")
        })
        .collect()
}

/// Waits for all cores on a thread of its own, then ends the waiting for signals.
fn watch(
    threads: Vec<CoreThread>,
    ended: Arc<OnceLock<()>>,
    signals: signal_hook::iterator::Handle,
) -> JoinHandle<Result<()>> {
    std::thread::spawn(move || {
        let mut result = Ok(());
        for thread in threads {
            let outcome = thread.join().map_err(|_| anyhow!("an event loop panicked"));
            result = result.and(outcome.and_then(|outcome| outcome.context("an event loop failed")));
        }
        ended.get_or_init(|| ());
        signals.close();
        result
    })
}
