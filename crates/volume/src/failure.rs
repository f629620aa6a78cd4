//! How a request fails: why, and with what memory of its own.

use core::fmt;

use buf::Buf;

use crate::VolumeErrorKind;

/// The end of a request that failed.
#[derive(Debug)]
pub struct Failure {
    /// Why.
    pub kind: VolumeErrorKind,
    /// The buffer that a read was to fill, for whoever asks somewhere else or again. Its content means nothing. `None` for other operations, whose data
    /// their submitter shares, and where a connection ended while the buffer was being filled.
    pub memory: Option<Buf>,
}

impl From<VolumeErrorKind> for Failure {
    fn from(kind: VolumeErrorKind) -> Self {
        Self { kind, memory: None }
    }
}

impl From<Failure> for VolumeErrorKind {
    fn from(failure: Failure) -> Self {
        failure.kind
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl core::error::Error for Failure {}
