//! Trials of fencing: several clients of both protocols write to one disk through a server of several cores, and take it from each other.
//!
//! The checker is told what clients were promised: once a client has heard that its RESERVE or PREEMPT succeeded, no write of those whom
//! it fences takes effect any more, and what the holder writes stays (SPC-4 §5.13, NVMe Base §8.1.22). The disk tells it when each write
//! takes effect. [`PlantedBug`] has the bugs that it must find.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use buf::{Buf, BufList, SharedBuf};
use engine::remote::{self, Access};
use engine::{Cause, Core, Fence, ListenerRole, Message, Transport};
use host::CoreIndex;
use volume::reservation::{Command, ReservationType};
use volume::{
    CoreId, Durability, Extent, OpenError, Operation, Outcome, QueueContext, Ram, Request, Tag, Volume,
    VolumeErrorKind, VolumeQueue,
};

use crate::client_machine::ClientMachine;
use crate::dice::{Dice, Odds};
use crate::disk::SECTOR;
use crate::failure::TrialFailure;
use crate::lock;
use crate::mail::MessageHook;
use crate::network_conditions::NetworkConditions;
use crate::serving::{Serving, serve};
use crate::slow::{Effect, SlowDisk, Watch};
use crate::sockets::DatagramFaults;
use crate::trial::{PATIENCE, delay_over, transport_of};
use crate::world::World;

/// Blocks of the disk: few, so that writes meet.
const BLOCKS: u64 = 96;
/// The longest write, in blocks: some are longer than a command brings along, and wait for the server to ask.
const LONGEST: usize = 64;
/// Writes that a client has under way at most.
const DEPTH: usize = 6;
/// The longest that the disk takes for a request.
const SLOWEST: Duration = Duration::from_millis(20);
/// Buffers of each core, in bytes.
const POOL: usize = 4 << 20;
/// The same over RoCE, where a session or a queue has half a MiB of receives from its first command on, and so has one that is lost until its queue pair has told its peer of the end.
const ROCE_POOL: usize = 16 << 20;
/// How often a preemption aborts: its victims over iSCSI then hear nothing for a while, and write nothing.
const ABORTS: Odds = Odds(200);
/// Steps of the world while a reservation holds.
const HOLD: std::ops::RangeInclusive<usize> = 20..=200;

/// A bug of the server's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// A core acknowledges a fence before the older requests have ended.
    EarlyAcknowledgement,
    /// A core's connections hear of a fence, and of the new reservations only with the next one.
    LateView,
    /// Fences move no epoch: what was judged before one is taken behind it.
    EpochStands,
}

/// What a trial is about.
pub struct Scenario {
    /// What is spoken on each port, from 1.
    pub listeners: fn(&dyn Volume) -> Vec<ListenerRole>,
    /// The clients: which port, and how they enter.
    pub clients: Vec<(u16, Access)>,
    /// Cores of the server.
    pub cores: CoreIndex,
}

/// What was promised, and what came of it.
#[derive(Default)]
struct Promises {
    fenced: BTreeSet<u64>,
    /// Who was promised it, and by what.
    by: String,
    broken: Option<String>,
}

impl Promises {
    fn see(&mut self, effect: &Effect<'_>) {
        let Effect { now, extent, data, .. } = effect;
        let mut mark = [0; 16];
        data.part(0, 16).copy_to(&mut mark);
        let (client, serial) = marks(&mark);
        if self.fenced.contains(&client) {
            let (by, start) = (&self.by, extent.start);
            let what = format!(
                "{by} had been answered with success, and write {serial} of client {client} to block {start} takes effect at {now:?}: \
                 nothing that it fences may (SPC-4 §5.13, NVMe Base §8.1.22)"
            );
            self.broken.get_or_insert(what);
        }
    }
}

pub(crate) fn marks(mark: &[u8; 16]) -> (u64, u64) {
    let number = u128::from_le_bytes(*mark);
    (u64::try_from(number >> 64).unwrap_or(0), u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0))
}

