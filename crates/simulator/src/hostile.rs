//! Trials of a server whose peers are hostile, beside clients of both protocols that behave.
//!
//! What is promised (docs/decisions/0013): no request of those who behave fails or takes longer than its bound in `limits`, the
//! memory of each core stays within its limit all the while, and everything comes back once the attackers are gone. [`PlantedBug`] has the
//! bugs that it must find.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use engine::remote::{self, Access};
use engine::{Core, ListenerRole, Transport};
use host::{CoreIndex, EndpointId};
use protocol::Instant;
use volume::{
    CoreId, Durability, Extent, Operation, Outcome, QueueContext, Ram, Request, Tag, Volume, VolumeQueue,
};

use crate::attacks::{Attack, Marauder, Plan, QueueKind, Raider, Shared};
use crate::client_machine::ClientMachine;
use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::hostility::Hostility;
use crate::limits::{LARGE_WAIT, SMALL, SMALL_BEHIND_WAIT, SMALL_WAIT, TURNS_WAIT, small_wait_over};
use crate::network_conditions::NetworkConditions;
use crate::rdma_attackers::{self, RdmaAttacker};
use crate::script::{Peer, dial_for};
use crate::serving::{Serving, serve};
use crate::slow::{Effect, SlowDisk, Watch};
use crate::trial::{PATIENCE, delay_over, transport_of};
use crate::world::World;

/// Bytes of the disk: more than the longest write.
const DISK: u64 = 16 << 20;
/// What those who behave write.
const WRITTEN: u8 = 0x5a;
/// The configured limit of each core's buffers, in bytes.
const LIMIT: usize = 24 << 20;
/// The longest that the disk takes for a request.
const SLOWEST: Duration = Duration::from_millis(5);
/// Bytes that wait at an end which does not read.
const WINDOW: usize = 128 << 10;
/// Attackers at a time.
const ATTACKERS: std::ops::RangeInclusive<usize> = 2..=12;
/// How long an attack lasts: longer than any time after which an attacker loses what it holds, one after the other.
const ATTACK: Duration = Duration::from_secs(70);
/// How long after an attack everything has come back: longer than requests at the disk and the watch over memory take.
const AFTERMATH: Duration = Duration::from_secs(20);
/// The same over datagrams, where nobody hears that an attacker is gone: a target asks after 30 s (`iscsi::limits::IDLE_TIME`), waits for 8 s (`roce::limits::RETRIES`), and tells the
/// peer of the end for 4 s (`roce::limits::DISCONNECT_ATTEMPTS`), 42 s in all; a login, or a set-up that is not answered, takes less.
const DATAGRAMS_AFTERMATH: Duration = Duration::from_mins(1);
/// How long an attacker that was cut off stays away.
const AWAY: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(2);
/// Requests of a client that behaves, at a time at most, and how long it waits before it asks for one more.
const DEPTH: usize = 3;
const THOUGHT: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(200);
/// A client that asks for little, and one that asks for anything.
const LITTLE: Asks = Asks { lengths: &[512, 4096, 4096, SMALL], depth: DEPTH, small_wait: SMALL_WAIT };
const ANYTHING: Asks =
    Asks { lengths: &[4096, SMALL, 1 << 16, 1 << 18, 1 << 20], depth: DEPTH, small_wait: SMALL_BEHIND_WAIT };
/// A client of a trial with a crowd, which asks for no more than everybody is to have: one block at a time.
const BLOCKS: Asks = Asks { lengths: &[4096], depth: 1, small_wait: SMALL_WAIT };
/// How long a crowd is alone with those who were there before it, and how long it stays in all: longer than the time after which it loses what it holds.
const GATHERING: Duration = Duration::from_secs(2);
const SIEGE: Duration = Duration::from_secs(12);
/// The clock's longest step.
const STRIDE: Duration = Duration::from_millis(20);
/// Heap that a connection may have beside the pool, the sockets' buffers of its two ends included, and a server for itself, in bytes.
const BESIDE: usize = 4 * WINDOW + (512 << 10);
const ITSELF: usize = 4 << 20;

