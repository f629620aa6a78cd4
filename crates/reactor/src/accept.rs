//! Accepting: listeners open and close by order, and each stream goes to the core that has the fewest.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use host::{Accepted, ListenerId, Service};
use protocol::Instant;

use crate::connection::{Connection, Phase};
use crate::core_local::slot_of;
use crate::datagram_sockets::DatagramSockets;
use crate::driver::{Interest, SendRoom};
use crate::event_loop::EventLoop;
use crate::limits::ACCEPTS_PER_TURN;
use crate::listener::{self, Arrival, Listener};
use crate::listener_control::ListenerOrder;
use crate::listeners::{ListenerPoll, ListenerSocket};
use crate::shared::SocketOrder;

impl<S: Service> EventLoop<S> {
    /// A poll has ended in a slot that is no connection's.
    pub(crate) fn handle_listener_ready(&mut self, slot: u32, now: Instant) {
        match self.acceptor.listeners.handle_ready(slot, self.core.driver.as_mut()) {
            Some(ListenerPoll::Streams(socket)) => self.accept_some(&socket, now),
            Some(ListenerPoll::Closed) => self.local.slots.borrow_mut().give_back(slot),
            None => {}
        }
    }

    /// Lets listeners that have backed off accept again.
    pub(crate) fn retry_listeners(&mut self, now: Instant) {
        let retried = self.acceptor.listeners.retry(self.core.driver.as_mut(), now);
        self.report_shortage(retried);
    }

    fn report_shortage(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.service.handle_shortage(error.raw_os_error().unwrap_or(libc::EIO));
        }
    }

    pub(crate) fn take_listener_orders(&mut self, now: Instant) {
        for order in self.shared.listener_orders.take() {
            match order {
                ListenerOrder::Open(id, listener) => self.open_listener(id, listener, now),
                ListenerOrder::OpenSockets(id, sockets) => self.spread_sockets(id, sockets),
                ListenerOrder::Close(id) => {
                    self.shared.inboxes.iter().for_each(|inbox| inbox.order(SocketOrder::Retire(id)));
                    if let Some(slot) = self.acceptor.listeners.close(id, self.core.driver.as_mut()) {
                        self.local.slots.borrow_mut().give_back(slot);
                    }
                }
            }
        }
    }

    /// Gives each core one of the sockets.
    fn spread_sockets(&mut self, id: ListenerId, sockets: DatagramSockets) {
        for (inbox, member) in self.shared.inboxes.iter().zip(sockets.into_members()) {
            inbox.order(SocketOrder::Open(id, member));
        }
    }

    fn open_listener(&mut self, id: ListenerId, listener: Listener, now: Instant) {
        let slot = slot_of(self.local.slots.borrow_mut().take());
        let socket = ListenerSocket { slot, id, descriptor: Rc::new(listener.into_descriptor()) };
        let opened = self.acceptor.listeners.open(socket, self.core.driver.as_mut(), now);
        self.report_shortage(opened);
    }

    /// Accepts what waits at a listener, and gives each stream to the core that has the fewest.
    fn accept_some(&mut self, socket: &ListenerSocket, now: Instant) {
        let slot = socket.slot;
        if self.ending.is_some() {
            return;
        }
        for _ in 0..ACCEPTS_PER_TURN {
            match listener::accept(socket.descriptor.as_fd(), self.shared.config.congestion) {
                Ok(stream) => self.assign_core(Arrival { listener: socket.id, stream }, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.core.driver.drained(slot);
                    break;
                }
                Err(error) if is_shortage(&error) => {
                    self.acceptor.listeners.back_off(slot, self.core.driver.as_mut(), now);
                    return self.report_shortage(Err(error));
                }
                // That stream was gone before it could be accepted.
                Err(_) => {}
            }
        }
        self.core.driver.poll(slot, Interest::Read);
    }

    /// Gives a stream to the core that has the fewest; closes it if that has as many as it may have.
    fn assign_core(&mut self, arrival: Arrival, now: Instant) {
        let Some(core) = self.acceptor.least_loaded(&self.shared.inboxes) else { return };
        let Some(inbox) = self.shared.inboxes.get(core) else { return };
        if inbox.load.load(Ordering::Relaxed) >= self.shared.config.max_connections {
            return;
        }
        inbox.load.fetch_add(1, Ordering::Relaxed);
        if core == usize::from(self.index) {
            self.register(arrival, now);
        } else {
            inbox.hand_over(arrival);
        }
    }

    /// Offers a stream to the service, and registers what that makes of it.
    pub(crate) fn register(&mut self, arrival: Arrival, now: Instant) {
        let Arrival { listener, stream } = arrival;
        let id = self.local.slots.borrow_mut().take();
        let slot = slot_of(id);
        let accepted = Accepted { listener, endpoint: id, local: stream.local, peer: stream.peer };
        let descriptor = Rc::new(stream.descriptor);
        let fits = self.ending.is_none()
            && self.core.driver.attach(slot, Rc::clone(&descriptor), SendRoom::Free).is_ok();
        let endpoint = if fits { self.service.accept(now, accepted).ok() } else { None };
        let Some(endpoint) = endpoint.filter(|endpoint| endpoint.staging() <= self.streams.least_staging())
        else {
            self.core.driver.detach(slot);
            self.local.slots.borrow_mut().give_back(slot);
            return self.unload();
        };
        let mut connection = Connection::new(id, Some(descriptor), endpoint, Phase::Open);
        connection.accepted = true;
        self.streams.insert(slot, connection);
    }

    /// Counts an accepted stream less.
    pub(crate) fn unload(&mut self) {
        if let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) {
            inbox.load.fetch_sub(1, Ordering::Relaxed);
        }
        self.acceptor.listeners.handle_descriptor_freed();
    }
}

/// True when accepting failed for want of a resource that may be free later: that says nothing of the stream.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
