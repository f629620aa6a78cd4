//! How two consumers come to have a connection: what one asks, what the other answers (the connection management of RFC 5044 §7 and of
//! InfiniBand's volume 1, chapter 12).

use alloc::vec::Vec;

use protocol::{CloseReason, Instant};

use crate::QueuePair;

/// What consumers tell each other while a connection is set up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrivateData(Vec<u8>);

impl PrivateData {
    /// Nothing.
    pub const NONE: Self = Self(Vec::new());

    /// The most that any provider can carry from an application's consumer, in bytes: what MPA leaves of its 512 beside the words of the enhanced
    /// set-up (RFC 6581 §4). Connection management over datagrams carries less (IBTA §12.6), and fills up with zeros; a provider refuses what is too long for it.
    pub const LONGEST: usize = 508;

    /// At most [`LONGEST`](Self::LONGEST) bytes, or nothing.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::LONGEST).then(|| Self(bytes.to_vec()))
    }

    /// What a provider has received, and has bounded.
    pub fn received(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a consumer answers to [`SetupEvent::Requested`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupAnswer {
    /// The connection may be.
    Accept(PrivateData),
    /// The connection may not be.
    Reject(PrivateData),
}

/// What a consumer hears of the set-up. All else it hears from the queue pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupEvent {
    /// A responder's: somebody wants a connection, and says this.
    Requested(PrivateData),
    /// Messages may go both ways. An initiator hears what the responder says; it may post from the beginning, as a responder may: what is posted waits.
    Established(PrivateData),
    /// An initiator's: the responder refuses, and says this.
    Rejected(PrivateData),
}

impl SetupEvent {
    /// What the peer has sent with it.
    pub fn private_data(&self) -> &[u8] {
        let (Self::Requested(data) | Self::Established(data) | Self::Rejected(data)) = self;
        data.bytes()
    }
}

/// A queue pair with the set-up of its connection: all that a consumer asks of it, whatever brings its bytes.
///
/// A stream's provider is also a [`ConnectedQueuePair`]; a provider over datagrams is given packets by its own endpoint instead. Its owner calls
/// [`handle_deadline`](Self::handle_deadline) when [`next_deadline`](Self::next_deadline) has passed, and lets it send after each call.
pub trait ManagedQueuePair: QueuePair {
    /// Takes the answer to [`SetupEvent::Requested`]. Private data that is longer than the provider can carry makes it a rejection.
    fn handle_answer(&mut self, now: Instant, answer: SetupAnswer);

    /// The next event of the set-up.
    fn poll_event(&mut self) -> Option<SetupEvent>;

    /// The deadline has passed (or the caller was merely early, which must do no harm).
    fn handle_deadline(&mut self, now: Instant);

    /// When [`handle_deadline`](Self::handle_deadline) wants to be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// Messages may go both ways.
    fn is_connected(&self) -> bool;

    /// Why it is to be closed, once everything is sent.
    fn close_reason(&self) -> Option<CloseReason>;
}

impl<Q: QueuePair + protocol::Connection<Input = SetupAnswer, Action = SetupEvent>> ManagedQueuePair for Q {
    fn handle_answer(&mut self, now: Instant, answer: SetupAnswer) {
        self.handle_input(now, answer);
    }

    fn poll_event(&mut self) -> Option<SetupEvent> {
        self.poll_action()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn is_connected(&self) -> bool {
        self.is_established()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.poll_close()
    }
}

/// A queue pair that is a connection of its own over a transport of the event loop's: what iSER and NVMe/RDMA stand on.
pub trait ConnectedQueuePair:
    ManagedQueuePair + protocol::Connection<Input = SetupAnswer, Action = SetupEvent>
{
}

impl<Q: QueuePair + protocol::Connection<Input = SetupAnswer, Action = SetupEvent>> ConnectedQueuePair for Q {}
