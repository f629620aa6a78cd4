//! Which of many queues want to be polled: who has a thousand of them must not ask each in every turn.
//!
//! A queue wants to be polled when its waker was woken, when it was called, when its last poll gave something and more is under way, or when its own
//! deadline has come, whether or not anything is under way: what the contract promises, put the other way round. Each queue has a bit. The thread that polls sets bits without
//! locking anything, as nearly all wake-ups are its own; other threads have bits of their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

use protocol::Instant;

/// Queues in one word of bits.
const WORD: usize = u64::BITS as usize;

/// The queues of one thread, numbered from zero, and which of them want to be polled.
#[derive(Debug)]
pub struct PollList {
    core: Waker,
    /// The bits, a word's worth of queues in each: wakers keep theirs, so that the list can grow.
    chunks: Vec<Arc<Chunk>>,
    /// Deadlines by queue. An entry that is not the queue's `scheduled` one any more says nothing.
    deadlines: BinaryHeap<Reverse<(Instant, usize)>>,
    scheduled: Vec<Option<Instant>>,
    /// It stays on the thread that made it.
    _stays: PhantomData<*const ()>,
}

impl PollList {
    /// A list for `count` queues, all of which want to be polled. `core` is woken when one begins to; the calling thread is the one
    /// that polls.
    pub fn new(count: usize, core: Waker) -> Self {
        let (chunks, deadlines, scheduled) = (Vec::new(), BinaryHeap::new(), Vec::new());
        let mut list = Self { core, chunks, deadlines, scheduled, _stays: PhantomData };
        list.grow(count);
        list
    }

    /// Makes room for `count` queues in all. Those that are new want to be polled.
    pub fn grow(&mut self, count: usize) {
        let before = self.scheduled.len();
        while self.chunks.len() < count.div_ceil(WORD) {
            self.chunks.push(Arc::new(Chunk::new(self.core.clone())));
        }
        self.scheduled.resize(before.max(count), None);
        (before..count).for_each(|index| self.mark(index));
    }

    /// Queue `index` is gone: neither its wakers nor its deadline mean anything to the next one of that number, which is polled in vain at most.
    pub fn reset(&mut self, index: usize) {
        if let Some(scheduled) = self.scheduled.get_mut(index) {
            *scheduled = None;
        }
    }

    /// What queue `index` is to be opened with; a waker that does nothing where the list has no such queue.
    pub fn waker(&self, index: usize) -> Waker {
        let chunk = self.chunks.get(index / WORD);
        chunk.map_or_else(
            || Waker::noop().clone(),
            |chunk| Waker::from(Arc::new(QueueWaker { chunk: Arc::clone(chunk), bit: bit(index) })),
        )
    }

    /// Queue `index` was called, so that it may have something without a wake-up.
    pub fn mark(&self, index: usize) {
        if let Some(chunk) = self.chunks.get(index / WORD) {
            chunk.set_own(bit(index));
        }
    }

    /// Adds the numbers of all queues that want to be polled at `now`, in order. Each is to be polled, and then told of with
    /// [`PollList::handle_polled`].
    pub fn take(&mut self, now: Instant, wanted: &mut Vec<usize>) {
        while let Some(&Reverse((when, index))) = self.deadlines.peek().filter(|entry| entry.0.0 <= now) {
            self.deadlines.pop();
            if let Some(scheduled) = self.scheduled.get_mut(index).filter(|due| **due == Some(when)) {
                *scheduled = None;
                self.mark(index);
            }
        }
        for (number, chunk) in self.chunks.iter().enumerate() {
            let mut bits = chunk.take();
            while bits != 0 {
                wanted.push(number * WORD + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Queue `index` was polled.
    pub fn handle_polled(&mut self, index: usize, polled: Polled) {
        let Polled { may_have_more, timeout } = polled;
        if may_have_more {
            self.mark(index);
        }
        let Some((scheduled, timeout)) = self.scheduled.get_mut(index).zip(timeout) else { return };
        // A later one costs nothing: when the entry comes due the queue is polled in vain, and asked again.
        if scheduled.is_none_or(|earliest| timeout < earliest) {
            *scheduled = Some(timeout);
            self.deadlines.push(Reverse((timeout, index)));
        }
    }

    /// When a queue's deadline comes, at the earliest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((when, _))| *when)
    }
}

/// What came of polling a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// It may have more to give at once.
    pub may_have_more: bool,
    /// When it wants to be polled next though nothing wakes it.
    pub timeout: Option<Instant>,
}

/// The bits of up to 64 queues, which wakers set.
#[derive(Debug)]
struct Chunk {
    core: Waker,
    /// The thread that polls, as [`this_thread`] names it.
    owner: usize,
    /// Set and cleared by that thread alone.
    own: AtomicU64,
    foreign: AtomicU64,
}

impl Chunk {
    fn new(core: Waker) -> Self {
        Self { core, owner: this_thread(), own: AtomicU64::new(0), foreign: AtomicU64::new(0) }
    }

    /// Sets a bit of the polling thread's, on that thread.
    fn set_own(&self, bit: u64) {
        self.own.store(self.own.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
    }

    /// Sets a bit of the other threads'; true when it was clear.
    fn set_foreign(&self, bit: u64) -> bool {
        self.foreign.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    /// Clears all bits, on the polling thread, and says which were set.
    fn take(&self) -> u64 {
        let mut bits = self.own.load(Ordering::Relaxed);
        if bits != 0 {
            self.own.store(0, Ordering::Relaxed);
        }
        if self.foreign.load(Ordering::Relaxed) != 0 {
            bits |= self.foreign.swap(0, Ordering::AcqRel);
        }
        bits
    }
}

fn bit(index: usize) -> u64 {
    1 << (index % WORD)
}

/// Wakes the core for one queue.
struct QueueWaker {
    chunk: Arc<Chunk>,
    bit: u64,
}

impl Wake for QueueWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let chunk = &self.chunk;
        let own = chunk.owner == this_thread();
        // Where the bit is set already the core has been woken, or is about to be, and has not looked since; but what was called
        // on the polling thread set it without a wake-up.
        if own {
            chunk.set_own(self.bit);
            chunk.core.wake_by_ref();
        } else if chunk.set_foreign(self.bit) {
            chunk.core.wake_by_ref();
        }
    }
}

/// A number that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts how often a core is woken.
    #[derive(Debug, Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn list(count: usize) -> (PollList, Arc<Bell>) {
        let bell = Arc::new(Bell::default());
        (PollList::new(count, Waker::from(Arc::clone(&bell))), bell)
    }

