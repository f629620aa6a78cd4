//! What a connection is to send, in order, and how it becomes PDUs.
//!
//! The roles have a queue each, as they share next to nothing: a target stamps StatSN, ExpCmdSN and MaxCmdSN, releases the command window
//! and stops receiving while its peer does not read; an initiator stamps CmdSN and ExpStatSN, and its commands wait for the window
//! elsewhere (RFC 7143 §4.2.2).

pub(crate) mod initiator;
pub(crate) mod target;
