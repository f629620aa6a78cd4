//! The nodes of a cluster on one machine: a network namespace each, joined by a switch, with a server of what the node stores and a server of each
//! volume that it owns.
//!
//! Every node stores a part of every volume, behind a cache. A volume has one owner, which reaches all of its parts over the network, its own too: so a reservation that
//! another owner takes on them fences it everywhere.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lab_model::scenario::{Link, LinkKind};
use lab_runner::machine::ledger::{Ledger, Thing};
use lab_runner::machine::process::{CommandLine, Placement, Running};
use lab_runner::machine::{program, topology};
use linerate::Stop;

/// How many nodes there are, and how many of them have each block.
pub(super) const NODES: usize = 4;
const COPIES: usize = 3;
/// Bytes of the fast volume before each part.
const FAST: &str = "8M";
/// The port at which a node offers its parts of the volumes.
const PARTS: u16 = 4420;
/// The first port at which an owner offers a volume, on its own loopback.
const VOLUMES: u16 = 4430;
/// How long a server may take until it listens, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a server may take to end in good order.
const FAREWELL: Duration = Duration::from_secs(20);
/// How long one command for the network may take.
const COMMAND: Duration = Duration::from_secs(10);
/// Between two looks at something that is awaited.
const LOOK: Duration = Duration::from_millis(50);

/// What the nodes speak to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Transport {
    /// NVMe/TCP
    Tcp,
    /// NVMe/RDMA on software iWARP
    Iwarp,
    /// NVMe/RDMA on software RoCEv2
    Roce,
}

impl Transport {
    /// The option of `serve` that listens.
    const fn option(self) -> &'static str {
        match self {
            Self::Tcp => "--nvme",
            Self::Iwarp => "--nvme-rdma",
            Self::Roce => "--nvme-roce",
        }
    }

    /// The URL of a volume that is served at an address.
    fn url(self, address: Ipv4Addr, volume: &str) -> String {
        let subsystem = subsystem(volume);
        match self {
            Self::Tcp => format!("nvme+tcp://{address}:{PARTS}/{subsystem}/1"),
            Self::Iwarp => format!("nvme+rdma://{address}:{PARTS}/{subsystem}/1"),
            Self::Roce => format!("nvme+rdma://{address}:{PARTS}/{subsystem}/1?transport=roce"),
        }
    }
}

/// The name under which hosts know a volume.
fn subsystem(volume: &str) -> String {
    format!("nqn.2026-11.org.linerate:{volume}")
}

/// What the cluster is to be.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) transport: Transport,
    /// The rate of each node's link, as `tc` has it.
    pub(super) rate: String,
    /// Bytes that each node stores of each volume.
    pub(super) part: u64,
}

/// A node, by its number from 0.
#[derive(Debug)]
struct Node {
    address: Ipv4Addr,
    namespace: String,
    folder: PathBuf,
    storage: Option<Running>,
    /// The volumes that it owns now.
    owners: Vec<(usize, Running)>,
}

/// Four nodes and their network; both go when it is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    settings: Settings,
    nodes: Vec<Node>,
    ledger: Ledger,
    stop: Stop,
}

