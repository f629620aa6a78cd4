//! Writing back: dirty lines go to the capacity volume while few requests are there, or when many are dirty.

use std::sync::Arc;

use volume::{CacheMode, Durability, Extent, Operation, Outcome, VolumeErrorKind};

use super::CacheQueue;
use crate::directory::SlotId;
use crate::job::{Job, JobId, Work, WriteBackStage};
use crate::limits::{RETRY, TICK, WRITE_BACKS};
use crate::page_set::PageSet;
use crate::plan::{Piece, Side};
use crate::range_locks::LockMode;
use crate::state::{Detach, State};

impl CacheQueue {
    /// Begins what is to be done though nobody asks. One queue does it at a time; the others are woken when it has nothing more to do.
    pub(super) fn background(&mut self) {
        self.due = None;
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        let mine = state.write_back.by == Some(self.id);
        if state.detach == Detach::Below && shared.is_left_below() {
            state.detach = Detach::Done;
            state.wake_queues();
            shared.listeners.wake();
        }
        let (detaching, keeps_dirty) = match state.detach {
            Detach::Wanted { keeps_dirty } => (true, keeps_dirty),
            _ => (false, false),
        };
        let dirty = state.directory.dirty_lines();
        let nothing = (dirty == 0 && state.commits.is_settled() && !detaching) || state.has_lost();
        if nothing || !state.is_working() || matches!(state.detach, Detach::Below | Detach::Done) {
            if mine {
                state.write_back.by = None;
            }
            return;
        }
        if *state.write_back.by.get_or_insert(self.id) != self.id {
            return;
        }
        if let Some(not_before) = state.write_back.not_before.filter(|not_before| *not_before > self.now) {
            self.due = Some(not_before);
            return;
        }
        let idle_from = state.last_request + state.options.idle;
        let all = detaching || self.now >= idle_from || self.shared.mode == CacheMode::Through;
        let count = match (keeps_dirty, all) {
            (true, _) => 0,
            (false, true) => WRITE_BACKS,
            (false, false) => pressure(&state, dirty),
        };
        let mut begun = Vec::new();
        while self.write_backs.len() < count {
            let cursor = state.write_back.cursor;
            let from = state.directory.dirty_from(cursor).next();
            let Some((line, slot)) = from.or_else(|| state.directory.dirty_from(0).next()) else { break };
            if self.write_backs.contains(&line) {
                break;
            }
            state.write_back.cursor = line + 1;
            self.write_backs.push(line);
            begun.push((line, slot));
        }
        let commits = !state.commits.is_settled()
            && (self.cleaned >= WRITE_BACKS || (self.write_backs.is_empty() && (all || self.cleaned > 0)));
        let need = commits.then(|| state.commits.need());
        let still = state.changing == 0 && self.write_backs.is_empty() && state.commits.is_settled();
        let detach = detaching && (dirty == 0 || keeps_dirty) && still;
        drop(state);
        for (line, slot) in begun {
            self.begin_write_back(line, slot);
        }
        if let Some(need) = need {
            self.begin_commit(need);
        }
        if detach && !self.detaches {
            self.begin_detach();
        }
        // What is under way wakes the queue when it ends.
        if self.write_backs.is_empty() {
            self.due = Some(if count > 0 { self.now + TICK } else { idle_from });
        }
    }

    fn begin_write_back(&mut self, line: u64, slot: SlotId) {
        let work = Work::WriteBack {
            line,
            slot,
            pages: PageSet::NONE,
            data: Vec::new(),
            stage: WriteBackStage::Read,
        };
        let mut job = Job::new(None, work);
        let id = JobId(self.next_id());
        let granted = {
            let mut state = self.shared.state.lock();
            let pages = u64::from(state.layout.pages());
            let (ticket, granted) =
                state.enter(self.id, Extent::new(line * pages, pages), LockMode::WriteBack);
            job.ticket = Some(ticket);
            if !granted {
                self.locking.insert(ticket, id);
            }
            granted
        };
        self.jobs.insert(id, job);
        if granted {
            self.start(id);
        }
    }

