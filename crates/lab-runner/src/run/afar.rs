//! An arm with one side, or both, on hosts that run an agent.
//!
//! The target is served by one host's agent; the load comes from another's, or from this machine. Each agent counts what
//! its side costs in the load's own window, by its own clock. In the result the processors are those of the initiating machine,
//! with the target's share put beside them; what every machine counted is kept whole too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use super::task::{Preparation, Taken, Task};
use crate::agent::client::Client;
use crate::agent::guard;
use crate::agent::hex;
use crate::agent::limits::{FILES, FILES_BYTES, POLL_EVERY};
use crate::agent::message::{Outcome, RawFile, Reply, Request, Step, Work};
use crate::arm::caches::Counters;
use crate::arm::{self, Endpoint, Volumes};
use crate::machine::clock::Period;
use crate::measure::{Counted, Environment};
use crate::site::{BoundArm, Site};
use crate::tool::integrity::Integrity;
use lab_model::result::{Flag, Machine};
use lab_model::scenario::{Arm, Design, Topology};

/// Connections to the hosts of a site, made when they are first needed.
#[derive(Debug, Default)]
pub struct Fleet {
    clients: Mutex<BTreeMap<String, Arc<Client>>>,
}

impl Fleet {
    /// The agent of a host of the site.
    pub fn host(&self, site: &Site, name: &str) -> Result<Arc<Client>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(name) {
            return Ok(Arc::clone(client));
        }
        let host = site.host.get(name).with_context(|| format!("the site names no host {name}"))?;
        let client = Client::connect(name, host)?;
        clients.insert(name.to_owned(), Arc::clone(&client));
        Ok(client)
    }

    /// Adds the description of each machine that the run has reached and not described yet.
    pub fn describe(&self, known: &mut BTreeMap<String, Environment>) -> Result<()> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, client) in
            clients.iter().filter(|(name, _)| !known.contains_key(*name)).collect::<Vec<_>>()
        {
            known.insert(name.clone(), client.environment()?);
        }
        Ok(())
    }
}

/// An arm, and what the site puts in its place.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// The scenario's arm.
    pub arm: &'a Arm,
    /// What the site names for it.
    pub bound: &'a BoundArm,
}

/// The sides of an arm that stand elsewhere; dropping it ends them.
#[derive(Debug, Default)]
pub struct Afar {
    target: Option<Post>,
    host: Option<Post>,
}

/// How a step of a load went.
#[derive(Debug)]
enum Ran {
    /// There was nothing to run.
    Nothing,
    Well,
    /// It failed, and said this.
    Badly(String),
}

/// One side on its host.
#[derive(Debug)]
struct Post {
    client: Arc<Client>,
    /// The arm by its name there.
    arm: String,
    endpoints: Vec<Endpoint>,
}

impl Afar {
    /// Has the arm's actions done and its sides started. The endpoints are what the load opens; where the initiating side
    /// is on this machine, its adapter still has to be put between.
    pub fn build(
        fleet: &Fleet,
        site: &Site,
        Binding { arm, bound }: Binding<'_>,
        topology: &Topology,
    ) -> Result<Self> {
        for one in &bound.actions {
            fleet.host(site, &one.host)?.tell(&Request::Act { action: one.action.clone() })?;
        }
        let mut afar = Self::default();
        if let Some(name) = &bound.target_host {
            ensure!(
                topology.cores == 1 && topology.target_spin.is_none(),
                "an agent starts targets on one core, as they are by default: leave `cores` and `target_spin` out, or let the lab start the target here"
            );
            let client = fleet.host(site, name)?;
            let volumes =
                Volumes { targets: topology.targets, luns: topology.luns, url: topology.volume.clone() };
            let key = format!("{}-target", arm.key);
            let place = client.place();
            let request = Request::Serve { arm: key.clone(), target: arm.target, volumes, place };
            let mut post = Post::start(client, key, &request)?;
            if topology.digests {
                arm::protect(&mut post.endpoints);
            }
            afar.target = Some(post);
        }
        if let Some(name) = &bound.host {
            let client = fleet.host(site, name)?;
            let endpoints =
                afar.target.as_ref().map_or_else(|| bound.opened(), |post| post.endpoints.clone());
            let key = format!("{}-host", arm.key);
            let place = client.place();
            let request = Request::Adapt { arm: key.clone(), initiator: arm.initiator, endpoints, place };
            afar.host = Some(Post::start(client, key, &request)?);
        }
        Ok(afar)
    }