impl Cluster {
    /// Makes the network and the nodes' folders. Nothing runs yet.
    pub(super) fn build(settings: Settings, folder: &Path, stop: Stop) -> Result<Self> {
        for name in ["ip", "tc", "nsenter"] {
            program::require(name)?;
        }
        let mut ledger = Ledger::create(&folder.join("ledger.jsonl"))?;
        let link = Link { kind: LinkKind::Veth, rate: Some(settings.rate.clone()), ..Link::default() };
        let hosts = match topology::nodes(&link, u32::try_from(NODES)?, &mut ledger) {
            Ok(hosts) => hosts,
            Err(error) => {
                ledger.tear_down();
                return Err(error);
            }
        };
        let mut cluster = Self { settings, nodes: Vec::new(), ledger, stop };
        for (number, host) in hosts.initiators.into_iter().enumerate() {
            let folder = folder.join(format!("node-{}", number + 1));
            std::fs::create_dir(&folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            let std::net::IpAddr::V4(address) = host.address else { bail!("a node without an IPv4 address") };
            let namespace = host.namespace.context("a node without a namespace")?;
            cluster.nodes.push(Node { address, namespace, folder, storage: None, owners: Vec::new() });
        }
        Ok(cluster)
    }

    /// A node's line in the overview.
    pub(super) fn describe(&self, node: usize) -> Result<String> {
        let node = self.node(node)?;
        Ok(format!("{} in the namespace {}, data in {}", node.address, node.namespace, node.folder.display()))
    }

    /// Has a node serve its parts of all volumes.
    pub(super) fn start_storage(&mut self, number: usize) -> Result<()> {
        let node = self.node(number)?;
        let mut argv = vec![own_program()?, "serve".to_owned()];
        for volume in 0..NODES {
            let [fast, slow] =
                ["fast", "slow"].map(|name| node.folder.join(format!("{}.{name}", part(volume))));
            argv.push(format!(
                "{}=cache=[file:{}?size={FAST},file:{}?size={}]",
                part(volume),
                fast.display(),
                slow.display(),
                self.settings.part
            ));
        }
        let portal = format!("{}:{PARTS}", node.address);
        argv.extend([self.settings.transport.option().to_owned(), portal, "--allow-any".to_owned()]);
        let running = self.serve(number, "storage", argv)?;
        self.node_mut(number)?.storage = Some(running);
        Ok(())
    }

    /// Has a node own a volume, and offer it on its own loopback. `takeover` takes it from an owner that is gone.
    pub(super) fn start_owner(&mut self, number: usize, volume: usize, takeover: bool) -> Result<()> {
        let url = self.mirror(volume, number, takeover);
        let portal = format!("{}:{}", Ipv4Addr::LOCALHOST, port(volume)?);
        let argv = [
            own_program()?,
            "serve".to_owned(),
            format!("{}={url}", name(volume)),
            "--nvme".to_owned(),
            portal,
        ];
        let running = self.serve(number, &name(volume), argv.into())?;
        self.node_mut(number)?.owners.push((volume, running));
        Ok(())
    }

    /// The URL of a volume as a node has it: of all nodes' parts, read from its own where that has the block.
    pub(super) fn mirror(&self, volume: usize, reader: usize, takeover: bool) -> String {
        let legs: Vec<String> =
            self.nodes.iter().map(|node| self.settings.transport.url(node.address, &part(volume))).collect();
        let mut url = format!("mirror=[{}]?copies={COPIES}&slab=1M&prefer={}", legs.join(","), reader + 1);
        if takeover {
            url.push_str("&takeover=1");
        }
        url
    }

    /// Where a node finds a volume that it owns.
    pub(super) fn local_url(volume: usize) -> Result<String> {
        Ok(format!("nvme+tcp://{}:{}/{}/1", Ipv4Addr::LOCALHOST, port(volume)?, subsystem(&name(volume))))
    }

    /// Runs `linerate` with these arguments on a node; its output goes to `NAME.stdout` in the node's folder.
    pub(super) fn spawn(&mut self, number: usize, label: &str, arguments: &[&str]) -> Result<Job> {
        let mut argv = vec![own_program()?];
        argv.extend(arguments.iter().map(|word| (*word).to_owned()));
        let (line, placement) = self.place(number, label, argv)?;
        let running = Running::start(&line, &placement)?;
        self.ledger.add(Thing::Process { identity: running.identity(), argv0: label.to_owned() })?;
        Ok(Job { running, stdout: line.stdout })
    }

    /// Cuts a node's link and then kills what serves its parts: nobody hears a last word of it. The owners on it go on, as they would where only the link
    /// is gone: whether they can still do harm is what fencing is about.
    pub(super) fn cut_off(&mut self, number: usize) -> Result<()> {
        self.link(number, "down")?;
        self.node_mut(number)?.storage = None;
        Ok(())
    }

    /// Connects a node again.
    pub(super) fn connect(&mut self, number: usize) -> Result<()> {
        self.link(number, "up")
    }

    fn link(&self, number: usize, state: &str) -> Result<()> {
        let namespace = &self.node(number)?.namespace;
        program::output(&["ip", "-n", namespace, "link", "set", "link0", state], COMMAND).map(drop)
    }

    /// Waits until an owner has all parts of its volume in sync: until the last of what its log says about them is that.
    pub(super) fn await_sync(&mut self, number: usize, volume: usize, patience: Duration) -> Result<()> {
        let log = self.node(number)?.folder.join(format!("{}.stderr", name(volume)));
        self.wait(patience, || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let last = text.lines().rev().find(|line| line.contains("the path to the volume is "));
            Ok(last.is_none_or(|line| line.contains("is optimized")).then_some(()))
        })
        .with_context(|| format!("{} was not in sync again: {}", name(volume), log.display()))
    }

