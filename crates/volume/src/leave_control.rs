//! How a volume is left in order by whoever used it last. It is here, as whoever serves volumes knows neither caches nor mirrors.

use alloc::boxed::Box;

use crate::{OpenError, QueueContext, VolumeQueue};

/// What becomes of dirty data when a cache is left in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveMode {
    /// What the cache was configured to do.
    Configured,
    /// All is written back: the capacity volume has everything.
    Clean,
    /// It stays: the capacity volume means nothing without the fast one.
    Dirty,
}

/// A volume with something to do before nobody uses it any more: a cache makes its map durable, a mirror gives back the reservations on its legs.
pub trait LeaveControl {
    /// Asks that the volume be left in order. Requests may be refused from now on. The queues do the work while they are polled; whoever
    /// [listens](crate::Volume::listen) or has a queue is woken when it is done. Asked again, the later way holds.
    fn leave(&self, how: LeaveMode);

    /// A queue for no requests, on which the volume does from now on what it does of its own accord. Where that would be done on the queues of those who use the volume, it would be cut off
    /// when they drop them, and what is cut off may take effect late. `None` for a volume that needs none.
    fn attend(&self, context: &QueueContext) -> Option<Result<Box<dyn VolumeQueue>, OpenError>> {
        let _ = context;
        None
    }

    /// True once that is over, well or not, for this volume and those that it is made of.
    fn has_left(&self) -> bool;
}
