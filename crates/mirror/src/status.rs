//! What a mirror's legs do, for people and programs.

use crate::members::LegState;
use crate::numbering::Numbered;

/// A mirror as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Changes of who is in sync, since the mirror was made.
    pub epoch: u64,
    /// The legs' records say so; writes wait while they do not.
    pub recorded: bool,
    /// Another host has taken the mirror over; nothing is done here any more.
    pub fenced: bool,
    /// Bytes in regions that may be resynchronised after a crash.
    pub dirty: u64,
    /// Bytes of the mirror.
    pub size: u64,
    /// The legs, in the URL's order.
    pub legs: Vec<LegStatus>,
}

/// One leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegStatus {
    /// Its URL, without secrets.
    pub url: String,
    /// How it takes part.
    pub state: LegState,
    /// Bytes that are still to be copied to it.
    pub left: u64,
    /// Bytes that were copied to it since the mirror was opened.
    pub copied: u64,
    /// What was last wrong with it; `None` once it is in sync again.
    pub error: Option<String>,
}

impl Status {
    /// What is to be said of each leg that is not in sync.
    pub(crate) fn errors(&self) -> impl Iterator<Item = String> {
        self.legs.iter().enumerate().filter_map(|(index, leg)| leg.last_error(index))
    }
}

impl LegStatus {
    fn last_error(&self, index: usize) -> Option<String> {
        let leg = Numbered(index);
        let why = self.error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        match self.state {
            LegState::InSync => None,
            LegState::Spare => {
                self.error.as_ref().map(|error| format!("{leg}, {}, is a spare: {error}", self.url))
            }
            LegState::Out => Some(format!("{leg}, {}, is out{why}", self.url)),
            LegState::Resynchronizing => Some(format!("{leg}, {}, lacks {} bytes{why}", self.url, self.left)),
        }
    }
}
