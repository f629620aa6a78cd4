//! Connections with much to send do not keep the others waiting: while those have something to do they send less at a time, and no turn of the core
//! sends or takes in more than its budget.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use buf::SharedBuf;
use host::{Accepted, Endpoint, EndpointId, ListenerId, Refusal, Service};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::driver::Wait;
use reactor::{Cluster, Config, Driver, Listener, Running};

const PIECE: usize = 4096;
const BUDGET: usize = 16 * PIECE;
const SHARE: usize = 2 * PIECE;
/// Sends of the greedy connection that are looked at after each answer to the modest one; fewer than the turns for which the core remembers.
const WATCHED: usize = 8;
/// Greedy connections at once.
const CROWD: usize = 8;
/// Sends of a greedy connection that a test waits for.
const ENOUGH: usize = 20;

/// What the two connections have done.
#[derive(Default)]
struct Seen {
    /// Sends that are still to be small, and those that were.
    watch: Cell<usize>,
    small: Cell<usize>,
    /// Larger than they may be.
    excess: Cell<usize>,
    /// Sends of the whole budget.
    large: Cell<usize>,
    /// Bytes that greedy connections gave to this turn of the core, and the sends of each of them.
    turn: Cell<usize>,
    /// Processor time that a greedy connection takes for each send.
    work: Cell<Duration>,
    /// Bytes that were taken in.
    taken: Cell<usize>,
    sends: RefCell<Vec<usize>>,
}

/// A greedy connection sends without end; a modest one answers each byte with one.
struct End {
    seen: Rc<Seen>,
    piece: SharedBuf,
    number: usize,
    is_greedy: bool,
    owed: Vec<u8>,
}

impl Endpoint for End {
    fn staging(&self) -> usize {
        16
    }
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        self.owed.extend_from_slice(bytes);
        self.seen.taken.set(self.seen.taken.get() + bytes.len());
        bytes.len()
    }
    fn take_placement(&mut self) -> Option<Placement> {
        None
    }
    fn handle_placed(&mut self, _: Instant, _: Placement) {}
    fn handle_transmitted(&mut self, _: Instant, _: usize) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_connected(&mut self, _: Instant, _: SocketAddr, _: SocketAddr) {}
    fn handle_ended(&mut self, _: Instant, _: Ended) {}
    fn turn(&mut self, _: Instant) {
        if !self.is_greedy {
            self.seen.watch.set(WATCHED);
        }
    }
    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        send.put(&self.owed);
        self.owed.clear();
        if !self.is_greedy {
            return;
        }
        while !send.is_full() {
            send.put_shared(self.piece.clone());
        }
        work(self.seen.work.get());
        let (seen, len) = (&self.seen, send.len());
        if seen.watch.get() > 0 {
            seen.watch.set(seen.watch.get() - 1);
            let counted = if len > SHARE { &seen.excess } else { &seen.small };
            counted.set(counted.get() + 1);
        }
        seen.large.set(seen.large.get() + usize::from(len == BUDGET));
        seen.turn.set(seen.turn.get() + len);
        seen.sends.borrow_mut()[self.number] += 1;
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

/// What this thread has run.
fn ran() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Keeps the processor for so long.
fn work(span: Duration) {
    let end = ran() + span;
    while !span.is_zero() && ran() < end {}
}

struct Accepts {
    seen: Rc<Seen>,
    accepted: usize,
    /// How many of the connections are greedy: the first.
    greedy: usize,
}

impl Service for Accepts {
    type Message = ();
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let (number, piece) = (self.accepted, SharedBuf::from(vec![7; PIECE]));
        self.accepted += 1;
        self.seen.sends.borrow_mut().push(0);
        let is_greedy = number < self.greedy;
        Ok(Box::new(End { seen: Rc::clone(&self.seen), piece, number, is_greedy, owed: Vec::new() }))
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {}
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        false
    }
}

/// A core that listens, with its address.
fn begin(config: Config, greedy: usize) -> (Running<Accepts>, SocketAddr, Rc<Seen>) {
    let cluster = Cluster::new(1, config).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local();
    cluster.control().open(ListenerId(0), listener).unwrap();
    let seen = Rc::<Seen>::default();
    let service = Accepts { seen: Rc::clone(&seen), accepted: 0, greedy };
    (cluster.into_cores().pop().unwrap().begin(|_| service).unwrap(), address, seen)
}

/// A client that takes whatever has come.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

fn drain(stream: &mut TcpStream) -> usize {
    let mut buffer = vec![0; 2 * BUDGET];
    match stream.read(&mut buffer) {
        Ok(count) => count,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            0
        }
    }
}

/// Turns the core, with the greedy client reading all the time, until `over` says so.
fn turn_until(core: &mut Running<Accepts>, greedy: &mut TcpStream, mut over: impl FnMut(&Accepts) -> bool) {
    loop {
        core.turn();
        core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        drain(greedy);
        if over(core.service()) {
            return;
        }
    }
}

fn a_greedy_connection_sends_less_at_a_time_while_others_have_something_to_do(driver: Driver) {
    let config = Config { driver, send_budget: BUDGET, send_share: SHARE, ..Config::default() };
    let (mut core, address, seen) = begin(config, 1);
    let mut greedy = connect(address);
    turn_until(&mut core, &mut greedy, |service| service.accepted == 1);
    turn_until(&mut core, &mut greedy, |_| seen.large.get() > 0);
    let mut modest = connect(address);
    while seen.small.get() < ENOUGH {
        modest.write_all(&[1]).unwrap();
        turn_until(&mut core, &mut greedy, |_| drain(&mut modest) > 0);
    }
    assert_eq!(seen.excess.get(), 0, "sends of more than its share");
    let before = seen.large.get();
    turn_until(&mut core, &mut greedy, |_| seen.large.get() > before);
}

