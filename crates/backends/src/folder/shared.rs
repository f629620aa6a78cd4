//! What all queues of a served folder share: the folder, its handles, what is open, and the write verifier.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filesystem::{
    Attributes, Credentials, DirectoryChange, Features, FileErrorKind, FileHandle, Fsid, Limits, Object,
    OpenAccess, OpenId, PreOperation, Statistics, Target, WriteVerifier,
};
use host::{DataAccess, IoError, NodeKind, NodeStat, Right, Tree};

use super::change::Changes;
use super::convert::{actor, attributes, must_be_file};
use super::error::{BAD_DESCRIPTOR, kind_of};
use super::handles::{Found, Handles};
use super::limits::{DEPTH_OF_DIRECTORIES, DIRECTORIES, OPENS, WRITTEN_FILES};

/// An object that was found, and what was known of it then.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) descriptor: Arc<OwnedFd>,
    pub(super) handle: FileHandle,
    pub(super) stat: NodeStat,
}

/// A file's flushes, one at a time: they have a description of their own, which the kernel tells of every failure to write back since before the first write.
#[derive(Debug)]
pub(super) struct Flushes {
    descriptor: Arc<OwnedFd>,
    turn: Mutex<()>,
}

/// A file that is open for its data.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) descriptor: Arc<OwnedFd>,
    pub(super) access: OpenAccess,
    /// Its flushes, if it is open for writing.
    pub(super) flushes: Option<Arc<Flushes>>,
}

impl Data {
    /// True if the kernel tells either a write or a flush of a failure to write back, not both.
    pub(super) fn flushes_share(&self) -> bool {
        self.flushes.as_ref().is_some_and(|flushes| Arc::ptr_eq(&flushes.descriptor, &self.descriptor))
    }
}

/// What a client has opened.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) handle: FileHandle,
    pub(super) data: Data,
}

#[derive(Debug, Default)]
struct Opens {
    by_id: HashMap<OpenId, Opened>,
    /// Descriptors of what is open, which may have no name any more, and how often it is.
    by_handle: HashMap<FileHandle, Held>,
    last: u64,
}

#[derive(Debug)]
struct Held {
    descriptor: Arc<OwnedFd>,
    times: u32,
}

/// Counts that any thread moves.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
}

pub(super) struct Shared {
    pub(super) tree: Arc<dyn Tree>,
    pub(super) handles: Handles,
    pub(super) fsid: Fsid,
    pub(super) limits: Limits,
    pub(super) features: Features,
    pub(super) changes: Changes,
    pub(super) counters: Counters,
    root: FileHandle,
    root_stat: NodeStat,
    /// Where the verifier begins in this process.
    verifier: u64,
    /// Times that something was not written back.
    losses: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// Moves when a core may have to judge anew what it remembers.
    generation: AtomicU64,
    opens: Mutex<Opens>,
    /// Directories that were used lately, each open for reading: neither found anew nor opened anew to be made durable.
    directories: Mutex<HashMap<FileHandle, Arc<OwnedFd>>>,
    written: Mutex<HashMap<FileHandle, Arc<Flushes>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a served folder begins with.
pub(super) struct Beginning {
    pub(super) tree: Arc<dyn Tree>,
    pub(super) handles: Handles,
    pub(super) fsid: Fsid,
    pub(super) limits: Limits,
    pub(super) features: Features,
    pub(super) verifier: u64,
}

impl Shared {
    pub(super) fn new(beginning: Beginning) -> Result<Self, FileErrorKind> {
        let Beginning { tree, handles, fsid, limits, features, verifier } = beginning;
        let root = tree.root();
        let root_stat = tree.stat(&root).map_err(kind_of)?;
        let handle = handles.of(&root, &root_stat, None)?;
        Ok(Self {
            tree,
            handles,
            fsid,
            limits,
            features,
            changes: Changes::default(),
            counters: Counters::default(),
            root: handle,
            root_stat,
            verifier,
            losses: AtomicU64::new(0),
            last_error: Mutex::default(),
            generation: AtomicU64::new(0),
            opens: Mutex::default(),
            directories: Mutex::default(),
            written: Mutex::default(),
        })
    }

    pub(super) fn root(&self) -> FileHandle {
        self.root
    }

