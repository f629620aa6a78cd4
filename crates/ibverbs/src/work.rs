//! The requests of a queue pair that have not been told to be complete, in the order of posting: what an adapter ends out of order is told in order.

use std::collections::VecDeque;

use verbs::{WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory, WorkRequest};

/// How far a request is.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It waits for the connection.
    Waiting(WorkRequest),
    /// The adapter has it; memory of the consumer's that the adapter does not touch, as its bytes are in a bounce buffer.
    Posted(WorkMemory),
    /// It has ended.
    Done(Result<WorkDone, WorkError>, WorkMemory),
}

#[derive(Debug)]
struct Entry {
    id: WorkId,
    progress: Progress,
}

/// Requests in their order, numbered.
#[derive(Debug, Default)]
pub(crate) struct WorkList {
    entries: VecDeque<Entry>,
    /// The number of the first.
    first: u64,
}

impl WorkList {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds one, and says its number.
    pub(crate) fn push(&mut self, id: WorkId, progress: Progress) -> u64 {
        self.entries.push_back(Entry { id, progress });
        self.first + self.entries.len() as u64 - 1
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }

    /// The memory of one that the adapter has ended.
    pub(crate) fn take_memory(&mut self, number: u64) -> WorkMemory {
        match self.entry(number).map(|entry| &mut entry.progress) {
            Some(Progress::Posted(memory)) => std::mem::replace(memory, WorkMemory::None),
            _ => WorkMemory::None,
        }
    }

    /// One is further than it was.
    pub(crate) fn set(&mut self, number: u64, progress: Progress) {
        if let Some(entry) = self.entry(number) {
            entry.progress = progress;
        }
    }

    /// The next that waits, from a number on: its own number and the request. It has none until it is set again.
    pub(crate) fn take_waiting(&mut self, from: u64) -> Option<Waiting> {
        let skipped = usize::try_from(from.saturating_sub(self.first)).ok()?;
        let mut later = (self.first..).zip(&mut self.entries).skip(skipped);
        later.find_map(|(number, entry)| {
            let is_waiting = matches!(entry.progress, Progress::Waiting(_));
            let taken = is_waiting
                .then(|| std::mem::replace(&mut entry.progress, Progress::Posted(WorkMemory::None)));
            match taken {
                Some(Progress::Waiting(request)) => Some(Waiting { number, request }),
                _ => None,
            }
        })
    }

    /// Ends all that have not ended, as their queue pair has.
    pub(crate) fn flush(&mut self) {
        for entry in &mut self.entries {
            let memory = match std::mem::replace(&mut entry.progress, Progress::Posted(WorkMemory::None)) {
                Progress::Waiting(request) => request.into_memory(),
                Progress::Posted(memory) => memory,
                done @ Progress::Done(..) => {
                    entry.progress = done;
                    continue;
                }
            };
            entry.progress = Progress::Done(Err(WorkError::Flushed), memory);
        }
    }

    /// Moves those that have ended and that nothing earlier holds up.
    pub(crate) fn take_done(&mut self, done: &mut Vec<WorkCompletion>) {
        while matches!(self.entries.front(), Some(Entry { progress: Progress::Done(..), .. })) {
            let Some(Entry { id, progress: Progress::Done(result, memory) }) = self.entries.pop_front()
            else {
                return;
            };
            self.first += 1;
            done.push(WorkCompletion { id, result, memory });
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) request: WorkRequest,
}

#[cfg(test)]
mod tests {
    use buf::{Buf, BufList};

    use super::*;

    fn told(list: &mut WorkList) -> Vec<u64> {
        let mut done = Vec::new();
        list.take_done(&mut done);
        done.into_iter().map(|completion| completion.id.0).collect()
    }

    #[test]
    fn what_ends_first_is_told_in_order() {
        let mut list = WorkList::default();
        let numbers = [7, 8, 9].map(|id| list.push(WorkId(id), Progress::Posted(WorkMemory::None)));
        list.set(numbers[1], Progress::Done(Ok(WorkDone::Sent), WorkMemory::None));
        assert_eq!((told(&mut list), list.len()), (vec![], 3));
        list.set(numbers[0], Progress::Done(Ok(WorkDone::Sent), WorkMemory::None));
        assert_eq!((told(&mut list), list.len()), (vec![7, 8], 1));
        list.set(numbers[2], Progress::Done(Ok(WorkDone::Sent), WorkMemory::None));
        assert_eq!((told(&mut list), list.len()), (vec![9], 0));
    }

    #[test]
    fn what_waits_is_given_once_and_flushed_with_its_memory() {
        let mut list = WorkList::default();
        let sent = || WorkRequest::Send { data: BufList::new(), invalidate: None };
        list.push(WorkId(1), Progress::Waiting(sent()));
        list.push(WorkId(2), Progress::Waiting(WorkRequest::Receive { into: Buf::zeroed(5) }));
        let first = list.take_waiting(0).unwrap();
        assert_eq!(first.number, 0);
        list.set(first.number, Progress::Posted(first.request.into_memory()));
        list.flush();
        let mut done = Vec::new();
        list.take_done(&mut done);
        assert!(done.iter().all(|completion| completion.result == Err(WorkError::Flushed)));
        assert!(matches!(&done[0].memory, WorkMemory::List(_)));
        assert!(matches!(&done[1].memory, WorkMemory::Buf(buf) if buf.len() == 5));
    }
}
