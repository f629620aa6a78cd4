//! ONC remote procedure calls, version 2, and their external data representation: what NFS stands on.
//!
//! Which part of which standard is where:
//!
//! | standard | module |
//! |---|---|
//! | RFC 4506 (XDR) | [`xdr`] |
//! | RFC 5531 §9 (messages), §8.2, §10.1, appendix A (credentials) | [`message`] |
//! | RFC 5531 §11 (record marking) | [`record`] |
//! | RFC 8166, 8167, 8797 (RPC-over-RDMA) | [`rdma`] |
//! | what a peer may do wrong | [`violation`] |
//!
//! Architecture invariant: no socket, clock, thread or random source; nothing here knows a program that is called.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]
extern crate alloc;

mod call;
mod channel;
mod intake;
pub mod limits;
pub mod message;
pub mod rdma;
pub mod record;
pub mod tcp;
mod upper;
pub mod violation;
pub mod xdr;

pub use call::{Call, CallId, Credential, Memory};
pub use channel::{CallError, Channel, Config, ReceivedReply, UnansweredCall};
pub use upper::{Body, NoBody, Parts, UpperLayer};
