//! Opening a volume on a core of the caller's own event loops: for programs that are a [`host::Service`] themselves.

use std::sync::Arc;

use buf::Pool;
use host::World;
use names::VolumeUrl;
use protocol::Instant;
use volume::{CoreId, OpenError, QueueContext, Volume};

use crate::job::Environment;
use crate::open::Opening;

/// A volume that is being opened on the calling core. Once it is open, every core of the process may open queues on it.
pub struct CoreOpening(Opening);

impl CoreOpening {
    /// Begins to open what `url` names. A thread of its own does what may block, so that the core goes on with what it has. The world's waker is
    /// woken when there is news.
    /// The volume may use memory of `pool`, which is the core's.
    pub fn begin<M>(url: &VolumeUrl, world: &World<M>, pool: &Pool) -> Self {
        let context = QueueContext::new(CoreId(world.core), world.waker.clone(), pool.clone());
        Self(Opening::new(url, &Environment::from(world), context))
    }

    /// The volume or why it could not be opened, once that is known; asked again it answers nothing.
    pub fn poll(&mut self, now: Instant) -> Option<Result<Arc<dyn Volume>, OpenError>> {
        self.0.poll(now)
    }

    /// When to poll again even if nothing wakes the core.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
}

impl std::fmt::Debug for CoreOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CoreOpening")
    }
}
