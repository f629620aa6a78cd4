//! One core's queues of one kind: where requests go, and whose completions come back.
//!
//! What is served, blocks or files, is the kind's matter ([`ServedKind`]). A request's tag in a queue is made of the asker's slot, the fence side it was submitted on, and the
//! connection's own number. The side makes draining exact: a fence moves the epoch of what is served, requests that were judged by an
//! older one are refused, new ones go to the other side, and the fence is acknowledged when the old side's count reaches zero,
//! however many new requests keep coming.

mod entry;
mod tag;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use protocol::Instant;
use volume::{OpenError, PollList, Polled, QueueContext, Submission, Tag};

pub(crate) use self::entry::UseReport;
pub(crate) use self::entry::{LAST, RELEASE};
use self::entry::{Progress, QueueEntry};
pub(crate) use self::tag::Slot;
use self::tag::{join, split};
use crate::catalogue::ProposalError;
use crate::kind::{ServedKind, Tagged};
use crate::limits::COMPLETIONS_GUESS;
use crate::served_id::ServedId;

/// A request that no queue has taken: nothing has happened to it, and nothing counts it.
#[derive(Debug)]
pub(crate) enum SubmitError<K: ServedKind> {
    /// The queue is full.
    Full(Submission<K::Request>),
    /// It was judged by an older state than holds now, or is for something else than what has the place now.
    StaleEpoch(Submission<K::Request>),
}

/// What others are to know of queues on their way to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueEvent {
    /// The core's connections are to say whether they use what is withdrawn; [`Queues::await_users`] is to be told how many were asked.
    AskUsers(ServedId),
    /// Connections that still use what is withdrawn have had their time.
    Overdue(ServedId),
    /// A queue's last request has begun. It may be over already: the queues are to be polled again.
    Securing,
    /// A queue has ended.
    Retired(Retired),
}

/// A core's queue that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retired {
    /// Of what.
    pub id: ServedId,
    /// All that was done over it is secured: its last request has succeeded, or none was needed.
    pub secured: bool,
    /// Requests that were under way when its connections had had their time to leave, and were cancelled.
    pub forced: u32,
}

/// The last request of a queue has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastEnded {
    /// The queue's slot, as the request's tag has it.
    pub(crate) slot: Tag,
    /// It has succeeded.
    pub(crate) secured: bool,
}

/// A queue that has just ended, and whose place is not yet free.
#[derive(Debug, Clone, Copy)]
struct EndedQueue {
    slot: usize,
    secured: bool,
}

/// The queues of one core, each in the slot of what it serves.
pub(crate) struct Queues<K: ServedKind> {
    entries: Vec<QueueEntry<K>>,
    /// Which of them have something to say: there may be many.
    polls: PollList,
    wanted: Vec<usize>,
    done: Vec<K::Completion>,
    /// Fences that wait, on all queues; and those that no queue has anything older for.
    fences: usize,
    acknowledged: Vec<u64>,
    /// Queues that have just ended.
    ended: Vec<EndedQueue>,
    /// For whoever is to know.
    events: VecDeque<QueueEvent>,
}

