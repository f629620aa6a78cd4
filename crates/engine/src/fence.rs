//! The owner of all fences: reservations and resets, decided on core 0, acknowledged by every core.
//!
//! A fence moves the [`Epoch`](volume::Epoch) of what is served. From then on a core's queue takes no request that was judged by an older one, and
//! the core acknowledges when the requests that it had taken before have ended. The fence is over when every core has acknowledged it:
//! then nothing older can take effect any more, wherever it waited. Only then does core 0 answer: a change of reservations (SPC-4 §5.13,
//! NVMe Base §8.1.22), and a reset of task sets (RFC 7143 §4.2.3.3).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use host::CoreIndex;
use iscsi::target::ResetResult;
use volume::VolumeId;
use volume::reservation::{CommandError, Reservations};

use crate::limits::RESETS;
use crate::message::{Answer, Cause, Fence, Member, ReserveCall, ResetCall};
use crate::served_id::ServedId;

/// What the asker of a fence waits for.
#[derive(Debug)]
enum Awaited {
    Reservation,
    Reset,
}

/// A fence that waits for the cores.
struct Pending {
    from: Member,
    tag: u32,
    awaited: Awaited,
    /// Acknowledgements that are missing: of each core for everything concerned.
    missing: usize,
}

/// What the owner wants done.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Tell every core.
    Broadcast(Fence),
    /// Answer the asker.
    Answer(Member, Answer),
}

/// The reservations of all volumes, and the fences under way.
#[derive(Default)]
pub(crate) struct Owner {
    volumes: HashMap<VolumeId, Reservations>,
    pending: HashMap<u64, Pending>,
    resets: usize,
    last: u64,
    outcomes: VecDeque<Outcome>,
}

impl Owner {
    /// Applies a command; the answer comes once every one of `cores` has acknowledged.
    pub(crate) fn apply(&mut self, call: &ReserveCall, cores: CoreIndex) {
        let state = self.volumes.entry(call.volume).or_default();
        match state.apply(&call.registrant, &call.command) {
            Err(refused) => self.answer(call.from, Answer::Reserved(call.tag, Err(refused))),
            Ok(change) => {
                let (view, notices, aborted) = (change.view, change.notices.into(), change.aborted.into());
                let (from, tag) = (call.from, call.tag);
                let number =
                    self.begin(Pending { from, tag, awaited: Awaited::Reservation, missing: cores.into() });
                let cause = Cause::Reservations { view, notices, aborted };
                self.outcomes.push_back(Outcome::Broadcast(Fence { number, served: call.volume, cause }));
            }
        }
    }

    /// Refuses a command for a volume that is not served any more.
    pub(crate) fn refuse(&mut self, call: &ReserveCall) {
        self.answer(call.from, Answer::Reserved(call.tag, Err(CommandError::Invalid)));
    }

    /// Something is not served any more: if it was a volume, its reservations are gone.
    pub(crate) fn forget(&mut self, served: ServedId) {
        self.volumes.remove(&served);
    }

    /// Begins a fence that somebody asks for, such as a reset of volumes' task sets; the answer comes once every one of `cores` has acknowledged.
    pub(crate) fn reset(&mut self, call: ResetCall, cores: CoreIndex) {
        let ResetCall { from, tag, served, cause } = call;
        if self.resets >= RESETS || served.is_empty() {
            let result = if served.is_empty() { ResetResult::Done } else { ResetResult::Rejected };
            return self.answer(from, Answer::Reset(tag, result));
        }
        self.resets += 1;
        let missing = usize::from(cores) * served.len();
        let number = self.begin(Pending { from, tag, awaited: Awaited::Reset, missing });
        for served in served {
            self.outcomes.push_back(Outcome::Broadcast(Fence { number, served, cause: cause.clone() }));
        }
    }

    fn begin(&mut self, pending: Pending) -> u64 {
        self.last += 1;
        self.pending.insert(self.last, pending);
        self.last
    }

    /// A core has acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.missing -= 1;
        if pending.missing == 0
            && let Some(done) = self.pending.remove(&number)
        {
            let answer = match done.awaited {
                Awaited::Reservation => Answer::Reserved(done.tag, Ok(())),
                Awaited::Reset => {
                    self.resets -= 1;
                    Answer::Reset(done.tag, ResetResult::Done)
                }
            };
            self.answer(done.from, answer);
        }
    }

    /// What is to be done next.
    pub(crate) fn poll(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn answer(&mut self, to: Member, answer: Answer) {
        self.outcomes.push_back(Outcome::Answer(to, answer));
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("volumes", &self.volumes.len()).finish_non_exhaustive()
    }
}

/// What a connection that begins later is told of what is served: its epoch and its reservations, and nothing of what they were before.
pub(crate) fn for_newcomers(known: Option<&Fence>, newest: &Fence) -> Fence {
    let view = match (&newest.cause, known.map(|known| &known.cause)) {
        (Cause::Reservations { view, .. }, _) | (_, Some(Cause::Reservations { view, .. })) => {
            Arc::clone(view)
        }
        _ => Arc::default(),
    };
    let cause = Cause::Reservations { view, notices: Arc::new([]), aborted: Arc::new([]) };
    Fence { number: newest.number, served: newest.served, cause }
}

#[cfg(test)]
mod tests;
