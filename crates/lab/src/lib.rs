//! The lab: published evaluations of storage adapters, run by one command on the machines at hand.
//!
//! A [`scenario`] says what is compared; the runner measures it in interleaved pairs and writes a [`result::PointResult`] for each
//! arm, point and repetition; statistics turn them into verdicts in words; the report shows them with their
//! [`evidence`]. `docs/howto/lab.md` shows the way from nothing to a report.
#![forbid(unsafe_code)]

pub mod agent;
pub mod arm;
pub mod claims;
pub mod compare;
pub mod effectiveness;
pub mod evidence;
pub mod import;
pub mod jetstress;
pub mod measure;
pub mod report;
pub mod result;
pub mod runner;
pub mod scenario;
pub mod site;
pub mod statistics;
pub mod tool;
