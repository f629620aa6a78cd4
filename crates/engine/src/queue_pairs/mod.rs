//! Software RoCEv2 for the connections of this process: sockets that many queue pairs share, and whoever has each of them.
//!
//! `socket` has a socket's queue pairs with their owners, `socket_endpoint` is what the event loop drives of it, `sockets` are those of a serving core, `client_socket`
//! is one that leads to a peer, `over_datagrams` a consumer as drivers see it, and `link` says what queue pairs are made with.

mod client_socket;
mod link;
mod over_datagrams;
mod owner;
mod socket;
mod socket_endpoint;
mod sockets;

pub(crate) use client_socket::{Begin, ClientSocket};
pub(crate) use link::RoceLink;
pub(crate) use over_datagrams::OverDatagrams;
pub(crate) use owner::Owner;
pub(crate) use socket::{Joining, Socket};
pub(crate) use sockets::{Asked, Sockets};
