//! Connections over software iWARP and RoCE of any shape, both protocols, by seed: none finds or leaves wrong data, and everything comes back.

#[path = "common/counting_allocator.rs"]
mod counting_allocator;

mod common;

use common::{iscsi_listener, nvme_listener};
use engine::ListenerRole;
use simulator::random_connections::{CONNECTIONS, Carrier, PlantedBug, Scenario, random_connections};
use simulator::replay;
use volume::Volume;

/// Trials, which have ten thousand connections between them.
const TRIALS: u64 = 10_000 / CONNECTIONS as u64;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 20;

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

fn scenario(carrier: Carrier) -> Scenario {
    Scenario { carrier, listeners, heap: counting_allocator::heap }
}

/// All trials over one carrier.
fn ten_thousand(name: &str, carrier: Carrier) {
    let (scenario, mut succeeded) = (scenario(carrier), 0);
    replay::run(name, TRIALS, |seed| {
        random_connections(seed, &scenario, PlantedBug::None).map(|count| succeeded += count)
    });
    eprintln!("{succeeded} requests succeeded");
    let connections = replay::seeds(TRIALS).count() * CONNECTIONS;
    assert!(succeeded > connections, "{succeeded} requests of {connections} connections succeeded");
}

#[test]
fn ten_thousand_connections_of_any_shape_move_the_right_data_and_leave_nothing() {
    ten_thousand("ten_thousand_connections_of", Carrier::Iwarp);
}

#[test]
fn ten_thousand_connections_over_datagrams_do_the_same() {
    ten_thousand("ten_thousand_connections_over_datagrams", Carrier::Roce);
}

#[test]
fn bits_that_change_and_memory_that_does_not_come_back_are_found() {
    for carrier in [Carrier::Iwarp, Carrier::Roce] {
        for (bug, words) in [(PlantedBug::Flips, "was not written"), (PlantedBug::Leak, "bytes in use")] {
            let mut failures =
                (0..PATIENCE).filter_map(|seed| random_connections(seed, &scenario(carrier), bug).err());
            let found = failures.any(|failure| failure.to_string().contains(words));
            assert!(found, "{bug:?} is not found over {carrier:?} in {PATIENCE} trials");
        }
    }
}
