//! Listening at a portal's address, and what a user can do where that is not possible.

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;

use host::AdapterError;
use ibverbs::BoundPort;
use names::Portal;
use reactor::{DatagramSockets, Listener};

use crate::config::PortalEntry;
use crate::exports::OpenPortal;

/// Why nothing listens for a portal.
#[derive(Debug)]
pub(super) enum BindError {
    /// What the configuration names is no address of this machine.
    NotAnAddress(Portal),
    /// No adapter listens there.
    Adapter { address: SocketAddr, error: AdapterError },
    /// The system refuses the address.
    Failed { address: SocketAddr, error: std::io::Error, remedy: Remedy },
}

/// What a user can do about it.
#[derive(Debug)]
pub(super) enum Remedy {
    /// Another portal of this server listens there.
    TakeOut(SocketAddr),
    /// Another program listens there.
    OtherPort,
    /// Another program, or the kernel's own RoCE (`rdma_rxe`), receives there.
    OtherUdpPort,
    /// The system's error says it.
    None,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAddress(listen) => {
                write!(f, "{listen} is not an address to listen at: write an IP address and a port")
            }
            Self::Adapter { address, error } => {
                write!(f, "cannot listen at {address} by an RDMA adapter: {error}")
            }
            Self::Failed { address, error, remedy } => {
                write!(f, "cannot listen at {address}: {error}{remedy}")
            }
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakeOut(ours) => {
                write!(f, "; this server listens at {ours}: take that portal out and reload first")
            }
            Self::OtherUdpPort => f.write_str(
                "; end the program that has this port of UDP, unload rdma_rxe, or choose another address or udp_port",
            ),
            Self::OtherPort => f.write_str("; choose another port, or end the program that has it"),
            Self::None => Ok(()),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotAnAddress(_) => None,
            Self::Adapter { error, .. } => Some(error),
            Self::Failed { error, .. } => Some(error),
        }
    }
}

/// Listens at a portal's address by an RDMA adapter.
pub(super) fn bind_adapter(entry: &PortalEntry) -> Result<BoundPort, BindError> {
    let Some(address) = entry.listen.address() else {
        return Err(BindError::NotAnAddress(entry.listen.clone()));
    };
    BoundPort::bind(address).map_err(|error| BindError::Adapter { address, error })
}

/// Binds the sockets of portals over RoCE at an address, one for each core.
pub(super) fn bind_sockets(address: SocketAddr, cores: u16) -> Result<DatagramSockets, BindError> {
    DatagramSockets::bind(address, engine::ROCE_SLOT, cores).map_err(|error| {
        let remedy = if error.kind() == ErrorKind::AddrInUse { Remedy::OtherUdpPort } else { Remedy::None };
        BindError::Failed { address, error, remedy }
    })
}

/// Listens at a portal's address; `present` are this server's own portals.
pub(super) fn bind(entry: &PortalEntry, present: &[OpenPortal]) -> Result<Listener, BindError> {
    let Some(address) = entry.listen.address() else {
        return Err(BindError::NotAnAddress(entry.listen.clone()));
    };
    Listener::bind(address).map_err(|error| {
        let ours = present.iter().find(|portal| portal.address.port() == address.port());
        let remedy = match (error.kind(), ours) {
            (ErrorKind::AddrInUse, Some(portal)) => Remedy::TakeOut(portal.address),
            (ErrorKind::AddrInUse, None) => Remedy::OtherPort,
            _ => Remedy::None,
        };
        BindError::Failed { address, error, remedy }
    })
}
