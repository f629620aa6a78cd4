//! A toy protocol for the loop's tests: frames of a length and a payload; one end echoes, the other checks.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "each test file uses a part"
)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use buf::{Buf, Pool, SharedBuf};
use host::{Accepted, Endpoint, EndpointId, ListenerId, Postbox, Refusal, Service, World};
use protocol::pair::aperiodic;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use reactor::{Cluster, Config, Driver, Listener, Stopper};

/// Payloads of at most this many bytes are parsed in place.
const SMALL: usize = 64;
const HEADER: usize = 8;
/// Unsent bytes from which on the echo does not read.
const MOST_QUEUED: usize = 1 << 20;

/// The frames of the toy protocol, both ways: what has come and what is to go.
pub struct Frames {
    pool: Pool,
    announced: Option<usize>,
    buf: Option<Buf>,
    placed: bool,
    pub came: VecDeque<SharedBuf>,
    out: VecDeque<(u64, SharedBuf)>,
    queued: usize,
}

impl Frames {
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            announced: None,
            buf: None,
            placed: false,
            came: VecDeque::new(),
            out: VecDeque::new(),
            queued: 0,
        }
    }

    pub fn push(&mut self, payload: SharedBuf) {
        self.queued += HEADER + payload.len();
        self.out.push_back((payload.len() as u64, payload));
    }

    fn handle_bytes(&mut self, bytes: &[u8]) -> usize {
        match self.announced {
            None if bytes.len() >= HEADER => {
                let (header, _) = bytes.split_first_chunk().unwrap();
                self.announced = Some(usize::try_from(u64::from_le_bytes(*header)).unwrap());
                HEADER
            }
            Some(len) if len <= SMALL && bytes.len() >= len => {
                if !self.wants_bytes() {
                    return 0;
                }
                let mut buf = self.buf.take().unwrap();
                buf.set_len(len);
                buf.copy_from_slice(&bytes[..len]);
                self.came.push_back(buf.freeze());
                self.announced = None;
                len
            }
            _ => 0,
        }
    }

    fn take_placement(&mut self) -> Option<Placement> {
        let len = self.announced.filter(|len| *len > SMALL && !self.placed)?;
        if !self.wants_bytes() {
            return None;
        }
        let mut buf = self.buf.take()?;
        buf[..3].fill(0);
        self.placed = true;
        Some(Placement { buf, start: 3, len, token: 42 })
    }

    /// Takes the buffer for what is announced; false while there is none.
    fn wants_bytes(&mut self) -> bool {
        if let Some(len) = self.announced.filter(|_| self.buf.is_none() && !self.placed) {
            self.buf = self.pool.take(len + 3);
            return self.buf.is_some();
        }
        true
    }

    fn handle_placed(&mut self, placement: Placement) {
        assert_eq!(placement.token, 42);
        assert_eq!(Some(placement.len), self.announced.take());
        self.placed = false;
        self.came.push_back(placement.buf.freeze().slice(3..));
    }

    fn poll_transmit(&mut self, send: &mut Transmit) {
        while !send.is_full() {
            let Some((len, payload)) = self.out.pop_front() else { return };
            self.queued -= HEADER + payload.len();
            send.put(&len.to_le_bytes());
            send.put_shared(payload);
        }
    }
}

/// What the echo's side has seen.
#[derive(Default)]
pub struct Seen {
    pub accepted: AtomicUsize,
    pub gone: AtomicUsize,
    pub turns: AtomicUsize,
    pub ended_by_us: AtomicUsize,
    pub failed: AtomicUsize,
    pub cores: [AtomicUsize; 4],
}

/// Sends back what it gets. A frame that begins with `close` makes it close after the echo.
pub struct Echo {
    frames: Frames,
    close: bool,
    seen: Arc<Seen>,
}

