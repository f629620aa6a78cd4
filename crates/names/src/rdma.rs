//! What `iser://` and `nvme+rdma://` have that their siblings over TCP do not, and the other way round.

use alloc::format;

use crate::options::{Options, Writer, flag};
use crate::piece::{Fault, Piece};

/// What only the protocols over TCP have: RDMA has checks of its own.
const DIGESTS: [&str; 2] = ["header_digest", "data_digest"];

/// How RDMA is to carry a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RdmaOptions {
    /// Ask for CRC32C of what goes over the connection; there is one too if the peer asks for it.
    pub crc: bool,
}

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
            Self::Rdma => Ok(Some(RdmaOptions { crc: options.get("crc", flag)?.unwrap_or(false) })),
        }
    }
}

impl RdmaOptions {
    pub(crate) fn write(self, options: &mut Writer<'_, '_>) -> core::fmt::Result {
        options.put_flag("crc", self.crc)
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
