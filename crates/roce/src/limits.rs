//! Every limit of this crate, with its unit and the reason for its value.

/// Bytes of payload in one packet: the largest path MTU that the InfiniBand architecture names. What is longer is refused.
pub const PAYLOAD: usize = 4096;
