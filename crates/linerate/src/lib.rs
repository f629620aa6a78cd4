//! Volumes as a library: open a URL, copy it, put load on it, ask a portal what it offers.
//!
//! Each call runs an event loop on the calling thread until it has its result, so that a program needs no runtime of
//! its own. Everything that can be opened is a [`volume::Volume`], whether it is memory, a file, or a disk on
//! another machine.
#![forbid(unsafe_code)]

mod check;
mod copy;
mod discover;
mod error;
mod job;
mod load;
mod open;
mod run;
mod secret;

pub use check::{CheckError, CheckPlan, CheckResult};
pub use copy::{CopyError, CopyResult, Verify};
pub use discover::discover;
pub use engine::remote::Found;
pub use error::Error;
pub use load::{LoadInterval, LoadPlan, LoadResult, MOST_DEPTH, Pattern, Progress, Tally};
pub use run::{check, copy, run_load};
