//! Trials of a volume whose connections come to another place each time: an iSCSI target that is redirected from portal to portal, an NVMe
//! subsystem that is reached over another path.
//!
//! What a lost connection has left behind (a *ghost*: bytes on their way, requests at a slow disk) takes effect long after the next
//! connection has been made, beside it, as nothing there ends the old session or controller (RFC 7143 §6.3.5, §11.13.5, NVMe Base §3.9).
//! No ghost may bring back what was written over since, and no request may fail: the server is there all the while.
//! Over datagrams no disconnect of the client's arrives, so that nothing but the server's own timers ends what was given up. Those of the server do: an I/O queue whose controller
//! is gone and whose host has sent everything learns it otherwise from a command's timeout alone, which fails that command.
//! docs/decisions/0003 and 0014 say how that is kept. [`PlantedBug`] has the bug that it must find.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use engine::remote::{self, Access};
use engine::{Core, ListenerRole, Transport};
use host::{Accepted, CoreIndex, ListenerId, Service as _};
use iscsi::pdu::{Bhs, LoginRequest, LoginResponse, Opcode, Status};
use iscsi::text::Text;
use protocol::Instant;
use volume::{CoreId, QueueContext, Ram, Volume, VolumeQueue};

use crate::client_machine::ClientMachine;
use crate::dice::{Dice, Odds};
use crate::disk::SECTOR;
use crate::failure::TrialFailure;
use crate::front::{Admit, Admitted, Front, as_they_are};
use crate::hasty::{Hasty, Pace};
use crate::network_conditions::NetworkConditions;
use crate::peers::{Initiator, Pdu};
use crate::script::{Line, Peer, Script, Scripted};
use crate::serving::{self, Serving};
use crate::slow::{SlowDisk, Watch};
use crate::sockets::DatagramFaults;
use crate::trial::{PATIENCE, WORLD_STEPS, bind, transport_of};
use crate::workload::Workload;
use crate::world::{Frozen, PEERS_PATIENCE, World};

/// Sectors of the disk: few, so that requests meet.
const SECTORS: usize = 24;
/// Buffers of each core of the server, in bytes.
const POOL: usize = 8 << 20;
/// Queues of the client.
const QUEUES: u16 = 2;
/// How often a login is sent elsewhere: so seldom that nearly all arrive before the initiator has been sent elsewhere too often.
const SENT_ELSEWHERE: Odds = Odds(600);
/// Steps of the client before the first cut, and more until each queue has answered: a queue's very first connection has less time than those that follow.
const CLEAR_STEPS: usize = 60;
/// Steps of the client between two cuts, when all is well.
const STEPS: std::ops::RangeInclusive<usize> = 5..=60;
/// How often the client may ask for something just before a cut.
const BURST: usize = 8;
/// How late the bytes of a lost connection arrive: up to the time after which a target has noticed and takes none, and a controller.
const LATE_SESSION: Duration = Duration::from_secs(50);
const LATE_CONTROLLER: Duration = Duration::from_secs(12);
/// The longest that a quick disk and a slow one take for a request. Sessions and controllers that end wait for their requests, but not for
/// longer.
const QUICK: Duration = Duration::from_millis(2);
const SLOW: Duration = Duration::from_millis(1500);
/// The longest that a slow disk takes where a controller over datagrams has it: what comes to the controller [`LATE_CONTROLLER`] after the loss takes effect before writes are sent
/// again, 20 s after it (docs/decisions/0003), and after the 12 s for which they are held with [`PlantedBug::ShortQuietTime`].
const SLOW_CONTROLLER: Duration = Duration::from_secs(6);
/// How long a core stands still half of the time: so that a keep alive which it finds then may still have the controller go on.
const STANDSTILL: std::ops::RangeInclusive<Duration> = Duration::from_secs(6)..=Duration::from_secs(10);
/// How long a controller that is not kept alive may go on: KATO, and the time to come to rest.
const NOT_KEPT_ALIVE: Duration = Duration::from_secs(12);
/// How long the client goes on after a cut: beyond any time for which writes are held.
const AFTERWARDS: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(75);
/// How often it asks for something meanwhile, for each step.
const ASKS: Odds = Odds(400);
/// The clock's longest step meanwhile.
const STRIDE: Duration = Duration::from_millis(20);
/// How long requests may take at most: longer than writes are held, after a cut that follows while they are, and as long as all else may take.
const BOUND: Duration = Duration::from_secs(200);

