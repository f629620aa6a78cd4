//! Byte streams: an [`Endpoint`] is what somebody else's bytes are given to.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use protocol::{CloseReason, Ended, Instant, Placement, Transmit};

use crate::{DatagramEndpoint, EndpointId, IoError, ListenerId, Path, Polled, SlotField, WatchEndpoint};

/// One end of a byte stream, driven by whoever moves the bytes. It is a
/// [`Connection`](protocol::Connection) whose inputs and actions somebody has taken care of: the calls are those of that
/// trait and in its order; [`turn`](Self::turn) comes after receiving and before transmitting.
///
/// It declares those calls again, and is no supertrait of `Connection` nor has it for one: `Connection` has types and a constant of its protocol, so that whoever
/// drives it is compiled for it, and an endpoint is a `dyn` of which a reactor holds many sorts at a time. Nor is each connection an endpoint: a client's connection
/// is made only once its stream is connected, and a driver looks after what its connection asks for between two calls.
pub trait Endpoint {
    /// Bytes that the staging area must hold at least.
    fn staging(&self) -> usize;
    /// Offers staged bytes; says how many were consumed.
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize;
    /// Where the next bytes of the stream go, if they are a payload.
    fn take_placement(&mut self) -> Option<Placement>;
    /// Takes back a filled placement.
    fn handle_placed(&mut self, now: Instant, placement: Placement);
    /// The last send has gone out whole.
    fn handle_transmitted(&mut self, now: Instant, bytes: usize);
    /// The deadline has passed.
    fn handle_timeout(&mut self, now: Instant);
    /// The stream has been connected (dialled endpoints only; accepted ones begin connected).
    fn handle_connected(&mut self, now: Instant, local: SocketAddr, peer: SocketAddr);
    /// Whoever moves the bytes is about to end. True if the peer is to hear something first, and to answer: the stream is cut off a moment later if that has not closed it by then.
    fn handle_shutdown(&mut self, _now: Instant) -> bool {
        false
    }
    /// The stream has ended, or could not be connected. The endpoint stays until [`is_idle`](Self::is_idle).
    fn handle_ended(&mut self, now: Instant, how: Ended);
    /// Does what has come from inside since the last turn: completions, commands, messages.
    fn turn(&mut self, now: Instant);
    /// Fills a send.
    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit);
    /// How long connecting may take, for a dialled endpoint that is less patient than whoever connects it: the stream then ends as timed out
    /// (`ETIMEDOUT`).
    fn connect_time(&self) -> Option<Duration> {
        None
    }
    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;
    /// False while no bytes can be taken.
    fn wants_bytes(&mut self) -> bool;
    /// Why the stream is to be closed, once everything is transmitted.
    fn poll_close(&self) -> Option<CloseReason>;
    /// True when nothing that was started inside is still under way; asked after the end.
    fn is_idle(&self) -> bool;
    /// True while an answer is expected within microseconds: the core may spin instead of sleeping.
    fn expects_work(&self) -> bool;
}

/// A stream that a listener accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// By which listener.
    pub listener: ListenerId,
    /// The name that the new endpoint will have.
    pub endpoint: EndpointId,
    /// This side's address.
    pub local: SocketAddr,
    /// The other side's address.
    pub peer: SocketAddr,
}

/// Why an accepted stream is closed at once, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

/// `EOPNOTSUPP`: what a world says that has no sockets for datagrams, or watches no descriptors.
const NO_SOCKETS: i32 = 95;

/// Connects to peers. Shared by all cores; a call concerns the core whose thread makes it.
pub trait Dialer: Send + Sync {
    /// Starts connecting to `peer` on the calling core, which drives `endpoint` from then on: it is told
    /// `handle_connected` or `handle_ended`.
    fn dial(&self, peer: SocketAddr, endpoint: Box<dyn Endpoint>) -> EndpointId;

    /// What leads to `peer` now: nothing is sent.
    ///
    /// # Errors
    /// Nothing leads there, or this is a world without sockets for datagrams.
    fn path_to(&self, _peer: SocketAddr) -> Result<Path, IoError> {
        Err(IoError(NO_SOCKETS))
    }

    /// Opens a socket for datagrams at `address` on the calling core, at a free port if that is 0: `endpoint` is told [`handle_opened`](DatagramEndpoint::handle_opened) or
    /// [`handle_ended`](DatagramEndpoint::handle_ended). Sockets of this process may share an address: `slot` then says whose a datagram is. Another process may not have it. A world without
    /// such sockets ends the endpoint at once.
    fn open_socket(
        &self,
        _address: SocketAddr,
        _slot: SlotField,
        mut endpoint: Box<dyn DatagramEndpoint>,
    ) -> EndpointId {
        endpoint.handle_ended(Instant::ZERO, Ended::Failed(NO_SOCKETS));
        EndpointId(u64::MAX)
    }

    /// Watches a descriptor on the calling core: `endpoint` is told whenever it is readable. A world that watches none ends it at once.
    fn watch(&self, _descriptor: OwnedFd, mut endpoint: Box<dyn WatchEndpoint>) -> EndpointId {
        endpoint.handle_ended(Instant::ZERO, Ended::Failed(NO_SOCKETS));
        EndpointId(u64::MAX)
    }

    /// Has the calling core look at memory for as long as `polled` is there. False in a world whose cores look at none: whoever writes it has to notify each time.
    fn poll_memory(&self, _polled: &Rc<dyn Polled>) -> bool {
        false
    }

    /// Lets an endpoint of the calling core take a [`turn`](Endpoint::turn) soon.
    fn wake(&self, endpoint: EndpointId);

    /// Does the same for an endpoint of the calling core, from any thread and whenever it is woken. For rare things only: it may wake a core.
    fn waker(&self, endpoint: EndpointId) -> Waker;
}
