//! Commits of the map: a flush of the fast volume, the map's blocks, and another flush.

use buf::Buf;
use volume::{Durability, Extent, Operation};

use super::CacheQueue;
use crate::commit::Need;
use crate::directory::SlotId;
use crate::job::{Commit, CommitStage, Job, JobId, Work};
use crate::map_block;
use crate::map_block::Place;
use crate::plan::{Piece, Side};

impl CacheQueue {
    pub(super) fn begin_commit(&mut self, need: Need) {
        let mut state = self.shared.state.lock();
        let Some(batch) = state.commits.begin(need) else { return };
        let (layout, cache, sequence) = (state.layout, state.superblock.cache, state.commits.begun());
        let (mut says, mut blocks) = (Vec::new(), Vec::new());
        for (_, index) in &batch.blocks {
            let slots = layout.slots_of(*index);
            let entries: Vec<_> = slots.clone().map(|slot| state.directory.entry(SlotId(slot))).collect();
            for (slot, entry) in slots.zip(&entries) {
                let slot = SlotId(slot);
                state.directory.add_on_media(slot, entry.dirty);
                says.push((slot, entry.dirty));
            }
            let place = Place { cache, index: *index };
            let size = wire::index(u64::from(layout.block));
            blocks.push((
                layout.map_block(*index),
                map_block::encode(place, sequence, entries.into_iter(), size),
            ));
        }
        #[cfg(test)]
        let map_first = state.planted == crate::planted::Planted::MapBeforeData;
        drop(state);
        self.cleaned = 0;
        let commit = Commit { batch, says, blocks, stage: CommitStage::Data };
        let job = Job::new(None, Work::Commit(Box::new(commit)));
        let id = JobId(self.next_id());
        #[cfg(test)]
        if map_first {
            return self.commit_map(id, job);
        }
        self.commit_flush(id, job, CommitStage::Data);
    }

    fn commit_flush(&mut self, id: JobId, mut job: Box<Job>, next: CommitStage) {
        if let Work::Commit(commit) = &mut job.work {
            commit.stage = next;
        }
        let piece = Piece { side: Side::Fast, extent: Extent::new(0, 0), offset: 0, bytes: 0 };
        self.issue(id, job, vec![piece], vec![Operation::Flush]);
    }

    /// Writes the map blocks. One alone is written durably, several are flushed together.
    fn commit_map(&mut self, id: JobId, mut job: Box<Job>) {
        let Work::Commit(commit) = &mut job.work else { return };
        commit.stage = CommitStage::Map;
        let blocks = core::mem::take(&mut commit.blocks);
        let durability = if blocks.len() == 1 { Durability::Durable } else { Durability::Cached };
        let (mut pieces, mut operations) = (Vec::new(), Vec::new());
        for (start, bytes) in blocks {
            let extent = Extent::new(start, 1);
            pieces.push(Piece { side: Side::Fast, extent, offset: 0, bytes: bytes.len() });
            let data = Buf::from(bytes).freeze().into();
            operations.push(Operation::Write { extent, data, durability });
        }
        if operations.is_empty() {
            return self.commit_done(job);
        }
        self.issue(id, job, pieces, operations);
    }

    pub(super) fn commit_moved(&mut self, id: JobId, job: Box<Job>) {
        // Of two flushes of a volume that has begun anew only one need fail, and that may have been another one than the commit's own.
        if job.fast_failure.is_some() || !self.shared.state.lock().is_working() {
            return self.commit_failed(job);
        }
        let Work::Commit(commit) = &job.work else { return };
        #[cfg(test)]
        if self.shared.state.lock().planted == crate::planted::Planted::MapBeforeData {
            return match commit.stage {
                CommitStage::Map => self.commit_flush(id, job, CommitStage::Fence),
                _ => self.commit_done(job),
            };
        }
        match commit.stage {
            CommitStage::Data => self.commit_map(id, job),
            CommitStage::Map if job.pieces.len() > 1 => self.commit_flush(id, job, CommitStage::Fence),
            CommitStage::Map | CommitStage::Fence => self.commit_done(job),
        }
    }

    fn commit_done(&mut self, job: Box<Job>) {
        let Work::Commit(commit) = job.work else { return };
        let mut state = self.shared.state.lock();
        for (slot, dirty) in &commit.says {
            state.directory.set_on_media(*slot, *dirty);
        }
        state.commits.end(&commit.batch);
        state.wake_queues();
        drop(state);
        self.check_settling();
    }

    /// The fast volume has failed: each that waits learns for itself what that means.
    fn commit_failed(&mut self, job: Box<Job>) {
        let Work::Commit(commit) = job.work else { return };
        let mut state = self.shared.state.lock();
        state.commits.abandon(commit.batch);
        state.wake_queues();
        drop(state);
        self.check_settling();
    }
}
