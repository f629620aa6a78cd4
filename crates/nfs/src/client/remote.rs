//! A file of a server as a volume: what a client found of it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use volume::{Features, Geometry, Identity, Limits, OpenError};

use super::found::FileFacts;
use super::limits::DEPTH;
use crate::v4::Verifier;

/// The version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 3 (RFC 1813).
    Three,
    /// 4, of this minor version (RFC 8881, RFC 7862).
    Four {
        /// 1 or 2.
        minor: u32,
    },
}

/// A file that is open at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its size, in blocks.
    pub geometry: Geometry,
    /// What it can take at a time.
    pub limits: Limits,
    /// What it can do.
    pub features: Features,
    /// What tells it from every other file: of its file system and of itself (RFC 8881 §5.8.1.9, §5.8.2.8).
    pub identity: Vec<u8>,
    /// The write verifier (RFC 8881 §18.3.3, RFC 1813 §3.3.21): another one says that the server may have lost what was not committed. None where nothing can be written.
    pub verifier: Option<Verifier>,
    /// The version that is spoken.
    pub version: Version,
}

/// What it is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteFileParts {
    pub(super) geometry: Geometry,
    pub(super) deallocates: bool,
    pub(super) writes: bool,
    /// Bytes.
    pub(super) max_transfer: u32,
    /// `fsid` and `fileid`.
    pub(super) identity: ([u64; 2], u64),
    pub(super) verifier: Option<Verifier>,
    pub(super) version: Version,
}

/// The file has so many bytes by now: its new geometry, if that is another one. A part of a block at the end is none.
pub(super) fn resized(known: &mut Option<Geometry>, size: u64) -> Option<Geometry> {
    let known = known.as_mut()?;
    let blocks = size / u64::from(known.block_size);
    (blocks != known.blocks).then(|| {
        known.blocks = blocks;
        *known
    })
}

impl RemoteFile {
    pub(super) fn new(parts: &RemoteFileParts) -> Self {
        let limits = Limits {
            max_transfer: parts.max_transfer,
            memory_alignment: 1,
            depth: DEPTH,
            discard_granularity: 1,
            max_discard: u64::MAX,
            atomic_blocks: 1,
        };
        let mut features = Features::VOLATILE_CACHE;
        features.set(Features::DISCARD | Features::WRITE_ZEROES, parts.deallocates);
        features.set(Features::READ_ONLY, !parts.writes);
        let ([major, minor], fileid) = parts.identity;
        let identity = [major, minor, fileid].into_iter().flat_map(u64::to_be_bytes).collect();
        let (geometry, verifier) = (parts.geometry, parts.verifier);
        Self { geometry, limits, features, identity, verifier, version: parts.version }
    }

    /// What it says of itself to people.
    pub fn identity(&self) -> Identity {
        let product = match self.version {
            Version::Three => String::from("NFS 3 file"),
            Version::Four { minor } => format!("NFS 4.{minor} file"),
        };
        Identity { product, ..Identity::default() }
    }
}

/// A path as people write it.
pub(super) fn shown(path: &[Vec<u8>]) -> String {
    path.iter().fold(String::new(), |text, name| format!("{text}/{}", String::from_utf8_lossy(name)))
}

/// Why an object of this type (`nfs_ftype4`, and the same numbers in `ftype3`) cannot be a volume; nothing if it can.
pub(super) fn wrong_kind(path: &[Vec<u8>], kind: u32) -> Option<String> {
    match kind {
        FileFacts::REGULAR => None,
        FileFacts::DIRECTORY => Some(format!("{} is a directory: name a file in it", shown(path))),
        FileFacts::SYMBOLIC_LINK => {
            Some(format!("{} is a symbolic link, which is not followed: name what it leads to", shown(path)))
        }
        _ => Some(format!("{} is no regular file", shown(path))),
    }
}

/// The blocks of a file of `size` bytes.
///
/// # Errors
/// It is empty, or no whole number of blocks.
pub(super) fn geometry_of(path: &[Vec<u8>], size: u64, block_size: u32) -> Result<Geometry, OpenError> {
    Geometry::of(size, block_size).map_err(|error| {
        let path = shown(path);
        OpenError::new(if size == 0 {
            format!("{path} is empty: make it as large as the volume is to be, or add size= to the URL")
        } else {
            format!("{path}: {error}")
        })
    })
}
