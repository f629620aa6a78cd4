//! From the configuration to what the engine serves: volumes opened, targets and subsystems named, rules applied.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use engine::{ConnectionLimits, EntropySource, ListenerRole, Setup};
use iscsi::chap::{Algorithm, Credentials, Secret};
use iscsi::target::{self, Chap};
use names::Iqn;
use nvme::controller::{self, Hosts};
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use volume::{Volume, VolumeId};

use crate::config::{AccessEntry, ChapEntry, Config, Protocol, VolumeEntry};
use crate::identity::{IQN_PREFIX, Identity, NQN_PREFIX};
use crate::secrets;

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

/// The rules that concern a target: those for all volumes, and those that name one of its own.
fn rules<'a>(config: &'a Config, target: &'a str) -> impl Iterator<Item = &'a AccessEntry> {
    let belongs = move |name: &str| {
        config.volumes.iter().any(|volume| volume.name == name && volume.target() == target)
    };
    config.access.iter().filter(move |entry| entry.volume.as_deref().is_none_or(belongs))
}

/// True when every volume says who may use it by this protocol.
pub(crate) fn restricted(config: &Config, protocol: Protocol) -> bool {
    config.volumes.iter().all(|volume| {
        rules(config, volume.target()).any(|rule| match protocol {
            Protocol::Iscsi => !rule.initiators.is_empty() || rule.chap.is_some(),
            Protocol::Nvme => !rule.hosts.is_empty(),
        })
    })
}

/// Everything that the engine needs, for portals that listen at these addresses.
pub(crate) fn setup(
    config: &Config,
    opened: &[Opened],
    portals: &[(Protocol, SocketAddr)],
    resources: Resources,
) -> Result<Setup> {
    // Volatile caches are lost with the process: its clients may know when it is another.
    let mut incarnation = [0; 16];
    (resources.entropy)().fill(&mut incarnation);
    let listeners = config
        .portals
        .iter()
        .zip(portals)
        .map(|(entry, &(protocol, listening))| {
            let advertised = entry.advertise.as_ref().and_then(names::Portal::address);
            Ok(match protocol {
                Protocol::Iscsi => {
                    ListenerRole::Iscsi(Arc::new(iscsi_portal(config, opened, (advertised, incarnation))?))
                }
                Protocol::Nvme => {
                    let address = advertised.unwrap_or(listening);
                    ListenerRole::Nvme(Arc::new(nvme_portal(
                        config,
                        opened,
                        (address, incarnation),
                        &entry.referrals,
                    )))
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

fn iscsi_portal(
    config: &Config,
    opened: &[Opened],
    (advertised, incarnation): (Option<SocketAddr>, [u8; 16]),
) -> Result<target::Portal> {
    let groups = groups(opened);
    let nodes = groups.iter().map(|group| iscsi_node(config, group, incarnation));
    let nodes = nodes.collect::<Result<_>>()?;
    Ok(target::Portal { addresses: advertised.into_iter().collect(), ..target::Portal::new(nodes) })
}

fn iscsi_node(config: &Config, group: &Group<'_>, incarnation: [u8; 16]) -> Result<target::Node> {
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
        access: iscsi_access(config, group.target)?,
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

fn iscsi_access(config: &Config, name: &str) -> Result<target::Access> {
    let mut access = target::Access::default();
    for rule in rules(config, name) {
        if !rule.initiators.is_empty() {
            access.initiators.get_or_insert_default().extend(rule.initiators.iter().cloned());
        }
        if let Some(entry) = &rule.chap {
            access.chap = Some(chap(entry)?);
        }
    }
    // A volume whose rules name NVMe hosts only is not for iSCSI initiators.
    if rules(config, name).next().is_some() && access.initiators.is_none() && access.chap.is_none() {
        access.initiators = Some(Vec::new());
    }
    Ok(access)
}

fn chap(entry: &ChapEntry) -> Result<Chap> {
    let credentials = |user: &str, file: &std::path::Path| -> Result<Credentials> {
        Ok(Credentials { user: user.to_owned(), secret: Secret::new(secrets::read(file)?) })
    };
    let target = match (&entry.mutual_user, &entry.mutual_secret_file) {
        (Some(user), Some(file)) => Some(credentials(user, file)?),
        _ => None,
    };
    let initiator = credentials(&entry.user, &entry.secret_file)?;
    Ok(Chap { initiator, target, algorithms: Algorithm::ALL.to_vec() })
}

fn nvme_portal(
    config: &Config,
    opened: &[Opened],
    (address, incarnation): (SocketAddr, [u8; 16]),
    referrals: &[names::Portal],
) -> controller::Portal {
    let subsystems = groups(opened).iter().map(|group| nvme_subsystem(config, group)).collect();
    controller::Portal {
        subsystems,
        advertised: vec![address],
        referrals: referrals.iter().filter_map(names::Portal::address).collect(),
        generation: GENERATION,
        incarnation: Some(incarnation),
    }
}

fn nvme_subsystem(config: &Config, group: &Group<'_>) -> controller::Subsystem {
    let listed: Vec<String> =
        rules(config, group.target).flat_map(|rule| &rule.hosts).map(ToString::to_string).collect();
    let open = rules(config, group.target).next().is_none();
    controller::Subsystem {
        nqn: format!("{NQN_PREFIX}{}", group.target).into(),
        serial: Identity::of(group.target).serial,
        model: MODEL.to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: if open { Hosts::Any } else { Hosts::Listed(listed) },
        namespaces: group.members.iter().map(|(volume, entry)| namespace(*volume, entry)).collect(),
        limits: controller::QueueLimits::default(),
    }
}

/// Namespace identifiers begin at one where LUNs begin at zero.
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
