//! Turns of sockets for datagrams: what has come is given to the socket's endpoint, which has a turn and sends what it has to say.

use std::io;
use std::rc::Rc;

use host::{DatagramEndpoint, EndpointId, ListenerId, OpenSocket, Service};
use protocol::{Ended, Instant};

use crate::core_local::{DialSocket, slot_of};
use crate::datagram_socket::{self, DatagramSocket};
use crate::driver::{Interest, SendRoom};
use crate::event_loop::EventLoop;
use crate::limits::{RECEIVES_AT_ONCE, SEND_RETRY};
use crate::sockets::{Phase, Socket};

/// A socket that is bound, before it has its place.
struct Bound {
    id: EndpointId,
    listener: Option<ListenerId>,
    socket: DatagramSocket,
}

impl<S: Service> EventLoop<S> {
    /// Offers a socket to the service, which may have no use for it.
    pub(crate) fn open_socket(&mut self, listener: ListenerId, socket: DatagramSocket, now: Instant) {
        let id = self.local.slots.borrow_mut().take();
        let opened = OpenSocket { endpoint: id, local: socket.local(), path: None };
        match self.service.open_socket(now, opened) {
            Some(mut endpoint) if self.ending.is_none() => {
                endpoint.handle_opened(now, opened);
                self.insert_socket(Bound { id, listener: Some(listener), socket }, endpoint, now);
            }
            _ => self.local.slots.borrow_mut().give_back(slot_of(id)),
        }
    }

    /// Opens a socket that an endpoint has asked for.
    pub(crate) fn dial_socket(&mut self, dial: DialSocket, now: Instant) {
        let DialSocket { id, peer, port, mut endpoint } = dial;
        match datagram_socket::open(peer, port) {
            Ok(outward) => {
                let opened =
                    OpenSocket { endpoint: id, local: outward.socket.local(), path: Some(outward.path) };
                endpoint.handle_opened(now, opened);
                self.insert_socket(Bound { id, listener: None, socket: outward.socket }, endpoint, now);
            }
            Err(error) => {
                endpoint.handle_ended(now, Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
                self.local.slots.borrow_mut().give_back(slot_of(id));
            }
        }
    }

    fn insert_socket(&mut self, bound: Bound, mut endpoint: Box<dyn DatagramEndpoint>, now: Instant) {
        let Bound { id, listener, socket } = bound;
        let (slot, descriptor) = (slot_of(id), Rc::new(socket.into_descriptor()));
        if let Err(error) = self.core.driver.attach(slot, Rc::clone(&descriptor), SendRoom::Unknown) {
            endpoint.handle_ended(now, Ended::Failed(error.raw_os_error().unwrap_or(libc::EIO)));
            return self.local.slots.borrow_mut().give_back(slot);
        }
        let socket = Socket {
            id,
            listener,
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
    pub(crate) fn retire_socket(&mut self, listener: ListenerId, now: Instant) {
        let meant = self.sockets.by_slot.iter_mut().find(|(_, socket)| socket.listener == Some(listener));
        if let Some((slot, socket)) = meant {
            let slot = *slot;
            socket.endpoint.handle_retired(now);
            self.sockets.touch(slot);
        }
    }

    /// All sockets close now.
    pub(crate) fn end_sockets(&mut self, now: Instant) {
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
