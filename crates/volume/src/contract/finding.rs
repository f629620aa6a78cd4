//! What a check ends with: nothing, or what it saw that breaks a promise.

use crate::{OpenError, VolumeErrorKind};

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {finding}")]
pub struct Violation {
    /// The check that found it, as `docs/volume-contract.md` names it.
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
        kind: VolumeErrorKind,
    },
    /// A request ends with another answer than it must.
    #[error("{0}")]
    Answer(
        /// The request and its answer.
        String,
    ),
    /// Nothing comes: no completion, no wake-up, no room in the queue.
    #[error("{0}")]
    Unanswered(
        /// What does not come.
        String,
    ),
    /// The volume holds other data than was written.
    #[error("{0}")]
    Data(
        /// Where, and how it differs.
        String,
    ),
    /// The queue breaks its own rules: it completes twice, takes too much, or keeps memory.
    #[error("{0}")]
    Queue(
        /// The rule that it breaks.
        String,
    ),
    /// The volume's geometry or limits contradict themselves.
    #[error("{0}")]
    Shape(
        /// How.
        String,
    ),
    /// A thread of the check panicked: the volume did.
    #[error("a thread panicked")]
    Panicked,
}

impl Finding {
    /// A request that must succeed has failed.
    pub(super) fn failed(request: impl Into<String>, failure: impl Into<VolumeErrorKind>) -> Self {
        Self::Failed { request: request.into(), kind: failure.into() }
    }
}

/// What a check ends with.
pub(super) type Verdict = Result<(), Finding>;
