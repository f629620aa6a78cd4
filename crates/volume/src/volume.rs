//! The control side of a volume, shared by all; its data side is a [queue](crate::VolumeQueue) per core.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;

use buf::MemorySource;

use crate::statistics::StatsSnapshot;
use crate::{
    CacheControl, Changes, Features, Geometry, Identity, LeaveControl, Limits, LossRecord, OpenError,
    PathState, QueueContext, VolumeQueue,
};

/// The control side of a volume. It exists only once its geometry is known.
pub trait Volume: Send + Sync + fmt::Debug {
    /// Its size now.
    fn geometry(&self) -> Geometry;
    /// What requests may look like now.
    fn limits(&self) -> Limits;
    /// What it can do now.
    fn features(&self) -> Features;
    /// What it says of itself; `None` for a volume that nobody but this process knows.
    fn identity(&self) -> Option<Identity> {
        None
    }
    /// Numbers that move when something changes.
    fn changes(&self) -> Changes {
        Changes::default()
    }
    /// Has `waker` woken, on whatever thread, each time that [`Volume::changes`] has moved, for as long as the volume lives.
    /// A volume that never changes never wakes anybody.
    fn listen(&self, _waker: Waker) {}
    /// Looks whether what the volume lies on has another size than when it was last looked at, where nothing tells of
    /// that by itself: files and devices. May block: it is a control operation.
    fn rescan(&self) -> Result<(), OpenError> {
        Ok(())
    }
    /// Has `record` keep the loss of acknowledged writes, and `known`, what it has kept before, still hold: then everything that writes or
    /// flushes fails, until an operator has cleared it. A volume that loses no writes keeps nothing.
    fn keep_losses(&self, _record: Arc<dyn LossRecord>, _known: Option<String>) {}
    /// How it is reached now; [`Changes::path`] moves when that changes.
    fn path(&self) -> PathState {
        PathState::default()
    }
    /// What was last wrong with the way to the volume, for people: why requests ended as unreachable, or waited; or which writes are
    /// lost. `None` where nothing could fail, or nothing did.
    fn last_error(&self) -> Option<String> {
        None
    }
    /// Memory that it reaches without a copy, if it prefers some: whoever makes a pool for its requests has it from there. Other memory is as good, and costs a copy.
    fn memory(&self) -> Option<Arc<dyn MemorySource>> {
        None
    }
    /// Bytes that were copied since it was opened because they were in other memory; `None` if it prefers none.
    fn copied(&self) -> Option<u64> {
        None
    }
    /// What the outermost [`Stats`](crate::filter::Stats) filter before it has counted; `None` if there is none.
    fn statistics(&self) -> Option<StatsSnapshot> {
        None
    }
    /// What it tells of itself as a cache, and how it is detached; `None` if it, or what is before it, is none.
    fn cache(&self) -> Option<&dyn CacheControl> {
        None
    }
    /// How it is left in order once nobody uses it any more; `None` if there is nothing to do for that.
    fn leave_control(&self) -> Option<&dyn LeaveControl> {
        None
    }
    /// The data side for one core, to be used only on that core's thread. The context's waker is woken whenever a completion may have become
    /// available, or the queue wants to be polled for reasons of its own, without a call to the queue.
    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError>;
}
