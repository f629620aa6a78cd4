//! What a queue is opened with: everything that the core which polls it offers.

use core::task::Waker;

use buf::Pool;

/// Names a core's event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoreId(pub u16);

/// Bytes of the pool that a queue gets whose core shares none: memory is taken only when it is used.
const OWN_POOL: usize = 16 << 20;

/// The place where a queue lives: on which core, how it makes itself heard, and where it finds memory.
#[derive(Debug, Clone)]
pub struct QueueContext {
    /// The core that polls the queue.
    pub core: CoreId,
    /// Wakes that core when the queue wants to be polled.
    pub waker: Waker,
    /// Memory that the queue may use for what it can do without, such as reading ahead or resynchronisation, through an
    /// [`Account`](buf::Account) of its own. What a request needs to complete is the queue's own: connections hold this pool's memory while they wait for
    /// the volume, which must not wait for theirs.
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

    /// The same place, with another way to be heard: for a volume that is made of others, and polls only those that have woken it.
    #[must_use]
    pub fn with_waker(&self, waker: Waker) -> Self {
        Self { waker, ..self.clone() }
    }
}
