//! Why a trial fails: which promise is broken, and where in the trial.
//!
//! One type for all trials, so that a test can match on the kind of failure, and so that a failure says its place once ([`TrialFailure::at`]).

use std::fmt::Display;

use engine::ProposalError;
use host::StateError;
use volume::OpenError;

use crate::history::Violation;

/// What a trial found to be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrialFailure {
    /// A volume holds what it may not hold.
    #[error(transparent)]
    Content(#[from] Violation),
    /// A flush succeeded although a write before it is lost.
    #[error("{0}: a flush succeeded for a write that is lost (docs/volume-contract.md, Durability)")]
    Forgotten(#[source] Violation),
    /// A volume or a queue cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server's records cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A core does not serve its catalogue.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// Something takes longer than it may.
    #[error("{0}")]
    Late(
        /// What, and how long it may take.
        String,
    ),
    /// More memory is in use than may be.
    #[error("{0}")]
    Memory(
        /// How much, and what the limit is.
        String,
    ),
    /// Another promise is broken.
    #[error("{0}")]
    Broken(
        /// What happened.
        String,
    ),
    /// A failure with its place in the trial.
    #[error("{place}: {source}")]
    At {
        /// Where: the number of a cut, the name of a volume.
        place: String,
        /// What happened there.
        source: Box<TrialFailure>,
    },
}

impl TrialFailure {
    /// The same failure, with its place in the trial.
    #[must_use]
    pub(crate) fn at(self, place: impl Display) -> Self {
        Self::At { place: place.to_string(), source: Box::new(self) }
    }

    /// The failure without its places.
    pub fn root(&self) -> &Self {
        match self {
            Self::At { source, .. } => source.root(),
            _ => self,
        }
    }
}
