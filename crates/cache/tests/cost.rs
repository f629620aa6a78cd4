//! What a cache costs beside its two volumes: memory that is taken, and bytes that are copied, for a read that hits and for one that misses.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../../reactor/tests/common/counting_allocator.rs"]
mod counting_allocator;

use std::sync::Arc;
use std::task::Waker;

use buf::{Buf, Pool};
use cache::CacheOpener;
use names::{BlockSize, Source, VolumeUrl};
use protocol::{Instant, SeededEntropy};
use volume::{
    CoreId, Extent, OpenError, Opener, Openers, Operation, Outcome, PreparedOpen, QueueContext, Ram, Ready,
    Request, Tag, Volume, VolumeQueue,
};

/// Opens `ram:`.
struct RamOpener;

impl Opener for RamOpener {
    fn schemes(&self) -> &'static [&'static str] {
        &["ram"]
    }

    fn prepare(&self, url: &VolumeUrl, _openers: &Openers) -> Result<Box<dyn PreparedOpen>, OpenError> {
        let Source::Ram(ram) = &url.source else { return Err(OpenError::new("no memory")) };
        let block = ram.block.map_or(512, BlockSize::bytes);
        Ok(Box::new(Ready::new(Arc::new(Ram::new(ram.size.0, block)?))))
    }
}

struct Read {
    queue: Box<dyn VolumeQueue>,
    done: Vec<volume::Completion>,
}

impl Read {
    fn of(volume: &dyn Volume) -> Self {
        let context = QueueContext::new(CoreId(0), Waker::noop().clone(), Pool::new(1 << 20));
        Self { queue: volume.open_queue(&context).unwrap(), done: Vec::with_capacity(4) }
    }

    /// Reads a block, and answers whether it came in the memory that was given for it.
    fn run(&mut self, block: u64) -> bool {
        let into = Buf::zeroed(512);
        let given = into.as_ptr();
        let operation = Operation::Read { extent: Extent::new(block, 1), into };
        assert!(self.queue.submit(Instant::ZERO, Request { tag: Tag(1), operation }).is_ok());
        while self.done.is_empty() {
            self.queue.poll(Instant::ZERO, &mut self.done);
        }
        match self.done.pop().unwrap().outcome().unwrap() {
            Outcome::Data(data) => data.into_one().as_ptr() == given,
            other => panic!("{other:?}"),
        }
    }

    /// Memory that is taken for each of many reads.
    fn allocations(&mut self, blocks: impl Iterator<Item = u64>) -> u64 {
        let (before, mut count) = (counting_allocator::count(), 0);
        for block in blocks {
            assert!(self.run(block), "it was copied");
            count += 1;
        }
        (counting_allocator::count() - before).div_ceil(count)
    }
}

#[test]
fn a_hit_and_a_miss_copy_nothing_and_take_hardly_any_memory() {
    let cache = CacheOpener { entropy: Arc::new(|| Box::new(SeededEntropy::new(5))) };
    let openers = Openers::new().with(Arc::new(RamOpener)).with(Arc::new(cache));
    let url: VolumeUrl = "cache=[ram:4M,ram:64M]?bypass=0".parse().unwrap();
    let context = QueueContext::new(CoreId(0), Waker::noop().clone(), Pool::new(1 << 20));
    let mut opening = openers.prepare(&url).unwrap().begin(&context);
    let volume = opening.poll(Instant::ZERO).unwrap().unwrap();
    let mut plain = Read::of(&Ram::new(64 << 20, 512).unwrap());
    let mut cached = Read::of(volume.as_ref());
    // Once, so that what is kept has its memory; and one line twice, which lets it in.
    for reader in [&mut plain, &mut cached] {
        for _ in 0..200 {
            reader.run(0);
        }
    }
    let alone = plain.allocations((0..500).map(|line| 200 + line * 128));
    let misses = volume.cache().unwrap().status().misses;
    let miss = cached.allocations((0..500).map(|line| 200 + line * 128));
    let status = volume.cache().unwrap().status();
    assert_eq!(status.misses, misses + 500, "{status}");
    let hit = cached.allocations((0..500).map(|_| 0));
    assert_eq!(volume.cache().unwrap().status().hits, status.hits + 500);
    println!("memory is taken {alone} times for a read alone, {miss} for a miss, {hit} for a hit");
    assert!(miss <= alone + 2 && hit <= alone + 2, "{miss} for a miss, {hit} for a hit, {alone} alone");
}
