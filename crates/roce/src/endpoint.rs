//! What one UDP socket has: its queue pairs by their numbers, and those who want new ones.
//!
//! An endpoint owns no connection: it says whose a datagram is, so that whoever uses a connection can have it. It answers what belongs to none.
//!
//! 1. Each datagram goes to [`Endpoint::handle_datagram`]. What [`Arrival`] says is done: a packet goes to its connection ([`Connection::handle_packet`]), a request is
//!    accepted or refused.
//! 2. [`Endpoint::poll_transmit`] and that of each connection fill trains until they leave them empty.
//! 3. A connection's deadline is [`verbs::ManagedQueuePair::next_deadline`]; an endpoint has none.
//! 4. What is [for another endpoint](Arrival::Elsewhere) at the same address is forwarded to it ([`Endpoint::among`]).
//! 5. A connection that [is finished](Connection::is_finished) is [forgotten](Endpoint::forget), and may be dropped then.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use buf::Account;
use protocol::{Entropy, Instant};
use verbs::PrivateData;

use crate::connection::{Beginning, Config, Connection, ConnectionId};
use crate::counters::Counters;
use crate::datagram;
use crate::header::U24;
use crate::icrc::{Addresses, Path, check};
use crate::limits::{ANSWERS, ENDLESS_RETRIES, QUEUE_PAIRS, READS, REQUEST_PRIVATE_DATA};
use crate::management::{
    Content, Message, Names, Opening, QUEUE_KEY, QUEUE_PAIR, Reason, Rejected, Request, Terms, Unreadable,
};
use crate::packet::{Extended, PORT, Packet};
use crate::psn::Psn;
use crate::train::{Route, Train};

/// Bytes that a connection takes in the tables of its endpoint.
const TABLES: usize = 2 * (size_of::<Known>() + size_of::<Origin>() + 4 * size_of::<u32>());

/// Where a datagram has the number of the queue pair that it is for, of 24 bits, in bytes from its beginning (IBTA §9.2). Of endpoints that share an address, the last 8 bits name one.
pub const NUMBER_OFFSET: u16 = 5;

/// The endpoints at one address, each with a socket of its own. The number of each queue pair ends in the slot of its endpoint.
pub trait Neighbours {
    /// The slot of the endpoint that asks.
    fn own(&self) -> u8;

    /// The slot of the endpoint to which a newcomer with this key belongs: the same, as long as those who accept are the same. `None` if nobody accepts.
    fn acceptor(&self, key: u32) -> Option<u8>;
}

/// Whose a datagram is.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// Nobody's: it is damaged, or for nobody, or was answered.
    Nothing,
    /// It is for the endpoint with this slot, to which it is to be forwarded as it came.
    Elsewhere(u8),
    /// A connection's.
    Packet(ConnectionId, Inbound<'a>),
    /// Somebody wants a connection.
    Request(ConnectionRequest),
    /// Whoever wanted this connection does not want it any more. Nobody has decided about the request, or there was none.
    Withdrawn(Origin),
}

/// What has come for a connection.
#[derive(Debug)]
pub struct Inbound<'a>(Inner<'a>);

#[derive(Debug)]
enum Inner<'a> {
    Packet(Packet<'a>),
    Message(Box<Message>),
}

/// A wish for a connection.
#[derive(Debug)]
pub struct ConnectionRequest {
    origin: Origin,
    transaction: u64,
    request: Request,
}

impl ConnectionRequest {
    /// The port whose service is wanted.
    pub fn port(&self) -> u16 {
        self.request.port
    }

    /// Where it comes from.
    pub fn from(&self) -> SocketAddr {
        self.origin.address
    }

    /// Whose it is. What comes from there again before it is decided is the same request, sent again.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    const fn asked(&self) -> Asked {
        Asked { origin: self.origin, transaction: self.transaction }
    }
}

/// A connection that this side wants.
#[derive(Debug)]
pub struct Target {
    /// The peer, and its port of UDP.
    pub address: SocketAddr,
    /// The port whose service is wanted.
    pub port: u16,
    /// What the connection is made of.
    pub config: Config,
    /// What the consumer says to its peer, in at most [`REQUEST_PRIVATE_DATA`] bytes.
    pub private_data: PrivateData,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoConnection {
    /// The endpoint has as many as it may have, or no memory for another one.
    Full,
    /// The addresses are not of one version of IP.
    AddressFamily,
    /// The private data is longer than a request can carry.
    PrivateDataTooLong,
    /// The peer wants larger packets than the path carries.
    Mtu,
}

/// A peer's name for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    address: SocketAddr,
    name: u32,
}

