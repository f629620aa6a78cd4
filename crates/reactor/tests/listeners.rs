//! Listeners open and close while the cluster runs: what was accepted lives on, the address is free again, and nothing is left behind.
#![allow(clippy::unwrap_used, reason = "tests")]

mod toy;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use host::{Accepted, Endpoint, EndpointId, ListenerId, Refusal, Service};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::driver::Wait;
use reactor::{Cluster, Config, Core, Driver, Listener, ListenerControl, Running, Stopper};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use toy::in_time;

const FIRST: ListenerId = ListenerId(7);

/// Runs a test that has the process for itself: some count its descriptors, or limit them.
fn run(test: fn(Driver), driver: Driver) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    in_time(move || test(driver));
}

/// Sends back what comes.
#[derive(Default)]
struct Echo {
    unsent: Vec<u8>,
}

impl Endpoint for Echo {
    fn staging(&self) -> usize {
        16
    }
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        self.unsent.extend_from_slice(bytes);
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
    fn turn(&mut self, _: Instant) {}
    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        send.put(&self.unsent);
        self.unsent.clear();
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

/// What the services of all cores have seen, and the listeners that they serve.
#[derive(Default)]
struct Seen {
    served: Mutex<HashSet<ListenerId>>,
    accepted: Mutex<Vec<(u16, ListenerId)>>,
    refused: Mutex<Vec<(u16, ListenerId)>>,
    gone: Mutex<usize>,
    shortages: Mutex<usize>,
}

impl Seen {
    fn accepted(&self) -> usize {
        self.accepted.lock().unwrap().len()
    }
}

/// Accepts echoes from the listeners that are served.
struct Echoes {
    core: u16,
    seen: Arc<Seen>,
}

impl Service for Echoes {
    type Message = ();
    fn accept(&mut self, _: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        if !self.seen.served.lock().unwrap().contains(&accepted.listener) {
            self.seen.refused.lock().unwrap().push((self.core, accepted.listener));
            return Err(Refusal("the listener is not served any more"));
        }
        self.seen.accepted.lock().unwrap().push((self.core, accepted.listener));
        Ok(Box::<Echo>::default())
    }
    fn handle_shortage(&mut self, _: i32) {
        *self.seen.shortages.lock().unwrap() += 1;
    }
    fn handle_message(&mut self, _: Instant, (): ()) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {}
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {
        *self.seen.gone.lock().unwrap() += 1;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        false
    }
}

/// The cores of a cluster, the first of which is run by the test itself, step by step.
struct Bench {
    core: Running<Echoes>,
    others: Vec<Core<()>>,
    control: ListenerControl,
    stopper: Stopper,
    seen: Arc<Seen>,
}

impl Bench {
    fn new(driver: Driver, cores: u16) -> Self {
        let cluster = Cluster::new(cores, Config { driver, ..Config::default() }).unwrap();
        let (control, stopper, seen) = (cluster.control(), cluster.stopper(), Arc::<Seen>::default());
        let mut others = cluster.into_cores();
        let service = Echoes { core: 0, seen: Arc::clone(&seen) };
        let core = others.remove(0).begin(|_| service).unwrap();
        Self { core, others, control, stopper, seen }
    }

    /// Opens a listener that the services know.
    fn open(&self, id: ListenerId, address: SocketAddr) -> SocketAddr {
        let listener = Listener::bind(address).unwrap();
        let address = listener.local();
        self.seen.served.lock().unwrap().insert(id);
        self.control.open(id, listener).unwrap();
        address
    }

    /// Runs the first core until `over`.
    fn run_until(&mut self, mut over: impl FnMut(&Seen) -> bool) {
        while !over(&self.seen) {
            self.core.turn();
            self.core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        }
    }

    /// Runs the first core until somebody else could listen at `address`.
    fn run_until_free(&mut self, address: SocketAddr) {
        self.run_until(|_| TcpListener::bind(address).is_ok());
    }

