//! What the system's error numbers mean to a volume: one table, with Linux' numbers.

use host::IoError;
use volume::VolumeErrorKind;

/// `EOPNOTSUPP`: the file system or device cannot do it.
pub(crate) const NOT_SUPPORTED: i32 = 95;

/// The kind of failure that an error number stands for.
pub(crate) const fn kind_of(error: IoError) -> VolumeErrorKind {
    match error.0 {
        // ENOSPC, EDQUOT, EFBIG
        28 | 122 | 27 => VolumeErrorKind::NoSpace,
        // EROFS, EPERM, EACCES, EBADF: opened without the right to write
        30 | 1 | 13 | 9 => VolumeErrorKind::ReadOnly,
        // EINVAL: what direct I/O answers to odd memory, offsets and lengths
        22 => VolumeErrorKind::Misaligned,
        // ENOTTY, ENOSYS, EOPNOTSUPP
        25 | 38 | NOT_SUPPORTED => VolumeErrorKind::Unsupported,
        // ENXIO, ENODEV, ENOLINK: the device is gone, or no path leads to it
        6 | 19 | 67 => VolumeErrorKind::Unreachable,
        // ETIMEDOUT
        110 => VolumeErrorKind::TimedOut,
        // ECANCELED
        125 => VolumeErrorKind::Cancelled,
        // EILSEQ: the block layer's word for protection information that does not match
        84 => VolumeErrorKind::Protection,
        // EBADE: the block layer's word for a reservation conflict
        52 => VolumeErrorKind::ReservationConflict,
        // EIO, EREMOTEIO, ENODATA, and whatever else keeps data from the medium
        _ => VolumeErrorKind::Media,
    }
}
