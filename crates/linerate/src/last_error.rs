//! What a volume last met on the way to its far end: "no path to the volume" helps nobody who does not know why.

use std::fmt;

/// The last failure that a job's volumes met on the way to them, if they met any. Its text is meant to stand behind the text of the error
/// that it may explain, and is empty where there is nothing to add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastError(pub Option<String>);

impl fmt::Display for LastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(text) => write!(f, " (last error on the path to the volume: {text})"),
            None => Ok(()),
        }
    }
}
