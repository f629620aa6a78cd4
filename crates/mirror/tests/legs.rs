//! Legs that fail, hang, return, are replaced: what a mirror does about them, and what it says.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use buf::Buf;
use protocol::Instant;
use volume::{Durability, Extent, Operation, PathState, Volume, VolumeErrorKind};
use world::{Driven, Leg, MIB, Shelf, content, write};

const SIZE: u64 = 12 * MIB;
const PAIR: &str = "mirror=[file:a,file:b]?timeout=1s";
const SECOND: Duration = Duration::from_secs(1);

struct Pair {
    shelf: Shelf,
    a: Arc<Leg>,
    b: Arc<Leg>,
    mirror: Arc<dyn Volume>,
    driven: Driven,
}

/// A mirror of two legs, both in sync.
fn pair() -> Pair {
    let shelf = Shelf::default();
    let (a, b) = (shelf.leg("a", SIZE), shelf.leg("b", SIZE));
    let mirror = shelf.open(PAIR).unwrap();
    let mut driven = Driven::new(&*mirror, Instant::ZERO);
    assert_eq!(mirror.path(), PathState::Degraded { missing: 1 }, "the second is being copied");
    driven.pass(5 * SECOND);
    assert_eq!(mirror.path(), PathState::Optimized, "{:?}", mirror.last_error());
    Pair { shelf, a, b, mirror, driven }
}

impl Pair {
    /// The owner is gone without a word, and another one opens the mirror.
    fn reopen(&mut self) {
        self.crash();
        self.mirror = self.shelf.open_at(PAIR, self.driven.now).unwrap();
        self.driven = Driven::new(&*self.mirror, self.driven.now);
    }

    fn crash(&mut self) {
        let nothing = self.shelf.open("ram:1M").unwrap();
        self.driven = Driven::new(&*nothing, self.driven.now);
        self.mirror = nothing;
    }

    fn legs_are_equal(&self) -> bool {
        let blocks = self.a.geometry().blocks - 4096;
        (0..blocks / 4096)
            .all(|part| content(&*self.a.ram, part * 4096, 4096) == content(&*self.b.ram, part * 4096, 4096))
    }
}

#[test]
fn a_leg_that_dies_is_out_and_what_it_missed_is_copied_when_it_returns() {
    let mut pair = pair();
    pair.driven.write(7, 1, 1).unwrap();
    pair.b.away.store(true, Ordering::Relaxed);
    pair.driven.write(7, 1, 2).unwrap();
    pair.driven.write(9000, 300, 3).unwrap();
    assert_eq!(pair.mirror.path(), PathState::Degraded { missing: 1 });
    let told = pair.mirror.last_error().unwrap();
    assert!(told.contains("leg 2, file:b, is out") && told.contains("no path"), "{told}");
    let changes = pair.mirror.changes().path;
    pair.driven.pass(3 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Degraded { missing: 1 }, "it is still away");
    pair.b.away.store(false, Ordering::Relaxed);
    pair.driven.pass(3 * SECOND);
    assert_eq!((pair.mirror.path(), pair.mirror.last_error()), (PathState::Optimized, None));
    assert!(pair.mirror.changes().path > changes);
    assert!(pair.legs_are_equal());
    pair.a.away.store(true, Ordering::Relaxed);
    assert!(pair.driven.holds(7, 1, 2) && pair.driven.holds(9000, 300, 3));
}

#[test]
fn writes_go_on_while_a_leg_is_copied_to() {
    let mut pair = pair();
    pair.b.away.store(true, Ordering::Relaxed);
    for region in 0..9 {
        pair.driven.write(region * 2048, 2048, 1).unwrap();
    }
    pair.b.away.store(false, Ordering::Relaxed);
    for round in 0..200_u64 {
        pair.driven.pass(Duration::from_millis(11));
        pair.driven.write(round * 97 % 20_000, 31, 9).unwrap();
    }
    pair.driven.pass(3 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Optimized, "{:?}", pair.mirror.last_error());
    assert!(pair.legs_are_equal());
}

#[test]
fn nothing_is_acknowledged_before_the_record_says_that_the_leg_is_out() {
    let mut pair = pair();
    pair.driven.write(0, 1, 1).unwrap();
    pair.b.away.store(true, Ordering::Relaxed);
    // The record cannot be written while the first leg hangs.
    let tag = pair.driven.start(write(0, 1, 2));
    pair.a.hangs.store(true, Ordering::Relaxed);
    assert!(pair.driven.ended(tag).is_none());
    pair.crash();
    pair.a.hangs.store(false, Ordering::Relaxed);
    pair.b.away.store(false, Ordering::Relaxed);
    pair.reopen();
    assert_eq!(pair.mirror.path(), PathState::Optimized, "both are in sync by their records");
}

