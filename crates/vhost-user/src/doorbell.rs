//! The descriptor by which the device notifies a queue, as the core's event loop watches it.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use host::{Dialer, EndpointId, WatchEndpoint};
use protocol::{Ended, Instant};
use volume::QueueContext;

/// The queue's end of the watch.
pub(crate) struct Doorbell {
    is_over: Rc<Cell<bool>>,
    dialer: Arc<dyn Dialer>,
    endpoint: EndpointId,
}

impl Doorbell {
    /// Has the calling core poll its queue whenever the device has notified it.
    pub(crate) fn watch(
        dialer: &Arc<dyn Dialer>,
        call: &Arc<OwnedFd>,
        context: &QueueContext,
    ) -> io::Result<Self> {
        let is_over = Rc::new(Cell::new(false));
        let ringing =
            Ringing { call: Arc::clone(call), waker: context.waker.clone(), is_over: Rc::clone(&is_over) };
        let endpoint = dialer.watch(call.try_clone()?, Box::new(ringing));
        Ok(Self { is_over, dialer: Arc::clone(dialer), endpoint })
    }

    /// Ends the watch.
    pub(crate) fn close(&self) {
        self.is_over.set(true);
        self.dialer.wake(self.endpoint);
    }
}

/// The event loop's end.
struct Ringing {
    call: Arc<OwnedFd>,
    waker: Waker,
    is_over: Rc<Cell<bool>>,
}

impl WatchEndpoint for Ringing {
    fn handle_ready(&mut self, _now: Instant) {
        let mut count = [0; 8];
        // It has been read if there is nothing to read.
        let _count = rustix::io::read(&*self.call, &mut count);
        self.waker.wake_by_ref();
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn handle_ended(&mut self, _now: Instant, _how: Ended) {
        self.is_over.set(true);
    }

    fn turn(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_over.get()
    }

    fn expects_work(&self) -> bool {
        false
    }
}
