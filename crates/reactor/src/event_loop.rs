//! A core's event loop: each turn takes events, messages and deadlines, lets the service and its endpoints do what follows, and starts one send per endpoint
//! that has something to say.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::{CoreIndex, EndpointId, ListenerId, Service};
use protocol::{Ended, Instant};

use crate::acceptor::Acceptor;
use crate::connection::{Connection, Phase};
use crate::core_io::CoreIo;
use crate::core_local::{self, CoreLocal, Dial, DialSocket, Guard, slot_of};
use crate::driver::{self, Event, Interest, SendRoom, Wait};
use crate::limits;
use crate::listener::{self, Arrival};
use crate::shared::{ACCEPTING_CORE, Shared, SocketOrder};
use crate::socket_group::Member;
use crate::sockets::{Bound, Sockets};
use crate::spin::Spin;
use crate::streams::{GoneConnection, Streams};
use crate::turns::TurnTimer;
use crate::wakeup::{Sleeper, Wakeup};
use crate::{clock, threads, turns};

/// The slot of the wakeup, the first that a core takes.
const WAKEUP: u32 = 0;

/// A core while it runs.
pub(crate) struct EventLoop<S: Service> {
    pub(crate) service: S,
    pub(crate) core: CoreIo,
    pub(crate) streams: Streams,
    pub(crate) sockets: Sockets,
    pub(crate) shared: Arc<Shared<S::Message>>,
    pub(crate) index: CoreIndex,
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
    arrivals: Vec<Arrival>,
    gone: Vec<GoneConnection>,
    gone_sockets: Vec<EndpointId>,
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
            core: CoreIo::new(driver),
            streams: Streams::new(&shared.config),
            sockets: Sockets::default(),
            spin: Spin::new(shared.config.spin),
            turn_timer,
            shared,
            index,
            local,
            wakeup,
            acceptor: Acceptor::default(),
            ending: None,
            events: Vec::new(),
            pending: VecDeque::new(),
            ready: Vec::new(),
            messages: Vec::new(),
            arrivals: Vec::new(),
            gone: Vec::new(),
            gone_sockets: Vec::new(),
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
        self.streams.learn(self.core.traffic.moved(), took);
        self.turn(now);
        self.is_over(now)
    }

    /// Starts what the last turn left, and waits until something happens or is due, but not beyond `limit`.
    pub(crate) fn wait_at_most(&mut self, limit: Wait) -> io::Result<()> {
        let wait = match limit {
            Wait::No => Wait::No,
            Wait::For(span) => self.wait(self.core.now).at_most(span),
            Wait::Forever => self.wait(self.core.now),
        };
        let expects = self.streams.expect_work() || self.sockets.expect_work() || self.service.expects_work();
        let span = if expects { self.spin.allowed() } else { Duration::ZERO };
        let woken = self.core.driver.wait(wait, span, Sleeper::new(&self.wakeup, &self.local.polled))?;
        self.spin.learn(woken, span);
        if !span.is_zero() {
            self.turn_timer.spun(span);
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) {
        self.core.begin_turn(now);
        self.take_events(now);
        self.take_events(now);
        if self.wakeup.take() {
            self.take_mail(now);
        }
        self.take_due(now);
        self.streams.retry_awaiting_buffer();
        self.serve(now);
        self.start_dials(now);
        self.streams.finish_turns(&mut self.core);
        self.sockets.finish_turns(&mut self.core, self.streams.turn_budget());
        self.reap_closed(now);
        self.start_files();
    }

    /// Takes what has completed; a second time for what a readiness event has led to.
    ///
    /// Receives that have brought more than a turn's bytes are left for the next one, and what came after them.
    fn take_events(&mut self, now: Instant) {
        let mut events = std::mem::take(&mut self.events);
        self.core.driver.reap(&mut events);
        let arrivals = events.iter().filter(|event| !matches!(event, Event::Sent(..))).count();
        self.core.traffic.arrivals = self.core.traffic.arrivals.max(arrivals);
        self.pending.extend(events.drain(..));
        self.events = events;
        while self.core.traffic.received < self.streams.turn_budget()
            && let Some(event) = self.pending.pop_front()
        {
            match event {
                Event::Ready(slot) if self.streams.handle_ready(&mut self.core, slot) => {}
                Event::Ready(slot) => self.handle_ready_elsewhere(slot, now),
                Event::Received(slot, receive, result) => {
                    self.streams.handle_received(&mut self.core, slot, receive, result);
                }
                Event::Sent(slot, send, result) => {
                    self.streams.handle_sent(&mut self.core, slot, send, result);
                }
            }
        }
        self.core.again |= !self.pending.is_empty();
    }

    /// A poll has ended in a slot that is no connection's.
    #[cold]
    fn handle_ready_elsewhere(&mut self, slot: u32, now: Instant) {
        if slot == WAKEUP {
            self.wakeup.drain();
            self.core.driver.drained(WAKEUP);
            self.core.driver.poll(WAKEUP, Interest::Read);
            return;
        }
        if !self.sockets.handle_ready(&mut self.core, slot) {
            self.handle_listener_ready(slot, now);
        }
    }

    fn take_mail(&mut self, now: Instant) {
        let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) else { return };
        inbox.collect(&mut self.messages, &mut self.arrivals);
        if self.index == ACCEPTING_CORE && self.shared.listener_orders.is_pending() {
            self.take_listener_orders(now);
        }
        self.take_socket_orders(now);
        self.local.take_turn_requests();
        let mut messages = std::mem::take(&mut self.messages);
        for message in messages.drain(..) {
            self.service.handle_message(now, message);
        }
        self.messages = messages;
        let mut arrivals = std::mem::take(&mut self.arrivals);
        for arrival in arrivals.drain(..) {
            self.register(arrival, now);
        }
        self.arrivals = arrivals;
        if self.shared.is_stopping() {
            self.begin_ending(now);
        }
    }

    fn take_due(&mut self, now: Instant) {
        while let Some((when, slot)) = self.core.timers.pop_due(now) {
            if !self.streams.handle_due(&mut self.core, slot, when) {
                self.sockets.handle_due(slot, when, now);
            }
        }
        self.streams.sweep_if_due(&mut self.core);
        if self.acceptor.poll_timeout().is_some_and(|at| at <= now) {
            self.retry_listeners(now);
        }
    }

    /// Lets endpoints and the service take turns until nothing is left, or the round limit.
    fn serve(&mut self, now: Instant) {
        self.streams.take_turns(now);
        self.sockets.take_turns(now);
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
                if !self.streams.wake(id, now) {
                    self.sockets.wake(id, now);
                }
            }
            if round >= limits::SERVICE_ROUNDS {
                self.core.again = true;
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
        let watches = std::mem::take(&mut *self.local.watches.borrow_mut());
        for mut watch in watches {
            let slot = slot_of(watch.id);
            let is_watched = match self.begins_more() {
                Ok(()) => self.sockets.watch(&mut self.core, watch).is_ok(),
                Err(error) => {
                    watch.endpoint.handle_ended(now, failed(&error));
                    false
                }
            };
            if !is_watched {
                self.local.slots.borrow_mut().give_back(slot);
            }
        }
    }

    /// A loop that ends begins nothing more: whoever has lost a connection by that would connect again, and the peer would never hear of the end.
    ///
    /// # Errors
    /// It ends.
    fn begins_more(&self) -> io::Result<()> {
        if self.ending.is_some() { Err(io::Error::from_raw_os_error(libc::ECANCELED)) } else { Ok(()) }
    }

    fn dial(&mut self, dial: Dial, now: Instant) {
        let slot = slot_of(dial.id);
        let connected =
            self.begins_more().and_then(|()| listener::connect(dial.peer, self.shared.config.congestion));
        let started = connected.and_then(|descriptor| {
            let descriptor = Rc::new(descriptor);
            self.core.driver.attach(slot, Rc::clone(&descriptor), SendRoom::Unknown)?;
            Ok(descriptor)
        });
        match started {
            Ok(descriptor) => {
                let mut connection =
                    Connection::new(dial.id, Some(descriptor), dial.endpoint, Phase::Connecting);
                let timeout = connection.endpoint.connect_time().unwrap_or(limits::CONNECT);
                connection.deadline = Some(now + timeout.min(limits::CONNECT));
                connection.polling = true;
                self.streams.insert(slot, connection);
                self.core.driver.poll(slot, Interest::Write);
            }
            Err(error) => {
                let connection = Connection::new(dial.id, None, dial.endpoint, Phase::Connecting);
                self.streams.insert(slot, connection);
                self.streams.end(&mut self.core, slot, failed(&error));
            }
        }
    }

    /// Does what the accepting core has ordered.
    fn take_socket_orders(&mut self, now: Instant) {
        let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) else { return };
        for order in inbox.take_socket_orders() {
            match order {
                SocketOrder::Open(listener, member) => self.open_socket(listener, member, now),
                SocketOrder::Retire(listener) => self.sockets.retire(listener, now),
            }
        }
    }

    /// Opens a socket that an endpoint has asked for.
    fn dial_socket(&mut self, dial: DialSocket, now: Instant) {
        let DialSocket { id, address, slot, mut endpoint } = dial;
        let is_open = match self.begins_more().and_then(|()| Member::bind(address, slot)) {
            Ok(member) => {
                let bound = Bound { id, listener: None, member };
                self.sockets.insert(&mut self.core, bound, endpoint).is_ok()
            }
            Err(error) => {
                endpoint.handle_ended(now, failed(&error));
                false
            }
        };
        if !is_open {
            self.local.slots.borrow_mut().give_back(slot_of(id));
        }
    }

    /// Offers a socket that was bound by order to the service, which may have no use for it.
    fn open_socket(&mut self, listener: ListenerId, member: Member, now: Instant) {
        let id = self.local.slots.borrow_mut().take();
        let bound = Bound { id, listener: Some(listener), member };
        let endpoint = self.service.open_socket(now, bound.opened()).filter(|_| self.ending.is_none());
        let is_open = endpoint.is_some_and(|endpoint| {
            bound.member.begin_accepting();
            self.sockets.insert(&mut self.core, bound, endpoint).is_ok()
        });
        if !is_open {
            self.local.slots.borrow_mut().give_back(slot_of(id));
        }
    }

    /// Starts file operations.
    ///
    /// What waits for nothing is done at once: handing it to another thread, and waking up for its end, takes longer than the copy. A turn does a few of those,
    /// and the next turn more, so that answers go out in between and clients are not idle meanwhile.
    fn start_files(&mut self) {
        let mut files = self.local.files.borrow_mut();
        let (mut done, mut bytes) = (0, 0);
        for _ in 0..files.len() {
            let Some(mut op) = files.pop_front() else { return };
            let may_do = done < limits::FILES_PER_TURN && bytes < limits::FILE_BYTES_PER_TURN;
            if op.is_of_memory() {
                if !may_do {
                    files.push_back(op);
                    continue;
                }
                op.run();
            } else {
                let Some(refused) = self.core.driver.file(op) else { continue };
                op = refused;
                if op.may_be_cached() && !may_do {
                    files.push_back(op);
                    continue;
                }
                if !(op.may_be_cached() && op.read_cached()) {
                    threads::submit(op);
                    continue;
                }
            }
            done += 1;
            bytes += op.moved();
            op.finish();
        }
    }

    /// Drops the connections and sockets that are over and idle.
    fn reap_closed(&mut self, now: Instant) {
        let mut gone = std::mem::take(&mut self.gone);
        self.streams.reap_closed(&mut self.core, &mut gone);
        for GoneConnection { id, accepted } in gone.drain(..) {
            if accepted {
                self.unload();
            }
            self.local.slots.borrow_mut().give_back(slot_of(id));
            self.service.handle_gone(now, id);
            self.core.again = true;
        }
        self.gone = gone;
        self.sockets.reap_closed(&mut self.gone_sockets);
        for id in self.gone_sockets.drain(..) {
            self.local.slots.borrow_mut().give_back(slot_of(id));
            self.service.handle_socket_gone(now, id);
            self.core.again = true;
        }
    }

    fn begin_ending(&mut self, now: Instant) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(now + limits::SHUTDOWN);
        self.streams.end_all(&mut self.core);
        self.sockets.shut_down(&mut self.core);
        self.core.again = true;
    }

    fn is_over(&mut self, now: Instant) -> bool {
        if self.service.is_finished() {
            self.begin_ending(now);
        }
        self.sockets.end_if_due(&mut self.core);
        self.ending
            .is_some_and(|deadline| now >= deadline || self.streams.is_empty() && self.sockets.is_empty())
    }

    /// How long the core may sleep.
    fn wait(&self, now: Instant) -> Wait {
        if self.core.again || self.wakeup.is_local_pending() || !self.local.is_empty() {
            return Wait::No;
        }
        let retry_at = self.acceptor.poll_timeout();
        let deadlines = [
            self.core.timers.next(),
            self.service.poll_timeout(),
            self.streams.poll_timeout(),
            retry_at,
            self.sockets.poll_timeout(),
            self.ending,
        ];
        deadlines
            .into_iter()
            .flatten()
            .fold(Wait::Forever, |wait, deadline| wait.at_most(deadline.since(now)))
    }
}

/// How what could not begin ends.
fn failed(error: &io::Error) -> Ended {
    Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO))
}
