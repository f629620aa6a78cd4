//! A volume that keeps nothing: reads lend zeros, writes are dropped. It measures everything but the medium.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use buf::SharedBuf;
use protocol::Instant;

use crate::waiting_completions::WaitingCompletions;
use crate::{
    Allocation, Completion, Failure, Features, Geometry, Limits, OpenError, Operation, Outcome, QueueContext,
    QueueFull, Request, Tag, Volume, VolumeQueue, shape,
};

/// The volume of `null:`.
#[derive(Debug)]
pub struct Null {
    geometry: Geometry,
}

impl Null {
    /// A volume of `size` bytes in blocks of `block_size`.
    pub fn new(size: u64, block_size: u32) -> Result<Self, OpenError> {
        Ok(Self { geometry: Geometry::of(size, block_size)? })
    }
}

impl Volume for Null {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn features(&self) -> Features {
        Features::DISCARD | Features::WRITE_ZEROES | Features::ALLOCATION
    }

    fn open_queue(&self, _context: &QueueContext) -> Result<Box<dyn VolumeQueue>, OpenError> {
        let limits = self.limits();
        Ok(Box::new(NullQueue {
            geometry: self.geometry,
            limits,
            features: self.features(),
            zeros: SharedBuf::common(vec![0; limits.max_transfer as usize]),
            ready: WaitingCompletions::new(limits.depth as usize),
        }))
    }
}

struct NullQueue {
    geometry: Geometry,
    limits: Limits,
    features: Features,
    /// What reads lend. Memory that was never written is one page of the system's, however long it is; a queue has
    /// its own, as the count of holders is then never shared with another core.
    zeros: SharedBuf,
    ready: WaitingCompletions,
}

impl NullQueue {
    fn answer(&self, operation: Operation) -> Result<Outcome, Failure> {
        if let Err(kind) = shape::check(&operation, self.geometry, &self.limits, self.features) {
            return Err(Failure::of(operation, kind));
        }
        Ok(match operation {
            Operation::Read { into, .. } => Outcome::Data(self.zeros.slice(..into.len()).into()),
            Operation::QueryAllocation { extent } => {
                // Unmapped blocks would be read without asking: QEMU, for one, fills them in by itself, and what was to
                // be measured is passed by.
                Outcome::Allocation(Allocation { extent, mapped: true })
            }
            _ => Outcome::Done,
        })
    }
}

impl VolumeQueue for NullQueue {
    fn submit(&mut self, _now: Instant, request: Request) -> Result<(), QueueFull> {
        if self.ready.is_full() {
            return Err(QueueFull(request));
        }
        let result = self.answer(request.operation);
        self.ready.push(Completion { tag: request.tag, result });
        Ok(())
    }

    fn cancel(&mut self, _tag: Tag) {}

    fn poll(&mut self, _now: Instant, done: &mut Vec<Completion>) {
        self.ready.drain(done);
    }
}