    /// What the target elsewhere offers.
    pub fn offered(&self) -> Option<&[Endpoint]> {
        self.target.as_ref().map(|post| post.endpoints.as_slice())
    }

    /// Whether the target stands elsewhere.
    pub const fn serves(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the load comes from elsewhere.
    pub const fn loads(&self) -> bool {
        self.host.is_some()
    }

    /// Begins to count what the target costs.
    pub fn open(&self) -> Result<()> {
        self.target.as_ref().map_or(Ok(()), Post::open)
    }

    /// Ends the count, and adds the target's cost to what the initiating machine counted between two moments of this machine's clock.
    pub fn close(&self, counted: &mut Counted, period: Period) -> Result<BTreeMap<String, Machine>> {
        let Some(post) = &self.target else { return Ok(BTreeMap::new()) };
        let (theirs, machine) = post.close(period.from, period.to)?;
        counted.cpu.target = theirs.cpu.target;
        counted.memory.extend(theirs.memory.into_iter().filter(|(side, _)| side == "target"));
        counted.flags.extend(theirs.flags.into_iter().map(|flag| on_host(flag, post.client.name())));
        Ok(BTreeMap::from([(post.client.name().to_owned(), machine)]))
    }

    /// Checks that every endpoint of a load elsewhere keeps its data.
    pub fn check(&self) -> Result<Integrity> {
        let post = self.host()?;
        post.plan(Work {
            tool: lab_model::scenario::ToolKind::Fio,
            settings: BTreeMap::new(),
            ramp: 0.0,
            runtime: 0.0,
        })?;
        for (number, endpoint) in post.endpoints.iter().enumerate() {
            match post.step(Step::Check { endpoint: number })? {
                Ran::Nothing => {
                    return Ok(Integrity::PassedOver(format!("nothing there can check {}", endpoint.url)));
                }
                Ran::Badly(failure) => bail!("{} fails the integrity pass: {failure}", endpoint.url),
                Ran::Well => {}
            }
        }
        Ok(Integrity::Kept(post.endpoints.len()))
    }

    /// Measures once by a load elsewhere.
    pub fn take(&self, task: &Task<'_>, preparation: Preparation) -> Result<Taken> {
        let post = self.host()?;
        let Design { ramp, runtime, .. } = *task.design;
        let work = Work { tool: task.kind, settings: task.settings.clone(), ramp, runtime };
        let planned = post.plan(work)?;
        let preparations = match preparation {
            Preparation::Due => planned,
            Preparation::Done => 0,
        };
        for number in 0..preparations {
            if let Ran::Badly(failure) = post.step(Step::Prepare { number })? {
                bail!("host {}: the load cannot be prepared: {failure}", post.client.name());
            }
        }
        self.open()?;
        post.open()?;
        // Whether its status is a failure is decided by what it reports.
        let _status = post.step(Step::Load {})?;
        let (outcome, files) = post.outcome()?;
        post.fetch(&files, task.folder)?;
        let (mut measured, started, from, to) = match outcome {
            Outcome::Measured { measured, started, from, to } => (*measured, started, from, to),
            Outcome::Failed { reason } => bail!("host {}: {reason}", post.client.name()),
        };
        let here = |at| post.client.to_here(at);
        measured.window_start = measured.window_start.map(here);
        let period = Period { from: here(from), to: here(to) };
        let (mut counted, machine) = post.close(period.from, period.to)?;
        counted.from = here(counted.from);
        let mut hosts = self.close(&mut counted, period)?;
        hosts.insert(post.client.name().to_owned(), machine);
        let started = here(started);
        Ok(Taken {
            measured,
            counted,
            started,
            hosts,
            neighbours: Vec::new(),
            target_counters: Counters::new(),
        })
    }

    fn host(&self) -> Result<&Post> {
        self.host.as_ref().context("the arm's load does not come from another host")
    }
}

/// The same doubt, with the machine that it is about.
fn on_host(mut flag: Flag, host: &str) -> Flag {
    let (Flag::Contended { detail }
    | Flag::NoSteadyState { detail }
    | Flag::Throttled { detail }
    | Flag::Errors { detail }
    | Flag::DelayedAck { detail }
    | Flag::Corrupt { detail }
    | Flag::OutsideProfile { detail }
    | Flag::SharedLimit { detail }) = &mut flag;
    *detail = format!("host {host}: {detail}");
    flag
}

impl Post {
    fn start(client: Arc<Client>, arm: String, request: &Request) -> Result<Self> {
        match client.ask(request)? {
            Reply::Served { endpoints } => Ok(Self { client, arm, endpoints }),
            other => Err(client.unexpected(&other)),
        }
    }

