//! Software RoCEv2: InfiniBand's reliable connection inside of UDP datagrams, as a provider of `verbs`' queue pairs, both roles.
//!
//! An [`Endpoint`] is what one UDP socket has: it checks each datagram and says whose it is. A [`Connection`] is one queue pair with its manager; whoever uses it (iSER,
//! NVMe/RDMA) posts work requests to it as a [`verbs::QueuePair`] and answers what its set-up asks as a [`verbs::ManagedQueuePair`]; whoever moves the datagrams gives it
//! packets ([`Connection::handle_packet`]) and takes trains of them ([`Connection::poll_transmit`]).
//!
//! | standard | module |
//! |---|---|
//! | IBTA §9.2, §9.3: base and extended transport headers | [`header`], [`opcode`] |
//! | IBTA §9.7.5.2: acknowledgements | [`syndrome`] |
//! | IBTA annex A17: packets inside of UDP | [`packet`], [`train`] |
//! | IBTA §7.8.1, annex A17: the invariant CRC | [`icrc`] |
//! | IBTA §9.7: the reliable connection | `requester`, `responder` and their tables, [`verbs::ReceiveQueue`], [`psn`], [`mtu`] |
//! | IBTA §9.9.3: errors | [`violation`] |
//! | IBTA chapter 12, annex A11: connection management | [`management`] |
//! | the queue pair | `connection` |
//! | what packets went through | `counters` |
//! | many of them on one socket | [`endpoint`] |
//!
//! IBTA is the InfiniBand Architecture Specification, volume 1, release 1.4.
//!
//! Bytes from the network never panic. A payload is copied once on its way in, from its datagram to the region or buffer that its number entitles it to, and once on its way
//! out, into the train, where its sum is made.
//!
//! Architecture invariant: no socket, clock, thread or source of randomness; nothing here knows who uses the queue pair.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod connection;
mod consumer;
mod counters;
mod datagram;
pub mod endpoint;
pub mod header;
pub mod icrc;
pub mod limits;
pub mod management;
pub mod mtu;
pub mod opcode;
mod outgoing;
pub mod packet;
pub mod psn;
mod requester;
mod responder;
pub mod syndrome;
pub mod train;
pub mod violation;

pub use connection::{Config, Connection, ConnectionId};
pub use counters::{Counter, Counters};
pub use endpoint::Endpoint;
