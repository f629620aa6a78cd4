//! Tools that put load on, and what their output means.

use std::collections::BTreeMap;
use std::path::Path;

use crate::arm::Endpoint;
use crate::result::{Flag, Interval, Load, Tool};
use crate::scenario::Initiator;

/// What a tool is asked to do once.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// Options of the workload, the point and the arm, such as `bs`, `rw`, `iodepth`, `numjobs`.
    pub settings: &'a BTreeMap<String, String>,
    /// What the load is spread over.
    pub endpoints: &'a [Endpoint],
    /// Where its raw output goes.
    pub folder: &'a Path,
    /// Seconds before the window.
    pub ramp: f64,
    /// Seconds of the window.
    pub runtime: f64,
    /// The `linerate` program.
    pub linerate: &'a Path,
    /// What speaks for the host; it decides which program serves for block I/O.
    pub initiator: Initiator,
}

/// What a tool measured. Its figures are the tool's own: units may be others, nothing is computed anew.
#[derive(Debug, Clone, PartialEq)]
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
