//! From the configuration to what the engine serves: volumes opened, targets and subsystems named, rules applied.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use engine::{ConnectionLimits, EntropySource, ListenerRole, Setup};
use iscsi::keys::DigestPolicy;
use iscsi::target;
use names::Iqn;
use nvme::controller;
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use volume::{Volume, VolumeId};

use crate::access;
use crate::accounts::Accounts;
use crate::config::{Config, Digests, PortalEntry, Protocol, VolumeEntry};
use crate::identity::{IQN_PREFIX, Identity, NQN_PREFIX};

/// How the volumes describe themselves.
const VENDOR: &str = "LINERATE";
const PRODUCT: &str = "VOLUME";
const MODEL: &str = "Linerate volume";
/// The only portal group and the only relative target port.
const PORTAL_GROUP: u16 = 1;
/// Moves of the discovery log page: exports do not change while a process runs.
const GENERATION: u64 = 1;

/// A volume that is open, under its name.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) lun: u16,
    pub(crate) volume: Arc<dyn Volume>,
}

/// The volumes of one target, in the order of their numbers, each with its place in the export table.
struct Group<'a> {
    target: &'a str,
    members: Vec<(VolumeId, &'a Opened)>,
}

/// All targets, in the order in which the configuration first names them.
fn groups(opened: &[Opened]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, entry) in opened.iter().enumerate() {
        let member = (volume_id(index), entry);
        match groups.iter_mut().find(|group| group.target == entry.target) {
            Some(group) => group.members.push(member),
            None => groups.push(Group { target: &entry.target, members: vec![member] }),
        }
    }
    for group in &mut groups {
        group.members.sort_by_key(|(_, entry)| entry.lun);
    }
    groups
}

impl Opened {
    /// The volume that a configuration's entry names.
    pub(crate) fn new(entry: &VolumeEntry, volume: Arc<dyn Volume>) -> Self {
        Self { name: entry.name.clone(), target: entry.target().to_owned(), lun: entry.lun, volume }
    }
}

/// What is to be served: the configuration with the secrets that it names, and the volumes that are open.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) config: &'a Config,
    pub(crate) accounts: &'a Accounts,
    pub(crate) opened: &'a [Opened],
}

/// Everything that the engine needs, for portals that listen at these addresses.
pub(crate) fn setup(
    wanted: Wanted<'_>,
    portals: &[(Protocol, SocketAddr)],
    resources: Resources,
) -> Result<Setup> {
    let Wanted { config, opened, .. } = wanted;
    // Volatile caches are lost with the process: its clients may know when it is another.
    let mut incarnation = [0; 16];
    (resources.entropy)().fill(&mut incarnation);
    let listeners = config
        .portals
        .iter()
        .zip(portals)
        .map(|(entry, &(protocol, listening))| {
            Ok(match protocol {
                Protocol::Iscsi => ListenerRole::Iscsi(Arc::new(iscsi_portal(wanted, entry, incarnation)?)),
                Protocol::Nvme => {
                    let portal = nvme_portal(wanted, entry, (listening, incarnation));
                    ListenerRole::Nvme(Arc::new(portal))
                }
            })
        })
        .collect::<Result<_>>()?;
    Ok(Setup {
        volumes: opened.iter().map(|entry| Arc::clone(&entry.volume)).collect(),
        listeners,
        limits: resources.limits,
        pool_limit: resources.pool_limit,
        entropy: resources.entropy,
    })
}

/// What each core may use.
pub(crate) struct Resources {
    pub(crate) limits: ConnectionLimits,
    pub(crate) pool_limit: usize,
    pub(crate) entropy: EntropySource,
}

fn volume_id(index: usize) -> VolumeId {
    VolumeId(u32::try_from(index).unwrap_or(u32::MAX))
}

fn iscsi_portal(wanted: Wanted<'_>, entry: &PortalEntry, incarnation: [u8; 16]) -> Result<target::Portal> {
    let groups = groups(wanted.opened);
    let nodes = groups.iter().map(|group| iscsi_node(wanted, group, incarnation));
    let mut portal = target::Portal::new(nodes.collect::<Result<_>>()?);
    portal.addresses = entry.advertise.as_ref().and_then(names::Portal::address).into_iter().collect();
    portal.discovery = wanted.accounts.discovery().cloned();
    if entry.digests == Digests::Required {
        portal.tuning.header_digest = DigestPolicy::Require;
        portal.tuning.data_digest = DigestPolicy::Require;
    }
    Ok(portal)
}

fn iscsi_node(wanted: Wanted<'_>, group: &Group<'_>, incarnation: [u8; 16]) -> Result<target::Node> {
    let units = group.members.iter().map(|(volume, entry)| logical_unit(*volume, entry, incarnation));
    let text = format!("{IQN_PREFIX}{}", group.target);
    let name: Iqn = text.parse()?;
    let device = TargetDevice {
        port_name: format!("{text},t,0x{PORTAL_GROUP:04x}").into(),
        device_name: text.as_str().into(),
        relative_port: PORTAL_GROUP,
        port_group: PORTAL_GROUP,
        units: units.collect(),
    };
    Ok(target::Node {
        name,
        alias: group.target.to_owned(),
        device: Arc::new(device),
        portal_group: PORTAL_GROUP,
        access: access::initiators(wanted.config, wanted.accounts, group.target),
    })
}

fn logical_unit(volume: VolumeId, entry: &Opened, incarnation: [u8; 16]) -> LogicalUnit {
    let identity = Identity::of(&entry.name);
    LogicalUnit {
        lun: entry.lun,
        volume,
        geometry: entry.volume.geometry(),
        limits: entry.volume.limits(),
        features: entry.volume.features(),
        identity: UnitIdentity {
            vendor: VENDOR.to_owned(),
            product: PRODUCT.to_owned(),
            revision: env!("CARGO_PKG_VERSION").chars().filter(|letter| *letter != '.').collect(),
            serial: identity.serial.as_str().into(),
            naa: identity.naa,
            uuid: identity.uuid,
            incarnation: Some(incarnation),
        },
    }
}

fn nvme_portal(
    wanted: Wanted<'_>,
    entry: &PortalEntry,
    (listening, incarnation): (SocketAddr, [u8; 16]),
) -> controller::Portal {
    let advertised = entry.advertise.as_ref().and_then(names::Portal::address);
    controller::Portal {
        subsystems: groups(wanted.opened).iter().map(|group| nvme_subsystem(wanted.config, group)).collect(),
        advertised: vec![advertised.unwrap_or(listening)],
        referrals: entry.referrals.iter().filter_map(names::Portal::address).collect(),
        generation: GENERATION,
        incarnation: Some(incarnation),
        require_digests: entry.digests == Digests::Required,
    }
}

fn nvme_subsystem(config: &Config, group: &Group<'_>) -> controller::Subsystem {
    controller::Subsystem {
        nqn: format!("{NQN_PREFIX}{}", group.target).into(),
        serial: Identity::of(group.target).serial,
        model: MODEL.to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: access::hosts(config, group.target),
        namespaces: group.members.iter().map(|(volume, entry)| namespace(*volume, entry)).collect(),
        limits: controller::QueueLimits::default(),
    }
}

fn namespace(volume: VolumeId, entry: &Opened) -> controller::Namespace {
    let identity = Identity::of(&entry.name);
    controller::Namespace {
        nsid: u32::from(entry.lun) + 1,
        volume,
        geometry: entry.volume.geometry(),
        limits: entry.volume.limits(),
        features: entry.volume.features(),
        nguid: identity.nguid,
        eui64: None,
        uuid: identity.uuid,
    }
}
