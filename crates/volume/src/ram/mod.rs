//! A volume in memory: sparse, shared by all cores, gone with the process.
//!
//! Data is copied into the request's buffer: a copy of 4 KiB costs less than the bookkeeping that lending pages and
//! copying on write would need (docs/volume-contract.md). Nothing is allocated per request once a page exists.

mod pages;

use std::sync::Arc;
use std::task::Waker;

use buf::Buf;
use protocol::Instant;

use crate::ready::Ready;
use crate::{
    Allocation, Completion, CoreId, Extent, Features, Geometry, Limits, OpenError, Operation, Outcome,
    QueueFull, Request, Tag, Volume, VolumeErrorKind, VolumeQueue, shape,
};
use pages::{PAGE, Pages};

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
        let page = u32::try_from(PAGE).unwrap_or(u32::MAX);
        Limits { discard_granularity: page / self.geometry.block_size, ..Limits::default() }
    }

    fn features(&self) -> Features {
        Features::DISCARD | Features::WRITE_ZEROES | Features::COMPARE | Features::ALLOCATION
    }

    fn open_queue(&self, _core: CoreId, _waker: Waker) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let limits = self.limits();
        Ok(Box::new(RamQueue {
            geometry: self.geometry,
            limits,
            features: self.features(),
            pages: Arc::clone(&self.pages),
            ready: Ready::new(limits.depth as usize),
        }))
    }
}

struct RamQueue {
    geometry: Geometry,
    limits: Limits,
    features: Features,
    pages: Arc<Pages>,
    ready: Ready,
}

impl RamQueue {
    fn answer(&self, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        shape::check(&operation, self.geometry, &self.limits, self.features)?;
        let place = |extent: Extent| {
            let size = u64::from(self.geometry.block_size);
            (extent.start * size, extent.blocks * size)
        };
        match operation {
            Operation::Read { extent, into } => return Ok(self.read(place(extent).0, into)),
            Operation::QueryAllocation { extent } => return Ok(self.allocation(extent)),
            Operation::Write { extent, data, .. } => self.pages.write(place(extent).0, &data),
            Operation::Discard { extent } => self.pages.zero(place(extent), true),
            Operation::WriteZeroes { extent, may_unmap, .. } => self.pages.zero(place(extent), may_unmap),
            Operation::Compare { extent, data } => self.pages.compare(place(extent).0, &data)?,
            Operation::CompareAndWrite { extent, compare, write, .. } => {
                self.pages.compare_and_write(place(extent).0, &compare, &write)?;
            }
            Operation::Flush | Operation::Verify { .. } => {}
            Operation::Reserve(_) | Operation::ReadReservations => return Err(VolumeErrorKind::Unsupported),
        }
        Ok(Outcome::Done)
    }

    fn read(&self, offset: u64, mut into: Buf) -> Outcome {
        self.pages.read(offset, &mut into);
        Outcome::Data(into.freeze())
    }

    fn allocation(&self, extent: Extent) -> Outcome {
        let size = u64::from(self.geometry.block_size);
        let (len, mapped) = self.pages.run(extent.start * size, extent.blocks * size);
        Outcome::Allocation(Allocation { extent: Extent::new(extent.start, len / size), mapped })
    }
}

impl VolumeQueue for RamQueue {
    fn submit(&mut self, _now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.ready.is_full() {
            return Err(QueueFull(request));
        }
        let result = self.answer(request.operation);
        self.ready.push(Completion { tag: request.tag, result });
        Ok(())
    }

    /// Requests are over before they could be cancelled: the completion that waits tells what they came to.
    fn cancel(&mut self, _tag: Tag) {}

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        self.ready.drain(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_with_the_first_write_and_go_with_a_discard() {
        let ram = Ram::new(1 << 40, 4096).unwrap();
        let mut queue = ram.open_queue(CoreId(0), Waker::noop().clone()).unwrap();
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

    #[test]
    fn impossible_sizes_are_refused() {
        for (size, block) in [(0, 512), (1000, 512), (4096, 1024), (1 << 63, 4096)] {
            assert!(Ram::new(size, block).is_err(), "{size} {block}");
        }
    }
}
