//! Trials of connections over software RDMA of any shape. Over iWARP, through a network that delays and cuts: revisions of MPA, markers, CRCs, RDMA Reads at a time, ways
//! to show readiness, segments, lengths of queues, both protocols, logins and set-ups that are refused, and ends at any byte. Over RoCE, through a network that also loses,
//! doubles and damages: path MTUs, RDMA Reads at a time, lengths of queues, the same protocols and refusals, and clients that are gone at any moment.
//!
//! What is promised: no request finds or leaves other data than was written, each ends once, and everything that a connection held comes back.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use buf::{Account, Buf, Pool};
use engine::{Core, ListenerRole, ROCE_SLOT, Transport};
use host::{DatagramEndpoint, Dialer as _, Endpoint, EndpointId};
use iscsi::datamover::iser::{InitiatorConnection, Invalidation, initiator_needs, private_data};
use iwarp::Role;
use iwarp::mpa::{Offer, Revision, RtrKinds};
use names::ROCE_PORT;
use nvme::host::Queue;
use nvme::rdma::HostConnection;
use protocol::Instant;
use roce::endpoint::Target;
use roce::mtu::Mtu;
use verbs::{PrivateData, QueueLimits};
use volume::{CoreId, Extent, Operation, Outcome, QueueContext, Ram, Request, Tag, Volume};

use crate::client_machine::ClientMachine;
use crate::dice::{Dice, Odds};
use crate::failure::TrialFailure;
use crate::network_conditions::NetworkConditions;
use crate::peers::{SUBSYSTEM, TARGET, host};
use crate::random_clients::{BLOCK, Client, ClientConsumer, ClientEnd, Mishap};
use crate::random_datagram_clients::{DatagramClientEnd, Join, Wish};
use crate::serving::{Serving, serve};
use crate::slow::{Effect, SlowDisk, Watch};
use crate::sockets::DatagramFaults;
use crate::world::{World, WorldDialer};

/// NVMe/RDMA over software iWARP, at a host.
type RdmaHost = HostConnection<iwarp::Connection>;

/// Connections of a trial, and blocks of each.
pub const CONNECTIONS: usize = 20;
const PART: u64 = 64;
/// Buffers of the server, and of a client, in bytes.
const SERVER_POOL: usize = 64 << 20;
const CLIENT_POOL: usize = 16 << 20;
/// Requests of a connection.
const REQUESTS: std::ops::RangeInclusive<usize> = 0..=12;
/// Bytes behind which a stream is cut: within its set-up, a login, or the data.
const CUTS: [std::ops::RangeInclusive<usize>; 3] = [1..=60, 61..=2000, 2001..=120_000];
/// Trains of datagrams behind which a client is gone: within its set-up, a login, or the data.
const SILENCES: [std::ops::RangeInclusive<usize>; 3] = [1..=3, 4..=12, 13..=200];
/// The longest that the disk takes for a request.
const SLOWEST: Duration = Duration::from_millis(2);
/// Within which time a stream is reset, if it is.
const RESET: Duration = Duration::from_millis(400);
/// How long after each other clients come, and how long all of them have.
const COMING: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(90);
/// How long after them everything has come back. Nobody tells a server of a client that is gone: its pings over datagrams find out.
const AFTERMATH: Duration = Duration::from_secs(40);
const AFTERMATH_OVER_DATAGRAMS: Duration = Duration::from_secs(70);
/// The clock's longest step.
const STRIDE: Duration = Duration::from_millis(50);
/// What may be left when all is over, in bytes: tables of the thread that keep their size.
const LEFT: usize = 64 << 10;

/// A bug of the connections, or of what they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// None.
    None,
    /// Bits of what is sent change, and no end looks at the sums of datagrams.
    Flips,
    /// Some of the server's buffers never come back.
    Leak,
}

/// What carries RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Software iWARP, on streams.
    Iwarp,
    /// Software RoCEv2, on datagrams.
    Roce,
}

