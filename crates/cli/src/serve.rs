//! `linerate serve`: volumes over iSCSI, NVMe/TCP and RDMA, folders over NFS, until it is told to stop.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Parser};
use daemon::{
    Config, ConfigSource, Filter, Format, Log, Output, PortalEntry, PortalKind, Protocol, ServeOptions,
    ShareEntry, Transport, VolumeEntry,
};
use names::{FolderUrl, Portal, Span, VolumeUrl};

use crate::output;

/// What a user of the command should know of signals.
const SIGNALS: &str = "SIGTERM and Ctrl-C stop the server in good order. SIGHUP makes it look whether files and devices have another size now; \
    the server notifies its clients. With --config it also reads the file again, under the same command line, and adds, changes and removes \
    volumes, portals and access rules: all of them or, if anything is wrong, none. The log says which. linerate-configuration(5) has what can change.";

/// Arguments of `serve`.
#[derive(Debug, Parser)]
#[command(after_help = SIGNALS, group = ArgGroup::new("roce").args(["iser_roce", "nvme_roce", "nfs_roce"]).multiple(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// Volumes to serve, such as disk=ram:1G or scratch=file:scratch.img?size=2G, and folders, such as files=dir:/srv/files
    #[arg(value_name = "NAME=URL")]
    volumes: Vec<String>,
    /// A folder to export over NFS, such as files=dir:/srv/files: what NAME=dir:PATH without it says as well, in a word that is refused for anything else; may be
    /// given several times
    #[arg(long, value_name = "NAME=dir:PATH")]
    export: Vec<String>,
    /// Listen for iSCSI here; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    iscsi: Option<Portal>,
    /// Listen for NVMe/TCP here; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    nvme: Option<Portal>,
    /// Listen for NFS 3, 4.1 and 4.2 here; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    nfs: Option<Portal>,
    /// Listen for NFS/RDMA here, on software iWARP; port 0 takes a free one, and 20049 is the usual one
    #[arg(long, value_name = "ADDR:PORT")]
    nfs_rdma: Option<Portal>,
    /// Listen for iSER, iSCSI over RDMA, here, on software iWARP; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    iser: Option<Portal>,
    /// Listen for NVMe/RDMA here, on software iWARP; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    nvme_rdma: Option<Portal>,
    /// Listen for iSER here, on software RoCEv2: the address receives UDP port 4791, and the port is the one that initiators ask for, such as 3260
    #[arg(long, value_name = "ADDR:PORT")]
    iser_roce: Option<Portal>,
    /// Listen for NVMe/RDMA here, on software RoCEv2: the address receives UDP port 4791, and the port is the one that hosts ask for, such as 4420
    #[arg(long, value_name = "ADDR:PORT")]
    nvme_roce: Option<Portal>,
    /// Listen for NFS/RDMA here, on software RoCEv2: the address receives UDP port 4791, and the port is the one that clients ask for, such as 20049
    #[arg(long, value_name = "ADDR:PORT")]
    nfs_roce: Option<Portal>,
    /// Listen for iSER here, on the RDMA adapter that has this address, by libibverbs and librdmacm; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    iser_adapter: Option<Portal>,
    /// Listen for NVMe/RDMA here, on the RDMA adapter that has this address, by libibverbs and librdmacm; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    nvme_adapter: Option<Portal>,
    /// Listen for NFS/RDMA here, on the RDMA adapter that has this address, by libibverbs and librdmacm; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    nfs_adapter: Option<Portal>,
    /// Receive RoCE at another port of UDP, which only Linerate's clients can reach; 0 takes a free one [default: 4791]
    #[arg(long, value_name = "PORT", requires = "roce")]
    roce_udp_port: Option<u16>,
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
    /// What is logged on standard error: error, warn, info, debug or off, and KIND=LEVEL behind commas, such as warn,login=info [default: LINERATE_LOG, or info]
    #[arg(long, value_name = "FILTER")]
    log: Option<Filter>,
    /// How the log looks
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    log_format: Option<String>,
    /// Check configuration, secrets and access rules, try whether the volumes of this machine can be opened, name every problem and what
    /// is doubtful, and end without serving: exit code 0, or 1 if a server could not start. The check creates and locks nothing, so you can run it
    /// beside a running server, and it does not connect to other machines
    #[arg(long)]
    check: bool,
    /// Serve the other volumes when one cannot be opened, and report which and why, as nofail of a [[volume]] does for one
    #[arg(long)]
    nofail: bool,
    /// Serve anybody who can reach the portals, also beyond loopback
    #[arg(long)]
    allow_any: bool,
    /// Print at the end how long the longest turn of each event loop kept the processor
    #[arg(long)]
    turns: bool,
}