#[test]
fn a_leg_that_hangs_holds_a_write_up_for_the_timeout_alone() {
    let mut pair = pair();
    pair.driven.write(5, 1, 1).unwrap();
    pair.b.hangs.store(true, Ordering::Relaxed);
    let begun = pair.driven.now;
    pair.driven.write(5, 1, 2).unwrap();
    let took = pair.driven.now.since(begun);
    assert!((SECOND..2 * SECOND).contains(&took), "{took:?}");
    let told = pair.mirror.last_error().unwrap();
    assert!(told.contains("had not answered 1s after another leg"), "{told}");
    // What it still has may take effect at any time: it takes part again only once that has ended.
    pair.driven.pass(5 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Degraded { missing: 1 });
    pair.driven.write(5, 1, 3).unwrap();
    pair.b.hangs.store(false, Ordering::Relaxed);
    pair.driven.pass(5 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Optimized, "{:?}", pair.mirror.last_error());
    assert!(pair.legs_are_equal());
}

#[test]
fn a_read_of_a_leg_that_hangs_is_answered_by_the_other() {
    let mut pair = pair();
    pair.driven.write(5, 1, 7).unwrap();
    pair.a.hangs.store(true, Ordering::Relaxed);
    let into = Buf::zeroed(512);
    let tag = pair.driven.start(Operation::Read { extent: Extent::new(5, 1), into });
    pair.driven.pass(2 * SECOND);
    assert!(pair.driven.ended(tag).is_none(), "its buffer is with the leg that hangs");
    assert!(pair.driven.holds(5, 1, 7), "others are answered at once");
    pair.a.hangs.store(false, Ordering::Relaxed);
    pair.driven.pass(SECOND);
    assert!(pair.driven.ended(tag).unwrap().result.is_ok());
}

#[test]
fn the_last_leg_is_never_out_and_its_errors_are_the_requests() {
    let mut pair = pair();
    pair.driven.write(5, 1, 7).unwrap();
    pair.a.away.store(true, Ordering::Relaxed);
    pair.b.away.store(true, Ordering::Relaxed);
    assert_eq!(pair.driven.write(5, 1, 8).unwrap_err(), VolumeErrorKind::Unreachable);
    assert_eq!(pair.driven.read(5, 1).unwrap_err(), VolumeErrorKind::Unreachable);
    pair.a.away.store(false, Ordering::Relaxed);
    pair.b.away.store(false, Ordering::Relaxed);
    pair.driven.pass(5 * SECOND);
    pair.driven.write(5, 1, 9).unwrap();
    pair.driven.pass(5 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Optimized, "{:?}", pair.mirror.last_error());
    assert!(pair.driven.holds(5, 1, 9) && pair.legs_are_equal());
}

#[test]
fn after_a_crash_regions_that_were_written_are_made_equal() {
    let mut pair = pair();
    pair.driven.write(100, 8, 1).unwrap();
    // The crash leaves a write on one leg alone.
    pair.b.hangs.store(true, Ordering::Relaxed);
    pair.driven.start(write(100, 8, 2));
    pair.driven.turn();
    pair.crash();
    pair.b.hangs.store(false, Ordering::Relaxed);
    assert!(!pair.legs_are_equal());
    pair.reopen();
    let seen = pair.driven.read(100, 8).unwrap();
    assert_eq!(pair.mirror.path(), PathState::Optimized);
    pair.driven.pass(2 * SECOND);
    assert!(pair.legs_are_equal());
    assert_eq!(pair.driven.read(100, 8).unwrap(), seen, "reads go on seeing what they saw");
}

#[test]
fn bits_are_cleared_once_a_region_is_quiet_and_a_clean_mirror_copies_nothing() {
    let mut pair = pair();
    pair.driven.write(100, 8, 1).unwrap();
    pair.driven.pass(20 * SECOND);
    // A difference that the mirror cannot know of shows whether it copies.
    Driven::new(&*pair.b.ram, Instant::ZERO).write(100, 8, 9).unwrap();
    pair.reopen();
    pair.driven.pass(5 * SECOND);
    assert!(!pair.legs_are_equal());
}

