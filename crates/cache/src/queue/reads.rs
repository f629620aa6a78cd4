//! Reads: from either volume, with copies of what was missed inserted into the fast one.

use buf::{Buf, BufList};
use volume::{Durability, Extent, Failure, Operation, Outcome, VolumeErrorKind};

use super::CacheQueue;
use crate::job::{Job, JobId, Work};
use crate::limits::INSERTIONS;
use crate::plan::{Piece, Side};
use crate::state::Stream;

impl CacheQueue {
    pub(super) fn start_read(&mut self, id: JobId, mut job: Box<Job>, extent: Extent) {
        let list = core::mem::take(&mut job.pieces);
        let planned = self.shared.state.lock().plan_read(extent, &mut job.pins, list);
        let pieces = match planned {
            Ok(pieces) => pieces,
            Err(kind) => {
                let memory = match &mut job.work {
                    Work::Read { into, .. } => into.take(),
                    _ => None,
                };
                return self.end(job, Err(Failure { kind, memory }));
            }
        };
        if let ([piece], Work::Read { into, .. }) = (pieces.as_slice(), &mut job.work)
            && let Some(into) = into.take()
        {
            let operation = Operation::Read { extent: piece.extent, into };
            return self.issue_one(id, job, pieces, operation);
        }
        if let Some(buffers) = self.memory_for(&mut job, &pieces) {
            let read = |(piece, into): (&Piece, Buf)| Operation::Read { extent: piece.extent, into };
            let operations = pieces.iter().zip(buffers).map(read).collect();
            return self.issue(id, job, pieces, operations);
        }
        let mut state = self.shared.state.lock();
        job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
        drop(state);
        self.jobs.insert(id, job);
        self.starved.push(id);
    }

    /// Memory for the pieces of a read: all of it or none, so that no two wait for each other. One piece is read into the request's own.
    fn memory_for(&mut self, job: &mut Job, pieces: &[Piece]) -> Option<Vec<Buf>> {
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        let own = &self.own;
        let into = match &mut job.work {
            Work::Read { into, .. } => into,
            Work::Compare { into, .. } | Work::CompareAndWrite { into, .. } => {
                if into.is_none() {
                    *into = Some(own.take(bytes)?);
                }
                into
            }
            _ => return None,
        };
        if pieces.len() == 1 {
            return into.take().map(|into| vec![into]);
        }
        let buffers: Option<Vec<Buf>> = pieces.iter().map(|piece| own.take(piece.bytes)).collect();
        if buffers.is_none()
            && let Work::Compare { into, .. } | Work::CompareAndWrite { into, .. } = &mut job.work
        {
            *into = None;
        }
        buffers
    }

    pub(super) fn read_moved(&mut self, id: JobId, mut job: Box<Job>) {
        {
            let mut state = self.shared.state.lock();
            job.pins.drain(..).for_each(|pin| state.directory.unpin(pin));
        }
        let is_read = matches!(job.work, Work::Read { .. });
        let (Work::Read { into, .. } | Work::Compare { into, .. } | Work::CompareAndWrite { into, .. }) =
            &mut job.work
        else {
            return;
        };
        if let Some(kind) = job.capacity_failure {
            let memory = into.take().filter(|_| is_read);
            return self.end(job, Err(Failure { kind, memory }));
        }
        if job.fast_failure.is_some() {
            if let (true, None, Some(data)) = (is_read, &into, job.read.take()) {
                *into = self.own.take(data.len());
            }
            if is_read && into.is_none() {
                return self.end(job, Err(VolumeErrorKind::Media.into()));
            }
            // Without the fast volume, from the capacity volume if that has it.
            self.jobs.insert(id, job);
            return self.start(id);
        }
        let data = job.read.take().or_else(|| into.take().map(|into| into.freeze().into()));
        let Some(data) = data else { return self.end(job, Err(VolumeErrorKind::Media.into())) };
        match &mut job.work {
            Work::Read { extent, stream, .. } => {
                let (extent, stream) = (*extent, *stream);
                if job.pieces.iter().any(|piece| piece.side == Side::Capacity) && !self.may_be_lost(&job) {
                    self.insert(extent, stream, &data);
                }
                self.end(job, Ok(Outcome::Data(data)));
            }
            Work::Compare { data: expected, .. } => {
                let result = compare(&data, expected);
                self.end(job, result.map(|()| Outcome::Done).map_err(Failure::from));
            }
            Work::CompareAndWrite { data: lists, equal, .. } => match compare(&data, &lists.compare) {
                Ok(()) => {
                    *equal = true;
                    self.jobs.insert(id, job);
                    self.start(id);
                }
                Err(kind) => self.end(job, Err(kind.into())),
            },
            _ => {}
        }
    }

