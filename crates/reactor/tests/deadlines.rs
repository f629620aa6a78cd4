//! Deadlines of endpoints and of the service come in order, on both drivers.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use host::{Accepted, Endpoint, EndpointId, Refusal, Service};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::{Cluster, Config, Driver};
use socket2::{Domain, Socket, Type};

/// What is added to the name of an endpoint that could not be connected in time.
const TIMED_OUT: u32 = 1000;

type Log = Rc<RefCell<Vec<(u32, Duration)>>>;

/// Has deadlines, one after the other, and says when it was called.
struct Clock {
    name: u32,
    connect: Option<Duration>,
    started: Option<Instant>,
    waits: Vec<Duration>,
    log: Log,
}

impl Endpoint for Clock {
    fn staging(&self) -> usize {
        0
    }
    fn handle_bytes(&mut self, _: Instant, _: &[u8]) -> usize {
        0
    }
    fn take_placement(&mut self) -> Option<Placement> {
        None
    }
    fn handle_placed(&mut self, _: Instant, _: Placement) {}
    fn handle_transmitted(&mut self, _: Instant, _: usize) {}
    fn handle_timeout(&mut self, now: Instant) {
        let late = now.since(self.poll_timeout().unwrap());
        self.log.borrow_mut().push((self.name, late));
        self.waits.pop();
        self.started = Some(now);
    }
    fn handle_connected(&mut self, now: Instant, local: SocketAddr, peer: SocketAddr) {
        assert_ne!(local, peer);
        self.started = Some(now);
    }
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        if how == Ended::Failed(libc::ETIMEDOUT) {
            self.log.borrow_mut().push((TIMED_OUT + self.name, Duration::ZERO));
        }
    }
    fn connect_time(&self) -> Option<Duration> {
        self.connect
    }
    fn turn(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant, _: &mut Transmit) {}
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.started? + *self.waits.last()?)
    }
    fn wants_bytes(&mut self) -> bool {
        true
    }
    fn poll_close(&self) -> Option<CloseReason> {
        self.waits.is_empty().then_some(CloseReason::Finished)
    }
    fn is_idle(&self) -> bool {
        true
    }
    fn expects_work(&self) -> bool {
        false
    }
}

/// Has a deadline of its own, and ends with the last endpoint.
struct Clocks {
    left: usize,
    deadline: Option<Instant>,
    log: Log,
}

impl Service for Clocks {
    type Message = u32;
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("no"))
    }
    fn handle_message(&mut self, _: Instant, _: u32) {}
    fn turn(&mut self, now: Instant, _: &mut Vec<EndpointId>) {
        if let Some(deadline) = self.deadline.take_if(|deadline| *deadline <= now) {
            self.log.borrow_mut().push((99, now.since(deadline)));
        }
    }
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {
        self.left -= 1;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
    fn is_finished(&self) -> bool {
        self.left == 0
    }
}

fn deadlines_come_in_order(driver: Driver) {
    // Nobody accepts: the backlog is enough for a connection to stand.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap();
    let log = Log::default();
    let cluster = Cluster::<u32>::new(1, Config { driver, ..Config::default() }).unwrap();
    let core = cluster.into_cores().pop().unwrap();
    // Far enough apart for a machine that has much else to do: what is late delays what follows it.
    let ms = Duration::from_millis;
    core.run(|world| {
        for (name, waits) in [(1, vec![ms(640), ms(160)]), (2, vec![ms(400)]), (3, vec![ms(1200)])] {
            let clock = Clock { name, connect: None, started: None, waits, log: Rc::clone(&log) };
            world.dialer.dial(peer, Box::new(clock));
        }
        Clocks { left: 3, deadline: Some(reactor::now() + ms(1000)), log: Rc::clone(&log) }
    })
    .unwrap();
    drop(listener);
    let names: Vec<u32> = log.borrow().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [1, 2, 1, 99, 3]);
}

/// Fills the listener's queue, so that the kernel drops who knocks from then on, as a network would that leads nowhere.
fn fill(listener: &Socket) -> Vec<Socket> {
    let peer = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let knocked = socket.connect_timeout(&peer, Duration::from_millis(200));
        waiting.push(socket);
        if knocked.is_err() {
            return waiting;
        }
    }
}

fn an_impatient_endpoint_waits_no_longer_to_be_connected(driver: Driver) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let _waiting = fill(&listener);
    let peer = listener.local_addr().unwrap().as_socket().unwrap();
    let log = Log::default();
    let cluster = Cluster::<u32>::new(1, Config { driver, ..Config::default() }).unwrap();
    let core = cluster.into_cores().pop().unwrap();
    core.run(|world| {
        let connect = Some(Duration::from_millis(50));
        world.dialer.dial(
            peer,
            Box::new(Clock { name: 1, connect, started: None, waits: Vec::new(), log: Rc::clone(&log) }),
        );
        // Before the loop's own limit, and long after the endpoint's.
        let deadline = Some(reactor::now() + Duration::from_secs(5));
        Clocks { left: 1, deadline, log: Rc::clone(&log) }
    })
    .unwrap();
    let names: Vec<u32> = log.borrow().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [TIMED_OUT + 1], "it ended as timed out, and nothing came before");
}

#[test]
fn uring() {
    toy::in_time(|| deadlines_come_in_order(Driver::Uring));
}

#[test]
fn epoll() {
    toy::in_time(|| deadlines_come_in_order(Driver::Epoll));
}

#[test]
fn uring_connects_no_longer_than_the_endpoint_wants() {
    toy::in_time(|| an_impatient_endpoint_waits_no_longer_to_be_connected(Driver::Uring));
}

#[test]
fn epoll_connects_no_longer_than_the_endpoint_wants() {
    toy::in_time(|| an_impatient_endpoint_waits_no_longer_to_be_connected(Driver::Epoll));
}
