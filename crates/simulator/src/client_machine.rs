//! Machines of clients in the calling thread's world: each has an address of its own, to which some network leads.
//!
//! Connections to peers find the socket of their core by its address, among those of the thread. So whatever is simulated as a process of its own has to be a machine of its own: a
//! client that is opened again after a crash must not find the socket of the one before.

use std::net::SocketAddr;
use std::task::Waker;

use host::{DatagramEndpoint, Dialer, Endpoint, EndpointId, IoError, Path, SlotField};

use crate::machines;
use crate::world::WorldDialer;

/// Dials from a machine of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientMachine(Path);

impl ClientMachine {
    /// Another machine in the calling thread's world.
    pub(crate) fn new() -> Self {
        Self(machines::another())
    }

    /// The way from it.
    pub(crate) fn path(self) -> Path {
        self.0
    }

    /// Its address, with this port.
    pub(crate) fn at(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.0.local, port)
    }
}

impl Dialer for ClientMachine {
    fn dial(&self, peer: SocketAddr, endpoint: Box<dyn Endpoint>) -> EndpointId {
        WorldDialer.dial(peer, endpoint)
    }

    fn path_to(&self, _peer: SocketAddr) -> Result<Path, IoError> {
        Ok(self.0)
    }

    fn open_socket(
        &self,
        address: SocketAddr,
        slot: SlotField,
        endpoint: Box<dyn DatagramEndpoint>,
    ) -> EndpointId {
        WorldDialer.open_socket(address, slot, endpoint)
    }

    fn wake(&self, endpoint: EndpointId) {
        WorldDialer.wake(endpoint);
    }

    fn waker(&self, endpoint: EndpointId) -> Waker {
        WorldDialer.waker(endpoint)
    }
}
