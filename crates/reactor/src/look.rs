//! What opening files and devices would come to, found out without a change: to check a configuration beside a server that runs with it.
//!
//! Nothing is made, made longer or locked, and nothing is opened for writing. So this cannot see everything: a lock by `flock` alone, a full file
//! system, or a file system that refuses a size show only when the file is really opened.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use host::{BlockFile, BlockInfo, BlockKind, BlockQueue, IoError, OpenMode, OpenOptions, Storage};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Access, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::file::{check_writable, examine, failure, kind_of};
use crate::sys::lock;

/// What a file has in its place when nothing is known of the file system: a file that is not there yet.
const USUAL_BLOCK: u32 = 4096;

/// The real file system, to look at. What it opens has a size and properties, but no data.
#[derive(Debug, Default)]
pub struct Look {
    /// What was opened for writing: a second time would be refused.
    written: Mutex<Vec<Place>>,
    in_use: AtomicBool,
}

/// What distinguishes one file from another: device and inode; of a file that is not there yet those of its folder, and its name.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
    name: Option<OsString>,
}

impl Place {
    fn of(stat: &Stat, kind: BlockKind) -> Self {
        match kind {
            BlockKind::File => Self { device: stat.st_dev, inode: stat.st_ino, name: None },
            // Nodes of one device are many.
            BlockKind::Device => Self { device: stat.st_rdev, inode: 0, name: None },
        }
    }
}

impl Look {
    /// True if what was opened since this was last asked is in use in a way that would keep it from being opened now.
    pub fn found_in_use(&self) -> bool {
        self.in_use.swap(false, Ordering::Relaxed)
    }

    /// Two volumes that write to one file would overwrite each other.
    fn write_to(&self, place: Place) -> Result<(), Errno> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.contains(&place) {
            return Err(Errno::AGAIN);
        }
        written.push(place);
        Ok(())
    }

    fn look(&self, path: &str, options: OpenOptions) -> Result<BlockInfo, Errno> {
        let writable = options.mode == OpenMode::ReadWrite;
        let stat = match rustix::fs::stat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if writable => return self.absent(path, options.size.ok_or(Errno::NOENT)?),
            Err(error) => return Err(error),
        };
        let kind = kind_of(stat.st_mode)?;
        if writable {
            rustix::fs::access(path, Access::WRITE_OK)?;
            self.write_to(Place::of(&stat, kind))?;
        }
        let file = open_to_read(path, kind, options)?;
        if writable && kind == BlockKind::Device {
            check_writable(&file)?;
        }
        if lock::is_taken(file.as_fd(), options.mode) {
            self.in_use.store(true, Ordering::Relaxed);
        }
        let info = examine(&file, kind, OpenOptions { mode: OpenMode::ReadOnly, ..options })?;
        match options.size.filter(|size| *size > info.size) {
            Some(size) if kind == BlockKind::File && writable => Ok(BlockInfo { size, ..info }),
            Some(_) => Err(Errno::NOSPC),
            None => Ok(info),
        }
    }

    /// A file that would be made with so many bytes.
    fn absent(&self, path: &str, size: u64) -> Result<BlockInfo, Errno> {
        let path = Path::new(path);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let stat = rustix::fs::stat(folder)?;
        rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
        let name = path.file_name().map(OsString::from);
        self.write_to(Place { device: stat.st_dev, inode: stat.st_ino, name })?;
        Ok(BlockInfo {
            kind: BlockKind::File,
            size,
            alignment: 1,
            logical_block: 512,
            physical_block: u32::try_from(stat.st_blksize).unwrap_or(USUAL_BLOCK),
            can_discard: false,
            can_zero: false,
            page_cache: true,
        })
    }
}

fn open_to_read(path: &str, kind: BlockKind, options: OpenOptions) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, options.direct);
    let claims = kind == BlockKind::Device && options.mode == OpenMode::ReadWrite;
    if !claims {
        return rustix::fs::open(path, flags, Mode::empty());
    }
    // Only asking for a device says that it is mounted. The claim ends with the descriptor.
    match rustix::fs::open(path, flags | OFlags::EXCL, Mode::empty()) {
        Err(Errno::BUSY) => {
            let file = rustix::fs::open(path, flags, Mode::empty())?;
            // A server or a virtual machine, which says so, or a claimant of another kind.
            if lock::is_taken(file.as_fd(), OpenMode::ReadWrite) { Ok(file) } else { Err(Errno::BUSY) }
        }
        outcome => outcome,
    }
}

