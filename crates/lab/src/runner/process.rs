//! Child processes of a run: what to start and where its output goes.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables in addition to those of this process.
    pub environment: BTreeMap<String, String>,
    /// Its working folder.
    pub folder: PathBuf,
    /// The file that gets its standard output.
    pub stdout: PathBuf,
    /// The file that gets its standard error.
    pub stderr: PathBuf,
    /// The user it runs as when not this process's own: PostgreSQL's programs refuse root.
    pub user: Option<String>,
}
