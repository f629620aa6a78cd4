//! Software RoCEv2 for the connections of this process: sockets that many queue pairs share, and whoever has each of them.
//!
//! `socket` has a socket's queue pairs with their owners, `shared_socket` those who wait for one, `socket_endpoint` is what the event loop drives of it. `sockets` are those of a serving core,
//! `core_sockets` those that connections to peers find on theirs, `over_queue_pair` is a consumer as drivers see it (also one whose queue pair an adapter has), and `link` says what queue pairs hold.

mod core_sockets;
mod finishing;
mod link;
mod over_queue_pair;
mod owner;
mod shared_socket;
mod socket;
mod socket_endpoint;
mod sockets;

pub use core_sockets::ROCE_SLOT;
pub(crate) use core_sockets::begin_at;
pub(crate) use link::RoceLink;
pub(crate) use over_queue_pair::OverQueuePair;
pub(crate) use owner::Owner;
pub(crate) use shared_socket::Begin;
pub(crate) use socket::{Joining, OwnerName, Socket};
pub(crate) use socket_endpoint::Seed;
pub(crate) use sockets::{Asked, Sockets};