impl Endpoint for Echo {
    fn staging(&self) -> usize {
        4096
    }
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        self.frames.handle_bytes(bytes)
    }
    fn take_placement(&mut self) -> Option<Placement> {
        self.frames.take_placement()
    }
    fn handle_placed(&mut self, _: Instant, placement: Placement) {
        self.frames.handle_placed(placement);
    }
    fn handle_transmitted(&mut self, _: Instant, bytes: usize) {
        assert!(bytes > 0);
    }
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_connected(&mut self, _: Instant, _: SocketAddr, _: SocketAddr) {
        panic!("accepted streams are connected from the start");
    }
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        match how {
            Ended::ByUs => self.seen.ended_by_us.fetch_add(1, Ordering::SeqCst),
            Ended::Failed(_) => self.seen.failed.fetch_add(1, Ordering::SeqCst),
            Ended::ByPeer => 0,
        };
    }
    fn turn(&mut self, _: Instant) {
        while let Some(payload) = self.frames.came.pop_front() {
            self.close |= payload.starts_with(b"close");
            self.frames.push(payload);
        }
    }
    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        self.turn(Instant::ZERO);
        self.frames.poll_transmit(send);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn wants_bytes(&mut self) -> bool {
        self.frames.queued < MOST_QUEUED && self.frames.wants_bytes()
    }
    fn poll_close(&self) -> Option<CloseReason> {
        (self.close && self.frames.out.is_empty()).then_some(CloseReason::Finished)
    }
    fn is_idle(&self) -> bool {
        true
    }
    fn expects_work(&self) -> bool {
        false
    }
}

/// The echo's service.
pub struct Echoes {
    pool: Pool,
    seen: Arc<Seen>,
    world: World<u32>,
    capacity: usize,
}

impl Service for Echoes {
    type Message = u32;

    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        let count = self.seen.accepted.fetch_add(1, Ordering::SeqCst);
        if count >= self.capacity {
            return Err(Refusal("full"));
        }
        self.seen.cores[usize::from(self.world.core)].fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Echo {
            frames: Frames::new(self.pool.clone()),
            close: false,
            seen: Arc::clone(&self.seen),
        }))
    }
    fn handle_message(&mut self, _: Instant, _: u32) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {
        self.seen.turns.fetch_add(1, Ordering::SeqCst);
    }
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {
        self.seen.gone.fetch_add(1, Ordering::SeqCst);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        false
    }
}

/// A running echo server.
pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
    pub postbox: Arc<dyn Postbox<u32>>,
    stopper: Stopper,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    pub fn start(driver: Driver, cores: u16, pool: usize) -> Self {
        Self::with(Config { driver, ..Config::default() }, cores, pool)
    }

    pub fn with(config: Config, cores: u16, pool: usize) -> Self {
        Self::at(Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap(), config, (cores, pool))
    }

    pub fn at(listener: Listener, config: Config, (cores, pool): (u16, usize)) -> Self {
        let cluster = Cluster::new(cores, config).unwrap();
        let address = listener.local();
        cluster.control().open(ListenerId(0), listener).unwrap();
        let seen = Arc::new(Seen::default());
        let (stopper, postbox) = (cluster.stopper(), cluster.postbox());
        let start = |core: reactor::Core<u32>| {
            let seen = Arc::clone(&seen);
            core.spawn(move |world| Echoes { pool: Pool::new(pool), seen, world, capacity: 100_000 }).unwrap()
        };
        let threads = cluster.into_cores().into_iter().map(start).collect();
        Self { address, seen, postbox, stopper, threads }
    }

    /// Stops the server and gives what it has seen.
    pub fn stop(self) -> Arc<Seen> {
        self.stopper.stop();
        for thread in self.threads {
            thread.join().unwrap().unwrap();
        }
        self.seen
    }
}

/// What a caller is to do, and how it went.
pub struct Workload {
    /// Lengths of the frames to send, in order, from the beginning again as often as needed.
    pub sizes: Vec<usize>,
    pub count: usize,
    /// Frames under way at a time.
    pub window: usize,
    pub done: Cell<usize>,
    pub connected: Cell<bool>,
    pub ended: Cell<Option<Ended>>,
    /// Called with the number of frames that came back.
    pub progress: RefCell<Box<dyn FnMut(usize)>>,
}

impl Workload {
    pub fn new(sizes: &[usize], count: usize, window: usize) -> Rc<Self> {
        Rc::new(Self {
            sizes: sizes.to_vec(),
            count,
            window,
            done: Cell::new(0),
            connected: Cell::new(false),
            ended: Cell::new(None),
            progress: RefCell::new(Box::new(|_| {})),
        })
    }

    fn len(&self, number: usize) -> usize {
        self.sizes[number % self.sizes.len()]
    }
}

/// The payload of frame `number`.
fn payload(number: usize, len: usize) -> Vec<u8> {
    aperiodic(len, number as u64)
}

