//! A core's event loop: each turn takes events, messages and deadlines, lets the service and its endpoints do what follows, and starts one send per endpoint
//! that has something to say.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::{CoreIndex, EndpointId, Service};
use protocol::{Ended, Instant};

use crate::acceptor::Acceptor;
use crate::areas::Areas;
use crate::connection::{Connection, Phase};
use crate::contention::Contention;
use crate::convert::position;
use crate::core_local::{self, CoreLocal, Dial, Guard, slot_of};
use crate::driver::{self, Driver, Event, Interest, SendRoom, Wait};
use crate::limits;
use crate::listener::{self, Arrival};
use crate::shared::{ACCEPTING_CORE, Shared};
use crate::socket_table::Sockets;
use crate::spin::Spin;
use crate::timers::Timers;
use crate::turns::TurnTimer;
use crate::wakeup::Wakeup;
use crate::{clock, threads, turns};

/// The slot of the wakeup, the first that a core takes.
const WAKEUP: u32 = 0;

/// A core while it runs.
pub(crate) struct EventLoop<S: Service> {
    pub(crate) service: S,
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) connections: Vec<Option<Connection>>,
    pub(crate) areas: Areas,
    pub(crate) sockets: Sockets,
    pub(crate) timers: Timers,
    /// Slots that have something to do in this turn.
    pub(crate) touched: Vec<u32>,
    /// Slots whose turn is still to be ended, as the last turn had sent enough.
    late: Vec<u32>,
    /// Bytes that this turn sends at most.
    pub(crate) sent: usize,
    /// Bytes that this turn has taken in.
    pub(crate) received: usize,
    /// Connections with something to receive in this turn, as far as its events show.
    pub(crate) arrivals: usize,
    /// Slots whose endpoint takes no bytes for want of a buffer: asked again every turn.
    pub(crate) awaiting_buffer: Vec<u32>,
    /// Slots whose stream is over, until their endpoints are idle.
    pub(crate) closing: Vec<u32>,
    /// Slots that have a staging area.
    pub(crate) holders: Vec<u32>,
    pub(crate) sweep_at: Option<Instant>,
    pub(crate) expecting: usize,
    pub(crate) contention: Contention,
    /// Something is left to do without waiting.
    pub(crate) again: bool,
    pub(crate) shared: Arc<Shared<S::Message>>,
    pub(crate) index: CoreIndex,
    /// When this turn began: the turn's one look at the clock.
    pub(crate) now: Instant,
    pub(crate) local: Rc<CoreLocal>,
    wakeup: Arc<Wakeup>,
    pub(crate) acceptor: Acceptor,
    spin: Spin,
    turn_timer: TurnTimer,
    pub(crate) ending: Option<Instant>,
    events: Vec<Event>,
    /// Events that no turn has come to yet.
    pending: VecDeque<Event>,
    ready: Vec<EndpointId>,
    messages: Vec<S::Message>,
    streams: Vec<Arrival>,
    /// Makes `local` the calling thread's for as long as the loop lives; the last field, so that it is dropped last.
    _entered: Guard,
}

