//! The configuration file: what the operator wants served, as TOML.
//!
//! The file is read whole, and every mistake is named with its place before anything starts. Unknown keys are
//! mistakes: a misspelt limit must not silently do nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use names::{ByteSize, FolderUrl, Iqn, Network, Nqn, Portal, ROCE_PORT, Span, Uuid, VolumeUrl, redact};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::identity::{IQN_PREFIX, NQN_PREFIX};
use crate::log::{Filter, Format};

/// The most event loops of a process: each has a thread, a ring and buffers of its own.
const MOST_CORES: u16 = 256;
/// The largest LUN that flat addressing holds (SAM-5 §4.7.7.3).
const LAST_LUN: u16 = 16_383;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How the process runs.
    #[serde(default)]
    pub daemon: Daemon,
    /// What it refuses beyond.
    #[serde(default)]
    pub limits: Limits,
    /// Where it listens.
    #[serde(default, rename = "portal")]
    pub portals: Vec<PortalEntry>,
    /// What it serves.
    #[serde(default, rename = "volume")]
    pub volumes: Vec<VolumeEntry>,
    /// What folders it serves.
    #[serde(default, rename = "share")]
    pub shares: Vec<ShareEntry>,
    /// To whom.
    #[serde(default)]
    pub access: Vec<AccessEntry>,
    /// Who may ask what there is.
    #[serde(default)]
    pub discovery: Discovery,
}

/// Who may ask what there is. Everybody is told only of what it may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    /// The challenge that iSCSI initiators must answer in discovery sessions.
    pub chap: Option<ChapEntry>,
}

/// What a portal says about digests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digests {
    /// Whoever connects decides.
    #[default]
    Allowed,
    /// Header and data digests, or no session. Discovery sessions of iSCSI do without.
    Required,
}

/// How the process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Daemon {
    /// Event loops, one per core; at least 1.
    pub cores: Option<u16>,
    /// `auto`, `uring` or `epoll`.
    pub driver: Option<String>,
    /// How long a core that expects an answer looks for it before it sleeps, such as `"50us"`; `"0"` never does.
    #[serde(default, deserialize_with = "optional")]
    pub spin: Option<Span>,
    /// TCP congestion control of the connections, such as `"dctcp"`; `"system"` for the system's own. Without it cubic, where that is permitted.
    pub congestion: Option<String>,
    /// Let portals beyond loopback serve anybody.
    #[serde(default)]
    pub allow_any: bool,
    /// What is logged: a level, and `KIND=LEVEL` behind commas, such as `"warn,login=info"`.
    #[serde(default, deserialize_with = "optional")]
    pub log: Option<Filter>,
    /// `text` or `json`.
    #[serde(default)]
    pub log_format: Option<Format>,
    /// Tell, when serving ends, what the longest turn of each event loop took.
    #[serde(default)]
    pub turns: bool,
    /// The folder of the volumes' state; the usual place when left out.
    pub state: Option<PathBuf>,
    /// What targets' iSCSI names begin with, such as `"iqn.2026-11.org.example:"`.
    pub iqn_prefix: Option<String>,
    /// What subsystems' names begin with, such as `"nqn.2026-11.org.example:"`.
    pub nqn_prefix: Option<String>,
}

impl Daemon {
    /// The iSCSI name of a target.
    pub(crate) fn iqn(&self, target: &str) -> Result<Iqn> {
        let prefix = self.iqn_prefix.as_deref().unwrap_or(IQN_PREFIX);
        whole(prefix)?;
        format!("{prefix}{target}")
            .parse()
            .with_context(|| format!("iqn_prefix: {prefix:?} cannot begin names"))
    }

    /// The name of a target's subsystem.
    pub(crate) fn nqn(&self, target: &str) -> Result<Nqn> {
        let prefix = self.nqn_prefix.as_deref().unwrap_or(NQN_PREFIX);
        whole(prefix)?;
        format!("{prefix}{target}")
            .parse()
            .with_context(|| format!("nqn_prefix: {prefix:?} cannot begin names"))
    }
}

