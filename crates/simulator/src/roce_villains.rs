//! Sockets of software RoCEv2 whose connections turn hostile, of either role: a real end's socket, whose packets are passed on honestly for a while, and then name memory or
//! queue pairs that they may not, have wrong numbers, are too many or too few, or end.
//!
//! Each connection is hostile in its own way and from its own time on; they are told apart by the peer's queue pairs. What is said in place of a packet has that packet's
//! number, so that it is the one that the peer awaits.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use host::{DatagramEndpoint, Datagrams, OpenSocket};
use protocol::{Ended, Instant};
use roce::header::{Memory, U24};
use roce::icrc::{ICRC, Path};
use roce::management::{Content, Message, Names, Reason, Rejected, Reply, Request, Terms};
use roce::mtu::Mtu;
use roce::opcode::Opcode;
use roce::packet::Extended;
use roce::psn::Psn;
use roce::syndrome::{Nak, Syndrome};
use verbs::PrivateData;
use wire::big_endian::{U32, U64};

use crate::dice::{Dice, Odds};
use crate::hostility::{Hostility, Patience};
use crate::roce_packets::{Part, Said, path, signed};

/// What a connection does once it is hostile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoceEvil {
    /// It writes to and reads from keys that name nothing, or memory of other connections.
    ForeignKeys,
    /// It writes and reads outside of the memory that it was told of.
    Beyond,
    /// Its addresses wrap.
    Wraps,
    /// It reads what is to be written, and writes to what is to be read.
    Rights,
    /// It writes to and reads from memory that it was told of long ago.
    Ended,
    /// It invalidates keys that are not its own command's.
    Invalidations,
    /// Its packets have numbers far from those that are due.
    Sequences,
    /// Its packets are for queue pairs that are others' or nobody's.
    Pairs,
    /// Bits change on the way.
    Sums,
    /// Its headers have bits that do not belong there, under the right sum.
    Headers,
    /// Its packets are not where they belong in their messages.
    Order,
    /// Its packets are longer or shorter than their places demand.
    Lengths,
    /// Its messages are empty.
    Empty,
    /// Its messages are longer than any receive.
    Long,
    /// Its messages have no end.
    Endless,
    /// It asks for many connections.
    Requests,
    /// It ends, rejects and delays connections, its own and others'.
    Farewells,
    /// It never has a receive.
    NotReady,
    /// It misses every packet.
    Missing,
    /// It acknowledges nothing.
    Unacknowledged,
    /// It refuses everything.
    Refusals,
    /// It answers what was not asked.
    Responses,
    /// It moves no data: neither writes nor what it was asked for.
    NoData,
    /// It has many more RDMA Reads under way than are served, and has old ones served again.
    Reads,
    /// It says everything several times, and old things again.
    Repeats,
    /// It holds everything back for a while.
    Late,
    /// It takes nothing any more.
    Deaf,
    /// It says nothing any more.
    Silence,
}

impl RoceEvil {
    /// All kinds.
    pub const ALL: [Self; 28] = [
        Self::ForeignKeys,
        Self::Beyond,
        Self::Wraps,
        Self::Rights,
        Self::Ended,
        Self::Invalidations,
        Self::Sequences,
        Self::Pairs,
        Self::Sums,
        Self::Headers,
        Self::Order,
        Self::Lengths,
        Self::Empty,
        Self::Long,
        Self::Endless,
        Self::Requests,
        Self::Farewells,
        Self::NotReady,
        Self::Missing,
        Self::Unacknowledged,
        Self::Refusals,
        Self::Responses,
        Self::NoData,
        Self::Reads,
        Self::Repeats,
        Self::Late,
        Self::Deaf,
        Self::Silence,
    ];
}

impl Hostility for RoceEvil {
    fn before_socket(
        evils: Vec<Self>,
        inner: Box<dyn DatagramEndpoint>,
        patience: Patience,
        dice: Dice,
    ) -> Box<dyn DatagramEndpoint> {
        Box::new(RoceVillain::new(inner, evils, patience, dice))
    }
}