#[test]
fn a_leg_that_was_left_behind_serves_no_reads_after_a_restart() {
    let mut pair = pair();
    pair.driven.write(5, 1, 1).unwrap();
    pair.a.away.store(true, Ordering::Relaxed);
    pair.driven.write(5, 1, 2).unwrap();
    pair.crash();
    pair.a.away.store(false, Ordering::Relaxed);
    pair.reopen();
    assert_eq!(pair.mirror.path(), PathState::Degraded { missing: 1 });
    assert!(pair.driven.holds(5, 1, 2));
    pair.driven.pass(3 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Optimized);
    assert!(pair.legs_are_equal());
}

#[test]
fn a_resynchronisation_that_is_interrupted_goes_on_where_it_must() {
    for crash in [false, true] {
        let mut pair = pair();
        pair.driven.write(0, 1, 1).unwrap();
        pair.b.away.store(true, Ordering::Relaxed);
        for region in 0..9 {
            pair.driven.write(region * 2048, 2048, 2).unwrap();
        }
        pair.b.away.store(false, Ordering::Relaxed);
        for _ in 0..1000 {
            pair.driven.pass(Duration::from_millis(3));
            if pair.mirror.last_error().is_some_and(|told| told.contains("lacks")) {
                break;
            }
        }
        pair.driven.pass(Duration::from_millis(8));
        let told = pair.mirror.last_error().unwrap();
        assert!(told.contains("lacks") && !pair.legs_are_equal(), "it is in the middle: {told}");
        if crash {
            pair.reopen();
            assert_eq!(pair.mirror.path(), PathState::Degraded { missing: 1 }, "by the record it is out");
        } else {
            pair.b.away.store(true, Ordering::Relaxed);
            pair.driven.write(3, 1, 3).unwrap();
            pair.driven.pass(3 * SECOND);
            pair.b.away.store(false, Ordering::Relaxed);
        }
        pair.driven.pass(5 * SECOND);
        assert_eq!(pair.mirror.path(), PathState::Optimized, "{:?}", pair.mirror.last_error());
        assert!(pair.legs_are_equal());
    }
}

#[test]
fn data_of_others_is_written_over_only_where_that_was_said() {
    let shelf = Shelf::default();
    let (_, used) = (shelf.leg("a", SIZE), shelf.leg("b", SIZE));
    Driven::new(&*used, Instant::ZERO).write(2047, 1, 9).unwrap();
    let refused = shelf.open(PAIR).unwrap_err().to_string();
    assert!(refused.contains("leg 2") && refused.contains("overwrite=1"), "{refused}");
    assert_eq!(content(&*used.ram, 2047, 1), [9; 512]);
    let mirror = shelf.open("mirror=[file:a,file:b]?overwrite=1").unwrap();
    Driven::new(&*mirror, Instant::ZERO).pass(5 * SECOND);
    assert_eq!(content(&*used.ram, 2047, 1), [0; 512]);
}

#[test]
fn a_leg_with_data_of_others_is_not_taken_in_while_the_mirror_is_open() {
    let mut pair = pair();
    pair.b.away.store(true, Ordering::Relaxed);
    pair.driven.write(5, 1, 2).unwrap();
    pair.crash();
    pair.shelf.take("b");
    pair.reopen();
    // Another disk is in its place, with something on it.
    let other = pair.shelf.leg("b", SIZE);
    Driven::new(&*other, Instant::ZERO).write(0, 1, 9).unwrap();
    pair.driven.pass(30 * SECOND);
    let told = pair.mirror.last_error().unwrap();
    assert!(told.contains("overwrite=1"), "{told}");
    assert_eq!(content(&*other.ram, 0, 1), [9; 512]);
}

#[test]
fn a_leg_is_known_by_no_name_of_its_own_and_a_spare_is_not_preferred() {
    let refused = |url: &str| Shelf::default().open(url).unwrap_err().to_string();
    let id = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let told = refused(&format!("mirror=[ram:8M,nvme+tcp://h/nqn.2026-11.org.linerate:d/1?hostid={id}]"));
    assert!(told.contains("leg 2 has hostid="), "{told}");
    let told = refused("mirror=[iscsi://h/iqn.2026-11.org.linerate:d/0?isid=800000000001,ram:8M]");
    assert!(told.contains("leg 1 has isid="), "{told}");
    assert!(refused("mirror=[ram:8M,ram:8M]?prefer=2&spares=1").contains("prefer="));
}

