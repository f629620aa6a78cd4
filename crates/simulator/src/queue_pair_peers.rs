//! Peers that a trial plays PDU by PDU over queue pairs of software RoCEv2: what they say is as over TCP, and goes as iSER and NVMe/RDMA have it.
//!
//! Data that is too much to come along is registered, and its command goes once it is. What is said behind it waits, so that nothing overtakes.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use buf::{Account, Buf, BufList, Pool, SharedBuf};
use host::{DatagramEndpoint, Datagrams, Dialer as _, EndpointId, OpenSocket, Path};
use names::ROCE_PORT;
use protocol::{Ended, Entropy, Instant};
use roce::endpoint::{Arrival, Target};
use roce::mtu::Mtu;
use roce::train::Train;
use roce::{Config, Connection, Endpoint};
use verbs::{
    ManagedQueuePair as _, PrivateData, QueueLimits, QueuePair as _, QueuePairState, RegionMemory,
    RemoteRegion, WorkCompletion, WorkDone, WorkId, WorkMemory, WorkRequest,
};

use crate::client_machine::ClientMachine;
use crate::dice::Dice;
use crate::script::Peer;

/// Messages under way at a time, receives, and regions: more than a peer has in a trial.
const QUEUES: QueueLimits = QueueLimits { sends: 64, receives: RECEIVES, regions: 1 << 12, longest: 1 << 20 };
const RECEIVES: usize = 128;
/// Bytes of a receive.
const RECEIVE: usize = 16 << 10;
/// Memory of a queue pair.
const POOL: usize = 8 << 20;
/// Bytes of a datagram with a payload of 4096 bytes, and its headers.
const JUMBO: usize = 4300;
/// RDMA Reads that are served at a time.
const READS: u8 = 16;

/// What a PDU is over RDMA.
pub(crate) enum Sense {
    /// It has no meaning there.
    Nothing,
    /// A message without memory.
    Message,
    /// A command whose data is to be registered.
    Write(Vec<u8>),
}

/// How a protocol goes over RDMA.
pub(crate) trait Dialect {
    /// The port of its service.
    fn port(&self) -> u16;
    /// Takes the next whole PDU from the front of what is said.
    fn take(&self, out: &mut Vec<u8>) -> Option<Vec<u8>>;
    /// What the queue pair begins with; none of a PDU that it does not begin with.
    fn private_data(&self, first: &[u8]) -> Option<PrivateData>;
    /// What a PDU is.
    fn sense(&self, pdu: &[u8]) -> Sense;
    /// The message that a PDU is, with the memory of its data.
    fn message(&self, pdu: &[u8], memory: Option<RemoteRegion>) -> Vec<u8>;
    /// The PDU that a message is.
    fn hear(&self, message: &[u8]) -> Vec<u8>;
}

/// A queue pair at a socket of its own.
struct Open {
    endpoint: Endpoint,
    pair: Option<Connection>,
}

/// A peer's end.
struct QueuePairPeer {
    line: Peer,
    dialect: Box<dyn Dialect>,
    pool: Pool,
    entropy: Option<Box<dyn Entropy>>,
    open: Option<Open>,
    path: Path,
    /// What was said and has not gone.
    said: VecDeque<Vec<u8>>,
    /// A command whose data is being registered.
    waiting: Option<Vec<u8>>,
    train: Train,
    works: u64,
}

/// Dials for a peer that a trial plays, from a machine of its own.
pub(crate) fn dial(dialect: Box<dyn Dialect>, secret: u64) -> (EndpointId, Peer) {
    let line = Peer::default();
    let machine = ClientMachine::new();
    let end = QueuePairPeer {
        line: Rc::clone(&line),
        dialect,
        pool: Pool::new(POOL),
        entropy: Some(Box::new(Dice::new(secret))),
        open: None,
        path: machine.path(),
        said: VecDeque::new(),
        waiting: None,
        train: Train::default(),
        works: 0,
    };
    let name = machine.open_socket(machine.at(ROCE_PORT), engine::ROCE_SLOT, Box::new(end));
    (name, line)
}

impl QueuePairPeer {
    fn account(&self) -> Account {
        Account::new(&self.pool)
    }

