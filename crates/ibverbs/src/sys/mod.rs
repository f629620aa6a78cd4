//! All that is unsafe here: the libraries' functions and structures, and what they do with memory.
//!
//! `abi` has the structures, `library` the functions, `device` devices, `connection` event channels and their identifiers, `memory` protection domains, registrations and bounce buffers,
//! `queue_pair` a queue pair with its completion queue. What leaves this module is safe: memory that a device may touch is owned here, and comes back when the device
//! has let go of it.
//!
//! Architecture invariant: no state of a connection is kept here, and no decision is made.
#![expect(unsafe_code, reason = "it calls C, and gives devices memory")]

mod abi;
mod address;
mod connection;
mod device;
mod library;
mod memory;
mod queue_pair;

pub(crate) use connection::{ChannelError, CmEvent, CmEventKind, CmId, ConnectionOffer, EventChannel};
pub(crate) use device::Device;
pub(crate) use memory::{
    Access, Bounce, BounceMemory, NotRegistered, ProtectionDomain, Registered, Registration,
};
pub(crate) use queue_pair::{CompletionChannel, Depth, Done, Held, Operation, Outcome, QueuePair, Request};