impl<S: Service> EventLoop<S> {
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
        let wakeup = Arc::clone(&inbox.wakeup);
        let local = Rc::new(CoreLocal::new(Arc::clone(&wakeup)));
        let entered = core_local::enter(Rc::clone(&local))?;
        let turn_timer = TurnTimer::new(Arc::clone(&inbox.turns));
        wakeup.bind_to_this_thread();
        // It takes the first slot, before the service can dial.
        let slot = slot_of(local.slots.borrow_mut().take());
        driver.attach(slot, Rc::new(wakeup.descriptor()?), SendRoom::Unknown)?;
        driver.poll(slot, Interest::Read);
        Ok(Self {
            service: service(),
            driver,
            connections: Vec::new(),
            areas: Areas::new(&shared.config),
            sockets: Sockets::default(),
            spin: Spin::new(shared.config.spin),
            turn_timer,
            timers: Timers::default(),
            touched: Vec::new(),
            late: Vec::new(),
            sent: 0,
            arrivals: 0,
            received: 0,
            awaiting_buffer: Vec::new(),
            closing: Vec::new(),
            holders: Vec::new(),
            sweep_at: None,
            expecting: 0,
            contention: Contention::default(),
            again: true,
            shared,
            index,
            now: Instant::ZERO,
            local,
            wakeup,
            acceptor: Acceptor::default(),
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
    pub(crate) fn run(mut self) -> io::Result<S> {
        while !self.run_once() {
            self.wait_at_most(Wait::Forever)?;
        }
        Ok(self.service)
    }

    /// One turn at the present moment; true when it was the last.
    pub(crate) fn run_once(&mut self) -> bool {
        let now = clock::now();
        let took = self.turn_timer.begin(now, turns::thread_time);
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
        let woken = self.driver.wait(wait, span, &self.wakeup)?;
        self.spin.learn(woken, span);
        if !span.is_zero() {
            self.turn_timer.spun(span);
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
        if self.wakeup.take() {
            self.take_mail(now);
        }
        self.take_due(now);
        self.retry_awaiting_buffer();
        self.serve(now);
        self.start_dials(now);
        self.finish_turns(now);
        self.finish_socket_turns(now);
        self.reap_closed(now);
        self.start_files();
    }

    /// Ends the turns of the connections, first of those that were late in the last turn, until as much was sent as fits into one.
    fn finish_turns(&mut self, now: Instant) {
        let mut touched = std::mem::take(&mut self.touched);
        self.contention.observe(&touched);
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
    pub(crate) fn handle_ready_elsewhere(&mut self, slot: u32, now: Instant) {
        if slot == WAKEUP {
            self.wakeup.drain();
            self.driver.drained(WAKEUP);
            self.driver.poll(WAKEUP, Interest::Read);
            return;
        }
        if !self.handle_socket_ready(slot, now) {
            self.handle_listener_ready(slot, now);
        }
    }

    fn take_mail(&mut self, now: Instant) {
        let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) else { return };
        inbox.collect(&mut self.messages, &mut self.streams);
        if self.index == ACCEPTING_CORE && self.shared.listener_orders.is_pending() {
            self.take_listener_orders(now);
        }
        self.local.take_turn_requests();
        let mut messages = std::mem::take(&mut self.messages);
        for message in messages.drain(..) {
            self.service.handle_message(now, message);
        }
        self.messages = messages;
        let mut streams = std::mem::take(&mut self.streams);
        for arrival in streams.drain(..) {
            self.register(arrival, now);
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
        if self.acceptor.poll_timeout().is_some_and(|at| at <= now) {
            self.retry_listeners(now);
        }
    }

    /// Lets endpoints and the service take turns until nothing is left, or the round limit.
    fn serve(&mut self, now: Instant) {
        for index in 0..self.touched.len() {
            let Some(slot) = self.touched.get(index).copied() else { break };
            self.take_turn(slot, now);
        }
        self.take_socket_turns(now);
        let mut ready = std::mem::take(&mut self.ready);
        for round in 0.. {
            self.wakeup.clear_local();
            self.service.turn(now, &mut ready);
            // What it has given to remote volumes goes out with this turn's sends.
            ready.append(&mut self.local.woken.borrow_mut());
            if ready.is_empty() {
                break;
            }
            for id in ready.drain(..) {
                let slot = slot_of(id);
                if self.connection(slot).is_some_and(|connection| connection.id == id) {
                    self.touch(slot);
                    self.take_turn(slot, now);
                } else {
                    self.wake_socket(id, now);
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
        let sockets = std::mem::take(&mut *self.local.sockets.borrow_mut());
        for dial in sockets {
            self.dial_socket(dial, now);
        }
    }

    fn dial(&mut self, dial: Dial, now: Instant) {
        let slot = slot_of(dial.id);
        let started = listener::connect(dial.peer, self.shared.config.congestion).and_then(|descriptor| {
            let descriptor = Rc::new(descriptor);
            self.driver.attach(slot, Rc::clone(&descriptor), SendRoom::Unknown)?;
            Ok(descriptor)
        });
        match started {
            Ok(descriptor) => {
                let mut connection =
                    Connection::new(dial.id, Some(descriptor), dial.endpoint, Phase::Connecting);
                let timeout = connection.endpoint.connect_time().unwrap_or(limits::CONNECT);
                connection.deadline = Some(now + timeout.min(limits::CONNECT));
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

    /// Drops the connections that are over and idle.
    fn reap_closed(&mut self, now: Instant) {
        let mut closing = std::mem::take(&mut self.closing);
        closing.retain(|slot| {
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
        closing.append(&mut self.closing);
        self.closing = closing;
    }

    fn begin_ending(&mut self, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(now + limits::SHUTDOWN);
        for slot in 0..position(self.connections.len()) {
            if self.connection(slot).is_some() {
                self.end(slot, Ended::ByUs, now);
            }
        }
        self.end_sockets(now);
        self.again = true;
    }

    fn is_over(&mut self, now: Instant) -> bool {
        if self.service.is_finished() {
            self.begin_ending(now);
        }
        self.ending.is_some_and(|deadline| {
            now >= deadline || self.connections.iter().all(Option::is_none) && self.sockets.is_empty()
        })
    }

    /// How long the core may sleep.
    fn wait(&self, now: Instant) -> Wait {
        if self.again || self.wakeup.is_local_pending() || !self.local.is_empty() {
            return Wait::No;
        }
        let retry_at = self.acceptor.poll_timeout();
        let deadlines =
            [self.timers.next(), self.service.poll_timeout(), self.sweep_at, retry_at, self.ending];
        deadlines
            .into_iter()
            .flatten()
            .fold(Wait::Forever, |wait, deadline| wait.at_most(deadline.since(now)))
    }
}
