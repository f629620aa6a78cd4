//! How a call of the C interface ended, as a number that stays.

use std::ffi::c_char;

use volume::VolumeErrorKind;

/// How a call ended: 0 for success. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The volume's URL cannot be read.
    BadUrl = 1,
    /// The volume cannot be opened.
    CannotOpen = 2,
    /// The event loops cannot be started.
    CannotStart = 3,
    /// The extent reaches beyond the volume's end.
    OutOfRange = 4,
    /// The medium could not read or write the data.
    Media = 5,
    /// Protection information did not match.
    Protection = 6,
    /// No space is left behind the volume.
    NoSpace = 7,
    /// The volume is write-protected.
    ReadOnly = 8,
    /// Offset or length is no multiple of the block size, or too long.
    Misaligned = 9,
    /// The volume does not do this operation.
    Unsupported = 10,
    /// A comparison failed.
    Miscompare = 11,
    /// The request was cancelled.
    Cancelled = 12,
    /// The volume did not answer in time.
    TimedOut = 13,
    /// There is no path to the volume.
    Unreachable = 14,
    /// A reservation of another host forbids it.
    ReservationConflict = 15,
    /// The client is ending.
    ShuttingDown = 16,
    /// Another failure of the volume.
    Other = 17,
    /// The volume is busy; the request was not carried out.
    Busy = 18,
}

impl From<VolumeErrorKind> for Status {
    fn from(kind: VolumeErrorKind) -> Self {
        match kind {
            VolumeErrorKind::OutOfRange => Self::OutOfRange,
            VolumeErrorKind::Media => Self::Media,
            VolumeErrorKind::Protection => Self::Protection,
            VolumeErrorKind::NoSpace => Self::NoSpace,
            VolumeErrorKind::ReadOnly => Self::ReadOnly,
            VolumeErrorKind::Misaligned => Self::Misaligned,
            VolumeErrorKind::Unsupported => Self::Unsupported,
            VolumeErrorKind::Miscompare { .. } => Self::Miscompare,
            VolumeErrorKind::Cancelled => Self::Cancelled,
            VolumeErrorKind::TimedOut => Self::TimedOut,
            VolumeErrorKind::Unreachable => Self::Unreachable,
            VolumeErrorKind::ReservationConflict => Self::ReservationConflict,
            VolumeErrorKind::ShuttingDown => Self::ShuttingDown,
            VolumeErrorKind::Busy => Self::Busy,
            _ => Self::Other,
        }
    }
}

/// What a status means, in a few words; for any number.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_status_text(status: u32) -> *const c_char {
    let text = match status {
        0 => c"success",
        1 => c"the URL cannot be read",
        2 => c"the volume cannot be opened",
        3 => c"the event loops cannot be started",
        4 => c"the extent reaches beyond the end of the volume",
        5 => c"the medium could not read or write the data",
        6 => c"the protection information does not match",
        7 => c"no space is left behind the volume",
        8 => c"the volume is write-protected",
        9 => c"offset or length does not fit the volume's blocks",
        10 => c"the volume does not support the operation",
        11 => c"the data differs",
        12 => c"the request was cancelled",
        13 => c"the volume did not answer in time",
        14 => c"there is no path to the volume",
        15 => c"a reservation of another host forbids it",
        16 => c"the client is ending",
        17 => c"the volume failed",
        18 => c"the volume is busy",
        _ => c"unknown status",
    };
    text.as_ptr()
}
