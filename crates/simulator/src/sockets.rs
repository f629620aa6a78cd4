//! Sockets for datagrams, and the network between them.
//!
//! # Fault model
//! * Every datagram travels by itself, for any time within [`NetworkConditions::delay`], so that one overtakes another.
//! * By [`DatagramFaults`] it is lost, comes twice, comes late, or comes with a bit that was sent otherwise.
//! * Damage that the invariant CRC cannot tell does not happen. Over IPv4 that is one bit in 65,536, as a socket does not see the identification that the sum covers
//!   (docs/decisions/0027); between two machines UDP's own checksum tells it, which this world has not.
//! * Each core of a server has a socket at the same address. A datagram comes to the one that it names, or to the first, which forwards what is not its own. What is
//!   forwarded to a core that stands still waits for it too, and what is forwarded to a socket that is not there is lost.
//! * What comes to a socket whose core stands still waits there, up to [`ROOM`] bytes. What comes on top of that is lost.
//! * A client may be out of reach for a while, shorter or longer than queue pairs are patient. Nobody is told.
//! * A client's socket may be severed ([`Sockets::sever`]): it is gone without a word, and what it sent comes so much later. Or its ways are bad for a while
//!   ([`Sockets::mislead`]): nothing comes to it, and what it sends comes so much later.
//! * All disconnects of clients may be lost ([`DatagramFaults::farewells_lost`]).
//! * A server that ends takes its sockets along. What still comes for them is lost, and nobody is told.
//!
//! Each client has an address of its own ([`crate::client_machine`]). Its queue pairs share a socket there, as those of one core do.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use host::{DatagramEndpoint, Datagrams, EndpointId, OpenSocket, SocketSlot};
use protocol::{Ended, Instant};
use roce::icrc::{ICRC, check};
use roce::management::Content;

use crate::dice::{Dice, Odds};
use crate::network_conditions::NetworkConditions;
use crate::roce_packets::{Said, path};
use crate::socket_groups::{Forwarded, Group, named_slot};

/// Bytes that wait at a socket, at most: Linux' default buffer.
const ROOM: usize = 208 << 10;
/// Trains that a socket sends in one step: few, so that others' come between them.
const TRAINS: usize = 8;
/// How late a late datagram comes: up to several of the waits after which it is sent again.
const LATE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(400);
/// How long a client is out of reach: mostly until it has sent something again, and one time in so many about as long as queue pairs are patient.
const OUTAGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(300);
const LONG_OUTAGES: u64 = 24;
const LONG_OUTAGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(15);
/// The port of the first socket for which any will do.
const FIRST_PORT: u16 = 50_000;

/// What the network does to datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramFaults {
    /// How often one is lost.
    pub lost: Odds,
    /// How often one comes twice.
    pub doubled: Odds,
    /// How often one comes late.
    pub late: Odds,
    /// How often a bit of one changes.
    pub damaged: Odds,
    /// No server hears of a connection's end from its client.
    pub farewells_lost: bool,
    /// A bug of both ends: they do not look at sums. The network makes the sums of what it damages right, which is the same.
    pub sums_unchecked: bool,
}

impl DatagramFaults {
    /// Every datagram comes once, whole and in time.
    pub const NONE: Self = Self {
        lost: Odds::NEVER,
        doubled: Odds::NEVER,
        late: Odds::NEVER,
        damaged: Odds::NEVER,
        farewells_lost: false,
        sums_unchecked: false,
    };
    /// One in a hundred is lost, and as many come twice, late or damaged.
    pub const USUAL: Self =
        Self { lost: Odds(10), doubled: Odds(10), late: Odds(10), damaged: Odds(10), ..Self::NONE };
}

/// A socket that an endpoint has asked for.
pub(crate) struct Wish {
    pub(crate) name: EndpointId,
    /// Port 0 is any.
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Box<dyn DatagramEndpoint>,
}

/// Whose a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    /// A core's of the server.
    Server(usize),
}

struct Socket {
    local: SocketAddr,
    slot: SocketSlot,
    side: Side,
    endpoint: Box<dyn DatagramEndpoint>,
    /// What has come, with where it comes from.
    waiting: VecDeque<Datagram>,
    /// Bytes in it.
    bytes: usize,
    /// Something has come, or a deadline has passed, and it has not had its turn since.
    touched: bool,
    /// Nothing comes from it or to it before.
    out_of_reach: Instant,
    /// Its ways are bad.
    misled: Option<Misled>,
}

