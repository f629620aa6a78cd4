//! The ports of a serving core: who wants a connection, who has one, and who is gone.

use std::cell::RefCell;
use std::rc::Rc;

use host::{Adapters, Dialer, EndpointId, ListenerId, PairRequest};

use super::port_endpoint::PortEndpoint;
use super::port_owners::PortOwners;

/// The first name of an owner: beyond those that event loops give, and apart from those of sockets' owners.
const FIRST_OWNER: u64 = 1 << 62;
/// The first name that is none.
const BEYOND_OWNERS: u64 = 1 << 63;

/// A port that is open.
struct Place {
    /// What the event loop calls it.
    name: EndpointId,
    listener: ListenerId,
    owners: Rc<RefCell<PortOwners>>,
    /// Nobody is let in any more.
    is_retired: bool,
}

/// A request, and the port that it has come to.
pub(crate) struct AskedPair {
    pub(crate) listener: ListenerId,
    pub(crate) owners: Rc<RefCell<PortOwners>>,
    pub(crate) request: PairRequest,
    /// What its owner is called, if there will be one.
    pub(crate) name: EndpointId,
}

/// A core's ports.
#[derive(Default)]
pub(crate) struct Ports {
    places: Vec<Place>,
    /// Owners that there ever were.
    owned: u64,
}

impl Ports {
    /// Takes over the port of a listener, unless it is here, or another core has it.
    pub(crate) fn open(&mut self, listener: ListenerId, adapters: &dyn Adapters, dialer: &dyn Dialer) {
        if self.places.iter().any(|place| place.listener == listener) {
            return;
        }
        let Some(port) = adapters.take_port(listener) else { return };
        let Ok(descriptor) = port.descriptor() else { return };
        let owners = Rc::new(RefCell::new(PortOwners::new(port)));
        let endpoint = Box::new(PortEndpoint::serving(Rc::clone(&owners)));
        let name = dialer.watch(descriptor, endpoint);
        self.places.push(Place { name, listener, owners, is_retired: false });
    }

    /// Lets nobody in any more at the listeners that are not among those that stay.
    pub(crate) fn retain(&mut self, stays: impl Fn(ListenerId) -> bool, dialer: &dyn Dialer) {
        for place in self.places.iter_mut().filter(|place| !stays(place.listener)) {
            place.is_retired = true;
            place.owners.borrow_mut().retire();
            dialer.wake(place.name);
        }
        self.close_unused(dialer);
    }

    /// Lets go of ports where nobody is let in and nobody is left: the event loop then closes them.
    fn close_unused(&mut self, dialer: &dyn Dialer) {
        self.places.retain(|place| {
            let stays = !place.is_retired || !place.owners.borrow().is_empty();
            if !stays {
                dialer.wake(place.name);
            }
            stays
        });
    }

    /// The next request that nobody has decided about.
    pub(crate) fn next_request(&mut self) -> Option<AskedPair> {
        let asked = self.places.iter().find_map(|place| {
            let request = place.owners.borrow_mut().next_request()?;
            Some((place.listener, Rc::clone(&place.owners), request))
        });
        let (listener, owners, request) = asked?;
        let name = EndpointId(FIRST_OWNER.saturating_add(self.owned));
        self.owned += 1;
        Some(AskedPair { listener, owners, request, name })
    }

    /// Wakes the owners among `ready`, in whose place their ports are to have a turn.
    pub(crate) fn wake_owners(&self, ready: &mut [EndpointId]) {
        if self.places.is_empty() {
            return;
        }
        for name in ready.iter_mut().filter(|name| (FIRST_OWNER..BEYOND_OWNERS).contains(&name.0)) {
            let place = self.places.iter().find(|place| place.owners.borrow_mut().wake(*name));
            if let Some(place) = place {
                *name = place.name;
            }
        }
    }

    /// Moves the names of owners that are gone.
    pub(crate) fn take_gone(&mut self, gone: &mut Vec<EndpointId>, dialer: &dyn Dialer) {
        for place in &self.places {
            place.owners.borrow_mut().take_gone(gone);
        }
        if !gone.is_empty() {
            self.close_unused(dialer);
        }
    }
}
