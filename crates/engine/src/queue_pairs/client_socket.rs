//! A socket that leads to a peer: opened for one connection, and closed after it.

use std::cell::RefCell;
use std::rc::Rc;

use host::{DatagramEndpoint, Datagrams, OpenSocket};
use protocol::{Ended, Instant};

use super::socket::Socket;
use super::socket_endpoint::SocketEndpoint;

/// What begins when the socket is open, or ends when it cannot be.
pub(crate) trait Begin {
    /// It is open: connects, and takes an owner in.
    fn begin(self: Box<Self>, now: Instant, socket: OpenSocket) -> Socket;

    /// It cannot be opened.
    fn fail(self: Box<Self>, now: Instant, how: Ended);
}

/// The socket of a client's.
pub(crate) struct ClientSocket {
    begin: Option<Box<dyn Begin>>,
    open: Option<OpenEnd>,
}

/// The socket once it is open.
struct OpenEnd {
    socket: Rc<RefCell<Socket>>,
    endpoint: SocketEndpoint,
}

impl ClientSocket {
    pub(crate) fn new(begin: Box<dyn Begin>) -> Self {
        Self { begin: Some(begin), open: None }
    }
}

impl DatagramEndpoint for ClientSocket {
    fn handle_opened(&mut self, now: Instant, socket: OpenSocket) {
        let Some(begin) = self.begin.take() else { return };
        let socket = Rc::new(RefCell::new(begin.begin(now, socket)));
        let mut endpoint = SocketEndpoint::new(Rc::clone(&socket));
        endpoint.handle_retired(now);
        self.open = Some(OpenEnd { socket, endpoint });
    }

    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>) {
        if let Some(open) = &mut self.open {
            open.endpoint.handle_datagrams(now, datagrams);
        }
    }

    fn handle_transmitted(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            open.endpoint.handle_transmitted(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            open.endpoint.handle_timeout(now);
        }
    }

    fn handle_retired(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        if let Some(begin) = self.begin.take() {
            begin.fail(now, how);
        }
        if let Some(open) = &mut self.open {
            open.endpoint.handle_ended(now, how);
        }
    }

    /// Whoever wakes the socket has orders for its owner.
    fn turn(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            let mut socket = open.socket.borrow_mut();
            // Nobody is there to be asked.
            while let Some(request) = socket.take_request() {
                socket.refuse(&request);
            }
            socket.wake_all();
            socket.turn(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>> {
        self.open.as_mut()?.endpoint.poll_transmit(now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.open.as_ref()?.endpoint.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.begin.is_none() && self.open.as_ref().is_none_or(|open| open.endpoint.is_finished())
    }

    fn expects_work(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.endpoint.expects_work())
    }
}
