//! Sockets for datagrams on both drivers: trains of them each way, deadlines, and how they open and close.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::{
    Accepted, DatagramEndpoint, Datagrams, Dialer, Endpoint, EndpointId, ListenerId, OpenSocket, Refusal,
    Service, SlotField, SocketSlot,
};
use protocol::{Ended, Instant};
use reactor::driver::Wait;
use reactor::{Cluster, Config, DatagramSockets, Driver, ListenerControl, Running};

/// The fourth byte names the socket.
const FOURTH: SlotField = SlotField { offset: 1, unnamed: 1 };

/// What one send carries.
#[derive(Debug, Clone)]
struct Train {
    peer: SocketAddr,
    bytes: Vec<u8>,
    segment: usize,
}

/// What a socket's endpoint has seen, and is to do.
#[derive(Debug, Default)]
struct Seen {
    opened: Option<OpenSocket>,
    ended: Option<Ended>,
    /// Each datagram, with its sender.
    arrived: Vec<(SocketAddr, Vec<u8>)>,
    /// Calls that brought them.
    calls: usize,
    trains: VecDeque<Train>,
    deadline: Option<Instant>,
    late: Vec<Duration>,
    turns: usize,
    retired: bool,
    shuts_down: bool,
    /// The service has done what it was meant to do.
    is_over: bool,
    gone: Vec<EndpointId>,
}

impl Seen {
    /// Says a last word to whoever has said something, and waits for another one.
    fn last_words(&mut self) {
        self.shuts_down = true;
        let peer = self.arrived.last().map(|(peer, _)| *peer);
        self.trains.extend(peer.map(|peer| Train { peer, bytes: b"bye".to_vec(), segment: 3 }));
    }

    fn opened(&self) -> OpenSocket {
        self.opened.clone().unwrap()
    }
}

type Shared = Rc<RefCell<Seen>>;

/// Records what comes, and sends what it is told to.
struct Recorder(Shared, Option<Train>);

impl DatagramEndpoint for Recorder {
    fn handle_opened(&mut self, _: Instant, socket: OpenSocket) {
        self.0.borrow_mut().opened = Some(socket);
    }
    fn handle_datagrams(&mut self, _: Instant, datagrams: &Datagrams<'_>) {
        let mut seen = self.0.borrow_mut();
        seen.calls += 1;
        seen.arrived.extend(datagrams.each().map(|datagram| (datagrams.peer, datagram.to_vec())));
    }
    fn handle_transmitted(&mut self, _: Instant) {
        self.1 = None;
    }
    fn handle_timeout(&mut self, now: Instant) {
        let mut seen = self.0.borrow_mut();
        let deadline = seen.deadline.take().unwrap();
        seen.late.push(now.since(deadline));
    }
    fn handle_retired(&mut self, _: Instant) {
        self.0.borrow_mut().retired = true;
    }
    fn handle_shutdown(&mut self, _: Instant) {
        self.0.borrow_mut().last_words();
    }
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        self.0.borrow_mut().ended = Some(how);
    }
    fn turn(&mut self, _: Instant) {
        self.0.borrow_mut().turns += 1;
    }
    fn poll_transmit(&mut self, _: Instant) -> Option<Datagrams<'_>> {
        if self.1.is_none() {
            self.1 = self.0.borrow_mut().trains.pop_front();
        }
        let Train { peer, bytes, segment } = self.1.as_ref()?;
        Some(Datagrams { peer: *peer, bytes, segment: *segment })
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.borrow().deadline
    }
    fn is_finished(&self) -> bool {
        let seen = self.0.borrow();
        seen.retired || seen.shuts_down && seen.arrived.last().is_some_and(|(_, last)| last == b"bye")
    }
    fn expects_work(&self) -> bool {
        false
    }
}

struct Sockets(Shared);

impl Service for Sockets {
    type Message = ();
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("no streams here"))
    }
    fn open_socket(&mut self, _: Instant, _: OpenSocket) -> Option<Box<dyn DatagramEndpoint>> {
        Some(Box::new(Recorder(Rc::clone(&self.0), None)))
    }
    fn handle_socket_gone(&mut self, _: Instant, socket: EndpointId) {
        self.0.borrow_mut().gone.push(socket);
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {}
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.0.borrow().is_over
    }
}

struct Bench {
    core: Running<Sockets>,
    control: ListenerControl,
    dialer: Arc<dyn Dialer>,
    seen: Shared,
}

