//! From the configuration to what the engine serves: volumes opened, targets and subsystems named, rules applied.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, bail};
use engine::{Catalogue, ConnectionLimits, Generation, ListenerRole, Listening, ServedVolume, Transport};
use host::ListenerId;
use iscsi::keys::DigestPolicy;
use iscsi::target::{self, Chap};
use nvme::controller;
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use volume::{Volume, VolumeId};

use crate::access;
use crate::accounts::Accounts;
use crate::config::{self, Config, Digests, PortalEntry, Protocol, VolumeEntry};
use crate::kept::Kept;
use crate::nfs_state::NfsState;
use crate::shares::{self, OpenedShare, ShareDescription};

/// How the volumes describe themselves.
const VENDOR: &str = "LINERATE";
const PRODUCT: &str = "VOLUME";
const MODEL: &str = "Linerate volume";
/// The only portal group and the only relative target port.
const PORTAL_GROUP: u16 = 1;

/// A volume that is open, under its name.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) id: VolumeId,
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) lun: u16,
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) kept: Kept,
}

/// The volumes of one target, in the order of their numbers.
struct Group<'a> {
    target: &'a str,
    members: Vec<&'a Opened>,
}

/// All targets, in the order in which the configuration first names them.
fn groups(opened: &[Opened]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for entry in opened {
        match groups.iter_mut().find(|group| group.target == entry.target) {
            Some(group) => group.members.push(entry),
            None => groups.push(Group { target: &entry.target, members: vec![entry] }),
        }
    }
    for group in &mut groups {
        group.members.sort_by_key(|entry| entry.lun);
    }
    groups
}

impl Opened {
    /// A volume with a target of its own, of which nothing is kept.
    #[cfg(test)]
    pub(crate) fn plain(name: &str, volume: Arc<dyn Volume>) -> Self {
        let (name, target) = (name.to_owned(), name.to_owned());
        Self { id: VolumeId::new(0, 0), name, target, lun: 0, volume, kept: Kept::nothing() }
    }

    /// The volume that a configuration's entry names, and what is kept of it.
    pub(crate) fn new(entry: &VolumeEntry, volume: Arc<dyn Volume>, kept: Kept) -> Self {
        let (name, target) = (entry.name.clone(), entry.target().to_owned());
        Self { id: VolumeId::NONE, name, target, lun: entry.lun, volume, kept }
    }

    /// The same volume at the place that another entry of its name says.
    pub(crate) fn moved(&self, entry: &VolumeEntry) -> Self {
        Self { target: entry.target().to_owned(), lun: entry.lun, ..self.clone() }
    }
}

/// What is to be served: the configuration with the secrets that it names, and the volumes that are open.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) config: &'a Config,
    pub(crate) accounts: &'a Accounts,
    pub(crate) opened: &'a [Opened],
    pub(crate) shares: &'a [OpenedShare],
    /// There where any portal speaks NFS.
    pub(crate) nfs: Option<&'a NfsState>,
}

/// A portal that listens, or is about to.
#[derive(Debug, Clone)]
pub(crate) struct OpenPortal {
    pub(crate) id: ListenerId,
    pub(crate) entry: PortalEntry,
    pub(crate) address: SocketAddr,
    /// The socket of a portal over RoCE, which others may share.
    pub(crate) socket: Option<BoundSocket>,
}

/// A socket for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoundSocket {
    pub(crate) id: ListenerId,
    /// Where it was asked to be bound; its port may be 0.
    pub(crate) asked: SocketAddr,
    /// Where it is bound.
    pub(crate) local: SocketAddr,
}

/// What is served at a portal, and what it was made of.
#[derive(Debug, Clone)]
pub(crate) struct Exported {
    id: ListenerId,
    /// What carries it. It does not decide what is behind the portal.
    transport: Transport,
    description: Description,
    role: ListenerRole,
}

