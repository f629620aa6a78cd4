//! The owner of all fences: reservations and resets, decided on core 0, acknowledged by every core.
//!
//! A fence moves a volume's [`Epoch`](volume::Epoch). From then on a core's queue takes no request that was judged by an older one, and
//! the core acknowledges when the requests that it had taken before have ended. The fence is over when every core has acknowledged it:
//! then nothing older can take effect any more, wherever it waited. Only then does core 0 answer: a change of reservations (SPC-4 §5.13,
//! NVMe Base §8.1.22), and a reset of task sets (RFC 7143 §4.2.3.3).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use host::CoreIndex;
use volume::VolumeId;
use volume::reservation::{Refused, Reservations};

use crate::limits::RESETS;
use crate::message::{Cause, Fence, Inbound, Member, ReserveCall, ResetCall};

/// What the asker is answered once a fence is over.
#[derive(Debug)]
enum Answer {
    Reserved,
    Reset,
}

/// A fence that waits for the cores.
struct Pending {
    from: Member,
    tag: u32,
    answer: Answer,
    /// Acknowledgements that are missing: of each core for each volume.
    missing: usize,
}

/// What the owner wants done.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Tell every core.
    Broadcast(Fence),
    /// Answer the asker.
    Answer(Member, Inbound),
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
            Err(refused) => self.answer(call.from, Inbound::Reserved(call.tag, Err(refused))),
            Ok(change) => {
                let (view, notices, aborted) = (change.view, change.notices.into(), change.aborted.into());
                let number = self.begin(call.from, (call.tag, Answer::Reserved), cores.into());
                let cause = Cause::Reservations { view, notices, aborted };
                self.outcomes.push_back(Outcome::Broadcast(Fence { number, volume: call.volume, cause }));
            }
        }
    }

    /// Refuses a command for a volume that is not served any more.
    pub(crate) fn refuse(&mut self, call: &ReserveCall) {
        self.answer(call.from, Inbound::Reserved(call.tag, Err(Refused::Invalid)));
    }

    /// A volume is gone: so are its reservations.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.volumes.remove(&volume);
    }

    /// Resets volumes' task sets; the answer comes once every one of `cores` has acknowledged.
    pub(crate) fn reset(&mut self, call: ResetCall, cores: CoreIndex) {
        let ResetCall { from, tag, volumes, event } = call;
        if self.resets >= RESETS || volumes.is_empty() {
            return self.answer(from, Inbound::Reset(tag, volumes.is_empty()));
        }
        self.resets += 1;
        let number = self.begin(from, (tag, Answer::Reset), usize::from(cores) * volumes.len());
        for volume in volumes {
            let cause = Cause::Reset(from, event.clone());
            self.outcomes.push_back(Outcome::Broadcast(Fence { number, volume, cause }));
        }
    }

    fn begin(&mut self, from: Member, (tag, answer): (u32, Answer), missing: usize) -> u64 {
        self.last += 1;
        self.pending.insert(self.last, Pending { from, tag, answer, missing });
        self.last
    }

    /// A core has acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.missing -= 1;
        if pending.missing == 0
            && let Some(done) = self.pending.remove(&number)
        {
            let inbound = match done.answer {
                Answer::Reserved => Inbound::Reserved(done.tag, Ok(())),
                Answer::Reset => {
                    self.resets -= 1;
                    Inbound::Reset(done.tag, true)
                }
            };
            self.answer(done.from, inbound);
        }
    }

    /// What is to be done next.
    pub(crate) fn poll(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    fn answer(&mut self, to: Member, inbound: Inbound) {
        self.outcomes.push_back(Outcome::Answer(to, inbound));
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("volumes", &self.volumes.len()).finish_non_exhaustive()
    }
}

/// What a connection that begins later is told of a volume: its epoch and its reservations, and nothing of what they were before.
pub(crate) fn for_newcomers(known: Option<&Fence>, newest: &Fence) -> Fence {
    let view = match (&newest.cause, known.map(|known| &known.cause)) {
        (Cause::Reservations { view, .. }, _) | (_, Some(Cause::Reservations { view, .. })) => {
            Arc::clone(view)
        }
        _ => Arc::default(),
    };
    let cause = Cause::Reservations { view, notices: Arc::new([]), aborted: Arc::new([]) };
    Fence { number: newest.number, volume: newest.volume, cause }
}

#[cfg(test)]
mod tests;
