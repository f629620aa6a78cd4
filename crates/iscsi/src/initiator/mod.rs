//! The initiator's side of a connection: a remote logical unit that takes a volume's requests, or a discovery.
//!
//! * [`Config`] says where to log in, as whom, and how.
//! * [`Initiator`] is one connection, over a datamover that it knows by its contract alone. It logs in, probes the logical unit, and then carries requests. It does not reconnect: whoever owns it
//!   makes a new one.
//!
//! `connection` has its life, `login` the login phase, `tasks` the commands under way, `receive` the target's PDUs, `cdb`
//! what a request means in SCSI, `probe` how a logical unit becomes a [`RemoteUnit`].
//!
//! How data crosses stands in [`crate::datamover`]: [`crate::datamover::tcp::InitiatorConnection`] is an initiator over a byte stream,
//! [`crate::datamover::iser::InitiatorConnection`] over a queue pair. Nothing here names either.

mod cdb;
mod config;
mod connection;
mod login;
mod probe;
mod receive;
mod tasks;

pub use config::Config;
pub use connection::{Action, Discovered, Initiator, Input};
pub use probe::RemoteUnit;
