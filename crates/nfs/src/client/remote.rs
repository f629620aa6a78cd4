//! A file of a server as a volume: what a client found of it.

use alloc::string::String;
use alloc::vec::Vec;

use volume::{Features, Geometry, Identity, Limits};

use super::limits::DEPTH;
use crate::v4::Verifier;

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
    /// The write verifier (RFC 8881 §18.3.3): another one says that the server may have lost what was not committed. None where nothing can be written.
    pub verifier: Option<Verifier>,
    /// The minor version that is spoken.
    pub minor: u32,
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
    pub(super) minor: u32,
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
        Self { geometry, limits, features, identity, verifier, minor: parts.minor }
    }

    /// What it says of itself to people.
    pub fn identity(&self) -> Identity {
        let product = if self.minor >= 2 { "NFS 4.2 file" } else { "NFS 4.1 file" };
        Identity { product: String::from(product), ..Identity::default() }
    }
}
