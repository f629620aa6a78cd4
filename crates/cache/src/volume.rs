//! The control side of a cache.

use std::sync::Arc;
use std::task::Waker;

use volume::{
    CacheControl, CacheState, CacheStatus, Changes, Features, Geometry, Identity, LeaveControl, LeaveMode,
    Limits, LossRecord, OpenError, PathState, QueueContext, Volume, VolumeQueue,
};

use crate::queue::CacheQueue;
use crate::shared::Shared;
use crate::state::Detach;

/// The volume of `cache=[FAST,CAPACITY]`.
#[derive(Debug)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
}

impl CacheControl for Cache {
    fn status(&self) -> CacheStatus {
        self.shared.state.lock().status()
    }
}

impl LeaveControl for Cache {
    fn leave(&self, how: LeaveMode) {
        let mut state = self.shared.state.lock();
        if !state.is_working() {
            // There is nothing to be done about this one, but maybe about what is below.
            drop(state);
            return self.shared.leave_below(how);
        }
        let keeps_dirty = match how {
            LeaveMode::Configured => state.options.keeps_dirty,
            LeaveMode::Clean => false,
            LeaveMode::Dirty => true,
        };
        match state.detach {
            Detach::No | Detach::Wanted { .. } => {
                state.detach = Detach::Wanted { keeps_dirty };
                state.wake_queues();
            }
            Detach::Below => {
                drop(state);
                self.shared.leave_below(how);
            }
            Detach::Done => {}
        }
    }

    fn has_left(&self) -> bool {
        match self.status().state {
            CacheState::Working | CacheState::Detaching => false,
            CacheState::Detached | CacheState::Off | CacheState::Lost => self.shared.is_left_below(),
        }
    }
}

impl Volume for Cache {
    fn geometry(&self) -> Geometry {
        self.shared.geometry()
    }

    fn limits(&self) -> Limits {
        self.shared.limits()
    }

    fn features(&self) -> Features {
        self.shared.features()
    }

    fn identity(&self) -> Option<Identity> {
        self.shared.capacity.identity()
    }

    fn changes(&self) -> Changes {
        let changes = self.shared.capacity.changes();
        let own = self.shared.state.lock().path_changes;
        Changes { path: changes.path.wrapping_add(own), ..changes }
    }

    fn listen(&self, waker: Waker) {
        self.shared.listeners.add(waker.clone());
        self.shared.capacity.listen(waker);
    }

    fn rescan(&self) -> Result<(), OpenError> {
        self.shared.capacity.rescan()
    }

    fn keep_losses(&self, record: Arc<dyn LossRecord>, known: Option<String>) {
        self.shared.capacity.keep_losses(record, known);
    }

    fn path(&self) -> PathState {
        let path = self.shared.capacity.path();
        let works = self.shared.state.lock().is_working();
        match path {
            PathState::Optimized | PathState::NonOptimized if !works => PathState::Degraded { missing: 1 },
            PathState::Degraded { missing } if !works => {
                PathState::Degraded { missing: missing.saturating_add(1) }
            }
            path => path,
        }
    }

    fn last_error(&self) -> Option<String> {
        let own = self.shared.state.lock().last_error();
        own.or_else(|| self.shared.capacity.last_error())
    }

    fn memory(&self) -> Option<Arc<dyn buf::MemorySource>> {
        self.shared.capacity.memory().or_else(|| self.shared.fast.memory())
    }

    fn cache(&self) -> Option<&dyn CacheControl> {
        Some(self)
    }

    fn leave_control(&self) -> Option<&dyn LeaveControl> {
        Some(self)
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(CacheQueue::open(&self.shared, context)?))
    }
}
