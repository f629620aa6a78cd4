//! Shows results: reports of a run, two runs side by side, and runs made of what other tools wrote.
//!
//! Everything here reads files of earlier runs and computes. It needs no tool and no right of the runner's, so that a report can be
//! made again on any machine.
#![forbid(unsafe_code)]

pub mod compare;
pub mod import;
pub mod jetstress;
pub mod report;

pub use report::{table, write};
