//! Where a service listens: `address:port`, with IPv6 addresses in brackets.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};

/// The iSCSI port (RFC 7143 §13).
pub const ISCSI_PORT: u16 = 3260;
/// The NVMe/TCP port for I/O controllers (NVMe/TCP §3.1).
pub const NVME_PORT: u16 = 4420;
/// The NFS port (RFC 8881 §2.9.3).
pub const NFS_PORT: u16 = 2049;
/// The NFS/RDMA port (RFC 8267 §9).
pub const NFS_RDMA_PORT: u16 = 20049;
/// The longest host name (RFC 1035 §2.3.4).
const LONGEST_HOST: usize = 253;

/// A machine: by address, or by a name that somebody must look up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// By address.
    Address(IpAddr),
    /// By name.
    Name(String),
}

/// A host and a TCP port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Portal {
    /// The host.
    pub host: Host,
    /// The port; zero asks for any free one where something listens.
    pub port: u16,
}

impl Portal {
    /// The socket address, unless the host's name must be looked up first.
    pub const fn address(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Address(address) => Some(SocketAddr::new(address, self.port)),
            Host::Name(_) => None,
        }
    }

    /// Reads `//host[:port]` and gives what follows the next slash.
    pub(crate) fn read_authority<'a>(
        place: Piece<'a>,
        port: u16,
        shape: &str,
    ) -> Result<(Self, Option<Piece<'a>>), Fault> {
        let Some(rest) = place.strip_prefix("//") else {
            return Err(place.fault("two slashes must follow the colon", shape));
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        if authority.text.contains('@') {
            let remedy = "give chap_user= and chap_secret_file= as options: a URL holds no secrets";
            return Err(authority.fault("a user stands before the host", remedy).hiding());
        }
        Ok((Self::read_with(authority, Some(port))?, path))
    }

    /// Reads `host[:port]`; without a default the port must be there.
    pub(crate) fn read_with(piece: Piece<'_>, default: Option<u16>) -> Result<Self, Fault> {
        let (host, port) = split_port(piece)?;
        let port = match (port, default) {
            (Some(port), _) => port.number::<u16>().ok_or_else(|| {
                port.fault(format!("\"{}\" is not a port", port.text), "write a number from 0 to 65535")
            })?,
            (None, Some(port)) => port,
            (None, None) => {
                return Err(piece.from(piece.text.len()).fault("the port is missing", "write ADDRESS:PORT"));
            }
        };
        Ok(Self { host: Host::read(host)?, port })
    }

    pub(crate) fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        Self::read_with(piece, None)
    }
}

fn split_port(piece: Piece<'_>) -> Result<(Piece<'_>, Option<Piece<'_>>), Fault> {
    if !piece.text.starts_with('[') {
        if piece.text.matches(':').count() > 1 {
            return Err(piece.fault("an IPv6 address needs brackets here", "write it as [::1]"));
        }
        return Ok(piece.split_once(':').map_or((piece, None), |(host, port)| (host, Some(port))));
    }
    let Some(end) = piece.text.find(']') else {
        return Err(piece.fault("the bracket is never closed", "write an IPv6 address as [::1]"));
    };
    let after = piece.from(end + 1);
    match after.strip_prefix(":") {
        port @ Some(_) => Ok((piece.first(end + 1), port)),
        None if after.text.is_empty() => Ok((piece.first(end + 1), None)),
        None => Err(after.fault("only a port may follow the address", "write it as [::1]:3260")),
    }
}

impl From<SocketAddr> for Portal {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip()), port: address.port() }
    }
}

impl Host {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        if let Some(inner) = piece.strip_prefix("[").and_then(|inner| inner.strip_suffix("]")) {
            let address = inner.text.parse::<Ipv6Addr>();
            let address = address.map_err(|_| {
                inner.fault(format!("\"{}\" is not an IPv6 address", inner.text), "write it as [::1]")
            });
            return Ok(Self::Address(IpAddr::V6(address?)));
        }
        if let Ok(address) = piece.text.parse::<IpAddr>() {
            return Ok(Self::Address(address));
        }
        let name = piece.text;
        let good = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if name.is_empty() || name.len() > LONGEST_HOST || !name.chars().all(good) {
            let problem = format!("\"{name}\" is neither an address nor a host name");
            return Err(piece.fault(problem, "write an address, [IPv6 address] or name"));
        }
        // A name of digits and points only is a mistyped address, which a resolver would guess at.
        if name.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
            return Err(piece.fault(format!("\"{name}\" is not an IPv4 address"), "write it as 127.0.0.1"));
        }
        Ok(Self::Name(name.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

parse_by_read!(Portal, "portal");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn addresses_and_names() {
        for text in ["127.0.0.1:3260", "[::1]:0", "[fe80::1]:65535", "storage-1.example.org:4420"] {
            let portal: Portal = text.parse().unwrap();
            assert_eq!(portal.to_string(), text);
            assert_eq!(portal.address().is_some(), !text.starts_with("storage"));
        }
    }

    #[test]
    fn what_is_no_portal_is_refused_where_it_stops() {
        for (text, at) in [
            ("", 0),
            ("127.0.0.1", 9),
            (":3260", 0),
            ("::1:3260", 0),
            ("[::1", 0),
            ("[::1]x", 5),
            ("[10.0.0.1]:1", 1),
            ("127.0.0.1:99999", 10),
            ("127.0.0.1:+1", 10),
            ("127.0.0:1", 0),
            ("a b:1", 0),
        ] {
            assert_eq!(text.parse::<Portal>().unwrap_err().position(), at, "{text}");
        }
    }
}