impl<K: ServedKind> Queues<K> {
    /// No queues, on the calling thread's core.
    pub(crate) fn new(core: Waker) -> Self {
        Self {
            entries: Vec::new(),
            polls: PollList::new(0, core),
            wanted: Vec::new(),
            done: Vec::with_capacity(COMPLETIONS_GUESS),
            fences: 0,
            acknowledged: Vec::new(),
            ended: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Opens the queues that are missing, all or none of them. Nobody can use them before [`Queues::commit`].
    pub(crate) fn prepare(&mut self, all: &[K::Served], context: &QueueContext) -> Result<(), ProposalError> {
        let opened = all.iter().try_for_each(|served| self.open(served, context));
        if opened.is_err() {
            self.abandon();
        }
        opened
    }

    fn open(&mut self, served: &K::Served, context: &QueueContext) -> Result<(), ProposalError> {
        let id = K::id(served);
        let slot = id.slot();
        while self.entries.len() <= slot {
            self.entries.push(QueueEntry::vacant());
        }
        self.polls.grow(self.entries.len());
        self.wanted.reserve(self.entries.len());
        let refuse = |error| K::refusal(served, error);
        match self.entries.get_mut(slot) {
            Some(entry) if entry.id == id => Ok(()),
            Some(entry) if entry.is_vacant() => {
                let context = context.with_waker(self.polls.waker(slot));
                let queue = K::open(served, &context).map_err(refuse)?;
                *entry = QueueEntry::new(served.clone(), queue);
                self.polls.mark(slot);
                Ok(())
            }
            _ => {
                Err(refuse(OpenError::new("its place is not free yet; try again when what has it has ended")))
            }
        }
    }

    /// Lets everybody use the queues that were prepared.
    pub(crate) fn commit(&mut self) {
        self.entries.iter_mut().for_each(QueueEntry::commit);
    }

    /// Drops the queues that were prepared.
    pub(crate) fn abandon(&mut self) {
        self.entries.iter_mut().for_each(QueueEntry::abandon);
    }

    /// Withdraws everything that `stays` does not want: [`QueueEvent`] has what follows.
    pub(crate) fn withdraw(&mut self, now: Instant, stays: impl Fn(ServedId) -> bool) {
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            if !stays(entry.id) && entry.withdraw(now) {
                self.polls.mark(slot);
            }
        }
    }

    /// So many connections were asked whether they use what is withdrawn. True when the end of its queue begins, as there are none.
    pub(crate) fn await_users(&mut self, now: Instant, served: ServedId, asked: usize) -> bool {
        let Some(entry) = self.entries.get_mut(served.slot()).filter(|entry| entry.id == served) else {
            return false;
        };
        entry.await_users(now, asked);
        self.polls.mark(served.slot());
        asked == 0
    }

    /// One of them says whether it does, or is gone.
    pub(crate) fn handle_use(&mut self, now: Instant, served: ServedId, report: UseReport) {
        let entry = self.entries.get_mut(served.slot()).filter(|entry| entry.id == served);
        if entry.is_some_and(|entry| entry.handle_use(now, report)) {
            self.polls.mark(served.slot());
        }
    }

    /// Ends all queues: each once nothing is under way in it any more, with a last request where something may have
    /// changed. Those complete for [`LAST`], and [`Queues::handle_last_ended`] is to be told. True if the end of any queue has begun.
    pub(crate) fn retire(&mut self, now: Instant) -> bool {
        let mut begun = false;
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            if entry.retire() {
                begun = true;
                self.polls.mark(slot);
                if let Some(Progress::Retired { secured }) = entry.advance(now) {
                    self.ended.push(EndedQueue { slot, secured });
                }
            }
        }
        self.clear_ended();
        begun
    }

    /// The last request of a queue has ended.
    pub(crate) fn handle_last_ended(&mut self, LastEnded { slot: Tag(slot), secured }: LastEnded) {
        let Ok(slot) = usize::try_from(slot) else { return };
        if self.entries.get_mut(slot).is_some_and(QueueEntry::handle_last_ended) {
            self.ended.push(EndedQueue { slot, secured });
            self.clear_ended();
        }
    }

    /// Drops the queues that have ended, and frees their places.
    fn clear_ended(&mut self) {
        while let Some(EndedQueue { slot, secured }) = self.ended.pop() {
            let Some(entry) = self.entries.get_mut(slot) else { continue };
            // Nothing older than its fences is left.
            self.fences -= entry.draining.len();
            self.acknowledged.extend(entry.draining.drain(..));
            let retired = Retired { id: entry.id, secured, forced: entry.forced() };
            self.events.push_back(QueueEvent::Retired(retired));
            entry.vacate();
            self.polls.reset(slot);
        }
    }

    /// True when there is something that others are to know.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next thing that others are to know.
    pub(crate) fn poll_event(&mut self) -> Option<QueueEvent> {
        self.events.pop_front()
    }