/// What a trial is about.
pub struct Scenario {
    /// What carries it.
    pub carrier: Carrier,
    /// What is spoken on port 1, iSCSI, and on port 2, NVMe.
    pub listeners: fn(&dyn Volume) -> Vec<ListenerRole>,
    /// Bytes of the heap that this thread has.
    pub heap: fn() -> usize,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scenario").finish_non_exhaustive()
    }
}

/// Runs one trial of [`CONNECTIONS`] connections, and says how many requests succeeded.
pub fn random_connections(seed: u64, scenario: &Scenario, bug: PlantedBug) -> Result<usize, TrialFailure> {
    let before = (scenario.heap)();
    let succeeded = Trial::new(seed, scenario, bug)?.run()?;
    let left = (scenario.heap)().saturating_sub(before);
    if left <= LEFT {
        return Ok(succeeded);
    }
    Err(TrialFailure::Memory(format!("everybody is gone, and {left} bytes are in use")))
}

/// What a client has in its world.
enum End {
    Stream(Box<dyn Endpoint>),
    Socket(Box<dyn DatagramEndpoint>),
}

/// A client with its streams or sockets.
struct Visit {
    client: Rc<RefCell<Client>>,
    /// The client of the admin queue, if it is a host.
    admin: Option<Rc<RefCell<Client>>>,
    number: u8,
    streams: Vec<EndpointId>,
    pool: Pool,
    /// When all of its streams are reset, if they still are there.
    reset: Option<Instant>,
}

struct Trial {
    world: World<Core>,
    disk: Arc<dyn Volume>,
    dice: Dice,
    visits: Vec<Visit>,
    carrier: Carrier,
    bug: PlantedBug,
}

impl Trial {
    fn new(seed: u64, scenario: &Scenario, bug: PlantedBug) -> Result<Self, TrialFailure> {
        let mut dice = Dice::new(seed);
        let blocks = PART * wire::widen(CONNECTIONS);
        let ram: Arc<dyn Volume> = Arc::new(Ram::new(blocks * wire::widen(BLOCK), 512)?);
        let disk: Arc<dyn Volume> = Arc::new(SlowDisk {
            inner: Arc::clone(&ram),
            slowest: SLOWEST,
            quick: Arc::default(),
            stubborn: false,
            watch: watch(bug),
            dice: Mutex::new(dice.fork()),
        });
        let delay = Duration::from_micros(20)..=Duration::from_millis(5);
        let longest = [7, 600, 1460, 1 << 16][dice.index(4)];
        let mut world = World::new(NetworkConditions { delay, longest, cuts: Odds(1) }, dice.fork());
        world.set_idle(STRIDE);
        let listeners = (scenario.listeners)(&*disk);
        let transport = match scenario.carrier {
            Carrier::Iwarp => Transport::Iwarp { crc: dice.coin() },
            Carrier::Roce => {
                world.set_datagram_faults(faults(bug, &mut dice));
                Transport::Roce { socket: server(ROCE_PORT), service: 1 }
            }
        };
        serve(&mut world, disk, Serving { listeners, transport, cores: 1, pool: SERVER_POOL, hook: None })?;
        Ok(Self { world, disk: ram, dice, visits: Vec::new(), carrier: scenario.carrier, bug })
    }

    fn run(mut self) -> Result<usize, TrialFailure> {
        for number in 0..CONNECTIONS {
            self.come(wire::bounded::<u8>(number));
            let pause = self.dice.span(&COMING);
            self.pass(pause);
        }
        let end = self.world.now() + PATIENCE;
        while self.world.now() < end && !self.visits.iter().all(Visit::is_over) {
            self.pass(Duration::from_millis(1));
        }
        if let Some(visit) = self.visits.iter().find(|visit| !visit.is_over()) {
            return Err(TrialFailure::Late(format!(
                "client {} is still there after {PATIENCE:?}",
                visit.number
            )));
        }
        self.pass(match self.carrier {
            Carrier::Iwarp => AFTERMATH,
            Carrier::Roce => AFTERMATH_OVER_DATAGRAMS,
        });
        self.check()
    }

