//! What an agent does for the lab that is connected: it starts sides of arms, counts what they cost, and runs loads.
//!
//! No request lasts long: a load is started by one and asked after by others, so that the end of the connection is noticed at
//! once. Whatever a session makes outside its folder is in a ledger there; its end removes both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::action::Action;
use super::guard::{self, Grounds};
use super::limits::{ARMS, LONGEST_LOAD, STARTS, VOLUMES};
use super::message::{Outcome, Place, Reply, Request, Step, Work};
use super::settings::Settings;
use super::{files, hex};
use crate::arm::{self, AdaptSpec, Endpoint, ServeSpec, Served, Volumes, sides};
use crate::machine::clock::{self, Period};
use crate::machine::ledger::{Id, Ledger, Thing, TornDown};
use crate::machine::process::{CommandLine, Placement, Running};
use crate::machine::topology::Host;
use crate::measure::hardware::Snapshot;
use crate::measure::network::{End, Probe};
use crate::measure::{Environment, Role, Sides, Window, environment};
use crate::site::Processors;
use crate::tool::{self, Assignment, integrity, timing};
use lab_model::scenario::{Initiator, Target};

/// A lab's stay.
#[derive(Debug)]
pub(super) struct Session<'a> {
    settings: &'a Settings,
    /// Names control groups, apart from those of other agents on this machine.
    name: String,
    folder: PathBuf,
    ledger: Ledger,
    arms: BTreeMap<String, Arm>,
    actions: Vec<Action>,
    job: Option<Job>,
    starts: usize,
}

/// One side of an arm: its target, or its initiating host.
#[derive(Debug)]
struct Arm {
    // Dropped first: the processes end before the groups that they are in.
    served: Served,
    initiator: Initiator,
    host: Host,
    processors: Processors,
    counting: Option<Counting>,
    sides: Sides,
}

#[derive(Debug)]
struct Counting {
    window: Window,
    hardware: Snapshot,
}

/// A load of an arm.
#[derive(Debug)]
struct Job {
    arm: String,
    work: Work,
    folder: PathBuf,
    step: Option<Process>,
    deadline: Instant,
    /// When the last step began and ended, seconds since 1970.
    period: Period,
    /// How it ended.
    status: Option<ExitStatus>,
}

#[derive(Debug)]
struct Process {
    running: Running,
    noted: Id,
}

/// A side of an arm that is to stand.
struct Side {
    /// The arm's key.
    key: String,
    place: Place,
}

impl<'a> Session<'a> {
    /// Begins in a folder of its own, `number` of this agent.
    pub(super) fn new(settings: &'a Settings, number: u64) -> Result<Self> {
        let name = format!("agent-{}-{number}", std::process::id());
        let folder = settings.state.join(&name);
        files::make_folder(&folder)?;
        let ledger = Ledger::create(&folder.join("ledger.jsonl"))?;
        let (arms, actions) = (BTreeMap::new(), Vec::new());
        Ok(Self { settings, name, folder, ledger, arms, actions, job: None, starts: 0 })
    }

    /// Does what is asked for, or says why not.
    pub(super) fn handle(&mut self, request: Request) -> Reply {
        self.attempt(request).unwrap_or_else(|error| Reply::Refused { reason: format!("{error:#}") })
    }

    fn attempt(&mut self, request: Request) -> Result<Reply> {
        match request {
            Request::Now {} => Ok(Reply::Now { at: clock::now() }),
            Request::Environment {} => Ok(self.environment()),
            Request::Act { action } => self.act(action),
            Request::Serve { arm, target, volumes, place } => {
                self.serve(Side { key: arm, place }, target, &volumes)
            }
            Request::Adapt { arm, initiator, endpoints, place } => {
                self.adapt(Side { key: arm, place }, initiator, &endpoints)
            }
            Request::End { arm } => self.end(&arm),
            Request::Open { arm } => self.open(&arm),
            Request::Close { arm, from, to } => self.close(&arm, from, to),
            Request::Plan { arm, work } => self.plan(arm, work),
            Request::Start { step } => self.start(step),
            Request::Poll {} => self.poll(),
            Request::Outcome {} => self.outcome(),
            Request::Read { name, offset } => self.read(&name, offset),
        }
    }