/// Refuses a prefix that a target's name would become part of a domain's with.
fn whole(prefix: &str) -> Result<()> {
    if !prefix.contains(':') {
        bail!("the prefix {prefix:?} has no ':' behind the domain: write one such as {IQN_PREFIX:?}");
    }
    Ok(())
}

/// Limits of the process; `docs/limits.md` explains each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Connections at a time, over all protocols and cores.
    pub connections: Option<usize>,
    /// Data buffers in all, such as `"512M"`.
    #[serde(default, deserialize_with = "optional")]
    pub memory: Option<ByteSize>,
}

/// What is spoken at a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// iSCSI.
    Iscsi,
    /// NVMe over Fabrics.
    Nvme,
    /// NFS 4.1 and 4.2.
    Nfs,
}

/// What carries the protocol of a portal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A TCP stream.
    #[default]
    Tcp,
    /// RDMA, by software iWARP on a TCP stream.
    Iwarp,
    /// RDMA, by software RoCEv2 on datagrams.
    Roce,
    /// RDMA, by an adapter of this machine.
    Rdma,
}

/// A protocol and what carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortalKind {
    /// What is spoken.
    pub protocol: Protocol,
    /// What carries it.
    pub transport: Transport,
}

impl PortalKind {
    /// The word in ready files.
    pub(crate) fn word(self) -> &'static str {
        match (self.protocol, self.transport) {
            (Protocol::Iscsi, Transport::Tcp) => "iscsi",
            (Protocol::Iscsi, Transport::Iwarp) => "iser",
            (Protocol::Iscsi, Transport::Roce) => "iser-roce",
            (Protocol::Iscsi, Transport::Rdma) => "iser-adapter",
            (Protocol::Nvme, Transport::Tcp) => "nvme",
            (Protocol::Nvme, Transport::Iwarp) => "nvme-rdma",
            (Protocol::Nvme, Transport::Roce) => "nvme-roce",
            (Protocol::Nvme, Transport::Rdma) => "nvme-adapter",
            (Protocol::Nfs, Transport::Tcp) => "nfs",
            (Protocol::Nfs, Transport::Iwarp) => "nfs-rdma",
            (Protocol::Nfs, Transport::Roce) => "nfs-roce",
            (Protocol::Nfs, Transport::Rdma) => "nfs-adapter",
        }
    }
}

impl From<Protocol> for PortalKind {
    /// The protocol over TCP.
    fn from(protocol: Protocol) -> Self {
        Self { protocol, transport: Transport::Tcp }
    }
}

/// A listening address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalEntry {
    /// Which protocol.
    pub protocol: Protocol,
    /// `tcp`, `iwarp`, `roce`, or `rdma` for an adapter of this machine.
    #[serde(default)]
    pub transport: Transport,
    /// Checksums of all that iWARP carries, whatever the peer asks for.
    #[serde(default)]
    pub crc: bool,
    /// RoCE's port of UDP, which portals at one address share; 0 takes a free one.
    pub udp_port: Option<u16>,
    /// `ADDRESS:PORT`; port 0 takes a free one. Over RoCE the port is that of the service which peers ask for.
    #[serde(deserialize_with = "text")]
    pub listen: Portal,
    /// The address that discovery names instead, for portals behind address translation.
    #[serde(default, deserialize_with = "optional")]
    pub advertise: Option<Portal>,
    /// Other discovery services that this one refers to, as `ADDRESS:PORT`; NVMe only.
    #[serde(default, deserialize_with = "list")]
    pub referrals: Vec<Portal>,
    /// `allowed` or `required`.
    #[serde(default)]
    pub digests: Digests,
}

impl PortalEntry {
    /// A portal at this address, without anything else.
    pub fn at(kind: impl Into<PortalKind>, listen: Portal) -> Self {
        let PortalKind { protocol, transport } = kind.into();
        let (crc, udp_port, advertise) = (false, None, None);
        let (referrals, digests) = (Vec::new(), Digests::default());
        Self { protocol, transport, crc, udp_port, listen, advertise, referrals, digests }
    }

