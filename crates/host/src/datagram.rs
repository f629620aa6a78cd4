//! Datagrams: a [`DatagramEndpoint`] is what those of one socket are given to.

use std::net::SocketAddr;

use protocol::{Ended, Instant};

use crate::EndpointId;

/// Datagrams from or to one peer, one behind the other: all of one length but the last, which may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagrams<'a> {
    /// The other side.
    pub peer: SocketAddr,
    /// All of them.
    pub bytes: &'a [u8],
    /// Bytes of each.
    pub segment: usize,
}

impl<'a> Datagrams<'a> {
    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks(self.segment.max(1))
    }
}

/// A socket for datagrams that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSocket {
    /// The name that its endpoint has.
    pub endpoint: EndpointId,
    /// The address that it is bound to, which is no wildcard.
    pub local: SocketAddr,
    /// Bytes of a datagram that the way to its peer carries whole, headers included; of a socket that was opened for a peer.
    pub path: Option<usize>,
}

/// The port that a socket for datagrams is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPort {
    /// A free one.
    Any,
    /// This one.
    Given(u16),
}

/// What one socket's datagrams are given to, driven by whoever moves them.
///
/// 1. [`handle_opened`](Self::handle_opened), or [`handle_ended`](Self::handle_ended) if it cannot be opened, comes first.
/// 2. What has come is given to [`handle_datagrams`](Self::handle_datagrams); [`turn`](Self::turn) comes after it and before
///    [`poll_transmit`](Self::poll_transmit), whose datagrams stay the same until [`handle_transmitted`](Self::handle_transmitted).
/// 3. The socket closes when [`is_finished`](Self::is_finished).
pub trait DatagramEndpoint {
    /// The socket is open.
    fn handle_opened(&mut self, now: Instant, socket: OpenSocket);
    /// Datagrams have come.
    fn handle_datagrams(&mut self, now: Instant, datagrams: &Datagrams<'_>);
    /// The datagrams have gone out, or are lost.
    fn handle_transmitted(&mut self, now: Instant);
    /// The deadline has passed.
    fn handle_timeout(&mut self, now: Instant);
    /// Nothing new is to begin: it is to finish with what there is.
    fn handle_retired(&mut self, now: Instant);
    /// The socket could not be opened, or is gone.
    fn handle_ended(&mut self, now: Instant, how: Ended);
    /// Does what has come from inside since the last turn.
    fn turn(&mut self, now: Instant);
    /// What goes out next.
    fn poll_transmit(&mut self, now: Instant) -> Option<Datagrams<'_>>;
    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;
    /// True when nothing is left that needs the socket.
    fn is_finished(&self) -> bool;
    /// True while an answer is expected within microseconds: the core may spin instead of sleeping.
    fn expects_work(&self) -> bool;
}
