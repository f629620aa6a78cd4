//! Initiator and target behind a layer of records: every way that data can take, with bytes that come one by one or in chunks of any size.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../protocol/tests/records/mod.rs"]
mod records;

use buf::Pool;
use common::{Bench, burst_settings, config, ends, portal};
use iscsi::datamover::tcp;
use iscsi::keys::{DigestPolicy, Tuning};
use iscsi::{initiator, target};
use protocol::{Entropy as _, Layered, SeededEntropy};
use records::Scrambler;

type LayeredBench =
    Bench<Layered<Scrambler, tcp::InitiatorConnection>, Layered<Scrambler, tcp::TargetConnection>>;

/// Both ends behind the layer.
fn bench(config: initiator::Config, portal: target::Portal) -> LayeredBench {
    let (near, far, blocks) = ends(config, portal, &Pool::new(256 << 20));
    Bench::of(Layered::new(Scrambler::default(), near), Layered::new(Scrambler::default(), far), blocks)
}

/// Chunks of one byte, of sizes that a seed picks, and whole sends.
fn chunks(seed: u64) -> Vec<usize> {
    let mut entropy = SeededEntropy::new(seed);
    let picked = (0..4).map(|_| 2 + usize::try_from(entropy.number() % 3000).unwrap());
    [1].into_iter().chain(picked).chain([usize::MAX]).collect()
}

fn check(near: Tuning, far: Tuning, chunk: usize) {
    let (mut config, mut portal) = (config(), portal(4096));
    (config.tuning, portal.tuning) = (near, far);
    let mut bench = bench(config, portal);
    bench.pair.chunk = chunk;
    bench.log_in();
    bench.check_integrity(&format!("{near:?}, chunks of {chunk}"));
    assert_eq!(bench.pair.far.connection.connection().outstanding(), 0);
}

#[test]
fn every_burst_setting() {
    for near in burst_settings() {
        check(near, Tuning { segment: 12_288, ..Tuning::default() }, usize::MAX);
    }
}

#[test]
fn every_digest_setting_in_chunks_of_every_size() {
    for header in [DigestPolicy::Off, DigestPolicy::Require] {
        for data in [DigestPolicy::Off, DigestPolicy::Require] {
            let near = Tuning { header_digest: header, data_digest: data, ..Tuning::default() };
            for chunk in chunks(5) {
                check(near, Tuning::default(), chunk);
            }
        }
    }
}

#[test]
fn odd_segments_in_chunks_of_every_size() {
    let digests = DigestPolicy::Require;
    let near = Tuning { segment: 513, header_digest: digests, data_digest: digests, ..Tuning::default() };
    let far = Tuning { segment: 9001, max_burst: 10_003, first_burst: 777, ..Tuning::default() };
    for chunk in chunks(6) {
        check(near, far, chunk);
    }
}
