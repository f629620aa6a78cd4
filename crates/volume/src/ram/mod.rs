//! A volume in memory: sparse, shared by all cores, gone with the process.
//!
//! A read lends the pages, unless it is so short that a copy costs less; a page that is written while it is lent is copied
//! first (docs/volume-contract.md, docs/decisions/0007-lent-pages.md).
//! Nothing is allocated per request once a page exists, but for what lists the pages that a read lends, and for copies.

mod lender;
#[cfg(test)]
#[cfg(shuttle)]
mod orders;
mod page;
mod pages;
mod sync;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, BufList};
use protocol::Instant;

use crate::waiting_completions::WaitingCompletions;
use crate::{
    Allocation, Completion, Extent, Failure, Features, Geometry, Limits, OpenError, Operation, Outcome,
    QueueContext, QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue, shape,
};
use lender::Lender;
use page::PAGE;
use pages::{Pages, WholePages, Zeroed};

/// Bytes that a queue copies in a turn of its core, about: 100 µs, and as much as 128 requests of 4 KiB. What was asked for beyond that waits, so that nobody has to wait for all of a
/// long batch, or for the zeroing of a large range.
const BUDGET: usize = 512 << 10;
/// The same for each further poll in a turn, so that work goes on even where the clock stands still.
const FURTHER: usize = 64 << 10;
/// What lending a page costs, in bytes that could have been copied meanwhile.
const LOAN: usize = 1 << 10;

/// The volume of `ram:`.
#[derive(Debug)]
pub struct Ram {
    geometry: Geometry,
    pages: Arc<Pages>,
}

impl Ram {
    /// An empty volume of `size` bytes in blocks of `block_size`.
    pub fn new(size: u64, block_size: u32) -> Result<Self, OpenError> {
        let geometry = Geometry::of(size, block_size)?;
        let pages = Pages::new(size).ok_or_else(|| {
            OpenError::new(format!("{size} bytes are more than memory can hold; give a smaller size"))
        })?;
        Ok(Self { geometry, pages: Arc::new(pages) })
    }

    /// Bytes of memory that hold data now.
    pub fn allocated(&self) -> u64 {
        self.pages.allocated()
    }
}

impl Volume for Ram {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn limits(&self) -> Limits {
        let page = wire::bounded::<u32>(PAGE);
        Limits { discard_granularity: page / self.geometry.block_size, ..Limits::default() }
    }

    fn features(&self) -> Features {
        Features::DISCARD | Features::WRITE_ZEROES | Features::COMPARE | Features::ALLOCATION
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let limits = self.limits();
        Ok(Box::new(RamQueue {
            geometry: self.geometry,
            limits,
            features: self.features(),
            pages: Arc::clone(&self.pages),
            ready: WaitingCompletions::new(limits.depth as usize),
            waiting: VecDeque::new(),
            lender: Lender::new(),
            spent: 0,
            turn: Instant::ZERO,
            waker: context.waker.clone(),
        }))
    }
}

struct RamQueue {
    geometry: Geometry,
    limits: Limits,
    features: Features,
    pages: Arc<Pages>,
    ready: WaitingCompletions,
    /// Requests that nothing, or only a part, was done of.
    waiting: VecDeque<Request>,
    lender: Lender,
    /// What was done in this turn, in bytes, and when the turn began.
    spent: usize,
    turn: Instant,
    waker: Waker,
}

impl RamQueue {
    fn begin_turn(&mut self, now: Instant) {
        if std::mem::replace(&mut self.turn, now) != now {
            self.spent = 0;
        }
    }

    /// Does what waits, as far as the budget goes.
    fn work(&mut self) {
        while self.spent < BUDGET {
            let Some(request) = self.waiting.pop_front() else { return };
            self.carry_out(request);
        }
    }

    /// Does a request, or the part of it that the budget is enough for.
    fn carry_out(&mut self, mut request: Request) {
        let zeroes = matches!(request.operation, Operation::Discard { .. } | Operation::WriteZeroes { .. });
        if zeroes && self.zero_some(&mut request.operation) {
            return self.waiting.push_front(request);
        }
        let result = self.answer(request.operation);
        self.ready.push(Completion { tag: request.tag, result });
    }

    /// Zeroes a range, as far as the budget goes; true when a part of it is left to do.
    fn zero_some(&mut self, operation: &mut Operation) -> bool {
        let fits = shape::check(operation, self.geometry, &self.limits, self.features).is_ok();
        let (extent, whole) = match operation {
            Operation::Discard { extent } | Operation::WriteZeroes { extent, may_unmap: true, .. }
                if fits =>
            {
                (extent, WholePages::Release)
            }
            Operation::WriteZeroes { extent, .. } if fits => (extent, WholePages::Keep),
            _ => return false,
        };
        let (bytes, size) = (self.bytes(*extent), u64::from(self.geometry.block_size));
        let Zeroed { stopped, cost } =
            self.pages.zero(bytes.clone(), whole, BUDGET.saturating_sub(self.spent));
        self.spent += cost;
        let done = (stopped - bytes.start) / size;
        *extent = Extent::new(extent.start + done, extent.blocks - done);
        extent.blocks > 0
    }

