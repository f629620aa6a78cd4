//! A socket's queue pairs as the event loop drives them.

use std::cell::RefCell;
use std::rc::Rc;

use host::{DatagramEndpoint, Datagrams, OpenSocket};
use protocol::{Ended, Instant};
use roce::train::Train;

use super::socket::Socket;

/// What the event loop has of a socket; whoever decides about requests has the socket too.
pub(crate) struct SocketEndpoint {
    socket: Rc<RefCell<Socket>>,
    /// What is on its way out.
    train: Train,
    is_retired: bool,
}

impl SocketEndpoint {
    pub(crate) fn new(socket: Rc<RefCell<Socket>>) -> Self {
        Self { socket, train: Train::default(), is_retired: false }
    }
}

impl DatagramEndpoint for SocketEndpoint {
    fn handle_opened(&mut self, _now: Instant, _socket: OpenSocket) {}

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        self.socket.borrow_mut().handle_datagrams(now, datagrams);
    }

    fn handle_transmitted(&mut self, _now: Instant) {
        self.train.clear();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.socket.borrow_mut().handle_timeout(now);
    }

    fn handle_retired(&mut self, _now: Instant) {
        self.is_retired = true;
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.socket.borrow_mut().handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        self.socket.borrow_mut().turn(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        if self.train.is_empty() {
            self.socket.borrow_mut().fill(now, &mut self.train);
        }
        let peer = self.train.destination()?;
        Some(Datagrams { peer, bytes: self.train.bytes(), segment: self.train.segment() })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.socket.borrow().poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.is_retired && self.train.is_empty() && self.socket.borrow().is_empty()
    }

    fn expects_work(&self) -> bool {
        self.socket.borrow().expects_work()
    }
}