/// A bug of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// Writes that a lost connection had are sent again at once, wherever the next one leads.
    NoQuietTime,
    /// They are sent again after 12 s, as if a controller over datagrams heard of every loss.
    ShortQuietTime,
}

/// What a trial is about.
pub struct Scenario {
    /// The portals or paths, on each port from 1.
    pub listeners: fn(&dyn Volume) -> Vec<ListenerRole>,
    /// How the client enters.
    pub access: Access,
    /// Cores of the server.
    pub cores: CoreIndex,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("access", &self.access)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

/// Answers a login that the target is at another port, and nothing else.
struct Elsewhere {
    port: u16,
    status: Status,
}

impl Script for Elsewhere {
    fn act(&mut self, _now: Instant, line: &mut Line) -> Option<Instant> {
        while let Some(pdu) = Pdu::take(&mut line.received) {
            if pdu.view().opcode() == Opcode::LOGIN_REQUEST {
                line.out.extend(self.answer(&pdu.header));
            }
        }
        None
    }
}

impl Elsewhere {
    fn answer(&self, request: &Bhs) -> Vec<u8> {
        let mut text = Text::new();
        text.put("TargetAddress", &format!("127.0.0.1:{}", self.port));
        let response = LoginResponse::new(&LoginRequest::from_bytes(request), self.status);
        // The numbers are those of a target that has heard nothing before.
        Initiator::new(0).pdu(response.to_bytes(), text.bytes())
    }
}

/// Sends iSCSI logins elsewhere, now and then; NVMe connections take any path.
fn mislead(mut dice: Dice, ports: u16, is_iscsi: bool) -> Admit {
    Rc::new(RefCell::new(move |now, accepted: Accepted, core: &mut Core| -> Admitted {
        let port = 1 + u16::try_from(dice.below(ports.into())).unwrap_or(0);
        if !is_iscsi {
            return core.accept(now, Accepted { listener: ListenerId(u32::from(port - 1)), ..accepted });
        }
        if !dice.happens(SENT_ELSEWHERE) {
            return core.accept(now, accepted);
        }
        let status = if dice.coin() { Status::MOVED_TEMPORARILY } else { Status::MOVED_PERMANENTLY };
        Ok(Box::new(Scripted::new(Peer::default(), Box::new(Elsewhere { port, status }))))
    }))
}

struct Trial {
    world: World<Front>,
    dice: Dice,
    workload: Workload,
    queues: Vec<Hasty>,
    /// How late bytes arrive at most.
    latest: Duration,
    by_datagrams: bool,
    /// When a core that stands still goes on.
    thaws: Option<Instant>,
    /// Where ghosts may go on for longest, when the disk is quick.
    haste: Option<Haste>,
}

/// A disk that is slow after a cut alone, so that there are many requests before, and what is written once the time for which writes are held is over overtakes ghosts.
struct Haste {
    quick: Arc<AtomicBool>,
    /// It is quick from then on.
    since: Instant,
}

/// Runs one trial with so many cuts. The error says what was wrong.
pub fn moves(seed: u64, cuts: usize, scenario: &Scenario, bug: PlantedBug) -> Result<(), TrialFailure> {
    let mut trial = Trial::new(seed, scenario, bug)?;
    (0..CLEAR_STEPS).try_for_each(|_| trial.work(true))?;
    trial.await_queues()?;
    for cut in 0..cuts {
        let told = |failure: TrialFailure| failure.at(format_args!("cut {cut}"));
        for _ in 0..trial.dice.within(STEPS) {
            trial.work(true).map_err(told)?;
        }
        trial.cut();
        let span = trial.dice.span(&AFTERWARDS);
        trial.pass(span).map_err(told)?;
    }
    trial.settle()
}

impl Trial {
    fn new(seed: u64, scenario: &Scenario, bug: PlantedBug) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let inner = Ram::new((SECTORS * SECTOR) as u64, 512)?;
        let quick = Arc::new(AtomicBool::new(false));
        let watch: Watch = Arc::new(Mutex::new(Box::new(|_| ())));
        let transport = transport_of(&scenario.access);
        let by_datagrams = matches!(transport, Transport::Roce { .. });
        let is_iscsi = matches!(scenario.access, Access::Iscsi { .. });
        let is_held_longest = by_datagrams && !is_iscsi;
        let slow = if is_held_longest { SLOW_CONTROLLER } else { SLOW };
        let disk: Arc<dyn Volume> = Arc::new(SlowDisk {
            inner: Arc::new(inner),
            slowest: if dice.coin() && !is_held_longest { QUICK } else { slow },
            quick: Arc::clone(&quick),
            stubborn: dice.coin(),
            watch,
            dice: Mutex::new(dice.fork()),
        });
        let delay = Duration::ZERO..=Duration::from_millis(2);
        let conditions = NetworkConditions { delay, longest: dice.within(1..=4096), cuts: Odds::NEVER };
        let mut world = World::new(conditions, dice.fork());
        let listeners = (scenario.listeners)(&*disk);
        let ports = u16::try_from(listeners.len()).unwrap_or(1);
        let latest = if is_iscsi { LATE_SESSION } else { LATE_CONTROLLER };
        let admit = mislead(dice.fork(), ports, is_iscsi);
        let serving = Serving { listeners, transport, cores: scenario.cores, pool: POOL, hook: None };
        let (cores, mail) = serving::cores(disk, serving, world.entropy())?;
        let front = |core| Front { core, admit: Rc::clone(&admit), join: as_they_are() };
        world.start_server(cores.into_iter().map(front).collect(), mail);
        world.set_datagram_faults(DatagramFaults { farewells_lost: true, ..DatagramFaults::NONE });
        bind(&mut world, transport);
        let workload = Workload::new(SECTORS, SECTOR, dice.fork());
        let volume = open(&mut world, &scenario.access, seed)?;
        let pace = match bug {
            PlantedBug::None => Pace::Patient,
            PlantedBug::NoQuietTime => Pace::After(Duration::ZERO),
            PlantedBug::ShortQuietTime => Pace::After(NOT_KEPT_ALIVE),
        };
        let queue = |core| {
            let queue = volume.open_queue(&QueueContext::without_pool(CoreId(core), Waker::noop().clone()));
            queue.map(|queue| Hasty::new(queue, pace))
        };
        let queues: Result<Vec<_>, _> = (0..QUEUES).map(queue).collect();
        let queues = queues?;
        Ok(Self {
            world,
            dice,
            workload,
            queues,
            latest,
            by_datagrams,
            thaws: None,
            haste: is_held_longest.then_some(Haste { quick, since: Instant::ZERO }),
        })
    }

