//! The turn of a core: events, messages, deadlines, the service, and then one send per endpoint that has something to say.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::{Accepted, CoreIndex, EndpointId, ListenerId, Service};
use protocol::{Ended, Instant};

use crate::alarm::Alarm;
use crate::areas::Areas;
use crate::cluster::{ACCEPTING_CORE, Shared};
use crate::connection::{Connection, Phase};
use crate::driver::{self, Driver, Event, Interest, Wait, Woken};
use crate::limits;
use crate::listener::{self, Listener, Stream};
use crate::listener_control::ListenerOrder;
use crate::listeners::{ListenerPoll, ListenerSocket, Listeners};
use crate::local::{self, Dial, Guard, Local, slot_of};
use crate::timers::Timers;
use crate::turns::Gauge;
use crate::{clock, threads, turns};

/// The slot of the alarm, the first that a core takes.
const ALARM: u32 = 0;

/// A core while it runs.
pub(crate) struct Turning<S: Service> {
    pub(crate) service: S,
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) connections: Vec<Option<Connection>>,
    pub(crate) areas: Areas,
    pub(crate) timers: Timers,
    /// Slots that have something to do in this turn.
    pub(crate) touched: Vec<u32>,
    /// Slots whose turn is still to be ended, as the last turn had sent enough.
    late: Vec<u32>,
    /// Bytes that this turn sends at most.
    pub(crate) sent: usize,
    /// Bytes that this turn has taken in.
    pub(crate) received: usize,
    /// Connections with something to receive in this turn, as far as its events tell.
    pub(crate) arrivals: usize,
    /// Slots whose endpoint takes no bytes: asked again every turn.
    pub(crate) parked: Vec<u32>,
    /// Slots whose stream is over, until they are idle.
    pub(crate) departing: Vec<u32>,
    /// Slots that have a staging area.
    pub(crate) holders: Vec<u32>,
    pub(crate) sweep_at: Option<Instant>,
    pub(crate) expecting: usize,
    /// Turns for which connections still count as sharing the core, and who had something to do last.
    pub(crate) shared_turns: u32,
    latest: Option<u32>,
    /// Something is left to do without waiting.
    pub(crate) again: bool,
    pub(crate) shared: Arc<Shared<S::Message>>,
    pub(crate) index: CoreIndex,
    /// When this turn began: the turn's one look at the clock.
    pub(crate) now: Instant,
    local: Rc<Local>,
    alarm: Arc<Alarm>,
    listeners: Listeners,
    next_core: usize,
    spin: Spin,
    gauge: Gauge,
    ending: Option<Instant>,
    events: Vec<Event>,
    /// Events that no turn has come to yet.
    pending: VecDeque<Event>,
    ready: Vec<EndpointId>,
    messages: Vec<S::Message>,
    streams: Vec<(ListenerId, Stream)>,
    /// The calling thread's letter tray is this core's for as long as it lives; last, so that it goes last.
    _entered: Guard,
}

