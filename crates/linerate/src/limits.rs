//! Every number of the library, with its unit and its reason.

use std::time::Duration;

/// Requests of a disk under way on one core, unless a client asks for another number: enough for a fast drive, few
/// enough that their memory is small.
pub(crate) const CLIENT_DEPTH: usize = 128;
/// Bytes that a client's core keeps for reads that bring no memory: thirty-two of 1 MiB and their siblings.
pub(crate) const CLIENT_MEMORY: usize = 64 << 20;
/// Transfers of one long read or write under way at a time: enough to hide a round trip.
pub(crate) const TRANSFER_WINDOW: usize = 8;
/// Bytes of one transfer of a long read or write, where the volume allows it; longer ones only hold memory longer.
pub(crate) const TRANSFER: u32 = 1 << 20;
/// How long connecting, logging in and asking for the geometry may take together.
pub(crate) const OPEN_PATIENCE: Duration = Duration::from_secs(30);
