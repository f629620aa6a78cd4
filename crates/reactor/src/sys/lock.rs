//! Locks that virtual machines respect: the bytes that QEMU locks in an image (`file.locking`), by locks that belong to the open file
//! (`F_OFD_SETLK`).
//!
//! QEMU locks one byte for each thing that it does to an image, and another for each thing that it denies to others; whoever opens the image
//! checks the opposite bytes. On a file system without such locks only `flock` is left.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use host::OpenMode;

/// Where the bytes begin for what is done.
const DONE: i64 = 100;
/// Where the bytes begin for what no other may do.
const DENIED: i64 = 200;
/// Reading what stays as it is.
const CONSISTENT_READ: i64 = 0;
/// Writing.
const WRITE: i64 = 1;
/// Changing the size.
const RESIZE: i64 = 3;

fn range(kind: libc::c_int, start: i64, len: i64) -> libc::flock {
    // SAFETY: all-zero is a valid `flock`: numbers only.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    (lock.l_start, lock.l_len) = (start, len);
    lock
}

fn call(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as it is borrowed, and the lock is one that the kernel may read and write.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True when another open file holds a lock on this byte.
fn is_held(file: BorrowedFd<'_>, byte: i64) -> bool {
    let mut lock = range(libc::F_WRLCK, byte, 1);
    call(file, libc::F_OFD_GETLK, &mut lock).is_ok() && i32::from(lock.l_type) != libc::F_UNLCK
}

/// What an open file does to an image, and what no other may do meanwhile.
struct Intents {
    done: &'static [i64],
    denied: &'static [i64],
}

fn intents(mode: OpenMode) -> Intents {
    match mode {
        OpenMode::ReadOnly => Intents { done: &[CONSISTENT_READ], denied: &[] },
        OpenMode::ReadWrite => Intents { done: &[CONSISTENT_READ, WRITE, RESIZE], denied: &[WRITE, RESIZE] },
    }
}

/// True when another open file uses the image in a way that conflicts with this mode. Takes no lock, not even for a moment.
pub(crate) fn is_taken(file: BorrowedFd<'_>, mode: OpenMode) -> bool {
    let Intents { done, denied } = intents(mode);
    let mut opposite = done.iter().map(|one| DENIED + one).chain(denied.iter().map(|one| DONE + one));
    opposite.any(|byte| is_held(file, byte))
}

/// Takes an image for this open file.
///
/// # Errors
/// Another open file uses it in a way that conflicts with this mode (`EAGAIN`).
pub(crate) fn take(file: BorrowedFd<'_>, mode: OpenMode) -> io::Result<()> {
    let Intents { done, denied } = intents(mode);
    let bytes = done.iter().map(|one| DONE + one).chain(denied.iter().map(|one| DENIED + one));
    for byte in bytes {
        if call(file, libc::F_OFD_SETLK, &mut range(libc::F_RDLCK, byte, 1)).is_err() {
            // No such locks here, or another that locks the byte exclusively, which the check below finds.
            break;
        }
    }
    if is_taken(file, mode) {
        release(file);
        return Err(io::Error::from_raw_os_error(libc::EAGAIN));
    }
    Ok(())
}

/// Gives all of them back, also while the kernel still holds the file for a request.
pub(crate) fn release(file: BorrowedFd<'_>) {
    // What cannot be given back goes when the file is closed.
    let _released = call(file, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, 0, 0));
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    /// Takes bytes as a virtual machine does that writes, or that only reads and lets others write.
    fn virtual_machine(file: &File, bytes: &[i64]) {
        for byte in bytes {
            call(file.as_fd(), libc::F_OFD_SETLK, &mut range(libc::F_RDLCK, *byte, 1)).unwrap();
        }
    }

    #[test]
    fn a_virtual_machine_and_a_volume_write_not_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        std::fs::write(&path, [0; 4096]).unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        // Running: it reads, writes and changes the size, and denies others both changes.
        let running = open();
        virtual_machine(&running, &[100, 101, 103, 201, 203]);
        let volume = open();
        assert_eq!(take(volume.as_fd(), OpenMode::ReadWrite).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
        take(volume.as_fd(), OpenMode::ReadOnly).unwrap();
        release(volume.as_fd());
        drop(running);
        take(volume.as_fd(), OpenMode::ReadWrite).unwrap();
        // Now the virtual machine finds what it checks for: another writes, and denies writing.
        let late = open();
        assert!(is_held(late.as_fd(), 101) && is_held(late.as_fd(), 201) && !is_held(late.as_fd(), 200));
        release(volume.as_fd());
        assert!(!is_held(late.as_fd(), 101) && !is_held(late.as_fd(), 201));
    }
}
