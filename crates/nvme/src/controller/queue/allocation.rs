//! Get LBA Status on an admin queue: the volume is asked run by run, until the answer is full or long enough was looked.

use alloc::boxed::Box;

use volume::{Allocation, Epoch, Extent, Operation, VolumeId};

use super::ControllerQueue;
use crate::allocation::Ranges;
use crate::controller::allocation::{Asking, Query};
use crate::controller::command::{CommandResult, VolumeRef};
use crate::controller::fabric_transport::FabricTransport;
use crate::controller::slots::Step;
use crate::limits::ALLOCATION_QUERIES;
use crate::sqe::SubmissionQueueEntry;
use crate::status::Status;

impl<T: FabricTransport> ControllerQueue<T> {
    /// Takes a command. The answer's memory is the pool's; without any, the host is to try again.
    pub(super) fn begin_query(&mut self, entry: SubmissionQueueEntry, query: &Query) {
        let volume_ref = match self.judge_query(query.volume) {
            Ok(volume_ref) => volume_ref,
            Err(status) => return self.complete(&entry, CommandResult::of(status), None),
        };
        let Some(mut answer) = self.account.take(query.length) else {
            return self.complete(&entry, CommandResult::of(Status::COMMAND_INTERRUPTED), None);
        };
        answer.fill(0);
        let (left, queries) = (query.extent, ALLOCATION_QUERIES);
        let asking = Asking { volume: query.volume, left, ranges: Ranges::default(), answer, queries };
        let slot = self.slots.begin(entry, Step::Query(Box::new(asking)));
        self.submit(slot, volume_ref, Operation::QueryAllocation { extent: query.extent });
    }

    /// Whether the host may know how a volume is allocated: as if it read it. Says what that was judged by.
    pub(super) fn judge_query(&self, volume: VolumeId) -> Result<VolumeRef, Status> {
        let known = self.volume_states.find(volume);
        let reads = known.zip(self.registrant()).is_none_or(|(state, host)| state.view.access(&host).read);
        if !reads {
            return Err(Status::RESERVATION_CONFLICT.dnr());
        }
        Ok(known.map_or(VolumeRef { volume, epoch: Epoch::default() }, |state| state.current))
    }

    /// A run is known.
    pub(super) fn handle_allocation(&mut self, index: u16, run: Allocation) {
        if self.aborts.is_pending_for(index) {
            return self.finish_aborted(index);
        }
        let Some(slot) = self.slots.get(index) else { return };
        let Step::Query(asking) = &mut slot.step else { return };
        // A run that goes nowhere would be asked for again and again.
        let blocks = run.extent.blocks.clamp(1, asking.left.blocks.max(1));
        let seen = Extent::new(asking.left.start, blocks);
        asking.left =
            Extent::new(seen.start.saturating_add(blocks), asking.left.blocks.saturating_sub(blocks));
        asking.queries = asking.queries.saturating_sub(1);
        let fits = !run.mapped || asking.ranges.add(seen, &mut asking.answer);
        let (volume, left) = (asking.volume, asking.left);
        if !fits || left.blocks == 0 || asking.queries == 0 {
            return self.answer_query(index, fits && left.blocks == 0);
        }
        match self.judge_query(volume) {
            Ok(volume_ref) => {
                self.submit(Some(index), volume_ref, Operation::QueryAllocation { extent: left });
            }
            Err(status) => self.finish(index, CommandResult::of(status), None),
        }
    }

    /// Answers with what is known; `whole` when that is everything.
    fn answer_query(&mut self, index: u16, whole: bool) {
        let Some(slot) = self.slots.get(index) else { return };
        let Step::Query(asking) = core::mem::replace(&mut slot.step, Step::Held) else { return };
        let Asking { ranges, mut answer, .. } = *asking;
        ranges.finish(whole, &mut answer);
        self.finish(index, CommandResult::SUCCESS, Some(answer.freeze().into()));
    }
}
