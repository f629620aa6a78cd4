//! Trials of volumes on hostile targets and controllers, beside volumes of the same process whose servers are honest.
//!
//! What is promised (docs/volume-contract.md): every request ends within its bound, whatever the far end does, and so do openings and
//! discoveries; the requests of the other volumes take no longer for it; the memory of the process stays within its limits, and all of it
//! comes back. [`PlantedBug`] has the bugs that it must find.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use engine::remote::{self, Access, ClientContext, Discovery, RemoteOpening};
use engine::{Catalogue, Core, ListenerRole, NamedVolume, Transport};
use host::{Accepted, DatagramEndpoint, Dialer, ListenerId, Service as _};
use protocol::Instant;
use volume::{CoreId, Durability, Extent, Operation, QueueContext, Ram, Request, Tag, Volume, VolumeQueue};

use crate::client_machine::ClientMachine;
use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::front::{Admit, Admitted, Front, Join};
use crate::greedy::GreedyDialer;
use crate::hostility::{Honesty, Hostility, Patience};
use crate::limits::{DISCOVERING, OPENING, SMALL, small_wait_over};
use crate::network_conditions::NetworkConditions;
use crate::serving::{Makings, make_cores};
use crate::trial::{PATIENCE, bind, carry, delay_over, transport_of};
use crate::world::World;

/// Bytes of the disk.
const DISK_BYTES: usize = 4 << 20;
const DISK: u64 = DISK_BYTES as u64;
/// Buffers of the server, in bytes.
const POOL: usize = 16 << 20;
/// Bytes that wait at an end which does not read.
const WINDOW: usize = 128 << 10;
/// Listeners: those from here on are hostile.
const KINDS: u32 = 2;
/// How long a trial lasts: longer than any request, opening or discovery may take.
const TRIAL: Duration = Duration::from_secs(150);
/// How long a hostile volume is used before it is opened again, and how long nobody asks for it between.
const USE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_mins(1);
const AWAY: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(1);
/// PDUs or packets that pass before the far end is hostile: during login and the questions to the unit, or among requests.
const PATIENT: Patience = Patience { early: 0..=15, late: 16..=300 };
/// Where the hostile sockets for datagrams are.
const HOSTILE: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 1);
/// Requests at a time, and how long their user waits before it asks for one more.
const DEPTH: usize = 3;
const THOUGHT: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(200);
/// Lengths of requests, in bytes.
const LITTLE: &[usize] = &[512, 4096, SMALL];
const ANYTHING: &[usize] = &[512, 4096, 1 << 16, 1 << 18, 1 << 19];
/// The clock's longest step.
const STRIDE: Duration = Duration::from_millis(20);
/// Heap of the process in bytes, at most: the disk, and what four users' requests, their copies at both ends and the sockets' buffers take.
/// The far ends of [`UnreadPings`](crate::villains::Evil::UnreadPings) alone send more within the time in which they are given up.
const HEAP: usize = 20 << 20;
/// The same over datagrams, without the server's arenas, whose limit is that of its pool. What limits leave, which is more than trials were seen to have (14 MB): the disk; what users
/// of hostile volumes ask for, and the pages that reads of it hold at the disk while others are written in their place; queue pairs, and the packets of those that are not ending;
/// sockets; and what the hostile one makes.
const DATAGRAMS_HEAP: usize = DISK_BYTES
    + 2 * ASKED
    + PAIRS * (CLIENTS_PAIR + SERVERS_PAIR)
    + OPEN_PAIRS * PACKETS
    + SOCKETS * SOCKET
    + MADE;