    fn open(&self) -> Result<()> {
        self.client.tell(&Request::Open { arm: self.arm.clone() })
    }

    fn close(&self, from: f64, to: f64) -> Result<(Counted, Machine)> {
        let (from, to) = (self.client.to_there(from), self.client.to_there(to));
        match self.client.ask(&Request::Close { arm: self.arm.clone(), from, to })? {
            Reply::Counted { counted, hardware } => {
                let machine = Machine {
                    cpu: counted.cpu.clone(),
                    memory: counted.memory.clone(),
                    network: counted.network,
                    hardware: *hardware,
                };
                Ok((*counted, machine))
            }
            other => Err(self.client.unexpected(&other)),
        }
    }

    fn plan(&self, work: Work) -> Result<usize> {
        match self.client.ask(&Request::Plan { arm: self.arm.clone(), work })? {
            Reply::Planned { preparations } => Ok(preparations),
            other => Err(self.client.unexpected(&other)),
        }
    }

    /// Runs a step to its end.
    fn step(&self, step: Step) -> Result<Ran> {
        match self.client.ask(&Request::Start { step })? {
            Reply::Started { started: true } => {}
            Reply::Started { started: false } => return Ok(Ran::Nothing),
            other => return Err(self.client.unexpected(&other)),
        }
        loop {
            match self.client.ask(&Request::Poll {})? {
                Reply::Running {} => thread::sleep(POLL_EVERY),
                Reply::Ended { failure } => return Ok(failure.map_or(Ran::Well, Ran::Badly)),
                other => return Err(self.client.unexpected(&other)),
            }
        }
    }

    fn outcome(&self) -> Result<(Outcome, Vec<RawFile>)> {
        match self.client.ask(&Request::Outcome {})? {
            Reply::Outcome { outcome, files } => Ok((*outcome, files)),
            other => Err(self.client.unexpected(&other)),
        }
    }

    /// Copies the raw files beside the result.
    fn fetch(&self, files: &[RawFile], folder: &Path) -> Result<()> {
        let bytes: u64 = files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        ensure!(
            files.len() <= FILES && bytes <= FILES_BYTES,
            "{} files of {bytes} bytes are too many",
            files.len()
        );
        for file in files {
            guard::name(&file.name)?;
            let path = folder.join(&file.name);
            let mut copy = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
            let mut offset = 0;
            while offset < file.bytes {
                let part = self.read(&file.name, offset)?;
                ensure!(!part.is_empty(), "host {}: {} has become shorter", self.client.name(), file.name);
                offset += u64::try_from(part.len())?;
                copy.write_all(&part).with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn read(&self, name: &str, offset: u64) -> Result<Vec<u8>> {
        match self.client.ask(&Request::Read { name: name.to_owned(), offset })? {
            Reply::Bytes { digits } => {
                hex::decode(&digits).context("a part of a file is not in hexadecimal digits")
            }
            other => Err(self.client.unexpected(&other)),
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        // Without a connection the agent has ended it already.
        let _ = self.client.tell(&Request::End { arm: self.arm.clone() });
    }
}
