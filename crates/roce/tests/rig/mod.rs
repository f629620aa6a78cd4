//! The bench of the tests: endpoints with their connections, a network between them that may be bad, and a peer that says what it likes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, reason = "likewise")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of the bench")]

pub mod victim;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use protocol::{Entropy, Instant, SeededEntropy};
use roce::endpoint::{Arrival, Incoming, Target};
use roce::management::Request;
use roce::mtu::Mtu;
use roce::train::Train;
use roce::{Config, Connection, ConnectionId, Endpoint};
use verbs::contract::Side;
use verbs::{
    ManagedQueuePair, PrivateData, QueueLimits, QueuePair, RegionMemory, RemoteRegion, SetupAnswer,
    SetupEvent, WorkCompletion, WorkDone, WorkId, WorkRequest,
};

pub const PORT: u16 = 4791;
pub const SERVICE: u16 = 4420;

pub const CONFIG: Config = Config {
    queues: QueueLimits { sends: 16, receives: 16, regions: 8, longest: 1 << 20 },
    mtu: Mtu::Bytes1024,
    reads_served: 4,
    reads_sent: 4,
};

pub fn near_address(v6: bool) -> SocketAddr {
    SocketAddr::new(if v6 { "fd00::1".parse().unwrap() } else { "10.0.0.1".parse().unwrap() }, PORT)
}

pub fn far_address(v6: bool) -> SocketAddr {
    SocketAddr::new(if v6 { "fd00::2".parse().unwrap() } else { "10.0.0.2".parse().unwrap() }, PORT)
}

/// Random bytes whose numbers can be chosen, so that sequence numbers begin where a test wants them.
#[derive(Debug)]
pub struct Chosen {
    pub numbers: Vec<u32>,
    pub rest: SeededEntropy,
}

impl Entropy for Chosen {
    fn fill(&mut self, bytes: &mut [u8]) {
        match (self.numbers.is_empty(), bytes.len()) {
            (false, 4) => bytes.copy_from_slice(&self.numbers.remove(0).to_le_bytes()),
            _ => self.rest.fill(bytes),
        }
    }
}

/// An endpoint and its connections, driven as an event loop does it.
pub struct Host {
    pub address: SocketAddr,
    pub endpoint: Endpoint,
    pub connections: BTreeMap<ConnectionId, Connection>,
    pub events: Vec<(ConnectionId, SetupEvent)>,
    /// What a request is answered; none leaves it to the test.
    pub answer: Option<SetupAnswer>,
    pub config: Config,
    pool: Pool,
    train: Train,
}

impl Host {
    pub fn new(address: SocketAddr, config: Config, numbers: Vec<u32>) -> Self {
        let pool = Pool::new(64 << 20);
        let entropy = Box::new(Chosen { numbers, rest: SeededEntropy::new(u64::from(address.is_ipv6())) });
        Self {
            address,
            endpoint: Endpoint::new(address, Account::new(&pool), entropy),
            connections: BTreeMap::new(),
            events: Vec::new(),
            answer: Some(SetupAnswer::Accept(PrivateData::NONE)),
            config,
            train: Train::default(),
            pool,
        }
    }

    pub fn connect(&mut self, now: Instant, to: IpAddr, words: &[u8]) -> ConnectionId {
        let private_data = PrivateData::new(words).unwrap();
        let target =
            Target { address: SocketAddr::new(to, PORT), port: SERVICE, config: self.config, private_data };
        let connection = self.endpoint.connect(now, target, Account::new(&self.pool)).unwrap();
        let id = connection.id();
        self.connections.insert(id, connection);
        id
    }

