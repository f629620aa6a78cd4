//! Serving: from a checked configuration to running cores, and back to nothing when a signal comes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Sender};

use anyhow::{Context, Result, anyhow};
use engine::{ControlObserver, EngineConfig, Message, RoceCounters};
use host::{Event, Journal, Kind, Level};
use ibverbs::SystemAdapters;
use names::{ISCSI_PORT, NFS_PORT, NVME_PORT, Portal};
use reactor::Cluster;

use crate::config::{Config, PortalEntry, Protocol};
use crate::control::{Asked, Checked, Controller, CoreThread, Process};
use crate::control_input::{ControlInput, CoreLife, EngineEvents};
use crate::departures::Departures;
use crate::log::Log;
use crate::openings::Openings;
use crate::prepare::{USUAL_MEMORY, reactor_config};
use crate::serving_core::{Cores, ServingCore};
use crate::signals::SignalWatch;
use crate::state::States;
use crate::{help, loss, randomness, ready_file, rescan, statistics};

/// The least memory for data buffers on each core: one largest transfer in, one out.
const LEAST_MEMORY: usize = 16 << 20;

/// Where a configuration comes from that may be another one later.
pub trait ConfigSource {
    /// The configuration as it is now.
    ///
    /// # Errors
    /// It cannot be read, or says something that has no meaning.
    fn load(&self) -> Result<Config>;
}

/// What serving may do beside.
#[derive(Clone, Copy, Default)]
pub struct ServeOptions<'a> {
    /// Where SIGHUP finds the next configuration; without it the first one holds for life.
    pub source: Option<&'a dyn ConfigSource>,
    /// The file that is written once everything listens, and again when that changes.
    pub ready_file: Option<&'a Path>,
}

impl std::fmt::Debug for ServeOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeOptions").field("ready_file", &self.ready_file).finish_non_exhaustive()
    }
}

/// Serves what `config` says until SIGTERM or SIGINT; SIGHUP looks whether files and devices have other sizes, and whether the configuration is
/// another one. `say` is given the lines that tell the user how to connect, and what has changed; `log` what happens.
///
/// # Errors
/// The configuration is wrong, or cannot be served; or an event loop has failed.
pub fn serve(config: &Config, options: ServeOptions<'_>, say: &dyn Fn(&str), log: &Arc<Log>) -> Result<()> {
    let checked = Checked::new(with_usual_portals(config.clone()));
    let checked = checked.map_err(|problems| anyhow!(problems.into_iter().next().unwrap_or_default()))?;
    if let Some(path) = options.ready_file {
        ready_file::remove(path)?;
    }
    let (tell, inbox) = mpsc::channel();
    // Signals are caught before anything begins, so that none is missed.
    let _signals = SignalWatch::begin(tell.clone())?;
    let cluster = Cluster::new(config.daemon.cores.unwrap_or(1), reactor_config(config)?);
    let cluster = cluster.context("the event loops cannot be made")?;
    let turns = cluster.turns();
    let (departures, roce) = (Arc::new(Departures::default()), Arc::default());
    let adapters = SystemAdapters::default();
    let events = EngineEvents { tell: tell.clone(), departures: Arc::clone(&departures) };
    let parts = EngineParts { adapters: adapters.clone(), roce: Arc::clone(&roce) };
    let cores = Arc::new(Cores {
        engine: Arc::new(engine_config(config, log, events, parts)),
        openings: Arc::new(Openings::default()),
        closing: AtomicUsize::new(0),
    });
    let process = Process {
        inbox,
        postbox: cluster.postbox(),
        listeners: cluster.control(),
        adapters,
        stopper: cluster.stopper(),
        threads: spawn(cluster, &cores, &tell)?,
        tell,
        cores,
        log: Arc::clone(log),
        departures,
    };
    let mut controller = Controller::new(process, States::new(config));
    let begun = controller.begin(checked);
    let begun =
        begun.and_then(|begun| if begun { welcome(&controller, config, options, say) } else { Ok(false) });
    if !matches!(begun, Ok(true)) {
        if begun.is_ok() {
            say("stopped before every volume was open");
        }
        let ended = controller.give_up();
        return begun.and(ended);
    }
    // What opening took says nothing of serving.
    for core in &turns {
        core.forget();
    }
    control(&mut controller, options, say, log);
    let outcome = controller.join();
    if outcome.is_ok() {
        controller.keep_marks(say);
    }
    let told = if config.daemon.turns { statistics::turns(&turns) } else { Vec::new() };
    let lost = loss::lines(controller.opened());
    let shared = statistics::shares(controller.shares());
    let counted = statistics::lines(controller.opened()).into_iter().chain(shared);
    let packets = statistics::packets(&roce);
    let caches = statistics::caches(controller.opened());
    for line in counted.chain(caches).chain(packets).chain(controller.reloads_line()).chain(told).chain(lost)
    {
        say(&line);
    }
    outcome
}