impl Origin {
    /// What newcomers are spread by. Implementations count the bytes of their names up from either end.
    fn key(self) -> u32 {
        self.name.to_le_bytes().into_iter().fold(0, |key, byte| key ^ u32::from(byte))
    }
}

/// A request that is not granted.
#[derive(Debug, Clone, Copy)]
struct Asked {
    origin: Origin,
    transaction: u64,
}

/// Who decides about a newcomer.
enum Acceptor {
    /// The endpoint that was asked.
    Own,
    /// The one with this slot.
    Other(u8),
    /// None.
    Nobody,
}

/// What an endpoint knows of a connection.
#[derive(Debug, Clone, Copy)]
struct Known {
    peer: SocketAddr,
    /// Of one that the peer wanted.
    origin: Option<Origin>,
}

/// An answer that belongs to no connection.
#[derive(Debug)]
struct Answer {
    route: Route,
    message: Message,
}

/// The queue pairs of one UDP socket.
pub struct Endpoint {
    address: IpAddr,
    port: u16,
    account: Account,
    entropy: Box<dyn Entropy>,
    known: BTreeMap<ConnectionId, Known>,
    origins: BTreeMap<Origin, ConnectionId>,
    /// The number of the next queue pair, if it is free; with neighbours, without the slot.
    next: u32,
    neighbours: Option<Box<dyn Neighbours>>,
    counters: Arc<Counters>,
    answers: VecDeque<Answer>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.address)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Of a socket that is bound to this address, which is not a wildcard: sums cover it. Its tables are counted by `account`.
    pub fn new(address: SocketAddr, account: Account, mut entropy: Box<dyn Entropy>) -> Self {
        let next = number(&mut *entropy);
        Self {
            address: address.ip(),
            port: address.port(),
            account,
            entropy,
            known: BTreeMap::new(),
            origins: BTreeMap::new(),
            next,
            neighbours: None,
            counters: Arc::default(),
            answers: VecDeque::with_capacity(ANSWERS),
        }
    }

    /// The same, of a socket that shares its address with others. It has no connection yet.
    #[must_use]
    pub fn among(self, neighbours: Box<dyn Neighbours>) -> Self {
        Self { neighbours: Some(neighbours), ..self }
    }

    /// The same, which counts here what its packets go through. It has no connection yet.
    #[must_use]
    pub fn counting(self, counters: Arc<Counters>) -> Self {
        Self { counters, ..self }
    }

    /// What its packets went through.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Connections that it knows.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when it knows none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(
        &mut self,
        now: Instant,
        target: Target,
        account: Account,
    ) -> Result<Connection, NoConnection> {
        if target.private_data.bytes().len() > REQUEST_PRIVATE_DATA {
            return Err(NoConnection::PrivateDataTooLong);
        }
        let route = self.route(target.address).ok_or(NoConnection::AddressFamily)?;
        let id = self.admit(Known { peer: target.address, origin: None })?;
        let own = self.terms(id, target.config);
        let request = Request {
            port: target.port,
            terms: own,
            mtu: target.config.mtu,
            source: self.address,
            destination: target.address.ip(),
            source_port: u16::try_from(id.0 % 16_384).unwrap_or_default().saturating_add(49_152),
            private_data: target.private_data,
        };
        let names = Names { sender: id.0, receiver: 0 };
        let opening = Opening { names, transaction: self.entropy.number(), request, own };
        let counters = Arc::clone(&self.counters);
        let beginning = Beginning { id, config: target.config, route, opening, counters };
        Ok(Connection::initiator(now, beginning, account))
    }

    /// Begins a connection that a peer wants; its consumer decides whether it may be.
    ///
    /// # Errors
    /// Why there is none; the peer is told.
    pub fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        account: Account,
    ) -> Result<Connection, NoConnection> {
        let Incoming { request: wish, config } = incoming;
        let asked = wish.asked();
        let ConnectionRequest { origin, transaction, request } = wish;
        if request.mtu > config.mtu {
            self.reject(asked, Reason::MTU);
            return Err(NoConnection::Mtu);
        }
        let route = self.route(origin.address).ok_or(NoConnection::AddressFamily)?;
        let admitted = self.admit(Known { peer: origin.address, origin: Some(origin) });
        let id = admitted.inspect_err(|_| self.reject(asked, Reason::NO_RESOURCES))?;
        self.origins.insert(origin, id);
        let own = self.terms(id, config);
        let names = Names { sender: id.0, receiver: origin.name };
        let opening = Opening { names, transaction, request, own };
        let counters = Arc::clone(&self.counters);
        Ok(Connection::responder(now, Beginning { id, config, route, opening, counters }, account))
    }

    /// Refuses a connection, because nobody listens.
    pub fn refuse(&mut self, request: &ConnectionRequest) {
        self.reject(request.asked(), Reason::SERVICE);
    }

    /// A connection is finished, or is dropped: its number may be another's.
    pub fn forget(&mut self, id: ConnectionId) {
        if let Some(known) = self.known.remove(&id) {
            self.account.release(TABLES);
            if let Some(origin) = known.origin {
                self.origins.remove(&origin);
            }
        }
    }

    /// Takes a datagram and says whose it is.
    pub fn handle_datagram<'a>(&mut self, source: SocketAddr, datagram: &'a [u8]) -> Arrival<'a> {
        let Some(addresses) = addresses(source.ip(), self.address) else { return Arrival::Nothing };
        let peer = self.reached(source);
        let path = Path { addresses, source_port: source.port(), destination_port: self.port };
        let packet = check(&path, datagram).ok().and_then(|bytes| Packet::decode(bytes).ok());
        let Some(packet) = packet else {
            self.counters.damaged.add();
            return Arrival::Nothing;
        };
        match packet.extended {
            Extended::Datagram(header)
                if packet.header.destination.get() == QUEUE_PAIR && header.queue_key.get() == QUEUE_KEY =>
            {
                self.handle_management(peer, packet.payload)
            }
            Extended::Datagram(_) => Arrival::Nothing,
            _ => {
                let id = ConnectionId(packet.header.destination.get());
                match self.known.get(&id) {
                    Some(known) if known.peer == peer => Arrival::Packet(id, Inbound(Inner::Packet(packet))),
                    Some(_) => Arrival::Nothing,
                    None => self.elsewhere(id.0).map_or(Arrival::Nothing, Arrival::Elsewhere),
                }
            }
        }
    }

    fn handle_management(&mut self, from: SocketAddr, bytes: &[u8]) -> Arrival<'static> {
        match Message::decode(bytes) {
            Ok(message) => self.handle_message(from, message),
            Err(Unreadable::Foreign) => Arrival::Nothing,
            Err(Unreadable::Unsupported { transaction, names }) => {
                let origin = Origin { address: from, name: names.sender };
                self.reject(Asked { origin, transaction }, Reason::UNSUPPORTED);
                Arrival::Nothing
            }
        }
    }

    fn handle_message(&mut self, from: SocketAddr, message: Message) -> Arrival<'static> {
        let Message { transaction, names, content } = message;
        let origin = Origin { address: from, name: names.sender };
        let id = match &content {
            Content::Request(_) => self.origins.get(&origin).copied(),
            // Whoever gives up before it has a reply knows no name of ours.
            Content::Reject(..) if names.receiver == 0 => self.origins.get(&origin).copied(),
            _ => {
                let id = ConnectionId(names.receiver);
                self.known.get(&id).filter(|known| known.peer == from).map(|_| id)
            }
        };
        match (id, content) {
            (Some(id), content) => {
                let message = Message { transaction, names, content };
                Arrival::Packet(id, Inbound(Inner::Message(Box::new(message))))
            }
            (None, Content::Request(request)) => match self.acceptor(origin) {
                Acceptor::Own => Arrival::Request(ConnectionRequest { origin, transaction, request }),
                Acceptor::Other(slot) => Arrival::Elsewhere(slot),
                Acceptor::Nobody => {
                    self.reject(Asked { origin, transaction }, Reason::SERVICE);
                    Arrival::Nothing
                }
            },
            (None, Content::Reject(..)) if names.receiver == 0 => match self.acceptor(origin) {
                Acceptor::Own => Arrival::Withdrawn(origin),
                Acceptor::Other(slot) => Arrival::Elsewhere(slot),
                Acceptor::Nobody => Arrival::Nothing,
            },
            (None, _) if let Some(slot) = self.elsewhere(names.receiver) => Arrival::Elsewhere(slot),
            // This side has given up meanwhile: the peer would repeat it for a minute.
            (None, Content::Reply(_)) => {
                let names = Names { sender: names.receiver, receiver: names.sender };
                let content = Content::Reject(Rejected::Reply, Reason::NAME, PrivateData::NONE);
                self.answer(from, Message { transaction, names, content });
                Arrival::Nothing
            }
            // The answer to a wish that was granted before was lost (IBTA §12.9.8.3).
            (None, Content::Disconnect(_)) => {
                let names = Names { sender: names.receiver, receiver: names.sender };
                self.answer(from, Message { transaction, names, content: Content::Disconnected });
                Arrival::Nothing
            }
            (None, _) => Arrival::Nothing,
        }
    }

    /// Fills a train, which must be empty, with an answer that belongs to no connection.
    pub fn poll_transmit(&mut self, train: &mut Train) {
        if let Some(Answer { route, message }) = self.answers.pop_front() {
            datagram::push(train, &route, &message);
        }
    }

    /// Refuses what a request asked for.
    fn reject(&mut self, asked: Asked, reason: Reason) {
        let names = Names { sender: 0, receiver: asked.origin.name };
        let content = Content::Reject(Rejected::Request, reason, PrivateData::NONE);
        self.answer(asked.origin.address, Message { transaction: asked.transaction, names, content });
    }

    fn answer(&mut self, to: SocketAddr, message: Message) {
        if let Some(route) = self.route(to)
            && self.answers.len() < ANSWERS
        {
            self.answers.push_back(Answer { route, message });
        }
    }

    /// The slot of another endpoint to which a queue pair of this number belongs.
    fn elsewhere(&self, number: u32) -> Option<u8> {
        let [slot, ..] = number.to_le_bytes();
        self.neighbours.as_ref().map(|_| slot).filter(|slot| Some(*slot) != self.own_slot())
    }

    fn own_slot(&self) -> Option<u8> {
        self.neighbours.as_ref().map(|neighbours| neighbours.own())
    }

    /// Who decides about a newcomer.
    fn acceptor(&self, origin: Origin) -> Acceptor {
        let Some(neighbours) = &self.neighbours else { return Acceptor::Own };
        match neighbours.acceptor(origin.key()) {
            None => Acceptor::Nobody,
            Some(slot) if slot == neighbours.own() => Acceptor::Own,
            Some(slot) => Acceptor::Other(slot),
        }
    }

    /// A number for a queue pair. Numbers are given out in turn, so that an old packet finds nobody.
    fn admit(&mut self, known: Known) -> Result<ConnectionId, NoConnection> {
        if self.known.len() >= QUEUE_PAIRS || !self.account.charge(TABLES) {
            return Err(NoConnection::Full);
        }
        loop {
            let [low, high, ..] = self.next.to_le_bytes();
            let number = self.own_slot().map_or(self.next, |slot| u32::from_le_bytes([slot, low, high, 0]));
            let id = ConnectionId(U24::new(number).get());
            self.next = self.next.wrapping_add(1);
            if id.0 > QUEUE_PAIR && !self.known.contains_key(&id) {
                self.known.insert(id, known);
                return Ok(id);
            }
        }
    }

    fn terms(&mut self, id: ConnectionId, config: Config) -> Terms {
        Terms {
            queue_pair: U24::new(id.0),
            sequence: Psn::new(number(&mut *self.entropy)),
            reads_served: config.reads_served.min(READS),
            reads_sent: config.reads_sent.min(READS),
            not_ready_retries: ENDLESS_RETRIES,
        }
    }

    /// Where the sender of a datagram is reached. The port that a packet of RoCEv2 comes from says nothing: it is chosen so that routers spread packets, and all listen at one
    /// port (IBTA annex A17). Peers of a socket with another port are no others than this crate's, which listen where they send from.
    fn reached(&self, source: SocketAddr) -> SocketAddr {
        if self.port == PORT { SocketAddr::new(source.ip(), PORT) } else { source }
    }

    fn route(&self, peer: SocketAddr) -> Option<Route> {
        let addresses = addresses(self.address, peer.ip())?;
        let path = Path { addresses, source_port: self.port, destination_port: peer.port() };
        Some(Route { destination: peer, path })
    }
}

/// A connection that a peer wants, and what it is made of.
#[derive(Debug)]
pub struct Incoming {
    /// The peer's wish.
    pub request: ConnectionRequest,
    /// What the connection is made of.
    pub config: Config,
}

impl Connection {
    /// Takes what has come for this connection.
    pub fn handle_packet(&mut self, now: Instant, packet: Inbound<'_>) {
        match packet.0 {
            Inner::Packet(packet) => self.handle_queue_pair(now, &packet),
            Inner::Message(message) => self.handle_message(now, *message),
        }
    }
}

fn number(entropy: &mut dyn Entropy) -> u32 {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

fn addresses(source: IpAddr, destination: IpAddr) -> Option<Addresses> {
    Some(match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Addresses::V4 { source: source.octets(), destination: destination.octets() }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Addresses::V6 { source: source.octets(), destination: destination.octets() }
        }
        _ => return None,
    })
}
