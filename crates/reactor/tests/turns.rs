//! Who is given a turn, and when: what a service asks of an endpoint is done in the same turn, a wake-up by the core's own thread
//! costs no further one, and connections that are idle have none at all, however many there are.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::task::Waker;

use host::{Accepted, Dialer, Endpoint, EndpointId, ListenerId, Refusal, Service};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::driver::Wait;
use reactor::{Cluster, Config, Core, Driver, Listener, Running};

/// Idle connections.
const IDLE: usize = 200;
const ROUNDS: usize = 20;

/// What is counted of endpoints.
#[derive(Default)]
struct Seen {
    connected: Cell<bool>,
    turns: Cell<usize>,
    bytes: Cell<usize>,
}

/// Sends back what comes, and counts.
struct Echo {
    seen: Rc<Seen>,
    waker: Waker,
    owed: Vec<u8>,
}

impl Endpoint for Echo {
    fn staging(&self) -> usize {
        16
    }
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        self.owed.extend_from_slice(bytes);
        self.seen.bytes.set(self.seen.bytes.get() + bytes.len());
        bytes.len()
    }
    fn take_placement(&mut self) -> Option<Placement> {
        None
    }
    fn handle_placed(&mut self, _: Instant, _: Placement) {}
    fn handle_transmitted(&mut self, _: Instant, _: usize) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_connected(&mut self, _: Instant, _: SocketAddr, _: SocketAddr) {
        self.seen.connected.set(true);
    }
    fn handle_ended(&mut self, _: Instant, _: Ended) {}
    fn turn(&mut self, _: Instant) {
        self.seen.turns.set(self.seen.turns.get() + 1);
        // As a remote volume's connection does when a request is over.
        self.waker.wake_by_ref();
    }
    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        send.put(&self.owed);
        self.owed.clear();
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn wants_bytes(&mut self) -> bool {
        true
    }
    fn poll_close(&self) -> Option<CloseReason> {
        None
    }
    fn is_idle(&self) -> bool {
        true
    }
    fn expects_work(&self) -> bool {
        false
    }
}

/// Accepts echoes, and asks one for a turn when it is told to.
struct Asks {
    dialer: std::sync::Arc<dyn Dialer>,
    waker: Waker,
    endpoint: Option<EndpointId>,
    ask: bool,
    turns: usize,
    accepted: Vec<Rc<Seen>>,
}

impl Service for Asks {
    type Message = ();
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let seen = Rc::<Seen>::default();
        self.accepted.push(Rc::clone(&seen));
        Ok(Box::new(Echo { seen, waker: self.waker.clone(), owed: Vec::new() }))
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {
        self.turns += 1;
        if let Some(endpoint) = self.endpoint.filter(|_| std::mem::take(&mut self.ask)) {
            self.dialer.wake(endpoint);
        }
    }
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        false
    }
}

fn begin(cluster: Cluster<()>) -> Running<Asks> {
    begin_core(cluster.into_cores().pop().unwrap())
}

fn begin_core(core: Core<()>) -> Running<Asks> {
    core.begin(|world| Asks {
        dialer: world.dialer,
        waker: world.waker,
        endpoint: None,
        ask: false,
        turns: 0,
        accepted: Vec::new(),
    })
    .unwrap()
}

fn turn_until(core: &mut Running<Asks>, mut over: impl FnMut(&Asks) -> bool) {
    loop {
        core.turn();
        if over(core.service()) {
            return;
        }
        core.wait(Wait::Forever).unwrap();
    }
}

/// Streams to `listener` that wait to be accepted.
fn callers(listener: &Listener, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(listener.local()).unwrap()).collect()
}

/// Streams that one turn accepts from one listener at most: `ACCEPTS_PER_TURN`, each time that it looks for events.
const ACCEPTED_AT_ONCE: usize = 2 * 64;

fn a_crowd_is_accepted_in_parts(driver: Driver) {
    const CROWD: usize = 3 * ACCEPTED_AT_ONCE;
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let crowd = callers(&listener, CROWD);
    let cluster = Cluster::new(1, config(driver)).unwrap();
    cluster.control().open(ListenerId(0), listener).unwrap();
    let mut core = begin(cluster);
    let mut accepted = vec![0];
    turn_until(&mut core, |service| {
        accepted.push(service.accepted.len());
        service.accepted.len() == crowd.len()
    });
    let most = accepted.windows(2).map(|turn| turn[1] - turn[0]).max();
    assert!(
        most <= Some(ACCEPTED_AT_ONCE),
        "a turn accepted {most:?} of {CROWD}: who is there already has no turn meanwhile"
    );
}

/// How a core comes to its end.
#[derive(Clone, Copy)]
enum End {
    BeforeItBegins,
    /// As by a panic or a failure of its service.
    AfterItHasBegun,
}

