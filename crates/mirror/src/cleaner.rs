//! Clears the bits of regions that have been quiet, on the keeper's queue: after a flush of all legs, and only while all legs are in sync.

use protocol::Instant;
use volume::{Failure, Operation, Outcome};

use crate::dirty_log::Quiet;
use crate::limits::CLEAN_AFTER;
use crate::members::Membership;
use crate::ports::Owner;
use crate::spread::Spread;
use crate::tasks::QueueParts;

/// Regions whose bits are about to be cleared.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    flushing: Option<Flushing>,
    due: Option<Instant>,
    /// All regions are looked at no sooner.
    look_at: Instant,
}

#[derive(Debug)]
struct Flushing {
    regions: Vec<Quiet>,
    memberships: Vec<Membership>,
    spread: Spread,
}

impl Cleaner {
    /// Begins what is due, and ends what is done. True if anything happened.
    pub(crate) fn work(&mut self, with: &mut QueueParts<'_>) -> bool {
        if self.flushing.is_some() {
            return self.end(with);
        }
        let mut state = with.shared.lock();
        self.due = None;
        if !state.is_keeper(with.queue) || state.refusal().is_some() || state.members.missing() > 0 {
            return false;
        }
        if with.now < self.look_at {
            self.due = state.log.is_quiet_soon().then_some(self.look_at);
            return false;
        }
        self.look_at = with.now + CLEAN_AFTER / 5;
        let mut regions = state.log.quiet(with.now);
        regions.retain(|quiet| !state.suspects.contains(quiet.region));
        if regions.is_empty() {
            // Regions that are written now are quiet some time.
            let soon = state.log.is_quiet_soon().then_some(self.look_at);
            self.due = state.log.quiet_at().map(|at| at.max(self.look_at)).or(soon);
            return false;
        }
        let memberships = state.members.all_writable();
        state.members.begin(&memberships);
        drop(state);
        self.flushing =
            Some(Flushing { regions, spread: Spread::new(&memberships), memberships: memberships.clone() });
        for membership in memberships {
            with.ports.send(with.now, membership, Owner::Clean, Operation::Flush);
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
        if let Some(flushing) = &mut self.flushing {
            flushing.spread.answered(with.shared, membership, "a flush", result, with.now);
        }
    }

    fn end(&mut self, with: &mut QueueParts<'_>) -> bool {
        let timeout = with.shared.shape.timeout;
        let Some(Flushing { regions, memberships, spread }) =
            self.flushing.take_if(|flushing| flushing.spread.settle(with.shared, timeout, with.now))
        else {
            return false;
        };
        let mut state = with.shared.lock();
        let all = spread.done().len() == memberships.len()
            && memberships.iter().all(|membership| state.members.counts(*membership));
        if all && state.members.missing() == 0 && state.members.is_recorded() {
            let quiet: Vec<_> =
                regions.into_iter().filter(|quiet| !state.suspects.contains(quiet.region)).collect();
            state.log.clean(&quiet);
        }
        true
    }

    /// True if nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.flushing.is_none()
    }

    pub(crate) fn poll_timeout(&self, timeout: std::time::Duration) -> Option<Instant> {
        let late = self.flushing.as_ref().and_then(|flushing| flushing.spread.deadline(timeout));
        late.or(self.due)
    }
}
