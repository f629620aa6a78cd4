//! Both roles over software iWARP: what holds over TCP holds over RDMA.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

mod common;
mod rdma_fabric;

use common::{Bench, portal};
use protocol::pair::aperiodic;
use rdma_fabric::Iwarp;
use volume::VolumeErrorKind;

const IO: usize = 1;

fn session(fabric: Iwarp) -> Bench<Iwarp> {
    let mut bench = Bench::over(fabric, portal());
    bench.session(1, 1, (false, false));
    bench
}

#[test]
fn a_host_finds_the_same_namespace_as_over_tcp() {
    let mut bench = Bench::over(Iwarp::default(), portal());
    let found = bench.session(1, 2, (false, false));
    let mut tcp = Bench::new().session(1, 2, (false, false));
    assert_eq!((found.in_capsule, tcp.in_capsule), (8128, 16 << 10));
    tcp.in_capsule = found.in_capsule;
    assert_eq!(found, tcp);
}

#[test]
fn reads_and_writes_of_every_length_and_in_every_chunk() {
    for (chunk, crc) in [(usize::MAX, false), (1, true), (100, false), (4096, true)] {
        let mut bench = Bench::over(Iwarp { crc, ..Iwarp::default() }, portal());
        bench.chunk = chunk;
        bench.session(1, 1, (false, false));
        for (tag, length) in [512, 4096, 8192, 16_896, 65_536, 1 << 20].into_iter().enumerate() {
            let (tag, data) = (tag as u64, aperiodic(length, tag as u64));
            bench.links[IO].write(tag, 8 * tag, data.clone());
            bench.run();
            assert_eq!(bench.links[IO].completions(), [(tag, Ok(Vec::new()))], "{length} in {chunk}");
            bench.links[IO].read(tag, 8 * tag, length);
            bench.run();
            assert_eq!(bench.links[IO].completions(), [(tag, Ok(data))]);
        }
        bench.links[IO].read(0, common::BLOCKS, 65_536);
        bench.run();
        assert_eq!(bench.links[IO].completions(), [(0, Err(VolumeErrorKind::OutOfRange))]);
    }
}

#[test]
fn many_commands_at_a_time() {
    for reads in [1, 4] {
        let mut bench = session(Iwarp { reads, ..Iwarp::default() });
        let lengths = [512, 4096, 8192, 65_536];
        for tag in 0..200_u64 {
            let length = lengths[tag as usize % 4];
            bench.links[IO].write(tag, 40 * (tag % 50), aperiodic(length.min(16_384), tag % 50));
        }
        bench.run();
        let done = bench.links[IO].completions();
        assert_eq!(done.len(), 200);
        assert!(done.iter().all(|(_, result)| result.is_ok()));
        for tag in 0..50_u64 {
            bench.links[IO].read(tag, 40 * tag, lengths[tag as usize % 4].min(16_384));
        }
        bench.run();
        for (tag, result) in bench.links[IO].completions() {
            let length = lengths[tag as usize % 4].min(16_384);
            // Of two writes to one place the lengths differ: the first bytes are the same.
            assert_eq!(result.unwrap()[..512], aperiodic(length, tag)[..512]);
        }
    }
}
