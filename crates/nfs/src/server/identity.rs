//! Who a server is, to clients that know several.

use alloc::vec::Vec;

/// How this server names itself in EXCHANGE_ID (RFC 8881 §2.10.4, §2.10.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// `so_major_id`: connections to the same can share sessions.
    pub owner: Vec<u8>,
    /// `eir_server_scope`: handles and client IDs of the same scope are the same.
    pub scope: Vec<u8>,
}