const ASKED: usize = KINDS as usize * DEPTH * (512 << 10);
/// Queue pairs at a time: one of an iSER volume and two of one over NVMe/RDMA, honest and hostile; and half as many that are ending, for which each has
/// `roce::limits::DISCONNECT_ATTEMPTS` seconds.
const OPEN_PAIRS: usize = 6;
const PAIRS: usize = 9;
/// What a client's end has: the first arena of its pool (`buf::limits::FIRST_ARENA`), which only iSER uses, and iSER's receives for all answers and PDUs that nobody asked for
/// (`iscsi::limits::INITIATOR_DEPTH`, `UNEXPECTED_PDUS`) of 1,100 bytes each.
const CLIENTS_PAIR: usize = (260 << 10) + (256 + 8) * 1100;
/// What a server's end has, all of which counts for its connection: receives for 128 capsules of NVMe/RDMA with 4 KiB of data each, or for the first window and the unexpected PDUs of
/// iSER with 8 KiB each, which is less.
const SERVERS_PAIR: usize = 128 * 4160;
/// Packets under way (`roce::limits::WINDOW`) of one direction, each of which is copied.
const PACKETS: usize = 48 * 4300;
/// The server's sockets and the clients' one: a train each, and what waits there ([`sockets`](crate::sockets)).
const SOCKETS: usize = 3;
const SOCKET: usize = (208 << 10) + 65_000;
/// What a hostile socket makes ([`roce_villains`](crate::roce_villains)): packets of a message that is too long, twice as they are cut into trains; and those that it remembers.
const MADE: usize = (280 + 64) * 4300 + 2 * (64 << 10);
/// What may be left when all is over: tables of the thread that keep their size.
const LEFT: usize = 64 << 10;

/// A bug of the consuming side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// Deadlines pass unnoticed.
    NoDeadlines,
    /// Everything that comes is taken in, wanted or not.
    Greedy,
    /// The volumes' users are never told to go.
    Leak,
}

/// Asks a portal of each protocol what it offers.
pub type Discover = [fn(SocketAddr, &ClientContext) -> Discovery; 2];

/// What a trial is about.
pub struct Scenario {
    /// What is spoken on port 1, iSCSI, and on port 2, NVMe/TCP; ports 3 and 4 are their hostile kind.
    pub listeners: fn(&dyn Volume) -> Vec<ListenerRole>,
    /// How volumes are entered on ports 1 and 3, and on 2 and 4.
    pub access: [Access; 2],
    /// How long a request of a hostile volume may take with these.
    pub bounds: [Duration; 2],
    /// Asks a portal of each protocol what it offers.
    pub discover: Discover,
    /// Bytes of the heap that this thread has.
    pub heap: fn() -> usize,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario").field("access", &self.access).finish_non_exhaustive()
    }
}

/// A volume that is used.
struct User {
    _volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
    under_way: BTreeMap<u64, Instant>,
    lengths: &'static [usize],
    next: Instant,
}

impl User {
    fn new(volume: Arc<dyn Volume>, lengths: &'static [usize]) -> Result<Self, TrialFailure> {
        let queue = volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()))?;
        let under_way = BTreeMap::new();
        Ok(Self { _volume: volume, queue, under_way, lengths, next: Instant::ZERO })
    }

    fn ask(&mut self, now: Instant, dice: &mut Dice, serial: &mut u64) {
        if self.under_way.len() >= DEPTH || self.next > now {
            return;
        }
        self.next = now + dice.span(&THOUGHT);
        let length = self.lengths[dice.index(self.lengths.len())];
        let blocks = length as u64 / 512;
        let extent = Extent::new(dice.below(DISK / 512 - blocks + 1), blocks);
        let operation = if dice.coin() {
            Operation::Read { extent, into: Buf::zeroed(length) }
        } else {
            let data = BufList::from(SharedBuf::from(vec![0x5a; length]));
            Operation::Write { extent, data, durability: Durability::Cached }
        };
        *serial += 1;
        if self.queue.submit(now, Request { tag: Tag(*serial), operation }).is_ok() {
            self.under_way.insert(*serial, now);
        }
    }

    /// Takes what has ended: nothing of an honest server's may fail, and nothing may take longer than `bound`.
    fn reap(&mut self, now: Instant, bound: Duration, server: ServerKind) -> Result<(), TrialFailure> {
        let mut done = Vec::new();
        self.queue.poll(now, &mut done);
        for completion in done {
            self.under_way.remove(&completion.tag.0);
            if let (ServerKind::Honest, Err(kind)) = (server, completion.outcome()) {
                return Err(TrialFailure::Broken(format!(
                    "a request of a volume on an honest server fails: {kind:?}"
                )));
            }
        }
        let late = self.under_way.values().any(|began| now.since(*began) > bound);
        let whose = match server {
            ServerKind::Honest => "an honest",
            ServerKind::Hostile => "a hostile",
        };
        if late {
            Err(TrialFailure::Late(format!(
                "a request of a volume on {whose} server takes longer than {bound:?}"
            )))
        } else {
            Ok(())
        }
    }
}

