//! iSCSI over a byte stream: the Datamover that RFC 7143 itself describes.
//!
//! `connection` drives an upper layer over a stream, with `framing`, which finds PDUs there and puts them there; `target` and `initiator` are the
//! roles' datamovers, with a `send_queue` each, which holds what is to be sent, in order; `data_in` and `data_out` cut data into PDUs and check their
//! order, each for both roles; `key_values` says what of a login's keys is a byte stream's. `roles` is where both halves meet.

mod connection;
mod data_in;
mod data_out;
mod framing;
mod initiator;
mod key_values;
mod roles;
mod send_queue;
mod target;

pub use connection::TcpConnection;
pub use initiator::TcpInitiator;
pub use roles::{InitiatorConnection, TargetConnection};
pub use target::TcpTarget;