    /// Begins the queue pair once it is known what for.
    fn begin(&mut self, now: Instant) {
        let private_data = self.said.iter().find_map(|pdu| self.dialect.private_data(pdu));
        let (port, account) = (self.dialect.port(), self.account());
        let Some(open) = self.open.as_mut().filter(|open| open.pair.is_none()) else { return };
        let Some(private_data) = private_data else { return };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ROCE_PORT));
        let mtu = if self.path.mtu < JUMBO { Mtu::Bytes256 } else { Mtu::Bytes4096 };
        let config = Config { queues: QUEUES, mtu, reads_served: READS, reads_sent: 1 };
        let target = Target { address, port, config, private_data };
        open.pair = open.endpoint.connect(now, target, account).ok();
        for _ in 0..RECEIVES {
            self.post(WorkRequest::Receive { into: Buf::zeroed(RECEIVE) });
        }
    }

    fn post(&mut self, request: WorkRequest) {
        self.works += 1;
        if let Some(pair) = self.open.as_mut().and_then(|open| open.pair.as_mut()) {
            // What is refused has ended with its queue pair.
            drop(pair.post(WorkId(self.works), request));
        }
    }

    /// Hears what has come, and says what was said.
    fn act(&mut self, now: Instant) {
        loop {
            let next = self.dialect.take(&mut self.line.borrow_mut().out);
            let Some(pdu) = next else { break };
            self.said.push_back(pdu);
        }
        self.begin(now);
        // What was registered completes at once if nothing is under way before it, and its command goes then.
        while self.advance(now) {}
    }

    /// Hears what has come, and says what can be said; false if there was nothing.
    fn advance(&mut self, now: Instant) -> bool {
        let mut done = Vec::new();
        let Some(pair) = self.open.as_mut().and_then(|open| open.pair.as_mut()) else { return false };
        while pair.poll_event().is_some() {}
        pair.poll(now, &mut done);
        let (is_connected, has_ended) = (pair.is_connected(), pair.state() != QueuePairState::Open);
        let mut moved = !done.is_empty();
        for done in done {
            self.complete(done);
        }
        if has_ended {
            self.end();
            return false;
        }
        while is_connected && self.speak() {
            moved = true;
        }
        moved
    }

    fn complete(&mut self, done: WorkCompletion) {
        match (done.result, done.memory) {
            (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(buf)) => {
                let pdu = self.dialect.hear(&buf[..length]);
                self.line.borrow_mut().received.extend(pdu);
                self.post(WorkRequest::Receive { into: buf });
            }
            (Ok(WorkDone::Registered(region)), _) => {
                if let Some(pdu) = self.waiting.take() {
                    self.send(&pdu, Some(region));
                }
            }
            _ => {}
        }
    }

    /// Says the next thing, if nothing before it waits.
    fn speak(&mut self) -> bool {
        if self.waiting.is_some() {
            return false;
        }
        let Some(pdu) = self.said.pop_front() else { return false };
        match self.dialect.sense(&pdu) {
            Sense::Nothing => {}
            Sense::Message => self.send(&pdu, None),
            Sense::Write(data) => self.register(pdu, data),
        }
        true
    }

    fn register(&mut self, pdu: Vec<u8>, data: Vec<u8>) {
        self.waiting = Some(pdu);
        let memory = RegionMemory::Source(BufList::from(SharedBuf::from(data)));
        self.post(WorkRequest::Register { memory });
    }

    fn send(&mut self, pdu: &[u8], memory: Option<RemoteRegion>) {
        let message = self.dialect.message(pdu, memory);
        let data = BufList::from(SharedBuf::from(message));
        self.post(WorkRequest::Send { data, invalidate: None });
    }

    fn end(&mut self) {
        let mut line = self.line.borrow_mut();
        (line.ended, line.out) = (true, Vec::new());
    }
}

impl DatagramEndpoint for QueuePairPeer {
    fn handle_opened(&mut self, now: Instant, socket: OpenSocket) {
        let account = self.account();
        if let Some(entropy) = self.entropy.take() {
            let endpoint = Endpoint::new(socket.local, account, entropy);
            self.open = Some(Open { endpoint, pair: None });
        }
        self.act(now);
    }

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        let Some(open) = &mut self.open else { return };
        for datagram in datagrams.each() {
            match open.endpoint.handle_datagram(datagrams.peer, datagram) {
                Arrival::Packet(_, packet) => {
                    if let Some(pair) = &mut open.pair {
                        pair.handle_packet(now, packet);
                    }
                }
                Arrival::Request(request) => open.endpoint.refuse(&request),
                Arrival::Nothing | Arrival::Elsewhere(_) | Arrival::Withdrawn(_) => {}
            }
        }
    }

    fn handle_transmitted(&mut self, _now: Instant) {
        self.train.clear();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(pair) = self.open.as_mut().and_then(|open| open.pair.as_mut()) {
            pair.handle_deadline(now);
        }
    }

    fn handle_retired(&mut self, _now: Instant) {}

    fn handle_shutdown(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.end();
    }

    fn turn(&mut self, now: Instant) {
        self.act(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        let open = self.open.as_mut()?;
        if self.train.is_empty() {
            open.endpoint.poll_transmit(&mut self.train);
        }
        if let Some(pair) = open.pair.as_mut().filter(|_| self.train.is_empty()) {
            pair.poll_transmit(now, &mut self.train);
        }
        let peer = self.train.destination()?;
        Some(Datagrams { peer, bytes: self.train.bytes(), segment: self.train.segment() })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.open.as_ref()?.pair.as_ref()?.next_deadline()
    }

    fn is_finished(&self) -> bool {
        let pair = self.open.as_ref().and_then(|open| open.pair.as_ref());
        self.train.is_empty() && pair.is_some_and(Connection::is_finished)
    }

    fn expects_work(&self) -> bool {
        false
    }
}
