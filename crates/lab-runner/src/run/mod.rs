//! Runs a scenario: plan, preflight, topology, integrity, pairs, collection, tearing down.

pub mod afar;
pub mod integrity;
pub mod measurement;
pub mod merge;
pub mod neighbour;
pub mod plan;
mod precondition;
pub mod preflight;
pub mod present;
pub mod progress;
pub mod session;
pub mod stage;
pub mod store;
pub mod task;
