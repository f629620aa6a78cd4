//! Shares: folders that are opened as file systems, and what NFS shows of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use backends::{Folder, FolderMode};
use engine::{NfsPortal, ServedFiles};
use filesystem::FileSystem;
use host::VolumeState;
use nfs::server::exports::{
    ANONYMOUS, ClientRule, Export, ExportError, Exports, FileSystemId, Grant, Squash, Writes,
};
use protocol::Entropy;
use reactor::SystemTree;
use volume::VolumeId;

use crate::config::{self, ShareEntry};
use crate::nfs_state::NfsState;

/// A share that is open.
#[derive(Debug, Clone)]
pub(crate) struct OpenedShare {
    pub(crate) id: VolumeId,
    pub(crate) entry: ShareEntry,
    pub(crate) filesystem: Arc<dyn FileSystem>,
    pub(crate) state: VolumeState,
}

/// All that decides what is shown of a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareDescription {
    id: VolumeId,
    entry: ShareEntry,
}

impl OpenedShare {
    /// Opens a folder. May block.
    pub(crate) fn open(
        entry: &ShareEntry,
        id: VolumeId,
        state: VolumeState,
        entropy: &mut dyn Entropy,
    ) -> Result<Self> {
        let ShareEntry { name, url, .. } = entry;
        let about = || format!("the share {name:?} cannot be opened: {url}");
        let tree = SystemTree::open(Path::new(&url.path)).with_context(about)?;
        let mode = if url.read_only { FolderMode::ReadOnly } else { FolderMode::ReadWrite };
        let opened = Folder::open(Arc::new(tree), mode, &state, entropy);
        match opened {
            Ok(folder) => Ok(Self { id, entry: entry.clone(), filesystem: Arc::new(folder), state }),
            Err(error) => {
                state.release();
                Err(anyhow!("{error}")).with_context(about)
            }
        }
    }

    /// The same share under another entry of its name.
    pub(crate) fn moved(&self, entry: &ShareEntry) -> Self {
        Self { entry: entry.clone(), ..self.clone() }
    }

    pub(crate) fn describe(&self) -> ShareDescription {
        ShareDescription { id: self.id, entry: self.entry.clone() }
    }

    /// What the engine serves.
    pub(crate) fn served(&self) -> ServedFiles {
        let (id, name) = (self.id, self.entry.name.as_str().into());
        ServedFiles { id, name, filesystem: Arc::clone(&self.filesystem) }
    }

    fn export(&self) -> Export {
        let Self { id, entry, filesystem, .. } = self;
        Export {
            // By its name, so that handles outlive a restart with other shares.
            id: wire::crc32c(entry.name.as_bytes()),
            path: vec![entry.name.as_bytes().to_vec()],
            filesystem: FileSystemId(
                u32::from(id.generation()) << u16::BITS | wire::saturate::<u32>(id.slot()),
            ),
            root: filesystem.root(),
            limits: filesystem.limits(),
            features: filesystem.features(),
            rules: rules(entry),
        }
    }
}

/// Who may do what.
fn rules(entry: &ShareEntry) -> Vec<ClientRule> {
    let writes = if entry.url.read_only { Writes::Refused } else { Writes::Allowed };
    let grant = Grant {
        squash: match entry.squash {
            config::Squash::None => Squash::Nobody,
            config::Squash::Root => Squash::Root,
            config::Squash::All => Squash::All,
        },
        anonymous_uid: entry.anonymous_uid.unwrap_or(ANONYMOUS),
        anonymous_gid: entry.anonymous_gid.unwrap_or(ANONYMOUS),
        ..Grant::new(writes)
    };
    if entry.clients.is_empty() {
        return vec![ClientRule::everybody(grant)];
    }
    let rule = |network: &names::Network| ClientRule {
        network: Some(network.address.to_canonical()),
        prefix: network.prefix,
        grant: Some(grant),
    };
    entry.clients.iter().map(rule).collect()
}

/// What is behind a portal for NFS.
pub(crate) fn portal(shares: &[OpenedShare], nfs: &NfsState) -> Result<NfsPortal> {
    let exports = Exports::new(shares.iter().map(OpenedShare::export).collect(), nfs.since);
    let exports = match exports {
        Ok(exports) => exports,
        Err(ExportError::SameId) => {
            bail!("the names of two shares have the same checksum: give one of them another name")
        }
        Err(ExportError::Nested | ExportError::BadPath) => {
            bail!("the names of the shares do not go together")
        }
    };
    Ok(NfsPortal { exports: Arc::new(exports), identity: nfs.identity.clone() })
}
