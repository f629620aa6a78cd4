//! One queue's way to all legs: the legs' own queues, what waits for room in them, and whose each request is.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Instant;
use volume::{
    Completion, Failure, OpenError, Operation, Outcome, PollList, Polled, QueueContext, QueueFull, Request,
    Tag, VolumeErrorKind, VolumeQueue,
};

use crate::fencer::{Claim, Fenced, Fencer, Need};
use crate::members::Membership;
use crate::shared::{Shared, State};
use crate::slab::Slab;

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
    /// The flush before the mirror is left, and its reservation's way back.
    Leave,
    /// A look at a leg that is out, and what follows until it is in sync.
    Probe,
}

/// A request to a leg that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) owner: Owner,
    pub(crate) membership: Membership,
    pub(crate) result: Result<Outcome, Failure>,
}

#[derive(Debug, Clone, Copy)]
struct Child {
    owner: Owner,
    membership: Membership,
    /// The leg's content may change by it.
    changes: bool,
}

impl Default for Child {
    fn default() -> Self {
        Self { owner: Owner::Record, membership: Membership { leg: 0, tenure: 0 }, changes: false }
    }
}

#[derive(Default)]
struct Port {
    queue: Option<Box<dyn VolumeQueue>>,
    /// The reservation is this owner's, and this queue registered: over iSCSI each queue is a nexus of its own.
    fenced: bool,
    /// For which time without a break: a leg that was out may have forgotten who holds it.
    tenure: u64,
    fencing: Option<Fencer>,
    /// What waits for room, or for the reservation: nothing is sent without it, as a leg's own blocks too count only once nobody else can change them.
    backlog: VecDeque<Request>,
    under_way: usize,
}

/// The tag of what a fencer asks; no number of a slab is zero.
const FENCING: Tag = Tag(0);

/// The legs' queues on one core.
pub(crate) struct Ports {
    shared: Arc<Shared>,
    context: QueueContext,
    polls: PollList,
    legs: Vec<Port>,
    /// What is under way, by tag.
    children: Slab<Child>,
    /// Answers to what could not even be given to a leg.
    refused: Vec<Ended>,
    wanted: Vec<usize>,
    answers: Vec<Completion>,
}

