//! `nvme+tcp://host[:4420]/subsystem/nsid?options`, and the same over RDMA as `nvme+rdma://`.

use alloc::format;
use core::fmt;

use crate::duration::Span;
use crate::nqn::Nqn;
use crate::options::{Options, Writer, flag, number, positive, split_query};
use crate::parse::parse_by_read;
use crate::percent;
use crate::piece::{Fault, Piece};
use crate::portal::{NVME_PORT, Portal};
use crate::rdma::{Carrier, RdmaOptions, refuse_digests};
use crate::uuid;

pub(crate) const OPTIONS: &[&str] =
    &["header_digest", "data_digest", "queues", "timeout", "reconnect", "hostnqn", "hostid"];
pub(crate) const RDMA_OPTIONS: &[&str] =
    &["transport", "udp_port", "crc", "queues", "timeout", "reconnect", "hostnqn", "hostid"];
const SHAPE: &str = "write nvme+tcp://HOST[:PORT]/SUBSYSTEM/NSID, or nvme+rdma:// for RDMA";
/// The largest namespace identifier: the next one means all namespaces (NVMe Base §3.2.1).
const LAST_NSID: u32 = 0xffff_fffe;

/// A namespace of an NVMe subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmeUrl {
    /// Where the subsystem is reached.
    pub portal: Portal,
    /// The subsystem's name.
    pub subsystem: Nqn,
    /// The namespace identifier, at least 1.
    pub nsid: u32,
    /// How to connect.
    pub options: NvmeOptions,
}

/// How a host is to connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NvmeOptions {
    /// RDMA carries it; without it TCP does.
    pub rdma: Option<RdmaOptions>,
    /// Ask for CRC32C of headers; over TCP alone.
    pub header_digest: bool,
    /// Ask for CRC32C of data; likewise.
    pub data_digest: bool,
    /// I/O queues, at least 1; as many as cores if not given.
    pub queues: Option<u16>,
    /// How long a command may take before the connection is given up, above zero; a default if not given.
    pub timeout: Option<Span>,
    /// How long requests wait for a lost connection to come back; zero never to reconnect, a default if not given.
    pub reconnect: Option<Span>,
    /// The host's name; a default if not given.
    pub hostnqn: Option<Nqn>,
    /// The host's identifier; a default if not given.
    pub hostid: Option<HostId>,
}

/// A host identifier (NVMe Base §8.1.10): 16 bytes, written as a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostId(pub [u8; 16]);

impl HostId {
    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let bytes = uuid::parse(piece.text).ok_or_else(|| {
            let problem = format!("\"{}\" is not a UUID", piece.text);
            piece.fault(problem, "write it as 11111111-2222-3333-4444-555555555555")
        })?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::write(&self.0, f)
    }
}

parse_by_read!(HostId, "host identifier");

impl NvmeUrl {
    pub(crate) fn read(piece: Piece<'_>, carrier: Carrier) -> Result<Self, Fault> {
        let (place, query) = split_query(piece);
        let (portal, path) = Portal::read_authority(place, NVME_PORT, SHAPE)?;
        let parts = path.and_then(|path| path.split_once('/'));
        let Some((subsystem, nsid)) = parts else {
            return Err(place.from(place.text.len()).fault("subsystem or namespace is missing", SHAPE));
        };
        let number = nsid.number::<u32>().filter(|number| (1..=LAST_NSID).contains(number));
        let number = number.ok_or_else(|| {
            let problem = format!("\"{}\" is not a namespace identifier", nsid.text);
            nsid.fault(problem, format!("write a number from 1 to {LAST_NSID}"))
        })?;
        let name = percent::decode(subsystem)?;
        let subsystem = Nqn::read(Piece { text: &name, at: subsystem.at })?;
        Ok(Self { portal, subsystem, nsid: number, options: NvmeOptions::read(query, carrier)? })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "//{}/", self.portal)?;
        percent::encode(f, self.subsystem.as_str(), "/?")?;
        write!(f, "/{}", self.nsid)?;
        self.options.write(f)
    }
}

impl NvmeOptions {
    /// The scheme of a URL with these.
    pub(crate) fn scheme(&self) -> &'static str {
        match Carrier::of(self.rdma) {
            Carrier::Tcp => "nvme+tcp",
            Carrier::Rdma => "nvme+rdma",
        }
    }

    pub(crate) fn read(query: Option<Piece<'_>>, carrier: Carrier) -> Result<Self, Fault> {
        let options = match carrier {
            Carrier::Tcp => Options::read(query, "nvme+tcp:", OPTIONS)?,
            Carrier::Rdma => {
                refuse_digests(query, "nvme+rdma:")?;
                Options::read(query, "nvme+rdma:", RDMA_OPTIONS)?
            }
        };
        Ok(Self {
            rdma: carrier.read(&options)?,
            header_digest: options.get("header_digest", flag)?.unwrap_or(false),
            data_digest: options.get("data_digest", flag)?.unwrap_or(false),
            queues: options.get("queues", |value| number(value, &1))?,
            timeout: options.get("timeout", positive)?,
            reconnect: options.get("reconnect", Span::read)?,
            hostnqn: options.get("hostnqn", Nqn::read)?,
            hostid: options.get("hostid", HostId::read)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Writer::new(f);
        if let Some(rdma) = self.rdma {
            rdma.write(&mut options)?;
        }
        options.put_flag("header_digest", self.header_digest)?;
        options.put_flag("data_digest", self.data_digest)?;
        options.put("queues", self.queues)?;
        options.put("timeout", self.timeout)?;
        options.put("reconnect", self.reconnect)?;
        options.put("hostnqn", self.hostnqn.as_ref())?;
        options.put("hostid", self.hostid)
    }
}
