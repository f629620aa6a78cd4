//! The sockets of a serving core: who wants a connection, who has one, and who is gone.

use std::net::SocketAddr;
use std::rc::Rc;

use buf::Pool;
use host::{DatagramEndpoint, EndpointId, OpenSocket};
use roce::endpoint::ConnectionRequest;

use super::core_sockets::register;
use super::shared_socket::SharedSocket;
use super::socket::Socket;
use super::socket_endpoint::{Seed, SocketEndpoint, queue_pairs};

/// The first name of an owner: far beyond those that event loops give to streams and sockets.
const FIRST_OWNER: u64 = 1 << 63;

/// A socket that is open.
pub(crate) struct Place {
    /// What the event loop calls it.
    name: EndpointId,
    /// Where it is bound.
    pub(crate) local: SocketAddr,
    pub(crate) socket: Rc<SharedSocket>,
}

/// A request, and the socket that it has come to.
pub(crate) struct Asked {
    pub(crate) local: SocketAddr,
    pub(crate) socket: Rc<SharedSocket>,
    pub(crate) request: ConnectionRequest,
    /// What its owner is called, if there will be one.
    pub(crate) name: EndpointId,
}

/// A core's sockets.
#[derive(Default)]
pub(crate) struct Sockets {
    places: Vec<Place>,
    /// Owners that there ever were.
    owners: u64,
}

impl Sockets {
    /// Takes a socket in.
    pub(crate) fn open(&mut self, opened: OpenSocket, pool: &Pool, seed: Seed) -> Box<dyn DatagramEndpoint> {
        let OpenSocket { endpoint: name, local, .. } = opened;
        let socket = Rc::new(SharedSocket::for_portals(queue_pairs(opened, pool, seed)));
        register(local, name, &socket);
        self.places.push(Place { name, local, socket: Rc::clone(&socket) });
        Box::new(SocketEndpoint::new(socket))
    }

    /// A socket is gone.
    pub(crate) fn forget(&mut self, name: EndpointId) {
        self.places.retain(|place| place.name != name);
    }

    /// The next request that nobody has decided about.
    pub(crate) fn next_request(&mut self) -> Option<Asked> {
        let asked = self.places.iter().find_map(|place| {
            let request = place.socket.with(Socket::take_request)??;
            Some((place.local, Rc::clone(&place.socket), request))
        });
        let (local, socket, request) = asked?;
        let name = EndpointId(FIRST_OWNER.saturating_add(self.owners));
        self.owners += 1;
        Some(Asked { local, socket, request, name })
    }

    /// Wakes the owners among `ready`, in whose place their sockets are to have a turn.
    pub(crate) fn wake_owners(&self, ready: &mut [EndpointId]) {
        if self.places.is_empty() {
            return;
        }
        for name in ready.iter_mut().filter(|name| name.0 >= FIRST_OWNER) {
            let place =
                self.places.iter().find(|place| place.socket.with(|socket| socket.wake(*name)) == Some(true));
            if let Some(place) = place {
                *name = place.name;
            }
        }
    }

    /// Moves the names of owners that are gone.
    pub(crate) fn take_gone(&self, gone: &mut Vec<EndpointId>) {
        for place in &self.places {
            place.socket.with(|socket| socket.take_gone(gone));
        }
    }
}