/// For how long a socket's ways are bad.
#[derive(Debug, Clone, Copy)]
struct Misled {
    /// Nothing comes to it before.
    until: Instant,
    /// How much later comes what it sends until then.
    late: Duration,
}

struct Datagram {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// All sockets, and what travels between them.
pub(crate) struct Sockets {
    by_name: BTreeMap<EndpointId, Socket>,
    /// By when they come, and in the order of sending.
    travelling: BTreeMap<(Instant, u64), Datagram>,
    sent: u64,
    /// Those of all sockets at one address.
    groups: BTreeMap<SocketAddr, Arc<Group>>,
    next_port: u16,
    pub(crate) faults: DatagramFaults,
    /// Datagrams that were lost, doubled, late or damaged by [`DatagramFaults`].
    pub(crate) struck: u64,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        let (by_name, travelling, groups) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (faults, next_port) = (DatagramFaults::NONE, FIRST_PORT);
        Self { by_name, travelling, sent: 0, groups, next_port, faults, struck: 0 }
    }

    /// What a socket that opens is told: it has the first slot at its address that no other has.
    pub(crate) fn opened(&mut self, endpoint: EndpointId, local: SocketAddr) -> OpenSocket {
        let is_free = |slot: &SocketSlot| {
            !self.by_name.values().any(|socket| socket.local == local && socket.slot == *slot)
        };
        let slot = (0..=u8::MAX).map(SocketSlot).find(is_free).unwrap_or(SocketSlot(u8::MAX));
        let group = self.groups.entry(local).or_default();
        OpenSocket { endpoint, local, membership: group.membership(slot) }
    }

    /// Opens a socket of a client's.
    pub(crate) fn open(&mut self, now: Instant, wish: Wish) {
        let Wish { name, mut address, mut endpoint } = wish;
        if address.port() == 0 {
            address.set_port(self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        }
        let opened = self.opened(name, address);
        endpoint.handle_opened(now, opened.clone());
        endpoint.turn(now);
        self.insert(&opened, (Side::Client, endpoint));
    }

    /// Takes in a socket that is open. Those of servers decide about newcomers.
    pub(crate) fn insert(
        &mut self,
        opened: &OpenSocket,
        (side, endpoint): (Side, Box<dyn DatagramEndpoint>),
    ) {
        let (local, slot) = (opened.local, opened.membership.slot);
        if side != Side::Client
            && let Some(group) = self.groups.get(&local)
        {
            group.begin_accepting(slot);
        }
        let (waiting, out_of_reach) = (VecDeque::new(), Instant::ZERO);
        let socket = Socket {
            local,
            slot,
            side,
            endpoint,
            waiting,
            bytes: 0,
            touched: true,
            out_of_reach,
            misled: None,
        };
        self.by_name.insert(opened.endpoint, socket);
    }

    fn of_clients(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.by_name.values_mut().filter(|socket| socket.side == Side::Client)
    }

    /// Sockets of clients.
    pub(crate) fn clients(&mut self) -> usize {
        self.of_clients().count()
    }

    /// Takes one of the clients out of reach for a while.
    pub(crate) fn lose_sight(&mut self, now: Instant, chosen: usize, dice: &mut Dice) {
        let range = if dice.below(LONG_OUTAGES) == 0 { LONG_OUTAGE } else { OUTAGE };
        let until = now + dice.span(&range);
        if let Some(socket) = self.of_clients().nth(chosen) {
            socket.out_of_reach = until;
        }
    }

    /// Severs the clients: they are told, and say nothing to anybody. What they have sent comes so much later.
    pub(crate) fn sever(&mut self, now: Instant, late: Duration, how: Ended) {
        let clients = self.by_name.iter().filter(|(_, socket)| socket.side == Side::Client);
        let clients: Vec<_> = clients.map(|(name, socket)| (*name, socket.local)).collect();
        for (name, local) in clients {
            self.hold_up(local, late);
            self.close(now, name, how);
        }
    }

    /// Nothing comes to the clients for a while, and what they send until then, and have sent, comes so much later.
    pub(crate) fn mislead(&mut self, until: Instant, late: Duration) {
        let mut misled = Vec::new();
        for socket in self.of_clients() {
            socket.misled = Some(Misled { until, late });
            misled.push(socket.local);
        }
        for local in misled {
            self.hold_up(local, late);
        }
    }

    /// What comes from there takes so much longer.
    fn hold_up(&mut self, from: SocketAddr, by: Duration) {
        let travelling = std::mem::take(&mut self.travelling).into_iter();
        self.travelling = travelling
            .map(|((due, number), datagram)| {
                let due = if datagram.from == from { due + by } else { due };
                ((due, number), datagram)
            })
            .collect();
    }

    /// Lets a socket have a turn.
    pub(crate) fn wake(&mut self, now: Instant, name: EndpointId) {
        if let Some(socket) = self.by_name.get_mut(&name) {
            socket.endpoint.turn(now);
        }
    }

    /// Closes a socket of a client's, which is told and says nothing to anybody.
    pub(crate) fn close(&mut self, now: Instant, name: EndpointId, how: Ended) {
        if let Some(mut socket) = self.by_name.remove(&name) {
            socket.endpoint.handle_ended(now, how);
        }
    }

    /// The server has ended, and its groups with it.
    pub(crate) fn end_server(&mut self) {
        let Self { by_name, groups, .. } = self;
        by_name.retain(|_, socket| socket.side == Side::Client);
        groups.retain(|local, _| by_name.values().any(|socket| socket.local == *local));
    }

    /// Gives the sockets of a core their turns: those that `ready` names, and those to which something has come.
    pub(crate) fn take_turns(&mut self, now: Instant, core: usize, ready: &[EndpointId]) {
        for (name, socket) in &mut self.by_name {
            let is_meant = socket.side == Side::Server(core);
            if is_meant && (std::mem::take(&mut socket.touched) || ready.contains(name)) {
                socket.endpoint.turn(now);
            }
        }
    }

    /// Sends what is to be sent, where `runs` says that somebody does.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        (conditions, dice): (&NetworkConditions, &mut Dice),
        runs: impl Fn(Side) -> bool,
    ) {
        let mut sent = Vec::new();
        for socket in self.by_name.values_mut().filter(|socket| runs(socket.side)) {
            for _ in 0..TRAINS {
                let Some(train) = socket.endpoint.poll_transmit(now) else { break };
                let (from, to) = (socket.local, train.peer);
                sent.extend(train.each().map(|bytes| Datagram { from, to, bytes: bytes.to_vec() }));
                socket.endpoint.handle_transmitted(now);
            }
        }
        for datagram in sent {
            self.launch(now, datagram, (conditions, dice));
        }
    }

