//! What is version 3's own at the client: MOUNT, the way to the file, connections that are lost with writes under way, and servers that lie.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client_world;
mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use client_world::{
    BLOCK, FILE, Kept, Record, World, below, config, each_record, ends, filled, memory_with_file, read_four,
    replace, set_word, word,
};
use filesystem::Memory;
use nfs::client::{Access, Config, Input, Version};
use nfs::v4::Verifier;
use protocol::SeededEntropy;
use volume::{Durability, Extent, Features, Outcome, Tag, VolumeErrorKind};

const CACHED: Durability = Durability::Cached;
const SIZE: u64 = 64 << 10;

/// Where the words of a reply are, behind six of RPC: the status; of GETATTR the type and the size; of READ, behind attributes, the counts and the data.
const STATUS: usize = 24;
const KIND: usize = 28;
const ATTRIBUTES_SIZE: usize = 48;
const READ_COUNT: usize = 116;
const READ_END: usize = 120;
const READ_LENGTH: usize = 124;
const READ_DATA: usize = 128;
/// Bytes of the answer to GETATTR.
const GETATTR: usize = 112;
/// Bytes of the answer to FSINFO, and where the largest READ and WRITE are in it.
const FSINFO: usize = 164;
const RTMAX: usize = 116;
const WTMAX: usize = 128;
const JUKEBOX: u32 = 10_008;
const STALE: u32 = 70;
const NOT_SYNC: u32 = 10_002;

fn ready(size: u64) -> World {
    let mut world = World::version3(size);
    world.connect(None);
    assert_eq!((world.ready.len(), &world.failures), (1, &Vec::new()));
    world
}

/// A world that is misled from now on; how often.
fn misled(change: impl FnMut(&mut Record) -> bool + 'static) -> (World, Rc<Cell<usize>>) {
    client_world::misled(World::version3(SIZE), change)
}

/// Makes an answer to READ one of the first `length` bytes.
fn shorten(record: &mut Record, length: u32, at_end: u32) {
    set_word(record, READ_COUNT, length);
    set_word(record, READ_END, at_end);
    set_word(record, READ_LENGTH, length);
    record.truncate(READ_DATA + length as usize);
}

/// Makes an answer a failure with nothing known of the object: `post_op_attr`, or `wcc_data`, of which the second half may stay unread.
fn fail(record: &mut Record, status: u32, halves: usize) {
    set_word(record, STATUS, status);
    record.truncate(STATUS + 4);
    record.extend(vec![0; 4 * halves]);
}

