//! What a process that serves files has beside its connections: what is behind a listener for NFS, and the records of clients.

use std::fmt::Debug;
use std::sync::Arc;

use nfs::server::ServerIdentity;
use nfs::server::exports::Exports;
use nfs::state::stable::{StableChange, StableRecord};

/// What is behind a listener for NFS.
#[derive(Debug, Clone)]
pub struct NfsPortal {
    /// What is served there, and to whom.
    pub exports: Arc<Exports>,
    /// How the server names itself.
    pub identity: ServerIdentity,
}

/// What the owner of NFS clients' state begins with.
#[derive(Debug)]
pub struct NfsStart {
    /// Another number than at every earlier start.
    pub boot: u32,
    /// The clients that may reclaim.
    pub records: Vec<StableRecord>,
    /// Where changes of the records go.
    pub keeper: Arc<dyn ClientRecords>,
}

/// Keeps records of NFS clients on stable storage.
pub trait ClientRecords: Send + Sync + Debug {
    /// Makes a change durable, in the order of the calls. It must not block; how it ended is told to core 0 by
    /// [`Message::NfsRecord`](crate::Message::NfsRecord).
    fn change(&self, change: StableChange);
}