/// Whose volume is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerKind {
    Honest,
    Hostile,
}

/// What is done with a hostile server.
enum Stage {
    /// Nothing, until then.
    Away(Instant),
    /// It is asked for a volume, or for what it offers, since then.
    Opening(RemoteOpening, Instant),
    Asking(Discovery, Instant),
    /// Its volume is used until then.
    Used(User, Instant),
}

/// Runs one trial with far ends of these kinds. The error says which promise was broken.
pub fn consuming<E: Hostility>(
    seed: u64,
    evils: &[E],
    scenario: &Scenario,
    bug: PlantedBug,
) -> Result<(), TrialFailure> {
    let before = (scenario.heap)();
    let told = |failure: TrialFailure| failure.at(format_args!("{evils:?}"));
    let mut trial = Trial::new((seed, before), (evils, scenario), bug).map_err(told)?;
    trial.pass(TRIAL).map_err(told)?;
    if bug == PlantedBug::Leak {
        std::mem::forget(std::mem::take(&mut trial.victims));
    }
    drop(trial);
    let left = (scenario.heap)().saturating_sub(before);
    if left <= LEFT {
        return Ok(());
    }
    Err(told(TrialFailure::Memory(format!("everybody is gone, and {left} bytes are in use"))))
}

struct Trial<'a> {
    scenario: &'a Scenario,
    before: usize,
    dice: Dice,
    honest: Vec<User>,
    /// What is done with each of the hostile servers.
    victims: Vec<Stage>,
    context: ClientContext,
    /// How long a request of an honest volume may take.
    small_wait: Duration,
    by_datagrams: bool,
    /// Heap of the process in bytes, at most.
    heap_limit: usize,
    serial: u64,
    /// Goes last, with what the others still wished for.
    world: World<Front>,
}

impl<'a> Trial<'a> {
    fn new<E: Hostility>(
        (seed, before): (u64, usize),
        (evils, scenario): (&[E], &'a Scenario),
        bug: PlantedBug,
    ) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let disk: Arc<dyn Volume> = Arc::new(Ram::new(DISK, 512)?);
        let transport = transport_of(&scenario.access[0]);
        let delay = delay_over(transport);
        let mut world =
            World::new(NetworkConditions { delay, longest: 1 << 16, cuts: Odds::NEVER }, dice.fork());
        world.set_window(WINDOW);
        world.set_idle(STRIDE);
        if bug == PlantedBug::NoDeadlines {
            world.forget_clients_deadlines();
        }
        serve(&mut world, disk, (evils, scenario), &mut dice)?;
        let seeds = AtomicU64::new(seed << 32);
        let dialer: Arc<dyn Dialer> = if bug == PlantedBug::Greedy {
            Arc::new(GreedyDialer(ClientMachine::new()))
        } else {
            Arc::new(ClientMachine::new())
        };
        let context = ClientContext {
            dialer,
            adapters: Arc::new(host::NoAdapters),
            waker: Waker::noop().clone(),
            entropy: Arc::new(move || Box::new(Dice::new(seeds.fetch_add(1, Ordering::Relaxed)))),
        };
        let victims = vec![Stage::Away(Instant::ZERO), Stage::Away(Instant::ZERO)];
        let (honest, small_wait) = (Vec::new(), small_wait_over(transport));
        let by_datagrams = matches!(transport, Transport::Roce { .. });
        let heap_limit = if by_datagrams { DATAGRAMS_HEAP } else { HEAP };
        let mut trial = Self {
            scenario,
            before,
            world,
            dice,
            honest,
            victims,
            context,
            small_wait,
            by_datagrams,
            heap_limit,
            serial: 0,
        };
        for number in 0..scenario.access.len() {
            let user = trial.open(number)?;
            trial.honest.push(user);
        }
        Ok(trial)
    }

