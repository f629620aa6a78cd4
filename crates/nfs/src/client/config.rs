//! What a client is told when it connects: which file, as whom, and how patient to be.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rpc::message::AuthSysToSend;

use super::session::Keep;
use crate::v4::Verifier;

/// Which minor versions of NFS 4 may be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// 4.2, or 4.1 where the server has no other.
    #[default]
    Newest,
    /// 4.2 alone.
    Two,
    /// 4.1 alone.
    One,
}

/// What the file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Reading and writing.
    #[default]
    ReadWrite,
    /// Reading and writing, and nobody else may write (OPEN4_SHARE_DENY_WRITE).
    Exclusive,
    /// Reading.
    ReadOnly,
}

/// One connection's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The names from the server's root to the file, at least one.
    pub path: Vec<Vec<u8>>,
    /// Minor versions.
    pub versions: Versions,
    /// What the file is opened for.
    pub access: Access,
    /// Bytes of a block: 512 or 4096.
    pub block_size: u32,
    /// The size that the file is to have at least, in bytes: a smaller one grows.
    pub size: Option<u64>,
    /// Who asks.
    pub user: Arc<AuthSysToSend>,
    /// The client's name (`co_ownerid`), which no other has, and the same for each connection of one [`Keep`].
    pub owner: Vec<u8>,
    /// What tells this start of the client from one before (`co_verifier`).
    pub verifier: Verifier,
    /// How long a COMPOUND may take, and opening as a whole.
    pub command_time: Duration,
    /// What the connection before has left, and where this one leaves what the next needs.
    pub keep: Keep,
}
