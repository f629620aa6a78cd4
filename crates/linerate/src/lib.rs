//! Volumes as a library: open a URL and read, write, flush; copy it, put load on it, ask a portal what it offers.
//!
//! Everything that can be opened is a [`volume::Volume`], whether it is memory, a file, or a disk on another machine. A
//! [`Client`] opens [`Disk`]s for a program to use from any thread, with callbacks, futures or calls that wait. The
//! functions beside it ([`copy()`], [`check()`], [`run_load`], [`discover()`]) each run an event loop on the calling thread
//! until they have their result. Either way a program needs no runtime of its own.
//!
//! `examples/` has whole programs.
#![forbid(unsafe_code)]

mod check;
mod client;
mod copy;
mod discover;
mod error;
mod job;
mod limits;
mod load;
mod open;
mod run;
mod secret;

pub use ::volume::{
    Durability, Extent, Features, Geometry, Limits, OpenError, Operation, Outcome, Volume, VolumeErrorKind,
};
pub use buf::{Buf, BufList, Foreign, SharedBuf};
pub use check::{CheckError, CheckPlan, CheckResult};
pub use client::{
    BlockingDisk, Bytes, Client, ClientConfig, Disk, DiskError, Driver, Inline, InlineDone, Wait, block_on,
};
pub use copy::{CopyError, CopyResult, Verify};
pub use discover::discover;
pub use engine::remote::Found;
pub use error::Error;
pub use load::{LoadInterval, LoadPlan, LoadResult, MOST_DEPTH, Pattern, Progress, Tally};
pub use names::VolumeUrl;
pub use run::{check, copy, run_load};
