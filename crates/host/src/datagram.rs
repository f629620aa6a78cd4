//! Datagrams: a [`DatagramEndpoint`] is what those of one socket are given to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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

/// What of a datagram says which of the sockets at its address it is for: a number of 24 bits, the last 8 of which are the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotField {
    /// Where the number begins, in bytes from the beginning of the datagram; at least 1.
    pub offset: u16,
    /// The number that names no slot: any socket that is used takes the datagram.
    pub unnamed: u32,
}

/// Names one of the sockets at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketSlot(pub u8);

/// The sockets of this process at one address, one for each core that needs it. A datagram comes to the socket that it names; one that names none, and some of those that the network's card has
/// put together with others, come to any.
pub trait SocketGroup: Send + Sync + fmt::Debug {
    /// The socket that decides about a newcomer with this key, among those that were bound by order; `None` if there is no such socket any more, or none yet.
    fn acceptor(&self, key: u32) -> Option<SocketSlot>;

    /// Gives datagrams to another socket of the group, from any thread. They are lost, as on the way, if it is gone or has too many.
    fn forward(&self, to: SocketSlot, datagrams: &Datagrams<'_>);
}

/// A socket's place among those at its address.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Which it is.
    pub slot: SocketSlot,
    /// All of them.
    pub group: Arc<dyn SocketGroup>,
}

/// A socket for datagrams that is open.
#[derive(Debug, Clone)]
pub struct OpenSocket {
    /// The name that its endpoint has.
    pub endpoint: EndpointId,
    /// The address that it is bound to, which is no wildcard.
    pub local: SocketAddr,
    /// Which of the sockets at that address it is.
    pub membership: Membership,
}

/// What leads to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// This side's address.
    pub local: IpAddr,
    /// Bytes of a datagram that is carried whole, headers included.
    pub mtu: usize,
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
    /// Whoever moves the datagrams is about to end: peers are to hear that, and then it is to finish soon.
    fn handle_shutdown(&mut self, now: Instant);
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