    /// True when there is no queue, and everybody knows.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.entries.iter().all(QueueEntry::is_vacant)
    }

    /// True when no queue was ever opened, and nobody is to be told anything.
    pub(crate) fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.acknowledged.is_empty() && self.events.is_empty()
    }

    /// Submits for a connection.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        slot: Slot,
        submission: Submission<K::Request>,
    ) -> Result<(), SubmitError<K>> {
        let Submission { volume: served, epoch, mut request } = submission;
        let Some(entry) = self.entries.get_mut(served.slot()) else {
            return Err(SubmitError::Full(Submission { volume: served, epoch, request }));
        };
        if epoch != entry.epoch || served != entry.id {
            return Err(SubmitError::StaleEpoch(Submission { volume: served, epoch, request }));
        }
        let own = request.tag();
        request.set_tag(join(slot, entry.side, own));
        self.polls.mark(served.slot());
        K::submit(&mut entry.queue, now, request).map_err(|mut request| {
            request.set_tag(own);
            SubmitError::Full(Submission { volume: served, epoch, request })
        })?;
        entry.outstanding[entry.side] += 1;
        Ok(())
    }

    /// Asks that a connection's request end soon.
    pub(crate) fn cancel(&mut self, slot: Slot, served: ServedId, own: Tag) {
        if let Some(entry) = self.entries.get_mut(served.slot()).filter(|entry| entry.id == served) {
            K::cancel(&mut entry.queue, join(slot, 0, own));
            K::cancel(&mut entry.queue, join(slot, 1, own));
            self.polls.mark(served.slot());
        }
    }

    /// Takes all completions and gives each to `deliver` with the slot that asked, the name of what was asked, and its own tag restored.
    /// Answers whether there was any.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        mut deliver: impl FnMut(Slot, Option<&Arc<str>>, K::Completion),
    ) -> bool {
        let mut any = false;
        self.polls.take(now, &mut self.wanted);
        for index in self.wanted.drain(..) {
            let Some(entry) = self.entries.get_mut(index) else { continue };
            K::poll(&mut entry.queue, now, &mut self.done);
            let gave = !self.done.is_empty();
            any |= gave;
            for mut completion in self.done.drain(..) {
                let (slot, side, own) = split(completion.tag());
                entry.outstanding[side] = entry.outstanding[side].saturating_sub(1);
                completion.set_tag(own);
                deliver(slot, entry.name(), completion);
            }
            // A queue with nothing under way has nothing to give; what else it wants comes by its waker or its deadline.
            let mut may_have_more = gave && entry.outstanding != [0, 0];
            let mut timeout = K::poll_timeout(&entry.queue);
            if !entry.is_serving() {
                while let Some(progress) = entry.advance(now) {
                    match progress {
                        Progress::Ask => self.events.push_back(QueueEvent::AskUsers(entry.id)),
                        Progress::Overdue => self.events.push_back(QueueEvent::Overdue(entry.id)),
                        Progress::Securing => {
                            self.events.push_back(QueueEvent::Securing);
                            may_have_more = true;
                        }
                        Progress::Retired { secured } => self.ended.push(EndedQueue { slot: index, secured }),
                    }
                }
                timeout = [timeout, entry.deadline()].into_iter().flatten().min();
            }
            self.polls.handle_polled(index, Polled { may_have_more, timeout });
        }
        self.clear_ended();
        any
    }

    /// Begins a fence: `number` is the epoch of what is served from now on, and requests submitted from now on do not count for it.
    pub(crate) fn fence(&mut self, served: ServedId, number: u64) {
        let Some(entry) = self.entries.get_mut(served.slot()).filter(|entry| entry.id == served) else {
            // Nothing can be under way of what is not served here.
            return self.acknowledged.push(number);
        };
        entry.fence(number);
        self.fences += 1;
    }

    /// Gives to `acknowledge` every fence whose older requests have all ended.
    pub(crate) fn take_drained(&mut self, mut acknowledge: impl FnMut(u64)) {
        self.acknowledged.drain(..).for_each(&mut acknowledge);
        if self.fences == 0 {
            return;
        }
        for entry in &mut self.entries {
            while !entry.draining.is_empty() && entry.outstanding[1 - entry.side] == 0 {
                if let Some(number) = entry.draining.pop_front() {
                    self.fences -= 1;
                    acknowledge(number);
                }
                if !entry.draining.is_empty() {
                    entry.side = 1 - entry.side;
                }
            }
        }
    }

    /// When the queues want to be polled even if nothing wakes them.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.polls.poll_timeout()
    }

    /// Requests under way.
    #[cfg(test)]
    pub(crate) fn outstanding(&self) -> usize {
        self.entries.iter().map(QueueEntry::under_way).sum()
    }
}

