//! What `iser://` and `nvme+rdma://` have that their siblings over TCP do not, and the other way round.

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
        let is_roce = options.get("transport", is_roce)?.unwrap_or(false);
        let udp_port = options.get("udp_port", |value| number(value, &1))?;
        if !is_roce {
            return match options.place("udp_port") {
                Some(key) => {
                    Err(key.fault("only RoCE has a port of UDP", "write transport=roce, or leave it out"))
                }
                None => Ok(Self { crc, transport: RdmaTransport::Iwarp }),
            };
        }
        if let Some(key) = options.place("crc") {
            return Err(key.fault("RoCE has a checksum in each packet", "leave crc out"));
        }
        Ok(Self { crc, transport: RdmaTransport::Roce { udp_port: udp_port.unwrap_or(ROCE_PORT) } })
    }

    pub(crate) fn write(self, options: &mut Writer<'_, '_>) -> core::fmt::Result {
        options.put_flag("crc", self.crc)?;
        let RdmaTransport::Roce { udp_port } = self.transport else { return Ok(()) };
        options.put("transport", Some("roce"))?;
        options.put("udp_port", (udp_port != ROCE_PORT).then_some(udp_port))
    }
}

fn is_roce(value: Piece<'_>) -> Result<bool, Fault> {
    match value.text {
        "iwarp" => Ok(false),
        "roce" => Ok(true),
        other => Err(value.fault(format!("\"{other}\" carries no RDMA here"), "write iwarp or roce")),
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
