//! Trials of a server whose volumes and portals come and go while clients of both protocols use them.
//!
//! A controller puts one catalogue after another in place, each with a volume more or less, or other access to one, or another portal, while every volume's client
//! reads and writes and single cores stand still. What is promised:
//! * who uses a volume that stays sees no error, waits no longer than without any change, and logs in once, whatever else changes;
//! * a reservation holds for as long as its volume is served, wherever that is shown;
//! * who has access no more is asked to leave, and nothing is served to it soon after; who gets access is let in;
//! * a volume that goes has no effect any more once it is retired; it is retired in good time, and once; what was acknowledged survives a loss of power after that;
//!   who used it was told before, and what it asks meanwhile is answered;
//! * every change is applied, and a volume that has come can be opened on every core;
//! * in the end every id is free again.
//!
//! [`PlantedBug`] has the bugs that it must find.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use backends::FileVolume;
use engine::remote::{self, Access, RemoteOpening};
use engine::{
    Catalogue, ControlEvent, Core, Generation, ListenerRole, Listening, Message, ServedVolume, Transport,
};
use host::{CoreIndex, Journal, Kind, ListenerId, OpenMode};
use protocol::Instant;
use volume::{CoreId, QueueContext, Volume, VolumeId, VolumeQueue};

use crate::dice::{Dice, Odds};
use crate::disk::{self, CrashDisk, DiskOptions, SECTOR};
use crate::failure::TrialFailure;
use crate::interlude::Interlude;
use crate::lock;
use crate::network_conditions::NetworkConditions;
use crate::reserving::Reserving;
use crate::retirement::{Ledger, Noted, Requests, Unflushed, retire_before_drain, unknown_fence};
use crate::serving::{Makings, make_cores};
use crate::slow::{Effect, SlowDisk, Watch};
use crate::spread::Spread;
use crate::visitor::{self, Admission, Unit, Visitor};
use crate::workload::Workload;
use crate::world::{Frozen, World, WorldDialer};

/// Sectors of a disk, and the longest that it takes for a request.
const SECTORS: usize = 24;
const SLOWEST: Duration = Duration::from_millis(80);
/// Buffers of each core, in bytes.
const POOL: usize = 8 << 20;
/// Volumes at a time.
const VOLUMES: std::ops::RangeInclusive<usize> = 1..=4;
/// The time between two changes.
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_millis(1500);
/// How long the network takes. Slow, so that long waits take few steps.
const DELAY: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(15);
/// How long a change may take on all cores, and how long the opening of a volume that is there.
const APPLYING: Duration = Duration::from_secs(3);
const OPENING: Duration = Duration::from_secs(5);
/// How long a client's queues may take to log in.
const SETTLING: Duration = Duration::from_secs(2);
/// How long a volume may take from its removal to its retirement: the engine's `WITHDRAWAL`, its last requests and flush, and cores that stand still.
const RETIRING: Duration = Duration::from_secs(8);
/// How long a request of a volume that stays may take: what the disk and the network take without any change, several times over when visitors reset the unit. Time
/// in which a core stands still does not count.
const ANSWER: Duration = Duration::from_millis(600);
/// How long a server with [`PlantedBug::StandStill`] does nothing at each change.
const PLANTED_STANDSTILL: Duration = Duration::from_millis(700);
/// How often a client takes its volume for itself, and how often, for each step, somebody comes again who has left.
const RESERVED: Odds = Odds(400);
const RETURNS: Odds = Odds(3);

/// A bug of whoever composes catalogues, or of the server's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// Slots have no generation, and are used again as soon as their volumes are not in the catalogue any more.
    SlotWithoutGeneration,
    /// Connections do not hear that what they use is going.
    RefusalBeforeNews,
    /// A volume is said to be retired while its queues still work.
    RetireBeforeDrain,
    /// A volume is retired without a last flush.
    RetireWithoutFlush,
    /// A core does not acknowledge a fence for a volume that it has no more.
    FenceUnknownVolume,
    /// A volume that is shown under another number gets another id.
    MoveAsAnother,
    /// A portal of which only the access rules have changed is taken for unchanged.
    AccessKept,
    /// Whoever was asked to leave is not closed when its time is over.
    DeadlinesForgotten,
    /// The server does nothing while a change is made.
    StandStill,
}

