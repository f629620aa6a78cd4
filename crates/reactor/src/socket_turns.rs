//! Turns of sockets for datagrams: what has come is given to the socket's endpoint, which has a turn and sends what it has to say.

use std::io;
use std::rc::Rc;

use host::{DatagramEndpoint, Dialer, EndpointId, ListenerId, OpenSocket, Service};
use protocol::{Ended, Instant};

use crate::core_local::{CoreDialer, DialSocket, slot_of};
use crate::driver::{Interest, SendRoom};
use crate::event_loop::EventLoop;
use crate::limits::{LAST_DATAGRAMS, RECEIVES_AT_ONCE, SEND_RETRY};
use crate::shared::SocketOrder;
use crate::socket_group::Member;
use crate::sockets::{Phase, Socket};

/// A socket that is bound, before it has its place.
struct Bound {
    id: EndpointId,
    listener: Option<ListenerId>,
    member: Member,
}

impl Bound {
    fn opened(&self) -> OpenSocket {
        let Self { id, member, .. } = self;
        OpenSocket { endpoint: *id, local: member.local(), membership: member.membership() }
    }
}

impl<S: Service> EventLoop<S> {
    /// Does what the accepting core has ordered.
    pub(crate) fn take_socket_orders(&mut self, now: Instant) {
        let Some(inbox) = self.shared.inboxes.get(usize::from(self.index)) else { return };
        for order in inbox.take_socket_orders() {
            match order {
                SocketOrder::Open(listener, member) => self.open_socket(listener, member, now),
                SocketOrder::Retire(listener) => self.retire_socket(listener, now),
            }
        }
    }

    /// Offers a socket to the service, which may have no use for it.
    fn open_socket(&mut self, listener: ListenerId, member: Member, now: Instant) {
        let id = self.local.slots.borrow_mut().take();
        let bound = Bound { id, listener: Some(listener), member };
        match self.service.open_socket(now, bound.opened()) {
            Some(endpoint) if self.ending.is_none() => {
                bound.member.begin_accepting();
                self.insert_socket(bound, endpoint, now);
            }
            _ => self.local.slots.borrow_mut().give_back(slot_of(id)),
        }
    }

    /// Opens a socket that an endpoint has asked for.
    pub(crate) fn dial_socket(&mut self, dial: DialSocket, now: Instant) {
        let DialSocket { id, address, slot, mut endpoint } = dial;
        match Member::bind(address, slot) {
            Ok(member) => self.insert_socket(Bound { id, listener: None, member }, endpoint, now),
            Err(error) => {
                endpoint.handle_ended(now, Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
                self.local.slots.borrow_mut().give_back(slot_of(id));
            }
        }
    }

    fn insert_socket(&mut self, bound: Bound, mut endpoint: Box<dyn DatagramEndpoint>, now: Instant) {
        let slot = slot_of(bound.id);
        endpoint.handle_opened(now, bound.opened());
        let Bound { id, listener, member } = bound;
        let attached = member.descriptor().map(Rc::new).and_then(|descriptor| {
            self.core.driver.attach(slot, Rc::clone(&descriptor), SendRoom::Unknown)?;
            Ok(descriptor)
        });
        let descriptor = match attached {
            Ok(descriptor) => descriptor,
            Err(error) => {
                endpoint.handle_ended(now, Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
                return self.local.slots.borrow_mut().give_back(slot);
            }
        };
        member.set_reader(CoreDialer.waker(id));
        let socket = Socket {
            id,
            listener,
            member,
            descriptor,
            endpoint,
            polling: false,
            touched: false,
            phase: Phase::Open,
            retry_at: None,
            scheduled: None,
            expects: false,
        };
        self.sockets.by_slot.insert(slot, socket);
        self.sockets.touch(slot);
    }

    /// The socket of a listener is to close, once its endpoint has finished.
    fn retire_socket(&mut self, listener: ListenerId, now: Instant) {
        let meant = self.sockets.by_slot.iter_mut().find(|(_, socket)| socket.listener == Some(listener));
        if let Some((slot, socket)) = meant {
            let slot = *slot;
            socket.member.stop_accepting();
            socket.endpoint.handle_retired(now);
            self.sockets.touch(slot);
        }
    }

    /// The loop ends: endpoints say so to their peers, and have a moment to hear answers.
    pub(crate) fn shut_sockets_down(&mut self, now: Instant) {
        self.sockets.close_at = Some(now + LAST_DATAGRAMS);
        let slots: Vec<u32> = self.sockets.by_slot.keys().copied().collect();
        for slot in slots {
            if let Some(socket) = self.sockets.by_slot.get_mut(&slot) {
                socket.endpoint.handle_shutdown(now);
            }
            self.sockets.touch(slot);
        }
    }

    /// All sockets close now.
    pub(crate) fn end_sockets(&mut self, now: Instant) {
        self.sockets.close_at = None;
        let slots: Vec<u32> = self.sockets.by_slot.keys().copied().collect();
        for slot in slots {
            if let Some(socket) = self.sockets.by_slot.get_mut(&slot) {
                socket.endpoint.handle_ended(now, Ended::ByUs);
            }
            self.close_socket(slot, now);
        }
    }

    /// A poll has ended in a slot that may be a socket's: false if it is none.
    pub(crate) fn handle_socket_ready(&mut self, slot: u32, now: Instant) -> bool {
        let Some(socket) = self.sockets.by_slot.get_mut(&slot) else { return false };
        socket.polling = false;
        if socket.phase == Phase::Closing {
            self.remove_socket(slot, now);
            return true;
        }
        self.sockets.touch(slot);
        for _ in 0..RECEIVES_AT_ONCE {
            match self.sockets.receive(slot, now) {
                Ok(count) => self.core.traffic.received += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.core.driver.drained(slot);
                    break;
                }
                // An error of something that was sent; it is told once.
                Err(_) => {}
            }
        }
        true
    }

    /// Lets a socket's endpoint have a turn: false if the name is no socket's.
    pub(crate) fn wake_socket(&mut self, id: EndpointId, now: Instant) -> bool {
        let slot = slot_of(id);
        let is_meant = self.sockets.by_slot.get(&slot).is_some_and(|socket| socket.id == id);
        if is_meant {
            self.sockets.touch(slot);
            self.sockets.take_turn(slot, now);
        }
        is_meant
    }

    /// An entry of the timers has come due in a slot that is no stream's.
    pub(crate) fn handle_socket_due(&mut self, slot: u32, when: Instant, now: Instant) {
        let Some(socket) = self.sockets.by_slot.get_mut(&slot) else { return };
        if socket.scheduled != Some(when) {
            return;
        }
        socket.scheduled = None;
        if socket.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            socket.endpoint.handle_timeout(now);
        }
        self.sockets.touch(slot);
    }