    fn pass(&mut self, span: Duration) {
        let end = self.world.now() + span;
        while self.world.now() < end {
            self.world.step();
            for at in 0..self.visits.len() {
                self.attend(at);
            }
        }
    }

    /// A client comes, over either protocol.
    fn come(&mut self, number: u8) {
        let part = Extent::new(u64::from(number) * PART, PART);
        let client = Client::new(part, self.dice.within(REQUESTS), self.dice.fork());
        let late = self.dice.span(&(Duration::ZERO..=RESET));
        self.visits.push(Visit {
            client,
            admin: None,
            number,
            streams: Vec::new(),
            pool: Pool::new(CLIENT_POOL),
            reset: self.dice.coin().then(|| self.world.now() + late),
        });
        let at = self.visits.len() - 1;
        if self.dice.coin() {
            let end = self.initiator(at);
            self.visits[at].dial(1, end);
        } else {
            let admin = Client::new(Extent::new(0, 0), 0, self.dice.fork());
            admin.borrow_mut().stay();
            let end = self.host(at, &admin, Queue::Admin { nsid: 1, queues: 1, kato: 10_000 });
            let visit = &mut self.visits[at];
            visit.dial(2, end);
            visit.admin = Some(admin);
        }
    }

    /// Lets a host open its I/O queue, or go; and resets what is to be reset.
    fn attend(&mut self, at: usize) {
        let now = self.world.now();
        let visit = &mut self.visits[at];
        if visit.reset.take_if(|due| *due <= now).is_some() {
            visit.streams.iter().for_each(|name| self.world.reset(*name));
        }
        let Some(admin) = visit.admin.clone() else { return };
        let found = admin.borrow_mut().namespace.take();
        if let Some(remote) = found {
            let client = Rc::clone(&visit.client);
            let end = self.host(at, &client, Queue::Io { qid: 1, remote });
            self.visits[at].dial(2, end);
        } else if visit.client.borrow().ended && admin.borrow_mut().leave() {
            visit.streams.iter().for_each(|name| self.world.wake_client(*name));
        }
    }

    /// A connection of an initiator.
    fn initiator(&mut self, at: usize) -> End {
        let (client, number) = (Rc::clone(&self.visits[at].client), self.visits[at].number);
        let target = if self.dice.below(16) == 0 { "iqn.2026-11.org.linerate:none" } else { TARGET };
        let name = format!("iqn.2026-11.org.example:peer{number}").parse().ok();
        let (Some(name), Ok(target)) = (name, target.parse()) else { unreachable!("both are names") };
        let config = iscsi::initiator::Config::new(name, [0x80, 0, 0, 0, 0, number], Some(target), 0);
        let invalidation = if self.dice.coin() { Invalidation::Used } else { Invalidation::NotUsed };
        let needs = initiator_needs();
        let pool = self.visits[at].pool.clone();
        if self.carrier == Carrier::Roce {
            let wish = self.wish(1, private_data(invalidation), needs);
            let entropy = Box::new(self.dice.fork());
            let join = move |now, pair| InitiatorConnection::new(now, config, pool, entropy, pair);
            return self.socket(at, wish, (&client, Box::new(join)));
        }
        let pair = self.queue_pair(at, private_data(invalidation), needs);
        let now = self.world.now();
        let connection = InitiatorConnection::new(now, config, pool, Box::new(self.dice.fork()), pair);
        End::Stream(Box::new(ClientEnd::new(connection, &client, self.mishap())))
    }