    pub(super) fn statistics(&self) -> Statistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            requests: count(&self.counters.requests),
            failed: count(&self.counters.failed),
            bytes_read: count(&self.counters.bytes_read),
            bytes_written: count(&self.counters.bytes_written),
            open: lock(&self.opens).by_id.len() as u64,
        }
    }

    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// The write verifier.
    pub(super) fn verifier(&self) -> WriteVerifier {
        let losses = self.losses.load(Ordering::SeqCst);
        WriteVerifier(self.verifier.wrapping_add(losses).to_be_bytes())
    }

    /// Something may not be written back that clients believe to be on its way: the verifier moves, before anybody is answered.
    pub(super) fn lost(&self, error: IoError) {
        self.losses.fetch_add(1, Ordering::SeqCst);
        let place = self.tree.place();
        *lock(&self.last_error) = Some(format!(
            "{place}: data was not written back: {error}; clients write again what they still have"
        ));
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Has all cores judge anew who may read and write what.
    pub(super) fn judge_anew(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Does something in the caller's name, where that can be.
    pub(super) fn as_caller<R>(
        &self,
        caller: &Credentials,
        act: impl FnOnce(&dyn Tree) -> R,
    ) -> Result<R, FileErrorKind> {
        let is_server = caller.uid() == 0 && caller.gid() == 0;
        if is_server || !self.tree.acts_for_others() {
            return Ok(act(&*self.tree));
        }
        let (mut act, mut result) = (Some(act), None);
        let acted = self.tree.act_as(actor(caller), &mut || {
            if let Some(act) = act.take() {
                result = Some(act(&*self.tree));
            }
        });
        acted.map_err(kind_of)?;
        result.ok_or(FileErrorKind::ServerFault)
    }

    /// As [`Shared::as_caller`], of something that can fail.
    pub(super) fn try_as_caller<R>(
        &self,
        caller: &Credentials,
        act: impl FnOnce(&dyn Tree) -> Result<R, IoError>,
    ) -> Result<R, FileErrorKind> {
        self.as_caller(caller, act)?.map_err(kind_of)
    }

    /// An object that is open, as whatever, and where it was found.
    pub(super) fn node(&self, descriptor: OwnedFd, found: Option<Found<'_>>) -> Result<Node, FileErrorKind> {
        let stat = self.tree.stat(&descriptor).map_err(kind_of)?;
        self.must_be_here(&stat)?;
        let handle = self.handles.of(&descriptor, &stat, found)?;
        Ok(Node { descriptor: Arc::new(descriptor), handle, stat })
    }

    /// A subvolume is another file system without being mounted. (A file may have another device where layers are laid over each other.)
    pub(super) fn must_be_here(&self, stat: &NodeStat) -> Result<(), FileErrorKind> {
        let is_here = stat.kind != NodeKind::Directory || stat.device == self.root_stat.device;
        if is_here { Ok(()) } else { Err(FileErrorKind::Access) }
    }

    /// The object of a handle that was given out: it must still be there, and, as a directory, in the folder.
    pub(super) fn resolve(&self, handle: &FileHandle) -> Result<Node, FileErrorKind> {
        let held = lock(&self.opens).by_handle.get(handle).map(|held| Arc::clone(&held.descriptor));
        let is_open = held.is_some();
        let used = || lock(&self.directories).get(handle).map(Arc::clone);
        // Whoever has the very bytes of a handle that was found before has one that was given out.
        let descriptor = if let Some(descriptor) = held.or_else(used) {
            descriptor
        } else {
            self.handles.check(handle)?;
            if *handle == self.root { self.tree.root() } else { Arc::new(self.handles.find(handle)?) }
        };
        let stat = self.tree.stat(&descriptor).map_err(kind_of)?;
        let is_gone = stat.links == 0 && !is_open;
        if is_gone || (stat.kind == NodeKind::Directory && !self.is_beneath(&descriptor, &stat)?) {
            lock(&self.directories).remove(handle);
            return Err(FileErrorKind::Stale);
        }
        let descriptor = if stat.kind == NodeKind::Directory {
            self.keep_directory(handle, descriptor)
        } else {
            descriptor
        };
        Ok(Node { descriptor, handle: *handle, stat })
    }

    /// Keeps a directory open that is used: its descriptor for reading, where that may be had.
    fn keep_directory(&self, handle: &FileHandle, descriptor: Arc<OwnedFd>) -> Arc<OwnedFd> {
        if *handle == self.root || lock(&self.directories).contains_key(handle) {
            return descriptor;
        }
        let Ok(open) = self.tree.open_directory(&descriptor) else { return descriptor };
        let open = Arc::new(open);
        let forgotten = {
            let mut directories = lock(&self.directories);
            let full = directories.len() >= DIRECTORIES;
            let all = if full { std::mem::take(&mut *directories) } else { HashMap::new() };
            directories.insert(*handle, Arc::clone(&open));
            all
        };
        drop(forgotten);
        open
    }

    /// A directory may be gone: it is found anew, or not.
    pub(super) fn close_directory(&self, handle: &FileHandle) {
        let closed = lock(&self.directories).remove(handle);
        drop(closed);
    }

    /// The directory of a handle.
    pub(super) fn directory(&self, handle: &FileHandle) -> Result<Node, FileErrorKind> {
        let node = self.resolve(handle)?;
        if node.stat.kind == NodeKind::Directory { Ok(node) } else { Err(FileErrorKind::NotDirectory) }
    }

    pub(super) fn is_root(&self, stat: &NodeStat) -> bool {
        stat.inode == self.root_stat.inode && stat.device == self.root_stat.device
    }

    /// True if a directory is the folder's root or lies beneath it, now.
    pub(super) fn is_beneath(&self, directory: &OwnedFd, stat: &NodeStat) -> Result<bool, FileErrorKind> {
        let mut now = *stat;
        let mut above: Option<OwnedFd> = None;
        for _ in 0..DEPTH_OF_DIRECTORIES {
            if self.is_root(&now) {
                return Ok(true);
            }
            let next = self.tree.above(above.as_ref().unwrap_or(directory)).map_err(kind_of)?;
            let stat = self.tree.stat(&next).map_err(kind_of)?;
            if (stat.inode, stat.device) == (now.inode, now.device) {
                return Ok(false);
            }
            (now, above) = (stat, Some(next));
        }
        Ok(false)
    }

    pub(super) fn attributes(&self, stat: &NodeStat) -> Attributes {
        attributes(stat, self.fsid, self.changes.of(stat.inode, stat.changed))
    }

    pub(super) fn object(&self, node: &Node) -> Object {
        Object { handle: node.handle, attributes: self.attributes(&node.stat) }
    }

    pub(super) fn before(&self, node: &Node) -> PreOperation {
        PreOperation::from(&self.attributes(&node.stat))
    }

    /// The attributes of an object that has changed since it had `before`.
    pub(super) fn changed(&self, node: &Node, before: &PreOperation) -> Result<Attributes, FileErrorKind> {
        let stat = self.tree.stat(&node.descriptor).map_err(kind_of)?;
        let change = self.changes.after(stat.inode, before.change, stat.changed);
        Ok(attributes(&stat, self.fsid, change))
    }

    /// As [`Shared::directory_changed`], of an operation that left the directory as it was.
    pub(super) fn directory_kept(
        &self,
        node: &Node,
        before: PreOperation,
    ) -> Result<DirectoryChange, FileErrorKind> {
        let stat = self.tree.stat(&node.descriptor).map_err(kind_of)?;
        Ok(DirectoryChange { atomic: false, before, after: self.attributes(&stat) })
    }

    /// A directory's change. Local processes may have changed it in between.
    pub(super) fn directory_changed(
        &self,
        node: &Node,
        before: PreOperation,
    ) -> Result<DirectoryChange, FileErrorKind> {
        Ok(DirectoryChange { atomic: false, before, after: self.changed(node, &before)? })
    }

    /// Makes durable what handles need that are about to be given out.
    pub(super) fn settle(&self) -> Result<(), FileErrorKind> {
        self.handles.settle().map_err(|error| {
            *lock(&self.last_error) = Some(error.to_string());
            FileErrorKind::ServerFault
        })
    }

    /// Makes an object's names or attributes durable.
    pub(super) fn sync(&self, node: &Node) -> Result<(), FileErrorKind> {
        match self.tree.sync(&node.descriptor) {
            Err(IoError(BAD_DESCRIPTOR)) => {}
            other => return other.map_err(kind_of),
        }
        let opened = match node.stat.kind {
            NodeKind::Directory => self.tree.open_directory(&node.descriptor),
            NodeKind::File => self.tree.open_data(&node.descriptor, DataAccess::Read),
            // Opening others waits for peers, or does something to devices.
            _ => return self.tree.sync_everything().map_err(kind_of),
        };
        match opened {
            Ok(open) => self.tree.sync(&open),
            // A user that is not root may change what it may not read.
            Err(_) => self.tree.sync_everything(),
        }
        .map_err(kind_of)
    }

    /// Opens a regular file for its data as the caller may. The owner always may, and whoever may execute it may read it.
    pub(super) fn open_data(
        &self,
        node: &Node,
        caller: &Credentials,
        access: OpenAccess,
    ) -> Result<Data, FileErrorKind> {
        must_be_file(node.stat.kind)?;
        let wanted = if access.contains(OpenAccess::BOTH) {
            DataAccess::ReadWrite
        } else if access.contains(OpenAccess::WRITE) {
            DataAccess::Write
        } else {
            DataAccess::Read
        };
        let file = &node.descriptor;
        let opened = match self.try_as_caller(caller, |tree| tree.open_data(file, wanted)) {
            Err(FileErrorKind::Access) if self.overrides(node, caller, access)? => {
                self.tree.open_data(file, wanted).map_err(kind_of)?
            }
            other => other?,
        };
        let descriptor = Arc::new(opened);
        let writes = access.contains(OpenAccess::WRITE);
        let flushes = writes.then(|| self.flushes(node, &descriptor));
        Ok(Data { descriptor, access, flushes })
    }

    /// True if the caller may, although the permission bits say no.
    fn overrides(
        &self,
        node: &Node,
        caller: &Credentials,
        access: OpenAccess,
    ) -> Result<bool, FileErrorKind> {
        if caller.uid() == node.stat.uid {
            return Ok(true);
        }
        let file = &node.descriptor;
        let executes = self.try_as_caller(caller, |tree| tree.has_right(file, Right::Execute))?;
        Ok(executes && access == OpenAccess::READ)
    }

    /// A file's flushes, which are there from before its first write on.
    pub(super) fn flushes(&self, node: &Node, data: &Arc<OwnedFd>) -> Arc<Flushes> {
        let mut written = lock(&self.written);
        if let Some(flushes) = written.get(&node.handle) {
            return Arc::clone(flushes);
        }
        if written.len() >= WRITTEN_FILES {
            self.let_go(&mut written);
        }
        // A server that is not root may not open everything that its user may write; durable writes that fail then tell of it, too.
        let opened = self.tree.open_data(&node.descriptor, DataAccess::Read);
        let descriptor = opened.map_or_else(|_| Arc::clone(data), Arc::new);
        let flushes = Arc::new(Flushes { descriptor, turn: Mutex::default() });
        written.insert(node.handle, Arc::clone(&flushes));
        flushes
    }

    /// Flushes and forgets files that nobody has open for writing.
    fn let_go(&self, written: &mut HashMap<FileHandle, Arc<Flushes>>) {
        let idle = written.iter().filter(|(_, flushes)| Arc::strong_count(flushes) == 1);
        let idle: Vec<FileHandle> = idle.map(|(handle, _)| *handle).take(WRITTEN_FILES / 4).collect();
        for handle in idle {
            if let Some(flushes) = written.remove(&handle) {
                // A failure has moved the verifier, which is all that can be done for data that nobody commits now.
                let _ = self.flush(&flushes);
            }
        }
    }

    /// Makes what was written to a file durable. A failure moves the verifier before anybody else's flush of the file begins.
    pub(super) fn flush(&self, flushes: &Flushes) -> Result<(), FileErrorKind> {
        let _turn = lock(&flushes.turn);
        self.tree.sync_data(&flushes.descriptor).map_err(|error| {
            self.lost(error);
            kind_of(error)
        })
    }

    /// Opens for a client.
    pub(super) fn open(&self, node: &Node, data: Data) -> Result<OpenId, FileErrorKind> {
        let mut opens = lock(&self.opens);
        if opens.by_id.len() >= OPENS {
            return Err(FileErrorKind::Delay);
        }
        opens.last += 1;
        let (open, descriptor) = (OpenId(opens.last), &node.descriptor);
        let held = opens.by_handle.entry(node.handle);
        held.or_insert_with(|| Held { descriptor: Arc::clone(descriptor), times: 0 }).times += 1;
        opens.by_id.insert(open, Opened { handle: node.handle, data });
        Ok(open)
    }

    /// What a client has opened.
    pub(super) fn opened(&self, open: OpenId) -> Option<Opened> {
        lock(&self.opens).by_id.get(&open).cloned()
    }

    /// Closes for a client. What has no name any more is gone with its last descriptor.
    pub(super) fn close(&self, open: OpenId) -> Result<(), FileErrorKind> {
        let mut opens = lock(&self.opens);
        let opened = opens.by_id.remove(&open).ok_or(FileErrorKind::Stale)?;
        if let Some(held) = opens.by_handle.get_mut(&opened.handle) {
            held.times -= 1;
            if held.times == 0 {
                opens.by_handle.remove(&opened.handle);
            }
        }
        drop(opens);
        self.judge_anew();
        Ok(())
    }

    /// The data of a target, for this use.
    pub(super) fn data_of(
        &self,
        target: &Target,
        caller: &Credentials,
        access: OpenAccess,
    ) -> Result<(Node, Data), FileErrorKind> {
        let Some(open) = target.open else {
            let node = self.resolve(&target.file)?;
            let data = self.open_data(&node, caller, access)?;
            return Ok((node, data));
        };
        self.handles.check(&target.file)?;
        let opened =
            self.opened(open).filter(|opened| opened.handle == target.file).ok_or(FileErrorKind::Stale)?;
        if !opened.data.access.contains(access) {
            return Err(FileErrorKind::Access);
        }
        Ok((self.resolve(&target.file)?, opened.data))
    }
}
