//! The volume, as the rest of the program has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use buf::MemorySource;
use volume::{Changes, Features, Geometry, Limits, OpenError, PathState, QueueContext, Volume, VolumeQueue};

use crate::control::Control;
use crate::queue::Queue;
use crate::shared::Shared;

/// The volume. When the last handle goes, so does the thread, and with it the connection.
pub(crate) struct VhostUserVolume {
    pub(crate) shared: Arc<Shared>,
    pub(crate) _control: Control,
}

impl std::fmt::Debug for VhostUserVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VhostUserVolume").field(&self.shared.path).finish()
    }
}

impl Volume for VhostUserVolume {
    fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn features(&self) -> Features {
        self.shared.features
    }

    fn changes(&self) -> Changes {
        Changes { path: self.shared.path_changes.load(Ordering::Acquire), ..Changes::default() }
    }

    fn listen(&self, waker: Waker) {
        self.shared.listeners.add(waker);
    }

    fn path(&self) -> PathState {
        if self.shared.is_lost() { PathState::Inaccessible } else { PathState::Optimized }
    }

    fn last_error(&self) -> Option<String> {
        self.shared.last_error()
    }

    fn memory(&self) -> Option<Arc<dyn MemorySource>> {
        Some(Arc::new(self.shared.memory.clone()))
    }

    fn copied(&self) -> Option<u64> {
        Some(self.shared.copied.load(Ordering::Relaxed))
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let shared = &self.shared;
        let index = shared.take_index().ok_or_else(|| {
            OpenError::new(format!(
                "{}: the device has {} queues, and all are in use: use fewer cores, or let it offer more",
                shared.path.display(),
                shared.queues
            ))
        })?;
        match Queue::open(shared, index, context) {
            Ok(queue) => Ok(Box::new(queue)),
            Err(error) => {
                shared.give_back(index);
                Err(OpenError::new(format!("a queue cannot be made: {error}")).because(error))
            }
        }
    }
}