impl<K: ServedKind> std::fmt::Debug for Queues<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use volume::{Completion, Epoch, Operation, Outcome, QueueFull, Request, Volume, VolumeId, VolumeQueue};

    use super::*;
    use crate::catalogue::ServedVolume;
    use crate::volume_kind::VolumeKind;

    type Queues = super::Queues<VolumeKind>;
    type SubmitError = super::SubmitError<VolumeKind>;

    const DISK: VolumeId = VolumeId::new(0, 0);

    fn queues(queue: Box<dyn VolumeQueue>) -> Queues {
        let mut queues = prepared(queue);
        queues.commit();
        queues
    }

    /// The same, and nobody knows of it yet.
    fn prepared(queue: Box<dyn VolumeQueue>) -> Queues {
        let volume: Arc<dyn Volume> = Arc::new(volume::Null::new(1 << 20, 512).unwrap());
        let served = ServedVolume { id: VolumeId::new(0, 0), name: "disk".into(), volume };
        let mut queues = Queues::new(Waker::noop().clone());
        queues.polls.grow(1);
        queues.entries.push(QueueEntry::new(served, queue));
        queues
    }

    /// A queue that completes what the test says, and wakes nobody.
    #[derive(Default, Clone)]
    struct Held(Rc<RefCell<(Vec<Tag>, usize)>>);

    impl VolumeQueue for Held {
        fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
            self.0.borrow_mut().0.push(request.tag);
            Ok(())
        }
        fn cancel(&mut self, _: Tag) {}
        fn poll(&mut self, _: Instant, done: &mut Vec<Completion>) {
            let (tags, release) = &mut *self.0.borrow_mut();
            let count = std::mem::take(release);
            done.extend(tags.drain(..count).map(|tag| Completion { tag, result: Ok(Outcome::Done) }));
        }
    }

    /// A queue that is full until it is told otherwise.
    #[derive(Default, Clone)]
    struct Full(Rc<RefCell<bool>>, Held);

    impl VolumeQueue for Full {
        fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
            if *self.0.borrow() { self.1.submit(now, request) } else { Err(QueueFull(request)) }
        }
        fn cancel(&mut self, _: Tag) {}
        fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
            self.1.poll(now, done);
        }
    }

    #[test]
    fn what_a_full_queue_gave_back_is_refused_behind_a_fence() {
        let full = Full::default();
        let mut queues = queues(Box::new(full.clone()));
        let parked = full_of(queues.submit(Instant::ZERO, Slot(3), flush(1, 0)));
        assert_eq!(parked.request.tag, Tag(1), "as it was");
        queues.fence(VolumeId::new(0, 0), 10);
        assert_eq!(drained(&mut queues), [10], "it has not begun");
        *full.0.borrow_mut() = true;
        let late = overtaken(queues.submit(Instant::ZERO, Slot(3), parked));
        assert_eq!(late.request.tag, Tag(1), "as it was");
        assert_eq!(full.1.0.borrow().0, [], "the volume has not seen it");
        queues.submit(Instant::ZERO, Slot(3), Submission { epoch: Epoch(10), ..late }).unwrap();
        queues.fence(VolumeId::new(0, 0), 11);
        assert_eq!(drained(&mut queues), []);
        full.1.0.borrow_mut().1 = 1;
        queues.poll(Instant::ZERO, |_, _, _| {});
        assert_eq!(drained(&mut queues), [11]);
    }

    fn flush(own: u64, epoch: u64) -> Submission {
        let request = Request { tag: Tag(own), operation: Operation::Flush };
        Submission { volume: VolumeId::new(0, 0), epoch: Epoch(epoch), request }
    }

    fn full_of(taken: Result<(), SubmitError>) -> Submission {
        match taken {
            Err(SubmitError::Full(submission)) => submission,
            other => panic!("{other:?}"),
        }
    }

    fn overtaken(taken: Result<(), SubmitError>) -> Submission {
        match taken {
            Err(SubmitError::StaleEpoch(submission)) => submission,
            other => panic!("{other:?}"),
        }
    }

    fn drained(queues: &mut Queues) -> Vec<u64> {
        let mut numbers = Vec::new();
        queues.take_drained(|number| numbers.push(number));
        numbers
    }

    #[test]
    fn a_request_for_the_volume_that_had_the_place_before_is_refused() {
        let held = Held::default();
        let mut queues = queues(Box::new(held.clone()));
        queues.entries[0].id = VolumeId::new(0, 1);
        let late = overtaken(queues.submit(Instant::ZERO, Slot(3), flush(1, 0)));
        assert_eq!((late.request.tag, late.volume), (Tag(1), VolumeId::new(0, 0)), "as it was");
        assert_eq!(held.0.borrow().0, [], "no volume has seen it");
        let now = Submission { volume: VolumeId::new(0, 1), ..late };
        queues.submit(Instant::ZERO, Slot(3), now).unwrap();
    }

    #[test]
    fn a_queue_that_ends_takes_nothing_more_and_flushes_after_what_was_under_way() {
        for secured in [true, false] {
            let held = Held::default();
            let mut queues = queues(Box::new(held.clone()));
            queues.submit(Instant::ZERO, Slot(3), flush(1, 0)).unwrap();
            assert!(queues.retire(Instant::ZERO));
            overtaken(queues.submit(Instant::ZERO, Slot(3), flush(2, 0)));
            queues.fence(VolumeId::new(0, 0), 10);
            overtaken(queues.submit(Instant::ZERO, Slot(3), flush(2, 10)));
            queues.poll(Instant::ZERO, |_, _, _| panic!("nothing has ended"));
            assert_eq!(held.0.borrow().0.len(), 1, "one is under way");
            let mut ended = Vec::new();
            for _ in 0..2 {
                held.0.borrow_mut().1 = 1;
                queues.polls.mark(0);
                queues.poll(Instant::ZERO, |slot, _, done| ended.push((slot, done.tag)));
            }
            assert_eq!(ended, [(Slot(3), Tag(1)), (LAST, Tag(0))]);
            assert!(!queues.is_empty());
            queues.handle_last_ended(LastEnded { slot: Tag(0), secured });
            assert_eq!(drained(&mut queues), [10]);
            let retired = Retired { id: DISK, secured, forced: 0 };
            assert_eq!(events(&mut queues), [QueueEvent::Securing, QueueEvent::Retired(retired)]);
            assert!(queues.is_empty());
            overtaken(queues.submit(Instant::ZERO, Slot(3), flush(2, u64::MAX)));
        }
    }

    fn events(queues: &mut Queues) -> Vec<QueueEvent> {
        std::iter::from_fn(|| queues.poll_event()).collect()
    }

    fn poll_at(queues: &mut Queues, millis: u64) -> Vec<QueueEvent> {
        queues.poll(at(millis), |_, _, _| {});
        events(queues)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_withdrawn_volume_is_served_while_it_is_used_and_its_users_are_asked_at_intervals() {
        let held = Held::default();
        let mut queues = queues(Box::new(held.clone()));
        queues.withdraw(Instant::ZERO, |_| true);
        assert_eq!(poll_at(&mut queues, 0), [], "it stays");
        queues.withdraw(Instant::ZERO, |_| false);
        assert_eq!(poll_at(&mut queues, 0), [QueueEvent::AskUsers(DISK)]);
        assert!(!queues.await_users(at(0), DISK, 2));
        queues.submit(at(0), Slot(3), flush(1, 0)).unwrap();
        queues.handle_use(at(1), DISK, UseReport::InUse);
        assert_eq!(poll_at(&mut queues, 100), [], "one has not answered");
        queues.handle_use(at(100), VolumeId::new(0, 1), UseReport::Unused);
        queues.handle_use(at(100), DISK, UseReport::Unused);
        assert_eq!(poll_at(&mut queues, 149), []);
        assert_eq!(queues.poll_timeout(), Some(at(150)));
        assert_eq!(poll_at(&mut queues, 150), [QueueEvent::AskUsers(DISK)]);
        queues.await_users(at(150), DISK, 1);
        queues.handle_use(at(150), DISK, UseReport::Unused);
        queues.submit(at(150), Slot(3), flush(2, 0)).unwrap();
        assert_eq!(poll_at(&mut queues, 200), [QueueEvent::AskUsers(DISK)], "its requests count");
        held.0.borrow_mut().1 = 2;
        queues.polls.mark(0);
        assert_eq!(poll_at(&mut queues, 201), []);
        queues.await_users(at(201), DISK, 1);
        queues.handle_use(at(201), DISK, UseReport::Unused);
        overtaken(queues.submit(at(201), Slot(3), flush(3, 0)));
        assert_eq!(poll_at(&mut queues, 201), [QueueEvent::Securing]);
    }

    #[test]
    fn who_still_uses_a_withdrawn_volume_has_limited_time() {
        let mut queues = queues(Box::new(Held::default()));
        queues.withdraw(Instant::ZERO, |_| false);
        assert_eq!(poll_at(&mut queues, 0), [QueueEvent::AskUsers(DISK)]);
        queues.await_users(at(0), DISK, 1);
        queues.submit(at(4999), Slot(3), flush(1, 0)).unwrap();
        assert_eq!(poll_at(&mut queues, 4999), []);
        assert_eq!(queues.poll_timeout(), Some(at(5000)), "who was asked may not answer");
        assert_eq!(poll_at(&mut queues, 5000), [QueueEvent::Overdue(DISK)]);
        overtaken(queues.submit(at(5000), Slot(3), flush(2, 0)));
        queues.handle_use(at(5001), DISK, UseReport::Unused);
        assert_eq!(poll_at(&mut queues, 60_000), [], "what is under way is not forgotten");
        assert_eq!(queues.entries[0].forced(), 1);
    }

    #[test]
    fn nobody_is_asked_where_nobody_is_connected() {
        let mut queues = queues(Box::new(Held::default()));
        queues.withdraw(Instant::ZERO, |_| false);
        assert_eq!(poll_at(&mut queues, 0), [QueueEvent::AskUsers(DISK)]);
        assert!(queues.await_users(at(0), DISK, 0));
        assert_eq!(poll_at(&mut queues, 0), [QueueEvent::Securing]);
    }

    #[test]
    fn a_fence_may_come_before_the_volume_is_served_here() {
        let mut queues = prepared(Box::new(Held::default()));
        queues.fence(DISK, 10);
        queues.commit();
        assert_eq!(drained(&mut queues), [10]);
        overtaken(queues.submit(Instant::ZERO, Slot(3), flush(1, 0)));
        queues.submit(Instant::ZERO, Slot(3), flush(1, 10)).unwrap();
    }

    #[test]
    fn a_fence_for_a_volume_that_is_not_served_here_is_acknowledged_at_once() {
        let mut queues = queues(Box::new(Held::default()));
        queues.submit(Instant::ZERO, Slot(3), flush(1, 0)).unwrap();
        queues.fence(VolumeId::new(7, 0), 10);
        queues.fence(VolumeId::new(0, 1), 11);
        assert_eq!(drained(&mut queues), [10, 11]);
        assert_eq!(drained(&mut queues), []);
        queues.submit(Instant::ZERO, Slot(3), flush(2, 0)).unwrap();
    }

    /// A queue that wants to be polled every 10 ns, and counts how often it was.
    struct Restless(Rc<RefCell<Vec<u64>>>);

    impl VolumeQueue for Restless {
        fn submit(&mut self, _: Instant, request: Request) -> Result<(), QueueFull> {
            Err(QueueFull(request))
        }
        fn cancel(&mut self, _: Tag) {}
        fn poll(&mut self, now: Instant, _: &mut Vec<Completion>) {
            self.0.borrow_mut().push(now.as_nanos());
        }
        fn poll_timeout(&self) -> Option<Instant> {
            self.0.borrow().last().map(|last| Instant::from_nanos(last + 10))
        }
    }

    #[test]
    fn a_queue_without_requests_is_polled_at_its_deadlines() {
        let polled = Rc::<RefCell<Vec<u64>>>::default();
        let mut queues = queues(Box::new(Restless(Rc::clone(&polled))));
        for now in [0, 5, 10, 12, 19, 20, 21] {
            queues.poll(Instant::from_nanos(now), |_, _, _| {});
        }
        assert_eq!(*polled.borrow(), [0, 10, 20]);
        assert_eq!(queues.poll_timeout(), Some(Instant::from_nanos(30)));
    }

    #[test]
    fn a_fence_waits_for_older_requests_only() {
        let held = Held::default();
        let mut queues = queues(Box::new(held.clone()));
        queues.submit(Instant::ZERO, Slot(3), flush(1, 0)).unwrap();
        queues.fence(VolumeId::new(0, 0), 10);
        overtaken(queues.submit(Instant::ZERO, Slot(4), flush(2, 0)));
        queues.submit(Instant::ZERO, Slot(4), flush(2, 10)).unwrap();
        queues.fence(VolumeId::new(0, 0), 11);
        assert_eq!(drained(&mut queues), []);
        held.0.borrow_mut().1 = 1;
        let mut seen = Vec::new();
        queues.poll(Instant::ZERO, |slot, _, completion| seen.push((slot.0, completion.tag.0)));
        assert_eq!(seen, [(3, 1)]);
        assert_eq!(drained(&mut queues), [10], "the second fence waits for the request between them");
        held.0.borrow_mut().1 = 1;
        queues.poll(Instant::ZERO, |_, _, _| {});
        assert_eq!(drained(&mut queues), [11]);
        assert_eq!(queues.outstanding(), 0);
    }
}