/// Bytes that wait to be sent before more are made.
const AHEAD: usize = 64 << 10;
/// Packets that are too many, requests for connections among them, and how often something is said that is said several times.
const FLOOD: u32 = 300;
const REQUESTS: u32 = 40;
/// How often it asks for so many connections beside a packet: so seldom that its own requests still come through.
const ASKS: Odds = Odds(50);
const TIMES: usize = 3;
/// Packets of a message that is longer than any receive: more than 64 KiB at the least MTU.
const LONG: u32 = 280;
/// Bytes of an access that nobody asked for.
const ACCESS: usize = 64;
const ACCESS_LENGTH: u32 = 64;
/// Memory and packets of a connection that are remembered.
const REMEMBERED: usize = 64;
/// How long something is held back.
const HELD: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(700);
/// Bytes of the first header.
const FIRST_HEADER: u64 = 12;
/// Numbers of queue pairs and packets.
const NUMBERS: u64 = 1 << 24;

/// One connection.
struct Party {
    evil: RoceEvil,
    /// What passes honestly before.
    honest: usize,
    /// Nothing more is said.
    is_silent: bool,
}

/// What is to be sent.
struct Leaving {
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// A socket.
struct RoceVillain {
    inner: Box<dyn DatagramEndpoint>,
    evils: Vec<RoceEvil>,
    patience: Patience,
    local: SocketAddr,
    /// By the peer's names for them.
    parties: BTreeMap<u32, Party>,
    /// By this side's.
    listeners: BTreeMap<u32, Party>,
    /// Packets that were sent last, of all connections: as many as are remembered whatever the number of those.
    old: VecDeque<Said>,
    /// Memory that either side has named.
    named: VecDeque<Memory>,
    /// The MTU that was agreed last.
    mtu: Mtu,
    out: VecDeque<Leaving>,
    /// Bytes in it.
    bytes: usize,
    held: VecDeque<(Instant, Leaving)>,
    /// What goes out now: datagrams of one length but the last.
    train: Vec<u8>,
    segment: usize,
    peer: SocketAddr,
    dice: Dice,
}

impl RoceVillain {
    fn new(inner: Box<dyn DatagramEndpoint>, evils: Vec<RoceEvil>, patience: Patience, dice: Dice) -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            inner,
            evils,
            patience,
            local: nowhere,
            parties: BTreeMap::new(),
            listeners: BTreeMap::new(),
            old: VecDeque::new(),
            named: VecDeque::new(),
            mtu: Mtu::Bytes256,
            out: VecDeque::new(),
            bytes: 0,
            held: VecDeque::new(),
            train: Vec::new(),
            segment: 0,
            peer: nowhere,
            dice,
        }
    }

    fn party(&mut self) -> Party {
        let evil = self.evils[self.dice.index(self.evils.len())];
        let honest = self.patience.lasts(&mut self.dice);
        Party { evil, honest, is_silent: false }
    }

    /// Takes what the end behind it sends.
    fn relay(&mut self, now: Instant) {
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, leaving)) = self.held.pop_front() {
                self.leave(leaving);
            }
        }
        while self.bytes < AHEAD {
            let Some(train) = self.inner.poll_transmit(now) else { return };
            let (to, datagrams) = (train.peer, train.each().map(<[u8]>::to_vec).collect::<Vec<_>>());
            self.inner.handle_transmitted(now);
            for bytes in datagrams {
                self.tell(now, Leaving { to, bytes });
            }
        }
    }

    fn leave(&mut self, leaving: Leaving) {
        self.bytes += leaving.bytes.len();
        self.out.push_back(leaving);
    }

    /// Passes a datagram on, or what its connection makes of it.
    fn tell(&mut self, now: Instant, leaving: Leaving) {
        let Some(way) = path(self.local, leaving.to) else { return };
        let Some(said) = Said::decode(&way, &leaving.bytes) else { return self.leave(leaving) };
        let message = said.message();
        self.learn(&said, message.as_ref());
        let name = message.map_or(said.header.destination.get(), |message| message.names.receiver);
        let mut party = self.parties.remove(&name).unwrap_or_else(|| self.party());
        let is_hostile = party.honest == 0;
        party.honest = party.honest.saturating_sub(1);
        let before = self.out.len();
        if party.is_silent {
        } else if is_hostile {
            let to = Delivery { to: leaving.to, path: way };
            self.mangle(&mut party, &said, to);
            if party.evil == RoceEvil::Late {
                let due = now + self.dice.span(&HELD);
                for leaving in self.out.drain(before..) {
                    self.bytes -= leaving.bytes.len();
                    self.held.push_back((due, leaving));
                }
            }
        } else {
            self.leave(leaving);
        }
        self.parties.insert(name, party);
        if self.old.len() >= REMEMBERED {
            self.old.pop_front();
        }
        self.old.push_back(said);
    }

    /// What its connection has sent before.
    fn old_of(&self, said: &Said) -> impl Iterator<Item = &Said> {
        let name = said.header.destination.get();
        self.old.iter().filter(move |old| old.header.destination.get() == name)
    }

    /// Remembers what a packet of either side tells.
    fn learn(&mut self, said: &Said, message: Option<&Message>) {
        if let Some(memory) = said.memory() {
            if self.named.len() >= REMEMBERED {
                self.named.pop_front();
            }
            self.named.push_back(memory);
        }
        if let Some(Message { content: Content::Request(request), .. }) = message {
            self.mtu = request.mtu;
        }
    }

    /// What becomes of a packet of a hostile connection.
    fn mangle(&mut self, party: &mut Party, said: &Said, delivery: Delivery) {
        match party.evil {
            RoceEvil::ForeignKeys
            | RoceEvil::Beyond
            | RoceEvil::Wraps
            | RoceEvil::Rights
            | RoceEvil::Ended => {
                let said = self.access(party.evil, said);
                self.say(&said, delivery);
            }
            RoceEvil::Sequences | RoceEvil::Pairs | RoceEvil::Order | RoceEvil::Invalidations => {
                let said = self.misnumber(party.evil, said.clone());
                self.say(&said, delivery);
            }
            RoceEvil::Sums | RoceEvil::Headers => self.spoil(party.evil, said, delivery),
            RoceEvil::Lengths | RoceEvil::Empty | RoceEvil::Long | RoceEvil::Endless => {
                self.lengthen(party, said, delivery);
            }
            RoceEvil::Requests | RoceEvil::Farewells => self.manage(party.evil, said, delivery),
            RoceEvil::NotReady
            | RoceEvil::Missing
            | RoceEvil::Unacknowledged
            | RoceEvil::Refusals
            | RoceEvil::Responses
            | RoceEvil::NoData => self.answer(party.evil, said, delivery),
            RoceEvil::Reads | RoceEvil::Repeats => self.repeat(party.evil, said, delivery),
            RoceEvil::Silence => party.is_silent = true,
            RoceEvil::Late | RoceEvil::Deaf => self.say(said, delivery),
        }
    }

    fn say(&mut self, said: &Said, Delivery { to, path }: Delivery) {
        let bytes = said.encode(&path);
        self.leave(Leaving { to, bytes });
    }

    /// An access to other memory. An end that makes none makes them in place of its messages.
    fn access(&mut self, evil: RoceEvil, said: &Said) -> Said {
        let own = said.memory();
        if own.is_none() && (said.part() != Part::Send || self.dice.coin()) {
            return said.clone();
        }
        let guess = Memory { address: U64::new(0), key: U32::new(0x100), length: U32::new(ACCESS_LENGTH) };
        let known = own.unwrap_or_else(|| {
            let memory = self.named.get(self.dice.index(self.named.len())).copied().unwrap_or(guess);
            Memory { length: U32::new(ACCESS_LENGTH), ..memory }
        });
        let memory = match evil {
            RoceEvil::ForeignKeys if self.dice.coin() => {
                Memory { key: U32::new(known.key.get() ^ (1 << self.dice.below(32))), ..known }
            }
            RoceEvil::ForeignKeys => self.named.front().copied().unwrap_or(known),
            RoceEvil::Beyond => {
                let beyond = known.address.get().wrapping_add(1 << self.dice.within(12..=40));
                Memory { address: U64::new(beyond), ..known }
            }
            RoceEvil::Wraps => Memory { address: U64::new(u64::MAX - self.dice.below(16)), ..known },
            RoceEvil::Ended => {
                self.old_of(said).find_map(Said::memory).or(self.named.front().copied()).unwrap_or(known)
            }
            _ => known,
        };
        let memory = Memory { length: U32::new(memory.length.get().min(ACCESS_LENGTH)), ..memory };
        let writes = match (evil, said.header.opcode()) {
            (RoceEvil::Rights, Opcode::READ_REQUEST) => true,
            (RoceEvil::Rights, Opcode::WRITE_FIRST | Opcode::WRITE_ONLY) | (_, Opcode::READ_REQUEST) => false,
            (_, Opcode::WRITE_FIRST | Opcode::WRITE_ONLY) => true,
            _ => self.dice.coin(),
        };
        if writes {
            let length = usize::try_from(memory.length.get()).unwrap_or(ACCESS);
            said.writing(memory, vec![0xee; length])
        } else {
            said.reading(memory)
        }
    }

    /// The packet with other numbers, or as another part of its message.
    fn misnumber(&mut self, evil: RoceEvil, mut said: Said) -> Said {
        let part = said.part();
        if part == Part::Management {
            return said;
        }
        match evil {
            RoceEvil::Sequences => {
                let by = if self.dice.coin() { self.dice.below(NUMBERS) } else { self.dice.below(200) };
                said.later(wire::bounded(by))
            }
            RoceEvil::Pairs => {
                let own = said.header.destination.get();
                let other = match self.dice.below(3) {
                    0 => own.wrapping_add(wire::bounded(self.dice.below(64))),
                    1 => own ^ (1 << self.dice.below(24)),
                    _ => wire::bounded(self.dice.below(NUMBERS)),
                };
                said.header.destination = U24::new(other);
                said
            }
            RoceEvil::Invalidations if part == Part::Send => {
                let key = self.named.get(self.dice.index(self.named.len()));
                let key = key.map_or(7, |memory| memory.key.get() ^ u32::from(self.dice.coin()));
                let extended = Extended::Invalidate(U32::new(key));
                said.instead(Opcode::SEND_ONLY_INVALIDATE, extended, said.payload.clone())
            }
            RoceEvil::Order if self.dice.coin() => {
                let plain = said.memory().is_none();
                let others: &[Opcode] = match (part, plain) {
                    (Part::Send, _) => {
                        &[Opcode::SEND_MIDDLE, Opcode::SEND_LAST, Opcode::SEND_FIRST, Opcode::WRITE_MIDDLE]
                    }
                    (Part::Access, true) => &[Opcode::SEND_MIDDLE, Opcode::WRITE_LAST, Opcode::WRITE_MIDDLE],
                    (Part::Access, false) => &[Opcode::WRITE_FIRST, Opcode::WRITE_ONLY, Opcode::READ_REQUEST],
                    (Part::Response, _) if said.header.opcode() != Opcode::READ_RESPONSE_MIDDLE => {
                        &[Opcode::READ_RESPONSE_FIRST, Opcode::READ_RESPONSE_LAST, Opcode::READ_RESPONSE_ONLY]
                    }
                    _ => return said,
                };
                let opcode = others[self.dice.index(others.len())];
                let is_plain = matches!(said.extended, Extended::None);
                if is_plain || part != Part::Send { said.renamed(opcode) } else { said }
            }
            _ => said,
        }
    }

    /// The packet with another bit somewhere, and the sum that it had or the one that fits.
    fn spoil(&mut self, evil: RoceEvil, said: &Said, delivery: Delivery) {
        let mut bytes = said.encode(&delivery.path);
        let whole = bytes.len();
        let (at, bit) = if evil == RoceEvil::Headers {
            (wire::index(self.dice.below(FIRST_HEADER)), self.dice.below(8))
        } else {
            (self.dice.index(whole), self.dice.below(8))
        };
        if let Some(byte) = bytes.get_mut(at).filter(|_| self.dice.coin()) {
            *byte ^= 1 << bit;
        }
        if evil == RoceEvil::Headers {
            bytes.truncate(whole - ICRC);
            bytes = signed(&delivery.path, bytes);
        }
        self.leave(Leaving { to: delivery.to, bytes });
    }

    /// A message of another length.
    fn lengthen(&mut self, party: &mut Party, said: &Said, delivery: Delivery) {
        let full = vec![0xee; self.mtu.bytes()];
        match (party.evil, said.part()) {
            (_, Part::Management | Part::Answer) => self.say(said, delivery),
            (RoceEvil::Lengths, _) => {
                let length = self.dice.index(said.payload.len() + 16);
                let mut said = said.clone();
                said.payload.resize(length, 0xee);
                self.say(&said, delivery);
            }
            (RoceEvil::Empty, Part::Send) => {
                self.say(&said.instead(Opcode::SEND_ONLY, Extended::None, Vec::new()), delivery);
            }
            (RoceEvil::Long, Part::Send) if self.bytes < AHEAD => {
                self.say(&said.instead(Opcode::SEND_FIRST, Extended::None, full.clone()), delivery);
                for at in 1..LONG {
                    let middle = said.instead(Opcode::SEND_MIDDLE, Extended::None, full.clone());
                    self.say(&middle.later(at), delivery);
                }
            }
            (RoceEvil::Endless, Part::Send) => {
                self.say(&said.instead(Opcode::SEND_FIRST, Extended::None, full), delivery);
                party.is_silent = true;
            }
            _ => self.say(said, delivery),
        }
    }

    /// Messages of connection management beside a packet.
    fn manage(&mut self, evil: RoceEvil, said: &Said, delivery: Delivery) {
        self.say(said, delivery);
        if self.bytes > AHEAD {
            return;
        }
        let own = match said.message() {
            Some(message) => message.names.receiver,
            None => said.header.destination.get(),
        };
        if evil == RoceEvil::Requests {
            let count = if self.dice.happens(ASKS) { REQUESTS } else { 1 };
            for _ in 0..count {
                let message = self.request(delivery.to);
                self.say(&Said::management(&message), delivery);
            }
            return;
        }
        for by in 0..8 {
            let receiver = if by == 0 { own } else { own ^ (1 << self.dice.below(24)) };
            let content = self.farewell(receiver);
            let names = Names { sender: self.number(), receiver };
            let message = Message { transaction: self.dice.below(u64::MAX), names, content };
            self.say(&Said::management(&message), delivery);
        }
    }

    fn number(&mut self) -> u32 {
        wire::bounded(self.dice.below(NUMBERS))
    }

    fn terms(&mut self) -> Terms {
        Terms {
            queue_pair: U24::new(self.number()),
            sequence: Psn::new(self.number()),
            reads_served: wire::bounded(self.dice.below(256)),
            reads_sent: wire::bounded(self.dice.below(256)),
            not_ready_retries: 7,
        }
    }

    /// The wish for a connection.
    fn request(&mut self, to: SocketAddr) -> Message {
        let request = Request {
            port: wire::bounded(1 + self.dice.below(3)),
            terms: self.terms(),
            mtu: self.mtu,
            source: self.local.ip(),
            destination: to.ip(),
            source_port: 50_000,
            private_data: PrivateData::NONE,
        };
        let names = Names { sender: self.number(), receiver: 0 };
        Message { transaction: self.dice.below(u64::MAX), names, content: Content::Request(request) }
    }

    /// What ends a connection, refuses it, or asks for patience.
    fn farewell(&mut self, receiver: u32) -> Content {
        match self.dice.below(6) {
            0 => Content::Disconnect(U24::new(receiver)),
            1 => Content::Disconnected,
            2 => Content::Reject(Rejected::Other, Reason::CONSUMER, PrivateData::NONE),
            3 => Content::Receipt(31),
            4 => Content::Ready,
            _ => Content::Reply(Reply { terms: self.terms(), adapter: 1, private_data: PrivateData::NONE }),
        }
    }

    /// What it says of the peer's packets.
    fn answer(&mut self, evil: RoceEvil, said: &Said, delivery: Delivery) {
        let part = said.part();
        let tells = matches!(part, Part::Response | Part::Answer);
        match evil {
            RoceEvil::NotReady if tells => {
                let code = wire::bounded::<u8>(0x20 | self.dice.below(32));
                let syndrome = Syndrome::decode(code).unwrap_or(Syndrome::Nak(Nak::Sequence));
                self.say(&said.answered(syndrome), delivery);
            }
            RoceEvil::Missing if tells => self.say(&said.answered(Syndrome::Nak(Nak::Sequence)), delivery),
            RoceEvil::Unacknowledged if tells => {}
            RoceEvil::Refusals if tells => {
                let naks = [Nak::InvalidRequest, Nak::RemoteAccess, Nak::RemoteOperational, Nak::Sequence];
                let nak = naks[self.dice.index(naks.len())];
                let by = wire::bounded(self.dice.below(3));
                self.say(&said.answered(Syndrome::Nak(nak)).later(by), delivery);
            }
            RoceEvil::NoData if matches!(part, Part::Response | Part::Access) => {}
            RoceEvil::Responses if tells => {
                let opcodes =
                    [Opcode::READ_RESPONSE_FIRST, Opcode::READ_RESPONSE_LAST, Opcode::READ_RESPONSE_ONLY];
                let opcode = opcodes[self.dice.index(opcodes.len())];
                let mut answer = said.answered(Syndrome::Nak(Nak::Sequence)).renamed(opcode);
                answer.payload.resize(self.dice.index(2 * self.mtu.bytes()), 0xee);
                let by = if self.dice.coin() { 0 } else { self.number() };
                self.say(&answer.later(by), delivery);
            }
            _ => self.say(said, delivery),
        }
    }

    /// Says it again, with old packets, or with many reads behind it.
    fn repeat(&mut self, evil: RoceEvil, said: &Said, delivery: Delivery) {
        let is_full = self.bytes > AHEAD;
        if evil == RoceEvil::Repeats {
            (0..if is_full { 1 } else { TIMES }).for_each(|_| self.say(said, delivery));
            let chosen = self.dice.index(self.old_of(said).count());
            let old = self.old_of(said).nth(chosen).cloned();
            if let Some(old) = old {
                self.say(&old, delivery);
            }
            return;
        }
        if is_full || !matches!(said.part(), Part::Send | Part::Access) {
            return self.say(said, delivery);
        }
        let known = self.named.back().copied();
        let memory = known.unwrap_or(Memory { address: U64::new(0), key: U32::new(0), length: U32::new(0) });
        // Of an access to nothing no key is looked at, so that anybody may ask for it.
        let length = if self.dice.coin() { memory.length.get().min(1) } else { 0 };
        let memory = Memory { length: U32::new(length), ..memory };
        for at in 0..FLOOD {
            self.say(&said.reading(memory).later(at), delivery);
        }
        let again = self.old_of(said).find(|old| old.header.opcode() == Opcode::READ_REQUEST).cloned();
        if let Some(old) = again {
            self.say(&old, delivery);
        }
    }

    /// Puts what is to be sent first into a train: datagrams to one peer, and of one length but the last.
    fn couple(&mut self) {
        let Some(Leaving { to, bytes }) = self.out.pop_front() else { return };
        self.bytes -= bytes.len();
        (self.peer, self.segment, self.train) = (to, bytes.len(), bytes);
        while self.train.len().is_multiple_of(self.segment)
            && self.train.len() + self.segment <= AHEAD
            && let Some(next) = self.out.front()
            && next.to == self.peer
            && next.bytes.len() <= self.segment
            && let Some(next) = self.out.pop_front()
        {
            self.bytes -= next.bytes.len();
            self.train.extend(next.bytes);
        }
    }

    /// True if what comes is not taken in.
    fn is_deaf_to(&mut self, name: u32) -> bool {
        let mut listener = self.listeners.remove(&name).unwrap_or_else(|| self.party());
        let is_deaf = listener.honest == 0 && listener.evil == RoceEvil::Deaf;
        listener.honest = listener.honest.saturating_sub(1);
        self.listeners.insert(name, listener);
        is_deaf
    }
}

