//! What a call can fail with; each text says what was wrong and where.

use std::sync::Arc;
use std::{fmt, io};

use volume::{OpenError, VolumeErrorKind};

use crate::check::CheckError;
use crate::client::error::DiskError;
use crate::last_error::LastError;

/// Why a job that walks over volumes did not come to its end. Its text is whole: it has the cause, the cause's own sources, and the last
/// error in it. So [`source`](std::error::Error::source) gives nothing; [`cause`](Self::cause) tells the failures apart.
#[derive(Debug, Clone)]
pub struct DataError {
    /// What the job is called, such as `copy`.
    pub job: &'static str,
    /// The first byte of the chunk that failed, if it was one.
    pub at: Option<u64>,
    /// What was wrong.
    pub cause: DataErrorCause,
    /// What the job's volumes last met on the way to them.
    pub last_error: LastError,
}

impl DataError {
    /// A failure of a job, with nothing yet to explain it.
    pub(crate) fn new(job: &'static str, at: Option<u64>, cause: DataErrorCause) -> Self {
        Self { job, at, cause, last_error: LastError::default() }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} failed", self.job)?;
        if let Some(at) = self.at {
            write!(f, " at byte {at}")?;
        }
        let mut cause: Option<&dyn std::error::Error> = Some(&self.cause);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        write!(f, "{}", self.last_error)
    }
}

impl std::error::Error for DataError {}

/// What was wrong in a job that walks over volumes.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DataErrorCause {
    /// A volume refused a request.
    #[error("{volume} cannot be {verb}")]
    Failed {
        /// The volume's URL.
        volume: String,
        /// What could not be done with it, such as `read`.
        verb: &'static str,
        /// Why.
        source: VolumeErrorKind,
    },
    /// A volume answered a read, but not with data.
    #[error("a read was answered without data")]
    NoData,
    /// A copy was read back and is not what was written.
    #[error("what was read back from {volume} differs at byte {at}")]
    Differs {
        /// The target's URL.
        volume: String,
        /// The first byte that differs.
        at: u64,
    },
    /// A stream has more bytes than the volume that it is copied onto.
    #[error("the stream is longer than the {bytes} bytes of {volume}")]
    StreamTooLong {
        /// The target's URL.
        volume: String,
        /// The target's size.
        bytes: u64,
    },
    /// A stream could not be read or written.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A request to a disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Reservations could not be read or changed.
    #[error(transparent)]
    Reservations(#[from] ReservationError),
}

/// Why a stream could not be an end of a copy.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Reading failed.
    #[error("the stream cannot be read")]
    Read(#[source] Arc<io::Error>),
    /// Writing failed.
    #[error("the stream cannot be written")]
    Write(#[source] Arc<io::Error>),
    /// Bytes came after the stream's end.
    #[error("the stream has been closed")]
    Closed,
}

/// Why reservations could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// The far end did not say whether it made the change.
    #[error("the change may have been made or not")]
    Unknown(#[source] VolumeErrorKind),
    /// The far end answered the question what is reserved, but not with a report.
    #[error("the far end answered something else than what is reserved")]
    NoReport,
    /// The far end does not know the full report.
    #[error(
        "the far end has no full report of reservations (PERSISTENT RESERVE IN's READ FULL STATUS, or Reservation Report): use a tool \
         that does without, such as sg_persist"
    )]
    NoFullReport,
    /// The far end failed the question what is reserved.
    #[error("the far end does not tell what is reserved")]
    NotTold(#[source] VolumeErrorKind),
    /// The caller made no change of what is reserved.
    #[error(transparent)]
    NotChosen(Arc<dyn std::error::Error + Send + Sync>),
}

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A volume could not be opened.
    #[error("{url}: {error}")]
    Open {
        /// Which one.
        url: String,
        /// Why not.
        error: OpenError,
    },
    /// A job that walks over volumes failed on the way.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A volume does not keep its data, or refuses what it offers.
    #[error("{url} does not keep its data: {error}")]
    Check {
        /// Which one.
        url: String,
        /// What was wrong, and where.
        error: CheckError,
    },
    /// It was asked to stop while volumes were still being opened.
    #[error("stopped before every volume was open")]
    Stopped,
    /// The event loop could not run.
    #[error("the event loop cannot run")]
    System(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_cause_its_sources_and_the_last_error_in_it() {
        let refused = DataErrorCause::Failed {
            volume: "ram:1M".to_owned(),
            verb: "written",
            source: VolumeErrorKind::Unreachable,
        };
        let mut error = DataError::new("copy", Some(4096), refused);
        let text = "the copy failed at byte 4096: ram:1M cannot be written: there is no path to the volume";
        assert_eq!(error.to_string(), text);
        error.last_error = LastError(Some("connection refused".to_owned()));
        let explained = format!("{text} (last error on the path to the volume: connection refused)");
        assert_eq!(error.to_string(), explained);
        // Whoever prints an error with its sources prints nothing twice.
        assert!(std::error::Error::source(&Error::Data(error)).is_none());

        let pipe = Arc::new(io::Error::from(io::ErrorKind::BrokenPipe));
        let error = DataError::new("copy", None, StreamError::Write(pipe).into());
        assert_eq!(error.to_string(), "the copy failed: the stream cannot be written: broken pipe");
    }
}