impl Storage for Look {
    fn open(&self, path: &str, options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        let info = self.look(path, options).map_err(failure)?;
        Ok(Arc::new(Seen(info)))
    }
}

/// What a file or device is like, without the way to its data.
#[derive(Debug)]
struct Seen(BlockInfo);

impl BlockFile for Seen {
    fn info(&self) -> BlockInfo {
        self.0
    }

    fn open_queue(&self, _waker: Waker) -> Result<Box<dyn BlockQueue>, IoError> {
        Err(failure(Errno::BADF))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::file::Files;

    const WRITTEN: OpenOptions = OpenOptions { mode: OpenMode::ReadWrite, direct: false, size: None };
    const READ: OpenOptions = OpenOptions { mode: OpenMode::ReadOnly, ..WRITTEN };

    fn sized(size: u64) -> OpenOptions {
        OpenOptions { size: Some(size), ..WRITTEN }
    }

    /// The size that a look finds, or the error number.
    fn size(path: &Path, options: OpenOptions) -> Result<u64, i32> {
        Look::default()
            .open(path.to_str().unwrap(), options)
            .map(|file| file.info().size)
            .map_err(|error| error.0)
    }

    #[test]
    fn a_look_answers_as_opening_would_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::write(place("disk"), [7; 4096]).unwrap();
        let before = std::fs::metadata(place("disk")).unwrap();
        let mut none = Vec::new();
        for (name, options, expected) in [
            ("disk", WRITTEN, Ok(4096)),
            ("disk", READ, Ok(4096)),
            ("disk", sized(1 << 20), Ok(1 << 20)),
            ("disk", sized(512), Ok(4096)),
            ("new", sized(8192), Ok(8192)),
            ("new", WRITTEN, Err(libc::ENOENT)),
            ("new", OpenOptions { mode: OpenMode::ReadOnly, ..sized(8192) }, Err(libc::ENOENT)),
            ("no/new", sized(8192), Err(libc::ENOENT)),
            ("disk/new", sized(8192), Err(libc::ENOTDIR)),
            (".", WRITTEN, Err(libc::EISDIR)),
        ] {
            assert_eq!(size(&place(name), options), expected, "{name} {options:?}");
            none.extend(std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()));
        }
        assert!(none.iter().all(|name| name == "disk"), "{none:?}");
        let after = std::fs::metadata(place("disk")).unwrap();
        assert_eq!((before.len(), before.ctime_nsec()), (after.len(), after.ctime_nsec()));
    }

    #[test]
    fn what_a_server_has_is_in_use_for_writing_and_a_look_takes_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk").display().to_string();
        let server = Files.open(&path, sized(4096)).unwrap();
        let look = Look::default();
        look.open(&path, READ).unwrap();
        assert!(!look.found_in_use(), "who reads may come");
        look.open(&path, WRITTEN).unwrap();
        assert!(look.found_in_use() && !look.found_in_use());
        drop(server);
        let look = Look::default();
        let seen = look.open(&path, WRITTEN).unwrap();
        assert!(!look.found_in_use());
        Files.open(&path, WRITTEN).unwrap();
        drop(seen);
    }

    #[test]
    fn two_volumes_that_write_to_one_file_are_found_by_whatever_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("disk"), [7; 4096]).unwrap();
        std::fs::hard_link(path("disk"), path("link")).unwrap();
        let look = Look::default();
        look.open(&path("disk"), WRITTEN).unwrap();
        look.open(&path("link"), READ).unwrap();
        assert_eq!(look.open(&path("link"), WRITTEN).unwrap_err(), IoError(libc::EAGAIN));
        look.open(&path("new"), sized(4096)).unwrap();
        look.open(&path("other"), sized(4096)).unwrap();
        assert_eq!(look.open(&path("./new"), sized(4096)).unwrap_err(), IoError(libc::EAGAIN));
    }
}
