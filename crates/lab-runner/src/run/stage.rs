//! One arm, built: hosts and their link, sides to account it by, the target and what speaks the protocol for the host.
//!
//! Every arm has hosts, link and control groups of its own. All arms stand side by side through the run, idle but for the
//! one that is measured, so that pairs can be taken in any order without starting anything but the load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::afar::{Afar, Binding, Fleet};
use super::neighbour::{self, Loads, Neighbours};
use super::task::{Preparation, Task};
use crate::arm::caches::Counters;
use crate::arm::postgresql::DatabaseSpec;
use crate::arm::sides::{account, enrol, placement, placement_on, roles};
use crate::arm::{self, AdaptSpec, Endpoint, Filesystem, ServeSpec, Served, Volumes, cluster, postgresql};
use crate::machine::ledger::Ledger;
use crate::machine::process::Placement;
use crate::machine::shape::Shape;
use crate::machine::topology::{self, Host, Hosts};
use crate::measure::network::{End, Probe};
use crate::measure::{Role, Sides, Watched};
use crate::site::{Processors, Site};
use crate::tool::first_io::Built;
use lab_model::scenario::{Arm, Initiator, LinkKind, Placement as Core, ToolKind, Topology};
use lab_model::statistics::context::payload_rate;

/// What all arms of a run share.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The run's identifier.
    pub run: &'a str,
    /// Where the arms' files go.
    pub folder: &'a Path,
    /// The `linerate` program.
    pub linerate: &'a Path,
    /// Which processors do what.
    pub processors: &'a Processors,
    /// The site, which names hosts.
    pub site: &'a Site,
    /// The connections to them.
    pub fleet: &'a Fleet,
}

/// One arm, ready to be loaded.
#[derive(Debug)]
pub struct Stage {
    /// What it was built from: another one is built when this changes.
    pub topology: Topology,
    /// The initiating hosts, each with what its load goes to.
    pub initiators: Vec<(Host, Vec<Endpoint>)>,
    /// Where the load runs.
    pub processors: Vec<usize>,
    /// The size of what the tool laid out to work on.
    prepared: Option<String>,
    /// What of it stands on other machines.
    pub afar: Afar,
    /// How long it took until it could be used.
    pub built: Built,
    // What is dropped first stands on what is dropped later.
    databases: Vec<Served>,
    filesystems: Vec<Filesystem>,
    adapters: Vec<Served>,
    targets: Vec<Served>,
    target: Option<Host>,
    /// What else uses the link.
    neighbours: Neighbours,
    /// What shapes the link since it stands.
    shape: Shape,
    /// Whose time is counted. The last, as a control group can only be removed when none of the processes above is left in it.
    pub sides: Sides,
}

/// The initiating hosts of an arm.
struct Initiators<'a> {
    arm: &'a Arm,
    hosts: &'a Hosts,
    /// What the target offers to each of them.
    endpoints: Vec<Vec<Endpoint>>,
}

