//! The whole path by seed: a client's volume over a bad network, a real engine, a file volume, a disk that loses power.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::unnecessary_wraps, reason = "one of the two scenes has a name to parse")]

use std::sync::Arc;

use engine::ListenerRole;
use engine::remote::Access;
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use simulator::disk::Plant;
use simulator::replay;
use simulator::trial::{Scene, served};
use volume::{Volume, VolumeId};

/// Power cuts in each trial, and trials for each protocol.
const CUTS: usize = 5;
const TRIALS: u64 = 40;
/// A planted bug must be found within so many trials.
const PATIENCE: u64 = 60;

fn iscsi_listener(volume: &dyn Volume) -> Option<ListenerRole> {
    let identity = UnitIdentity {
        vendor: "LINERATE".to_owned(),
        product: "VOLUME".to_owned(),
        revision: "0".to_owned(),
        serial: "1".into(),
        naa: [0x30; 8],
        uuid: [7; 16],
    };
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId(0),
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        identity,
    };
    let device = TargetDevice {
        port_name: "iqn.2026-11.org.linerate:disk,t,0x0001".into(),
        device_name: "iqn.2026-11.org.linerate:disk".into(),
        relative_port: 1,
        port_group: 1,
        units: vec![unit],
    };
    let node = iscsi::target::Node {
        name: "iqn.2026-11.org.linerate:disk".parse().ok()?,
        alias: String::new(),
        device: Arc::new(device),
        portal_group: 1,
        access: iscsi::target::Access::default(),
    };
    Some(ListenerRole::Iscsi(Arc::new(iscsi::target::Portal::new(vec![node]))))
}

fn nvme_listener(volume: &dyn Volume) -> Option<ListenerRole> {
    let namespace = nvme::controller::Namespace {
        nsid: 1,
        volume: VolumeId(0),
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        nguid: [1; 16],
        eui64: None,
        uuid: [7; 16],
    };
    let subsystem = nvme::controller::Subsystem {
        nqn: "nqn.2026-11.org.linerate:disk".into(),
        serial: "1".to_owned(),
        model: "Linerate".to_owned(),
        firmware: "0".to_owned(),
        hosts: nvme::controller::Hosts::Any,
        namespaces: vec![namespace],
        limits: nvme::controller::QueueLimits::default(),
    };
    let portal =
        nvme::controller::Portal { subsystems: vec![subsystem], advertised: Vec::new(), generation: 1 };
    Some(ListenerRole::Nvme(Arc::new(portal)))
}

fn source(url: &str) -> names::Source {
    url.parse::<names::VolumeUrl>().unwrap().source
}

fn iscsi_scene() -> Scene {
    let digests = "?header_digest=crc32c&data_digest=crc32c";
    let url = format!("iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0{digests}");
    let names::Source::Iscsi(url) = source(&url) else { panic!("not an iSCSI URL") };
    Scene { listener: iscsi_listener, access: Access::Iscsi { url, secrets: None } }
}

fn nvme_scene() -> Scene {
    let url = "nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1?header_digest=1&data_digest=1";
    let names::Source::Nvme(url) = source(url) else { panic!("not an NVMe URL") };
    Scene { listener: nvme_listener, access: Access::Nvme { url } }
}

#[test]
fn nothing_secured_is_lost_behind_iscsi() {
    let scene = iscsi_scene();
    replay::run("behind_iscsi", TRIALS, |seed| served(seed, CUTS, &scene, Plant::None));
}

#[test]
fn nothing_secured_is_lost_behind_nvme() {
    let scene = nvme_scene();
    replay::run("behind_nvme", TRIALS, |seed| served(seed, CUTS, &scene, Plant::None));
}

#[test]
fn a_flush_that_does_nothing_is_found_from_the_other_end() {
    for scene in [iscsi_scene(), nvme_scene()] {
        let found = (0..PATIENCE).any(|seed| served(seed, CUTS, &scene, Plant::FlushDoesNothing).is_err());
        assert!(found, "not found by {scene:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for scene in [iscsi_scene(), nvme_scene()] {
        let lost = |seed| served(seed, CUTS, &scene, Plant::FlushDoesNothing);
        for seed in 0..PATIENCE / 2 {
            assert_eq!(lost(seed), lost(seed), "seed {seed}");
        }
    }
}
