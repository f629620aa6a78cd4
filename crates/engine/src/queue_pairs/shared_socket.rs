//! A socket that the connections of a core share: those of its portals, and those to peers. It may be on its way to open, and connections that are asked for meanwhile wait.
//!
//! A connection may be asked for while owners of the socket have their turns. So those who wait have a list of their own, which the socket's next turn takes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use protocol::{Ended, Instant};

use super::socket::Socket;

/// A connection that begins when its socket is open, or ends when that cannot be.
pub(crate) trait Begin {
    /// It is open: connects, and takes an owner in.
    fn begin(self: Box<Self>, now: Instant, socket: &mut Socket);

    /// It cannot be opened.
    fn fail(self: Box<Self>, now: Instant, how: Ended);
}

/// What a socket is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Portals: it stays.
    Portals,
    /// The connections that there are: it closes after the last.
    Connections,
    /// Those connections, until they have said goodbye.
    Ending,
    /// None: it could not be opened, or is gone.
    Gone,
}

/// A socket that connections share.
pub(crate) struct SharedSocket {
    /// None before it is open.
    socket: RefCell<Option<Socket>>,
    newcomers: RefCell<VecDeque<Box<dyn Begin>>>,
    purpose: Cell<Purpose>,
}

impl SharedSocket {
    /// A portals' socket, which is open.
    pub(crate) fn for_portals(socket: Socket) -> Self {
        let (socket, newcomers) = (RefCell::new(Some(socket)), RefCell::default());
        Self { socket, newcomers, purpose: Cell::new(Purpose::Portals) }
    }

    /// A socket that is to be opened for a connection.
    pub(crate) fn for_connection(first: Box<dyn Begin>) -> Self {
        let (socket, newcomers) = (RefCell::new(None), RefCell::new(VecDeque::from([first])));
        Self { socket, newcomers, purpose: Cell::new(Purpose::Connections) }
    }

    /// Another connection is asked for; it begins with the socket's next turn.
    pub(crate) fn ask(&self, newcomer: Box<dyn Begin>) {
        self.newcomers.borrow_mut().push_back(newcomer);
    }

    /// It is open, if it was not.
    pub(crate) fn open(&self, make: impl FnOnce() -> Socket) {
        self.socket.borrow_mut().get_or_insert_with(make);
    }

    /// Does something with the socket, if it is open.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Socket) -> T) -> Option<T> {
        self.socket.borrow_mut().as_mut().map(act)
    }

    /// Portals need it no more.
    pub(crate) fn retire(&self) {
        if self.purpose.get() == Purpose::Portals {
            self.purpose.set(Purpose::Connections);
        }
    }

    /// Lets connections that were asked for begin, and those that there are have their turns.
    pub(crate) fn turn(&self, now: Instant) {
        if self.purpose.get() == Purpose::Ending {
            self.refuse_newcomers(now, Ended::ByUs);
        }
        let newcomers = self.newcomers.take();
        self.with(|socket| {
            for newcomer in newcomers {
                newcomer.begin(now, socket);
            }
            socket.turn(now);
        });
    }

    /// Its core ends: peers hear that, and it closes when they have, or say nothing.
    pub(crate) fn shut_down(&self, now: Instant) {
        self.purpose.set(Purpose::Ending);
        self.refuse_newcomers(now, Ended::ByUs);
        self.with(|socket| socket.handle_ended(now, Ended::ByUs));
    }

    /// It could not be opened, or is gone.
    pub(crate) fn end(&self, now: Instant, how: Ended) {
        self.purpose.set(Purpose::Gone);
        self.refuse_newcomers(now, how);
        self.with(|socket| socket.handle_ended(now, how));
    }

    fn refuse_newcomers(&self, now: Instant, how: Ended) {
        for newcomer in self.newcomers.take() {
            newcomer.fail(now, how);
        }
    }

    /// True when nobody needs it: it closes, and whoever asks for a connection takes another one.
    pub(crate) fn is_finished(&self) -> bool {
        match self.purpose.get() {
            Purpose::Portals => false,
            Purpose::Gone => true,
            Purpose::Connections | Purpose::Ending => {
                // While it is used, somebody has a turn.
                let socket = self.socket.try_borrow();
                self.newcomers.borrow().is_empty()
                    && socket.is_ok_and(|socket| socket.as_ref().is_none_or(Socket::is_empty))
            }
        }
    }
}
