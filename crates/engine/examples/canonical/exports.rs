//! What is served: one null volume, over one of the protocols, or a file; and how it is reached.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use engine::remote::{Access, NfsUser};
use engine::{Catalogue, ListenerRole, NamedVolume, Transport};
use names::{Source, VolumeUrl};
use scsi::{LogicalUnit, TargetDevice, UnitIdentity};
use volume::{Null, OpenError, Volume, VolumeId};

use crate::files;
use crate::wire::Mail;

const IQN: &str = "iqn.2026-11.org.linerate:disk";
const NQN: &str = "nqn.2026-11.org.linerate:disk";
/// Size of the volume, in bytes, and of its blocks.
const VOLUME: u64 = 1 << 30;
const BLOCK: u32 = 512;

/// A protocol, both of whose ends are looked at.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    Iscsi,
    Nvme,
    /// iSCSI over software iWARP, without CRCs.
    Iser,
    /// NVMe over software iWARP, without CRCs.
    NvmeRdma,
    /// A file over NFS 4.1.
    Nfs,
}

/// Where the server seems to be.
pub(crate) fn address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 1))
}

impl Protocol {
    /// The protocol of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "iscsi" => Some(Self::Iscsi),
            "nvme" => Some(Self::Nvme),
            "iser" => Some(Self::Iser),
            "nvme+rdma" => Some(Self::NvmeRdma),
            "nfs" => Some(Self::Nfs),
            _ => None,
        }
    }

    /// What carries it.
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Iscsi | Self::Nvme | Self::Nfs => Transport::Tcp,
            Self::Iser | Self::NvmeRdma => Transport::Iwarp { crc: false },
        }
    }

    /// The volume as a client names it.
    pub(crate) fn access(self) -> Result<Access, OpenError> {
        let text = match self {
            Self::Iscsi => format!("iscsi://127.0.0.1/{IQN}/0"),
            Self::Nvme => format!("nvme+tcp://127.0.0.1/{NQN}/1"),
            Self::Iser => format!("iser://127.0.0.1/{IQN}/0"),
            Self::NvmeRdma => format!("nvme+rdma://127.0.0.1/{NQN}/1"),
            Self::Nfs => format!("nfs://127.0.0.1/{}?version=4.1", files::PATH),
        };
        let url: VolumeUrl = text.parse().map_err(|error| OpenError::new(format!("{text}: {error}")))?;
        match url.source {
            Source::Iscsi(url) => Ok(Access::Iscsi { url, secrets: None }),
            Source::Nvme(url) => Ok(Access::Nvme { url }),
            Source::Nfs(url) => Ok(Access::Nfs { url, user: NfsUser::default() }),
            _ => Err(OpenError::new("not a remote volume")),
        }
    }

    /// What a server has: the volume, or the file.
    pub(crate) fn catalogue(self, mail: &Arc<Mail>) -> Result<Catalogue, OpenError> {
        let null = Null::new(VOLUME, BLOCK).map_err(|error| OpenError::new(error.to_string()))?;
        let volume: Arc<dyn Volume> = Arc::new(null);
        let role = match self {
            Self::Iscsi | Self::Iser => iscsi_listener(&*volume)?,
            Self::Nvme | Self::NvmeRdma => nvme_listener(&*volume),
            Self::Nfs => return files::catalogue(mail),
        };
        Ok(Catalogue::first([NamedVolume { name: "disk".into(), volume }], vec![role]))
    }
}

fn iscsi_listener(volume: &dyn Volume) -> Result<ListenerRole, OpenError> {
    let identity = UnitIdentity {
        vendor: "LINERATE".to_owned(),
        product: "VOLUME".to_owned(),
        revision: "0".to_owned(),
        serial: "1".into(),
        naa: [0x30; 8],
        uuid: [7; 16],
        incarnation: None,
    };
    let unit = LogicalUnit {
        lun: 0,
        volume: VolumeId::new(0, 0),
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        identity,
    };
    let device = TargetDevice {
        port_name: format!("{IQN},t,0x0001").into(),
        device_name: IQN.into(),
        relative_port: 1,
        port_group: 1,
        units: vec![unit],
    };
    let node = iscsi::target::Node {
        name: IQN.parse().map_err(|error| OpenError::new(format!("{IQN}: {error}")))?,
        alias: String::new(),
        device: Arc::new(device),
        portal_group: 1,
        access: iscsi::target::Access::default(),
    };
    Ok(ListenerRole::Iscsi(Arc::new(iscsi::target::Portal::new(vec![node]))))
}

fn nvme_listener(volume: &dyn Volume) -> ListenerRole {
    let namespace = nvme::controller::Namespace {
        incarnation: None,
        nsid: 1,
        volume: VolumeId::new(0, 0),
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        nguid: [1; 16],
        eui64: None,
        uuid: [7; 16],
    };
    let subsystem = nvme::controller::Subsystem {
        nqn: NQN.into(),
        serial: "1".to_owned(),
        model: "Linerate".to_owned(),
        firmware: "0".to_owned(),
        hosts: nvme::controller::Hosts::Any,
        namespaces: vec![namespace],
        limits: nvme::controller::QueueLimits::default(),
    };
    ListenerRole::Nvme(Arc::new(nvme::controller::Portal {
        subsystems: vec![Arc::new(subsystem)],
        advertised: Vec::new(),
        referrals: Vec::new(),
        generation: 1,
        log: nvme::controller::DiscoveryLog::default(),
        require_digests: false,
    }))
}