    /// Sends a byte, and has it come back.
    fn echo(&mut self, stream: &mut TcpStream) {
        stream.set_nonblocking(true).unwrap();
        stream.write_all(&[9]).unwrap();
        self.run_until(|_| matches!(stream.read(&mut [0]), Ok(1)));
    }
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn a_thousand_listeners_come_and_go_and_leave_nothing_behind(driver: Driver) {
    let mut bench = Bench::new(driver, 1);
    let address = bench.open(FIRST, anywhere());
    let mut first = TcpStream::connect(address).unwrap();
    bench.run_until(|seen| seen.accepted() == 1);
    assert!(bench.control.close(FIRST));
    bench.run_until_free(address);
    bench.echo(&mut first);
    let before = descriptors();
    for round in 1..=1000 {
        let id = ListenerId(FIRST.0 + round);
        assert_eq!(bench.open(id, address), address);
        let mut stream = TcpStream::connect(address).unwrap();
        bench.run_until(|seen| seen.accepted.lock().unwrap().last() == Some(&(0, id)));
        assert!(bench.control.close(id));
        bench.run_until_free(address);
        bench.echo(&mut stream);
        drop(stream);
        bench.run_until(|seen| *seen.gone.lock().unwrap() == round as usize);
    }
    bench.echo(&mut first);
    assert_eq!(descriptors(), before);
    assert!(bench.seen.refused.lock().unwrap().is_empty());
}

fn a_listener_closes_while_it_has_backed_off(driver: Driver) {
    let mut bench = Bench::new(driver, 1);
    let other = bench.open(ListenerId(1), anywhere());
    let address = bench.open(FIRST, anywhere());
    bench.core.turn();
    bench.core.wait(Wait::No).unwrap();
    // Both wait to be accepted, and no descriptor is left for that.
    let waiting = [address, other].map(|address| TcpStream::connect(address).unwrap());
    let limit = getrlimit(Resource::Nofile);
    let highest = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap());
    // The listing itself has the highest, or leaves a gap below it.
    let highest = highest.max().unwrap();
    let mut gaps = Vec::new();
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest), ..limit }).unwrap();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        gaps.push(file);
    }
    bench.run_until(|seen| *seen.shortages.lock().unwrap() >= 2);
    assert!(bench.control.close(FIRST));
    bench.core.turn();
    bench.core.wait(Wait::No).unwrap();
    drop(gaps);
    setrlimit(Resource::Nofile, limit).unwrap();
    // After one turn: no poll was under way.
    TcpListener::bind(address).unwrap();
    bench.run_until(|seen| seen.accepted() == 1);
    assert_eq!(*bench.seen.accepted.lock().unwrap(), [(0, ListenerId(1))], "who waits gets in");
    drop(waiting);
}

fn a_listener_that_is_not_there_closes_without_effect(driver: Driver) {
    let mut bench = Bench::new(driver, 1);
    assert!(!bench.control.close(FIRST));
    let address = bench.open(FIRST, anywhere());
    assert!(bench.control.close(FIRST) && !bench.control.close(FIRST), "before the core has seen it at all");
    bench.run_until_free(address);
    let address = bench.open(ListenerId(8), anywhere());
    assert!(!bench.control.close(FIRST), "another one is there");
    let mut stream = TcpStream::connect(address).unwrap();
    bench.run_until(|seen| seen.accepted() == 1);
    bench.echo(&mut stream);
}

fn a_stream_on_its_way_to_another_core_is_refused_once_its_listener_is_gone(driver: Driver) {
    let mut bench = Bench::new(driver, 2);
    let address = bench.open(FIRST, anywhere());
    let mut streams: Vec<_> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    // One for each core, the second of which has not begun yet.
    bench.run_until(|seen| seen.accepted() == 1);
    bench.seen.served.lock().unwrap().remove(&FIRST);
    assert!(bench.control.close(FIRST));
    bench.run_until_free(address);
    let (seen, second) = (Arc::clone(&bench.seen), bench.others.remove(0));
    let second = second.spawn(move |_| Echoes { core: 1, seen }).unwrap();
    bench.run_until(|seen| !seen.refused.lock().unwrap().is_empty());
    assert_eq!(*bench.seen.refused.lock().unwrap(), [(1, FIRST)]);
    assert_eq!(streams[1].read(&mut [0]).unwrap(), 0, "the refused stream ends in order");
    bench.echo(&mut streams[0]);
    // What was refused does not count as a connection: the next stream goes to the second core, which has fewer.
    let address = bench.open(ListenerId(8), anywhere());
    let _next = TcpStream::connect(address).unwrap();
    bench.run_until(|seen| seen.accepted() == 2);
    assert_eq!(bench.seen.accepted.lock().unwrap()[1], (1, ListenerId(8)));
    bench.stopper.stop();
    second.join().unwrap().unwrap();
}

