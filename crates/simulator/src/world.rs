//! A server and its clients, joined by simulated streams and datagrams, on one thread and one clock.
//!
//! # Fault model
//! * Bytes of one stream stay in order. They are cut into chunks of any size, each of which travels for any time within
//!   [`NetworkConditions::delay`]; so chunks of different streams, and the two directions of one, overtake each other.
//! * By [`NetworkConditions::cuts`] a stream is reset: what travels is lost, and both ends are told.
//! * The server may die at any moment ([`World::end_server`]): all streams are reset, and nothing it had begun goes on.
//! * The server has one core or several. With several, messages between two cores stay in order, and take as long as the dice want, so
//!   that they overtake those between others; cores take their turns in any order; and a core may see bytes of a stream long before
//!   it does anything about them.
//! * The server may freeze, whole or one of its cores ([`World::freeze`]): its machine still takes connections and bytes, but it does
//!   nothing until it thaws.
//! * A stream may be severed ([`World::sever`]): the client is told, and the server is not before what travels has reached it, late. A socket may be too, or be misled
//!   ([`World::mislead`]).
//! * An end that does not read closes its window ([`World::set_window`]): the other end's sends wait for as long.
//! * The network may damage what it carries ([`World::damage`]).
//! * Sockets for datagrams are beside the streams; `sockets` states what happens to what they send.
//!
//! The server is any [`host::Service`], in production the engine's; clients are what the
//! [`WorldDialer`] is given. Neither can tell this world from the reactor.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use engine::EntropySource;
use host::{
    Accepted, CoreIndex, DatagramEndpoint, Dialer, Endpoint, EndpointId, ListenerId, Postbox as _, Recording,
    Service, SlotField,
};
use protocol::{Ended, Instant};

use crate::damage::Damage;
use crate::dice::Dice;
use crate::end::End;
use crate::link::Link;
use crate::lock;
use crate::machines;
use crate::mail::{Mail, Sender};
use crate::network_conditions::NetworkConditions;
use crate::observed::Observed;
use crate::sockets::{DatagramFaults, Side, Sockets, Wish as SocketWish};

/// `ECONNRESET` and `ECONNREFUSED`.
const RESET: Ended = Ended::Failed(104);
const REFUSED: Ended = Ended::Failed(111);
/// Messages that one of several cores takes in a turn, at most one less: few, so that others overtake them.
const MOST_MESSAGES: usize = 4;
/// What tells the dice for secrets from those for what happens.
const SECRETS: u64 = 0x5ec2_e75e_c2e7_5ec2;
/// The longest that one step of the world lets time pass when nothing is due.
const IDLE_STEP: Duration = Duration::from_millis(1);
/// How long a queue pair sends again what nobody acknowledges (`roce::limits::RETRIES`), and a little more.
pub(crate) const PEERS_PATIENCE: Duration = Duration::from_millis(8500);
/// How long the last sends of an end that wants its stream closed may take, as in the reactor.
const LAST_SENDS: Duration = Duration::from_secs(5);

/// An endpoint that wants a stream, and where to.
type Wish = (SocketAddr, EndpointId, Box<dyn Endpoint>);

thread_local! {
    static DIALS: RefCell<Vec<Wish>> = const { RefCell::new(Vec::new()) };
    static SOCKETS: RefCell<Vec<SocketWish>> = const { RefCell::new(Vec::new()) };
    static WAKES: RefCell<Vec<EndpointId>> = const { RefCell::new(Vec::new()) };
    static NEXT: RefCell<u64> = const { RefCell::new(0) };
}

fn forget_wishes() {
    DIALS.take();
    SOCKETS.take();
    WAKES.take();
}

fn next_endpoint() -> EndpointId {
    NEXT.with_borrow_mut(|next| {
        *next += 1;
        EndpointId(*next)
    })
}

/// Wakes an endpoint: in a world, all cores are one thread.
struct EndpointWaker(EndpointId);

impl Wake for EndpointWaker {
    fn wake(self: Arc<Self>) {
        WorldDialer.wake(self.0);
    }
}

