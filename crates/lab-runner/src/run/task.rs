//! One measurement as it is asked for and as it comes back, wherever the load runs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::arm::caches::Counters;
use crate::measure::Counted;
use crate::tool::Measured;
use lab_model::result::{Machine, Neighbour};
use lab_model::scenario::{Arm, Design, ToolKind};

/// What is put on an arm.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The tool.
    pub kind: ToolKind,
    /// The arm.
    pub arm: &'a Arm,
    /// Options of the workload, the point and the arm.
    pub settings: &'a BTreeMap<String, String>,
    /// Ramp and window.
    pub design: &'a Design,
    /// The `linerate` program.
    pub linerate: &'a Path,
    /// The folder of fio's engines.
    pub engines: &'a Path,
    /// Where the raw output goes.
    pub folder: &'a Path,
}

/// Whether a tool has to lay out what it works on before it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// It has to.
    Due,
    /// What an earlier measurement laid out is there.
    Done,
}

/// What came of it.
#[derive(Debug)]
pub struct Taken {
    /// The tool's figures.
    pub measured: Measured,
    /// Processors, memory and link.
    pub counted: Counted,
    /// When it began, seconds since 1970.
    pub started: f64,
    /// What machines with an agent counted, by their names.
    pub hosts: BTreeMap<String, Machine>,
    /// What else used the link.
    pub neighbours: Vec<Neighbour>,
    /// What the targets' caches counted.
    pub target_counters: Counters,
}