    /// Where the datagrams of a portal over RoCE come to.
    pub(crate) fn udp(&self) -> Option<SocketAddr> {
        let listen = self.listen.address().filter(|_| self.transport == Transport::Roce)?;
        Some(SocketAddr::new(listen.ip(), self.udp_port.unwrap_or(ROCE_PORT)))
    }

    /// What it speaks, and over what.
    pub fn kind(&self) -> PortalKind {
        PortalKind { protocol: self.protocol, transport: self.transport }
    }
}

/// A volume and its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeEntry {
    /// The name that targets and subsystems end with.
    pub name: String,
    /// Where its blocks are.
    #[serde(deserialize_with = "text")]
    pub url: VolumeUrl,
    /// The target and subsystem that it belongs to; one of its own name when left out.
    #[serde(default)]
    pub target: Option<String>,
    /// Its logical unit number there, 0 when left out; its namespace identifier is one more.
    #[serde(default)]
    pub lun: u16,
    /// The UUID from which all of its identifiers follow; random, and kept, when left out.
    #[serde(default, deserialize_with = "optional")]
    pub uuid: Option<Uuid>,
    /// Its serial number; one that follows from the UUID when left out.
    pub serial: Option<String>,
    /// Serve the other volumes if this one cannot be opened.
    #[serde(default)]
    pub nofail: bool,
}

impl VolumeEntry {
    /// A volume with a target of its own.
    pub fn alone(name: String, url: VolumeUrl) -> Self {
        Self { name, url, target: None, lun: 0, uuid: None, serial: None, nofail: false }
    }

    /// The name that its target and subsystem end with.
    pub fn target(&self) -> &str {
        self.target.as_deref().unwrap_or(&self.name)
    }

    /// Its namespace identifier: these begin at one where LUNs begin at zero.
    pub fn nsid(&self) -> u32 {
        u32::from(self.lun) + 1
    }
}

/// Whose requests are carried out in the anonymous user's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Squash {
    /// Nobody's.
    None,
    /// Those of user 0; group 0 becomes the anonymous one.
    #[default]
    Root,
    /// Everybody's.
    All,
}

/// A folder that is served, and its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareEntry {
    /// What clients mount: `/NAME`.
    pub name: String,
    /// Where it is.
    #[serde(deserialize_with = "text")]
    pub url: FolderUrl,
    /// The networks of the clients that may use it; everybody who can reach a portal when left out.
    #[serde(default, deserialize_with = "list")]
    pub clients: Vec<Network>,
    /// `none`, `root` or `all`.
    #[serde(default)]
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous_uid: Option<u32>,
    /// The anonymous group.
    pub anonymous_gid: Option<u32>,
}

impl ShareEntry {
    /// A share without anything else.
    pub fn plain(name: String, url: FolderUrl) -> Self {
        let (clients, squash) = (Vec::new(), Squash::default());
        Self { name, url, clients, squash, anonymous_uid: None, anonymous_gid: None }
    }
}

/// Who may use a volume, a target or all, and how they prove who they are. A target that no entry concerns is open to everybody who
/// can reach a portal; of any other a volume is open only to whom an entry names for it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessEntry {
    /// Which volume, and it alone.
    pub volume: Option<String>,
    /// Which target and subsystem, with all volumes; all when neither is said.
    pub target: Option<String>,
    /// iSCSI initiators; all who pass the challenge when left out.
    #[serde(default, deserialize_with = "list")]
    pub initiators: Vec<Iqn>,
    /// NVMe hosts.
    #[serde(default, deserialize_with = "list")]
    pub hosts: Vec<Nqn>,
    /// The challenge that iSCSI initiators must answer.
    pub chap: Option<ChapEntry>,
}

impl AccessEntry {
    /// True when it is about the target or a volume of it.
    pub(crate) fn concerns(&self, config: &Config, target: &str) -> bool {
        match (&self.volume, &self.target) {
            (None, None) => true,
            (None, Some(named)) => named == target,
            (Some(name), _) => {
                config.volumes.iter().any(|volume| volume.name == *name && volume.target() == target)
            }
        }
    }

