//! A folder that is served to others: everything beneath it, by descriptors.
//!
//! Names are looked up one by one in directories that are open, with `openat2`, which follows no link and leaves no file system. What is open as `O_PATH` is opened
//! again by `/proc/self/fd`, which leads to the same object whatever its name has become. In another's name means: the calling thread's effective user and
//! group and its groups are changed by the raw system calls, which, unlike the C library's, concern one thread; the kernel then takes its capabilities away.

use std::ffi::CStr;
use std::fmt;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;

use buf::BufList;
use host::{
    Actor, DataAccess, DataPlace, DeviceNumber, Glance, IoError, KernelHandle, Named, NewNode, NewTime,
    NodeEntry, NodeKind, NodeStat, NodeTime, RangeChange, Right, Tree, TreeQueue, TreeSpace, WriteSync,
};
use rustix::fs::{
    Access, AtFlags, FallocateFlags, FileType, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, SeekFrom,
    Statx, StatxAttributes, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::process::{Gid, Uid};
use rustix::time::ClockId;

use crate::file::failure;
use crate::limits::{DIRENT_BYTES, FILE_SLICES, LISTING_BYTES, LONGEST_DIRENT, NAME_BYTES};
use crate::locked_file::{Medium, TMPFS};
use crate::sys;
use crate::threads;
use crate::tree_queue::Queue;

/// A folder of this machine.
pub struct SystemTree {
    path: PathBuf,
    root: Arc<OwnedFd>,
    /// Where the folder is mounted, if the system tells.
    mount: Option<sys::handle::MountId>,
    medium: Medium,
    /// Whether changes of directories have the time of this machine's clock.
    stamps: bool,
    acts_for_others: bool,
}

impl fmt::Debug for SystemTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemTree").field("path", &self.path).finish_non_exhaustive()
    }
}

fn unnumbered(error: &std::io::Error) -> IoError {
    IoError(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Where a descriptor can be opened once more.
fn again(node: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", node.as_raw_fd())
}

/// How names are looked up.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Permission bits of what is made, until its own are set.
const OWNER_ONLY: u32 = 0o600;
const OWNER_ONLY_DIRECTORY: u32 = 0o700;

impl SystemTree {
    /// The folder at `path`, which must be there.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Arc::new(rustix::fs::open(&path, flags, Mode::empty()).map_err(failure)?);
        // Becoming who one is already succeeds for whoever may become somebody else, and needs nothing undone.
        let acts_for_others =
            rustix::process::geteuid().is_root() && rustix::thread::set_thread_groups(&own_groups()?).is_ok();
        let mount = sys::handle::of(root.as_fd(), c"").ok().map(|known| known.mount);
        let stamps = rustix::fs::fstatfs(&root).is_ok_and(|stat| STAMPING.contains(&stat.f_type));
        let medium = Medium::of(&root, false);
        Ok(Self { path, root, mount, medium, stamps, acts_for_others })
    }
}

/// File systems that set a directory's time of change by the clock of this machine's tick, before a change of its names is seen and while they have it locked
/// against listings: tmpfs, ext4, XFS and Btrfs.
const STAMPING: [rustix::fs::FsWord; 4] = [TMPFS, 0xef53, 0x5846_5342, 0x9123_683e];

fn own_groups() -> Result<Vec<Gid>, IoError> {
    rustix::process::getgroups().map_err(failure)
}

fn time(stamp: StatxTimestamp) -> NodeTime {
    NodeTime { seconds: stamp.tv_sec, nanos: stamp.tv_nsec }
}

fn kind(mode: u16) -> NodeKind {
    match FileType::from_raw_mode(mode.into()) {
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => NodeKind::SymbolicLink,
        FileType::BlockDevice => NodeKind::BlockDevice,
        FileType::CharacterDevice => NodeKind::CharacterDevice,
        FileType::Fifo => NodeKind::Fifo,
        FileType::Socket => NodeKind::Socket,
        _ => NodeKind::File,
    }
}

fn node_stat(stat: &Statx) -> NodeStat {
    let mode = Mode::from_raw_mode(stat.stx_mode.into()).as_raw_mode();
    NodeStat {
        kind: kind(stat.stx_mode),
        mode,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        occupied: stat.stx_blocks.saturating_mul(512),
        inode: stat.stx_ino,
        device: DeviceNumber { major: stat.stx_dev_major, minor: stat.stx_dev_minor },
        stands_for: DeviceNumber { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor },
        accessed: time(stat.stx_atime),
        modified: time(stat.stx_mtime),
        changed: time(stat.stx_ctime),
        made: (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(stat.stx_btime)),
    }
}

fn timespec(time: NewTime) -> Timespec {
    match time {
        NewTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        NewTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        NewTime::At(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
    }
}

fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Directory => FileType::Directory,
        NodeKind::SymbolicLink => FileType::Symlink,
        NodeKind::BlockDevice => FileType::BlockDevice,
        NodeKind::CharacterDevice => FileType::CharacterDevice,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
    }
}

