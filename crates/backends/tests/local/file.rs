//! File and device volumes over files in memory: the contract suite for every nature of file, and what is special.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use crate::memory::{FILE, MemoryFile, Nature};
use backends::FileVolume;
use buf::{Buf, SharedBuf};
use host::{BlockKind, IoError, OpenMode};
use protocol::Instant;
use volume::contract::{self, FakeWorld, Options};
use volume::filter::ReadOnly;
use volume::{
    ComparedWrite, Completion, CoreId, Durability, Extent, Features, Operation, Outcome, QueueContext,
    Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

const SIZE: u64 = 24 << 20;

fn volume_on(file: &Arc<MemoryFile>, block: Option<u32>) -> FileVolume {
    FileVolume::new(Arc::<MemoryFile>::clone(file), OpenMode::ReadWrite, block).unwrap()
}

fn assert_keeps(nature: Nature, block: Option<u32>) {
    let volume: Arc<dyn Volume> = Arc::new(volume_on(&Arc::new(MemoryFile::new(SIZE, nature)), block));
    let result = contract::check(&volume, &Options::default(), &|| Box::new(FakeWorld::new()));
    if let Err(violation) = result {
        panic!("{nature:?} with {block:?} breaks {violation}");
    }
}

#[test]
fn a_buffered_file_keeps_the_contract() {
    assert_keeps(FILE, None);
    assert_keeps(FILE, Some(4096));
}

#[test]
fn a_file_with_direct_io_keeps_the_contract_with_memory_of_any_kind() {
    let mut nature = FILE;
    (nature.info.alignment, nature.info.page_cache) = (512, false);
    assert_keeps(nature, None);
    nature.info.alignment = 512;
    assert_keeps(nature, Some(4096));
}

#[test]
fn a_device_keeps_the_contract() {
    let mut nature = FILE;
    nature.info.kind = BlockKind::Device;
    nature.info.logical_block = 4096;
    assert_keeps(nature, None);
}

#[test]
fn a_file_that_cannot_zero_or_release_keeps_the_contract() {
    let mut nature = FILE;
    (nature.info.can_zero, nature.info.can_discard) = (false, false);
    assert_keeps(nature, None);
    nature.info.can_zero = true;
    assert_keeps(Nature { zero_fails: true, ..nature }, None);
}

#[test]
fn a_device_that_claims_to_release_and_does_not_keeps_the_contract() {
    let mut nature = Nature { zero_fails: true, ..FILE };
    nature.info.kind = BlockKind::Device;
    assert_keeps(nature, None);
}

struct Driven(Box<dyn VolumeQueue>);

impl Driven {
    fn new(volume: &dyn Volume) -> Self {
        Self(volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap())
    }

    fn submit(&mut self, tag: u64, operation: Operation) {
        self.0.submit(Instant::ZERO, Request { tag: Tag(tag), operation }).unwrap();
    }

    fn poll(&mut self) -> Vec<Completion> {
        let mut done = Vec::new();
        (0..100).for_each(|_| self.0.poll(Instant::ZERO, &mut done));
        done
    }

    fn run(&mut self, operation: Operation) -> Result<Outcome, VolumeErrorKind> {
        self.submit(1, operation);
        self.poll().pop().unwrap().outcome()
    }
}

fn write(durability: Durability) -> Operation {
    Operation::Write { extent: Extent::new(0, 1), data: Buf::zeroed(512).freeze().into(), durability }
}

#[test]
fn durable_requests_leave_nothing_volatile_behind() {
    for (page_cache, can_zero, zero_fails) in [
        (true, true, false),
        (true, false, false),
        (false, true, false),
        (false, false, false),
        (true, true, true),
    ] {
        let mut nature = Nature { zero_fails, ..FILE };
        (nature.info.page_cache, nature.info.can_zero, nature.info.can_discard) =
            (page_cache, can_zero, can_zero);
        durable_requests_are_durable(nature);
    }
}

fn durable_requests_are_durable(nature: Nature) {
    let file = Arc::new(MemoryFile::new(SIZE, nature));
    let mut queue = Driven::new(&volume_on(&file, None));
    queue.run(write(Durability::Cached)).unwrap();
    assert_eq!(file.content().volatile, 1);
    queue.run(Operation::Flush).unwrap();
    queue.run(write(Durability::Durable)).unwrap();
    let durability = Durability::Durable;
    // Zeros are written 1 MiB at a time where the file cannot zero.
    for (may_unmap, blocks) in
        [(false, 1), (true, 1), (false, 2048), (true, 2049), (false, 3 * 2048 + 5), (true, 3 * 2048)]
    {
        let extent = Extent::new(7, blocks);
        let promised = || format!("{nature:?}, {blocks} blocks, may_unmap {may_unmap}");
        queue.run(Operation::WriteZeroes { extent, durability, may_unmap }).unwrap();
        assert_eq!(
            file.content().volatile,
            0,
            "{}: durable zeros are volatile (docs/volume-contract.md, Durability)",
            promised()
        );
    }
    let data = || Buf::zeroed(1024).freeze().into();
    let extent = Extent::new(0, 2);
    queue
        .run(Operation::CompareAndWrite {
            extent,
            data: Box::new(ComparedWrite { compare: data(), write: data() }),
            durability,
        })
        .unwrap();
    queue.run(write(Durability::Durable)).unwrap();
    assert_eq!(
        file.content().volatile,
        0,
        "{nature:?}: a durable write is volatile (docs/volume-contract.md, Durability)"
    );
}

#[test]
fn zeros_are_everywhere_that_they_were_asked_for_and_nowhere_else() {
    const SMALL: u64 = 5 << 20;
    const BLOCKS: u64 = SMALL / 512;
    let whole = |byte: u8| Operation::Write {
        extent: Extent::new(0, BLOCKS),
        data: SharedBuf::from(vec![byte; usize::try_from(SMALL).unwrap()]).into(),
        durability: Durability::Cached,
    };
    for (can_zero, zero_fails) in [(true, false), (true, true), (false, false)] {
        let mut nature = Nature { zero_fails, ..FILE };
        (nature.info.can_zero, nature.info.can_discard) = (can_zero, can_zero);
        // Where the file cannot zero, 1 MiB is written at a time: one, parts of two, whole ones, and more.
        for (start, blocks) in [(7, 1), (7, 2048), (8, 2049), (2048, 3 * 2048), (5, 4 * 2048 + 3)] {
            for may_unmap in [false, true] {
                let file = Arc::new(MemoryFile::new(SMALL, nature));
                let mut queue = Driven::new(&volume_on(&file, None));
                queue.run(whole(0xee)).unwrap();
                let (extent, durability) = (Extent::new(start, blocks), Durability::Cached);
                queue.run(Operation::WriteZeroes { extent, durability, may_unmap }).unwrap();
                let extent = Extent::new(0, BLOCKS);
                let into = Buf::zeroed(usize::try_from(SMALL).unwrap());
                let Ok(Outcome::Data(data)) = queue.run(Operation::Read { extent, into }) else {
                    panic!("the volume cannot be read")
                };
                let data = data.into_one();
                for (number, block) in (0..).zip(data.chunks(512)) {
                    let expected = if (start..start + blocks).contains(&number) { 0 } else { 0xee };
                    let right = block.iter().all(|byte| *byte == expected);
                    assert!(right, "block {number} of {start}+{blocks}, may_unmap {may_unmap}, {nature:?}");
                }
            }
        }
    }
}

#[test]
fn system_errors_become_kinds() {
    let table = [
        (5, VolumeErrorKind::Media),
        (28, VolumeErrorKind::NoSpace),
        (30, VolumeErrorKind::ReadOnly),
        (22, VolumeErrorKind::Misaligned),
        (95, VolumeErrorKind::Unsupported),
        (6, VolumeErrorKind::Unreachable),
        (110, VolumeErrorKind::TimedOut),
        (84, VolumeErrorKind::Protection),
        (52, VolumeErrorKind::ReservationConflict),
        (4095, VolumeErrorKind::Media),
    ];
    let file = Arc::new(MemoryFile::new(SIZE, FILE));
    let mut queue = Driven::new(&volume_on(&file, None));
    for (number, kind) in table {
        file.content().broken = Some(IoError(number));
        assert_eq!(queue.run(write(Durability::Cached)).unwrap_err(), kind, "{number}");
    }
}

#[test]
fn a_failed_compare_and_write_lets_the_others_go_on() {
    let file = Arc::new(MemoryFile::new(SIZE, FILE));
    let volume = volume_on(&file, None);
    let (mut one, mut two) = (Driven::new(&volume), Driven::new(&volume));
    let data = || Buf::zeroed(512).freeze().into();
    let extent = Extent::new(0, 1);
    let durability = Durability::Cached;
    one.submit(
        1,
        Operation::CompareAndWrite {
            extent,
            data: Box::new(ComparedWrite { compare: data(), write: data() }),
            durability,
        },
    );
    two.submit(2, write(Durability::Cached));
    assert!(two.poll().is_empty(), "the write waits for the compare-and-write");
    file.content().broken = Some(IoError(5));
    let done = one.poll();
    let ends: Vec<_> = done.iter().map(Completion::error).collect();
    assert_eq!(ends, [Some(VolumeErrorKind::Media)]);
    file.content().broken = None;
    assert!(two.poll()[0].result.is_ok());
}

#[test]
fn a_read_that_the_file_fails_gives_its_own_memory_back_aligned_or_not() {
    let mut nature = FILE;
    nature.info.alignment = 512;
    let file = Arc::new(MemoryFile::new(SIZE, nature));
    let mut queue = Driven::new(&volume_on(&file, None));
    file.content().broken = Some(IoError(5));
    let extent = Extent::new(0, 8);
    let pool = buf::Pool::new(8192);
    // Of two allocations that follow each other, one at least is not aligned.
    let odd = [Buf::from(vec![0; 4096]), Buf::from(vec![0; 4096])];
    for into in odd.into_iter().chain(pool.take(4096)) {
        let place = into.as_ptr();
        queue.submit(1, Operation::Read { extent, into });
        let failure = queue.poll().pop().unwrap().result.unwrap_err();
        assert_eq!(failure.kind, VolumeErrorKind::Media);
        assert_eq!(failure.memory.unwrap().as_ptr(), place);
    }
}

#[test]
fn a_held_request_can_be_cancelled_and_a_dropped_queue_holds_nobody_up() {
    let file = Arc::new(MemoryFile::new(SIZE, FILE));
    let volume = volume_on(&file, None);
    let (mut one, mut two) = (Driven::new(&volume), Driven::new(&volume));
    let data = || Buf::zeroed(512).freeze().into();
    let (extent, durability) = (Extent::new(0, 1), Durability::Cached);
    one.submit(
        1,
        Operation::CompareAndWrite {
            extent,
            data: Box::new(ComparedWrite { compare: data(), write: data() }),
            durability,
        },
    );
    two.submit(2, write(Durability::Cached));
    two.0.cancel(Tag(2));
    let done = two.poll();
    let ends: Vec<_> = done.iter().map(Completion::error).collect();
    assert_eq!(ends, [Some(VolumeErrorKind::Cancelled)]);
    drop(one);
    two.run(write(Durability::Cached)).unwrap();
}

#[test]
fn blocks_that_direct_io_cannot_reach_are_refused_with_the_remedy() {
    let mut nature = FILE;
    nature.info.alignment = 4096;
    let file = Arc::new(MemoryFile::new(SIZE, nature));
    let error = FileVolume::new(file, OpenMode::ReadWrite, None).unwrap_err().to_string();
    assert!(error.contains("block=4096"), "{error}");
    let odd = Arc::new(MemoryFile::new(1000, FILE));
    assert!(FileVolume::new(odd, OpenMode::ReadWrite, None).is_err());
}

#[test]
fn a_file_opened_for_reading_is_protected() {
    let file = Arc::new(MemoryFile::new(SIZE, FILE));
    let volume: Arc<dyn Volume> = Arc::new(FileVolume::new(file, OpenMode::ReadOnly, None).unwrap());
    assert!(volume.features().contains(Features::READ_ONLY));
    contract::check(&volume, &Options::default(), &|| Box::new(FakeWorld::new())).unwrap();
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_file_has_its_new_size_once_it_was_looked_at_again() {
    let file = Arc::new(MemoryFile::new(SIZE, FILE));
    let volume = ReadOnly::new(Arc::new(volume_on(&file, None)));
    let count = Arc::new(Count::default());
    (0..2).for_each(|_| volume.listen(Waker::from(Arc::clone(&count))));
    let mut queue = Driven::new(&volume);
    let behind = || Operation::Read { extent: Extent::new(SIZE / 512, 1), into: Buf::zeroed(512) };
    file.truncate(2 * SIZE);
    assert_eq!(queue.run(behind()).unwrap_err(), VolumeErrorKind::OutOfRange, "nobody has looked");
    volume.rescan().unwrap();
    assert_eq!((volume.geometry().bytes(), volume.changes().resized), (2 * SIZE, 1));
    queue.run(behind()).unwrap();
    volume.rescan().unwrap();
    assert_eq!((volume.changes().resized, count.0.load(Ordering::Relaxed)), (1, 1), "told once");
    file.truncate(SIZE / 2);
    volume.rescan().unwrap();
    assert_eq!(queue.run(behind()).unwrap_err(), VolumeErrorKind::OutOfRange);
    file.truncate(SIZE + 100);
    assert!(volume.rescan().unwrap_err().to_string().contains("512-byte blocks"));
    assert_eq!((volume.geometry().bytes(), volume.changes().resized), (SIZE / 2, 2), "it is as it was");
}
