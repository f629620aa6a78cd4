//! The NBD protocol, as a server: the NBD project's protocol document, fixed newstyle.
//!
//! | module | what |
//! |---|---|
//! | [`wire`] | headers and numbers |
//! | `handshake` | the negotiation of options |
//! | `requests` | requests under way |
//! | `reply`, `outbound` | what goes out, and what waits to |
//! | `memory`, `buffers` | what a connection holds |
//! | `progress` | whether its client goes on with what it has begun |
//! | [`Connection`] | one connection, as a state machine without sockets |
//! | `hub`, `connection_table`, `endpoint`, `service` | connections on a core, with the volume's queue |
//! | [`serve`] | the whole |
//!
//! Structured replies, `base:allocation`, `FUA`, trim, zeroing (also the fast kind, where the volume has it) and several
//! connections at a time are spoken. TLS, resizing and `CACHE` are not.

mod buffers;
mod connection;
mod connection_table;
mod endpoint;
mod export;
mod handshake;
mod hub;
pub mod limits;
mod memory;
mod outbound;
mod progress;
mod reply;
mod requests;
mod server;
mod service;
pub mod wire;

pub use connection::{Action, Connection, Input};
pub use export::{Export, ReplyForm, failure};
pub use server::{NbdConfig, NbdVolume, serve};
