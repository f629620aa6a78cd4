//! What a call can fail with; each text says what was wrong and where.

use volume::OpenError;

use crate::check::CheckError;
use crate::copy::CopyError;

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
    /// A copy failed on the way.
    #[error("the copy failed {0}")]
    Copy(CopyError),
    /// A volume does not keep its data, or refuses what it offers.
    #[error("{url} does not keep its data: {error}")]
    Check {
        /// Which one.
        url: String,
        /// What was wrong, and where.
        error: CheckError,
    },
    /// The event loop could not run.
    #[error("the event loop cannot run")]
    System(#[from] std::io::Error),
}