/// Dials within the calling thread's world.
#[derive(Debug, Clone, Copy)]
pub struct WorldDialer;

impl Dialer for WorldDialer {
    fn dial(&self, peer: SocketAddr, endpoint: Box<dyn Endpoint>) -> EndpointId {
        let name = next_endpoint();
        DIALS.with_borrow_mut(|dials| dials.push((peer, name, endpoint)));
        name
    }

    fn open_socket(
        &self,
        address: SocketAddr,
        _slot: SlotField,
        endpoint: Box<dyn DatagramEndpoint>,
    ) -> EndpointId {
        let name = next_endpoint();
        SOCKETS.with_borrow_mut(|sockets| sockets.push(SocketWish { name, address, endpoint }));
        name
    }

    fn wake(&self, endpoint: EndpointId) {
        WAKES.with_borrow_mut(|wakes| wakes.push(endpoint));
    }

    fn waker(&self, endpoint: EndpointId) -> Waker {
        Waker::from(Arc::new(EndpointWaker(endpoint)))
    }
}

struct Stream {
    client: End,
    /// What it came to: the port, from 1, numbers the listeners.
    listener: ListenerId,
    /// Absent when the server refused it or is dead.
    server: Option<Served>,
    /// The server has not yet been told of it.
    waits: bool,
    to_server: Link,
    to_client: Link,
    /// The client is told that it is over; the server is told at this time.
    severed: Option<Instant>,
    /// Since when one of the ends wants it closed.
    closing: Option<Instant>,
}

/// The server's end of a stream.
struct Served {
    core: usize,
    name: EndpointId,
    end: End,
    /// It has seen bytes, and has not had its turn since.
    touched: bool,
}

/// What of a server does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frozen {
    /// Nothing: it runs.
    Nothing,
    /// One core.
    Core(usize),
    /// All of it.
    All,
}

impl Frozen {
    fn holds(self, core: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Core(frozen) => frozen == core,
            Self::All => true,
        }
    }

    /// True while whoever has a socket does something.
    fn lets_run(self, side: Side) -> bool {
        match side {
            Side::Client => true,
            Side::Server(core) => !self.holds(core),
        }
    }

    fn server(self, stream: &mut Stream) -> Option<&mut Served> {
        stream.server.as_mut().filter(|server| !self.holds(server.core))
    }
}

/// A server that runs.
struct Running<S: Service> {
    cores: Vec<S>,
    mail: Arc<Mail<S::Message>>,
}

/// A server with its clients.
pub struct World<S: Service> {
    now: Instant,
    dice: Dice,
    /// What processes draw their secrets from, so that they do not change what happens to them.
    secrets: Dice,
    conditions: NetworkConditions,
    server: Option<Running<S>>,
    streams: BTreeMap<EndpointId, Stream>,
    sockets: Sockets,
    frozen: Frozen,
    /// Bytes of a stream that wait at an end which does not read, at most.
    window: usize,
    /// Deadlines of the server's ends pass unnoticed: for the tests of the tests.
    timeless: bool,
    /// Those of the clients' do.
    timeless_clients: bool,
    /// How the network damages what it carries, if it does.
    pub damage: Option<Damage>,
    /// Cores see bytes, messages and turns in whatever order the dice say.
    loose: bool,
    /// How far the clock goes in a step in which nothing travels.
    idle: Duration,
    /// What the servers told, since it was last looked at.
    pub journal: Arc<Recording>,
    /// What became of its catalogues and volumes.
    pub observed: Arc<Observed>,
}

impl<S: Service> World<S> {
    /// A world in which nothing listens yet.
    pub fn new(conditions: NetworkConditions, dice: Dice) -> Self {
        forget_wishes();
        let mut secrets = Dice::new(dice.clone().below(u64::MAX) ^ SECRETS);
        machines::begin(secrets.fork());
        Self {
            now: Instant::ZERO,
            dice,
            secrets,
            conditions,
            server: None,
            streams: BTreeMap::new(),
            sockets: Sockets::new(),
            frozen: Frozen::Nothing,
            window: usize::MAX,
            timeless: false,
            timeless_clients: false,
            damage: None,
            loose: false,
            idle: IDLE_STEP,
            journal: Arc::default(),
            observed: Arc::default(),
        }
    }

