//! A cache's two volumes, and what its queues share.

use std::sync::Arc;

use volume::{
    CacheMode, Features, Geometry, LeaveControl, LeaveMode, Limits, Listeners, Volume, VolumeErrorKind,
};

use crate::limits::{DEPTH, MAX_TRANSFER};
use crate::state::{Locked, State};

/// What the control side and all queues hold.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fast: Arc<dyn Volume>,
    pub(crate) capacity: Arc<dyn Volume>,
    pub(crate) mode: CacheMode,
    pub(crate) state: Locked,
    pub(crate) listeners: Listeners,
}

impl Shared {
    pub(crate) fn new(fast: Arc<dyn Volume>, capacity: Arc<dyn Volume>, state: State) -> Self {
        let mode = state.options.mode;
        Self { fast, capacity, mode, state: Locked::new(state), listeners: Listeners::default() }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.capacity.geometry()
    }

    /// What both volumes can take. Where data lies in several places a request needs copies, so that the longest is bounded.
    pub(crate) fn limits(&self) -> Limits {
        let (fast, capacity) = (self.fast.limits(), self.capacity.limits());
        let transfer = fast.max_transfer.min(capacity.max_transfer).min(MAX_TRANSFER);
        let block = self.geometry().block_size.max(1);
        Limits {
            max_transfer: transfer - transfer % block,
            memory_alignment: fast.memory_alignment.max(capacity.memory_alignment),
            depth: fast.depth.min(capacity.depth).min(DEPTH),
            discard_granularity: capacity.discard_granularity,
            max_discard: capacity.max_discard,
            atomic_blocks: 1,
        }
    }

    /// What the capacity volume can do; comparing is done here.
    pub(crate) fn features(&self) -> Features {
        let features = self.capacity.features() | Features::COMPARE;
        match self.mode {
            CacheMode::Through => features,
            CacheMode::Back => features | Features::VOLATILE_CACHE,
        }
    }

    /// Moves when the fast volume is reached in another way: it may have begun anew, and lost what no flush had covered.
    pub(crate) fn fast_path(&self) -> u64 {
        self.fast.changes().path
    }

    /// The fast volume has failed.
    pub(crate) fn fail_fast(&self, kind: VolumeErrorKind) {
        let first = self.state.lock().fail_fast(kind);
        if first {
            self.listeners.wake();
        }
    }

    fn below(&self) -> impl Iterator<Item = &dyn LeaveControl> {
        [self.fast.leave_control(), self.capacity.leave_control()].into_iter().flatten()
    }

    /// Asks the two volumes to be left, as far as that needs anything.
    pub(crate) fn leave_below(&self, how: LeaveMode) {
        self.below().for_each(|control| control.leave(how));
    }

    /// True once they have been, or cannot be.
    pub(crate) fn is_left_below(&self) -> bool {
        self.below().all(LeaveControl::has_left)
    }
}