    /// Lets the endpoints of sockets to which something has come do what follows.
    pub(crate) fn take_socket_turns(&mut self, now: Instant) {
        for index in 0..self.sockets.touched.len() {
            if let Some(slot) = self.sockets.touched.get(index).copied() {
                self.sockets.take_turn(slot, now);
            }
        }
    }

    /// Ends the turns of sockets: each sends, waits for what comes, or closes.
    pub(crate) fn finish_socket_turns(&mut self, now: Instant) {
        let mut touched = std::mem::take(&mut self.sockets.touched);
        for slot in touched.drain(..) {
            self.finish_socket_turn(slot, now);
        }
        // What is touched meanwhile has its turn in the next one.
        touched.append(&mut self.sockets.touched);
        self.core.again |= !touched.is_empty();
        self.sockets.touched = touched;
    }

    fn finish_socket_turn(&mut self, slot: u32, now: Instant) {
        let budget = self.streams.turn_budget();
        let Some(socket) = self.sockets.by_slot.get_mut(&slot) else { return };
        socket.touched = false;
        if socket.phase == Phase::Closing {
            return;
        }
        let (mut sent, mut goes_on) = (0, true);
        socket.retry_at = None;
        while goes_on && sent < budget {
            if let Ok(count) = socket.transmit(now) {
                sent += count;
                goes_on = count > 0;
            } else {
                socket.retry_at = Some(now + SEND_RETRY);
                goes_on = false;
            }
        }
        let expects = socket.endpoint.expects_work();
        self.sockets.expecting += usize::from(expects);
        self.sockets.expecting -= usize::from(std::mem::replace(&mut socket.expects, expects));
        self.core.timers.schedule(slot, socket.poll_timeout(), &mut socket.scheduled);
        if !std::mem::replace(&mut socket.polling, true) {
            self.core.driver.poll(slot, Interest::Read);
        }
        if socket.endpoint.is_finished() {
            self.close_socket(slot, now);
        } else if goes_on {
            self.sockets.touch(slot);
        }
    }

    fn close_socket(&mut self, slot: u32, now: Instant) {
        let Some(socket) = self.sockets.by_slot.get_mut(&slot) else { return };
        if std::mem::replace(&mut socket.phase, Phase::Closing) == Phase::Closing {
            return;
        }
        if socket.polling {
            self.core.driver.cancel(slot);
        } else {
            self.remove_socket(slot, now);
        }
    }

    fn remove_socket(&mut self, slot: u32, now: Instant) {
        let Some(socket) = self.sockets.by_slot.remove(&slot) else { return };
        self.core.driver.detach(slot);
        self.sockets.expecting -= usize::from(socket.expects);
        self.local.slots.borrow_mut().give_back(slot);
        self.service.handle_socket_gone(now, socket.id);
        self.core.again = true;
    }
}