    /// Where the extent's bytes are.
    fn bytes(&self, extent: Extent) -> Range<u64> {
        let size = u64::from(self.geometry.block_size);
        extent.start * size..(extent.start + extent.blocks) * size
    }

    fn answer(&mut self, operation: Operation) -> Result<Outcome, Failure> {
        if let Err(kind) = shape::check(&operation, self.geometry, &self.limits, self.features) {
            return Err(Failure::of(operation, kind));
        }
        self.spent += transfer(&operation);
        if let Operation::Read { extent, into } = operation {
            return Ok(Outcome::Data(self.read(self.bytes(extent).start, into)));
        }
        let offset = |extent| self.bytes(extent).start;
        match operation {
            Operation::QueryAllocation { extent } => return Ok(self.allocation(extent)),
            Operation::Write { extent, data, .. } => self.spent += self.pages.write(offset(extent), &data),
            Operation::Compare { extent, data } => self.pages.compare(offset(extent), &data)?,
            Operation::CompareAndWrite { extent, data, .. } => {
                self.spent += self.pages.compare_and_write(offset(extent), &data.compare, &data.write)?;
            }
            // What was to be zeroed is.
            Operation::Read { .. }
            | Operation::Discard { .. }
            | Operation::WriteZeroes { .. }
            | Operation::Flush
            | Operation::Verify { .. } => {}
            Operation::Reserve(_) | Operation::ReadReservations => {
                return Err(VolumeErrorKind::Unsupported.into());
            }
        }
        Ok(Outcome::Done)
    }

    fn read(&mut self, offset: u64, mut into: Buf) -> BufList {
        if self.lender.lends(into.len(), self.pages.copied()) {
            let lent = self.pages.lend(offset, into, &self.lender);
            self.spent += lent.pieces().len() * LOAN;
            return lent;
        }
        self.spent += into.len();
        self.pages.read(offset, &mut into);
        into.freeze().into()
    }

    fn allocation(&self, extent: Extent) -> Outcome {
        let size = u64::from(self.geometry.block_size);
        let (len, mapped) = self.pages.run(extent.start * size, extent.blocks * size);
        Outcome::Allocation(Allocation { extent: Extent::new(extent.start, len / size), mapped })
    }
}

impl VolumeQueue for RamQueue {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.ready.len() + self.waiting.len() >= self.limits.depth as usize {
            return Err(QueueFull(request));
        }
        self.begin_turn(now);
        if self.waiting.is_empty() && self.spent < BUDGET {
            self.carry_out(request);
        } else {
            self.waiting.push_back(request);
        }
        Ok(())
    }

    /// Of a request that waits nothing more is done; of others the completion tells what they came to.
    fn cancel(&mut self, tag: Tag) {
        let place = self.waiting.iter().position(|request| request.tag == tag);
        if let Some(request) = place.and_then(|place| self.waiting.remove(place)) {
            self.ready.push(request.failed(VolumeErrorKind::Cancelled));
        }
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.begin_turn(now);
        self.spent = self.spent.min(BUDGET - FURTHER);
        self.work();
        self.ready.drain(done);
        if !self.waiting.is_empty() {
            self.waker.wake_by_ref();
        }
    }
}

