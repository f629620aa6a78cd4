//! Runs scenarios: starts what is compared, puts load on it, and counts what it costs.
//!
//! [`run`] goes through a scenario in interleaved pairs and writes a [`lab_model::result::PointResult`] for each arm, point and
//! repetition. What it needs for that: [`arm`] starts targets and adapters, [`tool`] knows the load tools, [`measure`] counts
//! processor time by side, [`machine`] has processes, namespaces and the ledger of what was made, [`site`] says on which machines,
//! and [`agent`] does all that on others.
#![forbid(unsafe_code)]

pub mod agent;
pub mod arm;
pub mod machine;
pub mod measure;
pub mod run;
pub mod site;
pub mod tool;
