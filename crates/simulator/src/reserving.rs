//! A client that takes a volume for itself before it uses it: all its queues register, and one reserves. What it has taken holds for as long as the volume is served,
//! wherever it is shown.

use std::collections::VecDeque;

use protocol::Instant;
use volume::reservation::{Command, ReservationType};
use volume::{Completion, Operation, Outcome, Request, Tag, VolumeQueue};

use crate::failure::TrialFailure;

/// The key of every registration.
const KEY: u64 = 7;
/// Only those who are registered write; whoever is there reads.
const KIND: ReservationType = ReservationType::WriteExclusiveRegistrants;

/// What is asked of a queue.
#[derive(Debug, Clone, Copy)]
enum Step {
    Register,
    Reserve,
    /// The reservation is there: others may have it from before.
    Look,
}

/// Queues of one volume on their way to its reservation.
pub(crate) struct Reserving {
    queues: Vec<Box<dyn VolumeQueue>>,
    /// What is left to do, and by which queue.
    left: VecDeque<(usize, Step)>,
    is_asked: bool,
}

impl Reserving {
    /// To take the volume.
    pub(crate) fn to_take(queues: Vec<Box<dyn VolumeQueue>>) -> Self {
        Self::ending_with(Step::Reserve, queues)
    }

    /// To find what was taken, by registrants that are new.
    pub(crate) fn to_find(queues: Vec<Box<dyn VolumeQueue>>) -> Self {
        Self::ending_with(Step::Look, queues)
    }

    fn ending_with(last: Step, queues: Vec<Box<dyn VolumeQueue>>) -> Self {
        let mut left: VecDeque<_> = (0..queues.len()).map(|queue| (queue, Step::Register)).collect();
        left.push_back((0, last));
        Self { queues, left, is_asked: false }
    }

    /// Goes on; the queues once the volume is taken. The error says what is not as it should be.
    pub(crate) fn poll(&mut self, now: Instant) -> Result<Option<Vec<Box<dyn VolumeQueue>>>, TrialFailure> {
        let Some((queue, step)) = self.left.front().copied() else {
            return Ok(Some(std::mem::take(&mut self.queues)));
        };
        let Some(queue) = self.queues.get_mut(queue) else { return Ok(None) };
        if !self.is_asked {
            let operation = match step {
                Step::Register => {
                    Operation::Reserve(Command::Register { key: None, new_key: KEY, persist: None })
                }
                Step::Reserve => Operation::Reserve(Command::Reserve { key: KEY, kind: KIND }),
                Step::Look => Operation::ReadReservations,
            };
            self.is_asked = queue.submit(now, Request { tag: Tag(0), operation }).is_ok();
        }
        let mut done = Vec::new();
        queue.poll(now, &mut done);
        if let Some(Completion { result, .. }) = done.pop() {
            let outcome = result.map_err(|failure| {
                TrialFailure::Broken(format!("{step:?} of a reservation fails: {failure}"))
            })?;
            if let Outcome::Reservations(view) = outcome
                && view.reservation.as_ref().map(|(kind, _)| *kind) != Some(KIND)
            {
                return Err(TrialFailure::Broken(format!("its reservation is lost: {view:?}")));
            }
            self.left.pop_front();
            self.is_asked = false;
        }
        Ok(None)
    }
}