    fn launch(
        &mut self,
        now: Instant,
        mut datagram: Datagram,
        (conditions, dice): (&NetworkConditions, &mut Dice),
    ) {
        let faults = self.faults;
        if !self.is_in_reach(now, &datagram) || self.strikes(faults.lost, dice) {
            return;
        }
        let from = self.by_name.values().find(|socket| socket.local == datagram.from);
        let is_clients = from.is_some_and(|socket| socket.side == Side::Client);
        if faults.farewells_lost && is_clients && is_farewell(&datagram) {
            return;
        }
        let misled = from.and_then(|socket| socket.misled).filter(|misled| now < misled.until);
        let held_up = misled.map_or(Duration::ZERO, |misled| misled.late);
        if self.strikes(faults.damaged, dice) {
            damage(&mut datagram, faults, dice);
        }
        let copies = 1 + u32::from(self.strikes(faults.doubled, dice));
        for _ in 0..copies {
            let late = if self.strikes(faults.late, dice) { dice.span(&LATE) } else { Duration::ZERO };
            let due = now + dice.span(&conditions.delay) + late + held_up;
            self.sent += 1;
            let Datagram { from, to, bytes } = &datagram;
            let copy = Datagram { from: *from, to: *to, bytes: bytes.clone() };
            self.travelling.insert((due, self.sent), copy);
        }
    }

    /// Whether a fault happens, which counts.
    fn strikes(&mut self, odds: Odds, dice: &mut Dice) -> bool {
        let strikes = dice.happens(odds);
        self.struck += u64::from(strikes);
        strikes
    }

    fn is_in_reach(&self, now: Instant, datagram: &Datagram) -> bool {
        let ends = [datagram.from, datagram.to];
        let misled = |socket: &Socket| {
            socket.misled.is_some_and(|misled| now < misled.until && socket.local == datagram.to)
        };
        let is_away = |socket: &Socket| ends.contains(&socket.local) && socket.out_of_reach > now;
        !self.by_name.values().any(|socket| is_away(socket) || misled(socket))
    }