/// Sends frames and checks their echo.
pub struct Caller {
    frames: Frames,
    workload: Rc<Workload>,
    sent: usize,
    check: bool,
}

impl Caller {
    pub fn new(pool: Pool, workload: Rc<Workload>, check: bool) -> Box<Self> {
        Box::new(Self { frames: Frames::new(pool), workload, sent: 0, check })
    }

    fn step(&mut self) {
        while let Some(frame) = self.frames.came.pop_front() {
            let number = self.workload.done.get();
            assert_eq!(frame.len(), self.workload.len(number));
            if self.check {
                let expected = payload(number, frame.len());
                let wrong = frame.iter().zip(&expected).position(|(came, sent)| came != sent);
                assert_eq!(
                    wrong, None,
                    "the first byte of frame {number} that is not the one that was sent there"
                );
            }
            self.workload.done.set(number + 1);
            (self.workload.progress.borrow_mut())(number + 1);
        }
        while self.workload.connected.get()
            && self.sent < self.workload.count
            && self.sent - self.workload.done.get() < self.workload.window
        {
            let Some(mut buf) = self.frames.pool.take(self.workload.len(self.sent)) else { return };
            if self.check {
                let len = buf.len();
                buf.copy_from_slice(&payload(self.sent, len));
            }
            self.frames.push(buf.freeze());
            self.sent += 1;
        }
    }
}

impl Endpoint for Caller {
    fn staging(&self) -> usize {
        4096
    }
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        self.frames.handle_bytes(bytes)
    }
    fn take_placement(&mut self) -> Option<Placement> {
        self.frames.take_placement()
    }
    fn handle_placed(&mut self, _: Instant, placement: Placement) {
        self.frames.handle_placed(placement);
    }
    fn handle_transmitted(&mut self, _: Instant, _: usize) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn handle_connected(&mut self, _: Instant, _: SocketAddr, _: SocketAddr) {
        self.workload.connected.set(true);
    }
    fn handle_ended(&mut self, _: Instant, how: Ended) {
        self.workload.ended.set(Some(how));
    }
    fn turn(&mut self, _: Instant) {
        self.step();
    }
    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        self.step();
        self.frames.poll_transmit(send);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn wants_bytes(&mut self) -> bool {
        self.frames.wants_bytes()
    }
    fn poll_close(&self) -> Option<CloseReason> {
        (self.workload.count > 0 && self.workload.done.get() == self.workload.count)
            .then_some(CloseReason::Finished)
    }
    fn is_idle(&self) -> bool {
        true
    }
    fn expects_work(&self) -> bool {
        self.sent > self.workload.done.get()
    }
}

/// The callers' service: finished when all endpoints are gone.
pub struct Callers {
    left: usize,
}

impl Service for Callers {
    type Message = u32;

    fn accept(&mut self, _: Instant, _: Accepted) -> Result<Box<dyn Endpoint>, Refusal> {
        Err(Refusal("nobody is expected"))
    }
    fn handle_message(&mut self, _: Instant, _: u32) {}
    fn turn(&mut self, _: Instant, _: &mut Vec<EndpointId>) {}
    fn handle_gone(&mut self, _: Instant, _: EndpointId) {
        self.left -= 1;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_finished(&self) -> bool {
        self.left == 0
    }
}

/// Runs workloads against `peer` on the calling thread, each on a connection of its own, until all have ended.
pub fn call(driver: Driver, peer: SocketAddr, workloads: &[Rc<Workload>], check: bool) {
    let cluster = Cluster::<u32>::new(1, Config { driver, ..Config::default() }).unwrap();
    let core = cluster.into_cores().pop().unwrap();
    core.run(|world| {
        let pool = Pool::new(256 << 20);
        for workload in workloads {
            world.dialer.dial(peer, Caller::new(pool.clone(), Rc::clone(workload), check));
        }
        Callers { left: workloads.len() }
    })
    .unwrap();
}

/// Runs `work` on a thread of its own and fails when it takes unreasonably long, rather than hanging the test run.
pub fn in_time(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = tell.send(());
    });
    match told.recv_timeout(std::time::Duration::from_secs(20)) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            panic!("20 s have passed and not all has come: a stream, a timer or a wake-up was forgotten")
        }
        _ => thread.join().unwrap(),
    }
}
