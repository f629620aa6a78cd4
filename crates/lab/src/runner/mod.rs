//! Runs a scenario: plan, preflight, topology, integrity, pairs, collection, tearing down.

pub mod identity;
pub mod integrity;
pub mod knee;
pub mod ledger;
pub mod measurement;
pub mod merge;
pub mod neighbour;
pub mod plan;
pub mod preflight;
pub mod process;
pub mod program;
pub mod progress;
pub mod session;
pub mod stage;
pub mod store;
pub mod topology;
