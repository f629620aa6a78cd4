//! State of the core that the calling thread runs: how a service reaches the event loop that is calling it.
//!
//! The loop is borrowed while it calls the service or an endpoint, so requests to it are queued here, and it checks them before it
//! sleeps.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use host::{DatagramEndpoint, Dialer, Endpoint, EndpointId, IoError, Path, Polled, SlotField, WatchEndpoint};
use protocol::Ended;

use crate::clock;
use crate::convert::{index, position};
use crate::datagram_socket;
use crate::polled_list::PolledList;
use crate::sys::FileOp;
use crate::threads;
use crate::wakeup::Wakeup;

thread_local! {
    static CURRENT: RefCell<Option<Rc<CoreLocal>>> = const { RefCell::new(None) };
}

/// Slots that are free, and how often each was used: an endpoint's id is a slot and its use.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    uses: Vec<u32>,
    free: Vec<u32>,
}

/// How many slots a core can number; ids are `use × SPAN + slot`.
const SPAN: u64 = 1 << 32;

impl Slots {
    /// Takes a free slot; the id stands for its next use.
    pub(crate) fn take(&mut self) -> EndpointId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.uses.push(0);
            position(self.uses.len() - 1)
        });
        let uses = self.uses.get(slot as usize).copied().unwrap_or_default();
        EndpointId(u64::from(uses) * SPAN + u64::from(slot))
    }

    /// Frees a slot; the id does not come again before 2^32 uses of the slot.
    pub(crate) fn give_back(&mut self, slot: u32) {
        if let Some(uses) = self.uses.get_mut(slot as usize) {
            *uses = uses.wrapping_add(1);
            self.free.push(slot);
        }
    }
}

/// The slot of an id.
pub(crate) fn slot_of(id: EndpointId) -> u32 {
    position(index(id.0 % SPAN))
}

/// A connection attempt that the loop is to start.
pub(crate) struct Dial {
    pub(crate) id: EndpointId,
    pub(crate) peer: SocketAddr,
    pub(crate) endpoint: Box<dyn Endpoint>,
}

/// A socket that the loop is to open.
pub(crate) struct DialSocket {
    pub(crate) id: EndpointId,
    pub(crate) address: SocketAddr,
    pub(crate) slot: SlotField,
    pub(crate) endpoint: Box<dyn DatagramEndpoint>,
}

/// A descriptor that the loop is to watch.
pub(crate) struct Watch {
    pub(crate) id: EndpointId,
    pub(crate) descriptor: OwnedFd,
    pub(crate) endpoint: Box<dyn WatchEndpoint>,
}

/// Endpoints of a core for which any thread has requested a turn.
#[derive(Debug, Default)]
struct TurnRequests {
    endpoints: Mutex<Vec<EndpointId>>,
    wakeup: Option<Arc<Wakeup>>,
}

/// Requests a turn for one endpoint, from any thread.
struct EndpointWaker {
    requests: Arc<TurnRequests>,
    endpoint: EndpointId,
}

impl Wake for EndpointWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Self { requests, endpoint } = &**self;
        requests.endpoints.lock().unwrap_or_else(PoisonError::into_inner).push(*endpoint);
        if let Some(wakeup) = &requests.wakeup {
            wakeup.notify();
        }
    }
}

/// One core's requests to its event loop.
#[derive(Default)]
pub(crate) struct CoreLocal {
    pub(crate) slots: RefCell<Slots>,
    pub(crate) dials: RefCell<Vec<Dial>>,
    pub(crate) sockets: RefCell<Vec<DialSocket>>,
    pub(crate) watches: RefCell<Vec<Watch>>,
    pub(crate) woken: RefCell<Vec<EndpointId>>,
    pub(crate) files: RefCell<VecDeque<Box<FileOp>>>,
    pub(crate) polled: PolledList,
    requests: Arc<TurnRequests>,
}

impl CoreLocal {
    /// No requests yet, for the core with this wakeup.
    pub(crate) fn new(wakeup: Arc<Wakeup>) -> Self {
        let requests = TurnRequests { wakeup: Some(wakeup), ..TurnRequests::default() };
        Self { requests: Arc::new(requests), ..Self::default() }
    }

    /// Takes the turns that other threads have requested; each has notified the core.
    pub(crate) fn take_turn_requests(&self) {
        let mut endpoints = self.requests.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.borrow_mut().append(&mut endpoints);
    }

    /// True when the core itself has queued nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.dials.borrow().is_empty()
            && self.sockets.borrow().is_empty()
            && self.files.borrow().is_empty()
            && self.watches.borrow().is_empty()
            && self.woken.borrow().is_empty()
    }
}