impl<S: Service> Turning<S> {
    /// A core before its first turn, on the calling thread, where it stays.
    pub(crate) fn begin(
        shared: Arc<Shared<S::Message>>,
        index: CoreIndex,
        service: impl FnOnce() -> S,
    ) -> io::Result<Self> {
        let mut driver = driver::open(shared.config.driver)?;
        let Some(inbox) = shared.inboxes.get(usize::from(index)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let alarm = Arc::clone(&inbox.alarm);
        let local = Rc::new(Local::new(Arc::clone(&alarm)));
        let entered = local::enter(Rc::clone(&local))?;
        let gauge = Gauge::new(Arc::clone(&inbox.turns));
        alarm.adopt();
        // It takes the first slot, before the service can dial.
        let slot = slot_of(local.slots.borrow_mut().take());
        driver.attach(slot, Rc::new(alarm.descriptor()?), false)?;
        driver.poll(slot, Interest::Read);
        Ok(Self {
            service: service(),
            driver,
            connections: Vec::new(),
            areas: Areas::new(&shared.config),
            spin: Spin { span: shared.config.spin, misses: 0, penalty: 0 },
            gauge,
            timers: Timers::default(),
            touched: Vec::new(),
            late: Vec::new(),
            sent: 0,
            arrivals: 0,
            received: 0,
            parked: Vec::new(),
            departing: Vec::new(),
            holders: Vec::new(),
            sweep_at: None,
            expecting: 0,
            shared_turns: 0,
            latest: None,
            again: true,
            shared,
            index,
            now: Instant::ZERO,
            local,
            alarm,
            listeners: Listeners::default(),
            next_core: 0,
            ending: None,
            events: Vec::new(),
            pending: VecDeque::new(),
            ready: Vec::new(),
            messages: Vec::new(),
            streams: Vec::new(),
            _entered: entered,
        })
    }

    /// Turns until the service is finished or the cluster is stopped; gives the service back.
    pub(crate) fn turn_until_done(mut self) -> io::Result<S> {
        while !self.turn_once() {
            self.wait_at_most(Wait::Forever)?;
        }
        Ok(self.service)
    }

    /// One turn at the present moment; true when it was the last.
    pub(crate) fn turn_once(&mut self) -> bool {
        let now = clock::now();
        let took = self.gauge.begin(now, turns::thread_time);
        self.areas.learn(self.sent.max(self.received), took);
        self.turn(now);
        self.is_over(now)
    }

    /// Starts what the last turn left, and waits until something happens or is due, but not beyond `limit`.
    pub(crate) fn wait_at_most(&mut self, limit: Wait) -> io::Result<()> {
        let wait = match limit {
            Wait::No => Wait::No,
            Wait::For(span) => self.wait(self.now).at_most(span),
            Wait::Forever => self.wait(self.now),
        };
        let expects = self.expecting > 0 || self.service.expects_work();
        let span = if expects { self.spin.allowed() } else { Duration::ZERO };
        let woken = self.driver.wait(wait, span, &self.alarm)?;
        self.spin.learn(woken, span);
        if !span.is_zero() {
            self.gauge.spun(span);
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) {
        self.now = now;
        self.again = false;
        self.arrivals = 0;
        self.received = 0;
        self.take_events(now);
        self.take_events(now);
        if self.alarm.take() {
            self.take_mail(now);
        }
        self.take_due(now);
        self.retry_parked();
        self.serve(now);
        self.start_dials(now);
        self.finish_turns(now);
        self.let_go(now);
        self.start_files();
    }

    /// Ends the turns of the connections, first of those that were late in the last turn, until as much was sent as fits into one.
    fn finish_turns(&mut self, now: Instant) {
        let mut touched = std::mem::take(&mut self.touched);
        self.count_sharers(&touched);
        let mut late = std::mem::take(&mut self.late);
        late.extend(touched.drain(..).filter(|slot| !self.is_late(*slot)));
        // What is touched meanwhile has its turn in the next one.
        self.touched = touched;
        self.sent = 0;
        let mut finished = 0;
        while let Some(slot) = late.get(finished).copied().filter(|_| self.sent < self.areas.turn()) {
            finished += 1;
            self.finish_turn(slot, now);
        }
        late.drain(..finished);
        for slot in &late {
            if let Some(connection) = self.connection(*slot) {
                (connection.late, connection.touched) = (true, false);
            }
        }
        self.again |= !late.is_empty() || !self.touched.is_empty();
        self.late = late;
    }

    fn is_late(&self, slot: u32) -> bool {
        let connection = self.connections.get(slot as usize).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.late)
    }

    /// Remembers for a while that more than one connection has something to do, in one turn or by turns.
    fn count_sharers(&mut self, touched: &[u32]) {
        let Some(last) = touched.last() else { return };
        let other = self.latest.replace(*last) != Some(*last);
        let alone = self.shared_turns.saturating_sub(1);
        self.shared_turns = if other || touched.len() > 1 { limits::SHARED_TURNS } else { alone };
    }

    /// Takes what has completed; a second time for what a readiness event has led to.
    ///
    /// Receives that have brought more than a turn's bytes are left for the next one, and what came after them.
    fn take_events(&mut self, now: Instant) {
        let mut events = std::mem::take(&mut self.events);
        self.driver.reap(&mut events);
        let arrivals = events.iter().filter(|event| !matches!(event, Event::Sent(..))).count();
        self.arrivals = self.arrivals.max(arrivals);
        self.pending.extend(events.drain(..));
        self.events = events;
        while self.received < self.areas.turn()
            && let Some(event) = self.pending.pop_front()
        {
            match event {
                Event::Ready(slot) => self.handle_ready(slot, now),
                Event::Received(slot, receive, result) => self.handle_received(slot, receive, result),
                Event::Sent(slot, send, result) => self.handle_sent(slot, send, result),
            }
        }
        self.again |= !self.pending.is_empty();
    }

    /// A poll has ended in a slot that is no connection's.
    #[cold]
    pub(crate) fn handle_other_ready(&mut self, slot: u32, now: Instant) {
        if slot == ALARM {
            self.alarm.silence();
            self.driver.drained(ALARM);
            self.driver.poll(ALARM, Interest::Read);
            return;
        }
        match self.listeners.handle_ready(slot, self.driver.as_mut()) {
            Some(ListenerPoll::Streams(socket)) => self.accept_some(&socket, now),
            Some(ListenerPoll::Closed) => self.local.slots.borrow_mut().give_back(slot),
            None => {}
        }
    }

    fn take_listener_orders(&mut self, now: Instant) {
        for order in self.shared.listener_orders.take() {
            match order {
                ListenerOrder::Open(id, listener) => self.open_listener(id, listener, now),
                ListenerOrder::Close(id) => {
                    if let Some(slot) = self.listeners.close(id, self.driver.as_mut()) {
                        self.local.slots.borrow_mut().give_back(slot);
                    }
                }
            }
        }
    }

    fn open_listener(&mut self, id: ListenerId, listener: Listener, now: Instant) {
        let slot = slot_of(self.local.slots.borrow_mut().take());
        let socket = ListenerSocket { slot, id, descriptor: Rc::new(listener.into_descriptor()) };
        if let Err(error) = self.listeners.open(socket, self.driver.as_mut(), now) {
            self.service.handle_shortage(error.raw_os_error().unwrap_or_default());
        }
    }

    fn take_mail(&mut self, now: Instant) {
        let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) else { return };
        inbox.collect(&mut self.messages, &mut self.streams);
        if self.index == ACCEPTING_CORE && self.shared.listener_orders.is_pending() {
            self.take_listener_orders(now);
        }
        self.local.take_calls();
        let mut messages = std::mem::take(&mut self.messages);
        for message in messages.drain(..) {
            self.service.handle_message(now, message);
        }
        self.messages = messages;
        let mut streams = std::mem::take(&mut self.streams);
        for (listener, stream) in streams.drain(..) {
            self.adopt(listener, stream, now);
        }
        self.streams = streams;
        if self.shared.is_stopping() {
            self.begin_ending(now);
        }
    }

