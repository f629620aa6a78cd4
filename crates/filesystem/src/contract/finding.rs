//! What a check ends with: nothing, or what it saw that breaks a promise.

use crate::{FileErrorKind, OpenError};

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {finding}")]
pub struct Violation {
    /// The check that found it, as `docs/filesystem-contract.md` names it.
    pub check: &'static str,
    /// What the check saw.
    #[source]
    pub finding: Finding,
}

/// What a check saw that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A queue cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A request fails that must succeed.
    #[error("{request} failed: {kind}")]
    Failed {
        /// The request, in words.
        request: String,
        /// How it failed.
        #[source]
        kind: FileErrorKind,
    },
    /// A request ends with another answer than it must, or the file system holds something else than it was given.
    #[error("{0}")]
    Answer(
        /// The request and its answer.
        String,
    ),
    /// Nothing comes: no completion, no wake-up.
    #[error("{0}")]
    Unanswered(
        /// What does not come.
        String,
    ),
    /// The queue breaks its own rules: it completes twice, takes too much, or keeps memory.
    #[error("{0}")]
    Queue(
        /// The rule that it breaks.
        String,
    ),
}

/// What a check ends with.
pub(super) type Verdict = Result<(), Finding>;

/// The finding that says `text`, unless that is so.
pub(super) fn see(holds: bool, text: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Finding::Answer(text())) }
}