    /// A connection of a host: of one queue.
    fn host(&mut self, at: usize, client: &Rc<RefCell<Client>>, queue: Queue) -> End {
        let config = nvme::host::Config {
            host: host(self.visits[at].number),
            subnqn: SUBSYSTEM.into(),
            header_digest: false,
            data_digest: false,
            depth: [2, 8, 32][self.dice.index(3)],
            command_time: nvme::limits::COMMAND_TIME,
            queue,
        };
        let needs = RdmaHost::needs(&config);
        if self.carrier == Carrier::Roce {
            let wish = self.wish(2, RdmaHost::private_data(&config), needs);
            let join = move |now, pair| HostConnection::<roce::Connection>::new(pair, config, now);
            return self.socket(at, wish, (client, Box::new(join)));
        }
        let pair = self.queue_pair(at, RdmaHost::private_data(&config), needs);
        let connection = RdmaHost::new(pair, config, self.world.now());
        End::Stream(Box::new(ClientEnd::new(connection, client, self.mishap())))
    }

    /// A client's end of a queue pair over datagrams.
    fn socket<C: ClientConsumer<QueuePair = roce::Connection> + 'static>(
        &mut self,
        at: usize,
        target: Target,
        (client, join): (&Rc<RefCell<Client>>, Join<C>),
    ) -> End {
        let silence = match SILENCES.get(self.dice.index(2 * SILENCES.len())) {
            Some(range) => self.dice.within(range.clone()),
            None => usize::MAX,
        };
        let wish =
            Wish { target, pool: self.visits[at].pool.clone(), entropy: Box::new(self.dice.fork()), silence };
        End::Socket(Box::new(DatagramClientEnd::new(wish, client, join)))
    }

    /// What a client asks for over datagrams: a queue pair of any shape, with words that now and then nobody understands.
    fn wish(&mut self, port: u16, words: PrivateData, needs: QueueLimits) -> Target {
        let dice = &mut self.dice;
        let QueueLimits { sends, receives, regions, longest } = needs;
        let (sends, regions) = if dice.coin() { (sends, regions) } else { (5, 2) };
        let mtus = [Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024, Mtu::Bytes2048, Mtu::Bytes4096];
        let config = roce::Config {
            queues: QueueLimits { sends, receives, regions, longest },
            mtu: mtus[dice.index(mtus.len())],
            reads_served: [0, 1, 2, 16, 128][dice.index(5)],
            reads_sent: [0, 1, 16][dice.index(3)],
        };
        Target { address: server(ROCE_PORT), port, config, private_data: noise(dice, words) }
    }

    /// A queue pair of any shape, whose words are now and then none that anybody understands.
    fn queue_pair(&mut self, at: usize, words: PrivateData, needs: QueueLimits) -> iwarp::Connection {
        let dice = &mut self.dice;
        let revision = if dice.below(4) == 0 { Revision::One } else { Revision::Two };
        let ird = match revision {
            // It cannot say how many RDMA Reads it serves: it serves as many as any server wants.
            Revision::One => 128,
            Revision::Two => [0, 1, 2, 16, 128][dice.index(5)],
        };
        let rtr = RtrKinds { write: dice.coin(), read: dice.coin(), zero_length: dice.coin() };
        let ord = [0, 1, 16][dice.index(3)];
        let offer = Offer { revision, markers: dice.coin(), crc: dice.coin(), rtr, ird, ord };
        let queues = if dice.coin() { needs } else { QueueLimits { sends: 5, regions: 2, ..needs } };
        let words = noise(dice, words);
        let config = iwarp::Config {
            role: Role::Initiator(words),
            offer,
            queues,
            mss: [536, 1428, 9000, 65_464][dice.index(4)],
            solicited: dice.coin(),
        };
        iwarp::Connection::new(self.world.now(), config, Account::new(&self.visits[at].pool))
    }

    /// What happens to a stream.
    fn mishap(&mut self) -> Mishap {
        let cut = match CUTS.get(self.dice.index(2 * CUTS.len())) {
            Some(range) => self.dice.within(range.clone()),
            None => usize::MAX,
        };
        Mishap { cut, flips: self.bug == PlantedBug::Flips }
    }

    /// Everything has come back, and is as it must be: how many requests succeeded.
    fn check(&mut self) -> Result<usize, TrialFailure> {
        let used = self.world.cores().iter().map(|core| core.pool().used()).sum::<usize>();
        if used > 0 {
            return Err(TrialFailure::Memory(format!(
                "everybody is gone, and the server has {used} bytes in use"
            )));
        }
        let disk = self.read_disk()?;
        let mut succeeded = 0;
        for visit in &self.visits {
            let used = visit.pool.used();
            let mut client = visit.client.borrow_mut();
            let told = |failure: TrialFailure| failure.at(format_args!("client {}", visit.number));
            client.check(&disk).map_err(told)?;
            succeeded += client.succeeded;
            // What a connection counts goes with it; its stream is gone, and so is its end.
            if used > 0 {
                return Err(told(TrialFailure::Memory(format!("it is gone, and has {used} bytes in use"))));
            }
        }
        Ok(succeeded)
    }

    fn read_disk(&self) -> Result<Vec<u8>, TrialFailure> {
        let mut queue =
            self.disk.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone()))?;
        let blocks = PART * wire::widen(CONNECTIONS);
        let into = Buf::zeroed(wire::index(blocks) * BLOCK);
        let operation = Operation::Read { extent: Extent::new(0, blocks), into };
        let mut done = Vec::new();
        if queue.submit(self.world.now(), Request { tag: Tag(0), operation }).is_ok() {
            queue.poll(self.world.now(), &mut done);
        }
        match done.pop().map(|completion| completion.result) {
            Some(Ok(Outcome::Data(data))) => Ok(data.into_one().to_vec()),
            other => Err(TrialFailure::Broken(format!("the disk cannot be read: {other:?}"))),
        }
    }
}