    /// A step of the client and a few of the world; `more` lets it ask for something new.
    fn work(&mut self, more: bool) -> Result<(), TrialFailure> {
        let now = self.world.now();
        if self.thaws.is_some_and(|due| due <= now) {
            self.thaws = None;
            self.world.freeze(Frozen::Nothing);
        }
        if let Some(Haste { quick, since }) = &self.haste {
            quick.store(*since <= now, Ordering::Relaxed);
        }
        self.workload.now = now;
        let mut done = Vec::new();
        self.queues.iter_mut().for_each(|queue| queue.poll(now, &mut done));
        for completion in done {
            if completion.result.is_err() {
                return Err(TrialFailure::Broken(format!(
                    "{completion:?} though the server lived all the while"
                )));
            }
            self.workload.take(completion)?;
        }
        if more {
            let chosen = self.dice.index(self.queues.len());
            self.workload.ask(&mut self.queues[chosen]);
        }
        (0..WORLD_STEPS).for_each(|_| self.world.step());
        Ok(())
    }

    /// Goes on until each queue has answered something.
    fn await_queues(&mut self) -> Result<(), TrialFailure> {
        for _ in 0..PATIENCE {
            if self.queues.iter().all(Hasty::has_answered) {
                return Ok(());
            }
            self.work(true)?;
        }
        Err(TrialFailure::Late(format!("a queue has not answered in {PATIENCE} steps")))
    }