impl Stage {
    /// Builds an arm. Whatever it makes outside the run's folder is in the ledger first.
    pub fn build(ground: &Ground<'_>, arm: &Arm, topology: &Topology, ledger: &mut Ledger) -> Result<Self> {
        let name = format!("{}-{}", ground.run, arm.key);
        let is_cluster = topology.copies > 0;
        let hosts = if is_cluster {
            topology::nodes(&topology.link, topology.initiators, ledger)?
        } else {
            topology::build(&topology.link, topology.initiators, ledger)?
        };
        let mut roles = roles(arm.initiator).to_vec();
        if !topology.neighbour.is_none() {
            roles.push(Role::Neighbour);
        }
        let sides = account(&name, &roles, if is_cluster { hosts.initiators.len() } else { 0 }, ledger)?;
        let folder = folder(ground, &arm.key)?;
        let begun = Instant::now();
        let mut targets = Vec::new();
        let serving =
            if is_cluster { hosts.initiators.as_slice() } else { std::slice::from_ref(&hosts.target) };
        for (number, host) in serving.iter().enumerate() {
            let node = is_cluster.then_some(number);
            let served = serve(ground, Serving { arm, topology, host, node, sides: &sides }, ledger)
                .with_context(|| format!("arm {} ({}): its target does not start", arm.key, arm.name))?;
            targets.push(served);
        }
        let built = Built { target: begun.elapsed(), ..Built::default() };
        let parts = match targets.as_slice() {
            [only] if !is_cluster => share(&only.endpoints, hosts.initiators.len()),
            nodes => cluster::mirrors(nodes, topology.copies)
                .with_context(|| format!("arm {} ({})", arm.key, arm.name))?,
        };
        let site = neighbour::Site {
            hosts: &hosts,
            processors: ground.processors,
            sides: &sides,
            folder: &folder,
            linerate: ground.linerate,
        };
        let neighbours = Neighbours::build(topology.neighbour, &site, ledger)
            .with_context(|| format!("arm {} ({})", arm.key, arm.name))?;
        let mut stage = Self {
            topology: topology.clone(),
            initiators: Vec::new(),
            processors: ground.processors.host.clone(),
            prepared: None,
            afar: Afar::default(),
            built,
            databases: Vec::new(),
            filesystems: Vec::new(),
            adapters: Vec::new(),
            targets,
            target: Some(hosts.target.clone()),
            neighbours,
            // Nothing of a local arm crosses the link.
            shape: if arm.initiator == Initiator::Local { Shape::default() } else { Shape::of(&hosts) },
            sides,
        };
        stage.adapt(ground, Initiators { arm, hosts: &hosts, endpoints: parts }, ledger)?;
        Ok(stage)
    }

    /// An arm on what the site names: here nothing is built but the account of the host, and the adapter to a target that an
    /// agent serves.
    pub fn bound(
        ground: &Ground<'_>,
        binding: Binding<'_>,
        topology: &Topology,
        ledger: &mut Ledger,
    ) -> Result<Self> {
        let Binding { arm, bound } = binding;
        ensure!(
            topology.neighbour.is_none(),
            "arm {} ({}): neighbours are put only on a link that the lab builds, and the site binds this arm: leave the axis out",
            arm.key,
            arm.name
        );
        let begun = Instant::now();
        let afar = Afar::build(ground.fleet, ground.site, binding, topology)
            .with_context(|| format!("arm {} ({}) does not start", arm.key, arm.name))?;
        let built = Built { target: begun.elapsed(), ..Built::default() };
        let offered = afar.offered().filter(|_| !afar.loads()).map(<[Endpoint]>::to_vec);
        let initiator = if offered.is_some() { arm.initiator } else { Initiator::Site };
        let here = roles(initiator).iter().copied().filter(|role| *role != Role::Target);
        let sides = account(&format!("{}-{}", ground.run, arm.key), &here.collect::<Vec<_>>(), 0, ledger)?;
        let host = Host { namespace: None, address: std::net::Ipv4Addr::LOCALHOST.into(), link: None };
        let mut stage = Self {
            topology: if afar.serves() { topology.clone() } else { Topology::default() },
            initiators: Vec::new(),
            processors: ground.processors.host.clone(),
            prepared: None,
            afar,
            built,
            databases: Vec::new(),
            filesystems: Vec::new(),
            adapters: Vec::new(),
            targets: Vec::new(),
            target: None,
            neighbours: Neighbours::default(),
            shape: Shape::default(),
            sides,
        };
        match offered {
            Some(offered) => {
                let hosts =
                    Hosts { target: host.clone(), initiators: vec![host], switch: None, gateway: None };
                stage.adapt(ground, Initiators { arm, hosts: &hosts, endpoints: vec![offered] }, ledger)?;
            }
            None => stage.initiators.push((host, bound.opened())),
        }
        Ok(stage)
    }