    fn environment(&self) -> Reply {
        let commit = self.settings.linerate.parent().and_then(environment::commit_of);
        Reply::Environment { environment: Box::new(Environment::capture(commit)) }
    }

    fn act(&mut self, action: Action) -> Result<Reply> {
        if !self.actions.contains(&action) {
            ensure!(self.actions.len() < ARMS, "{ARMS} actions are the most of a session");
            let grounds = Grounds { folder: &self.folder, destroy: &self.settings.destroy };
            action
                .perform(grounds, &mut self.ledger)
                .with_context(|| format!("action {}", action.program()))?;
            self.actions.push(action);
        }
        Ok(Reply::Done {})
    }

    fn grounds(&self) -> Grounds<'_> {
        Grounds { folder: &self.folder, destroy: &self.settings.destroy }
    }

    /// Control groups for a side of an arm that does not stand yet.
    fn prepare(&mut self, key: &str, roles: &[Role], place: Place) -> Result<Arm> {
        guard::name(key)?;
        ensure!(!self.arms.contains_key(key), "arm {key} stands here already: end it first");
        ensure!(self.arms.len() < ARMS, "{ARMS} arms are the most that stand at a time");
        ensure!(self.starts < STARTS, "{STARTS} starts are the most of a session: connect anew");
        place.interface.as_deref().map_or(Ok(()), guard::name)?;
        self.starts += 1;
        let sides = sides::account(&format!("{}-{key}", self.name), roles, 0, &mut self.ledger)?;
        Ok(Arm {
            served: Served::default(),
            initiator: Initiator::Site,
            host: Host { namespace: None, address: place.address, link: place.interface },
            processors: place.processors,
            counting: None,
            sides,
        })
    }

    fn arm_folder(&self, key: &str) -> Result<PathBuf> {
        let folder = self.folder.join(format!("{key}-{}", self.starts));
        files::make_folder(&folder)?;
        Ok(folder)
    }

    fn serve(&mut self, side: Side, target: Target, volumes: &Volumes) -> Result<Reply> {
        let Side { key, place } = side;
        guard::volumes(volumes, self.grounds())?;
        let mut arm = self.prepare(&key, &[Role::Target], place)?;
        let folder = self.arm_folder(&key)?;
        let placement = arm.placement(Role::Target);
        let linerate = &self.settings.linerate;
        let spec = ServeSpec {
            volumes,
            host: &arm.host,
            folder: &folder,
            placement: &placement,
            linerate,
            cores: 1,
            spin: None,
        };
        arm.served = arm::serve(target, &spec, &mut self.ledger)?;
        sides::enrol(&arm.sides, Role::Target, &arm.served);
        Ok(self.stands(key, arm))
    }

    fn adapt(&mut self, side: Side, initiator: Initiator, endpoints: &[Endpoint]) -> Result<Reply> {
        let Side { key, place } = side;
        ensure!((1..=VOLUMES).contains(&endpoints.len()), "a load goes to 1 to {VOLUMES} endpoints");
        let checked = endpoints.iter().map(|endpoint| guard::endpoint(endpoint, self.grounds()));
        let endpoints: Vec<Endpoint> = checked.collect::<Result<_>>()?;
        let roles = sides::roles(initiator).iter().copied().filter(|role| *role != Role::Target);
        let mut arm = self.prepare(&key, &roles.collect::<Vec<_>>(), place)?;
        arm.initiator = initiator;
        let folder = self.arm_folder(&key)?;
        let placement = arm.placement(Role::Adapter);
        let spec = AdaptSpec {
            endpoints: &endpoints,
            host: &arm.host,
            folder: &folder,
            placement: &placement,
            linerate: &self.settings.linerate,
        };
        arm.served = arm::adapt(initiator, &spec, &mut self.ledger)?;
        sides::enrol(&arm.sides, Role::Adapter, &arm.served);
        Ok(self.stands(key, arm))
    }

    fn stands(&mut self, key: String, arm: Arm) -> Reply {
        let endpoints = arm.served.endpoints.clone();
        self.arms.insert(key, arm);
        Reply::Served { endpoints }
    }

    fn end(&mut self, key: &str) -> Result<Reply> {
        if self.job.as_ref().is_some_and(|job| job.arm == key) {
            self.job = None;
        }
        self.arms.remove(key).with_context(|| format!("arm {key} does not stand here"))?;
        Ok(Reply::Done {})
    }

    fn arm(&mut self, key: &str) -> Result<&mut Arm> {
        self.arms.get_mut(key).with_context(|| format!("arm {key} does not stand here: start it first"))
    }

    fn open(&mut self, key: &str) -> Result<Reply> {
        let arm = self.arm(key)?;
        let interface = arm.host.link.clone();
        let end = interface.clone().map(|interface| End { namespace: None, interface });
        let probe = end.map(|end| Probe::open(&[end], None)).transpose()?;
        let window = Window::open(&arm.sides, probe)?;
        arm.counting = Some(Counting { window, hardware: Snapshot::read(interface.as_deref()) });
        Ok(Reply::Done {})
    }

    fn close(&mut self, key: &str, from: f64, to: f64) -> Result<Reply> {
        let arm = self.arm(key)?;
        if let Some(words) = arm.ended() {
            bail!("{words}");
        }
        let Counting { window, hardware } = arm
            .counting
            .take()
            .with_context(|| format!("nothing is counted for arm {key}: open it first"))?;
        let interface = arm.host.link.as_deref();
        let hardware = Snapshot::read(interface).since(&hardware, interface);
        let from = from.max(window.opened());
        let mut counted = window.close_over(from, to.min(clock::now()))?;
        for second in &mut counted.intervals {
            // The lab draws the machine's seconds, not each processor's: they would be most of the reply.
            second.machine.each.clear();
        }
        Ok(Reply::Counted { counted: Box::new(counted), hardware: Box::new(hardware) })
    }

    fn plan(&mut self, key: String, work: Work) -> Result<Reply> {
        guard::settings(work.tool, &work.settings)?;
        let longest = LONGEST_LOAD.as_secs_f64();
        let fits = |seconds: f64| (0.0..=longest).contains(&seconds);
        ensure!(fits(work.ramp) && fits(work.runtime), "a load lasts from 0 s to {longest} s");
        // Ends what may still run of the one before.
        if let Some(job) = self.job.take() {
            let folder = job.folder.clone();
            drop(job);
            files::remove(&folder)?;
        }
        let folder = self.folder.join("load");
        files::make_folder(&folder)?;
        let job = Job {
            arm: key,
            work,
            folder,
            step: None,
            deadline: Instant::now(),
            period: Period { from: 0.0, to: 0.0 },
            status: None,
        };
        let arm = self.arm(&job.arm)?;
        let preparations =
            tool::prepare(job.work.tool, &job.assignment(arm, Path::new(""))).map_or(0, |all| all.len());
        self.job = Some(job);
        Ok(Reply::Planned { preparations })
    }

    fn start(&mut self, step: Step) -> Result<Reply> {
        let job = self.job.as_mut().context("no load is planned")?;
        ensure!(job.step.is_none(), "a step of the load runs already");
        let arm = self.arms.get(&job.arm).with_context(|| format!("arm {} does not stand here", job.arm))?;
        let Some(line) = job.command(arm, step, &self.settings.linerate)? else {
            return Ok(Reply::Started { started: false });
        };
        let limit = timing::limit(job.work.ramp, job.work.runtime);
        job.deadline = Instant::now() + if step == (Step::Load {}) { limit } else { limit * 4 };
        let running = Running::start(&line, &arm.placement(Role::Host))?;
        let argv0 = line.argv.first().cloned().unwrap_or_default();
        let noted = self.ledger.add(Thing::Process { identity: running.identity(), argv0 })?;
        if let Some(side) = arm.sides.get(Role::Host) {
            side.started(running.pid());
        }
        job.period = Period { from: clock::now(), to: 0.0 };
        job.step = Some(Process { running, noted });
        Ok(Reply::Started { started: true })
    }

    fn poll(&mut self) -> Result<Reply> {
        let job = self.job.as_mut().context("no load is planned")?;
        let process = job.step.as_mut().context("no step of the load was started")?;
        let late = Instant::now() > job.deadline;
        if process.running.is_alive() && !late {
            return Ok(Reply::Running {});
        }
        job.period.to = clock::now();
        let ended = process.running.wait(Duration::ZERO);
        self.ledger.gone(process.noted)?;
        let failure = match &ended {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("it ended with {status}{}", process.running.last_words())),
            Err(error) => Some(format!("{error:#}")),
        };
        job.status = ended.ok();
        job.step = None;
        Ok(Reply::Ended { failure })
    }

    fn outcome(&mut self) -> Result<Reply> {
        let job = self.job.as_ref().context("no load is planned")?;
        let arm = self.arms.get(&job.arm).with_context(|| format!("arm {} does not stand here", job.arm))?;
        let status = job.status.context("the load has not ended, or was killed because it took too long")?;
        let assignment = job.assignment(arm, &self.settings.linerate);
        let outcome = match tool::outcome(job.work.tool, &assignment, status) {
            Ok(measured) => {
                let Period { from, to } = timing::span(&measured, job.period, job.work.ramp);
                let measured = Box::new(measured);
                Outcome::Measured { measured, started: job.period.from, from, to }
            }
            Err(error) => Outcome::Failed { reason: format!("{error:#}") },
        };
        Ok(Reply::Outcome { outcome: Box::new(outcome), files: files::list(&job.folder)? })
    }

    fn read(&self, name: &str, offset: u64) -> Result<Reply> {
        guard::name(name)?;
        let job = self.job.as_ref().context("no load is planned")?;
        let bytes = files::read(&job.folder.join(name), offset)?;
        Ok(Reply::Bytes { digits: hex::encode(&bytes) })
    }

    /// Ends everything and removes what was made. What could not be removed stays in the ledger.
    pub(super) fn tear_down(mut self) -> TornDown {
        self.job = None;
        self.arms.clear();
        let mut torn = self.ledger.tear_down();
        if torn.left.is_empty()
            && let Err(error) = files::remove(&self.folder)
        {
            torn.left.push(format!("{error:#}"));
        }
        torn
    }
}

