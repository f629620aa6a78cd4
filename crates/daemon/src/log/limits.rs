//! Bounds of the log.

use std::time::Duration;

/// Events that wait for the writer: a second's worth of refusals on all cores, about 300 bytes each.
pub(super) const QUEUED: usize = 1024;
/// Events that are kept for the writer beyond that: outcomes of reloads, which only an operator can ask for.
pub(super) const KEPT: usize = 256;
/// Lines of one kind and level about one volume that one peer may cause in a window: enough to see what it does.
pub(super) const LINES_OF_A_PEER: u32 = 20;
/// Lines of one level in a window in all: a log on a slow disk, or a person, can follow.
pub(super) const LINES: u32 = 200;
/// Peers, kinds and volumes that are told apart in a window; those beyond are counted together.
pub(super) const PEERS: usize = 256;
/// The window.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// How long the end of the process waits for what is not written yet.
pub(super) const DRAIN_TIME: Duration = Duration::from_secs(1);