fn path(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// A file system with a file of some size two directories down, and the world that opens it.
fn deep(names: &[&str]) -> World {
    let memory = memory_with_file();
    World::version3_with(Config { path: path(names), ..config(SIZE) }, memory)
}

#[test]
fn a_file_becomes_a_volume() {
    let world = ready(SIZE);
    let file = &world.ready[0];
    assert_eq!((file.geometry.bytes(), file.geometry.block_size), (SIZE, BLOCK));
    assert_eq!((file.version, file.identity().product.as_str()), (Version::Three, "NFS 3 file"));
    assert_eq!(file.limits.max_transfer, 1 << 20);
    assert!(file.features.contains(Features::VOLATILE_CACHE));
    assert!(!file.features.intersects(Features::DISCARD | Features::WRITE_ZEROES), "zeros are data");
    assert!(file.verifier.is_some() && file.identity.len() == 24);
    let export = world.three.unwrap().export.unwrap();
    assert_eq!((export.mounted, &export.path), (1, &path(&["data", FILE])));
}

#[test]
fn zeros_are_written_where_nothing_can_be_deallocated() {
    let mut world = ready(SIZE);
    world.submit(1, Kept::Zeroes(Extent::new(0, 4), CACHED));
    assert!(world.outcome(1).is_ok());
    assert_eq!(world.writes(), 1);
}

/// A flush is one COMMIT of the whole file: offset and count are zero (RFC 1813 §3.3.21).
#[test]
fn a_flush_commits_everything() {
    let mut world = ready(SIZE);
    world.submit(1, Kept::Write(Extent::new(9, 1), filled(1, 4), CACHED));
    world.sent = Some(Vec::new());
    world.submit(2, Kept::Flush);
    assert!(world.outcome(1).is_ok() && world.outcome(2).is_ok());
    let sent = world.sent.take().unwrap();
    let (call, range) = sent.split_at(sent.len() - 12);
    // Behind the record's mark, XID, direction and three numbers: the procedure.
    assert_eq!((word(call, 24), range), (Some(21), &[0; 12][..]));
}

/// A server that takes less at a time than others is asked for no more.
#[test]
fn reads_and_writes_are_as_large_as_the_server_says_at_most() {
    let mut world = World::version3(SIZE);
    let told = Rc::new(Cell::new(0));
    let counter = Rc::clone(&told);
    world.tamper = Some(Box::new(move |bytes| {
        each_record(bytes, |record| {
            if record.len() == FSINFO {
                assert_eq!((word(record, RTMAX), word(record, WTMAX)), (Some(1 << 20), Some(1 << 20)));
                set_word(record, RTMAX, 1024);
                // No whole number of blocks.
                set_word(record, WTMAX, 2047);
                counter.set(counter.get() + 1);
            }
        });
    }));
    world.connect(None);
    assert_eq!((told.get(), world.ready[0].limits.max_transfer), (1, 1024));
    world.submit(1, Kept::Write(Extent::new(0, 6), filled(6, 8), CACHED));
    world.submit(2, Kept::Read(Extent::new(0, 6)));
    assert!(world.outcome(1).is_ok() && world.data(2).iter().all(|byte| *byte == 8));
    assert_eq!((world.writes(), world.bench.requests["read"]), (2, 3));
}

#[test]
fn a_reader_needs_no_write_verifier() {
    let access = Access::ReadOnly;
    let mut world = World::version3_with(Config { access, size: None, ..config(SIZE) }, grown());
    world.connect(None);
    let file = &world.ready[0];
    assert!(file.verifier.is_none() && file.features.contains(Features::READ_ONLY));
    world.submit(1, Kept::Flush);
    world.submit(2, Kept::Read(Extent::new(0, 1)));
    assert!(world.outcome(1).is_ok() && world.data(2).len() == 512);
}

/// A file system whose file has its size.
fn grown() -> Memory {
    let mut world = ready(SIZE);
    world.input(Input::Disconnect);
    assert!(!world.is_connected() && world.failures.is_empty());
    world.bench.memory
}

#[test]
fn what_is_not_there_is_named() {
    for (names, words) in [
        (&["data", "none.img"][..], &["/data/none.img is not found", "LOOKUP answers NFS3ERR_NOENT"][..]),
        (&["nowhere", FILE], &["/nowhere is not found", "MNT answers MNT3ERR_NOENT", "check the path"]),
        (&["data"], &["/ is not found", "MNT answers MNT3ERR_ACCES"]),
        (&["data", FILE, "deeper"], &["/data/disk.img/deeper is not found", "NFS3ERR_NOTDIR"]),
        (&["data", "a", "b", "c"], &["/data/a is not found", "LOOKUP"]),
    ] {
        let mut world = deep(names);
        world.connect(None);
        assert!(world.ready.is_empty());
        let [reason] = world.failures.as_slice() else { panic!("{:?}", world.failures) };
        assert!(words.iter().all(|word| reason.contains(word)) && reason.contains("; "), "{reason}");
    }
}

/// A path that is longer than MOUNT takes is asked for from where it fits.
#[test]
fn a_path_that_is_too_long_for_mount_is_shortened() {
    let long = "n".repeat(255);
    let mut world = deep(&["data", &long, &long, &long, &long, FILE]);
    world.connect(None);
    assert!(world.failures[0].contains("is not found: LOOKUP"), "{:?}", world.failures);
}

#[test]
fn a_server_without_mount_is_told_from_one_that_has_it_elsewhere() {
    for (status, word) in [(1, "mountport="), (2, "has MOUNT of versions"), (4, "refuses the call")] {
        let mut world = World::version3(SIZE);
        world.tamper = Some(Box::new(move |bytes| {
            each_record(bytes, |record| {
                record.truncate(24);
                set_word(record, 20, status);
                if status == 2 {
                    record.extend([0, 0, 0, 1, 0, 0, 0, 1]);
                }
            });
        }));
        world.connect(None);
        assert!(world.failures[0].contains(word), "{:?}", world.failures);
    }
    let mut world = World::version3(SIZE);
    world.tamper = Some(Box::new(Vec::clear));
    world.connect(None);
    assert!(world.failures[0].contains("does not answer"), "{:?}", world.failures);
    // A handle of 65 bytes.
    let mut world = World::version3(SIZE);
    world.tamper = Some(Box::new(|bytes| {
        each_record(bytes, |record| {
            set_word(record, 28, 65);
            record.resize(200, 0);
        });
    }));
    world.connect(None);
    assert!(world.failures[0].contains("above its maximum of 64"), "{:?}", world.failures);
}

#[test]
fn a_server_without_version_3_is_told() {
    let mut world = ready(SIZE);
    world.end();
    world.tamper = Some(Box::new(|bytes| {
        each_record(bytes, |record| {
            record.truncate(24);
            set_word(record, 20, 2);
            record.extend([0, 0, 0, 4, 0, 0, 0, 4]);
        });
    }));
    world.connect(None);
    assert!(world.failures.last().unwrap().contains("leave version=3 out"), "{:?}", world.failures);
}

/// A connection that is cut at any byte: nothing has succeeded that was not carried out, and what is made again leaves the same bytes behind.
#[test]
fn a_write_whose_connection_is_cut_is_made_again() {
    // The calls have some 800 bytes.
    for cut in (0..900).step_by(7) {
        let mut world = ready(SIZE);
        world.cut_after(cut);
        world.submit(1, Kept::Write(Extent::new(5, 1), filled(1, 3), CACHED));
        world.submit(2, Kept::Flush);
        let mut tries = 0;
        while !world.kept.is_empty() {
            tries += 1;
            assert!(tries < 10, "cut at {cut}: {:?}", world.failures);
            if world.is_connected() {
                world.end();
                continue;
            }
            // Nothing of the old connection is left: whoever makes writes again has waited for that.
            world.deliver_late();
            world.connect(None);
            world.resubmit();
        }
        assert!(world.outcome(1).is_ok() && world.outcome(2).is_ok(), "cut at {cut}");
        world.submit(3, Kept::Read(Extent::new(5, 1)));
        again(&mut world);
        assert!(world.data(3).iter().all(|byte| *byte == 3), "cut at {cut}");
        assert!((1..=2).contains(&world.writes()), "cut at {cut}: {} writes", world.writes());
    }
}

/// Connections that end at any time with anything under way: reads see what was written.
#[test]
fn lost_connections_lose_nothing() {
    let mut cuts = 0;
    for seed in 0..30 {
        let mut entropy = SeededEntropy::new(seed);
        let mut world = ready(SIZE);
        world.chunk = [usize::MAX, 1, 100][usize::try_from(seed % 3).unwrap()];
        let mut model = [0_u8; 128];
        for tag in 1..100 {
            let block = below(&mut entropy, 128);
            let byte = u8::try_from(below(&mut entropy, 255)).unwrap() + 1;
            if below(&mut entropy, 3) == 0 {
                world.cut_after(usize::try_from(below(&mut entropy, 1000)).unwrap());
                cuts += 1;
            }
            let extent = Extent::new(block, 1);
            world.submit(2 * tag, Kept::Write(extent, filled(1, byte), CACHED));
            again(&mut world);
            assert!(world.outcome(2 * tag).is_ok(), "seed {seed}");
            model[usize::try_from(block).unwrap()] = byte;
            world.submit(2 * tag + 1, Kept::Read(extent));
            again(&mut world);
            assert!(world.data(2 * tag + 1).iter().all(|read| *read == byte), "seed {seed} block {block}");
        }
        world.submit(1, Kept::Read(Extent::new(0, 128)));
        again(&mut world);
        for (content, byte) in world.data(1).chunks(512).zip(model) {
            assert!(content.iter().all(|read| *read == byte), "seed {seed}");
        }
    }
    assert!(cuts > 500);
}

/// Connects and makes requests again until all have ended.
fn again(world: &mut World) {
    while !world.kept.is_empty() {
        world.end();
        world.deliver_late();
        world.connect(None);
        world.resubmit();
    }
}

#[test]
fn the_file_of_a_new_connection_is_that_of_the_one_before() {
    let mut world = ready(SIZE);
    world.end();
    world.connect(None);
    assert_eq!(world.ready[0], world.ready[1]);
    // Behind a crash nobody has it open any more, so that it goes with its name.
    world.crash(&mut SeededEntropy::new(1));
    let mut maker = common::Client::new(&mut world.bench, "remover");
    let root = maker.handle(&mut world.bench, &["data"]);
    let remove = [common::op::putfh(&root), common::op::remove(FILE)];
    assert_eq!(maker.status(&mut world.bench, &remove), nfs::v4::Status::OK);
    world.connect(None);
    assert!(world.failures.last().unwrap().contains("/data/disk.img is not found"), "{:?}", world.failures);
    // Its handle was stale, so the path was looked up; what has the name now is another file.
    maker.open(&mut world.bench, FILE, 3, 0).unwrap();
    world.connect(None);
    let [first, .., last] = world.ready.as_slice() else { panic!("{:?}", world.failures) };
    assert_ne!(first.identity, last.identity);
}

#[test]
fn a_stale_handle_ends_the_connection() {
    let (mut world, _) = misled(|record| {
        fail(record, STALE, 1);
        true
    });
    read_four(&mut world);
    ends(&world, "forgotten what was open (NFS3ERR_STALE)");
    world.tamper = None;
    world.connect(None);
    world.resubmit();
    assert_eq!(world.data(10).len(), 2048);
}

#[test]
fn another_verifier_ends_the_connection() {
    for request in [Kept::Flush, Kept::Write(Extent::new(1, 1), filled(1, 2), CACHED)] {
        let (mut world, _) = misled(|_| false);
        let Some(Verifier(verifier)) = world.ready[0].verifier else { panic!("it can be written") };
        world.tamper = Some(Box::new(move |bytes| {
            replace(bytes, &verifier, b"another!");
        }));
        world.submit(10, request);
        ends(&world, "write verifier");
    }
}

#[test]
fn a_busy_server_may_be_asked_again() {
    let busy = Rc::new(Cell::new(3));
    let (mut world, count) = misled(move |record| {
        let hits = busy.get() > 0;
        if hits {
            busy.set(busy.get() - 1);
            fail(record, JUKEBOX, 1);
        }
        hits
    });
    for _ in 0..4 {
        assert!(world.done.is_empty());
        read_four(&mut world);
    }
    assert_eq!((world.data(10).len(), count.get()), (2048, 3));
}

#[test]
fn a_server_that_is_busy_while_the_file_is_opened_is_asked_again() {
    for ends in [3, usize::MAX] {
        let mut world = World::version3(SIZE);
        world.mount().map(|export| world.three.as_mut().unwrap().export = Some(export)).unwrap();
        let count = Rc::new(Cell::new(0));
        let counter = Rc::clone(&count);
        world.tamper = Some(Box::new(move |bytes| {
            each_record(bytes, |record| {
                counter.set(counter.get() + 1);
                if counter.get() <= ends {
                    fail(record, JUKEBOX, 1);
                }
            });
        }));
        world.connect(None);
        world.pass(Duration::from_secs(27));
        assert_eq!(world.ready.len(), usize::from(ends == 3), "{:?}", world.failures);
        assert!(count.get() > 3);
        world.pass(Duration::from_secs(4));
        assert_eq!(world.is_connected(), ends == 3);
        if ends > 3 {
            assert!(world.failures[0].contains("NFS3ERR_JUKEBOX"), "{:?}", world.failures);
        }
    }
}

#[test]
fn a_short_read_is_gone_on_with() {
    let (mut world, count) = misled(|record| {
        let hits = word(record, READ_LENGTH) > Some(512);
        if hits {
            shorten(record, 512, 0);
        }
        hits
    });
    read_four(&mut world);
    let data = world.data(10);
    for (content, byte) in data.chunks(512).zip(1..) {
        assert!(content.iter().all(|read| *read == byte), "block {byte}");
    }
    assert_eq!((data.len(), count.get()), (2048, 3));
}

#[test]
fn a_read_that_ends_with_the_file_is_out_of_range() {
    let (mut world, _) = misled(|record| {
        let hits = record.len() > READ_DATA;
        if hits {
            shorten(record, 512, 1);
        }
        hits
    });
    read_four(&mut world);
    assert!(matches!(world.outcome(10), Err(VolumeErrorKind::OutOfRange)));
    assert!(world.is_connected());
}

#[test]
fn reads_that_cannot_be_end_the_connection() {
    type Lie = fn(&mut Record);
    let lies: [(Lie, &str); 4] = [
        (|record| shorten(record, 0, 0), "READ gives nothing"),
        (
            |record| {
                set_word(record, READ_COUNT, 4096);
                set_word(record, READ_LENGTH, 4096);
                record.resize(READ_DATA + 4096, 9);
            },
            "above its maximum",
        ),
        (|record| set_word(record, READ_COUNT, 2044), "breaks the protocol"),
        (|record| record.truncate(READ_DATA + 100), "breaks the protocol"),
    ];
    for (lie, why) in lies {
        let (mut world, _) = misled(move |record| {
            lie(record);
            true
        });
        read_four(&mut world);
        ends(&world, why);
    }
}

/// The last words of the answer to WRITE: the count, how durable, and the verifier.
fn from_end(record: &Record, words: usize) -> usize {
    record.len() - 4 * words
}

#[test]
fn a_write_of_nothing_of_too_much_or_less_durable_ends_the_connection() {
    for (words, value, durability) in [
        (4, 0, CACHED),
        (4, 513, CACHED),
        (4, u32::MAX, CACHED),
        (3, 0, Durability::Durable),
        (3, 1, Durability::Durable),
        (3, 3, CACHED),
    ] {
        let (mut world, _) = misled(move |record| {
            let place = from_end(record, words);
            set_word(record, place, value);
            true
        });
        world.submit(10, Kept::Write(Extent::new(9, 1), filled(1, 1), durability));
        ends(&world, "breaks the protocol: a WRITE");
    }
}

#[test]
fn a_short_write_is_gone_on_with() {
    let (mut world, count) = misled(|record| {
        let place = from_end(record, 4);
        let hits = word(record, place) > Some(512);
        if hits {
            set_word(record, place, 512);
        }
        hits
    });
    world.submit(10, Kept::Write(Extent::new(9, 3), filled(3, 1), CACHED));
    assert!(matches!(world.outcome(10), Ok(Outcome::Done)));
    assert_eq!(count.get(), 2);
}

/// What each status does to a read and to a write.
#[test]
fn statuses_of_procedures() {
    for (status, read, write) in [
        (5, VolumeErrorKind::Media, VolumeErrorKind::Media),
        (28, VolumeErrorKind::NoSpace, VolumeErrorKind::NoSpace),
        (30, VolumeErrorKind::Media, VolumeErrorKind::ReadOnly),
        (13, VolumeErrorKind::Media, VolumeErrorKind::ReadOnly),
        (999, VolumeErrorKind::Media, VolumeErrorKind::Media),
    ] {
        for (halves, expected) in [(1, read), (2, write)] {
            let (mut world, _) = misled(move |record| {
                fail(record, status, halves);
                true
            });
            let request = if halves == 1 {
                Kept::Read(Extent::new(0, 1))
            } else {
                Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED)
            };
            world.submit(10, request);
            assert_eq!(world.outcome(10).unwrap_err(), expected, "{status}");
            assert!(world.is_connected());
        }
    }
}

