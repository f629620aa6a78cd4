//! The client against the server of this crate, both without a network: requests, lost connections, retries in slots, and servers that crash.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client_world;
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client_world::{BLOCK, Kept, World, below, config, filled, memory_with_file, replace};
use nfs::client::{Access, Input, Version, Versions};
use nfs::v4::Verifier;
use protocol::SeededEntropy;
use volume::{Durability, Extent, Features, Outcome, Tag, VolumeErrorKind};

const CACHED: Durability = Durability::Cached;
const SIZE: u64 = 1 << 20;

fn ready(size: u64) -> World {
    let mut world = World::new(size);
    world.connect(None);
    assert_eq!((world.ready.len(), &world.failures), (1, &Vec::new()));
    world
}

/// The same in both versions.
fn both(size: u64) -> [World; 2] {
    let mut three = World::version3(size);
    three.connect(None);
    assert_eq!((three.ready.len(), &three.failures), (1, &Vec::new()));
    [ready(size), three]
}

#[test]
fn a_file_becomes_a_volume() {
    let world = ready(SIZE);
    let file = &world.ready[0];
    assert_eq!((file.geometry.bytes(), file.geometry.block_size), (SIZE, BLOCK));
    assert_eq!(file.version, Version::Four { minor: 2 });
    assert_eq!(file.limits.max_transfer, 1 << 20);
    assert!(file.features.contains(Features::DISCARD | Features::VOLATILE_CACHE));
    assert!(file.verifier.is_some() && file.identity.len() == 24);
}

#[test]
fn what_is_written_is_read_and_zeroed() {
    for world in both(SIZE) {
        write_read_and_zero(world);
    }
}

fn write_read_and_zero(mut world: World) {
    let extent = Extent::new(3, 16);
    world.submit(1, Kept::Write(extent, filled(16, 7), CACHED));
    world.submit(2, Kept::Flush);
    world.submit(3, Kept::Read(Extent::new(2, 18)));
    assert!(matches!(world.outcome(1), Ok(Outcome::Done)));
    assert!(matches!(world.outcome(2), Ok(Outcome::Done)));
    let data = world.data(3);
    assert!(data[..512].iter().all(|byte| *byte == 0) && data[512..17 * 512].iter().all(|byte| *byte == 7));
    world.submit(4, Kept::Zeroes(Extent::new(4, 2), Durability::Durable));
    world.submit(5, Kept::Discard(Extent::new(8, 1)));
    world.submit(6, Kept::Read(extent));
    assert!(world.outcome(4).is_ok() && world.outcome(5).is_ok());
    let data = world.data(6);
    for (block, content) in data.chunks(512).enumerate() {
        let byte = if matches!(block, 1 | 2 | 5) { 0 } else { 7 };
        assert!(content.iter().all(|read| *read == byte), "block {block}");
    }
}

/// The longest request, and more at a time than the session has slots.
#[test]
fn more_requests_than_slots_wait() {
    for mut world in both(16 << 20) {
        let blocks = (1 << 20) / u64::from(BLOCK);
        for tag in 0..100 {
            let at = tag % 15 * blocks;
            world.submit(tag, Kept::Write(Extent::new(at, blocks), filled(blocks, 9), CACHED));
        }
        for tag in 0..100 {
            assert!(matches!(world.outcome(tag), Ok(Outcome::Done)), "{tag}");
        }
        assert_eq!(world.writes(), 100);
    }
}

#[test]
fn an_older_minor_version_is_spoken_if_it_is_asked_for() {
    let versions = Versions::One;
    let mut world = World::with(nfs::client::Config { versions, ..config(SIZE) }, memory_with_file());
    world.connect(None);
    let file = &world.ready[0];
    assert_eq!(file.version, Version::Four { minor: 1 });
    assert!(!file.features.contains(Features::DISCARD));
    world.submit(1, Kept::Zeroes(Extent::new(0, 4), CACHED));
    assert!(world.outcome(1).is_ok());
    assert_eq!(world.writes(), 1, "zeros are written where nothing can be deallocated");
}

