//! Jobs that wait for a commit of the map or a flush of the capacity volume, which makes durable what they did.

use volume::{Operation, Outcome, VolumeErrorKind};

use super::{CacheQueue, Flight};
use crate::job::{Job, JobId, Work};
use crate::plan::Side;

impl CacheQueue {
    pub(super) fn settle(&mut self, id: JobId, job: Box<Job>) {
        self.jobs.insert(id, job);
        self.settling.push(id);
        self.check_settling();
    }

    /// Goes on with what waits for nothing any more, and sees that what others wait for is under way.
    pub(super) fn check_settling(&mut self) {
        let (mut flush, mut commit) = (false, None);
        for id in core::mem::take(&mut self.settling) {
            let Some(job) = self.jobs.get(&id) else { continue };
            let state = self.shared.state.lock();
            let wants_flush = job.mark.is_some_and(|mark| mark > state.capacity_flushed);
            let unmet = job.need.filter(|need| !state.commits.meets(*need));
            let (working, lost) = (state.is_working(), state.has_lost());
            let unflushed = job.mark.is_some() && job.flush_failures != state.flush_failures;
            drop(state);
            let failure = match job.capacity_failure {
                Some(kind) => Some(kind),
                None if unflushed => Some(VolumeErrorKind::Media),
                None if unmet.is_some() && lost => Some(VolumeErrorKind::Media),
                None => None,
            };
            let waits = wants_flush || (unmet.is_some() && working);
            if failure.is_none() && waits {
                flush |= wants_flush;
                commit = commit.or(unmet.filter(|_| working));
                self.settling.push(id);
            } else if let Some(job) = self.jobs.remove(&id) {
                self.settled(id, job, failure);
            }
        }
        if flush && !self.flushes_capacity {
            self.flushes_capacity = true;
            let covers = self.shared.state.lock().capacity_done;
            self.ask(Side::Capacity, Flight::CapacityFlush { covers }, Operation::Flush);
        }
        if let Some(need) = commit {
            self.begin_commit(need);
        }
    }

    fn settled(&mut self, id: JobId, job: Box<Job>, failure: Option<VolumeErrorKind>) {
        match &job.work {
            _ if job.supersedes => self.supersede_settled(id, job, failure),
            Work::WriteBack { .. } => self.write_back_settled(job, failure),
            Work::Detach(_) => self.detach_settled(id, job, failure),
            _ => self.end(job, failure.map_or(Ok(Outcome::Done), |kind| Err(kind.into()))),
        }
    }

    pub(super) fn capacity_flushed(&mut self, covers: u64, failure: Option<VolumeErrorKind>) {
        self.flushes_capacity = false;
        match failure {
            None => {
                let mut state = self.shared.state.lock();
                state.capacity_flushed = state.capacity_flushed.max(covers);
            }
            Some(kind) => {
                let mut told = None;
                for id in &self.settling {
                    if let Some(job) =
                        self.jobs.get_mut(id).filter(|job| job.mark.is_some_and(|mark| mark <= covers))
                    {
                        job.capacity_failure = Some(kind);
                        told = told.or(matches!(job.work, Work::Flush).then_some(self.id));
                    }
                }
                self.shared.state.lock().capacity_flush_failed(kind, told);
            }
        }
        self.check_settling();
    }
}