#[test]
fn what_is_no_regular_file_is_no_volume() {
    for (kind, why) in [(2, "is a directory"), (5, "is a symbolic link"), (3, "no regular file")] {
        let mut world = ready(SIZE);
        world.end();
        world.tamper = Some(Box::new(move |bytes| {
            each_record(bytes, |record| {
                if record.len() == GETATTR {
                    set_word(record, KIND, kind);
                }
            });
        }));
        world.connect(None);
        assert!(world.failures.last().unwrap().contains(why), "{:?}", world.failures);
    }
}

/// Makes the answer to GETATTR tell of one block; true if it is one.
fn tells_one_block(record: &mut Record) -> bool {
    let hits = record.len() == GETATTR && word(record, STATUS) == Some(0);
    if hits {
        set_word(record, ATTRIBUTES_SIZE, 0);
        set_word(record, ATTRIBUTES_SIZE + 4, 512);
    }
    hits
}

#[test]
fn a_file_that_does_not_grow_is_no_volume() {
    let mut world = World::version3(SIZE);
    world.tamper = Some(Box::new(|bytes| {
        each_record(bytes, |record| {
            tells_one_block(record);
        });
    }));
    world.connect(None);
    world.pass(Duration::from_secs(1));
    assert!(world.ready.is_empty() && !world.is_connected());
    assert!(world.failures[0].contains("says that it has grown"), "{:?}", world.failures);
}