/// Also those that are opened afterwards, and whatever else still refers to the cluster.
fn a_cluster_whose_first_core_never_runs_closes_its_listeners(driver: Driver) {
    let cluster = Cluster::<()>::new(2, Config { driver, ..Config::default() }).unwrap();
    let (control, _postbox) = (cluster.control(), cluster.postbox());
    let listeners = [0, 1].map(|_| Listener::bind(anywhere()).unwrap());
    let addresses = [0, 1].map(|index: usize| listeners[index].local());
    let [early, late] = listeners;
    control.open(ListenerId(0), early).unwrap();
    assert!(TcpListener::bind(addresses[0]).is_err());
    let _second = cluster.into_cores().remove(1);
    control.open(ListenerId(1), late).unwrap();
    for address in addresses {
        TcpListener::bind(address).unwrap();
    }
}

/// The orders come from another thread, and wake a core that sleeps.
fn any_thread_opens_and_closes(driver: Driver) {
    let cluster = Cluster::new(1, Config { driver, ..Config::default() }).unwrap();
    let (control, stopper, seen) = (cluster.control(), cluster.stopper(), Arc::<Seen>::default());
    let service = Echoes { core: 0, seen: Arc::clone(&seen) };
    let thread = cluster.into_cores().remove(0).spawn(|_| service).unwrap();
    seen.served.lock().unwrap().extend((0..20).map(ListenerId));
    for id in (0..20).map(ListenerId) {
        let listener = Listener::bind(anywhere()).unwrap();
        let address = listener.local();
        control.open(id, listener).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[9]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        assert!(control.close(id));
        while TcpListener::bind(address).is_err() {
            std::thread::yield_now();
        }
        stream.write_all(&[9]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
    }
    stopper.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn a_thousand_listeners_come_and_go_uring() {
    run(a_thousand_listeners_come_and_go_and_leave_nothing_behind, Driver::Uring);
}

#[test]
fn a_thousand_listeners_come_and_go_epoll() {
    run(a_thousand_listeners_come_and_go_and_leave_nothing_behind, Driver::Epoll);
}

#[test]
fn a_listener_closes_while_it_has_backed_off_uring() {
    run(a_listener_closes_while_it_has_backed_off, Driver::Uring);
}

#[test]
fn a_listener_closes_while_it_has_backed_off_epoll() {
    run(a_listener_closes_while_it_has_backed_off, Driver::Epoll);
}

#[test]
fn a_listener_that_is_not_there_closes_without_effect_uring() {
    run(a_listener_that_is_not_there_closes_without_effect, Driver::Uring);
}

#[test]
fn a_listener_that_is_not_there_closes_without_effect_epoll() {
    run(a_listener_that_is_not_there_closes_without_effect, Driver::Epoll);
}

#[test]
fn a_stream_of_a_closed_listener_is_refused_by_another_core_uring() {
    run(a_stream_on_its_way_to_another_core_is_refused_once_its_listener_is_gone, Driver::Uring);
}

#[test]
fn a_stream_of_a_closed_listener_is_refused_by_another_core_epoll() {
    run(a_stream_on_its_way_to_another_core_is_refused_once_its_listener_is_gone, Driver::Epoll);
}

#[test]
fn any_thread_opens_and_closes_uring() {
    run(any_thread_opens_and_closes, Driver::Uring);
}

#[test]
fn any_thread_opens_and_closes_epoll() {
    run(any_thread_opens_and_closes, Driver::Epoll);
}

#[test]
fn a_cluster_whose_first_core_never_runs_closes_its_listeners_on_any_driver() {
    run(a_cluster_whose_first_core_never_runs_closes_its_listeners, Driver::Auto);
}