#[test]
fn a_name_that_is_not_there_is_named() {
    for (path, word) in [
        (vec!["data", "none.img"], "/data/none.img"),
        (vec!["nowhere", "disk.img"], "/nowhere is not found"),
        (vec!["data"], "/data"),
        (vec!["data", "disk.img", "deeper"], "deeper"),
    ] {
        let path = path.into_iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut world = World::with(nfs::client::Config { path, ..config(SIZE) }, memory_with_file());
        world.connect(None);
        assert!(world.ready.is_empty());
        let [reason] = world.failures.as_slice() else { panic!("{:?}", world.failures) };
        assert!(reason.contains(word) && reason.contains("; "), "{reason}");
    }
}

#[test]
fn an_empty_file_is_no_volume() {
    let config = nfs::client::Config { size: None, ..config(0) };
    for mut world in [
        World::with(config.clone(), memory_with_file()),
        World::version3_with(config.clone(), memory_with_file()),
    ] {
        world.connect(None);
        assert!(world.failures[0].contains("size="), "{:?}", world.failures);
    }
}

#[test]
fn nothing_stays_at_the_server_behind_a_client_that_leaves() {
    let mut world = ready(SIZE);
    world.submit(1, Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED));
    world.input(Input::Disconnect);
    assert!(!world.is_connected() && world.failures.is_empty());
    // The record of its client, too: there is none that could be reclaimed after a restart.
    assert!(world.bench.stable.is_empty(), "{:?}", world.bench.stable);
}

#[test]
fn others_may_not_write_what_is_opened_exclusively() {
    let mut world = ready(SIZE);
    let access = Access::Exclusive;
    world.config = nfs::client::Config { access, owner: b"another".to_vec(), ..config(SIZE) };
    world.drop_late();
    world.end();
    world.connect(None);
    let reason = world.failures.last().unwrap();
    assert!(reason.contains("SHARE_DENIED") && reason.contains("another client"), "{reason}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    for world in both(SIZE) {
        says_nothing(world);
    }
}

fn says_nothing(mut world: World) {
    world.submit(1, Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED));
    world.bench.holds = true;
    world.submit(2, Kept::Write(Extent::new(1, 1), filled(1, 1), CACHED));
    // Signs of life are answered: a slow disk is no dead server.
    world.pass(Duration::from_secs(20));
    assert!(world.is_connected());
    world.pass(Duration::from_secs(11));
    assert!(!world.is_connected(), "the call's own time is over");
    assert!(matches!(world.outcome(2), Err(VolumeErrorKind::TimedOut)));
    assert!(world.failures[0].contains("does not answer"), "{:?}", world.failures);
}

#[test]
fn a_lost_connection_gives_back_the_memory_of_reads() {
    for mut world in both(SIZE) {
        world.bench.holds = true;
        world.submit(1, Kept::Read(Extent::new(0, 8)));
        world.end();
        assert_eq!(world.returned[&Tag(1)].len(), 8 * 512);
    }
}

#[test]
fn who_leaves_waits_for_what_is_under_way() {
    for mut world in both(SIZE) {
        world.bench.holds = true;
        world.submit(1, Kept::Write(Extent::new(3, 1), filled(1, 7), CACHED));
        world.input(Input::Disconnect);
        assert!(world.is_connected() && world.done.is_empty());
        world.bench.let_go();
        world.run();
        assert!(!world.is_connected() && world.failures.is_empty(), "{:?}", world.failures);
        assert!(world.outcome(1).is_ok());
    }
}

#[test]
fn a_new_size_is_noticed() {
    for world in both(SIZE) {
        grows_elsewhere(world);
    }
}

fn grows_elsewhere(mut world: World) {
    // A second client lets the file grow.
    let mut maker = common::Client::new(&mut world.bench, "grower");
    let (stateid, handle) = maker.open(&mut world.bench, client_world::FILE, 3, 0).unwrap();
    let grow = [common::op::putfh(&handle), common::op::write(stateid, 2 * SIZE - 1, b"x")];
    assert_eq!(maker.status(&mut world.bench, &grow), nfs::v4::Status::OK);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.resized, [2 * SIZE / u64::from(BLOCK)]);
}

