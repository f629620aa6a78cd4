//! One core's volume queues: where requests go, and whose completions come back.
//!
//! A request's tag in a queue is made of the asker's slot, the fence side it was submitted on, and the
//! connection's own number. The side makes draining exact: when a reservation changes, new requests go to the
//! other side, and the change is acknowledged when the old side's count reaches zero, however many new
//! requests keep coming.

use protocol::Instant;
use volume::{Completion, PollList, QueueFull, Request, Tag, VolumeId, VolumeQueue};

use crate::limits::COMPLETIONS_GUESS;

/// A driver's place in the hub's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u32);

const SLOT_SHIFT: u32 = 33;
const SIDE_BIT: u64 = 1 << 32;
const OWN_MASK: u64 = SIDE_BIT - 1;

fn join(slot: Slot, side: usize, own: Tag) -> Tag {
    let side_bit = if side == 0 { 0 } else { SIDE_BIT };
    Tag(u64::from(slot.0) << SLOT_SHIFT | side_bit | own.0 & OWN_MASK)
}

fn split(tag: Tag) -> (Slot, usize, Tag) {
    let slot = Slot(u32::try_from(tag.0 >> SLOT_SHIFT).unwrap_or(u32::MAX));
    (slot, usize::from(tag.0 & SIDE_BIT != 0), Tag(tag.0 & OWN_MASK))
}

/// A request that a full queue gave back, as it was.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) volume: VolumeId,
    pub(crate) request: Request,
    /// The fence side that it counts on.
    side: usize,
}

struct Line {
    queue: Box<dyn VolumeQueue>,
    outstanding: [usize; 2],
    side: usize,
    /// The fence that waits for the old side, and those behind it.
    draining: std::collections::VecDeque<u64>,
}

/// The queues of one core, in the order of the export table.
pub(crate) struct Queues {
    lines: Vec<Line>,
    /// Which lines' queues have something to say: an export table may be long.
    polls: PollList,
    wanted: Vec<usize>,
    done: Vec<Completion>,
    /// Fences that wait, on all lines.
    fences: usize,
}

impl Queues {
    /// Queues that were opened with the wakers of `polls`.
    pub(crate) fn new(queues: Vec<Box<dyn VolumeQueue>>, polls: PollList) -> Self {
        let wanted = Vec::with_capacity(queues.len());
        let lines = queues
            .into_iter()
            .map(|queue| Line {
                queue,
                outstanding: [0; 2],
                side: 0,
                draining: std::collections::VecDeque::new(),
            })
            .collect();
        Self { lines, polls, wanted, done: Vec::with_capacity(COMPLETIONS_GUESS), fences: 0 }
    }

