//! Commands that wait for memory, and who gets it next.
//!
//! They get it in the order in which they came, so that a long one is not passed for ever. What is little need not wait behind what is long: it
//! may have its buffer beside the queue, within the floor that an account may hold whatever others do, and the places of those before it stay.

use alloc::collections::VecDeque;

use buf::{Account, Buf};

use super::buffer_need::BufferNeed;
use super::tasks::Tasks;

/// A task that waits no more.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) slot: u16,
    pub(super) buf: Buf,
}

/// How far a look through the queue has come.
#[derive(Debug)]
pub(super) enum Pass {
    /// The first in line has not been refused.
    InLine,
    /// It has: those behind it, from this place on, may have something of the floor.
    Beside(usize),
}

/// The queue.
#[derive(Debug)]
pub(super) struct BufferQueue {
    /// The oldest first.
    waiting: VecDeque<u16>,
    /// The pool's count of returns when they were last tried.
    tried_at: u64,
}

impl BufferQueue {
    /// A queue in which nothing waits.
    pub(super) fn new(account: &Account) -> Self {
        Self { waiting: VecDeque::new(), tried_at: account.returns() }
    }

    /// True while nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A buffer for a task, or a place behind those that wait already.
    #[inline]
    pub(super) fn request(&mut self, slot: u16, need: &mut BufferNeed, account: &mut Account) -> Option<Buf> {
        let buf = if self.waiting.is_empty() { need.take(account) } else { need.take_from_floor(account) };
        if buf.is_none() {
            self.waiting.push_back(slot);
        }
        buf
    }

    /// A look through the queue, if memory has come back since the last.
    pub(super) fn begin_pass(&mut self, account: &Account) -> Option<Pass> {
        let returns = account.returns();
        let is_news = core::mem::replace(&mut self.tried_at, returns) != returns;
        is_news.then_some(Pass::InLine)
    }

    /// The next task that gets its buffer in this pass. A connection that holds its floor, as those with much under way do, looks through nothing
    /// behind the first in line.
    pub(super) fn next_granted(
        &mut self,
        pass: &mut Pass,
        tasks: &mut Tasks,
        account: &mut Account,
    ) -> Option<Granted> {
        while let Pass::InLine = pass {
            let slot = *self.waiting.front()?;
            let Some(need) = tasks.awaited_buffer(slot) else {
                self.waiting.pop_front();
                continue;
            };
            if let Some(buf) = need.take(account) {
                self.waiting.pop_front();
                return Some(Granted { slot, buf });
            }
            *pass = Pass::Beside(1);
        }
        while let Pass::Beside(place) = pass
            && account.floor_left() > 0
        {
            let slot = *self.waiting.get(*place)?;
            if let Some(buf) = tasks.awaited_buffer(slot).and_then(|need| need.take_from_floor(account)) {
                self.waiting.remove(*place);
                return Some(Granted { slot, buf });
            }
            *place = place.saturating_add(1);
        }
        None
    }

    /// The task waits no more.
    pub(super) fn remove(&mut self, slot: u16) {
        self.waiting.retain(|waiting| *waiting != slot);
    }

    /// Nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use buf::Pool;
    use volume::{Epoch, Extent, VolumeId};

    use super::super::tasks::{State, Wanted};
    use super::*;

    const LIMIT: usize = 64 << 20;

    /// A queue, tasks that wait in it, and an account beside one that holds most of the pool.
    struct Bench {
        queue: BufferQueue,
        tasks: Tasks,
        account: Account,
        other: Account,
        _idle: Vec<Account>,
    }

    impl Bench {
        fn new() -> Self {
            let pool = Pool::new(LIMIT);
            let (account, mut other) = (Account::new(&pool), Account::new(&pool));
            let idle = (0..48).map(|_| Account::new(&pool)).collect();
            other.count(LIMIT - LIMIT / 8);
            Self { queue: BufferQueue::new(&account), tasks: Tasks::new(8), account, other, _idle: idle }
        }

        /// A task of so many pieces asks for its first; true if it got it.
        fn ask(&mut self, length: u32, pieces: u64) -> bool {
            let tag = u32::try_from(self.tasks.used()).unwrap();
            let slot = self.tasks.insert(tag).unwrap();
            let (volume, epoch) = (VolumeId::new(0, 0), Epoch::default());
            let task = self.tasks.get(slot).unwrap();
            task.state = State::AwaitBuffer(Wanted::Read { volume, epoch, extent: Extent::new(0, 1) });
            task.buffer = BufferNeed::default();
            task.buffer.piece(length, u64::from(length) * pieces);
            self.queue.request(slot, &mut task.buffer, &mut self.account).is_some()
        }

        /// Who gets a buffer now.
        fn pass(&mut self) -> Vec<u16> {
            let Some(mut pass) = self.queue.begin_pass(&self.account) else { return Vec::new() };
            let mut slots = Vec::new();
            while let Some(Granted { slot, .. }) =
                self.queue.next_granted(&mut pass, &mut self.tasks, &mut self.account)
            {
                slots.push(slot);
            }
            slots
        }
    }

    #[test]
    fn those_that_wait_are_served_in_order_once_memory_has_come_back() {
        let mut bench = Bench::new();
        assert!(!bench.ask(8 << 20, 1) && !bench.ask(4 << 20, 1));
        assert!(bench.pass().is_empty(), "nothing has come back");
        bench.other.uncount(LIMIT / 2);
        assert_eq!(bench.pass(), [0, 1]);
        assert!(bench.queue.is_empty());
    }

    #[test]
    fn what_is_little_has_its_buffer_beside_the_queue() {
        let mut bench = Bench::new();
        assert!(!bench.ask(8 << 20, 1), "the first in line waits");
        assert!(bench.ask(4096, 1), "one buffer of the floor");
        assert!(!bench.ask(4096, 2), "not the first of several");
        bench.other.uncount(LIMIT / 2);
        assert_eq!(bench.pass(), [0, 2], "the places have stayed");
    }

    #[test]
    fn the_first_of_several_pieces_is_given_only_with_room_for_all() {
        let mut bench = Bench::new();
        bench.other.uncount(LIMIT / 4);
        assert!(bench.ask(1 << 20, 8), "there is room for all eight");
        let held = bench.account.held();
        assert!(held >= 7 << 20, "{held} bytes are kept for the others");
        bench.tasks.get(0).unwrap().buffer.release(&mut bench.account);
        assert!(bench.account.held() < 1 << 20);
    }

    #[test]
    fn what_was_aborted_is_passed() {
        let mut bench = Bench::new();
        assert!(!bench.ask(8 << 20, 1) && !bench.ask(8 << 20, 1) && !bench.ask(8 << 20, 1));
        bench.queue.remove(0);
        bench.tasks.remove(1);
        bench.other.uncount(LIMIT / 2);
        assert_eq!(bench.pass(), [2]);
    }
}
