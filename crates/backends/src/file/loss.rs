//! Which failures of a file or device mean that acknowledged writes are lost.
//!
//! [`volume::Losses`] says what follows from it.

use std::sync::Arc;

use host::IoError;
use volume::Losses;

/// What the system refuses before it begins, or does not begin any more: `EPERM`, `EBADF`, `EACCES`, `EINVAL`, `EROFS`, `ENOSYS`,
/// `EOPNOTSUPP`, `ECANCELED`.
const NOT_BEGUN: [i32; 8] = [1, 9, 13, 22, 30, 38, 95, 125];
/// Where there is no room for the write itself, by direct I/O: `EFBIG`, `ENOSPC`, `EDQUOT`.
const NO_ROOM: [i32; 3] = [27, 28, 122];
/// `ECANCELED`.
const CANCELLED: i32 = 125;

/// A flush has failed.
pub(super) fn flush_failed(losses: &Arc<Losses>, error: IoError) {
    if error.0 != CANCELLED {
        losses.report(&format!("a flush failed: {error}"));
    }
}

/// A write that was to be durable has failed, by direct I/O: either its own data could not be written, or what lay in the
/// device's cache. Where the error number does not say which, the second is assumed.
pub(super) fn durable_write_failed(losses: &Arc<Losses>, error: IoError) {
    if !NOT_BEGUN.contains(&error.0) && !NO_ROOM.contains(&error.0) {
        losses.report(&format!("a durable write failed: {error}"));
    }
}
