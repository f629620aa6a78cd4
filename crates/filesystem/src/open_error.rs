//! Why a file system or one of its queues could not be opened.

use alloc::string::String;
use core::fmt;

/// What was wrong, where, and what to do, for the user to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError(String);

impl OpenError {
    /// The error that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for OpenError {}
