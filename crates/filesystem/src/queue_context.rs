//! What a queue is opened with.

use core::task::Waker;

use buf::Pool;

/// Names a core's event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoreId(pub u16);

/// Bytes of the pool that a queue gets whose core shares none: memory is taken only when it is used.
const OWN_POOL: usize = 16 << 20;

/// The place where a queue lives: on which core, how it makes itself heard, and where it finds memory that it can do without.
#[derive(Debug, Clone)]
pub struct QueueContext {
    /// The core that polls the queue.
    pub core: CoreId,
    /// Wakes that core when the queue wants to be polled.
    pub waker: Waker,
    /// Memory for what the queue can do without. What a request needs to complete is the queue's own.
    pub pool: Pool,
}

impl QueueContext {
    /// A queue on a core that shares its pool with it.
    pub fn new(core: CoreId, waker: Waker, pool: Pool) -> Self {
        Self { core, waker, pool }
    }

    /// A queue on a core that has no pool to share: it gets one of 16 MiB, of the calling thread.
    pub fn without_pool(core: CoreId, waker: Waker) -> Self {
        Self::new(core, waker, Pool::new(OWN_POOL))
    }
}