/// Another client makes the file larger than `size=` asks for, just before this one would: nothing is cut off, as the guard of SETATTR does not hold.
#[test]
fn a_file_that_has_grown_meanwhile_is_not_cut() {
    let mut world = World::version3_with(config(SIZE), grown());
    world.config.size = Some(SIZE / 2);
    let refused = Rc::new(Cell::new(0));
    let (once, counter) = (Cell::new(true), Rc::clone(&refused));
    world.tamper = Some(Box::new(move |bytes| {
        each_record(bytes, |record| {
            if once.get() && tells_one_block(record) {
                once.set(false);
                // What was told is from before the last change.
                let changed = GETATTR - 8;
                set_word(record, changed, 7);
            }
            if word(record, STATUS) == Some(NOT_SYNC) {
                counter.set(counter.get() + 1);
            }
        });
    }));
    world.connect(None);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.ready.len(), 1, "{:?}", world.failures);
    assert_eq!((world.ready[0].geometry.bytes(), refused.get()), (SIZE, 1));
}

#[test]
fn a_user_who_may_not_write_is_told() {
    let mut world = World::version3_with(config(SIZE), grown());
    world.tamper = Some(Box::new(|bytes| {
        each_record(bytes, |record| {
            // ACCESS alone has attributes and one word.
            if record.len() == 120 && word(record, STATUS) == Some(0) {
                set_word(record, 116, 1);
            }
        });
    }));
    world.connect(None);
    let reason = world.failures.last().unwrap();
    assert!(reason.contains("ACCESS does not grant writing") && reason.contains("readonly+"), "{reason}");
}