impl Args {
    /// The file's configuration, with what the command line says over it.
    fn configuration(&self, named: Named) -> Result<Config> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        config.volumes.extend(named.volumes);
        config.shares.extend(named.shares);
        for (protocol, transport, listen) in [
            (Protocol::Iscsi, Transport::Tcp, &self.iscsi),
            (Protocol::Nvme, Transport::Tcp, &self.nvme),
            (Protocol::Nfs, Transport::Tcp, &self.nfs),
            (Protocol::Iscsi, Transport::Iwarp, &self.iser),
            (Protocol::Nvme, Transport::Iwarp, &self.nvme_rdma),
            (Protocol::Nfs, Transport::Iwarp, &self.nfs_rdma),
            (Protocol::Iscsi, Transport::Roce, &self.iser_roce),
            (Protocol::Nvme, Transport::Roce, &self.nvme_roce),
            (Protocol::Nfs, Transport::Roce, &self.nfs_roce),
            (Protocol::Iscsi, Transport::Rdma, &self.iser_adapter),
            (Protocol::Nvme, Transport::Rdma, &self.nvme_adapter),
            (Protocol::Nfs, Transport::Rdma, &self.nfs_adapter),
        ] {
            let Some(listen) = listen.clone() else { continue };
            let kind = PortalKind { protocol, transport };
            let udp_port = self.roce_udp_port.filter(|_| transport == Transport::Roce);
            replace_portal(&mut config, PortalEntry { udp_port, ..PortalEntry::at(kind, listen) });
        }
        let daemon = &mut config.daemon;
        daemon.cores = self.cores.or(daemon.cores);
        daemon.driver = self.driver.clone().or(daemon.driver.take());
        daemon.spin = self.spin.or(daemon.spin);
        daemon.congestion = self.congestion.clone().or(daemon.congestion.take());
        daemon.state = self.state.clone().or(daemon.state.take());
        daemon.allow_any |= self.allow_any;
        daemon.turns |= self.turns;
        daemon.log_format = match self.log_format.as_deref() {
            Some("json") => Some(Format::Json),
            Some(_) => Some(Format::Text),
            None => daemon.log_format,
        };
        for volume in &mut config.volumes {
            volume.nofail |= self.nofail;
        }
        Ok(config)
    }

    /// What it names, and what is wrong with the others.
    fn named(&self) -> (Named, Vec<anyhow::Error>) {
        let (mut named, mut errors) = (Named::default(), Vec::new());
        for text in &self.volumes {
            let is_share = text.split_once('=').is_some_and(|(_, url)| url.starts_with("dir:"));
            let outcome = if is_share {
                named_share(text).map(|share| named.shares.push(share))
            } else {
                named_volume(text).map(|volume| named.volumes.push(volume))
            };
            errors.extend(outcome.err());
        }
        for text in &self.export {
            match named_share(text) {
                Ok(share) => named.shares.push(share),
                Err(error) => errors.push(error),
            }
        }
        (named, errors)
    }
}

/// What the command line names.
#[derive(Default)]
struct Named {
    volumes: Vec<VolumeEntry>,
    shares: Vec<ShareEntry>,
}

/// What SIGHUP has read again: the file, under the same command line.
struct Source<'a> {
    args: &'a Args,
    /// What is logged, if not the file says so.
    filter: Option<Filter>,
}

impl ConfigSource for Source<'_> {
    fn load(&self) -> Result<Config> {
        let (named, errors) = self.args.named();
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let mut config = self.args.configuration(named)?;
        check_not_empty(&config)?;
        config.daemon.log = Some(self.filter.clone().or(config.daemon.log.take()).unwrap_or_default());
        Ok(config)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let named = std::env::var("LINERATE_LOG").ok().map(|text| text.parse::<Filter>());
    let named = named.transpose().context("the environment variable LINERATE_LOG");
    if args.check {
        return check(args, named.err());
    }
    let source = Source { args, filter: args.log.clone().or(named?) };
    let config = source.load()?;
    let format = config.daemon.log_format.unwrap_or_default();
    let filter = config.daemon.log.clone().unwrap_or_default();
    let log = Log::start(filter, Output { stream: Box::new(std::io::stderr()), format });
    let say = |line: &str| {
        // Whoever closed standard output does not want to know how to connect.
        let _unheard = output::line(line);
    };
    let source = args.config.as_ref().map(|_| &source as &dyn ConfigSource);
    let options = ServeOptions { source, ready_file: args.ready_file.as_deref() };
    let outcome = daemon::serve(&config, options, &say, &log);
    log.finish();
    outcome
}

fn check_not_empty(config: &Config) -> Result<()> {
    if config.volumes.is_empty() && config.shares.is_empty() {
        bail!(
            "there is nothing to serve: name a volume, such as disk=ram:1G, or a folder, such as files=dir:/srv/files, or give --config FILE"
        );
    }
    Ok(())
}

/// Tells what is wrong with the configuration, beside what of it could not even be read, and what is doubtful.
fn check(args: &Args, wrong_filter: Option<anyhow::Error>) -> Result<()> {
    let (named, errors) = args.named();
    let config = args.configuration(named)?;
    if errors.is_empty() {
        check_not_empty(&config)?;
    }
    let unread = errors.into_iter().chain(wrong_filter).map(|error| format!("{error:#}")).collect::<Vec<_>>();
    let found = daemon::check(&config);
    for line in found.untried {
        output::remark(&line);
    }
    for warning in found.warnings {
        output::remark(&format!("warning: {warning}"));
    }
    let problems = [unread, found.problems].concat();
    for problem in &problems {
        output::remark(&format!("problem: {problem}"));
    }
    match problems.len() {
        0 => output::line("the configuration is good"),
        1 => bail!("the configuration has 1 problem: no server could start with it"),
        many => bail!("the configuration has {many} problems: no server could start with it"),
    }
}

/// An address on the command line takes the place of the file's portals of that kind.
fn replace_portal(config: &mut Config, entry: PortalEntry) {
    config.portals.retain(|portal| portal.kind() != entry.kind());
    config.portals.push(entry);
}

fn named_share(text: &str) -> Result<ShareEntry> {
    let Some((name, url)) = text.split_once('=') else {
        bail!("{text:?} has no name: write NAME=URL, such as files=dir:/srv/files");
    };
    daemon::check_name(name)?;
    let url: FolderUrl = url.parse()?;
    Ok(ShareEntry::plain(name.to_owned(), url))
}

pub(crate) fn named_volume(text: &str) -> Result<VolumeEntry> {
    let Some((name, url)) = text.split_once('=') else {
        bail!("{text:?} has no name: write NAME=URL, such as disk=ram:1G");
    };
    daemon::check_name(name)?;
    let url: VolumeUrl = url.parse()?;
    Ok(VolumeEntry::alone(name.to_owned(), url))
}
