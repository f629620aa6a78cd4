//! What runs on every core: the service that accepts streams, owns queues and answers other cores.

use std::sync::Arc;
use std::task::Waker;

use protocol::Instant;

use crate::{Accepted, DatagramEndpoint, Dialer, Endpoint, EndpointId, OpenSocket, Refusal, Storage};

/// Numbers the cores of a process from zero.
pub type CoreIndex = u16;

/// Sends messages to other cores' services. Rare operations only: reads and writes never wait for another core.
pub trait Postbox<M>: Send + Sync {
    /// Puts `message` into the mailbox of `core` and wakes it. Delivery is in order per sender; a mailbox of a core
    /// that has stopped swallows it.
    fn post(&self, core: CoreIndex, message: M);

    /// How many cores there are.
    fn cores(&self) -> CoreIndex;
}

/// Everything that a core's service may use of the outside world.
pub struct World<M> {
    /// Which core this is.
    pub core: CoreIndex,
    /// Files and devices.
    pub storage: Arc<dyn Storage>,
    /// Outgoing streams.
    pub dialer: Arc<dyn Dialer>,
    /// Other cores.
    pub postbox: Arc<dyn Postbox<M>>,
    /// Wakes this core's [`Service::turn`], from any thread.
    pub waker: Waker,
}

// A derived one would ask that messages can be cloned.
impl<M> Clone for World<M> {
    fn clone(&self) -> Self {
        Self {
            core: self.core,
            storage: Arc::clone(&self.storage),
            dialer: Arc::clone(&self.dialer),
            postbox: Arc::clone(&self.postbox),
            waker: self.waker.clone(),
        }
    }
}

impl<M> std::fmt::Debug for World<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("core", &self.core).finish_non_exhaustive()
    }
}

/// What runs on a core. The world calls it; it never blocks.
pub trait Service {
    /// What other cores send it.
    type Message: Send + 'static;

    /// Takes an accepted stream, or refuses it.
    fn accept(&mut self, now: Instant, accepted: Accepted) -> Result<Box<dyn Endpoint>, Refusal>;

    /// Takes a socket for datagrams that was bound by order, or closes it: a service that has no use for one needs not say so.
    fn open_socket(&mut self, _now: Instant, _socket: OpenSocket) -> Option<Box<dyn DatagramEndpoint>> {
        None
    }

    /// Such a socket, or one that an endpoint has opened, is gone.
    fn handle_socket_gone(&mut self, _now: Instant, _socket: EndpointId) {}

    /// No stream could be accepted for want of something that the system is short of; the number is its error code.
    fn handle_shortage(&mut self, _code: i32) {}

    /// Takes a message from another core (or from outside).
    fn handle_message(&mut self, now: Instant, message: Self::Message);

    /// Does what is due: polls queues, hands completions on. Adds to `ready` every endpoint that then has something to
    /// do; each is given a [`turn`](Endpoint::turn), after which this is called again until nothing is added.
    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>);

    /// An endpoint is gone: its stream ended and it was idle.
    fn handle_gone(&mut self, now: Instant, endpoint: EndpointId);

    /// When [`turn`](Self::turn) wants to be called even if nothing happens.
    fn poll_timeout(&self) -> Option<Instant>;

    /// True while an answer is expected within microseconds: the core may spin instead of sleeping.
    fn expects_work(&self) -> bool {
        false
    }

    /// True once the service has done all it was meant to do: its core's loop then ends.
    fn is_finished(&self) -> bool;
}