    fn take_due(&mut self, now: Instant) {
        while let Some((when, slot)) = self.timers.pop_due(now) {
            self.handle_due(slot, when, now);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now);
        }
        if self.listeners.poll_timeout().is_some_and(|at| at <= now)
            && let Err(error) = self.listeners.retry(self.driver.as_mut(), now)
        {
            self.service.handle_shortage(error.raw_os_error().unwrap_or_default());
        }
    }

    /// Lets endpoints and the service take turns until nothing is left, or the round limit.
    fn serve(&mut self, now: Instant) {
        for index in 0..self.touched.len() {
            let Some(slot) = self.touched.get(index).copied() else { break };
            self.take_turn(slot, now);
        }
        let mut ready = std::mem::take(&mut self.ready);
        for round in 0.. {
            self.alarm.calm();
            self.service.turn(now, &mut ready);
            // What it has given to remote volumes goes out with this turn's sends.
            ready.append(&mut self.local.nudged.borrow_mut());
            if ready.is_empty() {
                break;
            }
            for id in ready.drain(..) {
                let slot = slot_of(id);
                if self.connection(slot).is_some_and(|connection| connection.id == id) {
                    self.touch(slot);
                    self.take_turn(slot, now);
                }
            }
            if round >= limits::SERVICE_ROUNDS {
                self.again = true;
                break;
            }
        }
        self.ready = ready;
    }

    fn start_dials(&mut self, now: Instant) {
        let dials = std::mem::take(&mut *self.local.dials.borrow_mut());
        for dial in dials {
            self.dial(dial, now);
        }
    }

    fn dial(&mut self, dial: Dial, now: Instant) {
        let slot = slot_of(dial.id);
        let started = listener::connect(dial.peer, self.shared.config.congestion).and_then(|descriptor| {
            let descriptor = Rc::new(descriptor);
            self.driver.attach(slot, Rc::clone(&descriptor), false)?;
            Ok(descriptor)
        });
        match started {
            Ok(descriptor) => {
                let mut connection =
                    Connection::new(dial.id, Some(descriptor), dial.endpoint, Phase::Connecting);
                let patience = connection.endpoint.connect_time().unwrap_or(limits::CONNECT);
                connection.deadline = Some(now + patience.min(limits::CONNECT));
                connection.polling = true;
                self.insert(slot, connection);
                self.driver.poll(slot, Interest::Write);
            }
            Err(error) => {
                self.insert(slot, Connection::new(dial.id, None, dial.endpoint, Phase::Connecting));
                self.end(slot, Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO)), now);
            }
        }
        self.touch(slot);
    }

    fn start_files(&mut self) {
        let mut files = self.local.files.borrow_mut();
        for op in files.drain(..) {
            if let Some(refused) = self.driver.file(op) {
                threads::submit(refused);
            }
        }
    }

    /// Accepts what waits at a listener, and gives each stream to the core that has the fewest.
    fn accept_some(&mut self, socket: &ListenerSocket, now: Instant) {
        let slot = socket.slot;
        if self.ending.is_some() {
            return;
        }
        for _ in 0..limits::ACCEPTS_PER_TURN {
            match listener::accept(socket.descriptor.as_fd(), self.shared.config.congestion) {
                Ok(stream) => self.spread(socket.id, stream, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.driver.drained(slot);
                    break;
                }
                Err(error) if is_shortage(&error) => {
                    self.service.handle_shortage(error.raw_os_error().unwrap_or_default());
                    return self.listeners.back_off(slot, self.driver.as_mut(), now);
                }
                // That stream was gone before it could be accepted.
                Err(_) => {}
            }
        }
        self.driver.poll(slot, Interest::Read);
    }

    fn spread(&mut self, listener: ListenerId, stream: Stream, now: Instant) {
        let cores = self.shared.inboxes.len();
        let load = |core: usize| {
            let inbox = self.shared.inboxes.get(core % cores).filter(|inbox| !inbox.is_stopped());
            inbox.map_or(usize::MAX, |inbox| inbox.load.load(Ordering::Relaxed))
        };
        let order = self.next_core..self.next_core + cores;
        let Some(core) = order.min_by_key(|core| load(*core)).map(|core| core % cores) else { return };
        self.next_core = (core + 1) % cores;
        let Some(inbox) = self.shared.inboxes.get(core) else { return };
        if inbox.load.load(Ordering::Relaxed) >= self.shared.config.max_connections {
            return;
        }
        inbox.load.fetch_add(1, Ordering::Relaxed);
        if core == usize::from(self.index) {
            self.adopt(listener, stream, now);
        } else {
            inbox.hand_over(listener, stream);
        }
    }

    /// Offers a stream to the service.
    fn adopt(&mut self, listener: ListenerId, stream: Stream, now: Instant) {
        let id = self.local.slots.borrow_mut().take();
        let slot = slot_of(id);
        let accepted = Accepted { listener, endpoint: id, local: stream.local, peer: stream.peer };
        let descriptor = Rc::new(stream.descriptor);
        let fits = self.ending.is_none() && self.driver.attach(slot, Rc::clone(&descriptor), true).is_ok();
        let endpoint = if fits { self.service.accept(now, accepted).ok() } else { None };
        let Some(endpoint) = endpoint.filter(|endpoint| endpoint.staging() <= self.areas.least_staging())
        else {
            self.driver.detach(slot);
            self.local.slots.borrow_mut().give_back(slot);
            return self.unload();
        };
        let mut connection = Connection::new(id, Some(descriptor), endpoint, Phase::Open);
        connection.accepted = true;
        self.insert(slot, connection);
        self.touch(slot);
    }

    /// Counts an accepted stream less.
    pub(crate) fn unload(&mut self) {
        if let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) {
            inbox.load.fetch_sub(1, Ordering::Relaxed);
        }
        self.listeners.handle_descriptor_freed();
    }

    /// Forgets the streams that are over.
    fn let_go(&mut self, now: Instant) {
        let mut departing = std::mem::take(&mut self.departing);
        departing.retain(|slot| {
            let place = self.connections.get_mut(*slot as usize);
            let Some(connection) = place.and_then(|place| place.take_if(|connection| connection.is_gone()))
            else {
                return true;
            };
            self.driver.detach(*slot);
            self.expecting -= usize::from(connection.expects);
            let (id, accepted) = (connection.id, connection.accepted);
            drop(connection);
            if accepted {
                self.unload();
            }
            self.local.slots.borrow_mut().give_back(*slot);
            self.service.handle_gone(now, id);
            self.again = true;
            false
        });
        departing.append(&mut self.departing);
        self.departing = departing;
    }

    fn begin_ending(&mut self, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(now + limits::SHUTDOWN);
        for slot in 0..u32::try_from(self.connections.len()).unwrap_or(u32::MAX) {
            if self.connection(slot).is_some() {
                self.end(slot, Ended::ByUs, now);
            }
        }
        self.again = true;
    }

    fn is_over(&mut self, now: Instant) -> bool {
        if self.service.is_finished() {
            self.begin_ending(now);
        }
        self.ending.is_some_and(|deadline| now >= deadline || self.connections.iter().all(Option::is_none))
    }

    /// How long the core may sleep.
    fn wait(&self, now: Instant) -> Wait {
        if self.again || self.alarm.is_stirred() || !self.local.is_empty() {
            return Wait::No;
        }
        let retry_at = self.listeners.poll_timeout();
        let deadlines =
            [self.timers.next(), self.service.poll_timeout(), self.sweep_at, retry_at, self.ending];
        deadlines
            .into_iter()
            .flatten()
            .fold(Wait::Forever, |wait, deadline| wait.at_most(deadline.since(now)))
    }
}

/// True when accepting failed for want of something that may come back, which does not concern the stream.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Learns whether spinning pays.
#[derive(Debug)]
struct Spin {
    span: Duration,
    misses: u32,
    penalty: u32,
}

impl Spin {
    /// How long the next sleep may be put off.
    fn allowed(&self) -> Duration {
        if self.penalty == 0 { self.span } else { Duration::ZERO }
    }

    /// Spins in vain make twice as many of the following sleeps go without, each time.
    fn learn(&mut self, woken: Woken, span: Duration) {
        match woken {
            Woken::SpunInVain => {
                self.misses = (self.misses + 1).min(limits::SPIN_PENALTY.ilog2());
                self.penalty = 2_u32.pow(self.misses);
            }
            Woken::Slept => self.penalty = self.penalty.saturating_sub(1),
            Woken::Awake if !span.is_zero() => self.misses = 0,
            Woken::Awake => {}
        }
    }
}