impl Arm {
    fn placement(&self, role: Role) -> Placement {
        let processors = match role {
            Role::Host => &self.processors.host,
            Role::Adapter => &self.processors.adapter,
            // Neighbours are built by the lab alone.
            Role::Target | Role::Neighbour => &self.processors.target,
        };
        sides::placement(&self.host, processors, &self.sides, role)
    }

    /// A process that has ended although nobody stopped it, in words.
    fn ended(&mut self) -> Option<String> {
        let mut all = self.served.services.iter_mut();
        let gone = all.find_map(|service| (!service.running.is_alive()).then_some(service))?;
        Some(format!("{} has ended{}", gone.name, gone.running.last_words()))
    }
}

impl Job {
    fn assignment<'s>(&'s self, arm: &'s Arm, linerate: &'s Path) -> Assignment<'s> {
        Assignment {
            settings: &self.work.settings,
            endpoints: &arm.served.endpoints,
            folder: &self.folder,
            ramp: self.work.ramp,
            runtime: self.work.runtime,
            linerate,
            engines: linerate.parent().unwrap_or(Path::new("")),
            initiator: arm.initiator,
        }
    }

    /// How a step is started; `None` if nothing can check the endpoint.
    fn command(&self, arm: &Arm, step: Step, linerate: &Path) -> Result<Option<CommandLine>> {
        let assignment = self.assignment(arm, linerate);
        match step {
            Step::Load {} => tool::command(self.work.tool, &assignment).map(Some),
            Step::Prepare { number } => {
                let mut all = tool::prepare(self.work.tool, &assignment)?;
                ensure!(number < all.len(), "the load has {} preparations", all.len());
                Ok(Some(all.swap_remove(number)))
            }
            Step::Check { endpoint } => {
                let all = &arm.served.endpoints;
                let endpoint =
                    all.get(endpoint).with_context(|| format!("the arm has {} endpoints", all.len()))?;
                let engine = tool::engine(arm.initiator, assignment.engines, &endpoint.url);
                let argv = integrity::checker(endpoint, linerate, engine);
                Ok(argv.map(|argv| CommandLine::new("check", argv, &self.folder)))
            }
        }
    }
}