/// Bytes that a request moves, but for a read, which may lend them.
fn transfer(operation: &Operation) -> usize {
    match operation {
        Operation::Write { data, .. } | Operation::Compare { data, .. } => data.len(),
        Operation::CompareAndWrite { data, .. } => data.compare.len() + data.write.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::CoreId;

    #[test]
    fn pages_come_with_the_first_write_and_go_with_a_discard() {
        let ram = Ram::new(1 << 40, 4096).unwrap();
        let mut queue =
            ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        let mut run = |operation| {
            queue.submit(Instant::ZERO, Request { tag: Tag(1), operation }).unwrap();
            let mut done = Vec::new();
            queue.poll(Instant::ZERO, &mut done);
            done.pop().unwrap().result.unwrap()
        };
        let last = Extent::new(ram.geometry().blocks - 1, 1);
        run(Operation::Read { extent: last, into: Buf::zeroed(4096) });
        assert_eq!(ram.allocated(), 0);
        let data = Buf::zeroed(4096).freeze().into();
        run(Operation::Write { extent: last, data, durability: crate::Durability::Cached });
        assert_eq!(ram.allocated(), PAGE as u64);
        let blocks = u64::from(ram.limits().discard_granularity);
        let page = Extent::new(ram.geometry().blocks - blocks, blocks);
        let Outcome::Allocation(run_of_page) = run(Operation::QueryAllocation { extent: page }) else {
            panic!("no allocation")
        };
        assert_eq!(run_of_page, Allocation { extent: page, mapped: true });
        run(Operation::Discard { extent: page });
        assert_eq!(ram.allocated(), 0);
    }

    /// Polls until nothing is under way; how many polls that took.
    fn settle(queue: &mut dyn VolumeQueue, done: &mut Vec<Completion>, count: usize) -> usize {
        (1..10_000)
            .find(|_| {
                queue.poll(Instant::ZERO, done);
                done.len() >= count
            })
            .unwrap()
    }

    #[test]
    fn a_long_batch_and_a_large_range_are_done_in_parts() {
        let ram = Ram::new(1 << 40, 4096).unwrap();
        let mut queue =
            ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        let data = || Buf::zeroed(1 << 20).freeze().into();
        for tag in 0..8 {
            let durability = crate::Durability::Cached;
            let operation =
                Operation::Write { extent: Extent::new(tag * 256, 256), data: data(), durability };
            queue.submit(Instant::ZERO, Request { tag: Tag(tag), operation }).unwrap();
        }
        let mut done = Vec::new();
        assert!(settle(queue.as_mut(), &mut done, 8) >= 7);
        let order: Vec<_> = done.drain(..).map(|completion| completion.tag.0).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
        let blocks = ram.geometry().blocks;
        for (may_unmap, left) in [(false, 8 << 20), (true, 0)] {
            let durability = crate::Durability::Cached;
            let operation = Operation::WriteZeroes { extent: Extent::new(0, blocks), durability, may_unmap };
            queue.submit(Instant::ZERO, Request { tag: Tag(9), operation }).unwrap();
            assert!(settle(queue.as_mut(), &mut done, 1) > 1, "all at once");
            assert!(matches!(done.drain(..).next().unwrap().result, Ok(Outcome::Done)));
            assert_eq!(ram.allocated(), left);
        }
    }

    #[test]
    fn a_turn_writes_fewer_new_pages_than_known_ones() {
        let pages = (BUDGET / PAGE) as u64;
        let written = turns(2 * pages, |extent| {
            let (data, durability) = (Buf::zeroed(PAGE).freeze().into(), crate::Durability::Cached);
            Operation::Write { extent, data, durability }
        });
        assert!(
            written[0] < pages / 2 && (pages..=pages + 1).contains(&written[1]),
            "{written:?} writes in a turn: {pages} of known pages have room, and half as many of new ones"
        );
        // Two pages' worth is looked at each time.
        let compared = turns(2 * pages, |extent| {
            let (compare, write) = (Buf::zeroed(PAGE).freeze().into(), Buf::zeroed(PAGE).freeze().into());
            let data = Box::new(crate::ComparedWrite { compare, write });
            Operation::CompareAndWrite { extent, data, durability: crate::Durability::Cached }
        });
        let known = pages / 2 + 1;
        assert!(
            compared[0] < compared[1] && compared[1] <= known,
            "{compared:?} compare-and-writes in a turn: {known} of known pages have room, and fewer of new ones"
        );
    }

    /// How many requests of one page each, made at once, the first turn carries out: on new pages, and on the same pages later.
    fn turns(pages: u64, operation: impl Fn(Extent) -> Operation) -> [u64; 2] {
        let ram = Ram::new(1 << 30, 4096).unwrap();
        let mut queue =
            ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        let mut write_all = |now: Instant| {
            for tag in 0..pages {
                let operation = operation(Extent::new(tag * 16, 16));
                queue.submit(now, Request { tag: Tag(tag), operation }).unwrap();
            }
            let mut done = Vec::new();
            queue.poll(now, &mut done);
            let first = done.len() as u64;
            settle(queue.as_mut(), &mut done, usize::try_from(pages).unwrap());
            first
        };
        [1, 2].map(|millis| write_all(Instant::ZERO + std::time::Duration::from_millis(millis)))
    }

    #[test]
    fn what_waits_can_be_cancelled() {
        let durability = crate::Durability::Cached;
        let ram = Ram::new(1 << 30, 4096).unwrap();
        let mut queue =
            ram.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap();
        for tag in 0..2 {
            let data = Buf::zeroed(1 << 20).freeze().into();
            let operation = Operation::Write { extent: Extent::new(0, 256), data, durability };
            queue.submit(Instant::ZERO, Request { tag: Tag(tag), operation }).unwrap();
        }
        queue.cancel(Tag(0));
        queue.cancel(Tag(1));
        let mut done = Vec::new();
        settle(queue.as_mut(), &mut done, 2);
        let ends: Vec<_> =
            done.iter().map(|completion| (completion.tag.0, completion.result.is_ok())).collect();
        assert_eq!(ends, [(0, true), (1, false)]);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (size, block) in [(0, 512), (1000, 512), (4096, 1024), (1 << 63, 4096)] {
            assert!(Ram::new(size, block).is_err(), "{size} {block}");
        }
    }
}
