//! Runs a scenario: plan, preflight, topology, integrity, pairs, collection, tearing down.

pub mod process;
