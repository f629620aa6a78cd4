//! A port's queue pairs as the event loop drives them.

use std::cell::RefCell;
use std::rc::Rc;

use host::WatchEndpoint;
use protocol::{Ended, Instant};

use super::port_owners::PortOwners;

/// Who else has a port beside the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// A serving core, which decides about requests and wakes owners by name.
    Serving,
    /// Nobody: it was opened for one connection, and goes with it.
    OneConnection,
}

/// What the event loop has of a port.
pub(crate) struct PortEndpoint {
    owners: Rc<RefCell<PortOwners>>,
    usage: Use,
    /// The descriptor is of no use any more.
    is_over: bool,
}

impl PortEndpoint {
    /// Of a port where peers come.
    pub(crate) fn serving(owners: Rc<RefCell<PortOwners>>) -> Self {
        Self { owners, usage: Use::Serving, is_over: false }
    }

    /// Of a port for one connection, which has its owner.
    pub(crate) fn of_one(owners: PortOwners) -> Self {
        Self { owners: Rc::new(RefCell::new(owners)), usage: Use::OneConnection, is_over: false }
    }
}

impl WatchEndpoint for PortEndpoint {
    fn handle_ready(&mut self, now: Instant) {
        self.owners.borrow_mut().handle_ready(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.owners.borrow_mut().handle_timeout(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.is_over = true;
        self.owners.borrow_mut().handle_ended(now, how);
    }

    fn turn(&mut self, now: Instant) {
        let mut owners = self.owners.borrow_mut();
        if self.usage == Use::OneConnection {
            // Whoever wakes the port has orders for its owner, and nobody is there to be asked.
            owners.wake_all();
        }
        owners.turn(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.owners.borrow().poll_timeout()
    }

    fn is_finished(&self) -> bool {
        let is_unused = self.usage == Use::OneConnection || Rc::strong_count(&self.owners) == 1;
        self.is_over || is_unused && self.owners.borrow().is_empty()
    }

    fn expects_work(&self) -> bool {
        self.owners.borrow().expects_work()
    }
}