/// A bug of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// Its cores take twice the memory that they may.
    NoLimit,
    /// Some buffers never come back.
    Leak,
    /// Deadlines pass unnoticed.
    NoDeadlines,
}

/// What a trial is about.
pub struct Scenario {
    /// What is spoken on port 1, iSCSI, and on port 2, NVMe.
    pub listeners: fn(&dyn Volume) -> Vec<ListenerRole>,
    /// Those who behave: which port, and how they enter.
    pub clients: Vec<(u16, Access)>,
    /// Cores of the server.
    pub cores: CoreIndex,
    /// Bytes of the heap that this thread has.
    pub heap: fn() -> usize,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("clients", &self.clients)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

/// What a client asks for.
#[derive(Debug)]
struct Asks {
    /// Each request has one of these lengths, in bytes.
    lengths: &'static [usize],
    /// So many are under way at most.
    depth: usize,
    /// How long one of at most [`SMALL`] bytes may take.
    small_wait: Duration,
}

/// Somebody who behaves.
struct Client {
    _volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
    /// When each request was made, and its bytes.
    under_way: BTreeMap<u64, (Instant, usize)>,
    /// The longest that one took.
    longest: Duration,
    /// When it asks for more.
    next: Instant,
    asks: &'static Asks,
}

/// Somebody who does not.
struct Attacker {
    attack: Attack,
    number: u8,
    ends: Vec<(EndpointId, Peer)>,
    /// When it comes again.
    again: Option<Instant>,
}

struct Trial<'a> {
    seed: u64,
    scenario: &'a Scenario,
    world: World<Core>,
    dice: Dice,
    clients: Vec<Client>,
    attackers: Vec<Attacker>,
    rdma_attackers: Vec<RdmaAttacker>,
    /// Blocks of the disk, from the first on, that those who behave use.
    blocks: u64,
    /// False where bits change on the way from attackers: without checksums nothing then says which blocks they write, as they may write to any.
    checks_data: bool,
    /// How long any request may take at least.
    least_wait: Duration,
    /// How long after an attack everything has come back.
    aftermath: Duration,
    serial: u64,
    heap: usize,
}

/// Runs one trial with attackers of these kinds. The error says which promise was broken; without one, how long a request took at
/// most, by client: two for each of the scenario's, of which the first asks for little.
pub fn hostile(
    seed: u64,
    attacks: &[Attack],
    scenario: &Scenario,
    bug: PlantedBug,
) -> Result<Vec<Duration>, TrialFailure> {
    let mut trial = Trial::new(seed, scenario, (bug, &[&LITTLE, &ANYTHING]))?;
    trial.pass(Duration::from_millis(200))?;
    for number in 0..trial.dice.within(ATTACKERS) {
        let attack = attacks[trial.dice.index(attacks.len())];
        let number = wire::bounded::<u8>(number + 1);
        trial.attackers.push(Attacker { attack, number, ends: Vec::new(), again: Some(Instant::ZERO) });
    }
    trial.endure(ATTACK).map_err(|failure| failure.at(format_args!("{attacks:?}")))
}

/// Runs one trial over software RDMA with attackers that do these things, and use the second half of the disk, while those who behave use the first.
pub fn hostile_over_rdma<E: Hostility>(
    seed: u64,
    evils: &[E],
    scenario: &Scenario,
    bug: PlantedBug,
) -> Result<Vec<Duration>, TrialFailure> {
    let mut trial = Trial::new(seed, scenario, (bug, &[&LITTLE, &ANYTHING]))?;
    trial.blocks = DISK / 512 / 2;
    trial.checks_data = !evils.iter().any(|evil| evil.strays());
    trial.pass(Duration::from_millis(200))?;
    let theirs = Extent::new(trial.blocks, trial.blocks);
    for _ in 0..trial.dice.within(ATTACKERS) {
        let evil = evils[trial.dice.index(evils.len())];
        let entry = scenario.clients[trial.dice.index(scenario.clients.len())].clone();
        trial.rdma_attackers.push(RdmaAttacker::new(evil, entry, theirs, trial.dice.fork()));
    }
    trial.endure(ATTACK).map_err(|failure| failure.at(format_args!("{evils:?}")))
}