    /// Takes a datagram; the slot of the neighbour that it is for, if it is.
    pub fn receive(&mut self, now: Instant, source: SocketAddr, datagram: &[u8]) -> Option<u8> {
        let mut elsewhere = None;
        match self.endpoint.handle_datagram(source, datagram) {
            Arrival::Nothing | Arrival::Withdrawn(_) => {}
            Arrival::Elsewhere(slot) => elsewhere = Some(slot),
            Arrival::Packet(id, packet) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.handle_packet(now, packet);
                }
            }
            Arrival::Request(request) if request.port() == SERVICE => {
                let incoming = Incoming { request, config: self.config };
                if let Ok(connection) = self.endpoint.accept(now, incoming, Account::new(&self.pool)) {
                    self.connections.insert(connection.id(), connection);
                }
            }
            Arrival::Request(request) => self.endpoint.refuse(&request),
        }
        self.serve(now);
        elsewhere
    }

    fn serve(&mut self, now: Instant) {
        for (id, connection) in &mut self.connections {
            while let Some(event) = connection.poll_event() {
                if let (SetupEvent::Requested(_), Some(answer)) = (&event, &self.answer) {
                    connection.handle_answer(now, answer.clone());
                }
                self.events.push((*id, event));
            }
        }
    }

    /// All that is to be sent: where to, and the datagram.
    pub fn transmit(&mut self, now: Instant) -> Vec<(IpAddr, Vec<u8>)> {
        let (mut sent, train) = (Vec::new(), &mut self.train);
        loop {
            train.clear();
            self.endpoint.poll_transmit(train);
            for connection in self.connections.values_mut() {
                if train.is_empty() {
                    connection.poll_transmit(now, train);
                }
            }
            let Some(destination) = train.destination().map(|to| to.ip()) else { break };
            assert!(train.packets().all(|packet| packet.len() <= train.segment()));
            sent.extend(train.packets().map(|packet| (destination, packet.to_vec())));
        }
        self.serve(now);
        sent
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.connections.values().filter_map(ManagedQueuePair::next_deadline).min()
    }

    pub fn handle_deadlines(&mut self, now: Instant) {
        for connection in self.connections.values_mut() {
            if connection.next_deadline().is_some_and(|deadline| deadline <= now) {
                connection.handle_deadline(now);
            }
        }
        self.serve(now);
    }

    /// Lets go of what is finished.
    pub fn forget_finished(&mut self) {
        let finished: Vec<ConnectionId> =
            self.connections.values().filter(|one| one.is_finished()).map(Connection::id).collect();
        for id in finished {
            self.endpoint.forget(id);
            self.connections.remove(&id);
        }
    }

    pub fn one(&mut self) -> &mut Connection {
        self.connections.values_mut().next().unwrap()
    }

    pub fn heard(&self) -> Vec<&SetupEvent> {
        self.events.iter().map(|(_, event)| event).collect()
    }
}

/// What the network does to datagrams, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    pub late: u64,
    pub damaged: u64,
}

struct Flying {
    due: Instant,
    /// Keeps the order of those that are due together.
    number: u64,
    from: SocketAddr,
    to: IpAddr,
    bytes: Vec<u8>,
}

/// Two hosts and the network between them.
pub struct World {
    pub hosts: [Host; 2],
    pub now: Instant,
    pub faults: Faults,
    /// Datagrams that were sent, and what the network did to them.
    pub sent: u64,
    pub struck: u64,
    entropy: SeededEntropy,
    flying: Vec<Flying>,
    ids: [Option<ConnectionId>; 2],
}

impl World {
    pub fn new(configs: [Config; 2], v6: bool, seed: u64) -> Self {
        Self::with_numbers(configs, v6, seed, Vec::new())
    }

    /// The second of the numbers is where sequence numbers begin.
    pub fn with_numbers(configs: [Config; 2], v6: bool, seed: u64, numbers: Vec<u32>) -> Self {
        let [near, far] = configs;
        let hosts =
            [Host::new(near_address(v6), near, numbers.clone()), Host::new(far_address(v6), far, numbers)];
        Self {
            hosts,
            now: Instant::ZERO,
            faults: Faults::default(),
            sent: 0,
            struck: 0,
            entropy: SeededEntropy::new(seed),
            flying: Vec::new(),
            ids: [None, None],
        }
    }

    /// Both with a connection that is established.
    pub fn connected(configs: [Config; 2]) -> Self {
        let mut world = Self::new(configs, false, 1);
        world.connect();
        world
    }

    pub fn connect(&mut self) {
        let to = self.hosts[1].address.ip();
        let id = self.hosts[0].connect(self.now, to, b"");
        self.ids[0] = Some(id);
        for _ in 0..1000 {
            self.step_once();
            self.ids[1] = self.hosts[1].connections.keys().next().copied();
            let both =
                self.hosts.iter().all(|host| host.connections.values().any(ManagedQueuePair::is_connected));
            if both {
                return;
            }
        }
        panic!("no connection is established");
    }