/// A volume as portals show it: under its name, in both protocols.
pub struct Export<'a> {
    /// The end of its target's and its subsystem's names.
    pub name: &'a str,
    /// Its id.
    pub id: VolumeId,
    /// Its logical unit number; its namespace has the next one.
    pub lun: u8,
    /// Everybody may use it; or else its client alone.
    pub is_open: bool,
    /// The volume.
    pub volume: &'a dyn Volume,
}

impl std::fmt::Debug for Export<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

/// Composes a portal. What is as it was in the portal before stays the very same.
pub type Compose = fn(&[Export<'_>], Option<&ListenerRole>) -> ListenerRole;

/// What a trial is about.
pub struct Scenario {
    /// Composes the portals of ports 1 and 3, iSCSI, and of port 2, NVMe/TCP.
    pub portals: [Compose; 2],
    /// How clients open the volume of a name and number, over each of them.
    pub access: [fn(&str, u8) -> Access; 2],
    /// Cores of the server.
    pub cores: CoreIndex,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario").field("cores", &self.cores).finish_non_exhaustive()
    }
}

/// The port that comes and goes, counted from zero.
const THIRD: ListenerId = ListenerId(2);

/// A client of one volume, over one of the protocols.
struct Client {
    protocol: usize,
    workload: Workload,
    stage: Stage,
    since: Instant,
    requests: Arc<Mutex<Requests>>,
}

enum Stage {
    /// Its volume is not served yet.
    Waiting,
    Opening(RemoteOpening),
    Reserving(Reserving),
    Open(Box<dyn VolumeQueue>),
}

/// Whether a client takes its volume for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Never,
    Wanted,
    /// It has reserved the volume.
    Held,
}

/// A volume of the trial.
struct Live {
    id: VolumeId,
    disk: CrashDisk,
    volume: Arc<dyn Volume>,
    client: Client,
    visitor: Option<Visitor>,
    lun: u8,
    /// It is about to have another number.
    moving: bool,
    /// Everybody may use it; or else its client alone.
    is_open: bool,
    /// Since when that has been so on all cores; `None` while it changes.
    admitted: Option<Instant>,
    claim: Claim,
    /// Since when it has been on its way out.
    leaving: Option<Instant>,
}

impl Live {
    /// True when nobody may see a change.
    fn stays(&self) -> bool {
        self.leaving.is_none() && !self.moving
    }

    /// What its visitor finds.
    fn unit(&self) -> Unit {
        let is_shut = self.leaving.is_some() || !self.is_open;
        let admission = match self.admitted {
            None => Admission::Changing,
            Some(since) if is_shut => Admission::Closed(since),
            Some(since) => Admission::Open(since),
        };
        Unit {
            lun: self.lun,
            leaves: self.leaving.is_some(),
            moves: self.moving,
            is_reserved: self.claim == Claim::Held,
            admission,
        }
    }
}

/// A change that is under way.
struct Proposal {
    since: Instant,
    /// What to add or remove is done when it is applied.
    change: Change,
}

enum Change {
    Add(String),
    Remove(String),
    Move(String),
    Access(String),
    Portal,
}

/// Slots, and how often each was used.
#[derive(Default)]
struct Ids(Vec<(u16, bool)>);

impl Ids {
    /// An id that nobody has: of the first slot that is free.
    fn allocate(&mut self) -> VolumeId {
        let free = self.0.iter().position(|(_, used)| !used);
        let slot = free.unwrap_or(self.0.len());
        if free.is_none() {
            self.0.push((0, false));
        }
        self.0[slot].1 = true;
        VolumeId::new(wire::bounded::<u16>(slot), self.0[slot].0)
    }

    fn release(&mut self, id: VolumeId, bug: PlantedBug) {
        let slot = &mut self.0[id.slot()];
        slot.1 = false;
        if bug != PlantedBug::SlotWithoutGeneration {
            slot.0 += 1;
        }
    }
}

