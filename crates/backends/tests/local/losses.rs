//! Acknowledged writes that are lost: no flush of any queue succeeds any more, and whoever is told can rely on the record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use backends::FileVolume;
use buf::Buf;
use host::{IoError, OpenMode};
use protocol::Instant;
use volume::{
    ComparedWrite, Completion, CoreId, Durability, Extent, LossRecord, Operation, Outcome, QueueContext,
    Request, Tag, Volume, VolumeErrorKind, VolumeQueue,
};

use crate::memory::{FILE, Kind, MemoryFile, Nature};

const SIZE: u64 = 1 << 20;
const EXTENT: Extent = Extent::new(3, 2);

type Answer = Result<Outcome, VolumeErrorKind>;

/// A file with or without the page cache before it.
fn file(page_cache: bool) -> Arc<MemoryFile> {
    let mut nature: Nature = FILE;
    nature.info.page_cache = page_cache;
    nature.info.alignment = if page_cache { 1 } else { 512 };
    Arc::new(MemoryFile::new(SIZE, nature))
}

fn volume_on(file: &Arc<MemoryFile>) -> FileVolume {
    FileVolume::new(Arc::<MemoryFile>::clone(file), OpenMode::ReadWrite, None).unwrap()
}

fn queue_of(volume: &FileVolume) -> Box<dyn VolumeQueue> {
    volume.open_queue(&QueueContext::without_pool(CoreId(0), Waker::noop().clone())).unwrap()
}

fn poll(queue: &mut dyn VolumeQueue) -> Vec<Completion> {
    let mut done = Vec::new();
    (0..200).for_each(|_| queue.poll(Instant::ZERO, &mut done));
    done
}

fn submit(queue: &mut dyn VolumeQueue, tag: u64, operation: Operation) {
    queue.submit(Instant::ZERO, Request { tag: Tag(tag), operation }).unwrap();
}

fn run(queue: &mut dyn VolumeQueue, operation: Operation) -> Answer {
    submit(queue, 1, operation);
    match poll(queue).pop() {
        Some(completion) => completion.outcome(),
        None => panic!("every request that was taken completes (docs/volume-contract.md, Requests)"),
    }
}

/// What a request may ask for, by name.
const PROMISES: [&str; 9] = [
    "flush",
    "write",
    "durable write",
    "discard",
    "write zeroes",
    "durable write zeroes",
    "unmapping zeroes",
    "compare-and-write",
    "durable compare-and-write",
];
const OTHERS: [&str; 4] = ["read", "verify", "compare", "allocation query"];

fn operation(name: &str) -> Operation {
    let extent = EXTENT;
    let data = || Buf::zeroed(1024).freeze().into();
    let durability = if name.starts_with("durable") { Durability::Durable } else { Durability::Cached };
    match name {
        "flush" => Operation::Flush,
        "write" | "durable write" => Operation::Write { extent, data: data(), durability },
        "discard" => Operation::Discard { extent },
        "write zeroes" | "durable write zeroes" => {
            Operation::WriteZeroes { extent, durability, may_unmap: false }
        }
        "unmapping zeroes" => Operation::WriteZeroes { extent, durability, may_unmap: true },
        "compare-and-write" | "durable compare-and-write" => Operation::CompareAndWrite {
            extent,
            data: Box::new(ComparedWrite { compare: data(), write: data() }),
            durability,
        },
        "read" => Operation::Read { extent, into: Buf::zeroed(1024) },
        "verify" => Operation::Verify { extent },
        "compare" => Operation::Compare { extent, data: data() },
        "allocation query" => Operation::QueryAllocation { extent },
        other => panic!("no operation {other:?}"),
    }
}

const EIO: i32 = 5;
const EINTR: i32 = 4;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;
const ECANCELED: i32 = 125;