/// All that decides what is served at a portal. While it stays the same, so does the portal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Description {
    advertised: Vec<SocketAddr>,
    referrals: Vec<SocketAddr>,
    digests: Digests,
    discovery: Option<Chap>,
    targets: Vec<TargetDescription>,
    shares: Vec<ShareDescription>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TargetDescription {
    name: String,
    /// The units in their order. What they are called decides all else of them.
    units: Vec<UnitPlace>,
    access: TargetAccess,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct UnitPlace {
    lun: u16,
    volume: VolumeId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TargetAccess {
    Initiators(target::Access),
    Hosts(controller::Hosts),
}

impl Description {
    fn of(wanted: Wanted<'_>, portal: &OpenPortal) -> Self {
        let OpenPortal { entry, address, .. } = portal;
        let advertised = entry.advertise.as_ref().and_then(names::Portal::address);
        let targets = groups(wanted.opened);
        let targets = targets.iter().map(|group| TargetDescription::of(wanted, group, entry.protocol));
        let targets = targets.collect();
        let referrals = entry.referrals.iter().filter_map(names::Portal::address).collect();
        let digests = entry.digests;
        let shares = Vec::new();
        match entry.protocol {
            Protocol::Nfs => {
                let shares = wanted.shares.iter().map(OpenedShare::describe).collect();
                let (advertised, targets) = (Vec::new(), Vec::new());
                Self { advertised, referrals, digests, discovery: None, targets, shares }
            }
            // Initiators are told the address that they came to.
            Protocol::Iscsi => {
                let discovery = wanted.accounts.discovery().cloned();
                let advertised = advertised.into_iter().collect();
                Self { advertised, referrals, digests, discovery, targets, shares }
            }
            Protocol::Nvme => {
                let advertised = vec![advertised.unwrap_or(*address)];
                Self { advertised, referrals, digests, discovery: None, targets, shares }
            }
        }
    }
}

impl TargetDescription {
    fn of(wanted: Wanted<'_>, group: &Group<'_>, protocol: Protocol) -> Self {
        let (config, target) = (wanted.config, group.target);
        let units = group.members.iter().map(|entry| UnitPlace { lun: entry.lun, volume: entry.id });
        let access = match protocol {
            Protocol::Iscsi => TargetAccess::Initiators(access::initiators(config, wanted.accounts, target)),
            // No target is behind a portal for NFS.
            Protocol::Nvme | Protocol::Nfs => TargetAccess::Hosts(access::hosts(config, target)),
        };
        Self { name: target.to_owned(), units: units.collect(), access }
    }
}

impl Exported {
    /// The node of a target of which nothing has changed.
    fn node(&self, described: &TargetDescription, name: &names::Iqn) -> Option<Arc<target::Node>> {
        let ListenerRole::Iscsi(portal) = &self.role else { return None };
        let same = self.description.targets.contains(described);
        portal.nodes.iter().find(|node| same && node.name == *name).cloned()
    }

    /// The subsystem of a target of which nothing has changed.
    fn subsystem(
        &self,
        described: &TargetDescription,
        nqn: &names::Nqn,
    ) -> Option<Arc<controller::Subsystem>> {
        let ListenerRole::Nvme(portal) = &self.role else { return None };
        let same = self.description.targets.contains(described);
        portal.subsystems.iter().find(|subsystem| same && *subsystem.nqn == *nqn.as_str()).cloned()
    }
}

/// Refuses volumes that hosts could not tell apart. The configuration alone can make them so, or a copy of another volume's state.
pub(crate) fn check_distinct(opened: &[Opened]) -> Result<()> {
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

/// What is served at each portal. A portal of which nothing has changed since `before` is the one of before, and so is each of its targets of which
/// nothing has: connections to it notice nothing.
pub(crate) fn export(
    wanted: Wanted<'_>,
    portals: &[OpenPortal],
    before: &[Exported],
    generation: Generation,
) -> Result<Vec<Exported>> {
    let export = |portal: &OpenPortal| {
        let description = Description::of(wanted, portal);
        let same = |old: &&Exported| old.id == portal.id && old.description == description;
        if let Some(old) = before.iter().find(same) {
            return Ok(Exported { transport: transport(portal), ..old.clone() });
        }
        let old = before.iter().find(|old| old.id == portal.id);
        let role = match portal.entry.protocol {
            Protocol::Iscsi => ListenerRole::Iscsi(Arc::new(iscsi_portal(wanted, &description, old)?)),
            Protocol::Nvme => {
                ListenerRole::Nvme(Arc::new(nvme_portal(wanted, &description, old, generation)?))
            }
            Protocol::Nfs => {
                let Some(nfs) = wanted.nfs else { bail!("NFS has no state to begin with") };
                ListenerRole::Nfs(Arc::new(shares::portal(wanted.shares, nfs)?))
            }
        };
        Ok(Exported { id: portal.id, transport: transport(portal), description, role })
    };
    portals.iter().map(export).collect()
}

/// What carries a portal's protocol, in the engine's words.
fn transport(portal: &OpenPortal) -> Transport {
    match (portal.entry.transport, portal.socket) {
        (config::Transport::Iwarp, _) => Transport::Iwarp { crc: portal.entry.crc },
        (config::Transport::Roce, Some(socket)) => {
            Transport::Roce { socket: socket.local, service: portal.address.port() }
        }
        (config::Transport::Rdma, _) => Transport::Adapter,
        _ => Transport::Tcp,
    }
}

/// What the engine is to serve.
pub(crate) fn catalogue(
    wanted: Wanted<'_>,
    exported: &[Exported],
    generation: Generation,
    limits: ConnectionLimits,
) -> Catalogue {
    let served = |entry: &Opened| ServedVolume {
        id: entry.id,
        name: entry.name.as_str().into(),
        volume: Arc::clone(&entry.volume),
    };
    let listening = |portal: &Exported| Listening {
        id: portal.id,
        transport: portal.transport,
        role: portal.role.clone(),
    };
    Catalogue {
        generation,
        volumes: wanted.opened.iter().map(served).collect(),
        files: wanted.shares.iter().map(OpenedShare::served).collect(),
        nfs: wanted.nfs.map(|nfs| Arc::clone(&nfs.start)),
        listeners: exported.iter().map(listening).collect(),
        limits,
    }
}

fn iscsi_portal(
    wanted: Wanted<'_>,
    description: &Description,
    old: Option<&Exported>,
) -> Result<target::Portal> {
    let groups = groups(wanted.opened);
    let node = |(group, described): (&Group<'_>, &TargetDescription)| {
        let kept = old.and_then(|old| old.node(described, &wanted.config.daemon.iqn(group.target).ok()?));
        kept.map_or_else(|| iscsi_node(wanted, group).map(Arc::new), Ok)
    };
    let nodes = groups.iter().zip(&description.targets).map(node);
    let mut portal = target::Portal::new(nodes.collect::<Result<Vec<_>>>()?);
    portal.addresses.clone_from(&description.advertised);
    portal.discovery.clone_from(&description.discovery);
    if description.digests == Digests::Required {
        portal.tuning.header_digest = DigestPolicy::Require;
        portal.tuning.data_digest = DigestPolicy::Require;
    }
    Ok(portal)
}

fn iscsi_node(wanted: Wanted<'_>, group: &Group<'_>) -> Result<target::Node> {
    let units = group.members.iter().map(|entry| logical_unit(entry));
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

fn logical_unit(entry: &Opened) -> LogicalUnit {
    let identity = &entry.kept.identity;
    LogicalUnit {
        lun: entry.lun,
        volume: entry.id,
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
    description: &Description,
    old: Option<&Exported>,
    generation: Generation,
) -> Result<controller::Portal> {
    let groups = groups(wanted.opened);
    let subsystem = |(group, described): (&Group<'_>, &TargetDescription)| {
        let kept =
            old.and_then(|old| old.subsystem(described, &wanted.config.daemon.nqn(group.target).ok()?));
        kept.map_or_else(|| nvme_subsystem(wanted.config, group).map(Arc::new), Ok)
    };
    let subsystems = groups.iter().zip(&description.targets).map(subsystem);
    Ok(controller::Portal {
        subsystems: subsystems.collect::<Result<_>>()?,
        advertised: description.advertised.clone(),
        referrals: description.referrals.clone(),
        generation: generation.0,
        log: controller::DiscoveryLog::default(),
        require_digests: description.digests == Digests::Required,
    }
    .with_log())
}

fn nvme_subsystem(config: &Config, group: &Group<'_>) -> Result<controller::Subsystem> {
    // A subsystem has no state of its own: its serial number is that of its first volume.
    let serial = group.members.first().map(|entry| entry.kept.identity.serial.clone());
    Ok(controller::Subsystem {
        nqn: config.daemon.nqn(group.target)?.as_str().into(),
        serial: serial.unwrap_or_default(),
        model: MODEL.to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: access::hosts(config, group.target),
        namespaces: group.members.iter().map(|entry| namespace(entry)).collect(),
        limits: controller::QueueLimits::default(),
    })
}

fn namespace(entry: &Opened) -> controller::Namespace {
    let identity = &entry.kept.identity;
    controller::Namespace {
        incarnation: Some(entry.kept.mark),
        nsid: u32::from(entry.lun) + 1,
        volume: entry.id,
        geometry: entry.volume.geometry(),
        limits: entry.volume.limits(),
        features: entry.volume.features(),
        nguid: identity.nguid,
        eui64: None,
        uuid: identity.uuid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "[[volume]]\nname='a'\nurl='ram:1M'\n[[volume]]\nname='b'\nurl='ram:1M'\n";

    /// What is served at a portal of each protocol by a configuration all of whose volumes are open.
    fn exported(text: &str, before: &[Exported], generation: u64) -> Vec<Exported> {
        let config: Config = toml::from_str(text).unwrap();
        let volume: Arc<dyn Volume> = Arc::new(volume::Null::new(1 << 20, 512).unwrap());
        let open = |(slot, entry): (u16, &VolumeEntry)| Opened {
            id: VolumeId::new(slot, 0),
            ..Opened::new(entry, Arc::clone(&volume), Kept::nothing())
        };
        let opened: Vec<Opened> = (0..).zip(&config.volumes).map(open).collect();
        let portal = |(number, protocol)| OpenPortal {
            id: ListenerId(number),
            entry: PortalEntry::at(protocol, "127.0.0.1:0".parse().unwrap()),
            address: "127.0.0.1:4420".parse().unwrap(),
            socket: None,
        };
        let portals: Vec<OpenPortal> = (0..).zip([Protocol::Iscsi, Protocol::Nvme]).map(portal).collect();
        let accounts = Accounts::default();
        let wanted = Wanted { config: &config, accounts: &accounts, opened: &opened, shares: &[], nfs: None };
        export(wanted, &portals, before, Generation(generation)).unwrap()
    }

    /// Whether each portal is the very same.
    fn same(one: &[Exported], other: &[Exported]) -> Vec<bool> {
        let same = |(one, other): (&Exported, &Exported)| match (&one.role, &other.role) {
            (ListenerRole::Iscsi(one), ListenerRole::Iscsi(other)) => Arc::ptr_eq(one, other),
            (ListenerRole::Nvme(one), ListenerRole::Nvme(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        one.iter().zip(other).map(same).collect()
    }

    #[test]
    fn a_portal_of_which_nothing_changes_stays_the_very_same() {
        let first = exported(NOW, &[], 1);
        assert_eq!(same(&first, &exported(NOW, &[], 1)), [false, false], "made anew");
        let access = |who: &str| format!("{NOW}[[access]]\nvolume='a'\n{who}\n");
        for (next, expected) in [
            (NOW.to_owned(), [true, true]),
            (format!("{NOW}[daemon]\nturns=true\n[limits]\nconnections=7"), [true, true]),
            (format!("{NOW}[[volume]]\nname='c'\nurl='ram:1M'\n"), [false, false]),
            (NOW.replace("name='b'", "name='b'\ntarget='a'\nlun=1"), [false, false]),
            (NOW.replace("name='b'", "name='b'\nlun=1"), [false, false]),
            (access("hosts=['nqn.2026-11.test:h']\ninitiators=['iqn.2026-11.test:i']"), [false, false]),
        ] {
            let second = exported(&next, &first, 2);
            assert_eq!(same(&first, &second), expected, "{next}");
        }
        // A rule of NVMe hosts closes the target to initiators: another one changes nothing more for these.
        let first = exported(&access("hosts=['nqn.2026-11.test:h']"), &[], 1);
        let second = exported(&access("hosts=['nqn.2026-11.test:other']"), &first, 2);
        assert_eq!(same(&first, &second), [true, false]);
    }

    #[test]
    fn discovery_moves_with_what_it_shows() {
        let generation = |exported: &[Exported]| match &exported[1].role {
            ListenerRole::Nvme(portal) => portal.generation,
            ListenerRole::Iscsi(_) | ListenerRole::Nfs(_) => panic!("not NVMe"),
        };
        let first = exported(NOW, &[], 1);
        let second = exported(NOW, &first, 2);
        let third = exported(&format!("{NOW}[[volume]]\nname='c'\nurl='ram:1M'\n"), &second, 3);
        assert_eq!([&first, &second, &third].map(|exported| generation(exported)), [1, 1, 3]);
    }
}