    /// True when it opens the volume to whom it names.
    pub(crate) fn opens(&self, volume: &VolumeEntry) -> bool {
        self.volume.as_ref().is_none_or(|name| *name == volume.name)
            && self.target.as_ref().is_none_or(|target| target == volume.target())
    }

    /// What is wrong with it. It is the entry of that number, from 1.
    fn problems(&self, config: &Config, number: usize) -> Vec<String> {
        let mut problems = Vec::new();
        let mut find = |problem: String| problems.push(format!("[[access]] entry {number} {problem}"));
        let known = |name: &str| config.volumes.iter().any(|volume| volume.name == name);
        if let Some(name) = self.volume.as_deref().filter(|name| !known(name)) {
            find(format!(
                "names the volume {name:?}, which no [[volume]] has: correct the name, or add the volume"
            ));
        }
        let known = |name: &str| config.volumes.iter().any(|volume| volume.target() == name);
        if let Some(name) = self.target.as_deref().filter(|name| !known(name)) {
            find(format!(
                "names the target {name:?}, to which no [[volume]] belongs: correct the name, or give a volume that target"
            ));
        }
        if self.volume.is_some() && self.target.is_some() {
            find(
                "names both a volume and a target: a volume is opened alone, a target whole; write one of them"
                    .to_owned(),
            );
        }
        if self.initiators.is_empty() && self.hosts.is_empty() && self.chap.is_none() {
            find(
                "says neither initiators, nor hosts, nor chap: it would allow nobody; add one of them"
                    .to_owned(),
            );
        }
        if let Some(Err(error)) = self.chap.as_ref().map(ChapEntry::check) {
            find(format!("says {error}"));
        }
        problems
    }
}

impl ChapEntry {
    fn check(&self) -> Result<()> {
        if self.mutual_user.is_some() != self.mutual_secret_file.is_some() {
            bail!(
                "chap with one of mutual_user and mutual_secret_file: they go together; write both or none"
            );
        }
        Ok(())
    }

    /// Takes relative paths from `folder`.
    fn settle(&mut self, folder: &Path) {
        self.secret_file = folder.join(&self.secret_file);
        self.mutual_secret_file = self.mutual_secret_file.take().map(|file| folder.join(file));
    }
}

/// A CHAP account. Secrets stand in files of their own, never here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChapEntry {
    /// The initiator's user name.
    pub user: String,
    /// The file with the initiator's secret.
    pub secret_file: PathBuf,
    /// The target's user name, for mutual authentication.
    pub mutual_user: Option<String>,
    /// The file with the target's secret.
    pub mutual_secret_file: Option<PathBuf>,
}

