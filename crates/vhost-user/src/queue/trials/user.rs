//! Whoever uses the volume: requests on blocks of its own, and what has to come of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::{MemorySource, Pool};
use protocol::{Instant, SeededEntropy};
use volume::{
    Completion, CoreId, Durability, Extent, Operation, Outcome, QueueContext, Request, Tag, VolumeErrorKind,
    VolumeQueue,
};

use super::below;
use super::device::{BYTES, Device, RECONNECT};
use crate::limits::DEPTH;
use crate::queue::Queue;
use crate::shared::Shared;

/// Requests under way at most, each with blocks of its own.
const SLOTS: usize = 32;
const BLOCKS: usize = BYTES / 512 / SLOTS;
/// How often a queue may want to be polled while nothing happens.
const MOST_POLLS: usize = 1000;

#[derive(Debug, Clone)]
enum Doing {
    Read { from: usize, blocks: usize },
    Write { from: usize, blocks: usize, byte: u8, durability: Durability },
    Flush,
}

pub(super) struct User {
    shared: Arc<Shared>,
    queue: Queue,
    /// Memory that the device reaches, and memory that it does not.
    pools: [Pool; 2],
    now: Instant,
    next: u64,
    under_way: BTreeMap<u64, (usize, Doing)>,
    /// What each slot's blocks hold, one byte for a block; `None` where a write failed.
    content: Vec<[Option<u8>; BLOCKS]>,
    is_busy: [bool; SLOTS],
    is_wild: Rc<Cell<bool>>,
    volatile: Rc<RefCell<BTreeSet<u64>>>,
    verified: usize,
    failed: usize,
}

impl User {
    pub(super) fn new(device: &Device) -> Self {
        let shared = Arc::clone(&device.shared);
        let source: Arc<dyn MemorySource> = Arc::new(shared.memory.clone());
        let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
        Self {
            queue: Queue::open(&shared, 0, &context).unwrap(),
            pools: [Pool::with_source(4 << 20, source), Pool::new(4 << 20)],
            shared,
            now: Instant::ZERO,
            next: 0,
            under_way: BTreeMap::new(),
            content: vec![[Some(0); BLOCKS]; SLOTS],
            is_busy: [false; SLOTS],
            is_wild: Rc::clone(&device.is_wild),
            volatile: Rc::clone(&device.volatile),
            verified: 0,
            failed: 0,
        }
    }

    /// Requests that came to what they should, and those that failed.
    pub(super) fn sums(&self) -> [usize; 2] {
        [self.verified, self.failed]
    }

    pub(super) fn act(&mut self, dice: &mut SeededEntropy) {
        let before = self.next;
        for slot in 0..SLOTS {
            if !self.is_busy[slot] && below(dice, 2) == 0 {
                self.ask(slot, dice);
            }
        }
        if self.next != before {
            self.poll();
        }
    }

    fn ask(&mut self, slot: usize, dice: &mut SeededEntropy) {
        let from = below(dice, BLOCKS);
        let blocks = 1 + below(dice, BLOCKS - from);
        let extent = Extent::new(wire::widen(slot * BLOCKS + from), wire::widen(blocks));
        let memory = |dice: &mut SeededEntropy| self.pools[below(dice, 2)].take(blocks * 512);
        let (operation, doing) = match below(dice, 9) {
            0 => (Operation::Flush, Doing::Flush),
            1..5 => {
                let Some(into) = memory(dice) else { return };
                (Operation::Read { extent, into }, Doing::Read { from, blocks })
            }
            kind => {
                let Some(mut data) = memory(dice) else { return };
                let byte = wire::saturate(below(dice, 256));
                data.fill(byte);
                let durability = if kind == 5 { Durability::Durable } else { Durability::Cached };
                let operation = Operation::Write { extent, data: data.freeze().into(), durability };
                (operation, Doing::Write { from, blocks, byte, durability })
            }
        };
        self.next += 1;
        let tag = self.next;
        if self.queue.submit(self.now, Request { tag: Tag(tag), operation }).is_ok() {
            self.is_busy[slot] = true;
            self.under_way.insert(tag, (slot, doing));
            assert!(self.under_way.len() <= usize::from(DEPTH));
        }
    }

    /// Polls it until nothing comes: only then does it owe a wake-up.
    fn poll(&mut self) {
        let mut done = Vec::new();
        loop {
            self.queue.poll(self.now, &mut done);
            if done.is_empty() {
                return;
            }
            done.drain(..).for_each(|completion| self.ended(completion));
        }
    }

    fn ended(&mut self, completion: Completion) {
        let (slot, doing) = self.under_way.remove(&completion.tag.0).expect("a request ends once");
        self.is_busy[slot] = false;
        self.failed += usize::from(completion.result.is_err());
        match (doing, completion.result) {
            (Doing::Read { from, blocks }, Ok(Outcome::Data(data))) => {
                assert_eq!(data.len(), blocks * 512, "all of it");
                if self.is_wild.get() {
                    return;
                }
                let bytes: Vec<u8> = data.pieces().iter().flat_map(|piece| piece.to_vec()).collect();
                for (block, wanted) in bytes.chunks(512).zip(&self.content[slot][from..from + blocks]) {
                    assert!(wanted.is_none_or(|wanted| block.iter().all(|byte| *byte == wanted)));
                }
                self.verified += 1;
            }
            // Where the device may still write to it, its memory stays behind.
            (Doing::Read { blocks, .. }, Err(failure)) => {
                assert!(failure.memory.is_none_or(|memory| memory.len() == blocks * 512));
            }
            (Doing::Write { from, blocks, byte, durability }, result) => {
                if result.is_ok() && durability == Durability::Durable && !self.is_wild.get() {
                    let first = wire::widen(slot * BLOCKS + from);
                    let left = self.volatile.borrow().range(first..first + wire::widen(blocks)).count();
                    assert_eq!(left, 0, "a durable write is durable before it ends");
                }
                let known = (result.is_ok() && !self.is_wild.get()).then_some(byte);
                self.content[slot][from..from + blocks].fill(known);
                self.verified += usize::from(known.is_some());
            }
            (Doing::Flush, Ok(_) | Err(_)) => {}
            (doing, result) => panic!("{doing:?} came to {result:?}"),
        }
    }

    fn is_rung(&self) -> bool {
        rustix::io::read(&*self.queue.parts.call, &mut [0; 8]).is_ok()
    }

    fn is_due(&self) -> bool {
        self.queue.poll_timeout().is_some_and(|when| when <= self.now)
    }

    /// Polls the queue as often as it wants to be while so much time passes.
    pub(super) fn hear(&mut self, nanos: usize) {
        self.now = self.now + Duration::from_nanos(wire::widen(nanos));
        for _ in 0..MOST_POLLS {
            if !self.is_rung() && !self.is_due() {
                return;
            }
            self.poll();
        }
        panic!("the queue wants to be polled again and again");
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// There is no device any more.
    pub(super) fn finish(&mut self) {
        self.hear(0);
        self.hear(usize::try_from(RECONNECT.as_nanos()).unwrap());
        assert!(self.under_way.is_empty(), "{} never end", self.under_way.len());
        let request = Request { tag: Tag(0), operation: Operation::Flush };
        assert!(self.queue.submit(self.now, request).is_ok());
        let mut done = Vec::new();
        self.queue.poll(self.now, &mut done);
        assert_eq!(
            done.iter().map(Completion::error).collect::<Vec<_>>(),
            [Some(VolumeErrorKind::Unreachable)]
        );
        assert!(self.shared.is_lost());
        self.pools.iter().for_each(|pool| assert!(pool.used() <= 4 << 20));
    }
}
