//! Leaves volumes in order that are not to be used any more: caches write back what they hold, and make their maps durable, so that they are warm when they are used again.
//!
//! Whoever serves or uses volumes ends its own queues first, and then polls this until it is over.

use core::time::Duration;
use std::sync::Arc;

use protocol::Instant;

use crate::{CacheState, LeaveMode, OpenError, QueueContext, Volume, VolumeQueue};

/// How long caches may write back: after that what is dirty stays where it is, which is as safe. Less than a server's last flush may take, and than service managers wait.
const WRITE_BACK: Duration = Duration::from_secs(40);
/// How long all of it may take: what is not left in order by then is left as by a crash.
const PATIENCE: Duration = Duration::from_secs(55);

struct Left {
    volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
}

impl Left {
    fn leave(&self, how: LeaveMode) {
        if let Some(cache) = self.volume.cache() {
            cache.leave(how);
        }
    }

    fn is_over(&self) -> bool {
        self.volume.cache().is_none_or(|cache| match cache.status().state {
            CacheState::Working | CacheState::Detaching => false,
            CacheState::Detached | CacheState::Off | CacheState::Lost => true,
        })
    }
}

/// Volumes that are being left.
pub struct Leaving {
    left: Vec<Left>,
    failed: Vec<OpenError>,
    /// When writing back, and when everything has taken too long; known from the first poll on.
    due: Option<(Instant, Instant)>,
    hurries: bool,
}

impl Leaving {
    /// Begins to leave those of `volumes` that need it, on the calling core, which `context` describes. Nothing else may use them.
    pub fn begin(volumes: impl IntoIterator<Item = Arc<dyn Volume>>, context: &QueueContext) -> Self {
        let (mut left, mut failed) = (Vec::new(), Vec::new());
        for volume in volumes.into_iter().filter(|volume| volume.cache().is_some()) {
            match volume.open_queue(context) {
                Ok(queue) => left.push(Left { volume, queue }),
                Err(error) => failed.push(error),
            }
        }
        for left in &left {
            left.leave(LeaveMode::Configured);
        }
        Self { left, failed, due: None, hurries: false }
    }

    /// Why a volume could not be left in order: no queue of it could be opened. It is as after a crash.
    pub fn failed(&self) -> &[OpenError] {
        &self.failed
    }

    /// Goes on; true once it is over. To be polled when the context's waker was woken, and when [`Leaving::poll_timeout`] has come.
    pub fn poll(&mut self, now: Instant) -> bool {
        let (hurry, end) = *self.due.get_or_insert((now + WRITE_BACK, now + PATIENCE));
        if now >= hurry && !self.hurries {
            self.hurries = true;
            for left in &self.left {
                left.leave(LeaveMode::Dirty);
            }
        }
        let mut nobody = Vec::new();
        self.left.retain_mut(|left| {
            left.queue.poll(now, &mut nobody);
            !left.is_over()
        });
        self.left.is_empty() || now >= end
    }

    /// When to poll though nothing wakes the core.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = self.due.map(|(hurry, end)| if self.hurries { end } else { hurry });
        self.left.iter().filter_map(|left| left.queue.poll_timeout()).chain(due).min()
    }
}

impl core::fmt::Debug for Leaving {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Leaving").field("left", &self.left.len()).finish_non_exhaustive()
    }
}