/// A write's data: whose it is and which, at the beginning of each block, and bytes that depend on that and on their place.
pub(crate) fn content(seed: u64, (client, serial): (u64, u64), extent: Extent) -> Vec<u8> {
    let mut data = Vec::new();
    for block in extent.start..extent.start + extent.blocks {
        let mark = u128::from(client) << 64 | u128::from(serial);
        data.extend_from_slice(&mark.to_le_bytes());
        let mut dice = Dice::new(seed ^ client << 48 ^ serial << 16 ^ block);
        data.resize_with(data.len() + SECTOR - 16, || u8::try_from(dice.below(256)).unwrap_or(0));
    }
    data
}

struct Client {
    volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
    writing: BTreeSet<u64>,
    registered: bool,
}

/// A trial under way.
struct Trial {
    seed: u64,
    world: World<Core>,
    dice: Dice,
    clients: Vec<Client>,
    promises: Arc<Mutex<Promises>>,
    serial: u64,
    holder: Option<(usize, ReservationType)>,
    ended: Vec<(u64, Result<Outcome, VolumeErrorKind>)>,
}

/// Runs one trial with so many changes of the holder. The error says which promise was broken.
pub fn fencing(seed: u64, changes: usize, scenario: &Scenario, bug: PlantedBug) -> Result<(), TrialFailure> {
    let mut trial = Trial::new(seed, scenario, bug)?;
    for change in 0..changes {
        trial.change_holder().map_err(|failure| failure.at(format_args!("change {change}")))?;
    }
    trial.settle()
}

impl Trial {
    fn new(seed: u64, scenario: &Scenario, bug: PlantedBug) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let promises = Arc::new(Mutex::new(Promises::default()));
        let told = Arc::clone(&promises);
        let watch: Watch = Arc::new(Mutex::new(Box::new(move |effect: &Effect<'_>| lock(&told).see(effect))));
        let inner = Ram::new((BLOCKS + 8) * SECTOR as u64, 512)?;
        let disk = SlowDisk {
            inner: Arc::new(inner),
            slowest: SLOWEST,
            quick: Arc::default(),
            stubborn: dice.coin(),
            watch,
            dice: Mutex::new(dice.fork()),
        };
        let transport = scenario.clients.first().map_or(Transport::Tcp, |(_, access)| transport_of(access));
        let is_roce = matches!(transport, Transport::Roce { .. });
        let delay = if is_roce { delay_over(transport) } else { Duration::ZERO..=Duration::from_micros(500) };
        let pool = if is_roce { ROCE_POOL } else { POOL };
        let conditions = NetworkConditions { delay, longest: 1 << 16, cuts: Odds::NEVER };
        let mut world = World::new(conditions, dice.fork());
        world.loosen();
        world.set_datagram_faults(DatagramFaults::USUAL);
        let disk: Arc<dyn Volume> = Arc::new(disk);
        let hook: Option<MessageHook<Message>> = match bug {
            PlantedBug::None => None,
            PlantedBug::EarlyAcknowledgement => Some(Box::new(acknowledge_early)),
            PlantedBug::LateView => Some(late_view()),
            PlantedBug::EpochStands => Some(epoch_stands()),
        };
        let listeners = (scenario.listeners)(&*disk);
        serve(&mut world, disk, Serving { listeners, transport, cores: scenario.cores, pool, hook })?;
        let mut trial = Self {
            seed,
            world,
            dice,
            clients: Vec::new(),
            promises,
            serial: 0,
            holder: None,
            ended: Vec::new(),
        };
        for (port, access) in &scenario.clients {
            let client = trial.open(*port, access)?;
            trial.clients.push(client);
        }
        Ok(trial)
    }

    fn open(&mut self, port: u16, access: &Access) -> Result<Client, TrialFailure> {
        let seeds = AtomicU64::new(self.seed ^ u64::from(port) << 32 ^ (self.clients.len() as u64) << 40);
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
                let queue = open_queue(&volume)?;
                return Ok(Client { volume, queue, writing: BTreeSet::new(), registered: false });
            }
        }
        Err(TrialFailure::Late(format!("port {port} could not be opened in {PATIENCE} steps")))
    }

    /// The clients write, the world goes on, and what has ended is taken.
    fn step(&mut self) -> Result<(), TrialFailure> {
        for index in 0..self.clients.len() {
            if self.clients[index].writing.len() < DEPTH && self.dice.coin() {
                self.write(index);
            }
        }
        self.reap()
    }

