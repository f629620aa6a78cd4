//! What a queue pair must hold for iSER.

use verbs::QueueLimits;

use crate::limits::{IMMEDIATE_DEPTH, INITIATOR_DEPTH, LOGIN_RECEIVES, UNEXPECTED_PDUS};

/// For a target whose sessions have at most `depth` commands outstanding. It registers nothing.
pub fn target_needs(depth: u16) -> QueueLimits {
    let tasks = usize::from(depth.saturating_add(IMMEDIATE_DEPTH));
    QueueLimits { regions: 0, ..needs(tasks) }
}

/// For an initiator.
pub fn initiator_needs() -> QueueLimits {
    needs(usize::from(INITIATOR_DEPTH))
}

/// Each task has data, a message, and the beginning and end of a region at most.
fn needs(tasks: usize) -> QueueLimits {
    let unexpected = usize::try_from(UNEXPECTED_PDUS).unwrap_or_default();
    let receives = tasks.saturating_add(unexpected).saturating_add(LOGIN_RECEIVES);
    QueueLimits { sends: tasks.saturating_mul(4), receives, regions: tasks, longest: u32::MAX as usize }
}
