//! What a volume is: its shape, what it can do, and what it says of itself.

use std::sync::Arc;

use protocol::Instant;
use volume::{Features, Geometry, Identity, Limits, PathState, Volume};

use crate::job::Job;

/// What there is to know of a volume without touching its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Its size.
    pub geometry: Geometry,
    /// What requests may look like.
    pub limits: Limits,
    /// What it can do.
    pub features: Features,
    /// How it is reached.
    pub path: PathState,
    /// What it says of itself; `None` where there is nobody to say it, as for memory and files.
    pub identity: Option<Identity>,
}

/// Looks at a volume that has been opened.
pub(crate) struct Inspect(Arc<dyn Volume>);

impl Inspect {
    pub(crate) fn of(volume: &Arc<dyn Volume>) -> Self {
        Self(Arc::clone(volume))
    }
}

impl Job for Inspect {
    type Output = Inspection;

    fn poll(&mut self, _now: Instant) -> Option<Inspection> {
        Some(Inspection {
            geometry: self.0.geometry(),
            limits: self.0.limits(),
            features: self.0.features(),
            path: self.0.path(),
            identity: self.0.identity(),
        })
    }
}
