//! Writes, releases of blocks and flushes.

use buf::BufList;
use volume::{CacheMode, Durability, Extent, Operation, Outcome, VolumeErrorKind};

use super::CacheQueue;
use crate::commit::Need;
use crate::job::{Job, JobId, Release, Work};
use crate::plan::{Piece, Side};
use crate::state::{Route, Stream, Waits, Written, pinned};

impl CacheQueue {
    #[expect(clippy::too_many_arguments, reason = "what a write is, and whose")]
    pub(super) fn start_write(
        &mut self,
        id: JobId,
        mut job: Box<Job>,
        extent: Extent,
        data: &BufList,
        durability: Durability,
        stream: Stream,
    ) {
        let pieces = {
            let mut state = self.shared.state.lock();
            match state.plan_write(extent, stream) {
                Ok(parts) => {
                    job.pins.extend(pinned(&parts));
                    job.parts = parts;
                    state.write_pieces(&job.parts)
                }
                Err(kind) => {
                    drop(state);
                    return self.end(job, Err(kind.into()));
                }
            }
        };
        #[cfg(test)]
        let durability = match self.shared.state.lock().planted {
            crate::planted::Planted::AcknowledgesEarly => Durability::Cached,
            _ => durability,
        };
        let write = |piece: &Piece| Operation::Write {
            extent: piece.extent,
            data: data.part(piece.offset, piece.bytes),
            durability: if piece.side == Side::Capacity { durability } else { Durability::Cached },
        };
        let operations = pieces.iter().map(write).collect();
        self.issue(id, job, pieces, operations);
    }

    pub(super) fn write_moved(&mut self, id: JobId, mut job: Box<Job>, durability: Durability) {
        let how = Written {
            fast: job.fast_failure.is_none(),
            fast_stayed: job.fast_path == self.shared.fast_path(),
            capacity: job.capacity_failure.is_none(),
        };
        let (waits, working) = {
            let mut state = self.shared.state.lock();
            job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
            (state.written(&job.parts, how), state.is_working())
        };
        if let Some(kind) = job.capacity_failure {
            return self.end(job, Err(kind.into()));
        }
        if !(how.fast && working) && job.parts.iter().any(|part| matches!(part.way, Route::Back(_))) {
            // The fast volume has it, or not, and is not used any more. To the capacity volume, as far as nothing dirty would hide it.
            self.jobs.insert(id, job);
            return self.start(id);
        }
        self.changed(id, job, durability, waits);
    }

    /// The two volumes have a change, though maybe not durably.
    fn changed(&mut self, id: JobId, mut job: Box<Job>, durability: Durability, waits: Waits) {
        let state = self.shared.state.lock();
        if waits.flush {
            // The blocks stay locked meanwhile: nobody sees the one content, then the other.
            (job.mark, job.supersedes) = (Some(state.capacity_done), true);
            drop(state);
            return self.settle(id, job);
        }
        let need = waits.commit.then(|| state.commits.need());
        drop(state);
        self.settle_durable(id, job, durability, need);
    }

    /// The capacity volume durably has what takes the place of dirty pages, or has failed: then those stay.
    pub(super) fn supersede_settled(
        &mut self,
        id: JobId,
        mut job: Box<Job>,
        failure: Option<VolumeErrorKind>,
    ) {
        if let Some(kind) = failure {
            return self.end(job, Err(kind.into()));
        }
        (job.mark, job.supersedes) = (None, false);
        let (extent, durability, list) = match &job.work {
            Work::Write { extent, durability, .. } | Work::CompareAndWrite { extent, durability, .. } => {
                (*extent, *durability, Some(job.parts.as_slice()))
            }
            Work::Release { extent, release: Release::Zero { durability, .. } } => {
                (*extent, *durability, None)
            }
            Work::Release { extent, .. } => (*extent, Durability::Cached, None),
            _ => return self.end(job, Ok(Outcome::Done)),
        };
        let need = {
            let mut state = self.shared.state.lock();
            state.supersede_all(extent, list);
            state.commits.need()
        };
        self.settle_durable(id, job, durability, Some(need));
    }

    /// Ends what has changed blocks, once it is durable if that was wished. Others may have the blocks at once.
    fn settle_durable(&mut self, id: JobId, mut job: Box<Job>, durability: Durability, need: Option<Need>) {
        #[cfg(test)]
        let need =
            need.filter(|_| self.shared.state.lock().planted != crate::planted::Planted::AcknowledgesEarly);
        if durability == Durability::Cached || need.is_none() {
            return self.end(job, Ok(Outcome::Done));
        }
        if let Some(ticket) = job.ticket.take() {
            self.shared.state.lock().leave(ticket);
        }
        job.need = need;
        self.settle(id, job);
    }

    pub(super) fn start_release(&mut self, id: JobId, job: Box<Job>, extent: Extent, release: Release) {
        let refused = {
            let mut state = self.shared.state.lock();
            state.spoil_all(extent);
            !state.is_working() && state.holds_any(extent)
        };
        if refused {
            return self.end(job, Err(VolumeErrorKind::Media.into()));
        }
        let operation = match release {
            Release::Discard => Operation::Discard { extent },
            Release::Zero { durability, may_unmap } => {
                Operation::WriteZeroes { extent, durability, may_unmap }
            }
        };
        let piece = Piece { side: Side::Capacity, extent, offset: 0, bytes: 0 };
        self.issue(id, job, vec![piece], vec![operation]);
    }

    pub(super) fn release_moved(&mut self, id: JobId, job: Box<Job>, extent: Extent, release: Release) {
        // Where a discard may do nothing, what is dirty must not give way to what was there before it.
        let zeroes = self.shared.features().contains(volume::Features::DISCARD);
        let (drops_dirty, durability) = match release {
            Release::Discard => (zeroes, Durability::Cached),
            Release::Zero { durability, .. } => (true, durability),
        };
        let done = job.capacity_failure.is_none();
        let waits = self.shared.state.lock().released(extent, done, drops_dirty);
        match job.capacity_failure {
            Some(kind) => self.end(job, Err(kind.into())),
            None => self.changed(id, job, durability, waits),
        }
    }

    pub(super) fn start_flush(&mut self, id: JobId, mut job: Box<Job>) {
        let lost = {
            let mut state = self.shared.state.lock();
            state.last_request = state.last_request.max(self.now);
            let back = self.shared.mode == CacheMode::Back || !state.commits.is_settled();
            job.need = back.then(|| state.commits.need());
            #[cfg(test)]
            if state.planted == crate::planted::Planted::FlushWithoutCommit {
                job.need = None;
            }
            (job.mark, job.flush_failures) = (Some(state.capacity_done), state.flush_failures);
            if state.has_lost() { Some(VolumeErrorKind::Media) } else { state.take_untold(self.id) }
        };
        if let Some(kind) = lost {
            return self.end(job, Err(kind.into()));
        }
        self.settle(id, job);
    }
}
