//! Writes parts of the dirty log, on whichever queue first sees that one has changed.

use protocol::Instant;
use volume::{Failure, Outcome, VolumeErrorKind};

use crate::bitmap;
use crate::dirty_log::PartWrite;
use crate::limits::{PROBE, SLOTS};
use crate::members::{LegState, Membership};
use crate::ports::Owner;
use crate::recorder::write_unit;
use crate::spread::Spread;
use crate::tasks::QueueParts;

/// A part that this queue is writing.
#[derive(Debug, Default)]
pub(crate) struct LogWriter {
    writing: Option<Writing>,
    due: Option<Instant>,
}

#[derive(Debug)]
struct Writing {
    part: u64,
    sequence: u64,
    spread: Spread,
}

/// Where a part lies, in blocks after the first of a leg's own.
pub(crate) fn unit_of(part: u64, slot: usize) -> u64 {
    let slots = wire::widen(SLOTS);
    slots + part * slots + wire::widen(slot)
}

impl LogWriter {
    /// Begins what is due, and ends what is done. True if anything happened.
    pub(crate) fn work(&mut self, with: &mut QueueParts<'_>) -> bool {
        if self.writing.is_some() {
            return self.end(with);
        }
        let mut state = with.shared.lock();
        if !state.departure.may_write() {
            return false;
        }
        let PartWrite { part, slot, sequence } = match state.log.claim(with.queue, with.now) {
            Ok(claimed) => claimed,
            Err(due) => {
                self.due = due;
                return false;
            }
        };
        self.due = None;
        let bytes = bitmap::encode(&state.members.layout.uuid, part, sequence, state.log.set());
        let memberships = state.members.all_writable();
        state.members.begin(&memberships);
        drop(state);
        self.writing = Some(Writing { part, sequence, spread: Spread::new(&memberships) });
        for membership in memberships {
            write_unit(with, membership, Owner::Log, unit_of(part, slot), &bytes);
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
        if let Some(writing) = &mut self.writing {
            writing.spread.answered(with.shared, membership, "writing the dirty log", result, with.now);
        }
    }

    fn end(&mut self, with: &mut QueueParts<'_>) -> bool {
        let timeout = with.shared.shape.timeout;
        let Some(Writing { part, sequence, spread }) =
            self.writing.take_if(|writing| writing.spread.settle(with.shared, timeout, with.now))
        else {
            return false;
        };
        let mut state = with.shared.lock();
        for membership in spread.done() {
            if let Some(leg) = state.members.legs.get_mut(membership.leg) {
                leg.acknowledged.log = leg.acknowledged.log.max(sequence);
            }
        }
        let has = |leg: usize| {
            spread.done().iter().any(|membership| membership.leg == leg && state.members.counts(*membership))
        };
        let takes = |leg: &usize| state.members.leg(*leg).is_some_and(|leg| leg.state == LegState::InSync);
        let everywhere = (0..state.members.legs.len()).filter(takes).all(has);
        if everywhere && spread.failure().is_none() {
            state.log.written(part);
        } else {
            state.log.not_written(part, with.now + PROBE);
            state.log_failures += 1;
            state.log_error = Some(spread.failure().unwrap_or(VolumeErrorKind::Unreachable));
        }
        state.tell_all();
        true
    }

    /// True if nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_none()
    }

    pub(crate) fn poll_timeout(&self, timeout: std::time::Duration) -> Option<Instant> {
        let late = self.writing.as_ref().and_then(|writing| writing.spread.deadline(timeout));
        late.or(self.due)
    }
}
