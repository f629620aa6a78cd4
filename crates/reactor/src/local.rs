//! What belongs to the core whose thread is running: how its service reaches the loop that is calling it.
//!
//! The loop is borrowed while it calls the service or an endpoint, so requests to it are left here, and it looks here
//! before it sleeps.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use host::{Dialer, Endpoint, EndpointId};
use protocol::Ended;

use crate::alarm::Alarm;
use crate::clock;
use crate::sys::FileOp;
use crate::threads;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// Slots that are free, and how often each was used: a name is a slot and its use.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    uses: Vec<u32>,
    free: Vec<u32>,
}

/// How many slots a core can number; names are `use × SPAN + slot`.
const SPAN: u64 = 1 << 32;

impl Slots {
    /// Takes a free slot and names its next use.
    pub(crate) fn take(&mut self) -> EndpointId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.uses.push(0);
            u32::try_from(self.uses.len() - 1).unwrap_or(u32::MAX)
        });
        let uses = self.uses.get(slot as usize).copied().unwrap_or_default();
        EndpointId(u64::from(uses) * SPAN + u64::from(slot))
    }

    /// Frees a slot; the name is not given again before four thousand million uses of the slot.
    pub(crate) fn give_back(&mut self, slot: u32) {
        if let Some(uses) = self.uses.get_mut(slot as usize) {
            *uses = uses.wrapping_add(1);
            self.free.push(slot);
        }
    }
}

/// The slot of a name.
pub(crate) fn slot_of(id: EndpointId) -> u32 {
    u32::try_from(id.0 % SPAN).unwrap_or(u32::MAX)
}

/// A connection attempt that the loop is to start.
pub(crate) struct Dial {
    pub(crate) id: EndpointId,
    pub(crate) peer: SocketAddr,
    pub(crate) endpoint: Box<dyn Endpoint>,
}

/// Endpoints of a core that other threads want to take a turn.
#[derive(Debug, Default)]
struct Calls {
    names: Mutex<Vec<EndpointId>>,
    alarm: Option<Arc<Alarm>>,
}

/// Lets one endpoint take a turn, from any thread.
struct Call(Arc<Calls>, EndpointId);

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Self(calls, name) = &**self;
        calls.names.lock().unwrap_or_else(PoisonError::into_inner).push(*name);
        if let Some(alarm) = &calls.alarm {
            alarm.raise();
        }
    }
}

/// One core's letter tray.
#[derive(Default)]
pub(crate) struct Local {
    pub(crate) slots: RefCell<Slots>,
    pub(crate) dials: RefCell<Vec<Dial>>,
    pub(crate) nudged: RefCell<Vec<EndpointId>>,
    pub(crate) files: RefCell<Vec<Box<FileOp>>>,
    calls: Arc<Calls>,
}

impl Local {
    /// The tray of the core whose alarm this is.
    pub(crate) fn new(alarm: Arc<Alarm>) -> Self {
        Self { calls: Arc::new(Calls { alarm: Some(alarm), ..Calls::default() }), ..Self::default() }
    }

    /// Takes what other threads have left; the alarm was raised for it.
    pub(crate) fn take_calls(&self) {
        let mut names = self.calls.names.lock().unwrap_or_else(PoisonError::into_inner);
        self.nudged.borrow_mut().append(&mut names);
    }

    /// True when nobody has left anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.dials.borrow().is_empty() && self.nudged.borrow().is_empty()
    }
}

/// Makes `local` the calling thread's, until the guard is dropped. A thread has one core at a time.
pub(crate) fn enter(local: Rc<Local>) -> io::Result<Guard> {
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

fn current() -> Option<Rc<Local>> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Starts a file operation on the calling core's ring, or on a file thread if there is none.
pub(crate) fn start_file(op: Box<FileOp>) {
    match current() {
        Some(local) => local.files.borrow_mut().push(op),
        None => threads::submit(op),
    }
}

/// Connects from whichever core's thread calls it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LocalDialer;

impl Dialer for LocalDialer {
    fn dial(&self, peer: SocketAddr, mut endpoint: Box<dyn Endpoint>) -> EndpointId {
        let Some(local) = current() else {
            endpoint.handle_ended(clock::now(), Ended::Failed(libc::ENXIO));
            return EndpointId(u64::MAX);
        };
        let id = local.slots.borrow_mut().take();
        local.dials.borrow_mut().push(Dial { id, peer, endpoint });
        id
    }

    fn nudge(&self, endpoint: EndpointId) {
        if let Some(local) = current() {
            local.nudged.borrow_mut().push(endpoint);
        }
    }

    fn waker(&self, endpoint: EndpointId) -> Waker {
        current().map_or_else(
            || Waker::noop().clone(),
            |local| Waker::from(Arc::new(Call(Arc::clone(&local.calls), endpoint))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_nudges_an_endpoint_and_wakes_the_core() {
        let alarm = Arc::new(Alarm::new().unwrap());
        alarm.adopt();
        let local = Rc::new(Local::new(Arc::clone(&alarm)));
        let _guard = enter(Rc::clone(&local)).unwrap();
        let waker = LocalDialer.waker(EndpointId(7));
        std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        assert!(alarm.is_raised() && local.is_empty());
        local.take_calls();
        assert_eq!(local.nudged.take(), [EndpointId(7)]);
        waker.wake();
        assert!(alarm.take(), "from its own thread, too");
        local.take_calls();
        assert_eq!(local.nudged.take(), [EndpointId(7)]);
    }

    #[test]
    fn a_slot_is_used_again_under_another_name() {
        let mut slots = Slots::default();
        let (first, second) = (slots.take(), slots.take());
        slots.give_back(slot_of(first));
        let third = slots.take();
        assert_eq!(slot_of(third), slot_of(first));
        assert_ne!(third, first);
        assert_ne!(slot_of(second), slot_of(first));
    }
}
