//! Why a request to a disk failed: the kind, and a text that says what was asked of which volume.

use std::fmt;
use std::io;

use ::volume::VolumeErrorKind;

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskError {
    kind: VolumeErrorKind,
    text: String,
}

impl DiskError {
    /// A failure of `kind` that reads `text`.
    pub(crate) fn new(kind: VolumeErrorKind, text: String) -> Self {
        Self { kind, text }
    }

    /// What went wrong, independent of any text.
    pub fn kind(&self) -> VolumeErrorKind {
        self.kind
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for DiskError {}

impl From<DiskError> for io::Error {
    fn from(error: DiskError) -> Self {
        let kind = match error.kind {
            VolumeErrorKind::OutOfRange | VolumeErrorKind::Misaligned => io::ErrorKind::InvalidInput,
            VolumeErrorKind::NoSpace => io::ErrorKind::StorageFull,
            VolumeErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            VolumeErrorKind::Unsupported => io::ErrorKind::Unsupported,
            VolumeErrorKind::Busy => io::ErrorKind::ResourceBusy,
            VolumeErrorKind::TimedOut => io::ErrorKind::TimedOut,
            VolumeErrorKind::Unreachable | VolumeErrorKind::ShuttingDown => io::ErrorKind::NotConnected,
            VolumeErrorKind::ReservationConflict => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
