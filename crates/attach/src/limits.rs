//! Limits of the adapter as a whole, with unit and reason.

use std::time::Duration;

/// Connections of clients on each core. Programs open a handful, or one for each of their threads.
pub(crate) const CONNECTIONS: usize = 256;

/// Bytes of data buffers in all: several of the longest requests at a time. Beyond it requests wait.
pub(crate) const MEMORY: usize = 256 << 20;

/// The least bytes of data buffers of each core: two of the longest requests.
pub(crate) const LEAST_MEMORY: usize = 64 << 20;

/// How long clients' requests under way get to end when the adapter is asked to stop, before connections are cut off.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Bytes of memory that each thread keeps for data of writes: as many of the longest as are ever under way for one thread.
pub(crate) const THREAD_MEMORY: usize = 32 << 20;