    fn open(&mut self, number: usize) -> Result<User, TrialFailure> {
        let access = self.scenario.access[number].clone();
        let mut opening = remote::open(address(number, ServerKind::Honest), access, &self.context);
        for _ in 0..PATIENCE {
            self.world.step();
            if let Some(opened) = opening.poll() {
                return User::new(opened?, LITTLE);
            }
        }
        Err(TrialFailure::Late(format!("an honest volume could not be opened in {PATIENCE} steps")))
    }

    fn pass(&mut self, span: Duration) -> Result<(), TrialFailure> {
        let end = self.world.now() + span;
        while self.world.now() < end {
            let now = self.world.now();
            for user in &mut self.honest {
                user.ask(now, &mut self.dice, &mut self.serial);
                user.reap(now, self.small_wait, ServerKind::Honest)?;
            }
            for number in 0..self.victims.len() {
                let stage = std::mem::replace(&mut self.victims[number], Stage::Away(now));
                self.victims[number] = self.proceed(number, stage)?;
            }
            self.world.step();
            let heap = (self.scenario.heap)().saturating_sub(self.before + self.server_memory());
            let limit = self.heap_limit;
            if heap > limit {
                return Err(TrialFailure::Memory(format!(
                    "{heap} bytes of the heap are in use, where {limit} is the limit"
                )));
            }
        }
        Ok(())
    }

    /// Bytes of the server's pool that do not count: over datagrams, where it is larger than what clients hold, all of it.
    fn server_memory(&self) -> usize {
        let Some(front) = self.world.cores().first().filter(|_| self.by_datagrams) else { return 0 };
        front.core.pool().arenas().iter().map(|span| span.len).sum()
    }

    /// Goes on with a hostile server.
    fn proceed(&mut self, number: usize, stage: Stage) -> Result<Stage, TrialFailure> {
        let now = self.world.now();
        let late = |what, since: Instant, bound| {
            let is_late = now.since(since) > bound;
            if is_late {
                Err(TrialFailure::Late(format!("{what} takes longer than {bound:?}")))
            } else {
                Ok(())
            }
        };
        let away = Stage::Away(now + self.dice.span(&AWAY));
        Ok(match stage {
            Stage::Away(due) if due > now => Stage::Away(due),
            Stage::Away(_) => self.begin(number),
            Stage::Opening(mut opening, since) => match opening.poll() {
                None => {
                    late("an opening", since, OPENING)?;
                    Stage::Opening(opening, since)
                }
                Some(Ok(volume)) => match User::new(volume, ANYTHING) {
                    Ok(user) => Stage::Used(user, now + self.dice.span(&USE)),
                    Err(_) => away,
                },
                Some(Err(_)) => away,
            },
            Stage::Asking(mut discovery, since) => match discovery.poll() {
                None => {
                    late("a discovery", since, DISCOVERING)?;
                    Stage::Asking(discovery, since)
                }
                Some(_) => away,
            },
            Stage::Used(mut user, until) => {
                if now < until {
                    user.ask(now, &mut self.dice, &mut self.serial);
                }
                user.reap(now, self.scenario.bounds[number], ServerKind::Hostile)?;
                if now >= until && user.under_way.is_empty() { away } else { Stage::Used(user, until) }
            }
        })
    }