    pub fn end(&mut self, side: usize) -> &mut Connection {
        let id = self.ids[side].unwrap();
        self.hosts[side].connections.get_mut(&id).unwrap()
    }

    fn chance(&mut self, thousandths: u64) -> bool {
        let strikes = thousandths > 0 && self.entropy.number() % 1000 < thousandths;
        self.struck += u64::from(strikes);
        strikes
    }

    fn launch(&mut self, from: SocketAddr, to: IpAddr, mut bytes: Vec<u8>) {
        self.sent += 1;
        if self.chance(self.faults.lost) {
            return;
        }
        if self.chance(self.faults.damaged) {
            let bit = usize::try_from(self.entropy.number() % (bytes.len() as u64 * 8)).unwrap();
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + u64::from(self.chance(self.faults.doubled));
        for copy in 0..copies {
            let late = self.chance(self.faults.late) || copy > 0;
            let delay = if late { self.entropy.number() % 5_000 } else { 10 };
            let due = self.now + Duration::from_micros(delay);
            self.flying.push(Flying { due, number: self.sent, from, to, bytes: bytes.clone() });
        }
    }

    /// Sends, and delivers what is due. Time goes on to the next thing that happens.
    pub fn step_once(&mut self) -> bool {
        for at in 0..2 {
            let from = self.hosts[at].address;
            for (to, bytes) in self.hosts[at].transmit(self.now) {
                self.launch(from, to, bytes);
            }
        }
        let deadlines = self.hosts.iter().filter_map(Host::deadline);
        let Some(next) = self.flying.iter().map(|flying| flying.due).chain(deadlines).min() else {
            self.now = self.now + Duration::from_micros(1);
            return false;
        };
        self.now = self.now.max(next);
        let (mut due, flying): (Vec<_>, Vec<_>) =
            self.flying.drain(..).partition(|flying| flying.due <= self.now);
        self.flying = flying;
        due.sort_by_key(|flying| (flying.due, flying.number));
        for Flying { from, to, bytes, .. } in due {
            let host = self.hosts.iter_mut().find(|host| host.address.ip() == to).unwrap();
            host.receive(self.now, from, &bytes);
        }
        for host in &mut self.hosts {
            host.handle_deadlines(self.now);
        }
        true
    }

    /// Until nothing happens.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            if !self.step_once() {
                return;
            }
        }
        panic!("it goes on and on");
    }
}

impl verbs::contract::Link for World {
    fn end(&mut self, side: Side) -> &mut dyn QueuePair {
        self.end(side as usize)
    }

    fn step(&mut self) -> Instant {
        self.step_once();
        self.now
    }
}

pub fn done(connection: &mut Connection) -> Vec<WorkCompletion> {
    let mut done = Vec::new();
    connection.poll(Instant::ZERO, &mut done);
    done
}

pub fn post(connection: &mut Connection, id: u64, request: WorkRequest) {
    connection.post(WorkId(id), request).map_err(|refused| refused.reason).unwrap();
}

pub fn post_receive(connection: &mut Connection, id: u64, bytes: usize) {
    post(connection, id, WorkRequest::Receive { into: Buf::zeroed(bytes) });
}

pub fn send(connection: &mut Connection, id: u64, bytes: &[u8]) {
    post(connection, id, WorkRequest::Send { data: list(bytes), invalidate: None });
}

pub fn register(connection: &mut Connection, memory: RegionMemory) -> RemoteRegion {
    post(connection, u64::MAX, WorkRequest::Register { memory });
    let registered = done(connection).into_iter().find_map(|done| match done.result {
        Ok(WorkDone::Registered(region)) => Some(region),
        _ => None,
    });
    registered.unwrap()
}

pub fn sink(bytes: usize) -> RegionMemory {
    RegionMemory::Sink(Buf::zeroed(bytes))
}

pub fn list(bytes: &[u8]) -> BufList {
    BufList::from(SharedBuf::from(bytes.to_vec()))
}

pub fn source(bytes: &[u8]) -> RegionMemory {
    RegionMemory::Source(list(bytes))
}

/// The request that a host has sent.
pub fn requested(message: &roce::management::Message) -> Option<&Request> {
    match &message.content {
        roce::management::Content::Request(request) => Some(request),
        _ => None,
    }
}