    /// Ends a volume's owner in good order.
    pub(super) fn stop_owner(&mut self, number: usize, volume: usize) -> Result<()> {
        let node = self.node_mut(number)?;
        for (_, running) in node.owners.iter_mut().filter(|(owned, _)| *owned == volume) {
            running.stop(FAREWELL);
        }
        node.owners.retain(|(owned, _)| *owned != volume);
        Ok(())
    }

    /// Looks until there is something, it fails, somebody wants the end, or the time is over.
    pub(super) fn wait<T>(
        &self,
        patience: Duration,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if self.stop.is_set() {
                bail!("stopped");
            }
            if Instant::now() > deadline {
                bail!("nothing came within {} s", patience.as_secs());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Starts a server and waits until it listens.
    fn serve(&mut self, number: usize, label: &str, mut argv: Vec<String>) -> Result<Running> {
        let folder = self.node(number)?.folder.clone();
        let ready = folder.join(format!("{label}.ready"));
        let _absent = std::fs::remove_file(&ready);
        let state = folder.join(format!("{label}.state"));
        for (option, path) in [("--ready-file", &ready), ("--state", &state)] {
            argv.extend([option.to_owned(), path.display().to_string()]);
        }
        argv.extend(["--cores".to_owned(), "1".to_owned()]);
        let (line, placement) = self.place(number, label, argv)?;
        let mut running = Running::start(&line, &placement)?;
        self.ledger.add(Thing::Process { identity: running.identity(), argv0: label.to_owned() })?;
        self.wait(PATIENCE, || {
            if !running.is_alive() {
                bail!("it ended{}", running.last_words());
            }
            Ok(ready.exists().then_some(()))
        })
        .with_context(|| {
            format!("{label} on node {} does not listen: {}", number + 1, line.argv.join(" "))
        })?;
        Ok(running)
    }

    fn place(&self, number: usize, label: &str, argv: Vec<String>) -> Result<(CommandLine, Placement)> {
        let node = self.node(number)?;
        let placement = Placement { namespace: Some(node.namespace.clone()), ..Placement::default() };
        Ok((CommandLine::new(label, argv, &node.folder), placement))
    }

    fn node(&self, number: usize) -> Result<&Node> {
        self.nodes.get(number).with_context(|| format!("there is no node {}", number + 1))
    }

    fn node_mut(&mut self, number: usize) -> Result<&mut Node> {
        self.nodes.get_mut(number).with_context(|| format!("there is no node {}", number + 1))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        let torn = self.ledger.tear_down();
        if !torn.left.is_empty() {
            let mut words = "linerate: not removed:".to_owned();
            for thing in torn.left {
                let _infallible = write!(words, " {thing};");
            }
            crate::output::print_to_stderr(&words);
        }
    }
}

/// A command that runs on a node.
#[derive(Debug)]
pub(super) struct Job {
    running: Running,
    stdout: PathBuf,
}

impl Job {
    /// What it printed, once it has ended well.
    pub(super) fn output(mut self, patience: Duration) -> Result<String> {
        self.running.finish(patience)?;
        self.printed()
    }

    /// What it printed, once it has ended in any way.
    pub(super) fn output_of_failure(mut self, patience: Duration) -> Result<String> {
        self.running.wait(patience)?;
        self.printed()
    }

    fn printed(&self) -> Result<String> {
        std::fs::read_to_string(&self.stdout)
            .with_context(|| format!("cannot read {}", self.stdout.display()))
    }
}

/// The name of a volume.
pub(super) fn name(volume: usize) -> String {
    format!("disk-{}", volume + 1)
}

/// The name of a node's part of a volume.
fn part(volume: usize) -> String {
    format!("part-of-{}", volume + 1)
}

fn port(volume: usize) -> Result<u16> {
    Ok(VOLUMES + u16::try_from(volume)?)
}

fn own_program() -> Result<String> {
    let path = std::env::current_exe().context("the program of this process is not known")?;
    Ok(path.to_str().context("the program's path is not UTF-8")?.to_owned())
}
