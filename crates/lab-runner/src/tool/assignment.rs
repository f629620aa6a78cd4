//! What every tool is asked and answers, and the pieces that their command lines share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::arm::Endpoint;
use crate::machine::process::CommandLine;
use lab_model::result::{Flag, Interval, Load, Tool};
use lab_model::scenario::Initiator;

/// What a tool is asked to do once.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// Options of the workload, the point and the arm, such as `bs`, `rw`, `iodepth`, `numjobs`.
    pub settings: &'a BTreeMap<String, String>,
    /// What the load is spread over.
    pub endpoints: &'a [Endpoint],
    /// Where its raw output goes; it exists, and holds no output of an earlier run.
    pub folder: &'a Path,
    /// Seconds before the window.
    pub ramp: f64,
    /// Seconds of the window.
    pub runtime: f64,
    /// The `linerate` program.
    pub linerate: &'a Path,
    /// The folder of fio's engines.
    pub engines: &'a Path,
    /// What speaks for the host; it decides which program serves for block I/O.
    pub initiator: Initiator,
}

/// What a tool measured. Its figures are the tool's own: units may be others, nothing is computed anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The program, its version and its command line.
    pub tool: Tool,
    /// I/Os, bytes and latencies by direction.
    pub load: Load,
    /// Seconds of the window one by one.
    pub intervals: Vec<Interval>,
    /// Further figures, such as `transactions_per_second`.
    pub extra: BTreeMap<String, f64>,
    /// Length of the measured window, seconds.
    pub seconds: f64,
    /// When the window began, seconds since 1970, if the tool tells it.
    pub window_start: Option<f64>,
    /// What makes the figures doubtful or invalid.
    pub flags: Vec<Flag>,
}

/// The first word that begins with a digit, after a dash too: `fio-3.33`, `pgbench (PostgreSQL) 15.18 (Debian …)`.
pub(super) fn version_in(line: &str) -> Option<String> {
    let words = line.split_whitespace().map(|word| word.rsplit('-').next().unwrap_or(word));
    let mut numbers = words.map(|word| word.trim_matches(|letter| "(),".contains(letter)));
    numbers
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
}

/// A command line in the folder of the assignment, with standard output to `stdout` and standard error beside it.
pub(super) fn command_line(assignment: &Assignment<'_>, argv: Vec<String>, stdout: &str) -> CommandLine {
    let stdout = assignment.folder.join(stdout);
    CommandLine {
        argv,
        environment: BTreeMap::from([("LC_ALL".to_owned(), "C".to_owned())]),
        folder: assignment.folder.to_owned(),
        stderr: errors_beside(&stdout),
        stdout,
        user: None,
    }
}

/// `fio.json` has its standard error in `fio.stderr`.
fn errors_beside(stdout: &Path) -> PathBuf {
    stdout.with_extension("stderr")
}

pub(super) fn tool(name: &str, version: &str, command: &CommandLine) -> Tool {
    Tool {
        name: name.to_owned(),
        version: version.to_owned(),
        argv: names::redact_all(command.argv.iter().map(String::as_str)),
    }
}

/// Whole seconds, for tools that take no fractions; at least one.
pub(super) fn whole_seconds(seconds: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(seconds.ceil()).map_or(1, |span| span.as_secs().max(1))
}
