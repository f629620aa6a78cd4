//! The sockets of a serving core: who wants a connection, who has one, and who is gone.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use buf::{Account, Pool};
use host::{DatagramEndpoint, EndpointId, OpenSocket};
use protocol::Entropy;
use roce::endpoint::ConnectionRequest;

use super::socket::Socket;
use super::socket_endpoint::SocketEndpoint;

/// The first name of an owner: far beyond those that event loops give to streams and sockets.
const FIRST_OWNER: u64 = 1 << 63;

/// A socket that is open.
pub(crate) struct Place {
    /// What the event loop calls it.
    name: EndpointId,
    /// Where it is bound.
    pub(crate) local: SocketAddr,
    pub(crate) socket: Rc<RefCell<Socket>>,
}

/// A request, and the socket that it has come to.
pub(crate) struct Asked {
    pub(crate) local: SocketAddr,
    pub(crate) socket: Rc<RefCell<Socket>>,
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
    pub(crate) fn open(
        &mut self,
        opened: OpenSocket,
        pool: &Pool,
        entropy: Box<dyn Entropy>,
    ) -> Box<dyn DatagramEndpoint> {
        let endpoint = roce::Endpoint::new(opened.local, Account::new(pool), entropy);
        let socket = Rc::new(RefCell::new(Socket::new(endpoint)));
        self.places.push(Place { name: opened.endpoint, local: opened.local, socket: Rc::clone(&socket) });
        Box::new(SocketEndpoint::new(socket))
    }

    /// A socket is gone.
    pub(crate) fn forget(&mut self, name: EndpointId) {
        self.places.retain(|place| place.name != name);
    }

    /// The next request that nobody has decided about.
    pub(crate) fn next_request(&mut self) -> Option<Asked> {
        let asked = self.places.iter().find_map(|place| {
            let request = place.socket.borrow_mut().take_request()?;
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
            let place = self.places.iter().find(|place| place.socket.borrow_mut().wake(*name));
            if let Some(place) = place {
                *name = place.name;
            }
        }
    }

    /// Moves the names of owners that are gone.
    pub(crate) fn take_gone(&self, gone: &mut Vec<EndpointId>) {
        for place in &self.places {
            place.socket.borrow_mut().take_gone(gone);
        }
    }
}
