//! A server whose streams and sockets a trial sees first: the trial may lead a stream elsewhere, answer it itself, or stand before a socket.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use engine::{Core, Message};
use host::{Accepted, DatagramEndpoint, Endpoint, EndpointId, OpenSocket, Refusal, Service};
use protocol::Instant;

/// What becomes of a stream, given the core that would have it.
pub(crate) type Admit = Rc<RefCell<dyn FnMut(Instant, Accepted, &mut Core) -> Admitted>>;

/// The server's end of a stream, or why there is none.
pub(crate) type Admitted = Result<Box<dyn Endpoint>, Refusal>;

/// What becomes of a socket for datagrams at an address.
pub(crate) type Join =
    Rc<RefCell<dyn FnMut(SocketAddr, Box<dyn DatagramEndpoint>) -> Box<dyn DatagramEndpoint>>>;

/// Sockets stay what they are.
pub(crate) fn as_they_are() -> Join {
    Rc::new(RefCell::new(|_, socket| socket))
}

/// A core behind what a trial does with its streams and sockets.
pub(crate) struct Front {
    pub(crate) core: Core,
    pub(crate) admit: Admit,
    pub(crate) join: Join,
}

impl Service for Front {
    type Message = Message;

    fn accept(&mut self, now: Instant, accepted: Accepted) -> Admitted {
        (self.admit.borrow_mut())(now, accepted, &mut self.core)
    }

    fn open_socket(&mut self, now: Instant, socket: OpenSocket) -> Option<Box<dyn DatagramEndpoint>> {
        let local = socket.local;
        let inner = self.core.open_socket(now, socket)?;
        Some((self.join.borrow_mut())(local, inner))
    }

    fn handle_socket_gone(&mut self, now: Instant, socket: EndpointId) {
        self.core.handle_socket_gone(now, socket);
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        self.core.handle_message(now, message);
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>) {
        self.core.turn(now, ready);
    }

    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId) {
        self.core.handle_gone(now, endpoint);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.core.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.core.is_finished()
    }
}
