//! One request that goes to several legs at once, and is done when every leg that still counts has done it.

use std::time::Duration;

use protocol::Instant;
use volume::{Failure, Outcome, VolumeErrorKind};

use crate::members::{Members, Membership};
use crate::shared::{Failed, Shared};

/// The legs that have it to do, and those that have done it.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    pending: Vec<Membership>,
    done: Vec<Membership>,
    first: Option<Instant>,
    failure: Option<VolumeErrorKind>,
}

impl Spread {
    pub(crate) fn new(memberships: &[Membership]) -> Self {
        Self { pending: memberships.to_vec(), ..Self::default() }
    }

    /// A leg has answered.
    #[expect(clippy::needless_pass_by_value, reason = "the answer is used up")]
    pub(crate) fn answered(
        &mut self,
        shared: &Shared,
        membership: Membership,
        what: &str,
        result: Result<Outcome, Failure>,
        now: Instant,
    ) {
        let Some(index) = self.pending.iter().position(|pending| *pending == membership) else { return };
        self.pending.swap_remove(index);
        match result {
            Ok(_) => {
                self.done.push(membership);
                self.first.get_or_insert(now);
            }
            Err(Failure { kind: VolumeErrorKind::ReservationConflict, .. }) => shared.lock().fence(),
            Err(Failure { kind, .. }) => {
                if shared.lock().fail(membership, format!("{what} failed: {kind}"), now) == Failed::Request {
                    self.failure = Some(kind);
                }
            }
        }
    }

    /// Forgets legs that are out by now, and puts those out that hold the others up. True once nothing is waited for.
    pub(crate) fn settle(&mut self, shared: &Shared, timeout: Duration, now: Instant) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        let mut state = shared.lock();
        if self.deadline(timeout).is_some_and(|deadline| deadline <= now) {
            for membership in self.pending.clone() {
                if state.members.counts(membership) {
                    state.fail(membership, late(timeout), now);
                }
            }
            // The last leg stays, and is looked at again only after as long.
            self.first = Some(now);
        }
        self.forget(&state.members);
        self.pending.is_empty()
    }

    fn forget(&mut self, members: &Members) {
        self.pending.retain(|membership| members.counts(*membership));
    }

    /// When legs that have not answered are put out.
    pub(crate) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.first.filter(|_| !self.pending.is_empty()).map(|first| first + timeout)
    }

    /// The legs that have done it.
    pub(crate) fn done(&self) -> &[Membership] {
        &self.done
    }

    /// Why the last leg failed, if it did.
    pub(crate) fn failure(&self) -> Option<VolumeErrorKind> {
        self.failure
    }
}

/// What is wrong with a leg that is late.
pub(crate) fn late(timeout: Duration) -> String {
    format!("it had not answered {timeout:?} after another leg")
}
