//! iSCSI, RFC 7143: target and initiator, sans-IO.
//!
//! | RFC 7143 | module |
//! |---|---|
//! | §4.2.2 numbering | [`sequence`] |
//! | §6.1 text format | [`text`] |
//! | §6.2, §13 negotiation and keys | [`keys`] |
//! | §6.3, §11.12 login | [`login`], [`target`], [`initiator`] |
//! | §7 errors, §11.17 Reject | [`violation`] |
//! | §8.1 connection states | [`connection`] |
//! | §4.4, §6.3.5 sessions, reinstatement | [`session`] |
//! | §11 PDU formats | [`pdu`] |
//! | §11.2, §11.7, §11.8 framing and data sequences (RFC 5047: the Datamover) | [`datamover`] |
//! | RFC 7145: iSER | [`datamover::iser`] |
//! | §12.1.3 CHAP | [`chap`] |
//!
//! [`target::Target`] and [`initiator::Initiator`] are siblings that share everything but their half of each
//! exchange. Each stands on a datamover and names none; with one they are the connections of [`datamover::tcp`] and [`datamover::iser`]. `tests/pair.rs` runs them
//! against each other, and foreign peers run against both.
//!
//! Architecture invariant: nothing here has a clock, a socket, a thread or a source of randomness, and nothing received
//! allocates without a bound from [`limits`].
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod chap;
pub mod connection;
pub mod datamover;
pub mod initiator;
pub mod keys;
pub mod limits;
pub mod login;
pub mod pdu;
pub mod sequence;
pub mod session;
pub mod target;
pub mod text;
pub mod violation;