    fn taken(list: &mut PollList, now: u64) -> Vec<usize> {
        let mut wanted = Vec::new();
        list.take(Instant::from_nanos(now), &mut wanted);
        wanted
    }

    #[test]
    fn all_want_to_be_polled_at_first_and_then_only_who_was_called_woken_or_gave_something() {
        let (mut list, bell) = list(130);
        assert_eq!(taken(&mut list, 0), (0..130).collect::<Vec<_>>());
        assert_eq!(taken(&mut list, 0), []);
        list.mark(129);
        list.waker(63).wake();
        list.waker(64).wake_by_ref();
        assert_eq!(bell.0.load(Ordering::SeqCst), 2, "a call is no reason to wake the core that made it");
        assert_eq!(taken(&mut list, 0), [63, 64, 129]);
        list.handle_polled(63, Polled { may_have_more: true, timeout: None });
        list.handle_polled(64, Polled { may_have_more: false, timeout: None });
        assert_eq!(taken(&mut list, 0), [63]);
    }

    #[test]
    fn a_list_grows_while_others_hold_wakers_of_it() {
        let (mut list, bell) = list(1);
        let first = list.waker(0);
        taken(&mut list, 0);
        list.grow(66);
        assert_eq!(taken(&mut list, 0), (1..66).collect::<Vec<_>>(), "those that are new");
        list.waker(65).wake();
        std::thread::scope(|scope| scope.spawn(|| first.wake_by_ref()).join().unwrap());
        assert_eq!((taken(&mut list, 0), bell.0.load(Ordering::SeqCst)), (vec![0, 65], 2));
        list.waker(128).wake();
        assert_eq!(taken(&mut list, 0), [], "there is no such queue");
    }

    #[test]
    fn the_next_queue_of_a_number_has_no_deadline_of_the_last_one() {
        let (mut list, _) = list(2);
        taken(&mut list, 0);
        list.handle_polled(0, Polled { may_have_more: false, timeout: Some(Instant::from_nanos(20)) });
        list.reset(0);
        assert_eq!(taken(&mut list, 20), []);
        list.handle_polled(0, Polled { may_have_more: false, timeout: Some(Instant::from_nanos(50)) });
        assert_eq!(list.poll_timeout(), Some(Instant::from_nanos(50)));
    }

    #[test]
    fn a_wake_up_from_another_thread_is_seen_and_wakes_the_core_once_until_it_looks() {
        let (mut list, bell) = list(3);
        taken(&mut list, 0);
        let waker = list.waker(1);
        let elsewhere = || std::thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        elsewhere();
        elsewhere();
        assert_eq!(bell.0.load(Ordering::SeqCst), 1);
        assert_eq!(taken(&mut list, 0), [1]);
        elsewhere();
        assert_eq!(bell.0.load(Ordering::SeqCst), 2);
        waker.wake_by_ref();
        assert_eq!(taken(&mut list, 0), [1], "woken by both, it is taken once");
    }

    #[test]
    fn a_deadline_makes_a_queue_wanted_when_it_comes() {
        let at = |nanos| Some(Instant::from_nanos(nanos));
        let (mut list, _) = list(2);
        taken(&mut list, 0);
        list.handle_polled(0, Polled { may_have_more: false, timeout: at(30) });
        list.handle_polled(1, Polled { may_have_more: false, timeout: at(20) });
        assert_eq!(list.poll_timeout(), at(20));
        list.handle_polled(1, Polled { may_have_more: false, timeout: at(50) });
        list.handle_polled(0, Polled { may_have_more: false, timeout: at(10) });
        assert_eq!((taken(&mut list, 9), taken(&mut list, 10)), (vec![], vec![0]));
        assert_eq!(
            taken(&mut list, 40),
            [1],
            "its deadline has moved, so it is asked again; the other's was taken"
        );
        list.handle_polled(1, Polled { may_have_more: false, timeout: at(50) });
        assert_eq!((taken(&mut list, 50), list.poll_timeout()), (vec![1], None));
    }

    #[test]
    fn what_is_woken_while_it_is_polled_is_polled_again() {
        let (mut list, _) = list(2);
        assert_eq!(taken(&mut list, 0), [0, 1]);
        list.waker(0).wake();
        list.handle_polled(0, Polled { may_have_more: false, timeout: None });
        assert_eq!(taken(&mut list, 0), [0]);
    }
}
