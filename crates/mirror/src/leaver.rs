//! Leaves the mirror in order, on the keeper's queue: the last write is settled and durable, the bits that are not needed any more are cleared, and only then are the legs'
//! reservations given back, so that another host, or this one, opens the mirror without a takeover.
//!
//! What was left behind by a queue that is gone may still take effect. A preemption would abort it, and a release does not: where there is any, the reservation stays,
//! as after a crash. Nothing is written from the moment on at which the first reservation is given back.

use std::sync::{Arc, MutexGuard};

use protocol::Instant;
use volume::{Failure, LeaveMode, Operation, Outcome, Volume, VolumeErrorKind};

use crate::limits::LEAVE;
use crate::members::Membership;
use crate::planted::{Fault, planted};
use crate::ports::Owner;
use crate::releaser::Releaser;
use crate::shared::State;
use crate::spread::Spread;
use crate::tasks::QueueParts;

#[derive(Debug)]
enum Step {
    /// What is under way ends.
    Settling,
    Flushing(Spread),
    /// The record and the dirty log are written.
    Recording,
    /// These legs have not given their reservation back yet.
    Releasing(Vec<(Membership, Releaser)>),
}

/// What the keeper does to leave the mirror.
#[derive(Debug, Default)]
pub(crate) struct Leaver {
    step: Option<Step>,
    /// What is not done by then is left as by a crash.
    due: Option<Instant>,
}

impl Leaver {
    /// Goes on with what is possible. `is_idle` says that nothing of this queue is under way. True if anything happened.
    pub(crate) fn work(&mut self, with: &mut QueueParts<'_>, is_idle: bool) -> bool {
        let shared = with.shared;
        let mut state = shared.lock();
        if !state.departure.is_under_way() || !state.is_keeper(with.queue) {
            return false;
        }
        let due = *self.due.get_or_insert(with.now + LEAVE);
        let early = planted(Fault::EarlyRelease) && !matches!(self.step, Some(Step::Releasing(_)));
        match self.step.take() {
            _ if state.fenced => Self::finish(with, state),
            _ if early => self.release(with, state),
            Some(Step::Releasing(legs)) if legs.is_empty() || due <= with.now => Self::finish(with, state),
            _ if due <= with.now => Self::finish(with, state),
            None => {
                self.step = Some(Step::Settling);
                true
            }
            Some(Step::Settling) if is_idle && is_settled(&state) => {
                let memberships = state.members.all_writable();
                state.members.begin(&memberships);
                drop(state);
                self.step = Some(Step::Flushing(Spread::new(&memberships)));
                for membership in memberships {
                    with.ports.send(with.now, membership, Owner::Leave, Operation::Flush);
                }
                true
            }
            Some(Step::Flushing(mut spread)) => {
                drop(state);
                if !spread.settle(shared, shared.shape.timeout, with.now) {
                    self.step = Some(Step::Flushing(spread));
                    return false;
                }
                let mut state = shared.lock();
                if spread.failure().is_none() && state.members.are_well() && state.suspects.count() == 0 {
                    state.log.clean_all();
                }
                self.step = Some(Step::Recording);
                true
            }
            Some(Step::Recording) if is_idle && is_settled(&state) => self.release(with, state),
            step => {
                self.step = step;
                false
            }
        }
    }

    /// Begins to give back each reservation that no request needs any more.
    fn release(&mut self, with: &mut QueueParts<'_>, mut state: MutexGuard<'_, State>) -> bool {
        state.departure.release();
        let early = planted(Fault::EarlyRelease);
        let mut legs = Vec::new();
        if early || state.suspects_rest_until <= with.now {
            for (index, leg) in state.members.legs.iter().enumerate() {
                let rests = leg.outstanding > 0 || leg.rests_until > with.now;
                if leg.reserved && leg.medium.is_some() && (early || !rests) {
                    let membership = Membership { leg: index, tenure: leg.tenure };
                    legs.push((membership, Releaser::new(with.shared.shape.key)));
                }
            }
        }
        let asked: Vec<_> =
            legs.iter().map(|(membership, releaser)| (*membership, releaser.operation())).collect();
        for (membership, _) in &asked {
            state.members.begin(&[*membership]);
        }
        drop(state);
        self.step = Some(Step::Releasing(legs));
        for (membership, operation) in asked {
            with.ports.send(with.now, membership, Owner::Leave, operation);
        }
        true
    }

    /// A leg has answered.
    pub(crate) fn answered(
        &mut self,
        with: &mut QueueParts<'_>,
        membership: Membership,
        result: Result<Outcome, Failure>,
    ) {
        match &mut self.step {
            Some(Step::Flushing(spread)) => {
                spread.answered(with.shared, membership, "a flush", result, with.now);
            }
            Some(Step::Releasing(legs)) => {
                let Some(index) = legs.iter().position(|(leg, _)| leg.leg == membership.leg) else { return };
                let next = legs
                    .get_mut(index)
                    .and_then(|(_, releaser)| releaser.answered(result.map_err(VolumeErrorKind::from)));
                let Some(operation) = next else {
                    legs.swap_remove(index);
                    return;
                };
                with.shared.lock().members.begin(&[membership]);
                with.ports.send(with.now, membership, Owner::Leave, operation);
            }
            _ => {}
        }
    }

    /// Nothing more is done here: what the legs are made of is left in order too.
    fn finish(with: &QueueParts<'_>, mut state: MutexGuard<'_, State>) -> bool {
        let how = state.departure.finish();
        let media = state.members.legs.iter().filter_map(|leg| leg.medium.as_ref());
        let volumes: Vec<Arc<dyn Volume>> = media.map(|medium| Arc::clone(&medium.volume)).collect();
        state.tell_all();
        drop(state);
        leave_all(&volumes, how);
        with.shared.lock().path_changed();
        true
    }

    /// True if nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.step.is_none()
    }

    pub(crate) fn poll_timeout(&self, timeout: std::time::Duration) -> Option<Instant> {
        let late = match &self.step {
            Some(Step::Flushing(spread)) => spread.deadline(timeout),
            _ => None,
        };
        [late, self.due.filter(|_| self.step.is_some())].into_iter().flatten().min()
    }
}

/// Has the legs' volumes be left, as far as that needs anything.
pub(crate) fn leave_all(volumes: &[Arc<dyn Volume>], how: LeaveMode) {
    for control in volumes.iter().filter_map(|volume| volume.leave_control()) {
        control.leave(how);
    }
}

/// True if no other queue is there, and the legs have the record and the bits.
fn is_settled(state: &State) -> bool {
    state.has_one_queue() && state.members.is_recorded() && !state.log.is_stale()
}