#[test]
fn a_server_that_says_nothing_is_given_up_while_the_file_is_opened() {
    for answers in 0..7 {
        let left = Rc::new(Cell::new(answers));
        let mut world = ready(SIZE);
        world.end();
        (world.ready, world.failures) = (Vec::new(), Vec::new());
        world.three.as_mut().unwrap().keep = nfs::client::version3::Nfs3Keep::default();
        world.tamper = Some(Box::new(move |bytes| {
            if left.get() == 0 {
                bytes.clear();
            } else if !bytes.is_empty() {
                left.set(left.get() - 1);
            }
        }));
        world.connect(None);
        world.pass(Duration::from_secs(31));
        let opened = answers >= 5;
        assert_eq!(world.ready.len(), usize::from(opened), "after {answers} answers");
        assert!(!world.is_connected());
        assert!(world.failures[0].contains("not answer"), "{:?}", world.failures);
    }
}

#[test]
fn a_server_that_falls_silent_is_noticed() {
    let (mut world, _) = misled(|_| false);
    world.tamper = Some(Box::new(Vec::clear));
    world.pass(Duration::from_secs(16));
    assert!(!world.is_connected(), "5 s of silence, and 10 s for the answer");
    assert!(world.failures[0].contains("10 s"), "{:?}", world.failures);
}