    /// Starts what speaks the protocol for each initiating host.
    fn adapt(
        &mut self,
        ground: &Ground<'_>,
        Initiators { arm, hosts, endpoints }: Initiators<'_>,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let begun = Instant::now();
        for (number, (host, endpoints)) in hosts.initiators.iter().zip(endpoints).enumerate() {
            let folder = folder(ground, &format!("{}-host{number}", arm.key))?;
            let processors = ground.processors.adapter(self.topology.adapter);
            let place = placement_on((host, Some(number)), processors, &self.sides, Role::Adapter);
            let linerate = ground.linerate;
            let spec =
                AdaptSpec { endpoints: &endpoints, host, folder: &folder, placement: &place, linerate };
            let served = arm::adapt(arm.initiator, &spec, ledger)
                .with_context(|| format!("arm {} ({}): its initiator does not start", arm.key, arm.name))?;
            enrol(&self.sides, Role::Adapter, &served);
            self.initiators.push((host.clone(), served.endpoints.clone()));
            self.adapters.push(served);
        }
        self.built.initiator = begun.elapsed();
        Ok(())
    }

    /// Puts on the volumes what the load needs on them: a file system with a database for pgbench, plain paths for dd.
    /// Comes after the integrity pass, which overwrites them.
    pub fn furnish(&mut self, ground: &Ground<'_>, load: &Furnishing<'_>, ledger: &mut Ledger) -> Result<()> {
        if self.afar.loads() {
            return match load.kind {
                ToolKind::Pgbench if self.afar.serves() => bail!(
                    "an agent does not lay a database out: let the load come from this machine (no `host`), or name a database as endpoint"
                ),
                _ => Ok(()),
            };
        }
        for number in 0..self.initiators.len() {
            let Some((host, endpoints)) = self.initiators.get(number) else { continue };
            let furnished = match load.kind {
                ToolKind::Dd => endpoints.iter().map(plain_path).collect(),
                ToolKind::Pgbench => {
                    let folder = folder(ground, &format!("{}-host{number}", load.arm))?;
                    let place = self.load_placement(host);
                    let volume = endpoints.first().context("the arm has no volume for a database")?;
                    let files = Filesystem::make(volume, postgresql::user().as_deref(), ledger)?;
                    let settings = database_settings(load.settings);
                    let spec = DatabaseSpec {
                        root: files.path(),
                        settings: &settings,
                        folder: &folder,
                        placement: &place,
                    };
                    let served = postgresql::serve(&spec, ledger)?;
                    enrol(&self.sides, Role::Host, &served);
                    let urls = served.endpoints.clone();
                    self.filesystems.push(files);
                    self.databases.push(served);
                    urls
                }
                _ => continue,
            };
            if let Some((_, endpoints)) = self.initiators.get_mut(number) {
                *endpoints = furnished;
            }
        }
        Ok(())
    }

    /// Whether the tool has to lay out its data before it measures: once for each size. What a database gathers in one measurement is there in
    /// the next, as in any database.
    pub fn preparation(&mut self, settings: &BTreeMap<String, String>) -> Preparation {
        let size = settings.get("scale").cloned().unwrap_or_default();
        if self.prepared.replace(size.clone()) == Some(size) { Preparation::Done } else { Preparation::Due }
    }

    /// Volumes that the load is spread over, on all hosts.
    pub fn volumes(&self) -> usize {
        let named: usize = self.initiators.iter().map(|(_, endpoints)| endpoints.len()).sum();
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        named.max(count(self.topology.targets).saturating_mul(count(self.topology.luns))).max(1)
    }

    /// Whether it stands on what the site names, whatever the scenario says of targets.
    pub const fn is_bound(&self) -> bool {
        self.target.is_none() && !self.afar.serves()
    }

    /// Where the load of an initiating host runs.
    pub fn load_placement(&self, host: &Host) -> Placement {
        let number = self.initiators.iter().position(|(known, _)| known == host);
        placement_on((host, number), &self.processors, &self.sides, Role::Host)
    }