/// The server's address.
fn server(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Those words, or now and then others.
fn noise(dice: &mut Dice, words: PrivateData) -> PrivateData {
    let mut noise = vec![0; dice.within(0..=40)];
    protocol::Entropy::fill(dice, &mut noise);
    PrivateData::new(&noise).filter(|_| dice.below(16) == 0).unwrap_or(words)
}

/// A network of any quality.
fn faults(bug: PlantedBug, dice: &mut Dice) -> DatagramFaults {
    if bug == PlantedBug::Flips {
        return DatagramFaults { damaged: Odds(20), sums_unchecked: true, ..DatagramFaults::NONE };
    }
    let mut odds = || [Odds::NEVER, Odds(2), Odds(20), Odds(80)][dice.index(4)];
    DatagramFaults { lost: odds(), doubled: odds(), late: odds(), damaged: odds(), ..DatagramFaults::NONE }
}

/// Sees every write; with a leak it keeps the memory of some.
fn watch(bug: PlantedBug) -> Watch {
    let (mut kept, mut count) = (Vec::new(), 0_u32);
    Arc::new(Mutex::new(Box::new(move |effect: &Effect<'_>| {
        count += 1;
        if bug == PlantedBug::Leak && count.is_multiple_of(4) {
            kept.push(effect.data.clone());
        }
    })))
}

impl Visit {
    fn dial(&mut self, port: u16, end: End) {
        self.streams.push(match end {
            End::Stream(end) => WorldDialer.dial(server(port), end),
            End::Socket(end) => {
                let machine = ClientMachine::new();
                machine.open_socket(machine.at(ROCE_PORT), ROCE_SLOT, end)
            }
        });
    }

    /// All that there is of it is gone.
    fn is_over(&self) -> bool {
        let has_ended = |client: &Rc<RefCell<Client>>| client.borrow().ended;
        match &self.admin {
            None => has_ended(&self.client),
            Some(admin) => has_ended(admin) && (self.streams.len() == 1 || has_ended(&self.client)),
        }
    }
}
