//! Which volumes the engine has let go of, and whether they are flushed.

use std::sync::{Mutex, PoisonError};

use engine::{ControlEvent, ControlObserver};
use volume::VolumeId;

/// The volumes that every core has flushed after its last request.
#[derive(Debug, Default)]
pub(crate) struct Retired(Mutex<Vec<VolumeId>>);

impl Retired {
    /// True once all cores have flushed the volume after its last request.
    pub(crate) fn is_secured(&self, volume: VolumeId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&volume)
    }
}

impl ControlObserver for Retired {
    fn observe(&self, event: ControlEvent) {
        if let ControlEvent::Retired { id, secured: true, .. } = event {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
    }
}