#[test]
fn reads_go_to_the_leg_that_is_preferred() {
    let mut pair = pair();
    pair.driven.write(100, 8, 1).unwrap();
    pair.driven.pass(20 * SECOND);
    // A difference that the mirror cannot know of shows which leg is read.
    Driven::new(&*pair.b.ram, Instant::ZERO).write(100, 8, 9).unwrap();
    assert!(pair.driven.holds(100, 8, 1));
    pair.crash();
    let mirror = pair.shelf.open_at("mirror=[file:a,file:b]?prefer=2", pair.driven.now).unwrap();
    assert!(Driven::new(&*mirror, pair.driven.now).holds(100, 8, 9));
}

#[test]
fn without_the_leg_that_had_it_last_a_mirror_is_not_opened() {
    let mut pair = pair();
    pair.driven.write(5, 1, 1).unwrap();
    pair.a.away.store(true, Ordering::Relaxed);
    pair.driven.write(5, 1, 2).unwrap();
    pair.crash();
    pair.a.away.store(false, Ordering::Relaxed);
    pair.shelf.take("b");
    let refused = pair.shelf.open(PAIR).unwrap_err().to_string();
    assert!(refused.contains("leg 2 was in sync") && refused.contains("degraded=1"), "{refused}");
    assert!(refused.contains("file:b: b is not there"), "{refused}");
    let forced = pair.shelf.open("mirror=[file:a,file:b]?degraded=1").unwrap();
    assert!(Driven::new(&*forced, Instant::ZERO).holds(5, 1, 1));
}

#[test]
fn a_leg_that_was_not_there_is_opened_and_copied_later() {
    let mut pair = pair();
    pair.b.away.store(true, Ordering::Relaxed);
    pair.driven.write(5, 1, 2).unwrap();
    pair.crash();
    pair.shelf.take("b");
    pair.reopen();
    pair.driven.write(6, 1, 3).unwrap();
    pair.driven.pass(15 * SECOND);
    let told = pair.mirror.last_error().unwrap();
    assert!(told.contains("b is not there"), "{told}");
    pair.b.away.store(false, Ordering::Relaxed);
    pair.shelf.put("b", Arc::clone(&pair.b) as Arc<dyn Volume>);
    pair.driven.pass(15 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Optimized, "{:?}", pair.mirror.last_error());
    assert!(pair.legs_are_equal());
}

#[test]
fn a_disk_that_was_replaced_is_copied_whole() {
    let mut pair = pair();
    pair.driven.write(5, 1, 1).unwrap();
    pair.driven.write(20_000, 1, 4).unwrap();
    pair.driven.pass(20 * SECOND);
    pair.b.away.store(true, Ordering::Relaxed);
    pair.driven.write(6, 1, 2).unwrap();
    pair.crash();
    pair.b = pair.shelf.leg("b", SIZE);
    pair.reopen();
    pair.driven.pass(5 * SECOND);
    assert_eq!(pair.mirror.path(), PathState::Optimized, "{:?}", pair.mirror.last_error());
    assert!(pair.legs_are_equal());
    assert_eq!(content(&*pair.b.ram, 20_000, 1), [4; 512]);
}

#[test]
fn a_leg_of_another_mirror_is_refused() {
    let pair = pair();
    pair.shelf.leg("c", SIZE);
    drop(pair.shelf.open("mirror=[file:c]").unwrap());
    let refused = pair.shelf.open("mirror=[file:c,file:b]").unwrap_err().to_string();
    assert!(refused.contains("different mirrors"), "{refused}");
    let foreign = pair.shelf.leg("d", SIZE);
    Driven::new(&*foreign, Instant::ZERO).write(foreign.geometry().blocks - 4096, 1, 9).unwrap();
    let refused = pair.shelf.open("mirror=[file:d]").unwrap_err().to_string();
    assert!(refused.contains("no mirror's"), "{refused}");
}

#[test]
fn a_block_that_one_leg_cannot_read_is_read_from_the_other_and_written_back() {
    let mut pair = pair();
    pair.driven.write(32, 32, 6).unwrap();
    pair.driven.pass(20 * SECOND);
    *pair.a.bad.lock().unwrap() = Some(Extent::new(40, 2));
    assert!(pair.driven.holds(32, 16, 6));
    assert_eq!(pair.mirror.path(), PathState::Optimized, "a bad block is no reason to lose a leg");
    pair.driven.pass(2 * SECOND);
    assert!(pair.a.bad.lock().unwrap().is_none(), "it was written");
    assert_eq!(content(&*pair.a.ram, 40, 1), [6; 512]);
    *pair.a.bad.lock().unwrap() = Some(Extent::new(50, 1));
    *pair.b.bad.lock().unwrap() = Some(Extent::new(50, 1));
    assert_eq!(pair.driven.read(50, 1).unwrap_err(), VolumeErrorKind::Media, "nobody has it");
    assert_eq!(pair.mirror.path(), PathState::Optimized);
}