    fn write(&mut self, index: usize) {
        let blocks = if self.dice.happens(Odds(150)) { self.dice.within(1..=LONGEST) } else { 1 } as u64;
        let extent = Extent::new(self.dice.below(BLOCKS - blocks + 1), blocks);
        self.serial += 1;
        let data = content(self.seed, (index as u64, self.serial), extent);
        let data = BufList::from(SharedBuf::from(data));
        let operation = Operation::Write { extent, data, durability: Durability::Cached };
        if self.submit(index, self.serial, operation) {
            self.clients[index].writing.insert(self.serial);
        }
    }

    fn submit(&mut self, index: usize, tag: u64, operation: Operation) -> bool {
        self.clients[index].queue.submit(self.world.now(), Request { tag: Tag(tag), operation }).is_ok()
    }

    fn reap(&mut self) -> Result<(), TrialFailure> {
        self.world.step();
        let mut done = Vec::new();
        for client in &mut self.clients {
            client.queue.poll(self.world.now(), &mut done);
            for completion in done.drain(..) {
                if !client.writing.remove(&completion.tag.0) {
                    self.ended.push((completion.tag.0, completion.outcome()));
                }
            }
        }
        match lock(&self.promises).broken.take() {
            Some(broken) => Err(TrialFailure::Broken(broken)),
            None => Ok(()),
        }
    }

    /// Carries a request of a client out while all others go on.
    fn run(&mut self, index: usize, operation: Operation) -> Result<Outcome, TrialFailure> {
        self.serial += 1;
        let (tag, what) = (self.serial, format!("{operation:?}"));
        if !self.submit(index, tag, operation) {
            return Err(TrialFailure::Broken(format!("client {index} cannot submit {what}")));
        }
        for _ in 0..PATIENCE {
            self.step()?;
            if let Some(at) = self.ended.iter().position(|(ended, _)| *ended == tag) {
                let (_, result) = self.ended.swap_remove(at);
                return result.map_err(|kind| {
                    TrialFailure::Broken(format!("{what} of client {index} ends in {kind:?}"))
                });
            }
        }
        Err(TrialFailure::Late(format!("{what} of client {index} has not ended in {PATIENCE} steps")))
    }

    /// Somebody else becomes the holder, and finds its data unharmed for as long as it holds.
    fn change_holder(&mut self) -> Result<(), TrialFailure> {
        for index in 0..self.clients.len() {
            if !self.clients[index].registered {
                let new_key = index as u64 + 1;
                self.run(index, Operation::Reserve(Command::Register { key: None, new_key, persist: None }))?;
                self.clients[index].registered = true;
            }
        }
        let next = self.dice.index(self.clients.len());
        let kind =
            if self.dice.coin() { ReservationType::WriteExclusive } else { ReservationType::ExclusiveAccess };
        let key = next as u64 + 1;
        let command = match self.holder.filter(|(holder, _)| *holder != next) {
            _ if self.holder.is_some_and(|(holder, _)| holder == next) => return self.release(),
            Some((holder, _)) => {
                let abort = self.dice.happens(ABORTS);
                self.clients[holder].registered = false;
                Command::Preempt { key, victim: holder as u64 + 1, kind, abort }
            }
            None => Command::Reserve { key, kind },
        };
        self.stir(next);
        // From now on it may write, as the change may have come about before it is answered.
        lock(&self.promises).fenced.remove(&key.saturating_sub(1));
        let by = format!("{command:?} of client {next}");
        self.run(next, Operation::Reserve(command))?;
        self.holder = Some((next, kind));
        let others = (0..self.clients.len()).filter(|index| *index != next).map(|index| index as u64);
        *lock(&self.promises) = Promises { fenced: others.collect(), by, broken: None };
        self.hold(next)
    }

