//! Leaves volumes in order that are not to be used any more: caches write back what they hold, and make their maps durable, so that they are warm when they are used again;
//! mirrors give back the reservations on their legs, so that another host may open them.
//!
//! Whoever serves or uses volumes ends its own queues first, and then polls this until it is over.

use core::time::Duration;
use std::sync::Arc;

use protocol::Instant;

use crate::{LeaveControl, LeaveMode, OpenError, QueueContext, Volume, VolumeQueue};

/// How long caches may write back: after that what is dirty stays where it is, which is as safe. Less than a server's last flush may take, and than service managers wait.
const WRITE_BACK: Duration = Duration::from_secs(40);
/// How long all of it may take: what is not left in order by then is left as by a crash.
const PATIENCE: Duration = Duration::from_secs(55);

/// Volumes that several cores use, each by queues of its own. The last core that lets go of them is to leave them.
#[derive(Debug, Clone, Default)]
pub struct UsedVolumes(Arc<Vec<Arc<dyn Volume>>>);

impl UsedVolumes {
    /// One core's use; others are its clones.
    pub fn new(volumes: Vec<Arc<dyn Volume>>) -> Self {
        Self(Arc::new(volumes))
    }

    /// The volumes, in order.
    pub fn volumes(&self) -> &[Arc<dyn Volume>] {
        &self.0
    }

    /// Ends a core's use, once its queues have ended. The last one gets the volumes, to leave them; others get none.
    pub fn let_go(self) -> Vec<Arc<dyn Volume>> {
        Arc::into_inner(self.0).unwrap_or_default()
    }
}

struct Left {
    volume: Arc<dyn Volume>,
    queue: Box<dyn VolumeQueue>,
}

impl Left {
    fn leave(&self, how: LeaveMode) {
        if let Some(control) = self.volume.leave_control() {
            control.leave(how);
        }
    }

    fn is_over(&self) -> bool {
        self.volume.leave_control().is_none_or(LeaveControl::has_left)
    }
}

/// Queues of volumes that do something of their own accord, which are there for as long as the volumes are used ([`LeaveControl::attend`]).
#[derive(Default)]
pub struct Attendants(Vec<Left>);

impl Attendants {
    /// Opens a queue for each of `volumes` that needs one and has none, on the calling core, which `context` describes. One that cannot be opened is done without.
    pub fn add(&mut self, volumes: impl IntoIterator<Item = Arc<dyn Volume>>, context: &QueueContext) {
        for volume in volumes {
            let attended = self.0.iter().any(|left| is_same(&left.volume, &volume));
            let queue =
                volume.leave_control().filter(|_| !attended).and_then(|control| control.attend(context));
            if let Some(Ok(queue)) = queue {
                self.0.push(Left { volume, queue });
            }
        }
    }

    /// Lets the volumes go on with what they do.
    pub fn poll(&mut self, now: Instant) {
        let mut nobody = Vec::new();
        self.0.iter_mut().for_each(|left| left.queue.poll(now, &mut nobody));
    }

    /// When to poll though nothing wakes the core.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().filter_map(|left| left.queue.poll_timeout()).min()
    }

    fn take(&mut self, volume: &Arc<dyn Volume>) -> Option<Left> {
        let index = self.0.iter().position(|left| is_same(&left.volume, volume))?;
        Some(self.0.swap_remove(index))
    }
}

impl core::fmt::Debug for Attendants {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Attendants").field(&self.0.len()).finish()
    }
}

fn is_same(one: &Arc<dyn Volume>, other: &Arc<dyn Volume>) -> bool {
    core::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
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
        Self::begin_attended(volumes, &mut Attendants::default(), context)
    }

    /// The same, by the queues that those of the volumes have which are attended.
    pub fn begin_attended(
        volumes: impl IntoIterator<Item = Arc<dyn Volume>>,
        attendants: &mut Attendants,
        context: &QueueContext,
    ) -> Self {
        let (mut left, mut failed) = (Vec::new(), Vec::new());
        for volume in volumes.into_iter().filter(|volume| volume.leave_control().is_some()) {
            if let Some(attended) = attendants.take(&volume) {
                left.push(attended);
                continue;
            }
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