    fn begin(&mut self, number: usize) -> Stage {
        let (now, address) = (self.world.now(), address(number, ServerKind::Hostile));
        if self.dice.below(4) == 0 {
            return Stage::Asking((self.scenario.discover[number])(address, &self.context), now);
        }
        let access = self.scenario.access[number].clone();
        Stage::Opening(remote::open(address, access, &self.context), now)
    }
}

/// Where a protocol is served. Streams are told apart by their ports alone.
fn address(number: usize, kind: ServerKind) -> SocketAddr {
    let (host, first) = match kind {
        ServerKind::Honest => (Ipv4Addr::LOCALHOST, 1),
        ServerKind::Hostile => (HOSTILE, 1 + KINDS as usize),
    };
    SocketAddr::from((host, wire::bounded::<u16>(first + number)))
}

/// Starts the server, honest and hostile.
fn serve<E: Hostility>(
    world: &mut World<Front>,
    disk: Arc<dyn Volume>,
    (evils, scenario): (&[E], &Scenario),
    dice: &mut Dice,
) -> Result<(), TrialFailure> {
    let transport = transport_of(&scenario.access[0]);
    let mut listeners = (scenario.listeners)(&*disk);
    if matches!(transport, Transport::Roce { .. }) {
        listeners.extend((scenario.listeners)(&*disk));
    }
    let mut catalogue = Catalogue::first([NamedVolume { name: "disk".into(), volume: disk }], listeners);
    carry(&mut catalogue, transport);
    for listening in catalogue.listeners.iter_mut().skip(KINDS as usize) {
        if let Transport::Roce { socket, .. } = &mut listening.transport {
            socket.set_ip(HOSTILE.into());
        }
    }
    let (journal, observer) = (Arc::new(host::Silent), Arc::new(host::Silent));
    let entropy = world.entropy();
    let makings = Makings { catalogue, cores: 1, pool: POOL, hook: None, entropy, journal, observer };
    let (cores, mail) = make_cores(makings)?;
    let admit = admit(evils.to_vec(), dice.fork());
    let join = join(evils.to_vec(), dice.clone().fork());
    let front = |core| Front { core, admit: Rc::clone(&admit), join: Rc::clone(&join) };
    world.start_server(cores.into_iter().map(front).collect(), mail);
    bind(world, transport);
    if let Transport::Roce { socket, .. } = transport {
        world.bind(SocketAddr::from((HOSTILE, socket.port())));
    }
    Ok(())
}

/// Has each connection of a hostile socket turn hostile after a while.
fn join<E: Hostility>(evils: Vec<E>, mut dice: Dice) -> Join {
    Rc::new(RefCell::new(move |local: SocketAddr, inner: Box<dyn DatagramEndpoint>| {
        if local.ip() == HOSTILE {
            E::before_socket(evils.clone(), inner, PATIENT, dice.fork())
        } else {
            inner
        }
    }))
}

/// Has each stream to a hostile port turn hostile after a while.
fn admit<E: Hostility>(evils: Vec<E>, mut dice: Dice) -> Admit {
    Rc::new(RefCell::new(move |now, accepted: Accepted, core: &mut Core| -> Admitted {
        let ListenerId(number) = accepted.listener;
        let Some(kind) = number.checked_sub(KINDS) else { return core.accept(now, accepted) };
        let inner = core.accept(now, Accepted { listener: ListenerId(kind), ..accepted })?;
        let evil = evils[dice.index(evils.len())];
        let honesty = Honesty { is_iscsi: kind == 0, lasts: PATIENT.lasts(&mut dice) };
        Ok(evil.before(inner, honesty, dice.fork()))
    }))
}
