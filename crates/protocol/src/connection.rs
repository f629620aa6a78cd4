//! One transport connection of a protocol, and a group of them.

use buf::Buf;

use crate::{Instant, Transmit};

/// Where the next bytes of the stream go: `len` bytes into `buf` from `start`.
///
/// Whoever moves the bytes fills the range and gives the placement back whole.
#[derive(Debug)]
pub struct Placement {
    /// The memory, lent until [`Connection::handle_placed`].
    pub buf: Buf,
    /// Offset of the first byte within `buf`.
    pub start: usize,
    /// Bytes to place; above zero.
    pub len: usize,
    /// The connection's own mark, given back unchanged.
    pub token: u64,
}

/// Why a connection wants its transport closed, once everything it transmitted has gone out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides agreed: logout, disconnect, end of discovery.
    Finished,
    /// The peer broke the protocol; the text names the violation.
    Violation(&'static str),
    /// The peer was silent for longer than a named limit allows.
    TimedOut(&'static str),
    /// The peer may not connect: authentication or access control said no.
    Refused(&'static str),
    /// A limit of this side was reached.
    Limit(&'static str),
    /// What it used is not served any more, or no longer to it.
    Withdrawn(&'static str),
    /// This side is shutting down.
    ShuttingDown,
}

/// How the transport ended under a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The peer closed its side.
    ByPeer,
    /// The transport failed: reset, unreachable, timed out. The number is the system's error code.
    Failed(i32),
    /// This side closed it, as [`Connection::poll_close`] asked or because the process stops.
    ByUs,
}

/// A protocol's connection: see the crate's documentation for the idea.
///
/// # Order of calls
/// 1. Received bytes: while [`wants_bytes`](Self::wants_bytes), either fill the placement that
///    [`take_placement`](Self::take_placement) named and give it to [`handle_placed`](Self::handle_placed), or, if there is
///    none, offer the staged bytes to [`handle_bytes`](Self::handle_bytes), which consumes a prefix. The rest stays staged and
///    is offered again, longer, when more has come. After every call ask for a placement again. The staging
///    area holds at least [`Connection::STAGING`] bytes.
/// 2. After any `handle_*`, drain [`poll_action`](Self::poll_action).
/// 3. When no send is in flight, let [`poll_transmit`](Self::poll_transmit) fill one; after it has gone out whole,
///    call [`handle_transmitted`](Self::handle_transmitted).
/// 4. Call [`handle_timeout`](Self::handle_timeout) when the deadline of [`poll_timeout`](Self::poll_timeout) has passed.
/// 5. Once [`poll_close`](Self::poll_close) gives a reason and nothing is left to transmit, close the transport.
/// 6. When the transport has ended, for whatever reason, call [`handle_ended`](Self::handle_ended) once, drain actions, and
///    keep the connection until every request it submitted has completed.
///
/// No `handle_*` fails or panics on any input: a peer's violation queues the answer that the standard
/// prescribes and ends in [`poll_close`](Self::poll_close).
pub trait Connection {
    /// What comes from inside: a volume's completion (target), an application's command (initiator), a
    /// message from its group.
    type Input;
    /// What goes inside: submit a request, deliver a result, a message to its group.
    type Action;

    /// The most contiguous bytes that this protocol ever needs staged at once.
    const STAGING: usize;

    /// Offers staged bytes and says how many were consumed from the front. Consuming nothing means: more
    /// bytes are needed, or a placement stands in the way, or [`wants_bytes`](Self::wants_bytes) has become false.
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize;

    /// The memory that the next bytes of the stream belong into, if they are a payload. Given out once;
    /// until it comes back, no staged bytes are offered.
    fn take_placement(&mut self) -> Option<Placement>;

    /// Takes back a placement whose memory is filled.
    fn handle_placed(&mut self, now: Instant, placement: Placement);

    /// Takes what comes from inside.
    fn handle_input(&mut self, now: Instant, input: Self::Input);

    /// The send that [`poll_transmit`](Self::poll_transmit) filled, `bytes` long, has gone out whole.
    fn handle_transmitted(&mut self, now: Instant, bytes: usize);

    /// The deadline has passed (or the caller was merely early, which must do no harm).
    fn handle_timeout(&mut self, now: Instant);

    /// Memory may have come back for what waits for it ([`awaits_memory`](Self::awaits_memory)); to be told in vain does no harm.
    fn handle_memory(&mut self, _now: Instant) {}

    /// The transport has ended; nothing more is received or sent.
    fn handle_ended(&mut self, now: Instant, how: Ended);

    /// Adds whole PDUs to `send` until it [is full](Transmit::is_full) or nothing is left.
    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit);

    /// The next action, in order. Asking begins nothing: what is to be done was decided in a `handle_*`.
    fn poll_action(&mut self) -> Option<Self::Action>;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// False while the connection cannot take more: it waits for a buffer, or its peer does not read its
    /// answers. The transport's own flow control then holds the peer back. Asked again every turn.
    fn wants_bytes(&mut self) -> bool {
        true
    }

    /// True once the peer may use volumes: it has logged in, or connected, and not only to discover.
    fn is_established(&self) -> bool {
        true
    }

    /// True while something inside waits for a buffer, whether or not the connection takes bytes: once one came back it is told by
    /// [`handle_memory`](Self::handle_memory).
    fn awaits_memory(&self) -> bool {
        false
    }

    /// Why the transport is to be closed, once everything is transmitted.
    fn poll_close(&self) -> Option<CloseReason>;
}

/// A message from a group to one of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMessage<M, R> {
    /// The member.
    pub to: M,
    /// What it is told.
    pub message: R,
}

/// Several connections that share state: an iSCSI session, an NVMe controller and its subsystem.
///
/// A group is owned by one core; its members live on any core and reach it by message.
pub trait Group {
    /// Names a member, for as long as it lives.
    type Member: Copy;
    /// From a member to the group.
    type Request;
    /// From the group to a member.
    type Reply;

    /// Takes a message from a member.
    fn handle_message(&mut self, now: Instant, from: Self::Member, message: Self::Request);

    /// A member is gone.
    fn handle_leave(&mut self, now: Instant, member: Self::Member);

    /// The deadline has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The next message to a member.
    fn poll_message(&mut self) -> Option<GroupMessage<Self::Member, Self::Reply>>;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;
}
