//! What a queue pair of an adapter holds.

use host::PairNeeds;
use verbs::QueueLimits;

use crate::limits::{INITIATOR_READS, TARGET_READS};

/// Which end of a connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// An initiator's or a host's: its peer reads its memory.
    Initiator,
    /// A target's or a controller's: it reads its peer's memory.
    Target,
}

impl Side {
    /// What a queue pair of this side holds, whose consumer needs `limits`.
    pub(crate) fn needs(self, limits: QueueLimits) -> PairNeeds {
        let QueueLimits { sends, receives, regions, longest } = limits;
        let (reads_served, reads_sent) = match self {
            Self::Initiator => (INITIATOR_READS, 1),
            Self::Target => (1, TARGET_READS),
        };
        PairNeeds { sends, receives, regions, longest, reads_served, reads_sent }
    }
}