    /// Puts what was read into the cache, if it is admitted and there is memory for a copy. The read ends at once, and nobody waits for the insertion: who writes
    /// meanwhile spoils it.
    pub(super) fn insert(&mut self, extent: Extent, stream: Stream, data: &BufList) {
        if self.insertions >= INSERTIONS {
            return;
        }
        let fast_path = self.shared.fast_path();
        let (planned, layout) = {
            let mut state = self.shared.state.lock();
            (state.plan_insertion(extent, stream), state.layout)
        };
        let page = wire::index(u64::from(layout.page));
        let (mut slots, mut pins, mut pieces, mut operations) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut left_out = Vec::new();
        for (part, slot) in planned {
            let bytes = wire::index(u64::from(part.count)) * page;
            let Some(mut copy) = self.account.take(bytes) else {
                left_out.push((slot, part.pages()));
                continue;
            };
            data.part(wire::index(part.before) * page, bytes).copy_to(&mut copy);
            let extent = Extent::new(layout.page_at(slot.0, part.first), layout.blocks(part.count));
            pieces.push(Piece { side: Side::Fast, extent, offset: 0, bytes });
            let data = copy.freeze().into();
            operations.push(Operation::Write { extent, data, durability: Durability::Cached });
            slots.push((slot, part.pages()));
            pins.push(slot);
        }
        if !left_out.is_empty() {
            self.account.stop_waiting();
        }
        {
            let mut state = self.shared.state.lock();
            for (slot, pages) in left_out {
                state.inserted(slot, pages, false);
                state.directory.unpin(slot);
            }
            if slots.is_empty() {
                return;
            }
            state.changing += 1;
        }
        self.insertions += 1;
        let mut insertion = Job::new(None, Work::Insert { slots });
        (insertion.pins, insertion.changes, insertion.fast_path) = (pins, true, fast_path);
        let id = JobId(self.next_id());
        self.issue(id, insertion, pieces, operations);
    }

    pub(super) fn insert_moved(&mut self, job: Box<Job>) {
        self.insertions = self.insertions.saturating_sub(1);
        if let Work::Insert { slots } = &job.work {
            let stayed = job.fast_path == self.shared.fast_path();
            let (mut state, well) = (self.shared.state.lock(), stayed && job.fast_failure.is_none());
            for (slot, pages) in slots {
                state.inserted(*slot, *pages, well);
            }
        }
        self.end(job, Ok(Outcome::Done));
    }
}

/// Finds the first difference.
fn compare(found: &BufList, expected: &BufList) -> Result<(), VolumeErrorKind> {
    let bytes = |list: &BufList| list.pieces().to_vec();
    let (found, expected) = (bytes(found), bytes(expected));
    let found = found.iter().flat_map(|piece| piece.iter());
    let expected = expected.iter().flat_map(|piece| piece.iter());
    match found.zip(expected).position(|(one, two)| one != two) {
        None => Ok(()),
        Some(at) => Err(VolumeErrorKind::Miscompare { offset: wire::bounded(at) }),
    }
}