    /// When the next datagram comes.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.travelling.keys().next().map(|(due, _)| *due)
    }

    /// Gives sockets what has come, where `runs` says that somebody takes it. A server's sockets are left to the turn of their core.
    pub(crate) fn deliver(&mut self, now: Instant, runs: impl Fn(Side) -> bool) {
        while let Some(entry) = self.travelling.first_entry()
            && entry.key().0 <= now
        {
            let datagram = entry.remove();
            if !self.is_in_reach(now, &datagram) {
                continue;
            }
            let slot = named_slot(&datagram.bytes);
            let first = || self.at(datagram.to).min_by_key(|(_, socket)| socket.slot).map(|(name, _)| *name);
            let name = slot.and_then(|slot| self.member(datagram.to, slot)).or_else(first);
            self.put(name, datagram);
        }
        let groups = self.groups.iter();
        let forwarded: Vec<_> = groups.map(|(local, group)| (*local, group.take_forwarded())).collect();
        for (to, forwarded) in forwarded {
            for Forwarded { slot, from, bytes } in forwarded {
                self.put(self.member(to, slot), Datagram { from, to, bytes });
            }
        }
        for socket in self.by_name.values_mut().filter(|socket| runs(socket.side)) {
            while let Some(Datagram { from, bytes, .. }) = socket.waiting.pop_front() {
                socket.bytes -= bytes.len();
                let datagrams = Datagrams { peer: from, bytes: &bytes, segment: bytes.len() };
                socket.endpoint.handle_datagrams(now, &datagrams);
                socket.touched = true;
            }
            if socket.side == Side::Client && std::mem::take(&mut socket.touched) {
                socket.endpoint.turn(now);
            }
        }
    }

    fn at(&self, local: SocketAddr) -> impl Iterator<Item = (&EndpointId, &Socket)> {
        self.by_name.iter().filter(move |(_, socket)| socket.local == local)
    }

    /// The socket with this slot at an address.
    fn member(&self, local: SocketAddr, slot: SocketSlot) -> Option<EndpointId> {
        self.at(local).find(|(_, socket)| socket.slot == slot).map(|(name, _)| *name)
    }

    /// Leaves a datagram at a socket; lost if it has no room, or there is none.
    fn put(&mut self, name: Option<EndpointId>, datagram: Datagram) {
        let Some(name) = name else { return };
        if let Some(socket) = self.by_name.get_mut(&name)
            && socket.bytes + datagram.bytes.len() <= ROOM
        {
            socket.bytes += datagram.bytes.len();
            socket.waiting.push_back(datagram);
        }
    }

    /// Lets sockets whose deadlines have passed know, where `runs` says that somebody does.
    pub(crate) fn run_timers(&mut self, now: Instant, runs: impl Fn(Side) -> bool) {
        for socket in self.by_name.values_mut().filter(|socket| runs(socket.side)) {
            if socket.endpoint.poll_timeout().is_some_and(|due| due <= now) {
                socket.endpoint.handle_timeout(now);
                socket.touched = true;
            }
            if socket.side == Side::Client && std::mem::take(&mut socket.touched) {
                socket.endpoint.turn(now);
            }
        }
    }

    /// Takes out those that have finished; the server's with their cores.
    pub(crate) fn take_finished(&mut self) -> Vec<(EndpointId, Side)> {
        let is_finished = |socket: &Socket| socket.endpoint.is_finished();
        let finished = self.by_name.iter().filter(|(_, socket)| is_finished(socket));
        let finished: Vec<_> = finished.map(|(name, socket)| (*name, socket.side)).collect();
        for (name, _) in &finished {
            if let Some(socket) = self.by_name.remove(name)
                && let Some(group) = self.groups.get(&socket.local)
            {
                group.stop_accepting(socket.slot);
            }
        }
        finished
    }
}

/// Changes a bit, unless no end could tell: see the fault model.
fn damage(datagram: &mut Datagram, faults: DatagramFaults, dice: &mut Dice) {
    let covered = datagram.bytes.len().saturating_sub(ICRC);
    let length = if faults.sums_unchecked { covered } else { datagram.bytes.len() };
    let bit = dice.index(length * 8);
    let Some(path) = path(datagram.from, datagram.to) else { return };
    let flip = |bytes: &mut [u8]| {
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    };
    flip(&mut datagram.bytes);
    if faults.sums_unchecked {
        let (packet, sum) = datagram.bytes.split_at_mut(covered);
        sum.copy_from_slice(&path.icrc(0, packet));
    } else if check(&path, &datagram.bytes).is_ok() {
        flip(&mut datagram.bytes);
    }
}

/// True if it says that a connection ends.
fn is_farewell(datagram: &Datagram) -> bool {
    let said = path(datagram.from, datagram.to).and_then(|path| Said::decode(&path, &datagram.bytes));
    let message = said.and_then(|said| said.message());
    message.is_some_and(|message| matches!(message.content, Content::Disconnect(_)))
}