/// A connection that is cut at any byte: the write is carried out once, and its end is heard.
#[test]
fn a_write_whose_connection_is_cut_is_carried_out_once() {
    // The calls have some 1,000 bytes.
    for cut in 0..1100 {
        for late in [false, true] {
            let mut world = ready(SIZE);
            world.cut_after(cut);
            world.submit(1, Kept::Write(Extent::new(5, 1), filled(1, 3), CACHED));
            world.submit(2, Kept::Read(Extent::new(5, 1)));
            let mut tries = 0;
            while !world.kept.is_empty() {
                tries += 1;
                assert!(tries < 10, "cut at {cut}: {:?}", world.failures);
                if !world.is_connected() {
                    world.connect(None);
                    assert_eq!(world.ready.len(), 2);
                    // What the old connection had sent comes behind what the new one has settled.
                    if late {
                        world.deliver_late();
                    } else {
                        world.drop_late();
                    }
                    world.resubmit();
                    continue;
                }
                world.end();
            }
            assert!(matches!(world.outcome(1), Ok(Outcome::Done)));
            assert_eq!(world.writes(), 1, "cut at {cut}, late {late}");
        }
    }
}

/// A world of random traffic, cuts and late bytes, without crashes: nothing is carried out twice, nothing is lost, and reads see what was written.
#[test]
fn lost_connections_neither_lose_nor_repeat_anything() {
    let mut cuts = 0;
    for seed in 0..60 {
        let mut entropy = SeededEntropy::new(seed);
        let mut world = ready(64 << 10);
        world.chunk = [usize::MAX, 1, 100][usize::try_from(seed % 3).unwrap()];
        let blocks = (64 << 10) / u64::from(BLOCK);
        let mut model: BTreeMap<u64, u8> = BTreeMap::new();
        let mut writing: BTreeMap<u64, (u64, u8)> = BTreeMap::new();
        let mut reading: BTreeMap<u64, (u64, u8)> = BTreeMap::new();
        let (mut tag, mut writes) = (0, 0);
        for _ in 0..200 {
            match below(&mut entropy, 10) {
                0 => {
                    world.end();
                    cuts += 1;
                }
                1 => {
                    world.deliver_late();
                }
                2..=4 => {
                    let block = below(&mut entropy, blocks);
                    if reading.values().all(|(read, _)| *read != block)
                        && writing.values().all(|(written, _)| *written != block)
                    {
                        tag += 1;
                        writes += 1;
                        let byte = u8::try_from(below(&mut entropy, 255)).unwrap() + 1;
                        writing.insert(tag, (block, byte));
                        world.submit(tag, Kept::Write(Extent::new(block, 1), filled(1, byte), CACHED));
                    }
                }
                5..=7 => {
                    let block = below(&mut entropy, blocks);
                    if writing.values().all(|(written, _)| *written != block) {
                        tag += 1;
                        reading.insert(tag, (block, model.get(&block).copied().unwrap_or_default()));
                        world.submit(tag, Kept::Read(Extent::new(block, 1)));
                    }
                }
                _ => {
                    if !world.is_connected() {
                        let cut = below(&mut entropy, 4000);
                        let cut = (below(&mut entropy, 2) == 0).then(|| usize::try_from(cut).unwrap());
                        let before = world.ready.len();
                        world.connect(cut);
                        if world.ready.len() > before {
                            world.resubmit();
                        }
                    }
                }
            }
            settle(&mut world, &mut model, &mut writing, &mut reading);
        }
        if !world.is_connected() || !world.kept.is_empty() {
            world.end();
            world.connect(None);
            world.resubmit();
            settle(&mut world, &mut model, &mut writing, &mut reading);
        }
        assert!(world.kept.is_empty() && writing.is_empty() && reading.is_empty(), "seed {seed}");
        assert_eq!(world.writes(), writes, "seed {seed}: each write was carried out once");
        let verifiers: BTreeSet<_> = world.ready.iter().map(|file| file.verifier).collect();
        assert_eq!(verifiers.len(), 1, "the server ran all the while");
        assert!(world.failures.iter().all(|why| why.contains("ended")), "{:?}", world.failures);
    }
    assert!(cuts > 100);
}

