//! `linerate serve`: volumes over iSCSI and NVMe/TCP, until it is told to stop.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;
use daemon::{Config, PortalEntry, Protocol, VolumeEntry};
use names::{NameError, Portal, Span, VolumeUrl};

use crate::output;

/// What a user of the command should know of signals.
const SIGNALS: &str = "SIGTERM and Ctrl-C stop the server in good order. SIGHUP makes it look whether files and devices have another size now; \
    clients are told.";

/// Arguments of `serve`.
#[derive(Debug, Parser)]
#[command(after_help = SIGNALS)]
pub(crate) struct Args {
    /// Volumes to serve, such as disk=ram:1G or scratch=file:scratch.img?size=2G
    #[arg(value_name = "NAME=URL")]
    volumes: Vec<String>,
    /// Listen for iSCSI here; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = listening)]
    iscsi: Option<SocketAddr>,
    /// Listen for NVMe/TCP here; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", value_parser = listening)]
    nvme: Option<SocketAddr>,
    /// Event loops, each on a core of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: Option<u16>,
    /// Volumes, portals and access rules from a file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep the volumes' state here, such as the identities that hosts know them by [default: $STATE_DIRECTORY, /var/lib/linerate for root, or
    /// $XDG_STATE_HOME/linerate]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Write the listening addresses to this file once everything listens
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// How to reach the kernel: auto, uring or epoll
    #[arg(long, value_name = "DRIVER")]
    driver: Option<String>,
    /// How long a core that expects an answer looks for it before it sleeps, such as 50us; 0 never does
    #[arg(long, value_name = "DURATION")]
    spin: Option<Span>,
    /// TCP congestion control of the connections, such as dctcp; system for the system's own [default: cubic, where that is permitted]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Serve anybody who can reach the portals, also beyond loopback
    #[arg(long)]
    allow_any: bool,
    /// Tell, when serving ends, how long the longest turn of each event loop kept the processor
    #[arg(long)]
    turns: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    for text in &args.volumes {
        config.volumes.push(named_volume(text)?);
    }
    replace_portal(&mut config, Protocol::Iscsi, args.iscsi);
    replace_portal(&mut config, Protocol::Nvme, args.nvme);
    config.daemon.cores = args.cores.or(config.daemon.cores);
    config.daemon.driver = args.driver.or(config.daemon.driver);
    config.daemon.spin = args.spin.or(config.daemon.spin);
    config.daemon.congestion = args.congestion.or(config.daemon.congestion);
    config.daemon.state = args.state.or(config.daemon.state);
    config.daemon.allow_any |= args.allow_any;
    config.daemon.turns |= args.turns;
    if config.volumes.is_empty() {
        bail!("there is nothing to serve: name a volume, such as disk=ram:1G, or give --config FILE");
    }
    daemon::serve(&config, args.ready_file.as_deref(), &|line| {
        // Whoever closed standard output does not want to know how to connect.
        let _unheard = output::line(line);
    })
}

/// Where to listen; a name stands for its first address.
fn listening(text: &str) -> Result<SocketAddr, String> {
    let portal: Portal = text.parse().map_err(|error: NameError| error.to_string())?;
    if let Some(address) = portal.address() {
        return Ok(address);
    }
    let found = text.to_socket_addrs().map_err(|error| format!("{text:?} has no address: {error}"))?;
    found.into_iter().next().ok_or_else(|| format!("{text:?} has no address: write an IP address and a port"))
}

/// An address on the command line takes the place of the file's portals of that protocol.
fn replace_portal(config: &mut Config, protocol: Protocol, listen: Option<SocketAddr>) {
    let Some(listen) = listen else { return };
    config.portals.retain(|portal| portal.protocol != protocol);
    config.portals.push(PortalEntry::at(protocol, Portal::from(listen)));
}

pub(crate) fn named_volume(text: &str) -> Result<VolumeEntry> {
    let Some((name, url)) = text.split_once('=') else {
        bail!("{text:?} has no name: write NAME=URL, such as disk=ram:1G");
    };
    daemon::check_name(name)?;
    let url: VolumeUrl = url.parse()?;
    Ok(VolumeEntry::alone(name.to_owned(), url))
}