/// The tag that a request got, to cancel it by; [`FENCING`] where the leg did not even take it.
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
            legs: ports,
            children: Slab::default(),
            refused: Vec::new(),
            wanted: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Gives a leg a request that was counted for it (`Members::begin`). The operation is in the leg's own blocks.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        membership: Membership,
        owner: Owner,
        operation: Operation,
    ) -> Sent {
        let changes = operation.writes();
        if let Err(why) = self.open(membership.leg) {
            self.shared.lock().fail(membership, why.to_string(), now);
            let result = Err(Failure::of(operation, VolumeErrorKind::Unreachable));
            self.refused.push(Ended { owner, membership, result });
            self.context.waker.wake_by_ref();
            return Sent(FENCING);
        }
        let (number, child) = self.children.claim();
        *child = Child { owner, membership, changes };
        let tag = Tag(number);
        if let Some(port) = self.legs.get_mut(membership.leg) {
            if port.tenure != membership.tenure {
                (port.tenure, port.fenced) = (membership.tenure, false);
            }
            port.under_way += 1;
            port.send(now, &self.shared, membership.leg, Request { tag, operation });
            self.polls.mark(membership.leg);
        }
        Sent(tag)
    }

    /// Opens the leg's queue on this core, unless that is done.
    fn open(&mut self, leg: usize) -> Result<(), OpenError> {
        let Some(port) = self.legs.get_mut(leg) else { return Err(OpenError::new("there is no such leg")) };
        if port.queue.is_some() {
            return Ok(());
        }
        let volume = {
            let state = self.shared.lock();
            let medium = state.members.leg(leg).and_then(|leg| leg.medium.as_ref());
            medium.map(|medium| Arc::clone(&medium.volume)).ok_or_else(|| OpenError::new("it is not open"))?
        };
        let queue = volume.open_queue(&self.context.with_waker(self.polls.waker(leg)));
        port.queue = Some(queue?);
        Ok(())
    }

    /// Asks that a read end soon.
    pub(crate) fn cancel(&mut self, membership: Membership, sent: Sent) {
        let Some(port) = self.legs.get_mut(membership.leg).filter(|_| sent.0 != FENCING) else { return };
        let waiting = port.backlog.iter().position(|waiting| waiting.tag == sent.0);
        match (waiting.and_then(|index| port.backlog.remove(index)), &mut port.queue) {
            (Some(request), _) => {
                port.under_way = port.under_way.saturating_sub(1);
                if let Some(child) = self.children.release(request.tag.0).copied() {
                    let result = request.failed(VolumeErrorKind::Cancelled).result;
                    self.refused.push(Ended { owner: child.owner, membership: child.membership, result });
                    self.context.waker.wake_by_ref();
                }
            }
            (None, Some(queue)) => {
                queue.cancel(sent.0);
                self.polls.mark(membership.leg);
                self.context.waker.wake_by_ref();
            }
            (None, None) => {}
        }
    }

    /// Polls the legs that want it. True if any did. What they have answered is counted for them, and goes to `settle` with the lock held; what that gives back is added to
    /// `ended`.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        ended: &mut Vec<Ended>,
        mut settle: impl FnMut(&mut State, Ended) -> Option<Ended>,
    ) -> bool {
        let mut some = !self.refused.is_empty();
        if some {
            let mut state = self.shared.lock();
            self.refused.iter().for_each(|refused| state.members.end(refused.membership.leg));
            ended.append(&mut self.refused);
        }
        let (mut wanted, mut answers) = (std::mem::take(&mut self.wanted), std::mem::take(&mut self.answers));
        self.polls.take(now, &mut wanted);
        for leg in wanted.drain(..) {
            some = true;
            let Some(port) = self.legs.get_mut(leg) else { continue };
            port.push(now, &self.shared, leg);
            let Some(queue) = &mut port.queue else { continue };
            queue.poll(now, &mut answers);
            let gave = !answers.is_empty();
            if gave {
                self.take_answers(now, leg, &mut answers, ended, &mut settle);
            }
            let Some(port) = self.legs.get_mut(leg) else { continue };
            port.push(now, &self.shared, leg);
            let timeout = port.queue.as_ref().and_then(|queue| queue.poll_timeout());
            let may_have_more = gave && (port.under_way > 0 || port.fencing.is_some());
            self.polls.handle_polled(leg, Polled { may_have_more, timeout });
        }
        (self.wanted, self.answers) = (wanted, answers);
        some
    }

    fn take_answers(
        &mut self,
        now: Instant,
        leg: usize,
        answers: &mut Vec<Completion>,
        ended: &mut Vec<Ended>,
        settle: &mut impl FnMut(&mut State, Ended) -> Option<Ended>,
    ) {
        let Some(port) = self.legs.get_mut(leg) else { return };
        let fencing = if port.fencing.is_some() {
            answers.iter().position(|answer| answer.tag == FENCING).map(|index| answers.swap_remove(index))
        } else {
            None
        };
        let mut state = self.shared.lock();
        for Completion { tag, result } in answers.drain(..) {
            port.under_way = port.under_way.saturating_sub(1);
            if let Some(Child { owner, membership, .. }) = self.children.release(tag.0).copied() {
                state.members.end(membership.leg);
                ended.extend(settle(&mut state, Ended { owner, membership, result }));
            }
        }
        drop(state);
        if let Some(Completion { result, .. }) = fencing {
            let claim = self.shared.lock().claim(leg, self.shared.shape.takeover);
            let refused = port.fenced(now, result.map_err(VolumeErrorKind::from), claim);
            let mut state = self.shared.lock();
            if let Some(leg) = state.members.legs.get_mut(leg).filter(|_| port.fenced) {
                leg.reserved = true;
            }
            if let Some(why) = refused {
                refuse(&mut state, port, &mut self.children, Refused { leg, now, why }, ended);
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.polls.poll_timeout()
    }

    /// Gives up all requests, which the legs may still carry out. Those of `owner`s that a request is behind are told by `changed`.
    pub(crate) fn abandon(&mut self, now: Instant) {
        let mut state = self.shared.lock();
        for (_, child) in std::mem::take(&mut self.children).iter_mut() {
            if child.changes {
                state.abandon(child.membership, child.owner == Owner::Copy, now);
            } else {
                state.members.end(child.membership.leg);
            }
        }
        self.refused.drain(..).for_each(|ended| state.members.end(ended.membership.leg));
    }
}

/// A leg that must not be used.
struct Refused {
    leg: usize,
    now: Instant,
    why: Fenced,
}

/// Another host has the leg, or it cannot be seen that none has: what waits for it fails.
fn refuse(
    state: &mut State,
    port: &mut Port,
    children: &mut Slab<Child>,
    refused: Refused,
    ended: &mut Vec<Ended>,
) {
    let Refused { leg, now, why } = refused;
    // A leg that this owner never had is not what it was taken over with.
    let was_held = state.members.leg(leg).is_some_and(|leg| leg.reserved);
    let membership = state.members.leg(leg).map(|found| Membership { leg, tenure: found.tenure });
    let kind = match (why, membership) {
        (Fenced::Refused(_), _) if was_held => {
            state.fence();
            VolumeErrorKind::ReservationConflict
        }
        (Fenced::Refused(why), Some(membership)) => {
            state.fail(membership, why, now);
            VolumeErrorKind::ReservationConflict
        }
        (Fenced::Failed(why), Some(membership)) => {
            state.fail(membership, why, now);
            VolumeErrorKind::Unreachable
        }
        _ => VolumeErrorKind::Unreachable,
    };
    (port.queue, port.fencing, port.fenced) = (None, None, false);
    for request in port.backlog.drain(..) {
        port.under_way = port.under_way.saturating_sub(1);
        if let Some(Child { owner, membership, .. }) = children.release(request.tag.0).copied() {
            state.members.end(membership.leg);
            ended.push(Ended { owner, membership, result: request.failed(kind).result });
        }
    }
}

impl Port {
    /// The fencer has its answer: goes on, or says why the leg must not be used.
    fn fenced(
        &mut self,
        now: Instant,
        answer: Result<Outcome, VolumeErrorKind>,
        claim: Claim,
    ) -> Option<Fenced> {
        let fencer = self.fencing.as_mut()?;
        match fencer.answered(answer, claim) {
            Fenced::Ask(operation) => {
                let queue = self.queue.as_mut()?;
                let asked = queue.submit(now, Request { tag: FENCING, operation });
                asked.err().map(|_| Fenced::Failed("it takes no request".to_owned()))
            }
            Fenced::Done => {
                (self.fencing, self.fenced) = (None, true);
                None
            }
            refused => Some(refused),
        }
    }

    /// Gives the leg a request, once it may have one and has room.
    fn send(&mut self, now: Instant, shared: &Shared, leg: usize, request: Request) {
        match &mut self.queue {
            Some(queue) if self.fenced && self.backlog.is_empty() => {
                if let Err(QueueFull(request)) = queue.submit(now, request) {
                    self.backlog.push_back(request);
                }
            }
            _ => {
                self.backlog.push_back(request);
                self.push(now, shared, leg);
            }
        }
    }

    fn push(&mut self, now: Instant, shared: &Shared, leg: usize) {
        let Some(queue) = &mut self.queue else { return };
        if !self.fenced {
            if self.fencing.is_none() && !self.backlog.is_empty() {
                self.fence(now, shared, leg);
            }
            return;
        }
        while let Some(request) = self.backlog.pop_front() {
            if let Err(QueueFull(request)) = queue.submit(now, request) {
                self.backlog.push_front(request);
                return;
            }
        }
    }

    /// Begins to see that the reservation is this owner's.
    fn fence(&mut self, now: Instant, shared: &Shared, leg: usize) {
        let need = shared.shape.needs.get(leg).copied().unwrap_or(Need::Reservation);
        let claim = shared.lock().claim(leg, shared.shape.takeover);
        let fencer = Fencer::new(shared.shape.key, need, claim);
        let Some(queue) = &mut self.queue else { return };
        // A queue that is full now is asked again when it has answered.
        if queue.submit(now, Request { tag: FENCING, operation: fencer.operation() }).is_ok() {
            self.fencing = Some(fencer);
        }
    }
}
