//! Software iWARP: RDMA over a byte stream, as a provider of `verbs`' queue pairs, both roles.
//!
//! A [`Connection`] is one TCP connection's protocol. Whoever moves its bytes drives it as any [`protocol::Connection`]; whoever uses it (iSER, NVMe/RDMA)
//! posts work requests to it as a [`verbs::QueuePair`], and answers what its set-up asks ([`Action`], [`Input`]).
//!
//! | standard | module |
//! |---|---|
//! | RFC 5044 §7.1, RFC 6581: MPA's set-up | [`mpa`]: `frame`, `negotiation`, `setup` and its table |
//! | RFC 5044 §4: FPDUs, markers, CRC | `mpa`: `receiver` and its table, `writer`, `marker`, `mulpdu` |
//! | RFC 5041: DDP's segments and untagged queues | [`ddp`], `untagged` |
//! | RFC 5040: RDMAP's messages | [`rdmap`], [`terminate`] |
//! | RFC 5040 §4.8 and §7, RFC 5041 §7, RFC 5044 §8: errors | [`violation`] |
//! | the queue pair | `send_queue` and its table, [`verbs::ReceiveQueue`], `inbound_reads`, `sender`, `arrival`, `connection` |
//!
//! What RFC 7306 adds (atomic operations, immediate data) no peer of ours uses: its opcodes are unexpected ones.
//!
//! A payload goes once: from the wire into the region or buffer that its header names, which is the connection's placement, and from the region to the wire
//! as shared memory. It is placed before its CRC was checked, and told to nobody until then (docs/decisions/0024-placed-before-checked.md).
//!
//! Architecture invariant: no socket, clock, thread or source of randomness; nothing here knows who uses the queue pair.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod arrival;
mod connection;
pub mod ddp;
mod inbound_reads;
pub mod limits;
pub mod mpa;
pub mod rdmap;
mod send_queue;
mod sender;
pub mod terminate;
mod untagged;
pub mod violation;

pub use connection::{Config, Connection, Role};
