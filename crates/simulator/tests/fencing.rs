//! Who is fenced writes nothing any more once the one who fences has been answered: over both protocols at once, on several cores, by
//! seed; and the bugs that this must find.

mod common;

use common::{ROCE, iscsi_access, iscsi_listener, iser_scene, nvme_access, nvme_listener, nvme_rdma_scene};
use engine::ListenerRole;
use simulator::fencing::{PlantedBug, Scenario, fencing};
use simulator::replay;
use volume::Volume;

/// Changes of the holder in each trial.
const CHANGES: usize = 6;
/// iSCSI clients, the others being NVMe hosts, and cores: a seed has one of these, so that thousands of seeds take no longer than they must.
const KINDS: [(u8, u16); 5] = [(4, 1), (4, 3), (0, 1), (0, 3), (2, 2)];
/// Trials: fifteen of each.
const TRIALS: u64 = 15 * KINDS.len() as u64;
/// The same over RoCE: two of each.
const ROCE_TRIALS: u64 = 2 * KINDS.len() as u64;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 40;

fn listeners(volume: &dyn Volume) -> Vec<ListenerRole> {
    [iscsi_listener(volume, None), nvme_listener(volume, None)].into_iter().flatten().collect()
}

/// What carries both protocols.
#[derive(Debug, Clone, Copy)]
enum Carrier {
    Tcp,
    Roce,
}

/// Four clients: of iSCSI, of NVMe, or two of each.
fn scenario(iscsi: u8, cores: u16, carrier: Carrier) -> Scenario {
    let client = |number| {
        // A request for a connection that is lost over RoCE is sent again a second later.
        let timeout = if matches!(carrier, Carrier::Tcp) { "1s" } else { "5s" };
        let initiator = format!("initiator=iqn.2026-11.org.example:{number}&timeout={timeout}");
        let identifier = format!("hostid=00000000-0000-4000-8000-00000000000{number}");
        let host = format!("hostnqn=nqn.2026-11.org.example:{number}&{identifier}");
        match (number < iscsi, carrier) {
            (true, Carrier::Tcp) => (1, iscsi_access(&format!("?{initiator}"))),
            (true, Carrier::Roce) => (1, iser_scene(&format!("{ROCE}&{initiator}")).access),
            (false, Carrier::Tcp) => (2, nvme_access(&format!("?{host}"))),
            (false, Carrier::Roce) => (2, nvme_rdma_scene(&format!("{ROCE}&{host}")).access),
        }
    };
    Scenario { listeners, clients: (0..4).map(client).collect(), cores }
}

#[test]
fn no_fenced_write_takes_effect() {
    replay::run("no_fenced_write", TRIALS, |seed| {
        let (iscsi, cores) = replay::in_turn(&KINDS, seed);
        fencing(seed, CHANGES, &scenario(iscsi, cores, Carrier::Tcp), PlantedBug::None)
            .map_err(|what| format!("{iscsi} iSCSI clients, {cores} cores: {what}"))
    });
}

#[test]
fn no_fenced_write_takes_effect_over_roce() {
    replay::run("no_fenced_write_takes_effect_over_roce", ROCE_TRIALS, |seed| {
        let (iscsi, cores) = replay::in_turn(&KINDS, seed);
        fencing(seed, CHANGES, &scenario(iscsi, cores, Carrier::Roce), PlantedBug::None)
            .map_err(|what| format!("{iscsi} iSER clients, {cores} cores: {what}"))
    });
}

fn is_found(bug: PlantedBug) {
    let over_tcp = [(4, 1), (4, 2), (0, 2), (2, 3)].map(|(iscsi, cores)| (iscsi, cores, Carrier::Tcp));
    for (iscsi, cores, carrier) in over_tcp.into_iter().chain([(2, 3, Carrier::Roce)]) {
        let scenario = scenario(iscsi, cores, carrier);
        let mut broken =
            (0..PATIENCE).filter_map(|seed| Some((seed, fencing(seed, CHANGES, &scenario, bug).err()?)));
        let found = broken.next();
        eprintln!("{bug:?} over {carrier:?}: {found:?}");
        let found = found.is_some_and(|(_, what)| what.to_string().contains("takes effect"));
        assert!(
            found,
            "{bug:?} is not found in {PATIENCE} trials with {iscsi} iSCSI clients and {cores} cores over {carrier:?}"
        );
    }
}

#[test]
fn an_acknowledgement_before_older_requests_have_ended_is_found() {
    is_found(PlantedBug::EarlyAcknowledgement);
}

#[test]
fn a_view_that_comes_late_is_found() {
    is_found(PlantedBug::LateView);
}

#[test]
fn a_request_that_is_taken_behind_the_fence_that_overtook_it_is_found() {
    is_found(PlantedBug::EpochStands);
}

#[test]
fn the_same_seed_gives_the_same_end() {
    let scenario = scenario(2, 3, Carrier::Tcp);
    for seed in 0..5 {
        let end = || fencing(seed, CHANGES, &scenario, PlantedBug::EarlyAcknowledgement);
        assert_eq!(end(), end(), "seed {seed}");
    }
}
