//! What checking a configuration finds, all of it: whoever corrects one mistake should not meet the next only then.

use anyhow::Result;

/// What a check has found. Each line says what it is, where, and what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What keeps a server from starting.
    pub problems: Vec<String>,
    /// What is doubtful, and no mistake.
    pub warnings: Vec<String>,
    /// What could not be tried: volumes of other machines, and those that are in use.
    pub untried: Vec<String>,
}

impl Findings {
    /// Adds what is wrong, if anything is.
    pub(crate) fn require(&mut self, outcome: Result<()>) {
        self.problems.extend(outcome.err().map(|error| format!("{error:#}")));
    }
}