    /// Starts a server with these cores, which have the mailboxes of `mail`.
    pub fn start_server(&mut self, cores: Vec<S>, mail: Arc<Mail<S::Message>>) {
        self.server = Some(Running { cores, mail });
    }

    /// Binds sockets for datagrams for the server: one for each core, all at this address.
    pub fn bind(&mut self, local: SocketAddr) {
        let Some(running) = &mut self.server else { return };
        for (core, service) in running.cores.iter_mut().enumerate() {
            let opened = self.sockets.opened(next_endpoint(), local);
            if let Some(mut endpoint) = service.open_socket(self.now, opened.clone()) {
                endpoint.handle_opened(self.now, opened.clone());
                self.sockets.insert(&opened, (Side::Server(core), endpoint));
            }
        }
    }

    /// Entropy for one process of this world, each part of which has its own.
    pub(crate) fn entropy(&mut self) -> EntropySource {
        let dice = Mutex::new(self.secrets.fork());
        Arc::new(move || Box::new(lock(&dice).fork()))
    }

    /// What the network does to datagrams from now on.
    pub fn set_datagram_faults(&mut self, faults: DatagramFaults) {
        self.sockets.faults = faults;
    }

    /// Datagrams that were lost, doubled, late or damaged by those.
    pub fn struck_datagrams(&self) -> u64 {
        self.sockets.struck
    }

    /// The cores of the server that runs, if one does.
    pub fn cores(&self) -> &[S] {
        self.server.as_ref().map_or(&[], |running| &running.cores)
    }

    /// Sends every core of the server a message from outside.
    pub fn tell_server(&self, message: impl Fn() -> S::Message) {
        let Some(running) = &self.server else { return };
        let sender = Sender { mail: Arc::clone(&running.mail), from: 0 };
        (0..sender.cores()).for_each(|core| sender.post(core, message()));
    }

    /// Sends one core of the server a message from outside.
    pub fn tell_core(&self, core: CoreIndex, message: S::Message) {
        let Some(running) = &self.server else { return };
        Sender { mail: Arc::clone(&running.mail), from: 0 }.post(core, message);
    }

    /// Kills the server, and with it every stream.
    pub fn end_server(&mut self) {
        self.server = None;
        for stream in self.streams.values_mut() {
            (stream.server, stream.waits) = (None, false);
            stream.client.end(self.now, RESET);
        }
        self.sockets.end_server();
        self.frozen = Frozen::Nothing;
    }

    /// Freezes the server or a core of it, or lets it thaw.
    pub fn freeze(&mut self, frozen: Frozen) {
        self.frozen = frozen;
    }

    /// Bytes of a stream that wait at an end which does not read, at most: sockets' buffers.
    pub fn set_window(&mut self, window: usize) {
        self.window = window;
    }

    /// Plants a bug: deadlines of the server's ends pass unnoticed.
    pub fn forget_deadlines(&mut self) {
        self.timeless = true;
    }

    /// Plants a bug: deadlines of the clients' ends pass unnoticed.
    pub fn forget_clients_deadlines(&mut self) {
        self.timeless_clients = true;
    }

    /// Severs all streams: the clients are told at once; what travels reaches the server so much later, and then it is told.
    pub fn sever(&mut self, late: Duration) {
        let now = self.now;
        self.streams.values_mut().for_each(|stream| sever(stream, now, late));
        self.sockets.sever(now, late, RESET);
    }

    /// Nothing comes to the clients' sockets for as long as queue pairs are patient, and what they send meanwhile reaches the server so much later.
    pub fn mislead(&mut self, late: Duration) {
        self.sockets.mislead(self.now + PEERS_PATIENCE, late);
    }

    /// Severs one stream.
    pub fn sever_one(&mut self, late: Duration) {
        let open = |stream: &&mut Stream| !stream.client.has_ended();
        let count = self.streams.values_mut().filter(open).count();
        let chosen = self.dice.index(count);
        if let Some(stream) = self.streams.values_mut().filter(open).nth(chosen) {
            sever(stream, self.now, late);
        }
    }

