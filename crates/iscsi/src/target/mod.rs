//! The target's side of a connection.
//!
//! * [`Portal`] says what is served: nodes; [`Access`] who may use which of their logical units, and how they prove it.
//! * [`Target`] is one connection, over a datamover that it knows by its contract alone: `connection` has its life, `login` the login phase, `requests` the full
//!   feature phase, `commands` the way of a SCSI command between the wire and the volume, `get_data` which write data is
//!   asked for, `memory` who waits for it, `management` aborts and resets, `pending_response` the responses that wait for
//!   them, `discovery` SendTargets, and `text_exchange` its negotiation; `portal_change` what happens when the portal serves something else.
//!
//! How data becomes PDUs and a stream stands in [`crate::datamover`]; [`Connection`] is a target over a byte stream, [`IserConnection`] over a queue pair.

mod access;
mod commands;
mod connection;
mod discovery;
mod get_data;
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

pub use crate::datamover::iser::TargetConnection as IserConnection;
pub use crate::datamover::tcp::TargetConnection as Connection;
