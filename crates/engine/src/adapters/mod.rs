//! Queue pairs of RDMA adapters for the connections of this process: ports that many queue pairs share, and whoever has each of them.
//!
//! `port_owners` has a port's queue pairs with their owners, `port_endpoint` is what the event loop drives of it, `ports` are those of a serving core, `owner` is whoever
//! has a queue pair, and `needs` says what queue pairs hold. The adapters themselves are behind [`host::Adapters`].

mod needs;
mod owner;
mod port_endpoint;
mod port_owners;
mod ports;

pub(crate) use needs::Side;
pub(crate) use owner::AdapterOwner;
pub(crate) use port_endpoint::PortEndpoint;
pub(crate) use port_owners::{NewOwner, PortOwners};
pub(crate) use ports::{AskedPair, Ports};
