//! Where a core's sockets are, for connections to peers: one socket at an address carries all of a core.
//!
//! A core runs on one thread, and a thread has one core at a time, as for whoever dials ([`host::Dialer`]). Nobody else owns what is listed here: an entry whose socket is gone means nothing.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use host::{Dialer, EndpointId, SlotField};
use protocol::Entropy;
use roce::endpoint::NUMBER_OFFSET;
use roce::management::QUEUE_PAIR;

use super::shared_socket::{Begin, SharedSocket};
use super::socket_endpoint::{Seed, SocketEndpoint};

/// What says which of the sockets at an address a datagram of RoCEv2 is for.
pub const ROCE_SLOT: SlotField = SlotField { offset: NUMBER_OFFSET, unnamed: QUEUE_PAIR };

/// A socket of the calling core's.
struct Known {
    /// Where it is, or was asked for: port 0 is any that is not RoCEv2's.
    address: SocketAddr,
    name: EndpointId,
    socket: Weak<SharedSocket>,
}

thread_local! {
    static SOCKETS: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// Lists a socket of the calling core's.
pub(super) fn register(address: SocketAddr, name: EndpointId, socket: &Rc<SharedSocket>) {
    SOCKETS.with_borrow_mut(|sockets| {
        sockets.retain(|known| known.socket.strong_count() > 0);
        sockets.push(Known { address, name, socket: Rc::downgrade(socket) });
    });
}

/// The calling core's socket at an address, with its name.
fn find(address: SocketAddr) -> Option<(EndpointId, Rc<SharedSocket>)> {
    SOCKETS.with_borrow(|sockets| {
        sockets.iter().filter(|known| known.address == address).find_map(|known| {
            let socket = known.socket.upgrade().filter(|socket| !socket.is_finished())?;
            Some((known.name, socket))
        })
    })
}

/// Begins a connection at the calling core's socket at `address`, which is opened if there is none; returns the socket's name.
pub(crate) fn begin_at(
    address: SocketAddr,
    dialer: &Arc<dyn Dialer>,
    connection: Box<dyn Begin>,
    entropy: Box<dyn Entropy>,
) -> EndpointId {
    if let Some((name, socket)) = find(address) {
        socket.ask(connection);
        dialer.wake(name);
        return name;
    }
    let socket = Rc::new(SharedSocket::for_connection(connection));
    let endpoint =
        Box::new(SocketEndpoint::unopened(Rc::clone(&socket), Seed { entropy, counters: Arc::default() }));
    let name = dialer.open_socket(address, ROCE_SLOT, endpoint);
    register(address, name, &socket);
    name
}