/// Tells that everything is served, and where.
fn welcome(
    controller: &Controller,
    config: &Config,
    options: ServeOptions<'_>,
    say: &dyn Fn(&str),
) -> Result<bool> {
    let (opened, portals) = (controller.opened(), controller.portals());
    let told =
        help::lines(&config.daemon, help::Served { volumes: opened, shares: controller.shares() }, &portals)?;
    for line in told.into_iter().chain(controller.missing()).chain(loss::lines(opened)) {
        say(&line);
    }
    options.ready_file.map_or(Ok(()), |path| ready_file::write(path, &portals)).map(|()| true)
}

/// Does what signals ask for, until all event loops have ended.
fn control(controller: &mut Controller, options: ServeOptions<'_>, say: &dyn Fn(&str), log: &Log) {
    while let Some(asked) = controller.wait() {
        match asked {
            Asked::Stop => {
                say("stopping: connections are told to leave");
                controller.stop();
            }
            Asked::Reload => {
                let told = rescan::lines(controller.opened());
                for line in told.into_iter().chain(statistics::caches(controller.opened())) {
                    say(&line);
                }
                let Some(source) = options.source else { continue };
                let applied = controller.reload(|| source.load().map(with_usual_portals));
                let Some(path) = options.ready_file.filter(|_| applied) else { continue };
                if let Err(error) = ready_file::write(path, &controller.portals()) {
                    let event = Event::new(Kind::Configuration, format!("{error:#}"));
                    log.record(event.at(Level::Error));
                }
            }
        }
    }
}

/// The portals of the command line's simplest form: on loopback, the protocols of what is served, when none is named.
fn with_usual_portals(mut config: Config) -> Config {
    let loopback = |port| Portal::from(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    if config.portals.is_empty() {
        let mut usual = Vec::new();
        if !config.volumes.is_empty() || config.shares.is_empty() {
            usual.extend([(Protocol::Iscsi, ISCSI_PORT), (Protocol::Nvme, NVME_PORT)]);
        }
        if !config.shares.is_empty() {
            usual.push((Protocol::Nfs, NFS_PORT));
        }
        let at = |(protocol, port)| PortalEntry::at(protocol, loopback(port));
        config.portals = usual.into_iter().map(at).collect();
    }
    config
}

/// What the engine shares with the rest of the server.
struct EngineParts {
    adapters: SystemAdapters,
    roce: Arc<RoceCounters>,
}

fn engine_config(config: &Config, log: &Arc<Log>, events: EngineEvents, parts: EngineParts) -> EngineConfig {
    let cores = usize::from(config.daemon.cores.unwrap_or(1).max(1));
    let memory = config.limits.memory.map_or(USUAL_MEMORY, |size| size.0);
    EngineConfig {
        pool_limit: (wire::index(memory) / cores).max(LEAST_MEMORY),
        entropy: randomness::source(),
        adapters: Arc::new(parts.adapters),
        journal: Arc::clone(log) as Arc<dyn Journal>,
        observer: Arc::new(events) as Arc<dyn ControlObserver>,
        roce: parts.roce,
    }
}

fn spawn(
    cluster: Cluster<Message>,
    cores: &Arc<Cores>,
    tell: &Sender<ControlInput>,
) -> Result<Vec<CoreThread>> {
    cluster
        .into_cores()
        .into_iter()
        .map(|core| {
            let (cores, tell) = (Arc::clone(cores), tell.clone());
            let life = CoreLife(tell.clone());
            core.spawn(move |world| ServingCore::new(cores, world, tell, life))
                .context("an event loop's thread cannot be started")
        })
        .collect()
}