#[test]
fn a_spare_takes_the_place_of_a_leg_that_stays_out() {
    let url = "mirror=[file:a,file:b,file:c]?spares=1";
    let shelf = Shelf::default();
    let (a, b, c) = (shelf.leg("a", SIZE), shelf.leg("b", SIZE), shelf.leg("c", SIZE));
    let mirror = shelf.open(url).unwrap();
    let mut driven = Driven::new(&*mirror, Instant::ZERO);
    driven.write(5, 1, 1).unwrap();
    driven.pass(5 * SECOND);
    assert_eq!(mirror.path(), PathState::Optimized);
    b.away.store(true, Ordering::Relaxed);
    driven.write(6, 1, 2).unwrap();
    driven.pass(60 * SECOND);
    assert_eq!(mirror.path(), PathState::Degraded { missing: 1 }, "it may come back");
    driven.pass(70 * SECOND);
    assert_eq!(mirror.path(), PathState::Optimized, "{:?}", mirror.last_error());
    a.away.store(true, Ordering::Relaxed);
    assert!(driven.holds(5, 1, 1) && driven.holds(6, 1, 2));
    assert_eq!(content(&*c.ram, 6, 1), [2; 512]);
    drop(driven);
    a.away.store(false, Ordering::Relaxed);
    b.away.store(false, Ordering::Relaxed);
    let mirror = shelf.open(url).unwrap();
    let mut driven = Driven::new(&*mirror, Instant::ZERO);
    driven.pass(5 * SECOND);
    assert_eq!(mirror.path(), PathState::Optimized, "{:?}", mirror.last_error());
    assert!(driven.holds(6, 1, 2));
}

#[test]
fn of_three_legs_two_must_remain() {
    let shelf = Shelf::default();
    let legs = ["a", "b", "c"].map(|name| shelf.leg(name, SIZE));
    let mirror = shelf.open("mirror=[file:a,file:b,file:c]").unwrap();
    let mut driven = Driven::new(&*mirror, Instant::ZERO);
    driven.pass(5 * SECOND);
    assert_eq!(mirror.path(), PathState::Optimized);
    legs[0].away.store(true, Ordering::Relaxed);
    driven.write(5, 1, 1).unwrap();
    legs[1].away.store(true, Ordering::Relaxed);
    assert_eq!(driven.write(5, 1, 2).unwrap_err(), VolumeErrorKind::Unreachable);
    legs[0].away.store(false, Ordering::Relaxed);
    driven.pass(5 * SECOND);
    driven.write(5, 1, 3).unwrap();
    assert!(driven.holds(5, 1, 3));
}

#[test]
fn a_durable_write_and_a_flush_go_to_all_legs() {
    let mut pair = pair();
    let data = Buf::from(vec![4; 512]).freeze().into();
    let extent = Extent::new(3, 1);
    pair.driven.run(Operation::Write { extent, data, durability: Durability::Durable }).unwrap();
    pair.b.away.store(true, Ordering::Relaxed);
    pair.driven.run(Operation::Flush).unwrap();
    assert_eq!(pair.mirror.path(), PathState::Degraded { missing: 1 }, "a flush that fails puts a leg out");
}

#[test]
fn a_queue_that_is_dropped_in_the_middle_of_writes_leaves_equal_legs() {
    let mut pair = pair();
    let mut other = Driven::new(&*pair.mirror, pair.driven.now);
    other.write(100, 8, 1).unwrap();
    pair.b.hangs.store(true, Ordering::Relaxed);
    other.start(write(100, 8, 2));
    other.turn();
    drop(other);
    assert!(!pair.legs_are_equal());
    pair.b.hangs.store(false, Ordering::Relaxed);
    assert!(pair.driven.holds(100, 8, 2), "all reads see the first leg");
    pair.driven.pass(70 * SECOND);
    assert!(pair.legs_are_equal());
    assert_eq!(pair.mirror.path(), PathState::Optimized);
}
