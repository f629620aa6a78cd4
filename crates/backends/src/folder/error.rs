//! What the system's error numbers mean in the words of a file system.

use filesystem::FileErrorKind;
use host::IoError;

/// `ENOENT`.
pub(super) const NO_ENTRY: i32 = 2;
/// EBADF: the descriptor is of a place alone (O_PATH).
pub(super) const BAD_DESCRIPTOR: i32 = 9;
/// `EEXIST`.
pub(super) const EXISTS: i32 = 17;
/// `ENXIO`.
pub(super) const NO_DATA: i32 = 6;
/// `EACCES`.
pub(super) const ACCESS: i32 = 13;
/// `EPERM`.
pub(super) const NOT_PERMITTED: i32 = 1;
/// `EOPNOTSUPP`.
pub(super) const NOT_SUPPORTED: i32 = 95;

/// The kind of failure; by numbers of Linux.
pub(super) fn kind_of(error: IoError) -> FileErrorKind {
    match error.0 {
        NOT_PERMITTED => FileErrorKind::NotOwner,
        NO_ENTRY => FileErrorKind::NoEntry,
        NO_DATA => FileErrorKind::NoDevice,
        // EAGAIN, EINTR, ENOMEM, ENFILE, EMFILE, EBUSY, ETXTBSY: nothing is wrong with the request.
        4 | 11 | 12 | 16 | 23 | 24 | 26 => FileErrorKind::Delay,
        // Another file system is mounted there, which is not served: nobody gets in. EXDEV.
        ACCESS | 18 => FileErrorKind::Access,
        EXISTS => FileErrorKind::Exists,
        20 => FileErrorKind::NotDirectory,
        21 => FileErrorKind::IsDirectory,
        22 => FileErrorKind::Invalid,
        27 | 75 => FileErrorKind::FileTooBig,
        28 => FileErrorKind::NoSpace,
        30 => FileErrorKind::ReadOnly,
        31 => FileErrorKind::TooManyLinks,
        36 => FileErrorKind::NameTooLong,
        39 => FileErrorKind::NotEmpty,
        // ELOOP: a symbolic link where none may be.
        40 => FileErrorKind::SymbolicLink,
        38 | NOT_SUPPORTED => FileErrorKind::NotSupported,
        116 => FileErrorKind::Stale,
        122 => FileErrorKind::QuotaExceeded,
        _ => FileErrorKind::Io,
    }
}
