//! The owner of all reservations: one truth per volume, changed on core 0, acknowledged by every core.
//!
//! A change is answered only after every core has told its connections of it *and* has seen the end of all
//! requests that were under way on that volume before it did (DESIGN: reservations). So when a fencing
//! host gets its answer, no older write of a fenced one can still land.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use host::CoreIndex;
use volume::VolumeId;
use volume::reservation::{Refused, Reservations, View};

use crate::message::{Fence, Inbound, Member, ReserveCall};

/// A change that waits for the cores.
struct Pending {
    from: Member,
    tag: u32,
    view: Arc<View>,
    missing: CoreIndex,
}

/// What the owner wants done.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Tell every core.
    Broadcast(Fence),
    /// Answer the asker.
    Answer(Member, Inbound),
}

/// The reservations of all volumes.
#[derive(Default)]
pub(crate) struct Owner {
    volumes: HashMap<VolumeId, Reservations>,
    pending: HashMap<u64, Pending>,
    last: u64,
    outcomes: VecDeque<Outcome>,
}

impl Owner {
    /// Applies a command; the answer comes once every one of `cores` has acknowledged.
    pub(crate) fn apply(&mut self, call: &ReserveCall, cores: CoreIndex) {
        let state = self.volumes.entry(call.volume).or_default();
        match state.apply(&call.registrant, &call.command) {
            Err(refused) => self.answer(call.from, call.tag, Err(refused)),
            Ok(change) => {
                self.last += 1;
                let pending = Pending {
                    from: call.from,
                    tag: call.tag,
                    view: Arc::clone(&change.view),
                    missing: cores,
                };
                self.pending.insert(self.last, pending);
                self.outcomes.push_back(Outcome::Broadcast(Fence {
                    number: self.last,
                    volume: call.volume,
                    view: change.view,
                    notices: change.notices.into(),
                    aborted: change.aborted.into(),
                }));
            }
        }
    }

    /// A core has acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.missing -= 1;
        if pending.missing == 0
            && let Some(done) = self.pending.remove(&number)
        {
            self.answer(done.from, done.tag, Ok(done.view));
        }
    }

    /// What is to be done next.
    pub(crate) fn poll(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn answer(&mut self, to: Member, tag: u32, result: Result<Arc<View>, Refused>) {
        self.outcomes.push_back(Outcome::Answer(to, Inbound::Reserved(tag, result)));
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("volumes", &self.volumes.len()).finish_non_exhaustive()
    }
}
