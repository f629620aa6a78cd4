//! Descriptors that are watched for others on both drivers: their owners hear of what comes, have turns and deadlines, and the descriptor closes with them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::{Accepted, Dialer, Endpoint, EndpointId, Refusal, Service, WatchEndpoint};
use protocol::{Ended, Instant};
use reactor::driver::Wait;
use reactor::{Cluster, Config, Driver, Running};

/// What an owner has seen, and is to do.
#[derive(Debug, Default)]
struct Seen {
    arrived: Vec<u8>,
    /// How often the descriptor was said to be readable.
    calls: usize,
    turns: usize,
    deadline: Option<Instant>,
    late: Vec<Duration>,
    ended: Option<Ended>,
    /// The owner has heard all that it wants.
    has_all: bool,
    /// The service has done what it was meant to do.
    is_over: bool,
    gone: Vec<EndpointId>,
}

type Shared = Rc<RefCell<Seen>>;

/// Reads another descriptor of what is watched, as the owner of a library's descriptor does.
struct Owner(Shared, UnixStream);

impl WatchEndpoint for Owner {
    fn handle_ready(&mut self, _: Instant) {
        let mut seen = self.0.borrow_mut();
        seen.calls += 1;
        match self.1.read_to_end(&mut seen.arrived) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            Ok(_) => seen.has_all = true,
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        let mut seen = self.0.borrow_mut();
        let deadline = seen.deadline.take().unwrap();
        seen.late.push(now.since(deadline));
    }
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        self.0.borrow_mut().ended = Some(how);
    }
    fn turn(&mut self, _: Instant) {
        self.0.borrow_mut().turns += 1;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.borrow().deadline
    }
    fn is_finished(&self) -> bool {
        self.0.borrow().has_all
    }
    fn expects_work(&self) -> bool {
        false
    }
}

struct Watching(Shared);

impl Service for Watching {
    type Message = ();
    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("no streams here"))
    }
    fn handle_socket_gone(&mut self, _: Instant, watch: EndpointId) {
        self.0.borrow_mut().gone.push(watch);
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
    core: Running<Watching>,
    dialer: Arc<dyn Dialer>,
    seen: Shared,
}

impl Bench {
    fn new(driver: Driver) -> Self {
        let cluster = Cluster::new(1, Config { driver, ..Config::default() }).unwrap();
        let seen = Shared::default();
        let mut dialer = None;
        let core = cluster.into_cores().remove(0).begin(|world| {
            dialer = Some(world.dialer);
            Watching(Rc::clone(&seen))
        });
        Self { core: core.unwrap(), dialer: dialer.unwrap(), seen }
    }

    fn run_until(&mut self, mut over: impl FnMut(&Seen) -> bool) {
        while !over(&self.seen.borrow()) {
            self.core.turn();
            self.core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        }
    }

    /// Several turns in which nothing is to happen.
    fn idle(&mut self) {
        for _ in 0..20 {
            self.core.turn();
            self.core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        }
    }

    /// Watches one end of a stream; the other end.
    fn watch(&mut self) -> (EndpointId, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let watched = OwnedFd::from(near.try_clone().unwrap());
        let id = self.dialer.watch(watched, Box::new(Owner(Rc::clone(&self.seen), near)));
        self.run_until(|seen| seen.turns > 0 || seen.ended.is_some());
        (id, far)
    }
}

fn both(test: fn(Driver)) {
    test(Driver::Epoll);
    test(Driver::Auto);
}

#[test]
fn the_owner_hears_of_what_comes_each_time_and_of_nothing_else() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let (_, mut far) = bench.watch();
        bench.idle();
        assert_eq!(bench.seen.borrow().calls, 0, "nothing has come");
        for (round, piece) in (1..).zip([b"one", b"two", b"six"]) {
            let turns = bench.seen.borrow().turns;
            far.write_all(piece).unwrap();
            bench.run_until(|seen| seen.arrived.len() == 3 * round);
            bench.run_until(|seen| seen.turns > turns);
        }
        let calls = bench.seen.borrow().calls;
        bench.idle();
        let seen = bench.seen.borrow();
        assert_eq!((&seen.arrived[..], seen.calls), (&b"onetwosix"[..], calls));
    });
}

#[test]
fn it_has_deadlines_and_anybody_can_wake_it() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let (id, mut far) = bench.watch();
        bench.seen.borrow_mut().deadline = Some(reactor::now() + Duration::from_millis(20));
        far.write_all(b"!").unwrap();
        bench.run_until(|seen| seen.late.len() == 1);
        let turns = bench.seen.borrow().turns;
        let waker = bench.dialer.waker(id);
        std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        bench.run_until(|seen| seen.turns > turns);
    });
}

#[test]
fn an_owner_that_has_finished_hears_no_more() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let (id, mut far) = bench.watch();
        bench.seen.borrow_mut().has_all = true;
        bench.dialer.wake(id);
        bench.run_until(|seen| !seen.gone.is_empty());
        assert_eq!(bench.seen.borrow().gone, [id]);
        // Nobody holds the near end: the owner and the watched descriptor went together.
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(far.write_all(b"late").unwrap_err().kind(), ErrorKind::BrokenPipe);
        bench.idle();
        let seen = bench.seen.borrow();
        assert_eq!((seen.calls, seen.ended), (0, None));
    });
}

#[test]
fn the_end_of_the_loop_ends_it() {
    both(|driver| {
        let mut bench = Bench::new(driver);
        let (_, mut far) = bench.watch();
        bench.seen.borrow_mut().is_over = true;
        while !bench.core.turn() {
            bench.core.wait(Wait::For(Duration::from_millis(1))).unwrap();
        }
        assert_eq!(bench.seen.borrow().ended, Some(Ended::ByUs));
        drop(bench.core);
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn what_cannot_be_watched_is_told() {
    let bench = &mut Bench::new(Driver::Epoll);
    let (near, _far) = UnixStream::pair().unwrap();
    // epoll takes no plain file.
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    bench.dialer.watch(OwnedFd::from(file), Box::new(Owner(Rc::clone(&bench.seen), near)));
    bench.run_until(|seen| seen.ended.is_some());
    assert_eq!(bench.seen.borrow().ended, Some(Ended::Failed(libc::EPERM)));
    // Its place is free again.
    bench.seen.borrow_mut().ended = None;
    let (_, mut far) = bench.watch();
    far.write_all(b"!").unwrap();
    bench.run_until(|seen| seen.arrived == b"!");
}
