//! What happens on a logical unit and concerns other nexuses of it.

use alloc::sync::Arc;

use volume::{Geometry, reservation};

use crate::mode::ModeState;

/// Something that happened on a logical unit or target and concerns other nexuses of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NexusEvent {
    /// The logical unit was reset: others' tasks on it are gone, and they get a unit attention.
    LogicalUnitReset,
    /// Another nexus cleared the task set (CLEAR TASK SET): tasks on the unit are gone.
    TaskSetCleared,
    /// Mode parameters were changed by another nexus, to these.
    ModeParametersChanged(ModeState),
    /// The logical unit has this size from now on.
    CapacityChanged(Geometry),
    /// Reservations changed: the new state, and what happened to this nexus, if anything.
    Reservations {
        /// The state from now on.
        view: Arc<reservation::View>,
        /// Who is told what; each nexus looks for itself.
        notices: Arc<[(reservation::Registrant, reservation::Notice)]>,
        /// Whose tasks on the unit are to be aborted (PREEMPT AND ABORT).
        aborted: Arc<[reservation::Registrant]>,
    },
}
