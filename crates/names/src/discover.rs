//! Where to ask which targets there are: `iscsi://host[:3260]`, `nvme+tcp://host[:4420]`, and `iser://` and `nvme+rdma://` over RDMA.

use alloc::format;
use core::fmt;

use crate::iscsi::IscsiOptions;
use crate::nvme::NvmeOptions;
use crate::options::split_query;
use crate::parse::parse_by_read;
use crate::piece::{Fault, Piece};
use crate::portal::{ISCSI_PORT, NVME_PORT, Portal};
use crate::rdma::Carrier;

const SHAPE: &str =
    "write iscsi://HOST[:PORT] or nvme+tcp://HOST[:PORT], or iser:// or nvme+rdma:// for RDMA";

/// A discovery service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscoveryUrl {
    /// An iSCSI portal, asked by SendTargets (RFC 7143 appendix C).
    Iscsi {
        /// Where.
        portal: Portal,
        /// How to log in.
        options: IscsiOptions,
    },
    /// An NVMe discovery controller (NVMe Base §3.1.3.3).
    Nvme {
        /// Where.
        portal: Portal,
        /// How to connect.
        options: NvmeOptions,
    },
}

impl DiscoveryUrl {
    fn read(piece: Piece<'_>) -> Result<Self, Fault> {
        let Some((scheme, rest)) = piece.split_once(':') else {
            let remedy = format!("did you mean iscsi://{0} or nvme+tcp://{0}? {SHAPE}", piece.text);
            return Err(piece.fault("there is no scheme", remedy));
        };
        let (place, query) = split_query(rest);
        match scheme.text {
            "iscsi" => Self::iscsi(place, query, Carrier::Tcp),
            "iser" => Self::iscsi(place, query, Carrier::Rdma),
            "nvme+tcp" => Self::nvme(place, query, Carrier::Tcp),
            "nvme+rdma" => Self::nvme(place, query, Carrier::Rdma),
            "nvme" | "nvme-tcp" | "nvmf" => {
                let problem = format!("\"{}\" has no discovery service", scheme.text);
                Err(scheme.fault(problem, format!("did you mean nvme+tcp://? {SHAPE}")))
            }
            other => Err(scheme.fault(format!("\"{other}\" has no discovery service"), SHAPE)),
        }
    }

    fn iscsi(place: Piece<'_>, query: Option<Piece<'_>>, carrier: Carrier) -> Result<Self, Fault> {
        let portal = bare_portal(place, ISCSI_PORT)?;
        Ok(Self::Iscsi { portal, options: IscsiOptions::read(query, carrier)? })
    }

    fn nvme(place: Piece<'_>, query: Option<Piece<'_>>, carrier: Carrier) -> Result<Self, Fault> {
        let portal = bare_portal(place, NVME_PORT)?;
        Ok(Self::Nvme { portal, options: NvmeOptions::read(query, carrier)? })
    }
}

fn bare_portal(place: Piece<'_>, port: u16) -> Result<Portal, Fault> {
    match Portal::read_authority(place, port, SHAPE)? {
        (_, Some(path)) if !path.text.is_empty() => {
            Err(path.fault("a discovery service has no target in its URL", "leave the path out"))
        }
        (portal, _) => Ok(portal),
    }
}

impl fmt::Display for DiscoveryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iscsi { portal, options } => {
                write!(f, "{}://{portal}", options.scheme())?;
                options.write(f)
            }
            Self::Nvme { portal, options } => {
                write!(f, "{}://{portal}", options.scheme())?;
                options.write(f)
            }
        }
    }
}

parse_by_read!(DiscoveryUrl, "discovery URL");

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_discovery_service_is_a_portal_with_options() {
        for (text, written) in [
            ("iscsi://[::1]", "iscsi://[::1]:3260"),
            ("iscsi://10.0.0.1:7/", "iscsi://10.0.0.1:7"),
            ("iser://[::1]?crc=1", "iser://[::1]:3260?crc=1"),
            ("nvme+rdma://h", "nvme+rdma://h:4420"),
            (
                "nvme+tcp://h?hostnqn=nqn.2014-08.org.example:h",
                "nvme+tcp://h:4420?hostnqn=nqn.2014-08.org.example:h",
            ),
        ] {
            assert_eq!(text.parse::<DiscoveryUrl>().unwrap().to_string(), written);
        }
        for text in [
            "ram:1G",
            "iscsi:x",
            "iscsi://h/iqn.2026-11.org.linerate:disk/0",
            "h",
            "nvme+tcp://h?x=1",
            "iser://h?data_digest=crc32c",
        ] {
            assert!(text.parse::<DiscoveryUrl>().is_err(), "{text}");
        }
    }
}
