//! What `iser://`, `nvme+rdma://` and `nfs+rdma://` have that their siblings over TCP do not, and the other way round.

use alloc::format;

use crate::options::{Options, Writer, flag, number};
use crate::piece::{Fault, Piece};

/// What only the protocols over TCP have: RDMA has checks of its own.
const DIGESTS: [&str; 2] = ["header_digest", "data_digest"];

/// How RDMA is to carry a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RdmaOptions {
    /// Ask for CRC32C of what goes over the connection; there is one too if the peer asks for it. RoCE has its own.
    pub crc: bool,
    /// What carries RDMA.
    pub transport: RdmaTransport,
}

/// What carries RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RdmaTransport {
    /// Software iWARP, on a TCP stream.
    #[default]
    Iwarp,
    /// Software RoCEv2, on datagrams.
    Roce {
        /// The peer's port of UDP.
        udp_port: u16,
    },
    /// An RDMA adapter of this machine, whatever it speaks.
    Adapter,
}

/// The port of UDP that RoCEv2 is received on (IBTA annex A17).
pub const ROCE_PORT: u16 = 4791;

/// What carries a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Rdma,
}

impl Carrier {
    /// What carries a protocol whose options are these.
    pub(crate) fn of(rdma: Option<RdmaOptions>) -> Self {
        if rdma.is_some() { Self::Rdma } else { Self::Tcp }
    }

    /// The options of RDMA, where that is the carrier.
    pub(crate) fn read(self, options: &Options<'_>) -> Result<Option<RdmaOptions>, Fault> {
        match self {
            Self::Tcp => Ok(None),
            Self::Rdma => RdmaOptions::read(options).map(Some),
        }
    }
}

impl RdmaOptions {
    fn read(options: &Options<'_>) -> Result<Self, Fault> {
        let crc = options.get("crc", flag)?.unwrap_or(false);
        let transport = options.get("transport", transport)?.unwrap_or_default();
        let udp_port = options.get("udp_port", |value| number(value, &1))?;
        if !matches!(transport, RdmaTransport::Roce { .. })
            && let Some(key) = options.place("udp_port")
        {
            return Err(key.fault("only RoCE has a port of UDP", "write transport=roce, or leave it out"));
        }
        let checked = match transport {
            RdmaTransport::Iwarp => None,
            RdmaTransport::Roce { .. } => Some("RoCE has a checksum in each packet"),
            RdmaTransport::Adapter => Some("an adapter has checksums of its own"),
        };
        if let (Some(why), Some(key)) = (checked, options.place("crc")) {
            return Err(key.fault(why, "leave crc out"));
        }
        let transport = match transport {
            RdmaTransport::Roce { udp_port: usual } => {
                RdmaTransport::Roce { udp_port: udp_port.unwrap_or(usual) }
            }
            other => other,
        };
        Ok(Self { crc, transport })
    }

    pub(crate) fn write(self, options: &mut Writer<'_, '_>) -> core::fmt::Result {
        options.put_flag("crc", self.crc)?;
        match self.transport {
            RdmaTransport::Iwarp => Ok(()),
            RdmaTransport::Roce { udp_port } => {
                options.put("transport", Some("roce"))?;
                options.put("udp_port", (udp_port != ROCE_PORT).then_some(udp_port))
            }
            RdmaTransport::Adapter => options.put("transport", Some("rdma")),
        }
    }
}

fn transport(value: Piece<'_>) -> Result<RdmaTransport, Fault> {
    match value.text {
        "iwarp" => Ok(RdmaTransport::Iwarp),
        "roce" => Ok(RdmaTransport::Roce { udp_port: ROCE_PORT }),
        "rdma" => Ok(RdmaTransport::Adapter),
        other => {
            let problem = format!("\"{other}\" carries no RDMA here");
            Err(value.fault(problem, "write iwarp or roce, or rdma for an adapter of this machine"))
        }
    }
}

/// Says of a digest that it has no place here.
pub(crate) fn refuse_digests(query: Option<Piece<'_>>, scheme: &str) -> Result<(), Fault> {
    let parts = query.into_iter().flat_map(|query| query.split('&'));
    let mut keys = parts.map(|part| part.split_once('=').map_or(part, |(key, _)| key));
    let Some(key) = keys.find(|key| DIGESTS.contains(&key.text)) else { return Ok(()) };
    let problem = format!("{scheme} has no digests: they are of the protocol over TCP");
    Err(key.fault(problem, "leave it out; crc=1 asks RDMA for its own checksums"))
}