    /// Resets a stream that a client has dialled. A client's socket closes: its peer hears nothing of it.
    pub fn reset(&mut self, name: EndpointId) {
        self.sockets.close(self.now, name, RESET);
        if let Some(stream) = self.streams.get_mut(&name) {
            reset(stream, self.now);
        }
    }

    /// Lets a client's end take a turn.
    pub fn wake_client(&mut self, name: EndpointId) {
        self.sockets.wake(self.now, name);
        if let Some(stream) = self.streams.get_mut(&name) {
            stream.client.receive(self.now, &[]);
        }
    }

    /// Lets the dice say in which order a core sees bytes, messages and turns, as they do when there are several.
    pub fn loosen(&mut self) {
        self.loose = true;
    }

    /// What the time is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How far the clock goes in a step in which nothing travels: long waits in fewer steps.
    pub fn set_idle(&mut self, idle: Duration) {
        self.idle = idle;
    }

    /// Lets something happen.
    pub fn step(&mut self) {
        self.open_streams();
        self.cut_something();
        self.run_server();
        self.wake();
        self.transmit();
        self.deliver();
        self.run_timers();
        self.remove_ended_streams();
    }

    fn open_streams(&mut self) {
        for wish in SOCKETS.take() {
            self.sockets.open(self.now, wish);
        }
        for (address, name, endpoint) in DIALS.take() {
            let mut client = End::new(endpoint);
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1024));
            let listens = self.server.is_some();
            if listens {
                client.endpoint.handle_connected(self.now, peer, peer);
            } else {
                client.end(self.now, REFUSED);
            }
            let links = (Link::default(), Link::default());
            let listener = ListenerId(u32::from(address.port().saturating_sub(1)));
            let (to_server, to_client) = links;
            let stream = Stream {
                client,
                listener,
                server: None,
                waits: listens,
                to_server,
                to_client,
                severed: None,
                closing: None,
            };
            self.streams.insert(name, stream);
        }
        self.accept_streams();
    }

    /// Lets the server have the streams that its machine has accepted for it.
    fn accept_streams(&mut self) {
        let Some(running) = self.server.as_mut().filter(|_| self.frozen != Frozen::All) else { return };
        for stream in self.streams.values_mut().filter(|stream| stream.waits) {
            let core = if running.cores.len() > 1 { self.dice.index(running.cores.len()) } else { 0 };
            if self.frozen.holds(core) {
                continue;
            }
            stream.waits = false;
            let (endpoint, peer) = (next_endpoint(), SocketAddr::from((Ipv4Addr::LOCALHOST, 1024)));
            let accepted = Accepted { listener: stream.listener, endpoint, local: peer, peer };
            let made = running.cores.get_mut(core).map(|service| service.accept(self.now, accepted));
            match made {
                Some(Ok(made)) => {
                    let end = End::new(made);
                    stream.server = Some(Served { core, name: endpoint, end, touched: false });
                }
                _ => stream.client.end(self.now, RESET),
            }
        }
    }

    fn cut_something(&mut self) {
        let count = self.streams.len() + self.sockets.clients();
        if !self.dice.happens(self.conditions.cuts) || count == 0 {
            return;
        }
        let chosen = self.dice.index(count);
        match self.streams.values_mut().nth(chosen) {
            Some(stream) => reset(stream, self.now),
            None => self.sockets.lose_sight(self.now, chosen - self.streams.len(), &mut self.dice),
        }
    }

    fn run_server(&mut self) {
        let Some(running) = self.server.as_mut().filter(|_| self.frozen != Frozen::All) else { return };
        if let ([service], false) = (&mut running.cores[..], self.loose) {
            let ends = (&mut self.streams, &mut self.sockets);
            let (streams, sockets) = ends;
            let mail = &running.mail;
            while run_core(self.now, (0, service), (mail, usize::MAX, None), (streams, sockets)) {}
            return;
        }
        for _ in 0..running.cores.len() {
            if self.dice.coin() {
                continue;
            }
            let core = self.dice.index(running.cores.len());
            if self.frozen.holds(core) {
                continue;
            }
            let Some(service) = running.cores.get_mut(core) else { return };
            let most = self.dice.index(MOST_MESSAGES);
            let mail = (&*running.mail, most, Some(&mut self.dice));
            run_core(self.now, (core, service), mail, (&mut self.streams, &mut self.sockets));
        }
    }

    fn wake(&mut self) {
        for name in WAKES.take() {
            if let Some(stream) = self.streams.get_mut(&name) {
                stream.client.receive(self.now, &[]);
            }
            self.sockets.wake(self.now, name);
        }
    }

    fn transmit(&mut self) {
        let Self { now, dice, conditions, streams, sockets, frozen, window, damage, .. } = self;
        sockets.transmit(*now, (conditions, dice), |side| frozen.lets_run(side));
        for stream in streams.values_mut() {
            let behind = stream.server.as_ref().map_or(0, |server| server.end.staged());
            let room = window.saturating_sub(stream.to_server.bytes() + behind);
            let out = stream.client.transmit(*now, room);
            if stream.client.take_sent() {
                stream.client.receive(*now, &[]);
            }
            let damage_to = |damage: &mut Option<Damage>, to_server| {
                if let Some(damage) = damage {
                    damage.to_server = to_server;
                }
            };
            damage_to(damage, true);
            let out = stream.to_server.pass(out, damage.as_mut());
            stream.to_server.send(*now, &out, (conditions, dice));
            let room = window.saturating_sub(stream.to_client.bytes() + stream.client.staged());
            if let Some(server) = frozen.server(stream) {
                let back = server.end.transmit(*now, room);
                server.touched |= server.end.take_sent();
                damage_to(damage, false);
                let back = stream.to_client.pass(back, damage.as_mut());
                if !stream.client.has_ended() {
                    stream.to_client.send(*now, &back, (conditions, dice));
                }
            }
        }
    }

    /// Moves the clock to the next arrival, and delivers what is due.
    fn deliver(&mut self) {
        let frozen = self.frozen;
        let several = self.loose || self.server.as_ref().is_some_and(|running| running.cores.len() > 1);
        let awaited = |stream: &Stream| match &stream.server {
            Some(server) => !frozen.holds(server.core),
            None => frozen != Frozen::All && !stream.waits,
        };
        let to_server =
            self.streams.values().filter(|stream| awaited(stream)).map(|stream| &stream.to_server);
        let links = to_server.chain(self.streams.values().map(|stream| &stream.to_client));
        let next = links.filter_map(Link::due).chain(self.sockets.due()).min();
        let idle = self.now + self.idle;
        self.now = next.unwrap_or(idle).min(idle).max(self.now);
        self.sockets.deliver(self.now, |side| frozen.lets_run(side));
        for stream in self.streams.values_mut() {
            while let Some(bytes) = awaited(stream).then(|| stream.to_server.arrive(self.now)).flatten() {
                match &mut stream.server {
                    Some(server) if several => {
                        server.end.parse(self.now, &bytes);
                        server.touched = true;
                    }
                    Some(server) => server.end.receive(self.now, &bytes),
                    None => {}
                }
            }
            while let Some(bytes) = stream.to_client.arrive(self.now) {
                stream.client.receive(self.now, &bytes);
            }
            close_if_asked(stream, self.now);
            end_if_severed(stream, self.now);
        }
    }

    fn run_timers(&mut self) {
        let (now, frozen, timeless) = (self.now, self.frozen, self.timeless);
        let are_forgotten = |side| match side {
            Side::Client => self.timeless_clients,
            Side::Server(_) => timeless,
        };
        self.sockets.run_timers(now, |side| frozen.lets_run(side) && !are_forgotten(side));
        for stream in self.streams.values_mut() {
            if !self.timeless_clients {
                run_timer(&mut stream.client, now);
            }
            if let Some(server) = frozen.server(stream).filter(|_| !timeless) {
                run_timer(&mut server.end, now);
            }
        }
    }

    fn remove_ended_streams(&mut self) {
        let now = self.now;
        let Self { streams, sockets, server, .. } = self;
        for (name, side) in sockets.take_finished() {
            if let (Side::Server(core), Some(running)) = (side, server.as_mut())
                && let Some(service) = running.cores.get_mut(core)
            {
                service.handle_socket_gone(now, name);
            }
        }
        streams.retain(|_, stream| {
            if let Some(served) = &stream.server
                && served.end.is_gone()
            {
                if let Some(service) = server.as_mut().and_then(|running| running.cores.get_mut(served.core))
                {
                    service.handle_gone(now, served.name);
                }
                stream.server = None;
            }
            stream.server.is_some() || !stream.client.is_gone()
        });
    }
}

