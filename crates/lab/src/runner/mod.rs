//! Runs a scenario: plan, preflight, topology, integrity, pairs, collection, tearing down.

pub mod identity;
pub mod process;
pub mod program;
pub mod topology;