impl Bench {
    fn new(driver: Driver) -> Self {
        let cluster = Cluster::new(1, Config { driver, ..Config::default() }).unwrap();
        let (control, seen) = (cluster.control(), Shared::default());
        let mut dialer = None;
        let core = cluster.into_cores().remove(0).begin(|world| {
            dialer = Some(world.dialer);
            Sockets(Rc::clone(&seen))
        });
        Self { core: core.unwrap(), control, dialer: dialer.unwrap(), seen }
    }

    fn run_until(&mut self, mut over: impl FnMut(&Seen) -> bool) {
        while !over(&self.seen.borrow()) {
            self.core.turn();
            self.core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        }
    }

    /// A socket that the service has, and where it is.
    fn open(&mut self) -> SocketAddr {
        let sockets = DatagramSockets::bind("127.0.0.1:0".parse().unwrap(), FOURTH, 1).unwrap();
        let local = sockets.local();
        self.control.open_sockets(ListenerId(7), sockets).unwrap();
        self.run_until(|seen| seen.opened.is_some());
        assert_eq!(self.seen.borrow().opened().local, local);
        local
    }
}

/// A peer that waits for what comes, but not for ever.
fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    socket
}

fn both(test: fn(Driver)) {
    test(Driver::Epoll);
    test(Driver::Auto);
}

#[test]
fn a_train_goes_out_in_one_call_and_arrives_one_by_one() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let (from, to) = (bench.open(), peer());
        let bytes: Vec<u8> = (0..41_u8).flat_map(|part| vec![part; 1000]).take(40_010).collect();
        let train = Train { peer: to.local_addr().unwrap(), bytes: bytes.clone(), segment: 1000 };
        bench.seen.borrow_mut().trains = [train.clone(), train].into();
        // It has a turn when something comes.
        to.send_to(&[1], from).unwrap();
        bench.run_until(|seen| seen.trains.is_empty());
        bench.core.turn();
        for _ in 0..2 {
            for expected in bytes.chunks(1000) {
                let mut into = [0; 2000];
                let (count, sender) = to.recv_from(&mut into).unwrap();
                assert_eq!((&into[..count], sender), (expected, from));
            }
        }
    });
}

#[test]
fn datagrams_of_any_length_arrive_whole_and_apart() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let (to, from) = (bench.open(), peer());
        let sent: Vec<Vec<u8>> = (0..50u8).map(|one| vec![one; 1 + usize::from(one) % 3 * 700]).collect();
        for datagram in &sent {
            from.send_to(datagram, to).unwrap();
        }
        bench.run_until(|seen| seen.arrived.len() == 50);
        let sender = from.local_addr().unwrap();
        let expected: Vec<_> = sent.into_iter().map(|datagram| (sender, datagram)).collect();
        assert_eq!(bench.seen.borrow().arrived, expected);
    });
}

#[test]
fn a_train_from_another_socket_comes_in_one_call() {
    both(|driver| {
        let mut near = Bench::new(driver);
        let to = near.open();
        {
            // A core lives on the thread that began it.
            let far = std::thread::spawn(move || {
                let mut far = Bench::new(driver);
                let train = Train { peer: to, bytes: vec![5; 60_000], segment: 1200 };
                far.seen.borrow_mut().trains = [train].into();
                let endpoint = Box::new(Recorder(Rc::clone(&far.seen), None));
                let path = far.dialer.path_to(to).unwrap();
                assert!(path.mtu > 60_000, "loopback carries them: {path:?}");
                far.dialer.open_socket(SocketAddr::new(path.local, 0), FOURTH, endpoint);
                far.run_until(|seen| seen.opened.is_some() && seen.trains.is_empty());
                far.seen.borrow_mut().retired = true;
                far.seen.borrow().opened().local
            });
            near.run_until(|seen| seen.arrived.len() == 50);
            let sender = far.join().unwrap();
            let seen = near.seen.borrow();
            assert!(seen.arrived.iter().all(|(from, datagram)| (*from, datagram.len()) == (sender, 1200)));
            assert_eq!(seen.calls, 1, "the kernel keeps a train together");
        }
    });
}

#[test]
fn deadlines_come_and_anybody_can_wake_a_socket() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let local = bench.open();
        bench.seen.borrow_mut().deadline = Some(reactor::now() + Duration::from_millis(20));
        peer().send_to(&[1], local).unwrap();
        bench.run_until(|seen| seen.late.len() == 1);
        let (id, turns) = (bench.seen.borrow().opened().endpoint, bench.seen.borrow().turns);
        let waker = bench.dialer.waker(id);
        std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        bench.run_until(|seen| seen.turns > turns);
    });
}