    /// The line is locked: reads what of it is dirty.
    pub(super) fn start_write_back(&mut self, id: JobId, mut job: Box<Job>) {
        let Work::WriteBack { line, slot, pages, .. } = &mut job.work else { return };
        let (mut pieces, mut operations) = (Vec::new(), Vec::new());
        {
            let mut state = self.shared.state.lock();
            *pages = state.begin_write_back(*line, *slot);
            if !pages.is_empty() {
                state.directory.pin(*slot);
                job.pins.push(*slot);
            }
            let layout = state.layout;
            for (first, count) in pages.runs() {
                let extent = Extent::new(layout.page_at(slot.0, first), layout.blocks(count));
                let bytes = wire::index(u64::from(count) * u64::from(layout.page));
                let Some(into) = self.account.take(bytes) else { break };
                pieces.push(Piece { side: Side::Fast, extent, offset: wire::index(u64::from(first)), bytes });
                operations.push(Operation::Read { extent, into });
            }
        }
        if operations.len() < pages.runs().count() {
            // Later, when there is memory.
            self.account.stop_waiting();
            return self.end_write_back(job);
        }
        if operations.is_empty() {
            return self.end_write_back(job);
        }
        self.issue(id, job, pieces, operations);
    }

    pub(super) fn write_back_moved(&mut self, id: JobId, mut job: Box<Job>) {
        let failure = job.capacity_failure;
        let Work::WriteBack { line, data, stage, .. } = &mut job.work else { return };
        if job.fast_failure.is_some() {
            return self.end_write_back(job);
        }
        match (*stage, failure) {
            (WriteBackStage::Read, _) => {
                *stage = WriteBackStage::Write;
                let (line, read) = (*line, core::mem::take(data));
                let places = core::mem::take(&mut job.pieces);
                let layout = self.shared.state.lock().layout;
                let (mut pieces, mut operations) = (Vec::new(), Vec::new());
                for (from, data) in read {
                    let Some(place) = places.iter().find(|place| place.extent == from) else { continue };
                    let start = line * u64::from(layout.pages()) + wire::widen(place.offset);
                    let extent = Extent::new(start, wire::widen(place.bytes) / u64::from(layout.page.max(1)));
                    pieces.push(Piece { side: Side::Capacity, extent, offset: 0, bytes: place.bytes });
                    operations.push(Operation::Write { extent, data, durability: Durability::Cached });
                }
                self.issue(id, job, pieces, operations);
            }
            (_, Some(kind)) => {
                self.shared.state.lock().capacity_done += 1;
                self.write_back_failed(job, kind);
            }
            (_, None) => {
                *stage = WriteBackStage::Flush;
                let mut state = self.shared.state.lock();
                state.capacity_done += 1;
                job.mark = Some(state.capacity_done);
                #[cfg(test)]
                if state.planted == crate::planted::Planted::CleanBeforeFlush {
                    job.mark = None;
                }
                drop(state);
                self.settle(id, job);
            }
        }
    }

    /// The capacity volume durably has the line's dirty pages, or has failed.
    pub(super) fn write_back_settled(&mut self, job: Box<Job>, failure: Option<VolumeErrorKind>) {
        if let Some(kind) = failure {
            return self.write_back_failed(job, kind);
        }
        if let Work::WriteBack { slot, .. } = &job.work {
            self.shared.state.lock().end_write_back(*slot, true);
            self.cleaned += 1;
        }
        self.end_write_back(job);
    }

    fn write_back_failed(&mut self, job: Box<Job>, kind: VolumeErrorKind) {
        {
            let mut state = self.shared.state.lock();
            state.write_back.not_before = Some(self.now + RETRY);
            state.write_back.error = Some(format!(
                "the cache cannot write back to the capacity volume ({kind}): it tries again, and keeps {} bytes meanwhile",
                state.directory.dirty_pages() * u64::from(state.layout.page)
            ));
        }
        self.end_write_back(job);
    }

    pub(super) fn end_write_back(&mut self, job: Box<Job>) {
        if let Work::WriteBack { line, slot, .. } = &job.work {
            self.write_backs.retain(|other| other != line);
            self.shared.state.lock().end_write_back(*slot, false);
        }
        self.end(job, Ok(Outcome::Done));
    }
}

/// How many lines to write back beside requests: none while less than half of what may be dirty is, all at once when more is.
fn pressure(state: &State, dirty: u64) -> usize {
    let most = (u64::from(state.layout.slots) * state.options.dirty / 100).max(1);
    let half = most / 2;
    if dirty <= half {
        return 0;
    }
    let share = (dirty - half) * wire::widen(WRITE_BACKS) / (most - half).max(1);
    wire::index(share).clamp(1, WRITE_BACKS)
}