fn no_stream_goes_to_a_core_that_has_ended(driver: Driver, end: End) {
    const CROWD: usize = 10;
    let cluster = Cluster::new(2, config(driver)).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let crowd = callers(&listener, CROWD);
    cluster.control().open(ListenerId(0), listener).unwrap();
    let mut cores = cluster.into_cores().into_iter();
    let first = cores.next().unwrap();
    let other = cores.next().unwrap();
    match end {
        End::BeforeItBegins => drop(other),
        End::AfterItHasBegun => std::thread::spawn(move || drop(begin_core(other))).join().unwrap(),
    }
    let mut core = begin_core(first);
    turn_until(&mut core, |service| service.accepted.len() == crowd.len());
}

#[test]
fn what_turns_take_is_told_of_every_core() {
    for cores in [1, 3] {
        assert_eq!(Cluster::<()>::new(cores, Config::default()).unwrap().turns().len(), usize::from(cores));
    }
}

fn config(driver: Driver) -> Config {
    Config { driver, ..Config::default() }
}

fn a_request_goes_out_in_the_turn_that_made_it(driver: Driver) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut core = begin(Cluster::new(1, config(driver)).unwrap());
    let seen = Rc::<Seen>::default();
    let waker = core.service().waker.clone();
    let endpoint = Echo { seen: Rc::clone(&seen), waker, owed: Vec::new() };
    let dialer = std::sync::Arc::clone(&core.service().dialer);
    core.service().endpoint = Some(dialer.dial(listener.local_addr().unwrap(), Box::new(endpoint)));
    turn_until(&mut core, |_| seen.connected.get());
    core.turn();
    let before = seen.turns.get();
    core.service().ask = true;
    core.turn();
    assert_eq!(seen.turns.get(), before + 1, "the endpoint was asked in that turn, and once");
    // The endpoint has woken its own core, whose service has looked since: nothing is left to do, and a wait would last.
    let turns = core.service().turns;
    core.wait(Wait::For(std::time::Duration::from_millis(1))).unwrap();
    assert_eq!((seen.turns.get(), core.service().turns), (before + 1, turns));
}

fn idle_connections_have_no_turns(driver: Driver) {
    let cluster = Cluster::new(1, config(driver)).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local();
    cluster.control().open(ListenerId(0), listener).unwrap();
    let mut core = begin(cluster);
    let idle: Vec<TcpStream> = (0..IDLE).map(|_| TcpStream::connect(address).unwrap()).collect();
    turn_until(&mut core, |service| service.accepted.len() == IDLE);
    let mut busy = TcpStream::connect(address).unwrap();
    turn_until(&mut core, |service| service.accepted.len() > IDLE);
    let count = |core: &mut Running<Asks>| -> usize {
        core.service().accepted[..IDLE].iter().map(|seen| seen.turns.get()).sum()
    };
    let (idle_before, turns_before) = (count(&mut core), core.service().turns);
    for round in 1..=ROUNDS {
        busy.write_all(&[7]).unwrap();
        turn_until(&mut core, |service| service.accepted[IDLE].bytes.get() == round);
        // What the turn had to send goes out with the wait.
        core.wait(Wait::No).unwrap();
        busy.read_exact(&mut [0]).unwrap();
    }
    assert_eq!(count(&mut core), idle_before, "who is idle has no turn");
    let turns = core.service().turns - turns_before;
    assert!(turns <= 8 * ROUNDS, "{turns} turns for {ROUNDS} bytes");
    drop(idle);
}

#[test]
fn a_request_goes_out_in_the_turn_that_made_it_uring() {
    toy::in_time(|| a_request_goes_out_in_the_turn_that_made_it(Driver::Uring));
}

#[test]
fn a_request_goes_out_in_the_turn_that_made_it_epoll() {
    toy::in_time(|| a_request_goes_out_in_the_turn_that_made_it(Driver::Epoll));
}

#[test]
fn idle_connections_have_no_turns_uring() {
    toy::in_time(|| idle_connections_have_no_turns(Driver::Uring));
}

#[test]
fn idle_connections_have_no_turns_epoll() {
    toy::in_time(|| idle_connections_have_no_turns(Driver::Epoll));
}

#[test]
fn a_crowd_is_accepted_in_parts_uring() {
    toy::in_time(|| a_crowd_is_accepted_in_parts(Driver::Uring));
}

#[test]
fn a_crowd_is_accepted_in_parts_epoll() {
    toy::in_time(|| a_crowd_is_accepted_in_parts(Driver::Epoll));
}

#[test]
fn no_stream_goes_to_a_core_that_has_ended_uring() {
    toy::in_time(|| no_stream_goes_to_a_core_that_has_ended(Driver::Uring, End::AfterItHasBegun));
}

#[test]
fn no_stream_goes_to_a_core_that_never_began_uring() {
    toy::in_time(|| no_stream_goes_to_a_core_that_has_ended(Driver::Uring, End::BeforeItBegins));
}

#[test]
fn no_stream_goes_to_a_core_that_has_ended_epoll() {
    toy::in_time(|| no_stream_goes_to_a_core_that_has_ended(Driver::Epoll, End::AfterItHasBegun));
}

#[test]
fn no_stream_goes_to_a_core_that_never_began_epoll() {
    toy::in_time(|| no_stream_goes_to_a_core_that_has_ended(Driver::Epoll, End::BeforeItBegins));
}
