//! All objects of the file system in memory, how they are named, and what they take.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::{Entropy, SeededEntropy};

use super::inode::{Directory, Inode, Node};
use super::options::MemoryOptions;
use crate::limits::{INODE_BYTES, OPENS};
use crate::{
    Access, Attributes, Credentials, FileErrorKind, FileHandle, Fsid, Object, OpenAccess, OpenId, Statistics,
    Target, Time, WriteVerifier, permitted,
};

/// Who asks, and when.
pub(super) struct Call<'a> {
    pub(super) caller: &'a Credentials,
    pub(super) now: Time,
}

/// An object that is open.
#[derive(Debug, Clone, Copy)]
struct Opened {
    fileid: u64,
    access: OpenAccess,
}

/// The number of the root directory.
pub(super) const ROOT: u64 = 1;

/// Everything.
#[derive(Debug)]
pub(super) struct State {
    options: MemoryOptions,
    entropy: SeededEntropy,
    inodes: BTreeMap<u64, Inode>,
    opens: BTreeMap<OpenId, Opened>,
    last_open: u64,
    last_fileid: u64,
    /// Bytes that all objects take.
    used: u64,
    pub(super) verifier: WriteVerifier,
    pub(super) statistics: Statistics,
}

/// Everything, for one operation.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle: the number and the secret.
fn handle(fileid: u64, secret: u64) -> FileHandle {
    let mut bytes = [0; 16];
    let (number, rest) = bytes.split_at_mut(8);
    number.copy_from_slice(&fileid.to_be_bytes());
    rest.copy_from_slice(&secret.to_be_bytes());
    FileHandle::from(bytes)
}

impl State {
    /// With a root that has these attributes.
    pub(super) fn new(options: MemoryOptions) -> Self {
        let mut entropy = SeededEntropy::new(options.seed);
        let verifier = WriteVerifier(entropy.number().to_be_bytes());
        let mut state = Self {
            options,
            entropy,
            inodes: BTreeMap::new(),
            opens: BTreeMap::new(),
            last_open: 0,
            last_fileid: ROOT - 1,
            used: 0,
            verifier,
            statistics: Statistics::default(),
        };
        let caller = Credentials::of(options.root_owner, options.root_group);
        let call = Call { caller: &caller, now: options.start };
        state.add(Node::Directory(Directory::new(ROOT)), options.root_mode, &call);
        if let Some(root) = state.inodes.get_mut(&ROOT) {
            root.links = 1;
        }
        state
    }

    pub(super) fn fsid(&self) -> Fsid {
        Fsid { major: self.options.seed, minor: 0 }
    }

    pub(super) fn options(&self) -> &MemoryOptions {
        &self.options
    }

    /// Bytes that nothing takes yet.
    pub(super) fn free(&self) -> u64 {
        self.options.bytes.saturating_sub(self.used)
    }

    /// Objects that can still be made.
    pub(super) fn free_inodes(&self) -> u64 {
        self.options.inodes.saturating_sub(self.inodes.len() as u64)
    }

    /// Says whether `bytes` more may be taken.
    pub(super) fn afford(&self, bytes: u64) -> Result<(), FileErrorKind> {
        if bytes <= self.free() { Ok(()) } else { Err(FileErrorKind::NoSpace) }
    }

    /// Says whether one more object may be made that takes `bytes` beside its record.
    pub(super) fn afford_inode(&self, bytes: u64) -> Result<(), FileErrorKind> {
        self.afford(bytes.saturating_add(INODE_BYTES))?;
        if self.free_inodes() > 0 { Ok(()) } else { Err(FileErrorKind::NoSpace) }
    }

    /// Adds an object without names, which was afforded.
    pub(super) fn add(&mut self, node: Node, mode: u32, call: &Call<'_>) -> u64 {
        self.last_fileid += 1;
        let inode = Inode {
            secret: self.entropy.number(),
            node,
            mode,
            owner: call.caller.uid(),
            owner_group: call.caller.gid(),
            links: 0,
            opens: 0,
            change: 1,
            time_access: call.now,
            time_modify: call.now,
            time_metadata: call.now,
            time_create: call.now,
            verifier: None,
        };
        self.used += INODE_BYTES + inode.held();
        self.inodes.insert(self.last_fileid, inode);
        self.last_fileid
    }

    /// The number of the object of that handle.
    pub(super) fn resolve(&self, wanted: &FileHandle) -> Result<u64, FileErrorKind> {
        let bytes = <[u8; 16]>::try_from(wanted.as_bytes()).map_err(|_| FileErrorKind::BadHandle)?;
        let fileid = u64::from_be_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
        match self.inodes.get(&fileid) {
            Some(inode) if handle(fileid, inode.secret) == *wanted => Ok(fileid),
            None if (ROOT..=self.last_fileid).contains(&fileid) => Err(FileErrorKind::Stale),
            _ => Err(FileErrorKind::BadHandle),
        }
    }

    /// An object that is there.
    pub(super) fn inode(&self, fileid: u64) -> Result<&Inode, FileErrorKind> {
        self.inodes.get(&fileid).ok_or(FileErrorKind::Stale)
    }

