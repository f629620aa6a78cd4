//! The control side of a mirror.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use buf::MemorySource;
use volume::{
    Changes, Features, Geometry, LeaveControl, LeaveMode, Limits, OpenError, PathState, QueueContext, Volume,
    VolumeQueue,
};

use crate::leaver::leave_all;
use crate::members::LegState;
use crate::queue::MirrorQueue;
use crate::shared::{Departure, Shared};
use crate::status::{LegStatus, Status};

/// A volume that keeps copies on several others.
pub struct Mirror {
    shared: Arc<Shared>,
}

impl Mirror {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The legs that are open, in the order in which they are read.
    fn media(&self) -> Vec<Arc<dyn Volume>> {
        let state = self.shared.lock();
        let legs = state.members.preference.iter().filter_map(|index| state.members.leg(*index));
        legs.filter_map(|leg| leg.medium.as_ref()).map(|medium| Arc::clone(&medium.volume)).collect()
    }

    /// What its legs do now.
    pub fn status(&self) -> Status {
        let shape = &self.shared.shape;
        let state = self.shared.lock();
        let members = &state.members;
        let region = members.layout.region;
        let leg = |(url, leg): (&String, &crate::members::Leg)| LegStatus {
            url: url.clone(),
            state: leg.state,
            left: match leg.state {
                LegState::InSync | LegState::Spare => 0,
                LegState::Resynchronizing => leg.pending.count() * region,
                LegState::Out => members.layout.size.min(state.log.set().count().max(1) * region),
            },
            copied: leg.copied,
            error: leg.error.clone(),
        };
        Status {
            epoch: members.epoch,
            recorded: members.is_recorded(),
            fenced: state.fenced,
            dirty: state.log.set().count() * region,
            size: shape.geometry.bytes(),
            legs: shape.urls.iter().zip(&members.legs).map(leg).collect(),
        }
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mirror").field(&self.status()).finish()
    }
}

impl LeaveControl for Mirror {
    fn leave(&self, how: LeaveMode) {
        let mut state = self.shared.lock();
        state.departure.ask(how);
        let over = !state.departure.is_under_way();
        state.tell_all();
        drop(state);
        if over {
            leave_all(&self.media(), how);
        }
    }

    fn attend(&self, context: &QueueContext) -> Option<Result<Box<dyn VolumeQueue>, OpenError>> {
        Some(Ok(Box::new(MirrorQueue::new(&self.shared, context, true))))
    }

    fn has_left(&self) -> bool {
        let over = matches!(self.shared.lock().departure, Departure::Over(_));
        over && self.media().iter().filter_map(|volume| volume.leave_control()).all(LeaveControl::has_left)
    }
}

impl Volume for Mirror {
    fn geometry(&self) -> Geometry {
        self.shared.shape.geometry
    }

    fn limits(&self) -> Limits {
        self.shared.shape.limits
    }

    fn features(&self) -> Features {
        self.shared.shape.features
    }

    fn changes(&self) -> Changes {
        Changes { path: self.shared.lock().path_changes, ..Changes::default() }
    }

    fn listen(&self, waker: Waker) {
        self.shared.lock().listen(waker);
    }

    fn path(&self) -> PathState {
        let state = self.shared.lock();
        match state.members.missing() {
            _ if state.fenced => PathState::Inaccessible,
            0 => PathState::Optimized,
            missing => PathState::Degraded { missing: wire::saturate(missing) },
        }
    }

    /// What is wrong with each leg that is not in sync, and how far resynchronisation is.
    fn last_error(&self) -> Option<String> {
        let last_error = self.shared.lock().last_error.clone();
        let all: Vec<String> = last_error.into_iter().chain(self.status().errors()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Memory that the legs reach without a copy: what the first one prefers that prefers any.
    fn memory(&self) -> Option<Arc<dyn MemorySource>> {
        self.media().iter().find_map(|volume| volume.memory())
    }

    fn copied(&self) -> Option<u64> {
        self.media().iter().filter_map(|volume| volume.copied()).reduce(u64::saturating_add)
    }

    fn leave_control(&self) -> Option<&dyn LeaveControl> {
        Some(self)
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        Ok(Box::new(MirrorQueue::new(&self.shared, context, false)))
    }
}
