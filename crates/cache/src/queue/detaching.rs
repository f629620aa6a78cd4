//! Detaching: what is dirty is written back, and the map says that the cache was left in order.

use buf::Buf;
use volume::{Durability, Extent, LeaveMode, Operation, Outcome, VolumeErrorKind};

use super::CacheQueue;
use crate::job::{DetachStage, Job, JobId, Work};
use crate::limits::RETRY;
use crate::plan::{Piece, Side};
use crate::state::Detach;

impl CacheQueue {
    pub(super) fn begin_detach(&mut self) {
        self.detaches = true;
        let mut job = Job::new(None, Work::Detach(DetachStage::Settle));
        {
            let mut state = self.shared.state.lock();
            (0..state.layout.map_blocks).for_each(|block| state.commits.change(block));
            (job.need, job.mark) = (Some(state.commits.need()), Some(state.capacity_done));
            job.flush_failures = state.flush_failures;
        }
        let id = JobId(self.next_id());
        self.settle(id, job);
    }

    pub(super) fn detach_settled(&mut self, id: JobId, mut job: Box<Job>, failure: Option<VolumeErrorKind>) {
        let mut state = self.shared.state.lock();
        if failure.is_some() || !state.is_working() {
            self.detaches = false;
            state.write_back.not_before = Some(self.now + RETRY);
            drop(state);
            return self.end(job, Ok(Outcome::Done));
        }
        state.superblock.sequence += 1;
        state.superblock.clean = true;
        state.superblock.may_be_dirty = state.directory.dirty_pages() > 0;
        let (superblock, layout) = (state.superblock.clone(), state.layout);
        drop(state);
        job.work = Work::Detach(DetachStage::Superblock);
        let second = !superblock.sequence.is_multiple_of(2);
        let extent = Extent::new(layout.superblock(second), 1);
        let bytes = superblock.encode(wire::index(u64::from(layout.block)));
        let piece = Piece { side: Side::Fast, extent, offset: 0, bytes: bytes.len() };
        let data = Buf::from(bytes).freeze().into();
        let operation = Operation::Write { extent, data, durability: Durability::Durable };
        self.issue(id, job, vec![piece], vec![operation]);
    }

    pub(super) fn detach_moved(&mut self, id: JobId, mut job: Box<Job>, ended: DetachStage) {
        if job.fast_failure.is_none() && ended == DetachStage::Superblock {
            job.work = Work::Detach(DetachStage::Fence);
            let piece = Piece { side: Side::Fast, extent: Extent::new(0, 0), offset: 0, bytes: 0 };
            return self.issue(id, job, vec![piece], vec![Operation::Flush]);
        }
        if job.fast_failure.is_none() {
            let mut state = self.shared.state.lock();
            let how = match state.detach {
                Detach::Wanted { keeps_dirty: true } => LeaveMode::Dirty,
                _ => LeaveMode::Clean,
            };
            state.detach = Detach::Below;
            state.wake_queues();
            drop(state);
            self.shared.leave_below(how);
        }
        self.detaches = false;
        self.end(job, Ok(Outcome::Done));
    }
}
