//! What a rule is, and what it finds.

use std::fmt;

use crate::workspace::Workspace;

/// One rule: a name, what it demands, and the function that looks for breaches.
pub(crate) struct Rule {
    /// One word for messages.
    pub(crate) name: &'static str,
    /// What must hold, in one sentence.
    pub(crate) demands: &'static str,
    /// Gives every breach in the workspace.
    pub(crate) check: fn(&Workspace) -> Vec<Finding>,
}

/// A breach of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File or manifest, from the root.
    pub(crate) path: String,
    /// Line from 1, or 0 for the file as a whole.
    pub(crate) line: usize,
    /// What is wrong, and if it is not plain, what to do.
    pub(crate) message: String,
}

impl Finding {
    /// A breach at a line.
    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// A breach of a file as a whole.
    pub(crate) fn whole(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path, self.message),
            line => write!(out, "{}:{line}: {}", self.path, self.message),
        }
    }
}
