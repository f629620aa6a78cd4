//! A disk served over either protocol, for worlds by seed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::unnecessary_wraps,
    dead_code,
    reason = "each test file uses its own part"
)]

use std::sync::Arc;

use engine::ListenerRole;
use engine::remote::Access;
use nvme::controller::Hosts;
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use simulator::marks::Marks;
use simulator::reconfiguration::Export;
use simulator::trial::Scenario;
use volume::{Volume, VolumeId};

pub(crate) fn iscsi_listener(volume: &dyn Volume, incarnation: Option<[u8; 16]>) -> Option<ListenerRole> {
    let node = iscsi_node(&first(volume), incarnation)?;
    Some(ListenerRole::Iscsi(Arc::new(iscsi::target::Portal::new(vec![node]))))
}

/// The name of a volume's own host.
pub(crate) const HOST: &str = "nqn.2026-11.org.linerate:client";

/// The volume that most scenarios have.
pub(crate) fn first(volume: &dyn Volume) -> Export<'_> {
    Export { name: "disk", id: VolumeId::new(0, 0), lun: 0, is_open: true, volume }
}

/// The target of a disk of that name.
pub(crate) fn iscsi_node(export: &Export<'_>, incarnation: Option<[u8; 16]>) -> Option<iscsi::target::Node> {
    let Export { name, id, lun, is_open, volume } = *export;
    let access = if is_open {
        iscsi::target::Access::Open
    } else {
        let client = iscsi::target::Rule {
            initiators: Some(vec![engine::remote::INITIATOR.parse().ok()?]),
            ..iscsi::target::Rule::default()
        };
        iscsi::target::Access::Rules(vec![client])
    };
    let target = format!("iqn.2026-11.org.linerate:{name}");
    let identity = UnitIdentity {
        vendor: "LINERATE".to_owned(),
        product: "VOLUME".to_owned(),
        revision: "0".to_owned(),
        serial: "1".into(),
        naa: [0x30; 8],
        uuid: [7; 16],
        incarnation,
    };
    let unit = LogicalUnit {
        lun: lun.into(),
        volume: id,
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        identity,
    };
    let device = TargetDevice {
        port_name: format!("{target},t,0x0001").into(),
        device_name: target.as_str().into(),
        relative_port: 1,
        port_group: 1,
        units: vec![unit],
    };
    Some(iscsi::target::Node {
        name: target.parse().ok()?,
        alias: String::new(),
        device: Arc::new(device),
        portal_group: 1,
        access,
    })
}

pub(crate) fn nvme_listener(volume: &dyn Volume, incarnation: Option<[u8; 16]>) -> Option<ListenerRole> {
    let subsystem = Arc::new(nvme_subsystem(&first(volume), incarnation));
    Some(ListenerRole::Nvme(Arc::new(nvme_portal(vec![subsystem]))))
}

/// The subsystem of a disk of that name.
pub(crate) fn nvme_subsystem(
    export: &Export<'_>,
    incarnation: Option<[u8; 16]>,
) -> nvme::controller::Subsystem {
    let Export { name, id, lun, is_open, volume } = *export;
    let hosts = if is_open { Hosts::Any } else { Hosts::Listed(vec![HOST.into()]) };
    let namespace = nvme::controller::Namespace {
        incarnation,
        nsid: u32::from(lun) + 1,
        volume: id,
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        nguid: [1; 16],
        eui64: None,
        uuid: [7; 16],
    };
    nvme::controller::Subsystem {
        nqn: format!("nqn.2026-11.org.linerate:{name}").into(),
        serial: "1".to_owned(),
        model: "Linerate".to_owned(),
        firmware: "0".to_owned(),
        hosts,
        namespaces: vec![namespace],
        limits: nvme::controller::QueueLimits::default(),
    }
}

/// A portal of these subsystems.
pub(crate) fn nvme_portal(subsystems: Vec<Arc<nvme::controller::Subsystem>>) -> nvme::controller::Portal {
    nvme::controller::Portal {
        subsystems,
        advertised: Vec::new(),
        referrals: Vec::new(),
        generation: 1,
        log: nvme::controller::DiscoveryLog::default(),
        require_digests: false,
    }
}

/// The volume of that URL.
pub(crate) fn source_access(url: &str) -> Access {
    match source(url) {
        names::Source::Iscsi(url) => Access::Iscsi { url, secrets: None },
        names::Source::Nvme(url) => Access::Nvme { url },
        other => panic!("not remote: {other:?}"),
    }
}

fn source(url: &str) -> names::Source {
    url.parse::<names::VolumeUrl>().unwrap().source
}

/// The volume over iSCSI, with these options.
pub(crate) fn iscsi_access(options: &str) -> Access {
    let url = format!("iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0{options}");
    let names::Source::Iscsi(url) = source(&url) else { panic!("not an iSCSI URL") };
    Access::Iscsi { url, secrets: None }
}

/// The volume over NVMe/TCP, with these options.
pub(crate) fn nvme_access(options: &str) -> Access {
    let url = format!("nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1{options}");
    let names::Source::Nvme(url) = source(&url) else { panic!("not an NVMe URL") };
    Access::Nvme { url }
}

/// The volume over iSCSI, with digests and these options more.
pub(crate) fn iscsi_scene(options: &str) -> Scenario {
    let digests = "?header_digest=crc32c&data_digest=crc32c";
    let url = format!("iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0{digests}{options}");
    let names::Source::Iscsi(url) = source(&url) else { panic!("not an iSCSI URL") };
    Scenario {
        listener: iscsi_listener,
        access: Access::Iscsi { url, secrets: None },
        marks: Marks::Fresh,
        cores: 1,
    }
}

/// The volume over NVMe/TCP, with digests and these options more.
pub(crate) fn nvme_scene(options: &str) -> Scenario {
    let digests = "?header_digest=1&data_digest=1";
    let url = format!("nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1{digests}{options}");
    let names::Source::Nvme(url) = source(&url) else { panic!("not an NVMe URL") };
    Scenario { listener: nvme_listener, access: Access::Nvme { url }, marks: Marks::Fresh, cores: 1 }
}

/// The volume over iSER, with these options.
pub(crate) fn iser_scene(options: &str) -> Scenario {
    let access = source_access(&format!("iser://127.0.0.1/iqn.2026-11.org.linerate:disk/0{options}"));
    Scenario { listener: iscsi_listener, access, marks: Marks::Fresh, cores: 1 }
}

/// The volume over NVMe/RDMA, with these options.
pub(crate) fn nvme_rdma_scene(options: &str) -> Scenario {
    let access = source_access(&format!("nvme+rdma://127.0.0.1/nqn.2026-11.org.linerate:disk/1{options}"));
    Scenario { listener: nvme_listener, access, marks: Marks::Fresh, cores: 1 }
}

/// What makes the two above go over RoCE: at its own port, and at another one.
pub(crate) const ROCE: &str = "?transport=roce";
pub(crate) const ROCE_AT_ANOTHER_PORT: &str = "?transport=roce&udp_port=7000";
