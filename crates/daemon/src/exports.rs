//! From the configuration to what the engine serves: volumes opened, targets and subsystems named, rules applied.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, bail};
use engine::{Catalogue, ConnectionLimits, Generation, ListenerRole};
use iscsi::keys::DigestPolicy;
use iscsi::target;
use nvme::controller;
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use volume::{Volume, VolumeId};

use crate::access;
use crate::accounts::Accounts;
use crate::config::{Config, Digests, PortalEntry, Protocol, VolumeEntry};
use crate::kept::Kept;

/// How the volumes describe themselves.
const VENDOR: &str = "LINERATE";
const PRODUCT: &str = "VOLUME";
const MODEL: &str = "Linerate volume";
/// The only portal group and the only relative target port.
const PORTAL_GROUP: u16 = 1;

/// A volume that is open, under its name.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) lun: u16,
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) kept: Kept,
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
    /// A volume with a target of its own, of which nothing is kept.
    #[cfg(test)]
    pub(crate) fn plain(name: &str, volume: Arc<dyn Volume>) -> Self {
        Self { name: name.to_owned(), target: name.to_owned(), lun: 0, volume, kept: Kept::nothing() }
    }

    /// The volume that a configuration's entry names, and what is kept of it.
    pub(crate) fn new(entry: &VolumeEntry, volume: Arc<dyn Volume>, kept: Kept) -> Self {
        Self { name: entry.name.clone(), target: entry.target().to_owned(), lun: entry.lun, volume, kept }
    }
}

/// What is to be served: the configuration with the secrets that it names, and the volumes that are open.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) config: &'a Config,
    pub(crate) accounts: &'a Accounts,
    pub(crate) opened: &'a [Opened],
}

/// Refuses volumes that hosts could not tell apart. The configuration alone can make them so, or a copy of another volume's state.
fn check_distinct(opened: &[Opened]) -> Result<()> {
    for (index, one) in opened.iter().enumerate() {
        let same = |other: &&Opened| {
            let (one, other) = (&one.kept.identity, &other.kept.identity);
            one.uuid == other.uuid || one.serial == other.serial
        };
        if let Some(other) = opened.iter().take(index).find(same) {
            bail!(
                "the volumes {:?} and {:?} have the same uuid or serial: hosts would take them for one disk; give one of them another",
                other.name,
                one.name
            );
        }
    }
    Ok(())
}

/// What the engine is to serve, for portals that listen at these addresses.
pub(crate) fn catalogue(
    wanted: Wanted<'_>,
    portals: &[(Protocol, SocketAddr)],
    limits: ConnectionLimits,
) -> Result<Catalogue> {
    let Wanted { config, opened, .. } = wanted;
    check_distinct(opened)?;
    let generation = Generation(1);
    let listeners = config
        .portals
        .iter()
        .zip(portals)
        .map(|(entry, &(protocol, listening))| {
            Ok(match protocol {
                Protocol::Iscsi => ListenerRole::Iscsi(Arc::new(iscsi_portal(wanted, entry)?)),
                Protocol::Nvme => {
                    let portal = nvme_portal(wanted, entry, listening, generation)?;
                    ListenerRole::Nvme(Arc::new(portal))
                }
            })
        })
        .collect::<Result<_>>()?;
    let volumes = opened.iter().map(|entry| (entry.name.as_str().into(), Arc::clone(&entry.volume)));
    Ok(Catalogue { generation, limits, ..Catalogue::first(volumes, listeners) })
}

/// What the volume in that place of the list is called by the engine.
pub(crate) fn volume_id(index: usize) -> VolumeId {
    VolumeId::new(u16::try_from(index).unwrap_or(u16::MAX), 0)
}

fn iscsi_portal(wanted: Wanted<'_>, entry: &PortalEntry) -> Result<target::Portal> {
    let groups = groups(wanted.opened);
    let nodes = groups.iter().map(|group| iscsi_node(wanted, group));
    let mut portal = target::Portal::new(nodes.collect::<Result<Vec<_>>>()?);
    portal.addresses = entry.advertise.as_ref().and_then(names::Portal::address).into_iter().collect();
    portal.discovery = wanted.accounts.discovery().cloned();
    if entry.digests == Digests::Required {
        portal.tuning.header_digest = DigestPolicy::Require;
        portal.tuning.data_digest = DigestPolicy::Require;
    }
    Ok(portal)
}

fn iscsi_node(wanted: Wanted<'_>, group: &Group<'_>) -> Result<target::Node> {
    let units = group.members.iter().map(|(volume, entry)| logical_unit(*volume, entry));
    let name = wanted.config.daemon.iqn(group.target)?;
    let text = name.as_str();
    let device = TargetDevice {
        port_name: format!("{text},t,0x{PORTAL_GROUP:04x}").into(),
        device_name: text.into(),
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

fn logical_unit(volume: VolumeId, entry: &Opened) -> LogicalUnit {
    let identity = &entry.kept.identity;
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
            incarnation: Some(entry.kept.mark),
        },
    }
}

fn nvme_portal(
    wanted: Wanted<'_>,
    entry: &PortalEntry,
    listening: SocketAddr,
    generation: Generation,
) -> Result<controller::Portal> {
    let advertised = entry.advertise.as_ref().and_then(names::Portal::address);
    let groups = groups(wanted.opened);
    let subsystems = groups.iter().map(|group| nvme_subsystem(wanted.config, group));
    Ok(controller::Portal {
        subsystems: subsystems.map(|made| made.map(Arc::new)).collect::<Result<_>>()?,
        advertised: vec![advertised.unwrap_or(listening)],
        referrals: entry.referrals.iter().filter_map(names::Portal::address).collect(),
        generation: generation.0,
        log: controller::DiscoveryLog::default(),
        require_digests: entry.digests == Digests::Required,
    }
    .with_log())
}

fn nvme_subsystem(config: &Config, group: &Group<'_>) -> Result<controller::Subsystem> {
    // A subsystem has no state of its own: its serial number is that of its first volume.
    let serial = group.members.first().map(|(_, entry)| entry.kept.identity.serial.clone());
    Ok(controller::Subsystem {
        nqn: config.daemon.nqn(group.target)?.as_str().into(),
        serial: serial.unwrap_or_default(),
        model: MODEL.to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: access::hosts(config, group.target),
        namespaces: group.members.iter().map(|(volume, entry)| namespace(*volume, entry)).collect(),
        limits: controller::QueueLimits::default(),
    })
}

fn namespace(volume: VolumeId, entry: &Opened) -> controller::Namespace {
    let identity = &entry.kept.identity;
    controller::Namespace {
        incarnation: Some(entry.kept.mark),
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
