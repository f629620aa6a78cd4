//! The target's side of a connection.
//!
//! * [`Portal`] says what is served: nodes; [`Access`] who may use which of their logical units, and how they prove it.
//! * [`Target`] is one connection, over a datamover that it knows by its contract alone: `connection` has its life, `login` the login phase, `requests` the full
//!   feature phase, `commands` the way of a SCSI command between the wire and the volume, `get_data` which write data is
//!   asked for, `memory` who waits for it, `management` aborts and resets, `pending_response` the responses that wait for
//!   them, `discovery` SendTargets, and `text_exchange` its negotiation; `portal_change` what happens when the portal serves something else.
//!
//! How data crosses stands in [`crate::datamover`]: [`crate::datamover::tcp::TargetConnection`] is a target over a byte stream,
//! [`crate::datamover::iser::TargetConnection`] over a queue pair. Nothing here names either.

mod access;
mod commands;
mod connection;
mod discovery;
mod get_data;
mod keep_alive;
mod login;
mod management;
mod memory;
mod pending_response;
mod portal;
mod portal_change;
mod requests;
mod tasks;
mod text_exchange;

pub use access::{Access, Chap, ProvenInitiator, Rule};
pub use connection::{Action, Input, Resources, Target};
pub use portal::{Node, Portal};
