//! The target's side of a connection.
//!
//! * [`Portal`] says what is served: nodes; [`Access`] who may use which of their logical units, and how they prove it.
//! * [`Target`] is one connection, over a datamover that it knows by its contract alone. Its parts have states of their own:
//!
//!   | what | in |
//!   |---|---|
//!   | the connection's state and its deadlines | `life` |
//!   | the login phase | `login` |
//!   | SCSI commands from the wire to the volume and back | `commands` |
//!   | their tasks; which write data is asked for; the buffers that each needs | `tasks`, `get_data`, `buffer_need` |
//!   | how many there may be | `window_width` |
//!   | commands that wait for memory, and who gets it next | `buffer_queue` |
//!   | receiving that waits for memory | `withheld_receive` |
//!   | data that does not come, sends that are not read, silence | `data_watch`, `send_watch`, `keep_alive` |
//!   | what is held outside of buffers | `outside_memory` |
//!   | aborts and resets; responses that wait for tasks to end | `management`, `task_management` |
//!   | the I_T nexus; what happens before there is one | `nexus`, `early_events` |
//!   | a text negotiation; the answers to its keys, and to SendTargets | `text_exchange`, `text_keys`, `send_targets` |
//!
//!   All of them work with the connection's `context`: its datamover, its numbers, its account, and what it asks of the inside ([`Action`]). The connection joins
//!   them, and it alone ends: `connection` has the calls of its datamover and driver, `requests` those of the initiator, and `portal_change` what happens when
//!   the portal serves something else.
//!
//! How data crosses stands in [`crate::datamover`]: [`crate::datamover::tcp::TargetConnection`] is a target over a byte stream,
//! [`crate::datamover::iser::TargetConnection`] over a queue pair. Nothing here names either.

mod access;
mod action;
mod buffer_need;
mod buffer_queue;
mod commands;
mod connection;
mod context;
mod data_watch;
mod early_events;
mod get_data;
mod keep_alive;
mod life;
mod login;
mod long_cdb;
mod management;
mod nexus;
mod outside_memory;
mod portal;
mod portal_change;
mod requests;
mod send_targets;
mod send_watch;
mod task_management;
mod tasks;
mod text_exchange;
mod text_keys;
mod window_width;
mod withheld_receive;

pub use access::{Access, Chap, ProvenInitiator, Rule};
pub use action::Action;
pub use connection::{Input, Resources, Target};
pub use portal::{Node, Portal};
pub use task_management::ResetResult;