/// What a thread is, and becomes again. If it cannot, nothing more may happen on it: the process ends.
struct Becoming {
    groups: Vec<Gid>,
}

impl Becoming {
    fn begin(actor: Actor<'_>) -> Result<Self, IoError> {
        // To the system, -1 means "as it is": whoever came with that number would be root.
        let nobody = u32::MAX;
        if actor.uid == nobody || actor.gid == nobody || actor.groups.contains(&nobody) {
            return Err(failure(Errno::ACCESS));
        }
        let own = Self { groups: own_groups()? };
        let groups: Vec<Gid> = actor.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        rustix::thread::set_thread_groups(&groups).map_err(failure)?;
        // From here on the guard undoes whatever was done.
        rustix::thread::set_thread_res_gid(None, Gid::from_raw(actor.gid), None).map_err(failure)?;
        // The user comes last: whoever is not root any more may change nothing.
        rustix::thread::set_thread_res_uid(None, Uid::from_raw(actor.uid), None).map_err(failure)?;
        Ok(own)
    }
}

impl Drop for Becoming {
    fn drop(&mut self) {
        let back = rustix::thread::set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| rustix::thread::set_thread_res_gid(None, rustix::process::getgid(), None))
            .and_then(|()| rustix::thread::set_thread_groups(&self.groups));
        if back.is_err() {
            std::process::abort();
        }
    }
}

