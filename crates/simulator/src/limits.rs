//! The simulator's own numbers, with unit and reason.

use std::time::Duration;

/// Operations that one queue of a crash disk holds: few, so that being full is met often.
pub const DISK_DEPTH: usize = 32;

/// Versions of one piece that the checker keeps before it drops those that can no longer be met.
pub const VERSIONS: usize = 24;

/// The longest request that needs no more memory than every connection has at any time, in bytes: a page of a database.
pub const SMALL: usize = 8192;

/// How long a request of at most [`SMALL`] bytes may take beside hostile peers: the disk's 5 ms and the network's ways, and the turn of other
/// requests at the same connection, whose large ones wait for memory.
pub const SMALL_WAIT: Duration = Duration::from_secs(13);

/// How long any request may take beside hostile peers: after 10 s (`SCARCE_SEND_TIME` of both protocols) whoever holds memory that others
/// wait for has lost it, a second later the watch over memory has seen it; the rest is for the disk and the network.
pub const LARGE_WAIT: Duration = Duration::from_secs(13);
