//! The peer that a requester sends to.

use crate::header::U24;
use crate::mtu::Mtu;
use crate::psn::Psn;

/// Where a requester sends to, and what was agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its queue pair.
    pub(crate) queue_pair: U24,
    /// The number that it awaits first.
    pub(crate) sequence: Psn,
    pub(crate) mtu: Mtu,
    /// RDMA Reads that it serves at a time.
    pub(crate) reads: u8,
    /// Attempts while it has no receive.
    pub(crate) not_ready: u8,
}