/// Attackers of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// What each of them does.
    pub attack: Attack,
    /// How many there are.
    pub size: u8,
}

/// Runs one trial with a crowd of attackers of one kind, beside clients that ask for a block at a time: some that were there before the crowd, and some that
/// come after it.
pub fn crowd(seed: u64, crowd: Crowd, scenario: &Scenario) -> Result<Vec<Duration>, TrialFailure> {
    let Crowd { attack, size } = crowd;
    let mut trial = Trial::new(seed, scenario, (PlantedBug::None, &[&BLOCKS]))?;
    let told = |failure: TrialFailure| failure.at(format_args!("{size} of {attack:?}"));
    trial.pass(Duration::from_millis(200)).map_err(told)?;
    let again = Some(Instant::ZERO);
    trial.attackers.extend((1..=size).map(|number| Attacker { attack, number, ends: Vec::new(), again }));
    trial.pass(GATHERING).map_err(told)?;
    trial.admit(&[&BLOCKS]).map_err(told)?;
    trial.endure(SIEGE).map_err(told)
}

impl<'a> Trial<'a> {
    fn new(
        seed: u64,
        scenario: &'a Scenario,
        (bug, asks): (PlantedBug, &[&'static Asks]),
    ) -> Result<Self, TrialFailure> {
        let heap = (scenario.heap)();
        let mut dice = Dice::new(seed);
        let inner = Ram::new(DISK, 512)?;
        let disk: Arc<dyn Volume> = Arc::new(SlowDisk {
            inner: Arc::new(inner),
            slowest: SLOWEST,
            quick: Arc::default(),
            stubborn: false,
            watch: watch(bug),
            dice: Mutex::new(dice.fork()),
        });
        let transport = scenario.clients.first().map_or(Transport::Tcp, |(_, access)| transport_of(access));
        let delay = delay_over(transport);
        let conditions = NetworkConditions { delay, longest: 1 << 16, cuts: Odds::NEVER };
        let mut world = World::new(conditions, dice.fork());
        world.set_window(WINDOW);
        world.set_idle(STRIDE);
        if bug == PlantedBug::NoDeadlines {
            world.forget_deadlines();
        }
        let pool = if bug == PlantedBug::NoLimit { 2 * LIMIT } else { LIMIT };
        let listeners = (scenario.listeners)(&*disk);
        serve(&mut world, disk, Serving { listeners, transport, cores: scenario.cores, pool, hook: None })?;
        let mut trial = Self {
            seed,
            scenario,
            world,
            dice,
            clients: Vec::new(),
            attackers: Vec::new(),
            rdma_attackers: Vec::new(),
            blocks: DISK / 512,
            checks_data: true,
            least_wait: small_wait_over(transport),
            aftermath: if matches!(transport, Transport::Roce { .. }) {
                DATAGRAMS_AFTERMATH
            } else {
                AFTERMATH
            },
            serial: 0,
            heap,
        };
        trial.admit(asks)?;
        Ok(trial)
    }

    /// Lets clients come, over each protocol one that asks for each of these.
    fn admit(&mut self, asks: &[&'static Asks]) -> Result<(), TrialFailure> {
        for (port, access) in &self.scenario.clients {
            for asks in asks {
                let client = self.open(*port, access, asks)?;
                self.clients.push(client);
            }
        }
        Ok(())
    }

    fn open(&mut self, port: u16, access: &Access, asks: &'static Asks) -> Result<Client, TrialFailure> {
        let seeds = AtomicU64::new(self.seed ^ (self.clients.len() as u64 + 1) << 32);
        let context = remote::ClientContext {
            dialer: Arc::new(ClientMachine::new()),
            adapters: Arc::new(host::NoAdapters),
            waker: Waker::noop().clone(),
            entropy: Arc::new(move || Box::new(Dice::new(seeds.fetch_add(1, Ordering::Relaxed)))),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut opening = remote::open(address, access.clone(), &context);
        for _ in 0..PATIENCE {
            self.world.step();
            if let Some(opened) = opening.poll() {
                let volume = opened?;
                let queue = volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()));
                let queue = queue?;
                return Ok(Client {
                    _volume: volume,
                    queue,
                    under_way: BTreeMap::new(),
                    longest: Duration::ZERO,
                    next: Instant::ZERO,
                    asks,
                });
            }
        }
        Err(TrialFailure::Late(format!("port {port} could not be opened in {PATIENCE} steps")))
    }

    /// The attack goes on for so long; then its end is waited for, and everybody leaves.
    fn endure(mut self, attack: Duration) -> Result<Vec<Duration>, TrialFailure> {
        self.pass(attack)?;
        self.retreat();
        self.pass(self.aftermath)?;
        self.leave()
    }

    fn pass(&mut self, span: Duration) -> Result<(), TrialFailure> {
        let end = self.world.now() + span;
        while self.world.now() < end {
            self.attack();
            for index in 0..self.clients.len() {
                self.ask(index);
                self.reap(index)?;
            }
            self.world.step();
            self.check_memory()?;
        }
        Ok(())
    }

    /// Lets attackers come, and come again when they were cut off.
    fn attack(&mut self) {
        let now = self.world.now();
        self.rdma_attackers.iter_mut().for_each(|attacker| attacker.act(now));
        for attacker in &mut self.attackers {
            if attacker.again.is_some_and(|due| due <= now) {
                attacker.again = None;
                attacker.ends = attacker.come(&mut self.dice);
            }
            if attacker.again.is_none() && attacker.ends.iter().any(|(_, peer)| peer.borrow().ended) {
                attacker.ends.drain(..).for_each(|(endpoint, _)| self.world.reset(endpoint));
                attacker.again = Some(now + self.dice.span(&AWAY));
            }
        }
    }

    fn retreat(&mut self) {
        self.rdma_attackers.drain(..).for_each(|attacker| attacker.retreat(&mut self.world));
        for attacker in self.attackers.drain(..) {
            attacker.ends.iter().for_each(|(endpoint, _)| self.world.reset(*endpoint));
        }
    }

    fn ask(&mut self, index: usize) {
        let (now, client) = (self.world.now(), &mut self.clients[index]);
        if client.under_way.len() >= client.asks.depth || client.next > now {
            return;
        }
        client.next = now + self.dice.span(&THOUGHT);
        let length = client.asks.lengths[self.dice.index(client.asks.lengths.len())];
        let blocks = length as u64 / 512;
        let extent = Extent::new(self.dice.below(self.blocks - blocks + 1), blocks);
        let operation = if self.dice.coin() {
            Operation::Read { extent, into: Buf::zeroed(length) }
        } else {
            let data = BufList::from(SharedBuf::from(vec![WRITTEN; length]));
            Operation::Write { extent, data, durability: Durability::Cached }
        };
        self.serial += 1;
        let tag = self.serial;
        if client.queue.submit(now, Request { tag: Tag(tag), operation }).is_ok() {
            client.under_way.insert(tag, (now, length));
        }
    }

    fn reap(&mut self, index: usize) -> Result<(), TrialFailure> {
        let cores = self.scenario.cores;
        let (now, client) = (self.world.now(), &mut self.clients[index]);
        let mut done = Vec::new();
        client.queue.poll(now, &mut done);
        for completion in done {
            let Some((began, length)) = client.under_way.remove(&completion.tag.0) else { continue };
            let took = now.since(began);
            if let Some(kind) = completion.error() {
                return Err(TrialFailure::Broken(format!(
                    "a request of {length} bytes of client {index}, which behaves, fails: {kind:?}"
                )));
            }
            if let Ok(Outcome::Data(data)) = completion.result
                && self.checks_data
                && !is_of_those_who_behave(&data)
            {
                return Err(TrialFailure::Broken(format!(
                    "a read of {length} bytes of client {index} finds what nobody has written there"
                )));
            }
            client.longest = took.max(client.longest);
        }
        for (began, length) in client.under_way.values() {
            let small = client.asks.small_wait.max(self.least_wait);
            let wait = if *length > SMALL { LARGE_WAIT } else { small };
            let bound = if cores > 1 { wait.max(TURNS_WAIT) } else { wait };
            if now.since(*began) > bound {
                return Err(TrialFailure::Late(format!(
                    "a request of {length} bytes of client {index}, which behaves, takes longer than {bound:?}"
                )));
            }
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), TrialFailure> {
        for (number, core) in self.world.cores().iter().enumerate() {
            let (used, allocated) = (core.pool().used(), core.pool().usage().allocated);
            if used > LIMIT || allocated > LIMIT {
                return Err(TrialFailure::Memory(format!(
                    "core {number} has {used} bytes in use and {allocated} in its pool, where {LIMIT} is the limit"
                )));
            }
        }
        let heap = (self.scenario.heap)().saturating_sub(self.heap);
        let ends: usize = self.attackers.iter().map(|attacker| attacker.ends.len()).sum();
        let disk = wire::index(DISK);
        let attackers = self.rdma_attackers.len() * rdma_attackers::OWN;
        let own = self.clients.len() * (DEPTH << 21) + attackers;
        let most = self.world.cores().len() * LIMIT + (ends + 4) * BESIDE + ITSELF + disk + own;
        if heap > most {
            return Err(TrialFailure::Memory(format!(
                "{heap} bytes of the heap are in use, where the limit leaves {most}"
            )));
        }
        Ok(())
    }

    /// Those who behave leave too; then nothing is in use. How long their requests took at most.
    fn leave(&mut self) -> Result<Vec<Duration>, TrialFailure> {
        let end = self.world.now() + LARGE_WAIT;
        while self.clients.iter().any(|client| !client.under_way.is_empty()) && self.world.now() < end {
            self.world.step();
            for index in 0..self.clients.len() {
                self.reap(index)?;
            }
        }
        let longest = self.clients.drain(..).map(|client| client.longest).collect();
        self.pass(AFTERMATH)?;
        for (number, core) in self.world.cores().iter().enumerate() {
            let used = core.pool().used();
            if used > 0 {
                return Err(TrialFailure::Memory(format!(
                    "everybody is gone, and core {number} has {used} bytes in use"
                )));
            }
        }
        Ok(longest)
    }
}

impl Attacker {
    /// Its streams.
    fn come(&self, dice: &mut Dice) -> Vec<(EndpointId, Peer)> {
        let (attack, number, port) = (self.attack, self.number, self.attack.port());
        if port == 1 {
            return vec![dial_for(port, Box::new(Raider::new(attack, number, dice.fork())))];
        }
        let shared: Shared = Rc::new(Cell::new(None));
        if !attack.needs_admin() {
            let plan = Plan { attack: Some(attack), number, queue: QueueKind::Admin };
            let admin = Marauder::new(plan, shared, dice.fork());
            return vec![dial_for(port, Box::new(admin))];
        }
        let admin = Plan { attack: None, number, queue: QueueKind::Admin };
        let admin = Marauder::new(admin, Rc::clone(&shared), dice.fork());
        let queue = Plan { attack: Some(attack), number, queue: QueueKind::Io };
        let queue = Marauder::new(queue, shared, dice.fork());
        vec![dial_for(port, Box::new(admin)), dial_for(port, Box::new(queue))]
    }
}

/// What is read where only those who behave write.
fn is_of_those_who_behave(data: &BufList) -> bool {
    data.pieces().iter().all(|piece| piece.iter().all(|byte| [0, WRITTEN].contains(byte)))
}

/// Sees every write; with a leak it keeps the memory of some.
fn watch(bug: PlantedBug) -> Watch {
    let (mut kept, mut count) = (Vec::new(), 0_u32);
    Arc::new(Mutex::new(Box::new(move |effect: &Effect<'_>| {
        count += 1;
        if bug == PlantedBug::Leak && count.is_multiple_of(64) {
            kept.push(effect.data.clone());
        }
    })))
}