/// Request, whether there is a page cache, which operation on the file fails and how, the answer, and whether writes are lost.
type Row = (&'static str, bool, (Kind, i32), VolumeErrorKind, bool);

use VolumeErrorKind::{Cancelled, Media, Misaligned, NoSpace, ReadOnly};

const TABLE: [Row; 27] = [
    ("flush", true, (Kind::Flush, EIO), Media, true),
    ("flush", false, (Kind::Flush, EIO), Media, true),
    // The data is gone: who makes room and asks again must not be told of success.
    ("flush", true, (Kind::Flush, ENOSPC), Media, true),
    ("flush", true, (Kind::Flush, EDQUOT), Media, true),
    // It may have met the error on its way.
    ("flush", true, (Kind::Flush, EINTR), Media, true),
    ("flush", true, (Kind::Flush, EROFS), Media, true),
    ("flush", true, (Kind::Flush, ECANCELED), Cancelled, false),
    ("durable write", false, (Kind::DurableWrite, EIO), Media, true),
    ("durable write", false, (Kind::DurableWrite, ENOSPC), NoSpace, false),
    ("durable write", false, (Kind::DurableWrite, EDQUOT), NoSpace, false),
    ("durable write", false, (Kind::DurableWrite, EINVAL), Misaligned, false),
    ("durable write", false, (Kind::DurableWrite, EROFS), ReadOnly, false),
    ("durable compare-and-write", false, (Kind::DurableWrite, EIO), Media, true),
    ("durable compare-and-write", false, (Kind::DurableWrite, ENOSPC), NoSpace, false),
    ("durable write", true, (Kind::Write, EIO), Media, false),
    ("durable write", true, (Kind::Write, ENOSPC), NoSpace, false),
    ("durable write", true, (Kind::Flush, EIO), Media, true),
    ("durable write", true, (Kind::Flush, ENOSPC), Media, true),
    ("durable compare-and-write", true, (Kind::Flush, EIO), Media, true),
    ("durable write zeroes", true, (Kind::Flush, EIO), Media, true),
    ("durable write zeroes", false, (Kind::Flush, EIO), Media, true),
    ("durable write zeroes", false, (Kind::Zero, EIO), Media, false),
    ("write", true, (Kind::Write, EIO), Media, false),
    ("write", false, (Kind::Write, ENOSPC), NoSpace, false),
    ("discard", true, (Kind::Discard, EIO), Media, false),
    ("read", true, (Kind::Read, EIO), Media, false),
    ("compare-and-write", false, (Kind::Write, EIO), Media, false),
];

#[test]
fn after_a_loss_no_queue_promises_anything_and_otherwise_all_do() {
    for (name, page_cache, (kind, error), expected, lost) in TABLE {
        let row = format!("{name}, page cache {page_cache}, {kind:?} ends with {error}");
        let file = file(page_cache);
        let volume = volume_on(&file);
        let (mut one, mut two) = (queue_of(&volume), queue_of(&volume));
        run(&mut *two, operation("write")).unwrap();
        run(&mut *two, operation("write zeroes")).unwrap();
        file.content().told_once = Some((kind, IoError(error)));
        assert_eq!(run(&mut *one, operation(name)).unwrap_err(), expected, "{row}");
        assert!(file.content().told_once.is_none(), "{row}: the error was not met");
        let mut later = queue_of(&volume);
        for queue in [&mut one, &mut two, &mut later] {
            for promise in PROMISES {
                let answer = run(&mut **queue, operation(promise)).map(drop);
                let wanted = if lost { Err(Media) } else { Ok(()) };
                assert_eq!(
                    answer, wanted,
                    "{row}: then {promise} (docs/volume-contract.md, Durability: no flush succeeds for a write that is lost)"
                );
            }
            for other in OTHERS {
                run(&mut **queue, operation(other))
                    .unwrap_or_else(|kind| panic!("{row}: then {other}: {kind}"));
            }
        }
        assert_eq!(volume.last_error().is_some(), lost, "{row}: the operator is told");
    }
}

#[test]
fn flushes_that_wait_together_all_hear_of_the_loss() {
    let file = file(true);
    let volume = volume_on(&file);
    let mut queue = queue_of(&volume);
    run(&mut *queue, operation("write")).unwrap();
    file.content().told_once = Some((Kind::Flush, IoError(EIO)));
    (0..5).for_each(|tag| submit(&mut *queue, tag, Operation::Flush));
    let done = poll(&mut *queue);
    assert_eq!(done.len(), 5);
    assert!(done.iter().all(|one| one.error() == Some(Media)), "{done:?}");
}

#[test]
fn a_flush_covers_what_was_written_before_it_though_another_was_under_way() {
    let file = file(true);
    let volume = volume_on(&file);
    let mut queue = queue_of(&volume);
    submit(&mut *queue, 1, Operation::Flush);
    submit(&mut *queue, 2, operation("write"));
    submit(&mut *queue, 3, Operation::Flush);
    submit(&mut *queue, 4, Operation::Flush);
    let done = poll(&mut *queue);
    assert!(done.len() == 4 && done.iter().all(|one| one.result.is_ok()), "{done:?}");
    let flushes = file.content().carried_out.iter().filter(|kind| **kind == Kind::Flush).count();
    assert_eq!(flushes, 2, "the two that came while the first was under way share one");
}

/// A loss, and what to call once it is kept.
type Asked = (String, Box<dyn FnOnce() + Send>);

/// A record that is kept when the test says so.
#[derive(Default)]
struct Record {
    asked: Mutex<Vec<Asked>>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").finish_non_exhaustive()
    }
}