impl Config {
    /// Reads and checks a file. Relative paths, of secrets and of state, are taken from the file's folder.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the configuration file {} cannot be read", path.display()))?;
        // The parser repeats the line that it does not understand.
        let mut config: Self = toml::from_str(&text)
            .map_err(|error| anyhow!(redact(&error.to_string())))
            .with_context(|| format!("the configuration file {} is not valid", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let accounts = config.access.iter_mut().filter_map(|entry| entry.chap.as_mut());
        accounts.chain(config.discovery.chap.as_mut()).for_each(|chap| chap.settle(folder));
        config.daemon.state = config.daemon.state.take().map(|state| folder.join(state));
        Ok(config)
    }

    /// Checks what the grammar cannot: names that are used twice or not at all, and numbers out of range. The error is the first of what
    /// is wrong.
    pub fn check(&self) -> Result<()> {
        self.problems().into_iter().next().map_or(Ok(()), |problem| Err(anyhow!(problem)))
    }

    /// All that is wrong, in the order of the file.
    pub(crate) fn problems(&self) -> Vec<String> {
        let numbers = [self.check_cores(), self.check_connections()];
        let portals = self.portals.iter().enumerate().flat_map(|(index, portal)| {
            let earlier = self.portals.get(..index).unwrap_or_default();
            let roce = check_roce(portal).and_then(|()| check_service(portal, earlier));
            [check_address(portal), check_referrals(portal), check_transport(portal), check_nfs(portal), roce]
        });
        let volumes = self.volumes.iter().enumerate();
        let volumes = volumes.flat_map(|(index, volume)| {
            let earlier = self.volumes.get(..index).unwrap_or_default();
            [check_volume(volume), check_place(volume, earlier), self.check_identity(volume, earlier)]
        });
        let shares = self.shares.iter().enumerate().map(|(index, share)| {
            check_share(share, self.shares.get(..index).unwrap_or_default(), &self.volumes)
        });
        let discovery = self.discovery.chap.as_ref().map_or(Ok(()), ChapEntry::check).context("[discovery]");
        let access = self.access.iter().zip(1..).flat_map(|(entry, number)| entry.problems(self, number));
        let told = |outcome: Result<()>| outcome.err().map(|error| format!("{error:#}"));
        let mut problems: Vec<String> =
            numbers.into_iter().chain(portals).chain(volumes).chain(shares).filter_map(told).collect();
        problems.extend(access);
        problems.extend(told(discovery));
        problems
    }

    fn check_cores(&self) -> Result<()> {
        match self.daemon.cores.filter(|cores| !(1..=MOST_CORES).contains(cores)) {
            Some(cores) => bail!("cores = {cores}: write a number from 1 to {MOST_CORES}"),
            None => Ok(()),
        }
    }

    fn check_connections(&self) -> Result<()> {
        if self.limits.connections == Some(0) {
            bail!("connections = 0: write a number of at least 1, or leave it out");
        }
        Ok(())
    }

    /// Checks what hosts will know the volume and its target by.
    fn check_identity(&self, volume: &VolumeEntry, earlier: &[VolumeEntry]) -> Result<()> {
        let name = &volume.name;
        self.daemon.iqn(volume.target())?;
        self.daemon.nqn(volume.target())?;
        let serial = volume.serial.as_deref();
        let good = |text: &str| {
            (1..=SERIAL).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(serial) = serial.filter(|serial| !good(serial)) {
            bail!(
                "the serial {serial:?} of the volume {name:?} cannot be shown: use 1 to {SERIAL} letters, digits and marks of ASCII"
            );
        }
        for other in earlier {
            let same = match () {
                () if volume.uuid.is_some() && volume.uuid == other.uuid => "uuid",
                () if serial.is_some() && serial == other.serial.as_deref() => "serial",
                () => continue,
            };
            bail!(
                "the volumes {:?} and {name:?} have the same {same}: hosts would take them for one disk; give one of them another",
                other.name
            );
        }
        Ok(())
    }
}

fn check_address(portal: &PortalEntry) -> Result<()> {
    if portal.listen.address().is_none() {
        bail!("{} is not an address to listen at: write an IP address and a port", portal.listen);
    }
    Ok(())
}

fn check_referrals(portal: &PortalEntry) -> Result<()> {
    if !portal.referrals.is_empty() && portal.protocol != Protocol::Nvme {
        bail!(
            "referrals at {}: only an NVMe portal refers to other discovery services; leave them out, or write them there",
            portal.listen
        );
    }
    if let Some(name) = portal.referrals.iter().find(|service| service.address().is_none()) {
        bail!(
            "referrals: {name} is no address and port, and a discovery log page has no names of machines: write an IP address \
             and a port"
        );
    }
    Ok(())
}

fn check_transport(portal: &PortalEntry) -> Result<()> {
    match portal.transport {
        Transport::Tcp | Transport::Roce | Transport::Rdma if portal.crc => bail!(
            "crc at {}: only an iWARP portal has such checksums; leave it out, or write transport = \"iwarp\", or digests = \"required\" for \
             the protocol's own",
            portal.listen
        ),
        Transport::Iwarp if portal.digests == Digests::Required => bail!(
            "digests at {}: digests are of the protocols over TCP, and iWARP has its own; write crc = true instead",
            portal.listen
        ),
        Transport::Roce if portal.digests == Digests::Required => bail!(
            "digests at {}: digests are of the protocols over TCP, and every packet of RoCE has a checksum; leave it out",
            portal.listen
        ),
        Transport::Rdma if portal.digests == Digests::Required => bail!(
            "digests at {}: digests are of the protocols over TCP, and adapters have checksums of their own; leave it out",
            portal.listen
        ),
        _ => Ok(()),
    }
}

/// Refuses what RoCE has not, and what only it has.
fn check_roce(portal: &PortalEntry) -> Result<()> {
    let listen = &portal.listen;
    if portal.transport != Transport::Roce {
        if portal.udp_port.is_some() {
            bail!(
                "udp_port at {listen}: only RoCE has a port of UDP; leave it out, or write transport = \"roce\""
            );
        }
        return Ok(());
    }
    if listen.address().is_some_and(|address| address.ip().is_unspecified()) {
        bail!(
            "listen at {listen}: the checksums of RoCE cover addresses; write one of this machine's, and a portal for each"
        );
    }
    if listen.port == 0 {
        bail!(
            "listen at {listen}: a RoCE portal's port names its service, and no socket takes a free one; write one such as 3260 for iSCSI, 4420 for NVMe or 20049 for NFS"
        );
    }
    Ok(())
}

/// Refuses two RoCE portals for one service: the system does not, as no socket is bound to its port.
fn check_service(portal: &PortalEntry, earlier: &[PortalEntry]) -> Result<()> {
    let Some(socket) = portal.udp() else { return Ok(()) };
    let is_same = |other: &&PortalEntry| other.udp() == Some(socket) && other.listen == portal.listen;
    if let Some(other) = earlier.iter().find(is_same) {
        bail!(
            "listen at {}: another RoCE portal ({}) has this port; give one of them another",
            portal.listen,
            other.kind().word()
        );
    }
    Ok(())
}

/// Refuses what a portal for NFS has not.
fn check_nfs(portal: &PortalEntry) -> Result<()> {
    let listen = &portal.listen;
    if portal.protocol != Protocol::Nfs {
        return Ok(());
    }
    if portal.digests == Digests::Required {
        bail!("digests at {listen}: NFS has none; leave it out");
    }
    if portal.advertise.is_some() {
        bail!("advertise at {listen}: NFS has no discovery; leave it out");
    }
    Ok(())
}

fn check_share(share: &ShareEntry, earlier: &[ShareEntry], volumes: &[VolumeEntry]) -> Result<()> {
    let name = &share.name;
    check_name(name)?;
    if matches!(name.as_str(), "." | "..") {
        bail!("the share {name:?} cannot be mounted under that name; choose another");
    }
    if earlier.iter().any(|other| other.name == *name) {
        bail!("two shares are named {name:?}: give one of them another name");
    }
    if volumes.iter().any(|volume| volume.name == *name) {
        bail!(
            "a volume and a share are named {name:?}: their state would be one; give one of them another name"
        );
    }
    if NFS_STATE == name {
        bail!("the share {name:?} has the name of NFS' own state; give it another");
    }
    Ok(())
}

/// What the state of NFS clients is called among that of volumes and shares.
pub(crate) const NFS_STATE: &str = "nfs-server";

fn check_volume(volume: &VolumeEntry) -> Result<()> {
    check_name(&volume.name)?;
    if volume.name == NFS_STATE {
        bail!("the volume {NFS_STATE:?} has the name of NFS' own state; give it another");
    }
    check_name(volume.target())?;
    if volume.lun > LAST_LUN {
        bail!("the volume {:?} has LUN {}: write a number up to {LAST_LUN}", volume.name, volume.lun);
    }
    Ok(())
}

/// Refuses a name, or a place in a target, that an earlier volume has.
fn check_place(volume: &VolumeEntry, earlier: &[VolumeEntry]) -> Result<()> {
    if earlier.iter().any(|other| other.name == volume.name) {
        bail!("two volumes are named {:?}: give one of them another name", volume.name);
    }
    let place = (volume.target(), volume.lun);
    if let Some(other) = earlier.iter().find(|other| (other.target(), other.lun) == place) {
        bail!(
            "the volumes {:?} and {:?} are both LUN {} of the target {:?}: give one of them another lun",
            other.name,
            volume.name,
            volume.lun,
            volume.target()
        );
    }
    Ok(())
}

/// The longest serial number (NVMe Base §5.1.13.2.1, SN).
const SERIAL: usize = 20;

/// A volume's name becomes the end of an IQN and an NQN, so it may only hold what both allow.
pub fn check_name(name: &str) -> Result<()> {
    const LONGEST: usize = 64;
    let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(good) {
        bail!(
            "the volume name {name:?} cannot be part of a target's name: use 1 to {LONGEST} of a-z, 0-9, '-' and '.'"
        );
    }
    Ok(())
}

fn text<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    String::deserialize(from)?.parse().map_err(de::Error::custom)
}

fn optional<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    text(from).map(Some)
}

fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        let config: Config = toml::from_str(text)?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn a_whole_file() {
        let config = parse(
            r#"
            [daemon]
            cores = 2
            [limits]
            connections = 100
            memory = "512M"
            [[portal]]
            protocol = "iscsi"
            listen = "[::1]:0"
            advertise = "10.0.0.1:3260"
            [[portal]]
            protocol = "nvme"
            transport = "iwarp"
            crc = true
            listen = "[::1]:0"
            [[volume]]
            name = "disk"
            url = "delay=5ms+ram:1G?block=4096"
            [[access]]
            volume = "disk"
            initiators = ["iqn.2026-11.org.example:host"]
            hosts = ["nqn.2026-11.org.example:host"]
            chap = { user = "u", secret_file = "s" }
            "#,
        )
        .unwrap();
        assert_eq!(config.daemon.cores, Some(2));
        let words: Vec<_> = config.portals.iter().map(|portal| (portal.kind().word(), portal.crc)).collect();
        assert_eq!(words, [("iscsi", false), ("nvme-rdma", true)]);
        assert_eq!(config.volumes[0].url.to_string(), "delay=5ms+ram:1G?block=4096");
    }

    #[test]
    fn volumes_with_one_uuid_are_refused_however_it_is_written() {
        let uuid = "0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e2f";
        let volume = |name: &str, uuid: &str| {
            format!("[[volume]]\nname=\"{name}\"\nurl=\"ram:1G\"\nuuid=\"{uuid}\"\n")
        };
        let both = [volume("a", uuid), volume("b", &uuid.to_uppercase())].concat();
        let error = format!("{:#}", parse(&both).unwrap_err());
        assert!(error.contains("\"a\" and \"b\" have the same uuid"), "{error}");
    }

    #[test]
    fn prefixes_begin_names() {
        let config = parse(
            "[daemon]\niqn_prefix=\"iqn.2001-04.com.example:x.\"\nnqn_prefix=\"nqn.2001-04.com.example:y.\"\n\
             [[volume]]\nname=\"a\"\nurl=\"ram:1G\"",
        )
        .unwrap();
        assert_eq!(config.daemon.iqn("a").unwrap().as_str(), "iqn.2001-04.com.example:x.a");
        assert_eq!(config.daemon.nqn("a").unwrap().as_str(), "nqn.2001-04.com.example:y.a");
        assert_eq!(Daemon::default().iqn("a").unwrap().as_str(), "iqn.2026-11.org.linerate:a");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("[deamon]\n", "unknown field `deamon`"),
            ("[limits]\nmemory = \"12Q\"", "12Q"),
            ("[limits]\nconnections = 0", "at least 1"),
            ("[daemon]\ncores = 0", "from 1 to 256"),
            ("[daemon]\ncores = 300", "from 1 to 256"),
            ("[daemon]\nlog = \"loud\"", "warn,login=info"),
            ("[[portal]]\nprotocol=\"iscsi\"\nlisten=\"storage:3260\"", "storage:3260 is not an address"),
            (
                "[[access]]\nvolume=\"a\"\ntarget=\"a\"\nhosts=[\"nqn.2026-11.org.e:h\"]",
                "which no [[volume]] has",
            ),
            (
                "[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\n[[access]]\nvolume=\"a\"\ntarget=\"a\"\nhosts=[\"nqn.2026-11.org.e:h\"]",
                "both a volume and a target",
            ),
            ("[[access]]\ntarget=\"b\"\nhosts=[\"nqn.2026-11.org.e:h\"]", "to which no [[volume]] belongs"),
            ("[[volume]]\nname = \"a\"\nurl = \"rum:1G\"", "rum"),
            ("[[volume]]\nname = \"A b\"\nurl = \"ram:1G\"", "the volume name \"A b\""),
            ("[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\n[[volume]]\nname=\"a\"\nurl=\"ram:2G\"", "two volumes"),
            (
                "[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\n[[volume]]\nname=\"b\"\nurl=\"ram:2G\"\ntarget=\"a\"",
                "both LUN 0 of the target \"a\"",
            ),
            ("[[access]]\nvolume = \"b\"\nhosts = [\"nqn.2026-11.org.e:h\"]", "which no [[volume]] has"),
            ("[[access]]\n", "it would allow nobody"),
            ("[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\nuuid=\"1234\"", "\"1234\" is not a UUID"),
            ("[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\nserial=\"a b\"", "the serial \"a b\""),
            ("[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\nserial=\"123456789012345678901\"", "cannot be shown"),
            (
                "[[volume]]\nname=\"a\"\nurl=\"ram:1G\"\nserial=\"7\"\n[[volume]]\nname=\"b\"\nurl=\"ram:1G\"\nserial=\"7\"",
                "have the same serial",
            ),
            (
                "[daemon]\niqn_prefix=\"iqn.org:\"\n[[volume]]\nname=\"a\"\nurl=\"ram:1G\"",
                "iqn_prefix: \"iqn.org:\" cannot begin names",
            ),
            (
                "[daemon]\nnqn_prefix=\"nqn.2026-11.org.example\"\n[[volume]]\nname=\"a\"\nurl=\"ram:1G\"",
                "has no ':'",
            ),
            (
                "[[portal]]\nprotocol=\"iscsi\"\nlisten=\"[::1]:0\"\nreferrals=[\"[::1]:1\"]",
                "only an NVMe portal",
            ),
            (
                "[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:0\"\ntransport=\"ib\"",
                "expected one of `tcp`, `iwarp`, `roce`, `rdma`",
            ),
            ("[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:0\"\ncrc=true", "only an iWARP portal"),
            ("[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:0\"\nudp_port=7", "only RoCE has a port of UDP"),
            ("[[portal]]\nprotocol=\"iscsi\"\nlisten=\"[::]:1\"\ntransport=\"roce\"", "cover addresses"),
            (
                "[[portal]]\nprotocol=\"nvme\"\nlisten=\"0.0.0.0:1\"\ntransport=\"roce\"",
                "one of this machine's",
            ),
            ("[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:0\"\ntransport=\"roce\"", "names its service"),
            (
                "[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:1\"\ntransport=\"roce\"\n\
                 [[portal]]\nprotocol=\"iscsi\"\nlisten=\"[::1]:1\"\ntransport=\"roce\"",
                "another RoCE portal (nvme-roce) has this port",
            ),
            (
                "[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:1\"\ntransport=\"roce\"\ncrc=true",
                "only an iWARP portal",
            ),
            (
                "[[portal]]\nprotocol=\"iscsi\"\nlisten=\"[::1]:0\"\ntransport=\"iwarp\"\ndigests=\"required\"",
                "write crc = true instead",
            ),
            (
                "[[portal]]\nprotocol=\"nvme\"\nlisten=\"[::1]:0\"\nreferrals=[\"host:1\"]",
                "host:1 is no address",
            ),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{text:?} says {error:?}");
        }
    }
}