impl Tree for SystemTree {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root)
    }

    fn acts_for_others(&self) -> bool {
        self.acts_for_others
    }

    fn act_as(&self, actor: Actor<'_>, act: &mut dyn FnMut()) -> Result<(), IoError> {
        let becoming = Becoming::begin(actor)?;
        act();
        drop(becoming);
        Ok(())
    }

    fn start(&self, work: Box<dyn FnOnce() + Send>) {
        threads::run(work);
    }

    fn open_queue(&self, waker: Waker) -> Box<dyn TreeQueue> {
        Box::new(Queue::new(Arc::clone(&self.root), self.medium, waker))
    }

    fn find(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, IoError> {
        // A link that is the last component is opened itself, by both flags together; none is followed.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(directory, name, flags, Mode::empty(), BENEATH).map_err(failure)
    }

    fn above(&self, directory: &OwnedFd) -> Result<OwnedFd, IoError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, "..", flags, Mode::empty()).map_err(failure)
    }

    fn stat(&self, node: &OwnedFd) -> Result<NodeStat, IoError> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statx(node, "", flags, wanted).map(|stat| node_stat(&stat)).map_err(failure)
    }

    fn kernel_handle(&self, node: &OwnedFd) -> Result<KernelHandle, IoError> {
        sys::handle::of(node.as_fd(), c"").map(|known| known.handle).map_err(|error| unnumbered(&error))
    }

    fn glance(&self, directory: &OwnedFd, name: &[u8]) -> Result<Glance, IoError> {
        let mut bytes = [0; NAME_BYTES + 1];
        let place = bytes.get_mut(..name.len()).ok_or(failure(Errno::NAMETOOLONG))?;
        place.copy_from_slice(name);
        let name = CStr::from_bytes_until_nul(&bytes).map_err(|_| failure(Errno::NAMETOOLONG))?;
        let sys::handle::Known { handle, mount } =
            sys::handle::of(directory.as_fd(), name).map_err(|error| unnumbered(&error))?;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(directory, name, flags, wanted).map_err(failure)?;
        // What was mounted here has another mount, or came between both looks.
        let leads_off = stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
        if Some(mount) != self.mount || leads_off {
            return Err(failure(Errno::XDEV));
        }
        Ok(Glance { stat: node_stat(&stat), handle })
    }

    fn stamp(&self) -> Option<NodeTime> {
        let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        let nanos = u32::try_from(now.tv_nsec).ok()?;
        (self.stamps && self.mount.is_some()).then_some(NodeTime { seconds: now.tv_sec, nanos })
    }

    fn open_kernel_handle(&self, handle: &KernelHandle) -> Result<OwnedFd, IoError> {
        sys::handle::open(self.root.as_fd(), handle).map_err(|error| unnumbered(&error))
    }

    fn open_data(&self, node: &OwnedFd, access: DataAccess) -> Result<OwnedFd, IoError> {
        let how = match access {
            DataAccess::Read => OFlags::RDONLY,
            DataAccess::Write => OFlags::WRONLY,
            DataAccess::ReadWrite => OFlags::RDWR,
        };
        let flags = how | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        rustix::fs::open(again(node), flags, Mode::empty()).map_err(failure)
    }

    fn open_directory(&self, node: &OwnedFd) -> Result<OwnedFd, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(again(node), flags, Mode::empty()).map_err(failure)
    }

    fn list(&self, directory: &OwnedFd, position: u64, most: usize) -> Result<Vec<NodeEntry>, IoError> {
        rustix::fs::seek(directory, SeekFrom::Start(position)).map_err(failure)?;
        // What is read and not told is read again by whoever goes on.
        let len = most.saturating_mul(DIRENT_BYTES).clamp(LONGEST_DIRENT, LISTING_BYTES);
        let mut memory = vec![MaybeUninit::uninit(); len];
        let mut entries = Vec::new();
        // As many as fit into the memory at once come by one call; the next call is made only while all were `.` and `..`.
        let mut names = RawDir::new(directory, &mut memory);
        while entries.len() < most && (entries.is_empty() || !names.is_buffer_empty()) {
            let Some(entry) = names.next() else { break };
            let entry = entry.map_err(failure)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                entries.push(NodeEntry {
                    name: name.to_vec(),
                    inode: entry.ino(),
                    next: entry.next_entry_cookie(),
                });
            }
        }
        Ok(entries)
    }

    fn read_link(&self, node: &OwnedFd) -> Result<Vec<u8>, IoError> {
        let target = rustix::fs::readlinkat(node, "", Vec::new()).map_err(failure)?;
        Ok(target.into_bytes())
    }

    fn has_right(&self, node: &OwnedFd, right: Right) -> Result<bool, IoError> {
        let access = match right {
            Right::Read => Access::READ_OK,
            Right::Write => Access::WRITE_OK,
            Right::Execute => Access::EXEC_OK,
        };
        match rustix::fs::accessat(rustix::fs::CWD, again(node), access, AtFlags::EACCESS) {
            Ok(()) => Ok(true),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            Err(error) => Err(failure(error)),
        }
    }

    fn create(&self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, IoError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(directory, name, flags, Mode::from_raw_mode(OWNER_ONLY), BENEATH).map_err(failure)
    }

    fn make(&self, directory: &OwnedFd, name: &[u8], what: NewNode<'_>) -> Result<(), IoError> {
        match what {
            NewNode::Directory => {
                rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(OWNER_ONLY_DIRECTORY))
                    .map_err(failure)
            }
            NewNode::SymbolicLink(target) => rustix::fs::symlinkat(target, directory, name).map_err(failure),
            NewNode::Node(kind, device) => {
                let number = rustix::fs::makedev(device.major, device.minor);
                let mode = Mode::from_raw_mode(OWNER_ONLY);
                rustix::fs::mknodat(directory, name, file_type(kind), mode, number).map_err(failure)
            }
        }
    }

    fn remove_file(&self, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError> {
        rustix::fs::unlinkat(directory, name, AtFlags::empty()).map_err(failure)
    }

    fn remove_directory(&self, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError> {
        rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR).map_err(failure)
    }

    fn rename(&self, from: Named<'_>, to: Named<'_>) -> Result<(), IoError> {
        rustix::fs::renameat_with(from.directory, from.name, to.directory, to.name, RenameFlags::empty())
            .map_err(failure)
    }

    fn link(&self, node: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), IoError> {
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, again(node), directory, name, follow).map_err(failure)
    }

    fn set_mode(&self, node: &OwnedFd, mode: u32) -> Result<(), IoError> {
        let mode = Mode::from_raw_mode(mode);
        match rustix::fs::fchmod(node, mode) {
            // It is open as a place alone.
            Err(Errno::BADF) => rustix::fs::chmod(again(node), mode).map_err(failure),
            other => other.map_err(failure),
        }
    }

    fn set_owner(&self, node: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> Result<(), IoError> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        rustix::fs::chownat(node, "", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failure)
    }

    fn set_times(&self, node: &OwnedFd, access: NewTime, modify: NewTime) -> Result<(), IoError> {
        let times = Timestamps { last_access: timespec(access), last_modification: timespec(modify) };
        rustix::fs::utimensat(node, "", &times, AtFlags::EMPTY_PATH).map_err(failure)
    }

    fn set_size(&self, data: &OwnedFd, size: u64) -> Result<(), IoError> {
        rustix::fs::ftruncate(data, size).map_err(failure)
    }

    fn read(&self, data: &OwnedFd, offset: u64, into: &mut [u8]) -> Result<usize, IoError> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(data, rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(done)
    }

    fn write(&self, data: &OwnedFd, offset: u64, from: &BufList, sync: WriteSync) -> Result<(), IoError> {
        let flags = match sync {
            WriteSync::None => ReadWriteFlags::empty(),
            WriteSync::Data => ReadWriteFlags::DSYNC,
            WriteSync::All => ReadWriteFlags::SYNC,
        };
        let mut done = 0;
        while done < from.len() {
            let rest = from.part(done, from.len() - done);
            let slices: Vec<IoSlice<'_>> =
                rest.pieces().iter().take(FILE_SLICES).map(|piece| IoSlice::new(piece)).collect();
            match rustix::io::pwritev2(data, &slices, offset + done as u64, flags) {
                Ok(0) => return Err(IoError(libc::EIO)),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(())
    }

    fn seek_data(&self, data: &OwnedFd, offset: u64) -> Result<u64, IoError> {
        rustix::fs::seek(data, SeekFrom::Data(offset)).map_err(failure)
    }

    fn seek_hole(&self, data: &OwnedFd, offset: u64) -> Result<u64, IoError> {
        rustix::fs::seek(data, SeekFrom::Hole(offset)).map_err(failure)
    }

    fn change_range(
        &self,
        data: &OwnedFd,
        offset: u64,
        count: u64,
        change: RangeChange,
    ) -> Result<(), IoError> {
        let mode = match change {
            RangeChange::Reserved => FallocateFlags::empty(),
            RangeChange::Hole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        rustix::fs::fallocate(data, mode, offset, count).map_err(failure)
    }

    fn copy(&self, from: DataPlace<'_>, to: DataPlace<'_>, count: u64) -> Result<u64, IoError> {
        let (mut source, mut target) = (from.offset, to.offset);
        let len = wire::index(count);
        let copied =
            rustix::fs::copy_file_range(from.data, Some(&mut source), to.data, Some(&mut target), len);
        copied.map(|count| count as u64).map_err(failure)
    }

    fn sync_data(&self, open: &OwnedFd) -> Result<(), IoError> {
        rustix::fs::fdatasync(open).map_err(failure)
    }

    fn sync(&self, open: &OwnedFd) -> Result<(), IoError> {
        rustix::fs::fsync(open).map_err(failure)
    }

    fn sync_everything(&self) -> Result<(), IoError> {
        rustix::fs::syncfs(&*self.root).map_err(failure)
    }

    fn space(&self) -> Result<TreeSpace, IoError> {
        let stat = rustix::fs::fstatvfs(&*self.root).map_err(failure)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(TreeSpace {
            total: bytes(stat.f_blocks),
            free: bytes(stat.f_bfree),
            available: bytes(stat.f_bavail),
            files: stat.f_files,
            files_free: stat.f_ffree,
            longest_name: wire::saturate(stat.f_namemax),
        })
    }
}
