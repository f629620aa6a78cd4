//! What a call can fail with; each text says what was wrong and where.

use volume::OpenError;

use crate::check::CheckError;

/// Why a job that walks over volumes did not come to its end, for the user to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataError {
    /// What the job is called, such as `copy`.
    pub job: &'static str,
    /// The first byte of the chunk that failed, if it was one.
    pub at: Option<u64>,
    /// What was wrong.
    pub why: String,
}

impl std::fmt::Display for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the {} failed", self.job)?;
        match self.at {
            Some(at) => write!(f, " at byte {at}: {}", self.why),
            None => write!(f, ": {}", self.why),
        }
    }
}

impl std::error::Error for DataError {}

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
    System(#[from] std::io::Error),
}