/// One turn of a core, after at most so many messages: the dice say whose come first. True when something was ready.
fn run_core<S: Service>(
    now: Instant,
    (core, service): (usize, &mut S),
    (mail, most, mut dice): (&Mail<S::Message>, usize, Option<&mut Dice>),
    (streams, sockets): (&mut BTreeMap<EndpointId, Stream>, &mut Sockets),
) -> bool {
    for _ in 0..most {
        let Some(message) = mail.take(core, dice.as_deref_mut()) else { break };
        service.handle_message(now, message);
    }
    let mut ready = Vec::new();
    service.turn(now, &mut ready);
    sockets.take_turns(now, core, &ready);
    let of_core = streams.values_mut().filter_map(|stream| stream.server.as_mut());
    for server in of_core.filter(|server| server.core == core) {
        if ready.contains(&server.name) || server.touched {
            server.touched = false;
            server.end.receive(now, &[]);
        }
    }
    !ready.is_empty()
}

fn run_timer(end: &mut End, now: Instant) {
    if end.endpoint.poll_timeout().is_some_and(|due| due <= now) {
        end.endpoint.handle_timeout(now);
        end.receive(now, &[]);
    }
}

/// What travels is lost, and both ends are told.
fn reset(stream: &mut Stream, now: Instant) {
    stream.waits = false;
    stream.to_server.lose();
    stream.to_client.lose();
    stream.client.end(now, RESET);
    if let Some(server) = &mut stream.server {
        server.end.end(now, RESET);
    }
}

