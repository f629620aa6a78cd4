//! What is only asked: whether blocks can be read, and which are allocated.

use volume::{Extent, Operation, Outcome, VolumeErrorKind};

use super::CacheQueue;
use crate::job::{Job, JobId};
use crate::plan::{Piece, Side};

impl CacheQueue {
    pub(super) fn start_verify(&mut self, id: JobId, mut job: Box<Job>, extent: Extent) {
        let planned = self.shared.state.lock().plan_verify(extent, &mut job.pins);
        match planned {
            Ok(pieces) => {
                let operations =
                    pieces.iter().map(|piece| Operation::Verify { extent: piece.extent }).collect();
                self.issue(id, job, pieces, operations);
            }
            Err(kind) => self.end(job, Err(kind.into())),
        }
    }

    /// Asks the capacity volume for the whole extent, whatever is dirty there: where it has blocks, a hundred dirty pages in between would else be a hundred
    /// questions, one after the other.
    pub(super) fn start_query(&mut self, id: JobId, job: Box<Job>, extent: Extent) {
        let begins = self.shared.state.lock().dirty_run(extent);
        if begins.mapped {
            return self.end(job, Ok(Outcome::Allocation(begins)));
        }
        let piece = Piece { side: Side::Capacity, extent, offset: 0, bytes: 0 };
        self.issue(id, job, vec![piece], vec![Operation::QueryAllocation { extent }]);
    }

    pub(super) fn query_moved(&mut self, mut job: Box<Job>) {
        let result = match (job.capacity_failure, job.allocation.take()) {
            (Some(kind), _) => Err(kind.into()),
            (None, Some(run)) if run.mapped => Ok(Outcome::Allocation(run)),
            (None, Some(run)) => Ok(Outcome::Allocation(self.shared.state.lock().dirty_run(run.extent))),
            (None, None) => Err(VolumeErrorKind::Media.into()),
        };
        self.end(job, result);
    }
}
