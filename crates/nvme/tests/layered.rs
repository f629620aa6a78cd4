//! Host and controller behind a layer of records: every size and digest, with bytes that come one by one or in chunks of any size.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "../../protocol/tests/records/mod.rs"]
mod records;

use std::sync::Arc;

use buf::Pool;
use common::{Bench, Fabric, Tcp, portal};
use nvme::controller::Portal;
use nvme::host::Config;
use nvme::{controller, host};
use protocol::pair::aperiodic;
use protocol::{Entropy as _, Instant, Layered, SeededEntropy};
use records::Scrambler;

/// The layer, at both ends.
struct Records;

impl Fabric for Records {
    type Host = Layered<Scrambler, host::Connection>;
    type Controller = Layered<Scrambler, controller::Connection>;

    fn host(&self, config: Config, now: Instant) -> Self::Host {
        Layered::new(Scrambler::default(), Tcp.host(config, now))
    }

    fn controller(&self, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self::Controller {
        Layered::new(Scrambler::default(), Tcp.controller(portal, pool, now))
    }
}

/// Chunks of one byte, of sizes that a seed picks, and whole sends.
fn chunks(seed: u64) -> Vec<usize> {
    let mut entropy = SeededEntropy::new(seed);
    let picked = (0..4).map(|_| 2 + usize::try_from(entropy.number() % 3000).unwrap());
    [1].into_iter().chain(picked).chain([usize::MAX]).collect()
}

#[test]
fn data_survives_every_size_chunk_and_digest() {
    for digests in [(false, false), (true, false), (false, true), (true, true)] {
        for chunk in chunks(7) {
            let mut bench = Bench::over(Records, portal());
            bench.chunk = chunk;
            bench.session(1, 1, digests);
            let sizes: &[usize] =
                if chunk < 100 { &[512, 16896] } else { &[512, 4096, 16384, 16896, 1 << 20] };
            for (seed, &size) in (0..).zip(sizes) {
                let bytes = aperiodic(size, seed);
                bench.links[1].write(1, 3, bytes.clone());
                bench.run();
                assert_eq!(bench.links[1].completions(), [(1, Ok(vec![]))]);
                bench.links[1].read(2, 3, size);
                bench.run();
                assert_eq!(bench.links[1].completions(), [(2, Ok(bytes))], "{digests:?} {chunk} {size}");
            }
        }
    }
}

#[test]
fn a_full_queue_of_mixed_commands_completes_in_chunks_of_every_size() {
    for chunk in chunks(8) {
        let mut bench = Bench::over(Records, portal());
        bench.chunk = chunk;
        bench.session(1, 2, (true, true));
        bench.held = Some(Vec::new());
        for tag in 0..200_u64 {
            let link = &mut bench.links[if tag % 2 == 0 { 1 } else { 2 }];
            match tag % 4 {
                0 | 1 => link.write(tag, tag * 40, aperiodic(if tag % 8 < 4 { 4096 } else { 20480 }, tag)),
                _ => link.read(tag, tag * 40, 4096),
            }
        }
        bench.run();
        while bench.held.as_ref().is_some_and(|held| !held.is_empty()) {
            bench.release();
            bench.held = Some(Vec::new());
            bench.run();
        }
        let mut done = bench.links[1].completions();
        done.extend(bench.links[2].completions());
        assert_eq!(done.len(), 200, "chunks of {chunk}");
        assert!(done.iter().all(|(_, result)| result.is_ok()));
    }
}
