//! What file systems of the kernel call their objects: `name_to_handle_at`, `open_by_handle_at`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use host::KernelHandle;

/// Bytes of the longest handle (`MAX_HANDLE_SZ`).
const LONGEST: usize = 128;

/// `struct file_handle`, with room for the longest.
#[repr(C)]
struct FileHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    f_handle: [u8; LONGEST],
}

/// The number of the mount that an object was found on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountId(libc::c_int);

/// An object as the kernel knows it.
pub(crate) struct Known {
    pub(crate) handle: KernelHandle,
    pub(crate) mount: MountId,
}

/// What the kernel calls an object that is open, `O_PATH` or otherwise, if `name` is empty; else what it calls the object of that name in a directory that is
/// open, a symbolic link itself.
pub(crate) fn of(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Known> {
    let room = libc::c_uint::try_from(LONGEST).unwrap_or_default();
    let mut handle = FileHandle { handle_bytes: room, handle_type: 0, f_handle: [0; LONGEST] };
    let mut mount: libc::c_int = 0;
    // SAFETY: the path is a string with its zero byte; the structure is laid out as the kernel's, says how much room it has, and lives through the call, as does the number.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            at.as_raw_fd(),
            name.as_ptr(),
            std::ptr::from_mut(&mut handle),
            std::ptr::from_mut(&mut mount),
            libc::AT_EMPTY_PATH,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let len = usize::try_from(handle.handle_bytes).unwrap_or(LONGEST);
    let bytes = handle.f_handle.get(..len).unwrap_or_default().to_vec();
    Ok(Known { handle: KernelHandle { kind: handle.handle_type, bytes }, mount: MountId(mount) })
}

/// Opens what the kernel calls so, in the file system of `mount`, as `O_PATH`.
pub(crate) fn open(mount: BorrowedFd<'_>, wanted: &KernelHandle) -> io::Result<OwnedFd> {
    let stale = || io::Error::from_raw_os_error(libc::ESTALE);
    let mut handle = FileHandle {
        handle_bytes: libc::c_uint::try_from(wanted.bytes.len()).map_err(|_| stale())?,
        handle_type: wanted.kind,
        f_handle: [0; LONGEST],
    };
    handle.f_handle.get_mut(..wanted.bytes.len()).ok_or_else(stale)?.copy_from_slice(&wanted.bytes);
    // SAFETY: the structure is laid out as the kernel's, and lives through the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            std::ptr::from_mut(&mut handle),
            libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = libc::c_int::try_from(result).map_err(|_| stale())?;
    // SAFETY: the kernel has just given this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
