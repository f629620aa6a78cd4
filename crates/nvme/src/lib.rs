//! NVMe over Fabrics with the TCP and RDMA transports: controller and host as pure state machines.
//!
//! Which part of which standard is where:
//!
//! | standard | module |
//! |---|---|
//! | NVMe TCP Transport §3.6 (PDUs), §3.5 (errors) | [`pdu`], [`violation`], `transport::tcp` |
//! | NVMe RDMA Transport §3.1 (set-up), §3.3 (data), §3.5 (errors), §3.6 (keys) | [`rdma`] |
//! | NVMe Base §4.1, §4.2 (queue entries), §4.3 (SGL) | [`sqe`], [`cqe`], [`sgl`] |
//! | NVMe Base §3.1.4 (properties) | [`properties`] |
//! | NVMe Base §6 (Fabrics commands) | [`fabrics`] |
//! | NVMe Base §5 (admin commands: abort, events, identify, log pages, features) | [`abort`], [`async_event`], [`identify`], [`log`], [`features`], [`opcode`] |
//! | NVM Command Set §3 (I/O commands), §4.2.1 (Get LBA Status) | [`nvm`], [`allocation`] |
//! | NVMe Base §7.4 to §7.7, §8.1.22 (reservations) | [`reservation`] |
//! | NVMe Base §4.2.3 (status) | [`status`] |
//! | NVMe Base §3.1 (controllers), §3.1.3.3 (discovery) | [`controller`], [`subsystem`] |
//! | the host's side of all of these | [`host`] |
//!
//! Architecture invariant: no socket, clock, thread or random source; see `docs/protocols/nvme.md`.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing))]
extern crate alloc;

pub mod abort;
pub mod allocation;
pub mod async_event;
pub mod controller;
pub mod cqe;
pub mod fabrics;
pub mod features;
pub mod host;
pub mod identify;
pub mod lifetime;
pub mod limits;
pub mod log;
pub mod nvm;
pub mod opcode;
pub mod pdu;
pub mod properties;
pub mod reservation;
pub mod sgl;
pub mod sqe;
pub mod status;
pub mod subsystem;
mod transport;
pub mod violation;
mod width;

pub use transport::rdma;

/// The well-known name of every discovery controller (NVMe Base §4.7).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The version that both sides speak: 2.0.0, as the VS property writes it (NVMe Base §3.1.4.2).
pub const VERSION: u32 = 0x0002_0000;