    /// Changes an object, and counts what it takes from then on.
    pub(super) fn change<R>(
        &mut self,
        fileid: u64,
        act: impl FnOnce(&mut Inode) -> Result<R, FileErrorKind>,
    ) -> Result<R, FileErrorKind> {
        let inode = self.inodes.get_mut(&fileid).ok_or(FileErrorKind::Stale)?;
        let before = inode.held();
        let result = act(inode);
        self.used = (self.used + inode.held()).saturating_sub(before);
        result
    }

    pub(super) fn handle_of(&self, fileid: u64) -> Result<FileHandle, FileErrorKind> {
        self.inode(fileid).map(|inode| handle(fileid, inode.secret))
    }

    pub(super) fn attributes(&self, fileid: u64) -> Result<Attributes, FileErrorKind> {
        self.inode(fileid).map(|inode| inode.attributes(fileid, self.fsid()))
    }

    pub(super) fn object(&self, fileid: u64) -> Result<Object, FileErrorKind> {
        Ok(Object { handle: self.handle_of(fileid)?, attributes: self.attributes(fileid)? })
    }

    pub(super) fn rights(&self, fileid: u64, caller: &Credentials) -> Result<Access, FileErrorKind> {
        Ok(permitted(&self.attributes(fileid)?, caller))
    }

    /// Says whether the caller has all of these rights.
    pub(super) fn demand(
        &self,
        fileid: u64,
        caller: &Credentials,
        rights: Access,
    ) -> Result<(), FileErrorKind> {
        if self.rights(fileid, caller)?.contains(rights) { Ok(()) } else { Err(FileErrorKind::Access) }
    }

    /// The directory of that handle, if the caller may do that with it.
    pub(super) fn directory(
        &self,
        wanted: &FileHandle,
        caller: &Credentials,
        rights: Access,
    ) -> Result<u64, FileErrorKind> {
        let fileid = self.resolve(wanted)?;
        self.inode(fileid)?.directory()?;
        self.demand(fileid, caller, rights)?;
        Ok(fileid)
    }

    /// The object of a target, which is a regular file, if the caller may read or write it. The owner always may, as a client that opened a file for writing may
    /// close it to everybody, and whoever may execute a file may read it (RFC 1813 §4.4).
    pub(super) fn data_of(
        &self,
        target: &Target,
        caller: &Credentials,
        access: OpenAccess,
    ) -> Result<u64, FileErrorKind> {
        let fileid = self.resolve(&target.file)?;
        let inode = self.inode(fileid)?;
        inode.content()?;
        if let Some(open) = target.open {
            let opened = self.opens.get(&open).filter(|opened| opened.fileid == fileid);
            let opened = opened.ok_or(FileErrorKind::Stale)?;
            let allowed = opened.access.contains(access);
            return if allowed { Ok(fileid) } else { Err(FileErrorKind::Access) };
        }
        let rights = self.rights(fileid, caller)?;
        let reads = rights.intersects(Access::READ | Access::EXECUTE) || !access.contains(OpenAccess::READ);
        let writes = rights.contains(Access::MODIFY) || !access.contains(OpenAccess::WRITE);
        let allowed = caller.uid() == inode.owner || (reads && writes);
        if allowed { Ok(fileid) } else { Err(FileErrorKind::Access) }
    }

    /// Opens an object.
    pub(super) fn open(&mut self, fileid: u64, access: OpenAccess) -> Result<OpenId, FileErrorKind> {
        if self.opens.len() >= OPENS {
            return Err(FileErrorKind::Delay);
        }
        self.change(fileid, |inode| {
            inode.opens += 1;
            Ok(())
        })?;
        self.last_open += 1;
        let open = OpenId(self.last_open);
        self.opens.insert(open, Opened { fileid, access });
        self.statistics.open += 1;
        Ok(open)
    }

    /// Closes what was opened; an object without names ends with its last.
    pub(super) fn close(&mut self, open: OpenId) -> Result<(), FileErrorKind> {
        let opened = self.opens.remove(&open).ok_or(FileErrorKind::Stale)?;
        self.statistics.open -= 1;
        self.change(opened.fileid, |inode| {
            inode.opens = inode.opens.saturating_sub(1);
            Ok(())
        })?;
        self.release(opened.fileid);
        Ok(())
    }

    /// Ends an object that has no names and is not open.
    pub(super) fn release(&mut self, fileid: u64) {
        let ends = self.inodes.get(&fileid).is_some_and(|inode| inode.links == 0 && inode.opens == 0);
        if ends && let Some(inode) = self.inodes.remove(&fileid) {
            self.used = self.used.saturating_sub(INODE_BYTES + inode.held());
        }
    }

    /// The machine loses its power: what is not durable is lost or not, everything is closed, and the verifier moves.
    pub(super) fn crash(&mut self, entropy: &mut dyn Entropy) {
        self.opens.clear();
        self.statistics.open = 0;
        let all: Vec<u64> = self.inodes.keys().copied().collect();
        for fileid in all {
            // It is there.
            let _ = self.change(fileid, |inode| {
                inode.opens = 0;
                if let Node::File(content) = &mut inode.node
                    && content.crash(entropy)
                {
                    inode.change += 1;
                }
                Ok(())
            });
            self.release(fileid);
        }
        self.verifier = WriteVerifier(self.entropy.number().to_be_bytes());
    }
}