/// Makes `local` the calling thread's, until the guard is dropped. A thread has one core at a time.
pub(crate) fn enter(local: Rc<CoreLocal>) -> io::Result<Guard> {
    CURRENT.with(|current| match &mut *current.borrow_mut() {
        Some(_) => Err(io::Error::other("another core runs on this thread: end it, or use another thread")),
        free => {
            *free = Some(local);
            Ok(Guard(PhantomData))
        }
    })
}

/// Ends what [`enter`] began, on the thread that began it.
pub(crate) struct Guard(PhantomData<*const ()>);

impl Drop for Guard {
    fn drop(&mut self) {
        // A thread that is going down has already dropped it.
        let _ = CURRENT.try_with(|current| current.borrow_mut().take());
    }
}

fn current() -> Option<Rc<CoreLocal>> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Starts a file operation on the calling core's ring, or on a file thread if there is none.
pub(crate) fn start_file(op: Box<FileOp>) {
    match current() {
        Some(local) => local.files.borrow_mut().push_back(op),
        None => threads::submit(op),
    }
}

/// Connects from whichever core's thread calls it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreDialer;

impl Dialer for CoreDialer {
    fn dial(&self, peer: SocketAddr, mut endpoint: Box<dyn Endpoint>) -> EndpointId {
        let Some(local) = current() else {
            endpoint.handle_ended(clock::now(), Ended::Failed(libc::ENXIO));
            return EndpointId(u64::MAX);
        };
        let id = local.slots.borrow_mut().take();
        local.dials.borrow_mut().push(Dial { id, peer, endpoint });
        id
    }

    fn path_to(&self, peer: SocketAddr) -> Result<Path, IoError> {
        datagram_socket::path_to(peer).map_err(|error| IoError(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    fn open_socket(
        &self,
        address: SocketAddr,
        slot: SlotField,
        mut endpoint: Box<dyn DatagramEndpoint>,
    ) -> EndpointId {
        let Some(local) = current() else {
            endpoint.handle_ended(clock::now(), Ended::Failed(libc::ENXIO));
            return EndpointId(u64::MAX);
        };
        let id = local.slots.borrow_mut().take();
        local.sockets.borrow_mut().push(DialSocket { id, address, slot, endpoint });
        id
    }

    fn watch(&self, descriptor: OwnedFd, mut endpoint: Box<dyn WatchEndpoint>) -> EndpointId {
        let Some(local) = current() else {
            endpoint.handle_ended(clock::now(), Ended::Failed(libc::ENXIO));
            return EndpointId(u64::MAX);
        };
        let id = local.slots.borrow_mut().take();
        local.watches.borrow_mut().push(Watch { id, descriptor, endpoint });
        id
    }

    fn poll_memory(&self, polled: &Rc<dyn Polled>) -> bool {
        let local = current();
        if let Some(local) = &local {
            local.polled.add(polled);
        }
        local.is_some()
    }

    fn wake(&self, endpoint: EndpointId) {
        if let Some(local) = current() {
            local.woken.borrow_mut().push(endpoint);
        }
    }

    fn waker(&self, endpoint: EndpointId) -> Waker {
        current().map_or_else(
            || Waker::noop().clone(),
            |local| {
                let requests = Arc::clone(&local.requests);
                Waker::from(Arc::new(EndpointWaker { requests, endpoint }))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_wakes_an_endpoint_and_its_core() {
        let wakeup = Arc::new(Wakeup::new().unwrap());
        wakeup.bind_to_this_thread();
        let local = Rc::new(CoreLocal::new(Arc::clone(&wakeup)));
        let _guard = enter(Rc::clone(&local)).unwrap();
        let waker = CoreDialer.waker(EndpointId(7));
        std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        assert!(wakeup.is_notified() && local.is_empty());
        local.take_turn_requests();
        assert_eq!(local.woken.take(), [EndpointId(7)]);
        waker.wake();
        assert!(wakeup.take(), "from its own thread, too");
        local.take_turn_requests();
        assert_eq!(local.woken.take(), [EndpointId(7)]);
    }

    #[test]
    fn a_slot_is_used_again_under_another_id() {
        let mut slots = Slots::default();
        let (first, second) = (slots.take(), slots.take());
        slots.give_back(slot_of(first));
        let third = slots.take();
        assert_eq!(slot_of(third), slot_of(first));
        assert_ne!(third, first);
        assert_ne!(slot_of(second), slot_of(first));
    }
}
