//! A folder of a system that lacks something: the right to open kernel handles and to act for others, or a medium that takes what is written.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use buf::BufList;
use host::{
    Actor, DataAccess, DataPlace, Glance, IoError, KernelHandle, Named, NewNode, NewTime, NodeEntry,
    NodeStat, NodeTime, RangeChange, Right, Tree, TreeQueue, TreeSpace, WriteSync,
};
use reactor::SystemTree;
use rustix::time::{ClockId, clock_gettime};

/// `EPERM`.
const NOT_PERMITTED: IoError = IoError(1);
/// `EIO`.
const MEDIUM: IoError = IoError(5);

#[derive(Debug)]
pub(crate) struct PoorTree {
    pub(crate) inner: SystemTree,
    /// Whether kernel handles may be opened, and others acted for.
    pub(crate) is_root: bool,
    /// Reads and writes that were done on threads.
    pub(crate) blocking: AtomicU32,
    /// Flushes that will fail.
    pub(crate) failing_flushes: AtomicU32,
    /// Looks without opening.
    pub(crate) glances: AtomicU32,
    /// A renaming that will come between the two parts of such a look.
    pub(crate) rename_between: Mutex<Option<[PathBuf; 2]>>,
}

impl PoorTree {
    pub(crate) fn new(inner: SystemTree, is_root: bool) -> Self {
        Self {
            inner,
            is_root,
            blocking: AtomicU32::new(0),
            failing_flushes: AtomicU32::new(0),
            glances: AtomicU32::new(0),
            rename_between: Mutex::default(),
        }
    }
}

/// What is the inner folder's to do.
macro_rules! passed_on {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $type)*) -> $result {
            self.inner.$name($($argument),*)
        })*
    };
}

impl Tree for PoorTree {
    passed_on! {
        fn place(&self) -> String;
        fn root(&self) -> Arc<OwnedFd>;
        fn act_as(&self, actor: Actor<'_>, act: &mut dyn FnMut()) -> Result<(), IoError>;
        fn start(&self, work: Box<dyn FnOnce() + Send>) -> ();
        fn open_queue(&self, waker: Waker) -> Box<dyn TreeQueue>;
        fn find(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, IoError>;
        fn above(&self, directory: &OwnedFd) -> Result<OwnedFd, IoError>;
        fn stat(&self, node: &OwnedFd) -> Result<NodeStat, IoError>;
        fn kernel_handle(&self, node: &OwnedFd) -> Result<KernelHandle, IoError>;
        fn open_data(&self, node: &OwnedFd, access: DataAccess) -> Result<OwnedFd, IoError>;
        fn open_directory(&self, node: &OwnedFd) -> Result<OwnedFd, IoError>;
        fn list(&self, directory: &OwnedFd, position: u64, most: usize) -> Result<Vec<NodeEntry>, IoError>;
        fn read_link(&self, node: &OwnedFd) -> Result<Vec<u8>, IoError>;
        fn has_right(&self, node: &OwnedFd, right: Right) -> Result<bool, IoError>;
        fn create(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, IoError>;
        fn make(&self, directory: &OwnedFd, name: &[u8], what: NewNode<'_>) -> Result<(), IoError>;
        fn remove_file(&self, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError>;
        fn remove_directory(&self, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError>;
        fn rename(&self, from: Named<'_>, to: Named<'_>) -> Result<(), IoError>;
        fn link(&self, node: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError>;
        fn set_mode(&self, node: &OwnedFd, mode: u32) -> Result<(), IoError>;
        fn set_owner(&self, node: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> Result<(), IoError>;
        fn set_times(&self, node: &OwnedFd, access: NewTime, modify: NewTime) -> Result<(), IoError>;
        fn set_size(&self, data: &OwnedFd, size: u64) -> Result<(), IoError>;
        fn seek_data(&self, data: &OwnedFd, offset: u64) -> Result<u64, IoError>;
        fn seek_hole(&self, data: &OwnedFd, offset: u64) -> Result<u64, IoError>;
        fn change_range(&self, data: &OwnedFd, offset: u64, count: u64, change: RangeChange) -> Result<(), IoError>;
        fn copy(&self, from: DataPlace<'_>, to: DataPlace<'_>, count: u64) -> Result<u64, IoError>;
        fn sync(&self, open: &OwnedFd) -> Result<(), IoError>;
        fn sync_everything(&self) -> Result<(), IoError>;
        fn space(&self) -> Result<TreeSpace, IoError>;
    }

    fn acts_for_others(&self) -> bool {
        self.is_root && self.inner.acts_for_others()
    }

    fn glance(&self, directory: &OwnedFd, name: &[u8]) -> Result<Glance, IoError> {
        self.glances.fetch_add(1, Ordering::SeqCst);
        let seen = self.inner.glance(directory, name)?;
        let Some([from, to]) = self.rename_between.lock().unwrap().take() else { return Ok(seen) };
        std::fs::rename(from, to).unwrap();
        Ok(Glance { stat: seen.stat, handle: self.inner.glance(directory, name)?.handle })
    }

    /// As if of a file system that sets times as those do that are known to, whatever the tests have: files of this machine all do.
    fn stamp(&self) -> Option<NodeTime> {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Some(NodeTime { seconds: now.tv_sec, nanos: u32::try_from(now.tv_nsec).unwrap() })
    }

    fn open_kernel_handle(&self, handle: &KernelHandle) -> Result<OwnedFd, IoError> {
        if self.is_root { self.inner.open_kernel_handle(handle) } else { Err(NOT_PERMITTED) }
    }

    fn read(&self, data: &OwnedFd, offset: u64, into: &mut [u8]) -> Result<usize, IoError> {
        self.blocking.fetch_add(1, Ordering::SeqCst);
        self.inner.read(data, offset, into)
    }

    fn write(&self, data: &OwnedFd, offset: u64, from: &BufList, sync: WriteSync) -> Result<(), IoError> {
        self.blocking.fetch_add(1, Ordering::SeqCst);
        self.inner.write(data, offset, from, sync)
    }

    fn sync_data(&self, open: &OwnedFd) -> Result<(), IoError> {
        let fails =
            self.failing_flushes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fails.is_ok() { Err(MEDIUM) } else { self.inner.sync_data(open) }
    }
}