    /// The holder writes a block again and again, and reads what it wrote.
    fn hold(&mut self, holder: usize) -> Result<(), TrialFailure> {
        for _ in 0..self.dice.within(1..=3) {
            let extent = Extent::new(BLOCKS + self.dice.below(8), 1);
            self.serial += 1;
            let data = content(self.seed, (holder as u64, self.serial), extent);
            let list = BufList::from(SharedBuf::from(data.clone()));
            let write = Operation::Write { extent, data: list, durability: Durability::Cached };
            self.run(holder, write)?;
            for _ in 0..self.dice.within(HOLD) {
                self.step()?;
            }
            let read = Operation::Read { extent, into: Buf::zeroed(SECTOR) };
            let Outcome::Data(found) = self.run(holder, read)? else {
                return Err(TrialFailure::Broken("a read without data".to_owned()));
            };
            let mut bytes = vec![0; SECTOR];
            found.copy_to(&mut bytes);
            if bytes != data {
                return Err(TrialFailure::Broken(format!(
                    "the holder, client {holder}, does not find in {extent:?} what it wrote"
                )));
            }
        }
        Ok(())
    }

    fn release(&mut self) -> Result<(), TrialFailure> {
        let Some((holder, kind)) = self.holder.take() else { return Ok(()) };
        lock(&self.promises).fenced.clear();
        let key = holder as u64 + 1;
        let clear = self.dice.coin();
        let command = if clear { Command::Clear { key } } else { Command::Release { key, kind } };
        if clear {
            self.clients.iter_mut().for_each(|client| client.registered = false);
        }
        self.run(holder, Operation::Reserve(command)).map(drop)
    }

    /// What goes on beside a change: a fence before it and behind it, and a queue that comes meanwhile.
    fn stir(&mut self, next: usize) {
        let other = self.dice.index(self.clients.len());
        if self.dice.coin() && other != next && self.clients[other].registered {
            self.serial += 1;
            let register = Command::Register { key: None, new_key: other as u64 + 1, persist: None };
            self.submit(other, self.serial, Operation::Reserve(register));
        }
        let late = self.dice.index(self.clients.len());
        let client = &mut self.clients[late];
        if self.dice.happens(Odds(200))
            && late != next
            && !client.registered
            && let Ok(queue) = open_queue(&client.volume)
        {
            (client.queue, client.writing) = (queue, BTreeSet::new());
        }
    }

    /// Everything that is under way ends.
    fn settle(&mut self) -> Result<(), TrialFailure> {
        for _ in 0..PATIENCE {
            self.reap()?;
            if self.clients.iter().all(|client| client.writing.is_empty()) {
                return Ok(());
            }
        }
        let left: Vec<_> = self.clients.iter().map(|client| client.writing.len()).collect();
        Err(TrialFailure::Late(format!("of the clients' writes {left:?} have not ended in {PATIENCE} steps")))
    }
}

fn open_queue(volume: &Arc<dyn Volume>) -> Result<Box<dyn VolumeQueue>, OpenError> {
    volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()))
}

/// Each core is said to have acknowledged a fence before it has seen it.
pub(crate) fn acknowledge_early(
    (_, to): (CoreIndex, CoreIndex),
    message: Message,
) -> Vec<(CoreIndex, Message)> {
    match message {
        Message::Fence(fence) => {
            let number = fence.number;
            vec![(to, Message::Fence(fence)), (0, Message::Fenced(number))]
        }
        message => vec![(to, message)],
    }
}

/// Each fence brings the reservations of the one before it.
fn late_view() -> MessageHook<Message> {
    let mut last = BTreeMap::new();
    Box::new(move |(_, to), message| {
        let message = match message {
            Message::Fence(Fence {
                number,
                served,
                cause: Cause::Reservations { view, notices, aborted },
            }) => {
                let view = last.insert(to, view).unwrap_or_default();
                Message::Fence(Fence {
                    number,
                    served,
                    cause: Cause::Reservations { view, notices, aborted },
                })
            }
            message => message,
        };
        vec![(to, message)]
    })
}

/// All fences have the same number for the cores; their acknowledgements, which come in order, have the true one.
fn epoch_stands() -> MessageHook<Message> {
    let mut numbers = BTreeMap::<_, VecDeque<_>>::new();
    Box::new(move |(from, to), message| {
        let message = match message {
            Message::Fence(fence) => {
                numbers.entry(to).or_default().push_back(fence.number);
                Message::Fence(Fence { number: 0, ..fence })
            }
            Message::Fenced(_) => {
                let number = numbers.get_mut(&from).and_then(VecDeque::pop_front);
                Message::Fenced(number.unwrap_or(0))
            }
            message => message,
        };
        vec![(to, message)]
    })
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario")
            .field("clients", &self.clients)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}