#[test]
fn a_record_without_bounds_ends_the_connection() {
    let (mut world, _) = misled(|_| false);
    world.tamper = Some(Box::new(|bytes| {
        if let Some(mark) = bytes.first_chunk_mut::<4>() {
            *mark = [0xff; 4];
        }
    }));
    read_four(&mut world);
    assert!(!world.is_connected() && world.done.is_empty());
}

/// Whatever is said, what the client keeps of it is bounded, and each request ends.
#[test]
fn any_byte_of_any_answer_may_be_another() {
    for place in 0..200 {
        let (mut world, _) = misled(move |record| {
            if let Some(byte) = record.get_mut(place) {
                *byte ^= 0x41;
            }
            true
        });
        world.submit(10, Kept::Read(Extent::new(0, 1)));
        world.submit(11, Kept::Write(Extent::new(1, 1), filled(1, 1), CACHED));
        world.submit(12, Kept::Flush);
        world.pass(Duration::from_secs(1));
        if let Some(client) = world.client() {
            assert!(client.held() < 256 << 10 && !client.is_closing());
        }
        world.end();
        for tag in [10, 11, 12] {
            let kept = world.kept.contains_key(&Tag(tag));
            assert!(kept || world.done.contains_key(&Tag(tag)), "{tag} has ended, or is to be made again");
        }
    }
}