    /// What is watched beside the processors: the link, where it has counters, and block devices under the load.
    pub fn watched(&self) -> Result<Watched> {
        let own = self.filesystems.iter().filter_map(Filesystem::device).map(str::to_owned);
        let given = self.initiators.iter().flat_map(|(_, endpoints)| endpoints);
        let given = given.filter_map(|endpoint| block_device(&endpoint.url));
        Ok(Watched { link: self.probe()?, devices: own.chain(given).collect() })
    }

    fn probe(&self) -> Result<Option<Probe>> {
        let end =
            |host: &Host| Some(End { namespace: host.namespace.clone(), interface: host.link.clone()? });
        let initiators: Vec<End> = self.initiators.iter().filter_map(|(host, _)| end(host)).collect();
        // Nothing of a local arm crosses the link that the scenario gives to the others.
        let local = self.targets.iter().all(|served| served.services.is_empty());
        if local || initiators.is_empty() || self.topology.link.kind == LinkKind::Loopback {
            return Ok(None);
        }
        if self.topology.copies > 0 {
            return Probe::of_nodes(&initiators).map(Some);
        }
        let target = self.target.as_ref().and_then(end);
        Probe::open(&initiators, target.as_ref()).map(Some)
    }

    /// What somebody else changed of what shapes the link, in words.
    pub fn reshaped(&self) -> Option<String> {
        self.shape.change()
    }

    /// Bytes of payload per second that the link carries in one direction, where it is limited; the links of all nodes of a cluster.
    pub fn payload(&self) -> Option<f64> {
        let links = if self.topology.copies > 0 { f64::from(self.topology.initiators) } else { 1.0 };
        payload_rate(&self.topology.link).map(|rate| rate * links)
    }

    /// Starts the loads of the neighbours, from the first initiating host.
    pub fn disturb(&self, task: &Task<'_>) -> Result<Loads> {
        let Some((host, _)) = self.initiators.first() else { return Ok(Loads::default()) };
        let place = placement(host, &self.processors, &self.sides, Role::Neighbour);
        self.neighbours.load(task, &place, &self.sides)
    }

    /// What the targets' cache volumes count now, together; empty where none is a cache, or a site's agent serves them.
    pub fn counters(&mut self) -> Result<Counters> {
        let mut sum = Counters::new();
        for service in self.targets.iter_mut().flat_map(|served| &mut served.services) {
            for (name, count) in service.counters()? {
                *sum.entry(name).or_insert(0.0) += count;
            }
        }
        Ok(sum)
    }

    /// A process of the arm that has ended although nobody stopped it, in words.
    pub fn ended(&mut self) -> Option<String> {
        let layers = [&mut self.databases, &mut self.adapters, &mut self.targets];
        let served = layers.into_iter().flatten().chain(self.neighbours.served());
        let mut all = served.flat_map(|served| &mut served.services);
        let gone = all.find_map(|service| (!service.running.is_alive()).then_some(service))?;
        Some(format!("{} has ended{}", gone.name, gone.running.last_words()))
    }
}

/// What serves on a host.
#[derive(Clone, Copy)]
struct Serving<'a> {
    arm: &'a Arm,
    topology: &'a Topology,
    host: &'a Host,
    /// Its number from 0, where it is a node.
    node: Option<usize>,
    sides: &'a Sides,
}

/// Starts what serves the volumes of an arm on a host, or on a node its parts of them.
fn serve(ground: &Ground<'_>, serving: Serving<'_>, ledger: &mut Ledger) -> Result<Served> {
    let Serving { arm, topology, host, node, sides } = serving;
    let name = node.map_or_else(|| arm.key.clone(), |number| format!("{}-node{}", arm.key, number + 1));
    let folder = folder(ground, &name)?;
    let cores = target_processors(ground.processors, topology);
    let place = placement_on((host, node), &cores, sides, Role::Target);
    let volumes = Volumes { targets: topology.targets, luns: topology.luns, url: topology.volume.clone() };
    let spec = ServeSpec {
        volumes: &volumes,
        host,
        folder: &folder,
        placement: &place,
        linerate: ground.linerate,
        cores: topology.cores,
        spin: topology.target_spin.as_deref(),
    };
    let mut served = arm::serve(arm.target, &spec, ledger)?;
    if topology.digests {
        arm::protect(&mut served.endpoints);
    }
    enrol(sides, Role::Target, &served);
    Ok(served)
}

