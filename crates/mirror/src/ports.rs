//! One queue's way to all legs: the legs' own queues, what waits for room in them, and whose each request is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use protocol::Instant;
use volume::{
    Completion, Extent, Failure, Operation, Outcome, PollList, Polled, QueueContext, QueueFull, Request, Tag,
    VolumeErrorKind, VolumeQueue,
};

use crate::members::Seat;
use crate::shared::Shared;

/// Whose request to a leg it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A request's: its number, and which of its parts.
    Task { task: u64, part: usize },
    /// The record of an epoch.
    Record,
    /// A part of the dirty log.
    Log,
    /// A copy to a leg that is resynchronised.
    Copy,
    /// The flush before bits are cleared.
    Clean,
    /// A look at a leg that is out, and what follows until it is in sync.
    Probe,
}

/// A request to a leg that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) owner: Owner,
    pub(crate) seat: Seat,
    pub(crate) result: Result<Outcome, Failure>,
}

#[derive(Debug, Clone, Copy)]
struct Child {
    owner: Owner,
    seat: Seat,
    /// The leg's content may change by it.
    changes: bool,
}

#[derive(Default)]
struct Port {
    queue: Option<Box<dyn VolumeQueue>>,
    backlog: VecDeque<Request>,
    under_way: usize,
}

/// The legs' queues on one core.
pub(crate) struct Ports {
    shared: Arc<Shared>,
    context: QueueContext,
    polls: PollList,
    ports: Vec<Port>,
    children: HashMap<u64, Child>,
    last: u64,
    /// Answers to what could not even be given to a leg.
    refused: Vec<Ended>,
    wanted: Vec<usize>,
    answers: Vec<Completion>,
}

/// The last tag that a request of this owner got, to cancel it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent(Tag);

impl Ports {
    pub(crate) fn new(shared: &Arc<Shared>, context: &QueueContext) -> Self {
        let legs = shared.shape.urls.len();
        let ports = (0..legs).map(|_| Port::default()).collect();
        Self {
            shared: Arc::clone(shared),
            context: context.clone(),
            polls: PollList::new(legs, context.waker.clone()),
            ports,
            children: HashMap::new(),
            last: 0,
            refused: Vec::new(),
            wanted: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Gives a leg a request that was counted for it (`Members::begin`). The operation is in the leg's own blocks.
    pub(crate) fn send(&mut self, now: Instant, seat: Seat, owner: Owner, operation: Operation) -> Sent {
        self.last += 1;
        let tag = Tag(self.last);
        let changes = operation.writes();
        if let Err(why) = self.open(seat.leg) {
            self.shared.lock().fail(seat, why, now);
            let result = Err(Failure::of(operation, VolumeErrorKind::Unreachable));
            self.refused.push(Ended { owner, seat, result });
            self.context.waker.wake_by_ref();
            return Sent(tag);
        }
        self.children.insert(tag.0, Child { owner, seat, changes });
        if let Some(port) = self.ports.get_mut(seat.leg) {
            port.under_way += 1;
            port.backlog.push_back(Request { tag, operation });
            port.push(now);
            self.polls.mark(seat.leg);
        }
        Sent(tag)
    }

    /// Opens the leg's queue on this core, unless that is done.
    fn open(&mut self, leg: usize) -> Result<(), String> {
        let Some(port) = self.ports.get_mut(leg) else { return Err("there is no such leg".to_owned()) };
        if port.queue.is_some() {
            return Ok(());
        }
        let volume = {
            let state = self.shared.lock();
            let medium = state.members.leg(leg).and_then(|leg| leg.medium.as_ref());
            medium.map(|medium| Arc::clone(&medium.volume)).ok_or("it is not open")?
        };
        let queue = volume.open_queue(&self.context.with_waker(self.polls.waker(leg)));
        port.queue = Some(queue.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Asks that a read end soon.
    pub(crate) fn cancel(&mut self, seat: Seat, sent: Sent) {
        let Some(port) = self.ports.get_mut(seat.leg) else { return };
        let waiting = port.backlog.iter().position(|request| request.tag == sent.0);
        match (waiting.and_then(|index| port.backlog.remove(index)), &mut port.queue) {
            (Some(request), _) => {
                port.under_way = port.under_way.saturating_sub(1);
                if let Some(child) = self.children.remove(&request.tag.0) {
                    let result = request.failed(VolumeErrorKind::Cancelled).result;
                    self.refused.push(Ended { owner: child.owner, seat: child.seat, result });
                    self.context.waker.wake_by_ref();
                }
            }
            (None, Some(queue)) => {
                queue.cancel(sent.0);
                self.polls.mark(seat.leg);
                self.context.waker.wake_by_ref();
            }
            (None, None) => {}
        }
    }

    /// Polls the legs that want it. True if any did.
    pub(crate) fn poll(&mut self, now: Instant, ended: &mut Vec<Ended>) -> bool {
        let refused = std::mem::take(&mut self.refused);
        let mut some = !refused.is_empty();
        for answer in refused {
            self.shared.lock().members.end(answer.seat.leg);
            ended.push(answer);
        }
        self.polls.take(now, &mut self.wanted);
        for leg in std::mem::take(&mut self.wanted) {
            some = true;
            let Some(port) = self.ports.get_mut(leg) else { continue };
            port.push(now);
            let Some(queue) = &mut port.queue else { continue };
            queue.poll(now, &mut self.answers);
            let gave = !self.answers.is_empty();
            for Completion { tag, result } in self.answers.drain(..) {
                port.under_way = port.under_way.saturating_sub(1);
                if let Some(Child { owner, seat, .. }) = self.children.remove(&tag.0) {
                    self.shared.lock().members.end(seat.leg);
                    ended.push(Ended { owner, seat, result });
                }
            }
            let timeout = queue.poll_timeout();
            port.push(now);
            let may_have_more = gave && port.under_way > 0;
            self.polls.handle_polled(leg, Polled { may_have_more, timeout });
        }
        some
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.polls.poll_timeout()
    }

    /// Gives up all requests, which the legs may still carry out. Those of `owner`s that a request is behind are told by `changed`.
    pub(crate) fn abandon(&mut self, now: Instant) {
        let mut state = self.shared.lock();
        for (_, child) in self.children.drain() {
            if child.changes {
                state.abandon(child.seat, now);
            } else {
                state.members.end(child.seat.leg);
            }
        }
        self.refused.drain(..).for_each(|ended| state.members.end(ended.seat.leg));
    }
}

impl Port {
    fn push(&mut self, now: Instant) {
        let Some(queue) = &mut self.queue else { return };
        while let Some(request) = self.backlog.pop_front() {
            if let Err(QueueFull(request)) = queue.submit(now, request) {
                self.backlog.push_front(request);
                return;
            }
        }
    }
}

/// An extent of the mirror in a leg's blocks, where the leg has it from block `at` of the mirror's size.
pub(crate) fn on_leg(at: u64, blocks: u64, factor: u64) -> Extent {
    Extent::new(at.saturating_mul(factor), blocks.saturating_mul(factor))
}