    /// Severs all connections, or one of them, while requests are on their way; the server hears of it late.
    fn cut(&mut self) {
        let late = self.dice.span(&(Duration::ZERO..=self.latest));
        for _ in 0..BURST {
            let chosen = self.dice.index(self.queues.len());
            self.workload.ask(&mut self.queues[chosen]);
        }
        self.world.step();
        let unnoticed = if self.by_datagrams { self.cut_sockets(late) } else { self.cut_streams(late) };
        let now = self.world.now();
        if let Some(haste) = &mut self.haste {
            haste.since = now + *STANDSTILL.end();
        }
        self.queues.iter_mut().for_each(|queue| queue.hurry(now, now + unnoticed));
    }

    /// Severs all streams, or one of them. The client notices at once.
    fn cut_streams(&mut self, late: Duration) -> Duration {
        if self.dice.coin() {
            self.world.sever(late);
        } else {
            self.world.sever_one(late);
        }
        Duration::ZERO
    }

    /// Cuts off the client's socket, or what comes to it. What it sent may also be found late by a core that stood still. How long it takes until the client notices.
    fn cut_sockets(&mut self, late: Duration) -> Duration {
        let freezes = self.dice.coin();
        let late = if freezes && self.dice.coin() { self.dice.span(&STANDSTILL) } else { late };
        let on_the_way = if freezes { Duration::ZERO } else { late };
        let unnoticed = if self.dice.coin() {
            self.world.sever(on_the_way);
            Duration::ZERO
        } else {
            self.world.mislead(on_the_way);
            PEERS_PATIENCE
        };
        if freezes {
            let core = self.dice.index(self.world.cores().len());
            self.world.freeze(Frozen::Core(core));
            self.thaws = Some(self.world.now() + late);
        }
        unnoticed
    }

    /// Lets time pass; the client goes on meanwhile.
    fn pass(&mut self, span: Duration) -> Result<(), TrialFailure> {
        let end = self.world.now() + span;
        self.world.set_idle(STRIDE);
        while self.world.now() < end {
            let more = self.dice.happens(ASKS);
            self.work(more)?;
        }
        self.world.set_idle(Duration::from_millis(1));
        Ok(())
    }

    /// Waits until every request has ended, and looks at everything once no ghost is left.
    fn settle(&mut self) -> Result<(), TrialFailure> {
        let end = self.world.now() + BOUND;
        self.world.set_idle(STRIDE);
        while self.workload.under_way() > 0 {
            if self.world.now() > end {
                let left = self.workload.under_way();
                return Err(TrialFailure::Late(format!("{left} requests have not ended within {BOUND:?}")));
            }
            self.work(false)?;
        }
        self.pass(self.latest)?;
        while self.workload.under_way() > 0 {
            self.work(false)?;
        }
        let Self { world, workload, queues, .. } = self;
        let mut pump = || {
            world.step();
            world.now()
        };
        match workload.check_now(&mut queues[0], &mut pump) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TrialFailure::Broken("the volume cannot be read".to_owned())),
            Err(violation) => Err(violation.into()),
        }
    }
}

/// Opens the volume at the first port, as often as it takes.
fn open(world: &mut World<Front>, access: &Access, seed: u64) -> Result<Arc<dyn Volume>, TrialFailure> {
    let seeds = AtomicU64::new(seed << 32);
    let context = remote::ClientContext {
        dialer: Arc::new(ClientMachine::new()),
        adapters: Arc::new(host::NoAdapters),
        waker: Waker::noop().clone(),
        entropy: Arc::new(move || Box::new(Dice::new(seeds.fetch_add(1, Ordering::Relaxed)))),
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let mut opening = remote::open(address, access.clone(), &context);
    for _ in 0..PATIENCE {
        world.step();
        match opening.poll() {
            Some(Ok(volume)) => return Ok(volume),
            Some(Err(_)) => opening = remote::open(address, access.clone(), &context),
            None => {}
        }
    }
    Err(TrialFailure::Late(format!("the volume could not be opened in {PATIENCE} steps")))
}