    /// Submits for a connection; a full queue gives the request back, to be submitted again with [`Queues::resubmit`]. It counts
    /// as under way all the same: a fence that comes meanwhile waits for it too.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        slot: Slot,
        (volume, request): (VolumeId, Request),
    ) -> Result<(), Parked> {
        let parked = self.park(volume, request);
        self.resubmit(now, slot, parked)
    }

    /// Counts a request that is to be submitted later.
    pub(crate) fn park(&mut self, volume: VolumeId, request: Request) -> Parked {
        let side = self.lines.get_mut(volume.0 as usize).map_or(0, |line| {
            line.outstanding[line.side] += 1;
            line.side
        });
        Parked { volume, request, side }
    }

    /// Submits what a full queue had given back.
    pub(crate) fn resubmit(&mut self, now: Instant, slot: Slot, parked: Parked) -> Result<(), Parked> {
        let Parked { volume, mut request, side } = parked;
        let own = request.tag;
        let Some(line) = self.lines.get_mut(volume.0 as usize) else {
            return Err(Parked { volume, request, side });
        };
        request.tag = join(slot, side, own);
        self.polls.mark(volume.0 as usize);
        line.queue.submit(now, request).map_err(|QueueFull(mut request)| {
            request.tag = own;
            Parked { volume, request, side }
        })
    }

    /// A request that a full queue had given back will not be submitted again.
    pub(crate) fn withdraw(&mut self, parked: &Parked) {
        if let Some(line) = self.lines.get_mut(parked.volume.0 as usize) {
            line.outstanding[parked.side] = line.outstanding[parked.side].saturating_sub(1);
        }
    }

    /// Asks that a connection's request end soon.
    pub(crate) fn cancel(&mut self, slot: Slot, volume: VolumeId, own: Tag) {
        if let Some(line) = self.lines.get_mut(volume.0 as usize) {
            line.queue.cancel(join(slot, 0, own));
            line.queue.cancel(join(slot, 1, own));
            self.polls.mark(volume.0 as usize);
        }
    }

    /// Takes all completions and gives each to `deliver` with the slot that asked and its own tag restored.
    /// Answers whether there was any.
    pub(crate) fn poll(&mut self, now: Instant, mut deliver: impl FnMut(Slot, Completion)) -> bool {
        let mut any = false;
        self.polls.take(now, &mut self.wanted);
        for index in self.wanted.drain(..) {
            let line = self.lines.get_mut(index).filter(|line| line.outstanding != [0, 0]);
            let Some(line) = line else { continue };
            line.queue.poll(now, &mut self.done);
            let gave = !self.done.is_empty();
            self.polls.handle_polled(index, gave, line.queue.poll_timeout());
            any |= gave;
            for mut completion in self.done.drain(..) {
                let (slot, side, own) = split(completion.tag);
                line.outstanding[side] = line.outstanding[side].saturating_sub(1);
                completion.tag = own;
                deliver(slot, completion);
            }
        }
        any
    }

    /// Begins a fence on a volume: requests submitted from now on do not count for it.
    pub(crate) fn fence(&mut self, volume: VolumeId, number: u64) {
        let Some(line) = self.lines.get_mut(volume.0 as usize) else { return };
        if line.draining.is_empty() {
            line.side = 1 - line.side;
        }
        line.draining.push_back(number);
        self.fences += 1;
    }

    /// Gives to `acknowledge` every fence whose older requests have all ended.
    pub(crate) fn take_drained(&mut self, mut acknowledge: impl FnMut(u64)) {
        if self.fences == 0 {
            return;
        }
        for line in &mut self.lines {
            while !line.draining.is_empty() && line.outstanding[1 - line.side] == 0 {
                if let Some(number) = line.draining.pop_front() {
                    self.fences -= 1;
                    acknowledge(number);
                }
                if !line.draining.is_empty() {
                    line.side = 1 - line.side;
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
        self.lines.iter().map(|line| line.outstanding[0] + line.outstanding[1]).sum()
    }
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").field("volumes", &self.lines.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::task::Waker;

    use volume::{Operation, Outcome};

    use super::*;

    #[test]
    fn tags_keep_slot_side_and_number() {
        for slot in [0, 1, 0x7fff_ffff] {
            for side in [0, 1] {
                for own in [0, 7, u64::from(u32::MAX)] {
                    assert_eq!(split(join(Slot(slot), side, Tag(own))), (Slot(slot), side, Tag(own)));
                }
            }
        }
    }

    fn queues(queue: Box<dyn VolumeQueue>) -> Queues {
        Queues::new(vec![queue], PollList::new(1, Waker::noop().clone()))
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
    fn a_fence_waits_for_what_a_full_queue_gave_back() {
        let full = Full::default();
        let mut queues = queues(Box::new(full.clone()));
        let (volume, request) = flush(1);
        let parked = queues.submit(Instant::ZERO, Slot(3), (volume, request)).unwrap_err();
        let (volume, request) = flush(2);
        let other = queues.submit(Instant::ZERO, Slot(4), (volume, request)).unwrap_err();
        queues.fence(VolumeId(0), 10);
        assert_eq!(drained(&mut queues), [], "both would still take effect");
        *full.0.borrow_mut() = true;
        queues.resubmit(Instant::ZERO, Slot(3), parked).unwrap();
        queues.withdraw(&other);
        assert_eq!(drained(&mut queues), []);
        full.1.0.borrow_mut().1 = 1;
        queues.poll(Instant::ZERO, |slot, completion| assert_eq!((slot.0, completion.tag.0), (3, 1)));
        assert_eq!(drained(&mut queues), [10]);
    }

    fn flush(own: u64) -> (VolumeId, Request) {
        (VolumeId(0), Request { tag: Tag(own), operation: Operation::Flush })
    }

    fn drained(queues: &mut Queues) -> Vec<u64> {
        let mut numbers = Vec::new();
        queues.take_drained(|number| numbers.push(number));
        numbers
    }

    #[test]
    fn a_fence_waits_for_older_requests_only() {
        let held = Held::default();
        let mut queues = queues(Box::new(held.clone()));
        queues.submit(Instant::ZERO, Slot(3), flush(1)).unwrap();
        queues.fence(VolumeId(0), 10);
        queues.submit(Instant::ZERO, Slot(4), flush(2)).unwrap();
        queues.fence(VolumeId(0), 11);
        assert_eq!(drained(&mut queues), []);
        held.0.borrow_mut().1 = 1;
        let mut seen = Vec::new();
        queues.poll(Instant::ZERO, |slot, completion| seen.push((slot.0, completion.tag.0)));
        assert_eq!(seen, [(3, 1)]);
        assert_eq!(drained(&mut queues), [10], "the second fence waits for the request between them");
        held.0.borrow_mut().1 = 1;
        queues.poll(Instant::ZERO, |_, _| {});
        assert_eq!(drained(&mut queues), [11]);
        assert_eq!(queues.outstanding(), 0);
    }
}