/// Where a target runs: on its own processors, or on the host's; one of several event loops on as many of both as it has loops.
fn target_processors(processors: &Processors, topology: &Topology) -> Vec<usize> {
    let (own, others) = match topology.placement {
        Core::Other => (&processors.target, &processors.host),
        Core::Same => (&processors.host, &processors.target),
    };
    let loops = topology.cores as usize;
    let more = others.iter().filter(|number| !own.contains(number)).take(loops.saturating_sub(own.len()));
    own.iter().chain(more).copied().collect()
}

/// What a load needs on its volumes.
#[derive(Debug, Clone, Copy)]
pub struct Furnishing<'a> {
    /// The tool.
    pub kind: ToolKind,
    /// The arm's key.
    pub arm: &'a str,
    /// Options of the workload, the point and the arm.
    pub settings: &'a BTreeMap<String, String>,
}

/// The settings that are the database server's own.
fn database_settings(settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = ["shared_buffers", "synchronous_commit"];
    let chosen = own.iter().filter_map(|name| settings.get_key_value(*name));
    chosen.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The path of a local file; other endpoints as they are.
fn plain_path(endpoint: &Endpoint) -> Endpoint {
    let path = endpoint.url.strip_prefix("file:").and_then(|rest| rest.split('?').next());
    Endpoint { url: path.unwrap_or(&endpoint.url).to_owned(), size: endpoint.size }
}

fn folder(ground: &Ground<'_>, name: &str) -> Result<PathBuf> {
    let folder = ground.folder.join("arms").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The name of a block device that an endpoint is, as `/sys/class/block` has it.
fn block_device(endpoint: &str) -> Option<String> {
    let path = std::fs::canonicalize(endpoint).ok()?;
    let name = path.file_name()?.to_str()?;
    Path::new("/sys/class/block").join(name).exists().then(|| name.to_owned())
}

/// Endpoints for each of `hosts` hosts, in order, as evenly as can be.
fn share(endpoints: &[Endpoint], hosts: usize) -> Vec<Vec<Endpoint>> {
    let hosts = hosts.max(1);
    let (each, rest) = (endpoints.len() / hosts, endpoints.len() % hosts);
    let mut left = endpoints;
    (0..hosts)
        .map(|host| {
            let (part, behind) = left.split_at(each + usize::from(host < rest));
            left = behind;
            part.to_vec()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_of_several_loops_gets_processors_beside_its_own() {
        let processors = Processors { host: vec![1, 2], target: vec![0], ..Processors::default() };
        let of = |cores, placement| {
            target_processors(&processors, &Topology { placement, cores, ..Topology::default() })
        };
        assert_eq!(of(1, Core::Other), [0]);
        assert_eq!(of(2, Core::Other), [0, 1]);
        assert_eq!(of(9, Core::Other), [0, 1, 2]);
        assert_eq!(of(1, Core::Same), [1, 2]);
        assert_eq!(of(3, Core::Same), [1, 2, 0]);
    }

    #[test]
    fn endpoints_are_shared_evenly_and_in_order() {
        let endpoints: Vec<Endpoint> =
            (0..8).map(|number| Endpoint { url: number.to_string(), size: 0 }).collect();
        let shared = |hosts| -> Vec<String> {
            let parts = share(&endpoints, hosts);
            parts.iter().map(|part| part.iter().map(|one| one.url.as_str()).collect()).collect()
        };
        assert_eq!(shared(1), ["01234567"]);
        assert_eq!(shared(3), ["012", "345", "67"]);
        assert_eq!(share(&[], 2), [vec![], vec![]]);
    }
}
