//! NFS: a server and a client of versions 3, 4.1 and 4.2, sans-IO.
//!
//! | standard | module |
//! |---|---|
//! | RFC 8881 §2.4, §2.10, §8, §9, §18.35 ff.: clients, sessions, stateids, opens, locks | [`state`] |
//! | RFC 1813: version 3 | [`v3`] |
//! | RFC 1813 appendix I: MOUNT | [`mount`] |
//! | RFC 8881 §2.10, §18: a file at a server as a volume | [`client`] |
//! | RFC 8881 §3, §15, §16, §18, RFC 5662, RFC 7862: types, statuses, operations | [`v4`] |
//!
//! State that clients share has one owner, [`state::Server`], on one core; connections borrow from it what they need for each operation
//! (docs/decisions/0036-nfs.md).
//!
//! Architecture invariant: nothing here has a clock, a socket, a thread or a source of randomness, and nothing received
//! allocates without a bound from [`limits`].
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod client;
pub mod limits;
pub mod mount;
mod named;
pub mod server;
pub mod state;
pub mod v3;
pub mod v4;