/// Where a packet goes.
#[derive(Clone, Copy)]
struct Delivery {
    to: SocketAddr,
    path: Path,
}

impl DatagramEndpoint for RoceVillain {
    fn handle_opened(&mut self, now: Instant, socket: OpenSocket) {
        self.local = socket.local;
        self.inner.handle_opened(now, socket);
    }

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        for bytes in datagrams.each() {
            let said = path(datagrams.peer, self.local).and_then(|path| Said::decode(&path, bytes));
            if let Some(said) = said {
                let message = said.message();
                self.learn(&said, message.as_ref());
                let name = message.map_or(said.header.destination.get(), |message| message.names.receiver);
                if self.is_deaf_to(name) {
                    continue;
                }
            }
            self.inner.handle_datagrams(now, &Datagrams { bytes, segment: bytes.len(), ..*datagrams });
        }
    }

    fn handle_transmitted(&mut self, _now: Instant) {
        self.train.clear();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
    }

    fn handle_retired(&mut self, now: Instant) {
        self.inner.handle_retired(now);
    }

    fn handle_shutdown(&mut self, now: Instant) {
        self.inner.handle_shutdown(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.out.clear();
        self.held.clear();
        self.bytes = 0;
        self.inner.handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.inner.turn(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        if self.train.is_empty() {
            self.relay(now);
            self.couple();
        }
        let Self { peer, ref train, segment, .. } = *self;
        (!train.is_empty()).then_some(Datagrams { peer, bytes: train, segment })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished() && self.train.is_empty() && self.out.is_empty()
    }

    fn expects_work(&self) -> bool {
        false
    }
}
