//! A folder of this machine as a file system that is served: `dir:PATH`.
//!
//! Everything is beneath the folder, whatever names, links and local processes do: names are looked up one by one from directories that are open, no link is
//! followed, no other file system entered, and a directory that was moved out is not served. What is done is done in the caller's name if the server runs as
//! root, on threads that become that user; otherwise everything is done as the server's user, and new objects are its.
//!
//! What changes names or attributes is durable when it is answered. A commit is `fdatasync`; when one fails, the write verifier moves, and clients write again.

mod attributes;
mod change;
mod convert;
mod data;
mod error;
mod handle;
mod handles;
mod job;
mod limits;
mod listing;
mod names;
mod queue;
mod shared;
mod table;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use filesystem::{
    Features, FileHandle, FileSystem, FileSystemQueue, Fsid, Identity, LINK_BYTES, Limits, NAME_BYTES,
    OpenError, QueueContext, Statistics, Time,
};
use host::{Tree, VolumeState};
use protocol::Entropy;

use handle::Sealer;
use handles::Handles;
use job::EndedJobs;
use limits::{DEPTH, KERNEL_HANDLE, KEY, TRANSFER};
use queue::FolderQueue;
use shared::{Beginning, Shared};
use table::Table;

/// Whether clients may change the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderMode {
    /// They may.
    ReadWrite,
    /// They may not.
    ReadOnly,
}

/// The record of the folder's state: the key of its handles, and its name among file systems.
const RECORD: &str = "handles";
/// Bytes of that record: the key, and the two numbers of the name.
const RECORD_BYTES: usize = KEY + 16;
/// Links to one object: what ext4 has; others have more, and say so themselves.
const LINKS: u32 = 65_000;

/// The file system of `dir:`.
pub struct Folder {
    shared: Arc<Shared>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").field("place", &self.shared.tree.place()).finish_non_exhaustive()
    }
}

/// What outlives the process.
struct Kept {
    key: [u8; KEY],
    fsid: Fsid,
}

impl Kept {
    /// Reads it, or makes it.
    fn load(state: &VolumeState, entropy: &mut dyn Entropy) -> Result<Self, OpenError> {
        let failed = |error: host::StateError| OpenError::new(error.to_string());
        let record = if let Some(record) = state.read(RECORD).map_err(failed)? {
            record
        } else {
            let mut record = vec![0; RECORD_BYTES];
            entropy.fill(&mut record);
            state.write(RECORD, &record).map_err(failed)?;
            record
        };
        let parts = record.split_first_chunk::<KEY>().and_then(|(key, rest)| {
            let (major, minor) = rest.split_first_chunk::<8>()?;
            let minor = <[u8; 8]>::try_from(minor).ok()?;
            Some(Self {
                key: *key,
                fsid: Fsid { major: u64::from_be_bytes(*major), minor: u64::from_be_bytes(minor) },
            })
        });
        parts.ok_or_else(|| {
            OpenError::new(format!(
                "the state record {RECORD} of this folder has {} bytes, and should have {RECORD_BYTES}: restore it from a copy, or remove it; \
                 then clients have to mount anew",
                record.len()
            ))
        })
    }
}

impl Folder {
    /// Serves a folder. `state` keeps the key of its handles; `entropy` is for what is made anew. May block.
    pub fn open(
        tree: Arc<dyn Tree>,
        mode: FolderMode,
        state: &VolumeState,
        entropy: &mut dyn Entropy,
    ) -> Result<Self, OpenError> {
        let place = tree.place();
        let refused =
            |what: &str, error: &dyn fmt::Display| OpenError::new(format!("{place}: {what}: {error}"));
        let kept = Kept::load(state, entropy)?;
        let root = tree.root();
        let root_stat = tree.stat(&root).map_err(|error| refused("it cannot be looked at", &error))?;
        let table = match handle_source(&*tree, &root) {
            HandleSource::Kernel => None,
            HandleSource::Table => {
                Some(Table::load(state, &root_stat).map_err(|error| OpenError::new(error.to_string()))?)
            }
        };
        let space = tree.space().map_err(|error| refused("its file system cannot be asked", &error))?;
        let longest_name = space.longest_name.min(wire::saturate(NAME_BYTES));
        let beginning = Beginning {
            features: features(&*tree, mode),
            limits: limits_of(longest_name),
            handles: Handles::new(Arc::clone(&tree), Sealer::new(kept.key), table),
            fsid: kept.fsid,
            verifier: entropy.number(),
            tree,
        };
        let shared = Shared::new(beginning).map_err(|kind| refused("it cannot be served", &kind))?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Where handles come from.
enum HandleSource {
    /// The kernel names its objects, shortly enough, and lets this process find them again.
    Kernel,
    /// It does not: the table of places is kept.
    Table,
}

fn handle_source(tree: &dyn Tree, root: &OwnedFd) -> HandleSource {
    match tree.kernel_handle(root) {
        Ok(kernel) if kernel.bytes.len() <= KERNEL_HANDLE && tree.open_kernel_handle(&kernel).is_ok() => {
            HandleSource::Kernel
        }
        _ => HandleSource::Table,
    }
}

fn features(tree: &dyn Tree, mode: FolderMode) -> Features {
    let mut features = Features::LINKS
        | Features::SYMBOLIC_LINKS
        | Features::ALLOCATE
        | Features::DEALLOCATE
        | Features::SEEK
        | Features::COPY
        | Features::TIME_CREATE
        | Features::PERSISTENT_HANDLES;
    features.set(Features::CALLER_IDENTITY | Features::DEVICES, tree.acts_for_others());
    features.set(Features::READ_ONLY, mode == FolderMode::ReadOnly);
    features
}

fn limits_of(max_name: u32) -> Limits {
    Limits {
        depth: DEPTH,
        max_read: TRANSFER,
        max_write: TRANSFER,
        max_name,
        max_link_text: wire::saturate(LINK_BYTES),
        max_links: LINKS,
        max_file_size: i64::MAX.unsigned_abs(),
        time_delta: Time { seconds: 0, nanos: 1 },
    }
}

impl FileSystem for Folder {
    fn identity(&self) -> Identity {
        Identity { place: self.shared.tree.place(), fsid: self.shared.fsid }
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn features(&self) -> Features {
        self.shared.features
    }

    fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    fn root(&self) -> FileHandle {
        self.shared.root()
    }

    fn last_error(&self) -> Option<String> {
        self.shared.last_error()
    }

    fn open_queue(&self, context: &QueueContext) -> Result<Box<dyn FileSystemQueue>, OpenError> {
        let ring = self.shared.tree.open_queue(context.waker.clone());
        let jobs = EndedJobs::new(context.waker.clone());
        Ok(Box::new(FolderQueue::new(Arc::clone(&self.shared), ring, jobs)))
    }
}