struct Trial {
    world: World<Core>,
    dice: Dice,
    scenario: Scenario,
    bug: PlantedBug,
    ids: Ids,
    names: u32,
    generation: u64,
    listeners: Vec<Listening>,
    volumes: BTreeMap<String, Live>,
    proposal: Option<Proposal>,
    ledger: Arc<Ledger>,
    interlude: Interlude,
    /// Ids that their volumes have no more, by [`PlantedBug::MoveAsAnother`].
    abandoned: Vec<VolumeId>,
}

/// Runs one trial with so many changes. The error says which promise was broken.
pub fn reconfigure(
    seed: u64,
    changes: usize,
    scenario: Scenario,
    bug: PlantedBug,
) -> Result<(), TrialFailure> {
    let mut trial = Trial::new(seed, scenario, bug)?;
    for number in 0..changes {
        let told = |failure: TrialFailure| failure.at(format_args!("change {number}"));
        let until = trial.world.now() + trial.dice.span(&PAUSE);
        while trial.world.now() < until || trial.proposal.is_some() {
            trial.step().map_err(told)?;
        }
        trial.change();
    }
    trial.finish()
}

impl Trial {
    fn new(seed: u64, scenario: Scenario, bug: PlantedBug) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let conditions = NetworkConditions { delay: DELAY, longest: 1 << 16, cuts: Odds::NEVER };
        let mut world = World::new(conditions, dice.fork());
        world.loosen();
        let ledger = Arc::new(Ledger::default());
        let mut trial = Self {
            world,
            dice,
            scenario,
            bug,
            ids: Ids::default(),
            names: 0,
            generation: 1,
            listeners: Vec::new(),
            volumes: BTreeMap::new(),
            proposal: None,
            ledger,
            interlude: Interlude::default(),
            abandoned: Vec::new(),
        };
        if bug == PlantedBug::DeadlinesForgotten {
            trial.world.forget_deadlines();
        }
        for _ in 0..=*VOLUMES.start() {
            trial.make_volume()?;
        }
        trial.compose(false);
        let makings = Makings {
            catalogue: trial.catalogue(),
            cores: trial.scenario.cores,
            pool: POOL,
            hook: match bug {
                PlantedBug::RetireBeforeDrain => Some(retire_before_drain()),
                PlantedBug::FenceUnknownVolume => Some(unknown_fence()),
                _ => None,
            },
            entropy: trial.world.entropy(),
            journal: Arc::clone(&trial.world.journal) as Arc<dyn Journal>,
            observer: Arc::clone(&trial.ledger) as Arc<dyn engine::ControlObserver>,
        };
        let (cores, mail) = make_cores(makings)?;
        trial.world.start_server(cores, mail);
        let names: Vec<String> = trial.volumes.keys().cloned().collect();
        for name in &names {
            trial.open(name);
        }
        Ok(trial)
    }

    /// Makes a volume with its client; its name.
    fn make_volume(&mut self) -> Result<String, TrialFailure> {
        self.names += 1;
        let name = format!("disk{}", self.names);
        let id = self.ids.allocate();
        self.ledger.begin(id);
        let options = DiskOptions {
            sectors: SECTORS,
            errors: Odds::NEVER,
            write_back: None,
            bug: disk::PlantedBug::None,
        };
        let disk = CrashDisk::new(options, self.dice.fork());
        let file = FileVolume::new(Arc::new(disk.clone()), OpenMode::ReadWrite, None)?;
        let ledger = Arc::clone(&self.ledger);
        let watch: Watch = Arc::new(Mutex::new(Box::new(move |effect: &Effect<'_>| ledger.see(id, effect))));
        let volume: Arc<dyn Volume> = Arc::new(SlowDisk {
            inner: Arc::new(file),
            slowest: SLOWEST,
            quick: Arc::default(),
            stubborn: self.dice.coin(),
            watch,
            dice: Mutex::new(self.dice.fork()),
        });
        let volume = match self.bug {
            PlantedBug::RetireWithoutFlush => Arc::new(Unflushed(volume)) as Arc<dyn Volume>,
            _ => volume,
        };
        let client = Client {
            protocol: self.dice.index(2),
            workload: Workload::new(SECTORS, SECTOR, self.dice.fork()).strict(),
            stage: Stage::Waiting,
            since: Instant::ZERO,
            requests: Arc::default(),
        };
        let live = Live {
            id,
            disk,
            volume,
            client,
            visitor: None,
            lun: 0,
            moving: false,
            is_open: true,
            admitted: Some(self.world.now()),
            claim: if self.dice.happens(RESERVED) { Claim::Wanted } else { Claim::Never },
            leaving: None,
        };
        self.volumes.insert(name.clone(), live);
        Ok(name)
    }

    /// Composes the portals anew for all volumes that are to be served, with or without the third one.
    fn compose(&mut self, third: bool) {
        let served = self.volumes.iter().filter(|(_, live)| live.leaving.is_none());
        let exports: Vec<_> = served
            .map(|(name, live)| Export {
                name,
                id: live.id,
                lun: live.lun,
                is_open: live.is_open,
                volume: &*live.volume,
            })
            .collect();
        let before = |id| self.listeners.iter().find(|listening| listening.id == id).map(|found| &found.role);
        let [iscsi, nvme] = self.scenario.portals;
        let ports = [(ListenerId(0), iscsi), (ListenerId(1), nvme), (THIRD, iscsi)];
        let listening = |(id, compose): (ListenerId, Compose)| {
            (id != THIRD || third).then(|| Listening {
                id,
                transport: Transport::Tcp,
                role: compose(&exports, before(id)),
            })
        };
        self.listeners = ports.into_iter().filter_map(listening).collect();
    }

    fn has_third(&self) -> bool {
        self.listeners.iter().any(|listening| listening.id == THIRD)
    }

    fn catalogue(&self) -> Catalogue {
        let served = self.volumes.iter().filter(|(_, live)| live.leaving.is_none());
        let volumes = served.map(|(name, live)| ServedVolume {
            id: live.id,
            name: name.as_str().into(),
            volume: Arc::clone(&live.volume),
        });
        Catalogue {
            generation: Generation(self.generation),
            volumes: volumes.collect(),
            listeners: self.listeners.clone(),
            ..Catalogue::default()
        }
    }

    /// Begins to open a volume that is served.
    fn open(&mut self, name: &str) {
        let now = self.world.now();
        let Some(live) = self.volumes.get_mut(name) else { return };
        let access = (self.scenario.access[live.client.protocol])(name, live.lun);
        // Each queue is an initiator port of its own.
        let entropy = Mutex::new(self.dice.fork());
        let port = u16::try_from(live.client.protocol + 1).unwrap_or(1);
        let context = remote::ClientContext {
            dialer: Arc::new(WorldDialer),
            adapters: Arc::new(host::NoAdapters),
            waker: Waker::noop().clone(),
            entropy: Arc::new(move || Box::new(lock(&entropy).fork())),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        live.client.stage = Stage::Opening(remote::open(address, access, &context));
        live.client.since = now;
        if live.visitor.is_none() && (live.claim != Claim::Never || self.dice.coin()) {
            self.visit(name);
        }
    }

    /// Somebody comes to look at a volume.
    fn visit(&mut self, name: &str) {
        let port = if self.has_third() && self.dice.coin() { 3 } else { 1 };
        let number = u8::try_from(self.names % 250).unwrap_or(0);
        if let Some(live) = self.volumes.get_mut(name) {
            live.visitor = Some(Visitor::dial(port, name, number));
        }
    }

    /// Opens a volume under its other number.
    fn reopen(&mut self, name: &str) {
        if let Some(live) = self.volumes.get_mut(name) {
            live.moving = false;
            live.client.workload.disconnect();
            live.client.requests = Arc::default();
        }
        self.open(name);
    }

    /// Proposes some change.
    fn change(&mut self) {
        let staying: Vec<String> = self.staying();
        let change = match self.dice.below(8) {
            0 => Change::Portal,
            6 | 7 if !staying.is_empty() => Change::Access(staying[self.dice.index(staying.len())].clone()),
            5 if !staying.is_empty() => Change::Move(staying[self.dice.index(staying.len())].clone()),
            1 | 2 if staying.len() < *VOLUMES.end() => match self.make_volume() {
                Ok(name) => Change::Add(name),
                Err(_) => return,
            },
            _ if staying.len() > *VOLUMES.start() => {
                Change::Remove(staying[self.dice.index(staying.len())].clone())
            }
            _ => Change::Portal,
        };
        // Who has asked for a reservation and does not know whether it has it could not tell what it finds under the other number.
        let reserves = |name: &String| {
            self.volumes.get(name).is_some_and(|live| matches!(live.client.stage, Stage::Reserving(_)))
        };
        let change = match change {
            Change::Move(name) if reserves(&name) => Change::Access(name),
            other => other,
        };
        self.propose(change);
    }

    fn staying(&self) -> Vec<String> {
        let staying = self.volumes.iter().filter(|(_, live)| live.leaving.is_none());
        staying.map(|(name, _)| name.clone()).collect()
    }

    fn propose(&mut self, change: Change) {
        let now = self.world.now();
        let third = self.has_third() != matches!(change, Change::Portal);
        match &change {
            Change::Remove(name) => {
                if let Some(live) = self.volumes.get_mut(name) {
                    (live.leaving, live.admitted) = (Some(now), None);
                }
            }
            Change::Access(name) => {
                if let Some(live) = self.volumes.get_mut(name) {
                    (live.is_open, live.admitted) = (!live.is_open, None);
                }
            }
            Change::Move(name) => self.begin_move(name),
            Change::Add(_) | Change::Portal => {}
        }
        if matches!(change, Change::Portal) {
            let at_third = |live: &mut Live| {
                live.visitor.take_if(|visitor| visitor.port() == THIRD.0 + 1);
            };
            self.volumes.values_mut().for_each(at_third);
        }
        let withheld = match change {
            Change::Remove(_) => self.bug == PlantedBug::RefusalBeforeNews,
            Change::Access(_) => self.bug == PlantedBug::AccessKept,
            _ => false,
        };
        if !withheld {
            self.compose(third);
        }
        self.generation += 1;
        let catalogue = Arc::new(self.catalogue());
        self.world.tell_core(0, Message::Propose(catalogue));
        self.proposal = Some(Proposal { since: now, change });
    }

    /// A volume is about to have another number.
    fn begin_move(&mut self, name: &str) {
        let is_another = self.bug == PlantedBug::MoveAsAnother;
        let next = is_another.then(|| self.ids.allocate());
        let Some(live) = self.volumes.get_mut(name) else { return };
        (live.moving, live.lun) = (true, 1 - live.lun);
        if let Some(next) = next {
            self.abandoned.push(std::mem::replace(&mut live.id, next));
        }
    }

    /// All work, the world goes on, and the controller hears what has become of its changes.
    fn step(&mut self) -> Result<(), TrialFailure> {
        let names: Vec<String> = self.volumes.keys().cloned().collect();
        for name in &names {
            self.play(name).map_err(|failure| failure.at(name))?;
            let has_left = |live: &Live| live.visitor.as_ref().is_some_and(Visitor::has_left);
            let may_return =
                |live: &Live| has_left(live) && live.leaving.is_none() && live.admitted.is_some();
            if self.volumes.get(name).is_some_and(may_return) && self.dice.happens(RETURNS) {
                self.visit(name);
            }
        }
        self.interlude.step(&mut self.dice, &mut self.world);
        if self.bug == PlantedBug::StandStill {
            self.stand_still();
        }
        self.world.step();
        for event in self.ledger.take()? {
            self.handle(event)?;
        }
        self.check_journal()?;
        self.check_times()
    }

    /// A volume's client and visitor do something.
    fn play(&mut self, name: &str) -> Result<(), TrialFailure> {
        let now = self.world.now();
        let clock = self.interlude.working(now);
        let Some(live) = self.volumes.get_mut(name) else { return Ok(()) };
        lock(&live.client.requests).tell_time(clock);
        let (stays, unit) = (live.stays(), live.unit());
        if let Some(visitor) = &mut live.visitor {
            visitor.play(unit, &mut self.dice, &mut self.world)?;
        }
        let client = &mut live.client;
        match &mut client.stage {
            Stage::Waiting => {}
            Stage::Opening(opening) => match opening.poll() {
                None if now > client.since + OPENING && stays => {
                    return Err(TrialFailure::Late(format!("it cannot be opened within {OPENING:?}")));
                }
                None => {}
                Some(Err(error)) if stays => return Err(TrialFailure::Open(error).at("it cannot be opened")),
                Some(Err(_)) => client.stage = Stage::Waiting,
                Some(Ok(volume)) => {
                    let open = |core| {
                        let context = QueueContext::without_pool(CoreId(core), Waker::noop().clone());
                        let inner = volume.open_queue(&context)?;
                        Ok(Box::new(Noted { inner, requests: Arc::clone(&client.requests) })
                            as Box<dyn VolumeQueue>)
                    };
                    let queues: Result<Vec<_>, volume::OpenError> = (0..2).map(open).collect();
                    let queues = queues?;
                    client.stage = match live.claim {
                        Claim::Never => Stage::Open(Box::new(Spread(queues))),
                        Claim::Wanted => Stage::Reserving(Reserving::to_take(queues)),
                        Claim::Held => Stage::Reserving(Reserving::to_find(queues)),
                    };
                    client.since = now;
                }
            },
            Stage::Reserving(reserving) => match reserving.poll(now) {
                Ok(None) => {}
                Ok(Some(queues)) => {
                    live.claim = Claim::Held;
                    client.stage = Stage::Open(Box::new(Spread(queues)));
                    client.since = now;
                }
                Err(what) if stays => return Err(what),
                Err(_) => client.stage = Stage::Waiting,
            },
            Stage::Open(queue) => {
                client.workload.now = now;
                client.workload.step(&mut **queue)?;
                if stays {
                    let is_settled = now > client.since + SETTLING;
                    lock(&client.requests).check(if is_settled { ANSWER } else { SETTLING })?;
                }
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: ControlEvent) -> Result<(), TrialFailure> {
        match event {
            ControlEvent::Applied(generation) if generation == Generation(self.generation) => {
                match self.proposal.take().map(|proposal| proposal.change) {
                    Some(Change::Add(name)) => self.open(&name),
                    Some(Change::Move(name)) => self.reopen(&name),
                    Some(Change::Access(name)) => self.admit(&name),
                    Some(Change::Remove(name)) if self.bug != PlantedBug::SlotWithoutGeneration => {
                        self.admit(&name);
                    }
                    Some(Change::Remove(name)) if self.bug == PlantedBug::SlotWithoutGeneration => {
                        let id = self.volumes.get(&name).map(|live| live.id);
                        if let Some(id) = id {
                            self.ids.release(id, self.bug);
                        }
                    }
                    _ => {}
                }
                Ok(())
            }
            ControlEvent::Applied(generation) => {
                Err(TrialFailure::Broken(format!("{generation} is applied, unasked")))
            }
            ControlEvent::Rejected(_, error) => Err(TrialFailure::Proposal(error).at("a change is refused")),
            ControlEvent::Retired { id, secured, .. } => self.retire(id, secured),
        }
    }

    /// All cores let in whom they are to let in, and nobody else.
    fn admit(&mut self, name: &str) {
        let now = self.world.now();
        if let Some(live) = self.volumes.get_mut(name) {
            live.admitted = Some(now);
        }
    }

    /// Does what [`PlantedBug::StandStill`] is.
    fn stand_still(&mut self) {
        let now = self.world.now();
        if let Some(proposal) = &self.proposal {
            let stands = now < proposal.since + PLANTED_STANDSTILL;
            self.world.freeze(if stands { Frozen::All } else { Frozen::Nothing });
        }
    }

    /// A volume is retired: the power may be cut.
    fn retire(&mut self, id: VolumeId, secured: bool) -> Result<(), TrialFailure> {
        if self.abandoned.contains(&id) {
            self.ledger.begin(id);
            self.ids.release(id, self.bug);
            return Ok(());
        }
        let leaves = |(_, live): &(&String, &Live)| live.id == id && live.leaving.is_some();
        let Some(name) = self.volumes.iter().find(leaves).map(|(name, _)| name.clone()) else {
            return Err(TrialFailure::Broken(format!("{id:?} is retired, and nobody has taken it out")));
        };
        let Some(mut live) = self.volumes.remove(&name) else { return Ok(()) };
        if !secured {
            return Err(TrialFailure::Broken(format!("{name} is retired without a flush")));
        }
        if self.bug != PlantedBug::SlotWithoutGeneration {
            self.ids.release(id, self.bug);
        }
        let workload = &mut live.client.workload;
        let began = workload.history.begin();
        workload.history.flushed(began);
        workload.cut();
        live.disk.cut();
        let file = FileVolume::new(Arc::new(live.disk.clone()), OpenMode::ReadWrite, None);
        let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
        let queue = file.and_then(|file| file.open_queue(&context));
        let mut queue = queue?;
        let told = |violation| {
            TrialFailure::Content(violation)
                .at(format_args!("{name} after it was retired and the power was cut"))
        };
        while !workload.check_after_cut(&mut *queue, &mut || Instant::ZERO).map_err(told)? {}
        Ok(())
    }

    /// Nobody was put out of a volume that stays, and nobody was put out unasked of one that goes.
    fn check_journal(&mut self) -> Result<(), TrialFailure> {
        let now = self.world.now();
        for event in self.world.journal.take() {
            let target = event.target.as_deref().unwrap_or_default();
            let name = target.rsplit(':').next().unwrap_or_default();
            let visitor = event.initiator.as_ref().is_some_and(|name| name.contains(visitor::NAMED));
            let Some(live) = self.volumes.get(name).filter(|_| !visitor) else { continue };
            let settled = matches!(live.client.stage, Stage::Open(_)) && now > live.client.since + SETTLING;
            if event.kind == Kind::Login && settled && live.stays() {
                return Err(TrialFailure::Broken(format!(
                    "{name} stays, and its client has to log in again: {event:?}"
                )));
            }
            // A core may not know yet that a controller is enabled: its queues connect again.
            let ends = matches!(event.kind, Kind::Failed | Kind::TimedOut | Kind::Violation | Kind::Limit)
                || event.kind == Kind::Refused && settled;
            let withdrawn = event.kind == Kind::Ended && event.reason.starts_with("withdrawn");
            if live.stays() && (ends || withdrawn) {
                return Err(TrialFailure::Broken(format!(
                    "{name} stays, and a connection of it is ended: {event:?}"
                )));
            }
            if event.reason.contains("a volume in use is not served any more") {
                return Err(TrialFailure::Broken(format!(
                    "a connection of {name} is cut off without notice: {event:?}"
                )));
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), TrialFailure> {
        let now = self.world.now();
        if self.proposal.as_ref().is_some_and(|proposal| now > proposal.since + APPLYING) {
            return Err(TrialFailure::Late(format!("a change is not applied within {APPLYING:?}")));
        }
        let late = |live: &Live| live.leaving.is_some_and(|since| now > since + RETIRING);
        if let Some((name, _)) = self.volumes.iter().find(|(_, live)| late(live)) {
            return Err(TrialFailure::Late(format!("{name} is not retired within {RETIRING:?}")));
        }
        Ok(())
    }

    /// Takes everything out, and looks whether anything is left.
    fn finish(mut self) -> Result<(), TrialFailure> {
        while let Some(name) = self.staying().pop() {
            self.settle(|trial| trial.proposal.is_none())?;
            self.propose(Change::Remove(name));
        }
        self.settle(|trial| trial.proposal.is_none() && trial.volumes.is_empty())?;
        match self.ids.0.iter().position(|(_, used)| *used) {
            Some(slot) => Err(TrialFailure::Broken(format!("slot {slot} is not free in the end"))),
            None => Ok(()),
        }
    }

    fn settle(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), TrialFailure> {
        while !done(self) {
            self.step()?;
        }
        Ok(())
    }
}