fn a_turn_sends_no_more_than_its_budget_and_everybody_comes_to_it(driver: Driver) {
    let turn_budget = 2 * SHARE;
    let config = Config { driver, turn_budget, send_budget: BUDGET, send_share: SHARE, ..Config::default() };
    let (mut core, address, seen) = begin(config, CROWD);
    let mut crowd: Vec<_> = (0..CROWD).map(|_| connect(address)).collect();
    turn_until(&mut core, &mut crowd[0], |service| service.accepted == CROWD);
    // Alone, the first one had larger sends.
    for _ in 0..CROWD {
        core.turn();
        core.wait(Wait::No).unwrap();
    }
    seen.sends.borrow_mut().fill(0);
    while *seen.sends.borrow().iter().min().unwrap() < ENOUGH {
        seen.turn.set(0);
        core.turn();
        assert!(seen.turn.get() < turn_budget + SHARE, "{} bytes in one turn", seen.turn.get());
        core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        for client in &mut crowd {
            while drain(client) > 0 {}
        }
    }
    let most = *seen.sends.borrow().iter().max().unwrap();
    assert!(most <= 2 * ENOUGH, "one has sent {most} times, another {ENOUGH} times");
}

/// The most that one of so many turns of the core sends, while the crowd takes whatever has come.
fn most_of(core: &mut Running<Accepts>, crowd: &mut [TcpStream], turns: usize) -> usize {
    let seen = Rc::clone(&core.service().seen);
    let turn = |_| {
        seen.turn.set(0);
        core.turn();
        core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        for client in crowd.iter_mut() {
            while drain(client) > 0 {}
        }
        seen.turn.get()
    };
    (0..turns).map(turn).max().unwrap()
}

fn turns_that_take_long_make_the_next_ones_send_less(driver: Driver) {
    let (share, least) = (64 << 10, 256 << 10);
    let config = Config { driver, send_share: share, ..Config::default() };
    let (mut core, address, seen) = begin(config, CROWD);
    let mut crowd: Vec<_> = (0..CROWD).map(|_| connect(address)).collect();
    turn_until(&mut core, &mut crowd[0], |service| service.accepted == CROWD);
    seen.work.set(Duration::from_micros(200));
    most_of(&mut core, &mut crowd, ENOUGH);
    let most = most_of(&mut core, &mut crowd, ENOUGH);
    assert!((1..=least + share).contains(&most), "{most} bytes in a turn that takes 200 us for each {share}");
}

fn a_turn_takes_in_no_more_than_its_budget_and_everybody_comes_to_it(driver: Driver) {
    let turn_budget = 2 * PIECE;
    let config = Config { driver, turn_budget, ..Config::default() };
    let (mut core, address, seen) = begin(config, 0);
    let mut crowd: Vec<_> = (0..CROWD).map(|_| connect(address)).collect();
    turn_until(&mut core, &mut crowd[0], |service| service.accepted == CROWD);
    for client in &mut crowd {
        client.write_all(&[1; PIECE]).unwrap();
    }
    while seen.taken.get() < CROWD * PIECE {
        core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        let before = seen.taken.get();
        core.turn();
        let taken = seen.taken.get() - before;
        assert!(taken < turn_budget + PIECE, "{taken} bytes in one turn");
    }
}

#[test]
fn a_turn_takes_in_no_more_than_its_budget_uring() {
    toy::in_time(|| a_turn_takes_in_no_more_than_its_budget_and_everybody_comes_to_it(Driver::Uring));
}

#[test]
fn a_turn_takes_in_no_more_than_its_budget_epoll() {
    toy::in_time(|| a_turn_takes_in_no_more_than_its_budget_and_everybody_comes_to_it(Driver::Epoll));
}

#[test]
fn turns_that_take_long_make_the_next_ones_send_less_uring() {
    toy::in_time(|| turns_that_take_long_make_the_next_ones_send_less(Driver::Uring));
}

#[test]
fn turns_that_take_long_make_the_next_ones_send_less_epoll() {
    toy::in_time(|| turns_that_take_long_make_the_next_ones_send_less(Driver::Epoll));
}

#[test]
fn a_turn_sends_no_more_than_its_budget_uring() {
    toy::in_time(|| a_turn_sends_no_more_than_its_budget_and_everybody_comes_to_it(Driver::Uring));
}

#[test]
fn a_turn_sends_no_more_than_its_budget_epoll() {
    toy::in_time(|| a_turn_sends_no_more_than_its_budget_and_everybody_comes_to_it(Driver::Epoll));
}

#[test]
fn a_greedy_connection_sends_less_at_a_time_uring() {
    toy::in_time(|| {
        a_greedy_connection_sends_less_at_a_time_while_others_have_something_to_do(Driver::Uring);
    });
}

#[test]
fn a_greedy_connection_sends_less_at_a_time_epoll() {
    toy::in_time(|| {
        a_greedy_connection_sends_less_at_a_time_while_others_have_something_to_do(Driver::Epoll);
    });
}
