//! The target's side of a connection.
//!
//! * [`Portal`] says what is served: nodes, who may use them, and how.
//! * [`Connection`] is one transport connection: `connection` has its life, `login` the login phase, `requests` the full
//!   feature phase, `commands` the way of a SCSI command between the wire and the volume, `data` the collection of write
//!   data, `management` aborts and resets, `discovery` SendTargets, `outbound` what is to be sent.

mod commands;
mod connection;
mod data;
mod discovery;
mod login;
mod management;
mod outbound;
mod portal;
mod requests;
mod tasks;

pub use connection::{Action, Connection, Input, Resources};
pub use portal::{Access, Chap, Node, Portal};
