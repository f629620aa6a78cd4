//! RDMA adapters: queue pairs that a device carries, and the ports at which they come and go.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use buf::Account;
use protocol::{CloseReason, Instant};
use verbs::{
    ManagedQueuePair, PostError, PrivateData, QueuePair, QueuePairLimits, QueuePairState, SetupAnswer,
    SetupEvent, WorkCompletion, WorkId, WorkRequest,
};

use crate::ListenerId;

/// Names a queue pair at its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairId(pub u64);

/// A queue pair of an adapter, with the set-up of its connection.
pub trait AdapterQueuePair: ManagedQueuePair {
    /// What its port calls it.
    fn id(&self) -> PairId;

    /// True once it has ended, its peer knows or has had its time to, and the adapter has let go of all memory.
    fn is_finished(&self) -> bool;
}

/// A queue pair of whatever adapter.
pub struct AdapterPair(Box<dyn AdapterQueuePair>);

impl AdapterPair {
    /// One of an adapter's.
    pub fn new(pair: impl AdapterQueuePair + 'static) -> Self {
        Self(Box::new(pair))
    }

    /// What its port calls it.
    pub fn id(&self) -> PairId {
        self.0.id()
    }

    /// See [`AdapterQueuePair::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl fmt::Debug for AdapterPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdapterPair").field(&self.id()).finish()
    }
}

impl QueuePair for AdapterPair {
    fn limits(&self) -> QueuePairLimits {
        self.0.limits()
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        self.0.post(id, request)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<WorkCompletion>) {
        self.0.poll(now, done);
    }

    fn disconnect(&mut self) {
        self.0.disconnect();
    }

    fn state(&self) -> QueuePairState {
        self.0.state()
    }
}

impl ManagedQueuePair for AdapterPair {
    fn handle_answer(&mut self, now: Instant, answer: SetupAnswer) {
        self.0.handle_answer(now, answer);
    }

    fn poll_event(&mut self) -> Option<SetupEvent> {
        self.0.poll_event()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.0.handle_deadline(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline()
    }

    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.0.close_reason()
    }
}

/// What a queue pair is to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairNeeds {
    /// Requests other than receives at a time.
    pub sends: usize,
    /// Receives at a time.
    pub receives: usize,
    /// Regions at a time.
    pub regions: usize,
    /// Bytes of the longest request.
    pub longest: usize,
    /// RDMA Reads of the peer's that it serves at a time.
    pub reads_served: u16,
    /// RDMA Reads that it has under way at a time.
    pub reads_sent: u16,
}

/// Somebody wants a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairRequest {
    /// What the port calls the request.
    pub id: PairId,
    /// Who asks.
    pub from: SocketAddr,
    /// Where.
    pub local: SocketAddr,
}

/// A connection that is to be made.
#[derive(Debug)]
pub struct PairWish {
    /// The peer's address, and the port of its service.
    pub peer: SocketAddr,
    /// What the queue pair is to hold.
    pub needs: PairNeeds,
    /// What the peer is told with the request.
    pub private_data: PrivateData,
    /// Where its memory counts.
    pub account: Account,
}

/// A connection that is being made: a port of its own, and the queue pair.
#[derive(Debug)]
pub struct OpenedPair {
    /// Where its events come.
    pub port: Box<dyn AdapterPort>,
    /// The queue pair; requests that are posted before it is connected wait.
    pub pair: AdapterPair,
}

/// Where the events of queue pairs come, and requests if it is a listener's. It belongs to one core, and outlives its queue pairs.
pub trait AdapterPort: fmt::Debug {
    /// A descriptor that is readable while [`poll`](Self::poll) has something to tell.
    ///
    /// # Errors
    /// The system gives none.
    fn descriptor(&self) -> io::Result<OwnedFd>;

    /// Takes what has come, and adds the queue pairs to which something has happened; some perhaps more than once. Never waits.
    fn poll(&mut self, ready: &mut Vec<PairId>);

    /// The next request that nobody has decided about.
    fn next_request(&mut self) -> Option<PairRequest>;

    /// Makes the queue pair of a request. Its consumer answers the request itself.
    ///
    /// # Errors
    /// The adapter has no room for it; the request is refused.
    fn accept(
        &mut self,
        request: PairRequest,
        needs: PairNeeds,
        account: Account,
    ) -> Result<AdapterPair, AdapterError>;

    /// Refuses a request.
    fn refuse(&mut self, request: PairRequest);

    /// Takes no requests any more.
    fn retire(&mut self);
}

/// Why an adapter does not do what it is asked to, in the words that users read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterError(pub String);

impl fmt::Display for AdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AdapterError {}

/// The adapters of this machine. Shared by all cores; what it makes belongs to the core whose thread makes the call.
pub trait Adapters: Send + Sync {
    /// Hands over the port of a listener, once.
    fn take_port(&self, listener: ListenerId) -> Option<Box<dyn AdapterPort>>;

    /// Begins to make a connection.
    ///
    /// # Errors
    /// There is no adapter, or no way to reach one.
    fn connect(&self, wish: PairWish) -> Result<OpenedPair, AdapterError>;
}

/// A world without adapters.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAdapters;

impl Adapters for NoAdapters {
    fn take_port(&self, _listener: ListenerId) -> Option<Box<dyn AdapterPort>> {
        None
    }

    fn connect(&self, _wish: PairWish) -> Result<OpenedPair, AdapterError> {
        Err(AdapterError("there are no RDMA adapters here".to_owned()))
    }
}
