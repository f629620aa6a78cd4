//! What a simulated server says of its catalogues and volumes.

use std::sync::{Mutex, PoisonError};

use engine::{ControlEvent, ControlObserver};

/// Keeps everything until it is taken.
#[derive(Debug, Default)]
pub struct Observed(Mutex<Vec<ControlEvent>>);

impl Observed {
    /// What has come since the last time.
    pub fn take(&self) -> Vec<ControlEvent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ControlObserver for Observed {
    fn observe(&self, event: ControlEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
