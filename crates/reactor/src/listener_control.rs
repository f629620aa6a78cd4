//! Opens and closes listeners from any thread: orders for the core that accepts.
//!
//! The book of what is open is kept here, under one lock with the orders, so that the core never gets an order to open a listener twice, or
//! to close one that is not open.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::ListenerId;

use crate::datagram_sockets::DatagramSockets;
use crate::listener::Listener;
use crate::wakeup::Wakeup;

/// What the accepting core is to do.
#[derive(Debug)]
pub(crate) enum ListenerOrder {
    /// Accept from this socket, in this name.
    Open(ListenerId, Listener),
    /// Receive datagrams at these sockets, in this name, at one on each core.
    OpenSockets(ListenerId, DatagramSockets),
    /// Stop accepting, and close the socket.
    Close(ListenerId),
}

#[derive(Debug, Default)]
struct Book {
    open: HashSet<ListenerId>,
    orders: Vec<ListenerOrder>,
    is_stopped: bool,
}

/// Changes of listeners on their way to the accepting core.
#[derive(Debug)]
pub(crate) struct ListenerOrders {
    book: Mutex<Book>,
    /// There are orders: spares the core the lock with each message.
    pending: AtomicBool,
    wakeup: Arc<Wakeup>,
}

impl ListenerOrders {
    /// No orders yet, for the core with this wakeup.
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> Self {
        Self { book: Mutex::default(), pending: AtomicBool::new(false), wakeup }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut book: MutexGuard<'_, Book>, order: ListenerOrder) {
        book.orders.push(order);
        self.pending.store(true, Ordering::Release);
        drop(book);
        self.wakeup.notify();
    }

    /// True when [`ListenerOrders::take`] has something to give.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Takes the orders, in the order in which they were given.
    pub(crate) fn take(&self) -> Vec<ListenerOrder> {
        let mut book = self.book();
        self.pending.store(false, Ordering::Relaxed);
        std::mem::take(&mut book.orders)
    }

    /// The core has ended: orders have no effect any more, and their listeners close.
    pub(crate) fn stop(&self) {
        let mut book = self.book();
        book.is_stopped = true;
        let dropped = std::mem::take(&mut book.orders);
        drop(book);
        drop(dropped);
    }
}

/// Opens and closes listeners of a cluster, before it runs and while it does, from any thread. Once the cluster's first core has ended, or
/// was dropped, listeners that it is given are closed at once.
#[derive(Debug, Clone)]
pub struct ListenerControl(Arc<ListenerOrders>);

impl ListenerControl {
    pub(crate) fn new(orders: Arc<ListenerOrders>) -> Self {
        Self(orders)
    }

    /// Starts to accept streams from `listener`, which the cores' services get to see in the name of `id`
    /// ([`host::Accepted::listener`]).
    ///
    /// An id names one listener, for ever: streams that it has accepted may reach a service after it was closed, and an id that is used
    /// again would pass them off as its successor's.
    ///
    /// # Errors
    /// A listener is open under this id. The new one is closed.
    pub fn open(&self, id: ListenerId, listener: Listener) -> Result<(), ListenerIdInUse> {
        let mut book = self.0.book();
        if book.is_stopped {
            return Ok(());
        }
        if !book.open.insert(id) {
            return Err(ListenerIdInUse(id));
        }
        self.0.push(book, ListenerOrder::Open(id, listener));
        Ok(())
    }

    /// Starts to receive datagrams at `sockets`, of which the service of each core gets to see one ([`host::Service::open_socket`]).
    ///
    /// # Errors
    /// A listener is open under this id. The sockets are closed.
    pub fn open_sockets(&self, id: ListenerId, sockets: DatagramSockets) -> Result<(), ListenerIdInUse> {
        let mut book = self.0.book();
        if book.is_stopped {
            return Ok(());
        }
        if !book.open.insert(id) {
            return Err(ListenerIdInUse(id));
        }
        self.0.push(book, ListenerOrder::OpenSockets(id, sockets));
        Ok(())
    }

    /// Stops accepting from a listener, and closes it: soon its address is free, and streams that were not accepted yet are reset. Accepted
    /// streams live on. Sockets for datagrams close once their endpoints have finished. False if no listener is open under this id.
    pub fn close(&self, id: ListenerId) -> bool {
        let mut book = self.0.book();
        let was_open = book.open.remove(&id);
        if was_open && !book.is_stopped {
            self.0.push(book, ListenerOrder::Close(id));
        }
        was_open
    }
}

/// A listener was opened under the id of one that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerIdInUse(pub ListenerId);

impl fmt::Display for ListenerIdInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener {} is open already; give each listener an id of its own", self.0.0)
    }
}

impl std::error::Error for ListenerIdInUse {}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener() -> Listener {
        Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    #[test]
    fn an_id_names_one_listener_at_a_time() {
        let orders = Arc::new(ListenerOrders::new(Arc::new(Wakeup::new().unwrap())));
        let control = ListenerControl::new(Arc::clone(&orders));
        assert!(!control.close(ListenerId(1)), "never opened");
        control.open(ListenerId(1), listener()).unwrap();
        assert_eq!(control.open(ListenerId(1), listener()), Err(ListenerIdInUse(ListenerId(1))));
        assert!(control.close(ListenerId(1)) && !control.close(ListenerId(1)), "closed once");
        assert!(orders.is_pending());
        let taken = orders.take();
        assert!(
            matches!(taken[..], [ListenerOrder::Open(ListenerId(1), _), ListenerOrder::Close(ListenerId(1))]),
            "{taken:?}"
        );
        assert!(!orders.is_pending());
    }

    #[test]
    fn who_has_stopped_closes_what_it_is_given() {
        let orders = Arc::new(ListenerOrders::new(Arc::new(Wakeup::new().unwrap())));
        let control = ListenerControl::new(Arc::clone(&orders));
        let (early, late) = (listener(), listener());
        let addresses = [early.local(), late.local()];
        control.open(ListenerId(0), early).unwrap();
        orders.stop();
        control.open(ListenerId(1), late).unwrap();
        for address in addresses {
            std::net::TcpListener::bind(address).unwrap();
        }
    }
}
