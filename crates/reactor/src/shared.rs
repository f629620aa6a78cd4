//! What the cores of a cluster share: an inbox for each, and orders to all.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::{CoreIndex, ListenerId, Postbox};

use crate::config::Config;
use crate::listener::Arrival;
use crate::listener_control::ListenerOrders;
use crate::socket_group::Member;
use crate::turns::Turns;
use crate::wakeup::Wakeup;

/// What a core is to do with its sockets for datagrams.
#[derive(Debug)]
pub(crate) enum SocketOrder {
    /// Receive at this one, in this name.
    Open(ListenerId, Member),
    /// Let the one of this name finish.
    Retire(ListenerId),
}

/// What one core receives from the others.
pub(crate) struct Inbox<M> {
    messages: Mutex<Vec<M>>,
    streams: Mutex<Vec<Arrival>>,
    sockets: Mutex<Vec<SocketOrder>>,
    pub(crate) wakeup: Arc<Wakeup>,
    /// Accepted streams that the core has, or is about to have.
    pub(crate) load: AtomicUsize,
    pub(crate) turns: Arc<Turns>,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M> Inbox<M> {
    fn new() -> io::Result<Self> {
        Ok(Self {
            messages: Mutex::default(),
            streams: Mutex::default(),
            sockets: Mutex::default(),
            wakeup: Arc::new(Wakeup::new()?),
            load: AtomicUsize::new(0),
            turns: Arc::default(),
            stopped: AtomicBool::new(false),
        })
    }

    /// Moves what has arrived to the caller's lists.
    pub(crate) fn collect(&self, messages: &mut Vec<M>, streams: &mut Vec<Arrival>) {
        messages.append(&mut lock(&self.messages));
        streams.append(&mut lock(&self.streams));
    }

    /// Takes what the core is to do with its sockets, in order.
    pub(crate) fn take_socket_orders(&self) -> Vec<SocketOrder> {
        std::mem::take(&mut lock(&self.sockets))
    }

    /// Has the core do something with a socket; a core that has stopped closes what it is given.
    pub(crate) fn order(&self, order: SocketOrder) {
        let mut sockets = lock(&self.sockets);
        if !self.is_stopped() {
            sockets.push(order);
            drop(sockets);
            self.wakeup.notify();
        }
    }

    /// Takes a stream that another core has accepted.
    pub(crate) fn hand_over(&self, arrival: Arrival) {
        lock(&self.streams).push(arrival);
        self.wakeup.notify();
    }

    /// Drops what has arrived, and whatever comes from now on.
    pub(crate) fn close(&self) {
        let mut messages = lock(&self.messages);
        self.stopped.store(true, Ordering::SeqCst);
        let dropped = std::mem::take(&mut *messages);
        drop(messages);
        // Dropping a message may post another: without the lock.
        drop(dropped);
        lock(&self.streams).clear();
        lock(&self.sockets).clear();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The core that accepts streams, for all of them.
pub(crate) const ACCEPTING_CORE: CoreIndex = 0;

/// What all cores share.
pub(crate) struct Shared<M> {
    /// One for each core.
    pub(crate) inboxes: Vec<Inbox<M>>,
    cores: CoreIndex,
    pub(crate) listener_orders: Arc<ListenerOrders>,
    pub(crate) config: Config,
    stop: AtomicBool,
}

impl<M> Shared<M> {
    /// What `cores` cores share, at least one.
    pub(crate) fn new(cores: CoreIndex, config: Config) -> io::Result<Self> {
        let first = Inbox::new()?;
        let listener_orders = Arc::new(ListenerOrders::new(Arc::clone(&first.wakeup)));
        let cores = cores.max(1);
        let others = (1..cores).map(|_| Inbox::new());
        let inboxes = std::iter::once(Ok(first)).chain(others).collect::<io::Result<_>>()?;
        Ok(Self { inboxes, cores, listener_orders, config, stop: AtomicBool::new(false) })
    }

    /// Asks all cores to end.
    pub(crate) fn stop_all(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for inbox in &self.inboxes {
            inbox.wakeup.notify();
        }
    }

    /// How many cores there are.
    pub(crate) fn core_count(&self) -> CoreIndex {
        self.cores
    }

    /// True once [`Shared::stop_all`] was called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl<M: Send> Postbox<M> for Shared<M> {
    fn post(&self, core: CoreIndex, message: M) {
        let Some(inbox) = self.inboxes.get(usize::from(core)).filter(|inbox| !inbox.is_stopped()) else {
            return;
        };
        let mut messages = lock(&inbox.messages);
        if inbox.is_stopped() {
            // It has stopped meanwhile; whatever the message does when it is dropped, it does without the lock.
            drop(messages);
            return;
        }
        messages.push(message);
        drop(messages);
        inbox.wakeup.notify();
    }

    fn cores(&self) -> CoreIndex {
        self.cores
    }
}