/// The client is told, and the server is not before what travels has reached it, late.
fn sever(stream: &mut Stream, now: Instant, late: Duration) {
    if !stream.client.has_ended() {
        stream.client.end(now, RESET);
        stream.to_client.lose();
        stream.to_server.hold_up(late);
        stream.severed = Some(now + late);
    }
}

/// Tells the server that a severed stream is over, once what travelled has arrived.
fn end_if_severed(stream: &mut Stream, now: Instant) {
    if stream.severed.is_some_and(|due| due <= now) && stream.to_server.bytes() == 0 {
        stream.severed = None;
        reset(stream, now);
    }
}

/// Closes a stream that one of its ends wants closed, once everything has arrived, or a send that has no room has had its time.
fn close_if_asked(stream: &mut Stream, now: Instant) {
    let client_asks = stream.client.endpoint.poll_close().is_some();
    let asks = |server: &Served| server.end.endpoint.poll_close().is_some();
    let server_asks = stream.server.as_ref().is_some_and(asks);
    if !client_asks && !server_asks {
        return;
    }
    let since = *stream.closing.get_or_insert(now);
    let sends = |end: &End| end.is_sending();
    let waits = client_asks && sends(&stream.client)
        || server_asks && stream.server.as_ref().is_some_and(|server| sends(&server.end));
    let travels = stream.to_server.bytes() > 0 || stream.to_client.bytes() > 0;
    if (waits && now < since + LAST_SENDS) || (travels && !waits) {
        return;
    }
    let how = |asks| if asks { Ended::ByUs } else { Ended::ByPeer };
    stream.client.end(now, how(client_asks));
    if let Some(server) = &mut stream.server {
        server.end.end(now, how(server_asks));
    }
}

impl<S: Service> Drop for World<S> {
    /// What was wished for and not begun goes with it.
    fn drop(&mut self) {
        forget_wishes();
    }
}

impl<S: Service> std::fmt::Debug for World<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("streams", &self.streams.len())
            .finish_non_exhaustive()
    }
}
