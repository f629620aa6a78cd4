//! Mirrors keep the volume contract, whatever they are made of.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod world;

use std::sync::Arc;
use std::time::Duration;

use protocol::Instant;
use volume::contract::{self, FakeWorld, Options, World};
use volume::{PathState, Volume};
use world::{Driven, Shelf};

fn fake() -> Box<dyn World> {
    Box::new(FakeWorld::new())
}

fn assert_keeps(url: &str) {
    let mirror: Arc<dyn Volume> = Shelf::default().open(url).unwrap();
    // All legs are in sync: before, errors of the first one are the mirror's.
    let mut driven = Driven::new(&*mirror, Instant::ZERO);
    for _ in 0..100 {
        if mirror.path() == PathState::Optimized {
            break;
        }
        driven.pass(Duration::from_secs(1));
    }
    assert_eq!(mirror.path(), PathState::Optimized, "{url}: {mirror:?}");
    drop(driven);
    if let Err(violation) = contract::check(&mirror, &Options::default(), &fake) {
        panic!("{url} breaks {violation}\n{mirror:?}");
    }
}

#[test]
fn two_legs() {
    assert_keeps("mirror=[ram:8M,ram:8M]");
}

#[test]
fn three_legs() {
    assert_keeps("mirror=[ram:16M,ram:17M,ram:32M]");
}

#[test]
fn one_leg() {
    assert_keeps("mirror=[ram:8M]");
}

#[test]
fn legs_with_blocks_of_different_sizes() {
    assert_keeps("mirror=[ram:8M,ram:8M?block=4096]");
    assert_keeps("mirror=[ram:8M?block=4096,ram:8M]");
}

#[test]
fn a_mirror_of_mirrors() {
    assert_keeps("mirror=[mirror=[ram:8M,ram:9M],mirror=[ram:8M,ram:8M]]");
}

#[test]
fn a_leg_that_fails_now_and_then() {
    assert_keeps("mirror=[ram:8M,fail=1/50+ram:8M]");
    assert_keeps("mirror=[fail=1/50+ram:8M,ram:8M]?rate=1G");
    assert_keeps("mirror=[fail=1/30,kind=busy+ram:8M,ram:8M]");
}

#[test]
fn a_leg_that_takes_its_time() {
    assert_keeps("mirror=[delay=1ms,jitter=1ms+ram:8M,ram:8M]");
}

#[test]
fn slabs_over_more_legs_than_copies() {
    assert_keeps("mirror=[ram:8M,ram:8M,ram:8M,ram:8M]?copies=3&slab=1M");
    assert_keeps("mirror=[ram:8M,ram:8M,ram:8M]?copies=2&slab=1M");
}

#[test]
fn a_spare_changes_nothing() {
    assert_keeps("mirror=[ram:8M,ram:8M,ram:8M]?spares=1");
}