#[test]
fn a_socket_closes_when_its_endpoint_has_finished() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let local = bench.open();
        assert!(UdpSocket::bind(local).is_err());
        assert!(bench.control.close(ListenerId(7)));
        bench.run_until(|seen| !seen.gone.is_empty());
        assert_eq!(bench.seen.borrow().gone, [bench.seen.borrow().opened().endpoint]);
        drop(UdpSocket::bind(local).unwrap());
    });
}

#[test]
fn a_loop_that_ends_lets_its_sockets_say_so_and_waits_a_moment_for_answers() {
    both(|driver| {
        for answers in [true, false] {
            let mut bench = Bench::new(driver);
            let (local, peer) = (bench.open(), peer());
            peer.send_to(b"hello", local).unwrap();
            bench.run_until(|seen| !seen.arrived.is_empty());
            bench.seen.borrow_mut().is_over = true;
            let mut heard = None;
            while !bench.core.turn() {
                bench.core.wait(Wait::For(Duration::from_millis(1))).unwrap();
                let mut into = [0; 10];
                peer.set_nonblocking(true).unwrap();
                if let Ok(count) = peer.recv(&mut into) {
                    heard = Some(into[..count].to_vec());
                    if answers {
                        peer.send_to(b"bye", local).unwrap();
                    }
                }
            }
            assert_eq!(heard.as_deref(), Some(&b"bye"[..]));
            let ended = (!answers).then_some(Ended::ByUs);
            assert_eq!(bench.seen.borrow().ended, ended, "it was waited for, but not for ever");
        }
    });
}

#[test]
fn what_cannot_be_opened_is_told() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let taken = peer();
        let endpoint = Box::new(Recorder(Rc::clone(&bench.seen), None));
        bench.dialer.open_socket(taken.local_addr().unwrap(), FOURTH, endpoint);
        bench.run_until(|seen| seen.ended.is_some());
        assert_eq!(bench.seen.borrow().ended, Some(Ended::Failed(libc::EADDRINUSE)));
    });
    let wildcard = DatagramSockets::bind("0.0.0.0:0".parse().unwrap(), FOURTH, 1);
    assert!(wildcard.is_err(), "sums cover addresses");
}

#[test]
fn each_core_has_a_socket_and_gets_what_names_it_or_is_forwarded_to_it() {
    both(|driver| {
        const CORES: u8 = 3;
        let cluster = Cluster::new(u16::from(CORES), Config { driver, ..Config::default() }).unwrap();
        let sockets =
            DatagramSockets::bind("127.0.0.1:0".parse().unwrap(), FOURTH, u16::from(CORES)).unwrap();
        let (local, control) = (sockets.local(), cluster.control());
        control.open_sockets(ListenerId(7), sockets).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let run = |core: reactor::Core<()>| {
            let (number, tell) = (u8::try_from(core.index()).unwrap(), tell.clone());
            std::thread::spawn(move || {
                let seen = Shared::default();
                let mut running = core.begin(|_| Sockets(Rc::clone(&seen))).unwrap();
                let mut run_until = |over: &dyn Fn(&Seen) -> bool| {
                    while !over(&seen.borrow()) {
                        running.turn();
                        running.wait(Wait::For(Duration::from_millis(1))).unwrap();
                    }
                };
                run_until(&|seen| seen.opened.is_some());
                let opened = seen.borrow().opened();
                assert_eq!((opened.local, opened.membership.slot), (local, SocketSlot(number)));
                tell.send(()).unwrap();
                run_until(&|seen| !seen.arrived.is_empty());
                // What has come goes on to the next core as well.
                let (peer, bytes) = seen.borrow().arrived[0].clone();
                assert_eq!(bytes, [9, 9, 9, number], "from {peer}");
                let next = SocketSlot((number + 1) % CORES);
                let forwarded = Datagrams { peer, bytes: &bytes, segment: bytes.len() };
                opened.membership.group.forward(next, &forwarded);
                run_until(&|seen| seen.arrived.len() == 2);
                assert_eq!(seen.borrow().arrived[1], (peer, vec![9, 9, 9, (number + CORES - 1) % CORES]));
                tell.send(()).unwrap();
                run_until(&|seen| seen.retired && !seen.gone.is_empty());
            })
        };
        let threads: Vec<_> = cluster.into_cores().into_iter().map(run).collect();
        let wait = || (0..CORES).for_each(|_| told.recv_timeout(Duration::from_mins(1)).unwrap());
        wait();
        let peer = peer();
        for core in 0..CORES {
            peer.send_to(&[9, 9, 9, core], local).unwrap();
        }
        wait();
        assert!(control.close(ListenerId(7)));
        for thread in threads {
            thread.join().unwrap();
        }
        drop(UdpSocket::bind(local).expect("all are closed"));
    });
}
