//! One end of a copy or another walk: a volume with its queues, and requests in bytes instead of blocks.

use std::sync::Arc;
use std::task::Waker;

use buf::{BufList, MemorySource, Pool, SharedBuf};
use protocol::Instant;
use volume::{
    Completion, CoreId, Durability, Extent, Features, OpenError, Operation, QueueContext, Request, Volume,
    VolumeQueue,
};

use super::piece::Span;

/// What a visitor asks of an end about a span.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Its bytes.
    Read,
    /// That it hold these bytes, as many as the span has.
    Write(SharedBuf),
    /// That it read as zeros; its space may be released.
    Zero,
    /// That its space be released.
    Discard,
    /// Whether it is a hole.
    Map,
}

impl Ask {
    /// The request to the end of this number.
    pub(crate) const fn to(self, end: usize) -> EndRequest {
        EndRequest { end, ask: self }
    }

    /// What an end that refused could not do, for a message.
    pub(crate) const fn verb(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write(_) => "written",
            Self::Zero => "zeroed",
            Self::Discard => "discarded",
            Self::Map => "asked for its holes",
        }
    }
}

/// What is asked, and of which end.
#[derive(Debug)]
pub(crate) struct EndRequest {
    /// The end's number.
    pub(super) end: usize,
    /// The question.
    pub(super) ask: Ask,
}

/// A volume, and what to call it in messages.
#[derive(Debug)]
pub(crate) struct NamedVolume<'a> {
    pub(crate) volume: &'a Arc<dyn Volume>,
    pub(crate) name: String,
}

/// A volume with its queues.
pub(crate) struct CopyEnd {
    /// What to call it in messages.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) block: u64,
    pub(crate) max_transfer: u64,
    /// The most bytes in one discard or write zeroes.
    pub(crate) max_discard: u64,
    pub(crate) features: Features,
    /// Where memory for its data comes from, if some is better than other.
    pub(crate) memory: Option<Arc<dyn MemorySource>>,
    queues: Vec<Box<dyn VolumeQueue>>,
}

impl CopyEnd {
    /// Opens `connections` queues, or as many as there are; at least one.
    pub(crate) fn open(
        NamedVolume { volume, name }: NamedVolume<'_>,
        connections: usize,
        waker: &Waker,
    ) -> Result<Self, OpenError> {
        let (geometry, limits) = (volume.geometry(), volume.limits());
        let block = u64::from(geometry.block_size);
        let open = || volume.open_queue(&QueueContext::without_pool(CoreId(0), waker.clone()));
        let refused = |error| OpenError::new(format!("a queue on {name} cannot be opened: {error}"));
        let mut queues = vec![open().map_err(refused)?];
        // A device of this machine may have fewer than that.
        queues.extend(std::iter::repeat_with(open).take(connections.saturating_sub(1)).map_while(Result::ok));
        Ok(Self {
            name,
            bytes: geometry.bytes(),
            block,
            max_transfer: u64::from(limits.max_transfer),
            max_discard: limits.max_discard.saturating_mul(block),
            features: volume.features(),
            memory: volume.memory(),
            queues,
        })
    }

    /// The whole blocks around a span.
    pub(crate) fn around(&self, span: Span) -> Extent {
        let first = span.at / self.block;
        Extent::new(first, (span.at + span.len).div_ceil(self.block) - first)
    }

    /// The part of the blocks around `span` that is the span's own.
    pub(crate) fn own(&self, span: Span, data: &SharedBuf) -> Option<SharedBuf> {
        let skip = usize::try_from(span.at % self.block).ok()?;
        let len = usize::try_from(span.len).ok()?;
        (skip + len <= data.len()).then(|| data.slice(skip..skip + len))
    }

    /// The operation that asks about a span; `None` while there is no memory for it.
    pub(crate) fn operation(&self, span: Span, ask: &Ask, pool: &Pool) -> Option<Operation> {
        let extent = self.around(span);
        let durability = Durability::Cached;
        Some(match ask {
            Ask::Read => {
                let len = usize::try_from(extent.blocks * self.block).ok()?;
                Operation::Read { extent, into: pool.take(len)? }
            }
            Ask::Write(data) => Operation::Write { extent, data: BufList::from(data.clone()), durability },
            Ask::Zero => Operation::WriteZeroes { extent, durability, may_unmap: true },
            Ask::Discard => Operation::Discard { extent },
            Ask::Map => Operation::QueryAllocation { extent },
        })
    }

    /// Submits a request of `slot` on the queue that belongs to it; false while that has no room.
    pub(crate) fn submit(&mut self, now: Instant, slot: usize, request: Request) -> bool {
        let queue = slot % self.queues.len();
        self.queues[queue].submit(now, request).is_ok()
    }

    /// How many queues there are.
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Adds what has completed on any queue.
    pub(crate) fn poll(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.queues.iter_mut().for_each(|queue| queue.poll(now, done));
    }

    /// When a queue wants to be polled.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.poll_timeout()).min()
    }
}