fn settle(
    world: &mut World,
    model: &mut BTreeMap<u64, u8>,
    writing: &mut BTreeMap<u64, (u64, u8)>,
    reading: &mut BTreeMap<u64, (u64, u8)>,
) {
    let over: Vec<Tag> = world.done.keys().copied().collect();
    for Tag(tag) in over {
        if let Some((block, byte)) = writing.remove(&tag) {
            let outcome = world.outcome(tag);
            assert!(outcome.is_ok(), "{outcome:?}");
            model.insert(block, byte);
        } else if let Some((block, byte)) = reading.remove(&tag) {
            let data = world.data(tag);
            assert!(data.iter().all(|read| *read == byte), "block {block}");
        }
    }
}

/// A server that crashes loses what was not committed: the client tells by another write verifier. What was flushed is there.
#[test]
fn what_was_flushed_outlives_a_crash_and_the_rest_is_told_of() {
    let mut lost = 0;
    for (seed, mut world) in (0..40).flat_map(|seed| both(64 << 10).map(|world| (seed, world))) {
        let mut entropy = SeededEntropy::new(seed);
        world.submit(1, Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED));
        world.submit(2, Kept::Write(Extent::new(1, 1), filled(1, 2), Durability::Durable));
        world.submit(3, Kept::Flush);
        world.submit(4, Kept::Write(Extent::new(2, 1), filled(1, 3), CACHED));
        assert!((1..=4).all(|tag| world.outcome(tag).is_ok()));
        let verifier = world.ready[0].verifier;
        world.crash(&mut entropy);
        world.connect(None);
        world.pass(Duration::from_secs(1));
        assert_eq!(world.ready.len(), 2, "seed {seed}: {:?}", world.failures);
        assert_ne!(world.ready[1].verifier, verifier);
        assert_eq!(world.ready[1].identity, world.ready[0].identity);
        for (tag, byte) in [(5, 1), (6, 2)] {
            world.submit(tag, Kept::Read(Extent::new(tag - 5, 1)));
            assert!(world.data(tag).iter().all(|read| *read == byte), "seed {seed}");
        }
        world.submit(7, Kept::Read(Extent::new(2, 1)));
        lost += usize::from(world.data(7).iter().any(|read| *read != 3));
    }
    assert!(lost > 0, "a crash that loses nothing proves nothing");
}

/// The server loses its cache, and the connection stays, as at a server behind a load balancer: the next answer with a verifier ends the connection.
#[test]
fn another_verifier_on_the_same_connection_ends_it() {
    for (flush, mut world) in
        [false, true].into_iter().flat_map(|flush| both(64 << 10).map(|world| (flush, world)))
    {
        world.submit(1, Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED));
        let Some(Verifier(verifier)) = world.ready[0].verifier else { panic!("it can be written") };
        world.tamper = Some(Box::new(move |bytes| {
            replace(bytes, &verifier, b"another!");
        }));
        let request = if flush { Kept::Flush } else { Kept::Write(Extent::new(1, 1), filled(1, 2), CACHED) };
        world.submit(2, request);
        assert!(!world.is_connected() && !world.done.contains_key(&Tag(2)), "no success is told");
        assert!(world.failures[0].contains("write verifier"), "{:?}", world.failures);
        world.connect(None);
        world.resubmit();
        assert_ne!(world.ready[0].verifier, world.ready[1].verifier);
        assert!(world.outcome(2).is_ok());
    }
}

/// A client that was away for longer than its lease, and whose state another client's conflicting open has ended, opens the file anew.
#[test]
fn a_client_whose_lease_has_ended_comes_back() {
    let mut world = ready(64 << 10);
    world.end();
    world.drop_late();
    world.pass(Duration::from_hours(25));
    world.connect(None);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.ready.len(), 2, "{:?}", world.failures);
    world.submit(1, Kept::Write(Extent::new(0, 1), filled(1, 1), CACHED));
    assert!(world.outcome(1).is_ok());
}
