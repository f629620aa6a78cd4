//! Get LBA Status at the controller: what is asked, and how far the answer is.

use buf::{Buf, SharedBuf};
use volume::{Allocation, Extent, Features, VolumeId};

use super::subsystem::Subsystem;
use crate::allocation::{CompletionCondition, GetLbaStatus, Ranges, TRACKED_ALLOCATED};
use crate::limits::{ADMIN_DATA, ALLOCATION_QUERIES};
use crate::sgl::Capsule;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;
use crate::width::from_wide;

/// What a command asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    pub(crate) volume: VolumeId,
    pub(crate) extent: Extent,
    /// Bytes of the answer.
    pub(crate) length: usize,
}

impl Query {
    /// Decides about a Get LBA Status to a controller of the subsystem; discovery has none.
    pub(super) fn plan(
        subsystem: Option<&Subsystem>,
        entry: &SubmissionQueueEntry,
        capsule: Capsule,
    ) -> Result<Self, Status> {
        let subsystem = subsystem.filter(|subsystem| subsystem.tells_allocation());
        let subsystem = subsystem.ok_or(Status::INVALID_OPCODE.dnr())?;
        let found = subsystem.namespaces.iter().find(|namespace| namespace.nsid == entry.nsid.get());
        let namespace = found.ok_or(Status::INVALID_NAMESPACE.dnr())?;
        let command = GetLbaStatus::decode(entry);
        let pointer = entry.data_pointer(capsule)?;
        let length = from_wide(command.length);
        let tracked = namespace.features.contains(Features::ALLOCATION);
        if command.action != TRACKED_ALLOCATED || !tracked || length > ADMIN_DATA || capsule.data != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if pointer.length() != length {
            return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        let end = namespace.geometry.blocks;
        let rest =
            end.checked_sub(command.start).filter(|rest| *rest > 0).ok_or(Status::LBA_OUT_OF_RANGE.dnr())?;
        let extent = Extent::new(command.start, command.blocks.map_or(rest, u64::from));
        namespace.geometry.check(extent).ok_or(Status::LBA_OUT_OF_RANGE.dnr())?;
        Ok(Self { volume: namespace.volume, extent, length })
    }
}

/// A command whose answer is being found out: the volume is asked run by run, until the answer is full or long enough was looked.
#[derive(Debug)]
pub(crate) struct QueryProgress {
    volume: VolumeId,
    /// What was not looked at yet.
    left: Extent,
    ranges: Ranges,
    answer: Buf,
    /// Runs that may still be looked at.
    queries: usize,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextQuery {
    /// The volume is asked about this.
    Ask(Extent),
    /// The command is answered.
    Answer(CompletionCondition),
}

impl QueryProgress {
    /// Nothing is known yet, of an answer in this memory.
    pub(super) fn new(query: &Query, mut answer: Buf) -> Self {
        answer.fill(0);
        let Query { volume, extent: left, .. } = *query;
        Self { volume, left, ranges: Ranges::default(), answer, queries: ALLOCATION_QUERIES }
    }

    /// Whom is asked.
    pub(super) const fn volume(&self) -> VolumeId {
        self.volume
    }

    /// The volume has told of a run.
    pub(super) fn on_run(&mut self, run: Allocation) -> NextQuery {
        // A run that goes nowhere would be asked for again and again.
        let blocks = run.extent.blocks.clamp(1, self.left.blocks.max(1));
        let seen = Extent::new(self.left.start, blocks);
        self.left = Extent::new(seen.start.saturating_add(blocks), self.left.blocks.saturating_sub(blocks));
        self.queries = self.queries.saturating_sub(1);
        let fits = !run.mapped || self.ranges.add(seen, &mut self.answer);
        if fits && self.left.blocks == 0 {
            NextQuery::Answer(CompletionCondition::Complete)
        } else if !fits || self.queries == 0 {
            NextQuery::Answer(CompletionCondition::Incomplete)
        } else {
            NextQuery::Ask(self.left)
        }
    }

    /// The answer, with what is known.
    pub(super) fn answer(self, condition: CompletionCondition) -> SharedBuf {
        let Self { ranges, mut answer, .. } = self;
        ranges.finish(condition, &mut answer);
        answer.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query about 10 blocks, with room for so many ranges in the answer.
    fn query(ranges: usize) -> QueryProgress {
        let length = 8 + 16 * ranges;
        let query = Query { volume: VolumeId::new(0, 0), extent: Extent::new(100, 10), length };
        QueryProgress::new(&query, Buf::zeroed(length))
    }

    fn run(blocks: u64, mapped: bool) -> Allocation {
        Allocation { extent: Extent::new(0, blocks), mapped }
    }

    #[test]
    fn runs_follow_each_other_to_the_end_or_until_the_answer_is_full() {
        let mut whole = query(2);
        assert_eq!(whole.on_run(run(4, true)), NextQuery::Ask(Extent::new(104, 6)));
        assert_eq!(whole.on_run(run(0, false)), NextQuery::Ask(Extent::new(105, 5)), "it goes on");
        assert_eq!(whole.on_run(run(50, true)), NextQuery::Answer(CompletionCondition::Complete));
        let mut full = query(1);
        full.on_run(run(1, true));
        full.on_run(run(1, false));
        assert_eq!(
            full.on_run(run(1, true)),
            NextQuery::Ask(Extent::new(103, 7)),
            "the last range is still open"
        );
        full.on_run(run(1, false));
        assert_eq!(full.on_run(run(1, true)), NextQuery::Answer(CompletionCondition::Incomplete));
    }

    #[test]
    fn looking_ends_after_so_many_runs() {
        let mut long = query(1);
        long.left = Extent::new(0, 1 << 40);
        let asked =
            (0..ALLOCATION_QUERIES).find(|_| matches!(long.on_run(run(1, false)), NextQuery::Answer(_)));
        assert_eq!(asked, Some(ALLOCATION_QUERIES - 1));
    }
}
