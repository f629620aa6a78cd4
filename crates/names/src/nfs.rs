//! `nfs://host[:2049]/export/path/file?options`: a file at an NFS server, and the same over RDMA as `nfs+rdma://host[:20049]/…`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::duration::Span;
use crate::options::{Options, Writer, flag, number, positive, split_query};
use crate::percent;
use crate::piece::{Fault, Piece};
use crate::portal::{NFS_PORT, NFS_RDMA_PORT, Portal};
use crate::rdma::{Carrier, RdmaOptions};
use crate::size::ByteSize;
use crate::source::BlockSize;

pub(crate) const OPTIONS: &[&str] =
    &["version", "mountport", "uid", "gid", "exclusive", "size", "block", "timeout", "reconnect"];
pub(crate) const RDMA_OPTIONS: &[&str] = &[
    "transport",
    "udp_port",
    "crc",
    "version",
    "mountport",
    "uid",
    "gid",
    "exclusive",
    "size",
    "block",
    "timeout",
    "reconnect",
];
const SHAPE: &str = "write nfs://HOST[:PORT]/PATH/FILE, or nfs+rdma:// for RDMA";
/// The longest name in a path, in bytes: NAME_MAX of every usual file system.
const LONGEST_NAME: usize = 255;
/// The most names in a path.
const MOST_NAMES: usize = 256;

/// A file at an NFS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsUrl {
    /// Where the server is reached.
    pub portal: Portal,
    /// The names from the server's root to the file, at least one.
    pub path: Vec<String>,
    /// How to connect.
    pub options: NfsOptions,
}

/// How a client is to connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NfsOptions {
    /// RDMA carries it; without it TCP does.
    pub rdma: Option<RdmaOptions>,
    /// The version; 4.2, or else 4.1, if not given.
    pub version: Option<NfsVersion>,
    /// The port of MOUNT, over TCP; version 3 alone. That of NFS if not given, and over RDMA the port of NFS over TCP.
    pub mount_port: Option<u16>,
    /// The user who asks; that of the process if not given.
    pub uid: Option<u32>,
    /// The user's group; that of the process if not given.
    pub gid: Option<u32>,
    /// Nobody else may write to the file meanwhile.
    pub exclusive: bool,
    /// The size that a smaller file grows to.
    pub size: Option<ByteSize>,
    /// The block size; 512 if not given.
    pub block: Option<BlockSize>,
    /// How long a command may take before the connection is given up, above zero; a default if not given.
    pub timeout: Option<Span>,
    /// How long requests wait for a lost connection to come back; zero never to reconnect, a default if not given.
    pub reconnect: Option<Span>,
}

/// A version of NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NfsVersion {
    /// 3 (RFC 1813).
    V3,
    /// 4.1 (RFC 8881).
    V4_1,
    /// 4.2 (RFC 7862).
    V4_2,
}

impl NfsVersion {
    fn read(value: Piece<'_>) -> Result<Self, Fault> {
        match value.text {
            "3" => Ok(Self::V3),
            "4.1" => Ok(Self::V4_1),
            "4.2" => Ok(Self::V4_2),
            other => Err(value.fault(format!("there is no version {other} here"), "write 3, 4.1 or 4.2")),
        }
    }
}

impl fmt::Display for NfsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3 => "3",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        })
    }
}

impl NfsUrl {
    pub(crate) fn read(piece: Piece<'_>, carrier: Carrier) -> Result<Self, Fault> {
        let (place, query) = split_query(piece);
        let port = match carrier {
            Carrier::Tcp => NFS_PORT,
            Carrier::Rdma => NFS_RDMA_PORT,
        };
        let (portal, path) = Portal::read_authority(place, port, SHAPE)?;
        let missing = || place.from(place.text.len()).fault("the file's path is missing", SHAPE);
        let path = path.filter(|path| !path.text.is_empty()).ok_or_else(missing)?;
        Ok(Self { portal, path: read_path(path)?, options: NfsOptions::read(query, carrier)? })
    }

    /// The path as people write it.
    pub fn path(&self) -> String {
        self.path.iter().fold(String::new(), |text, name| format!("{text}/{name}"))
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "//{}", self.portal)?;
        for name in &self.path {
            f.write_str("/")?;
            percent::encode(f, name, "/?")?;
        }
        self.options.write(f)
    }
}

/// Names between slashes.
fn read_path(mut rest: Piece<'_>) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    loop {
        let (name, after) = match rest.split_once('/') {
            Some((name, after)) => (name, Some(after)),
            None => (rest, None),
        };
        let decoded = percent::decode(name)?;
        let problem = match decoded.as_str() {
            "" => Some("a name in the path is empty".to_string()),
            "." | ".." => Some(format!("\"{decoded}\" is no name of a file")),
            long if long.len() > LONGEST_NAME => Some(format!("a name is longer than {LONGEST_NAME} bytes")),
            _ if names.len() == MOST_NAMES => Some(format!("the path has more than {MOST_NAMES} names")),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(name.fault(problem, SHAPE));
        }
        names.push(decoded);
        match after {
            Some(after) => rest = after,
            None => return Ok(names),
        }
    }
}

impl NfsOptions {
    /// The scheme of a URL with these.
    pub(crate) fn scheme(&self) -> &'static str {
        match Carrier::of(self.rdma) {
            Carrier::Tcp => "nfs",
            Carrier::Rdma => "nfs+rdma",
        }
    }

    pub(crate) fn read(query: Option<Piece<'_>>, carrier: Carrier) -> Result<Self, Fault> {
        let options = match carrier {
            Carrier::Tcp => Options::read(query, "nfs:", OPTIONS)?,
            Carrier::Rdma => Options::read(query, "nfs+rdma:", RDMA_OPTIONS)?,
        };
        let version = options.get("version", NfsVersion::read)?;
        let exclusive = options.get("exclusive", flag)?.unwrap_or(false);
        if let Some(place) =
            options.place("exclusive").filter(|_| exclusive && version == Some(NfsVersion::V3))
        {
            return Err(place
                .fault("version 3 of NFS cannot deny others anything", "leave exclusive= or version= out"));
        }
        if let Some(place) = options.place("mountport").filter(|_| version != Some(NfsVersion::V3)) {
            return Err(
                place.fault("only version 3 of NFS has MOUNT", "leave mountport= out, or add version=3")
            );
        }
        Ok(Self {
            rdma: carrier.read(&options)?,
            version,
            mount_port: options.get("mountport", |value| number(value, &1))?,
            uid: options.get("uid", |value| number(value, &0))?,
            gid: options.get("gid", |value| number(value, &0))?,
            exclusive,
            size: options.get("size", ByteSize::read)?,
            block: options.get("block", BlockSize::read)?,
            timeout: options.get("timeout", positive)?,
            reconnect: options.get("reconnect", Span::read)?,
        })
    }

    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Writer::new(f);
        if let Some(rdma) = self.rdma {
            rdma.write(&mut options)?;
        }
        options.put("version", self.version)?;
        options.put("mountport", self.mount_port)?;
        options.put("uid", self.uid)?;
        options.put("gid", self.gid)?;
        options.put_flag("exclusive", self.exclusive)?;
        options.put("size", self.size)?;
        options.put("block", self.block)?;
        options.put("timeout", self.timeout)?;
        options.put("reconnect", self.reconnect)
    }
}
