//! Volumes that are left in order once no core has a queue of them any more: those that were withdrawn, and all others when the server ends.
//!
//! Core 0 does it, while all event loops still run. Whoever hears that a volume is retired may use its parts in another way, so that this is told only then.

use std::sync::Arc;

use protocol::Instant;
use volume::{Attendants, Leaving, OpenError, QueueContext, Volume};

use crate::catalogue::{ControlEvent, ServedVolume};

/// The volumes that are left, or will be.
#[derive(Debug, Default)]
pub(crate) struct LeavingVolumes {
    /// Some core may still have a queue of them.
    withdrawn: Vec<ServedVolume>,
    /// What is told when each has been left.
    leaving: Vec<(Leaving, ControlEvent)>,
    /// All others, when the server ends.
    last: Option<Leaving>,
    failed: Vec<OpenError>,
    /// What volumes do of their own accord while they are served.
    attendants: Attendants,
}

impl LeavingVolumes {
    /// These volumes are served.
    pub(crate) fn attend<'a>(
        &mut self,
        volumes: impl IntoIterator<Item = &'a ServedVolume>,
        context: &QueueContext,
    ) {
        self.attendants.add(volumes.into_iter().map(|served| Arc::clone(&served.volume)), context);
    }

    /// These volumes are not served any more.
    pub(crate) fn withdraw(&mut self, volumes: impl Iterator<Item = ServedVolume>) {
        self.withdrawn.extend(volumes.filter(|served| served.volume.leave_control().is_some()));
    }

    /// What is to be told at once of an event: nothing if a volume has to be left before.
    pub(crate) fn hear(&mut self, event: ControlEvent, context: &QueueContext) -> Option<ControlEvent> {
        let ControlEvent::Retired { id, .. } = &event else { return Some(event) };
        let Some(index) = self.withdrawn.iter().position(|served| served.id == *id) else {
            return Some(event);
        };
        let volume = self.withdrawn.swap_remove(index).volume;
        let leaving = Leaving::begin_attended([volume], &mut self.attendants, context);
        self.failed.extend_from_slice(leaving.failed());
        self.leaving.push((leaving, event));
        None
    }

    /// The server ends, and no core has any queue: leaves `volumes`, and what was withdrawn.
    pub(crate) fn begin_last(
        &mut self,
        volumes: impl Iterator<Item = Arc<dyn Volume>>,
        context: &QueueContext,
    ) {
        let withdrawn = self.withdrawn.drain(..).map(|served| served.volume);
        let leaving = Leaving::begin_attended(volumes.chain(withdrawn), &mut self.attendants, context);
        self.failed.extend_from_slice(leaving.failed());
        self.last = Some(leaving);
    }

    /// Why volumes could not be left in order, since this was asked last.
    pub(crate) fn take_failed(&mut self) -> Vec<OpenError> {
        std::mem::take(&mut self.failed)
    }

    /// Goes on, and tells what is over. True if that is everything, and the server ends.
    pub(crate) fn poll(&mut self, now: Instant, mut tell: impl FnMut(ControlEvent)) -> bool {
        self.attendants.poll(now);
        let mut over = Vec::new();
        self.leaving.retain_mut(|(leaving, event)| {
            let ends = leaving.poll(now);
            over.extend(ends.then(|| event.clone()));
            !ends
        });
        over.into_iter().for_each(&mut tell);
        let last = self.last.as_mut().is_some_and(|last| last.poll(now)) && self.leaving.is_empty();
        if last {
            self.last = None;
        }
        last
    }

    /// When to poll though nothing wakes the core.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let leaving = self.leaving.iter().map(|(leaving, _)| leaving).chain(&self.last);
        leaving.filter_map(Leaving::poll_timeout).chain(self.attendants.poll_timeout()).min()
    }
}