impl LossRecord for Record {
    fn keep(&self, what: &str, kept: Box<dyn FnOnce() + Send>) {
        self.asked.lock().unwrap().push((what.to_owned(), kept));
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nobody_is_told_of_a_loss_before_its_record_is_kept() {
    for name in ["flush", "durable write"] {
        let file = file(true);
        let record = Arc::new(Record::default());
        let volume = volume_on(&file);
        volume.keep_losses(Arc::<Record>::clone(&record), None);
        let woken = Arc::new(Woken::default());
        let mut one = volume
            .open_queue(&QueueContext::without_pool(CoreId(0), Waker::from(Arc::clone(&woken))))
            .unwrap();
        let mut two = queue_of(&volume);
        file.content().told_once = Some((Kind::Flush, IoError(EIO)));
        submit(&mut *one, 1, operation(name));
        assert!(poll(&mut *one).is_empty(), "{name}: told before the record is kept");
        submit(&mut *two, 2, operation("durable write"));
        submit(&mut *two, 3, operation("read"));
        let done = poll(&mut *two);
        assert!(matches!(done[..], [Completion { tag: Tag(3), result: Ok(_) }]), "{done:?}: reads go on");
        woken.0.store(false, Ordering::Relaxed);
        let (what, kept) = record.asked.lock().unwrap().pop().unwrap();
        assert!(what.contains("flush failed"), "{what}");
        kept();
        assert!(woken.0.load(Ordering::Relaxed), "the queue is woken when the record is kept");
        for (queue, tag) in [(&mut one, 1), (&mut two, 2)] {
            let done = poll(&mut **queue);
            assert!(
                matches!(&done[..], [one] if one.tag == Tag(tag) && one.error() == Some(Media)),
                "{done:?}"
            );
        }
        assert!(record.asked.lock().unwrap().is_empty(), "kept once");
    }
}

#[test]
fn a_loss_that_an_earlier_process_kept_is_known_from_the_beginning() {
    let record = Arc::new(Record::default());
    let volume = volume_on(&file(true));
    volume.keep_losses(record, Some("a flush failed".to_owned()));
    let mut queue = queue_of(&volume);
    assert_eq!(run(&mut *queue, Operation::Flush).unwrap_err(), Media);
    run(&mut *queue, operation("read")).unwrap();
    assert!(volume.last_error().unwrap().contains("a flush failed"));
}

#[test]
fn filters_pass_the_record_on() {
    let url = "stats+limit=1000000iops+file:disk.img?size=1M".parse().unwrap();
    let record = Arc::new(Record::default());
    let storage: Arc<dyn host::Storage> = Arc::new(crate::memory::MemoryStorage::default());
    let volume = backends::open(&url, &storage).unwrap();
    volume.keep_losses(record, Some("a flush failed".to_owned()));
    assert!(volume.last_error().unwrap().contains("a flush failed"));
}
