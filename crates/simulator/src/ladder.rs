//! One block that is climbed by compare-and-write: each step names the one before, so no step may be taken twice.

use buf::{Buf, BufList};
use protocol::Instant;
use volume::{
    ComparedWrite, Completion, Durability, Extent, Operation, Outcome, Request, Tag, VolumeErrorKind,
    VolumeQueue,
};

use crate::failure::TrialFailure;

/// Marks the ladder's requests among others of the queue.
const MARK: u64 = 1 << 63;

/// A block that only this ladder writes, one compare-and-write at a time.
pub(crate) struct Ladder {
    block: u64,
    size: usize,
    /// What the block may hold: one step, unless the end of a request is not known.
    possible: Vec<u64>,
    last: u64,
    /// The request under way: the steps from which and to which.
    climbing: Option<(u64, u64)>,
}

impl Ladder {
    /// The ladder of a block of `size` bytes that holds zeros.
    pub(crate) fn new(block: usize, size: usize) -> Self {
        Self { block: block as u64, size, possible: vec![0], last: 0, climbing: None }
    }

    fn content(&self, step: u64) -> BufList {
        let mut buf = Buf::zeroed(self.size);
        for word in buf.chunks_mut(8) {
            word.copy_from_slice(&step.to_le_bytes()[..word.len()]);
        }
        BufList::from(buf.freeze())
    }

    /// True while a request is under way.
    pub(crate) fn is_climbing(&self) -> bool {
        self.climbing.is_some()
    }

    /// Takes the next step, unless one is being taken.
    pub(crate) fn climb(&mut self, now: Instant, queue: &mut dyn VolumeQueue) {
        if self.climbing.is_some() {
            return;
        }
        let Some(&from) = self.possible.first() else { return };
        let to = self.last + 1;
        let operation = Operation::CompareAndWrite {
            extent: Extent::new(self.block, 1),
            data: Box::new(ComparedWrite { compare: self.content(from), write: self.content(to) }),
            durability: Durability::Durable,
        };
        if queue.submit(now, Request { tag: Tag(MARK | to), operation }).is_ok() {
            (self.last, self.climbing) = (to, Some((from, to)));
        }
    }

    /// Takes the completion if it is the ladder's, else gives it back.
    pub(crate) fn take(&mut self, completion: Completion) -> Result<Option<Completion>, TrialFailure> {
        if completion.tag.0 & MARK == 0 {
            return Ok(Some(completion));
        }
        let Some((from, to)) = self.climbing.take_if(|(_, to)| completion.tag.0 == MARK | *to) else {
            return Err(TrialFailure::Broken(format!(
                "the compare-and-write {:?} has ended twice",
                completion.tag
            )));
        };
        match completion.outcome() {
            Ok(Outcome::Done) => self.possible = vec![to],
            Ok(other) => {
                return Err(TrialFailure::Broken(format!("a compare-and-write was answered with {other:?}")));
            }
            Err(VolumeErrorKind::Miscompare { .. }) if self.possible.len() > 1 => {
                self.possible.retain(|step| *step != from);
            }
            Err(VolumeErrorKind::Miscompare { .. }) => {
                return Err(TrialFailure::Broken(format!(
                    "step {from} is there, and yet the compare-and-write to {to} does not find it"
                )));
            }
            Err(_) => self.possible.push(to),
        }
        Ok(None)
    }
}
