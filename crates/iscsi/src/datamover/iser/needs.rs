//! What a queue pair must hold for iSER.

use crate::limits::{IMMEDIATE_DEPTH, INITIATOR_DEPTH, LOGIN_RECEIVES, UNEXPECTED_PDUS};

/// What a queue pair must hold. With less in its send queue or fewer regions a connection is slower; with fewer receives it ends when they are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueNeeds {
    /// Requests other than receives at a time.
    pub sends: usize,
    /// Receives at a time.
    pub receives: usize,
    /// Regions at a time.
    pub regions: usize,
    /// Bytes of the longest request.
    pub longest: usize,
}

/// For a target whose sessions have at most `depth` commands outstanding. It registers nothing.
pub fn target_needs(depth: u16) -> QueueNeeds {
    let tasks = usize::from(depth.saturating_add(IMMEDIATE_DEPTH));
    QueueNeeds { regions: 0, ..needs(tasks) }
}

/// For an initiator.
pub fn initiator_needs() -> QueueNeeds {
    needs(usize::from(INITIATOR_DEPTH))
}

/// Each task has data, a message, and the beginning and end of a region at most.
fn needs(tasks: usize) -> QueueNeeds {
    let unexpected = usize::try_from(UNEXPECTED_PDUS).unwrap_or_default();
    let receives = tasks.saturating_add(unexpected).saturating_add(LOGIN_RECEIVES);
    QueueNeeds { sends: tasks.saturating_mul(4), receives, regions: tasks, longest: u32::MAX as usize }
}
