//! What is posted to a queue pair, in order, as there is room; and what each request was for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use protocol::Instant;
use verbs::{PostError, QueuePair, Refusal, WorkCompletion, WorkError, WorkId, WorkRequest};

/// The name of every receive.
const RECEIVE: WorkId = WorkId(0);

/// What a request other than a receive was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A message.
    Send,
    /// Data of a reply.
    Write,
    /// A piece of the arguments of the peer's call in this task.
    Read { task: u64 },
    /// Memory of the call `xid`, by its place among the call's regions.
    Register { xid: u32, index: usize },
    /// The same.
    Invalidate { xid: u32, index: usize },
}

/// Something that has completed.
#[derive(Debug)]
pub(super) enum Completed {
    /// A receive.
    Receive(WorkCompletion),
    /// Something else.
    Work(Work, WorkCompletion),
}

/// The work of one queue pair.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    /// What waits for room, in order.
    waiting: VecDeque<(Work, WorkRequest)>,
    /// What was posted, in order, each with its name.
    posted: VecDeque<(WorkId, Work)>,
    last: u64,
    /// Completions that are looked at, the newest first.
    done: Vec<WorkCompletion>,
}

impl WorkQueue {
    /// Adds a request behind all others.
    pub(super) fn push(&mut self, work: Work, request: WorkRequest) {
        self.waiting.push_back((work, request));
    }

    /// Posts a receive; false when the queue pair takes none.
    pub(super) fn receive(pair: &mut impl QueuePair, into: buf::Buf) -> bool {
        pair.post(RECEIVE, WorkRequest::Receive { into }).is_ok()
    }

    /// Posts what there is room for; true if something was posted.
    pub(super) fn post(&mut self, pair: &mut impl QueuePair) -> bool {
        let mut moved = false;
        while self.posted.len() < pair.limits().sends
            && let Some((work, request)) = self.waiting.pop_front()
        {
            self.last = self.last.wrapping_add(1).max(1);
            let id = WorkId(self.last);
            match pair.post(id, request) {
                Ok(()) => self.posted.push_back((id, work)),
                Err(PostError { reason: Refusal::SendQueueFull | Refusal::RegionsFull, request }) => {
                    self.waiting.push_front((work, request));
                    break;
                }
                // It will never be taken: it has failed.
                Err(PostError { request, .. }) => {
                    self.posted.push_back((id, work));
                    let (result, memory) = (Err(WorkError::Flushed), request.into_memory());
                    self.done.insert(0, WorkCompletion { id, result, memory });
                }
            }
            moved = true;
        }
        moved
    }

    /// The next completion.
    pub(super) fn poll(&mut self, now: Instant, pair: &mut impl QueuePair) -> Option<Completed> {
        if self.done.is_empty() {
            pair.poll(now, &mut self.done);
            self.done.reverse();
        }
        loop {
            let completion = self.done.pop()?;
            if completion.id == RECEIVE {
                return Some(Completed::Receive(completion));
            }
            let at = self.posted.iter().position(|(id, _)| *id == completion.id);
            if let Some((_, work)) = at.and_then(|at| self.posted.remove(at)) {
                return Some(Completed::Work(work, completion));
            }
        }
    }

    /// True when everything that was asked for has completed.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.posted.is_empty()
    }

    /// Bytes of its tables.
    pub(super) fn held(&self) -> usize {
        let waiting = self.waiting.capacity().saturating_mul(size_of::<(Work, WorkRequest)>());
        let posted = self.posted.capacity().saturating_mul(size_of::<(WorkId, Work)>());
        let done = self.done.capacity().saturating_mul(size_of::<WorkCompletion>());
        waiting.saturating_add(posted).saturating_add(done)
    }
}
