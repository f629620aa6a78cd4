//! Volumes as a library: open a URL and read, write, flush; copy it, compare it, sum it, put load on it, ask a portal what it
//! offers.
//!
//! Everything that can be opened is a [`volume::Volume`], whether it is memory, a file, or a disk on another machine. A
//! [`Client`] opens [`Disk`]s for a program to use from any thread, with callbacks, futures or calls that wait. The
//! functions beside it ([`copy()`], [`compare()`], [`check()`], [`run_load`], [`discover()`]) each run an event loop on the calling thread
//! until they have their result. Either way a program needs no runtime of its own.
//!
//! `examples/` has whole programs; [`capi`] is the interface for C, with its header in `include/`.

#[expect(unsafe_code, reason = "the C interface takes what C programs have: pointers")]
pub mod capi;
mod check;
mod checksum;
mod client;
mod compare;
mod control;
mod copy;
mod core_open;
mod discover;
mod error;
mod explain;
mod inspect;
mod job;
mod last_error;
mod limits;
mod listing;
mod load;
mod memory;
mod metadata;
mod open;
mod ordered;
mod preparing;
mod reserve;
mod run;
mod stream;
mod walk;
mod zero;
mod zeros;

pub use ::volume::{
    Designator, Durability, Extent, Features, Geometry, Identity, Limits, OpenError, Operation, Outcome,
    Volume, VolumeErrorKind, reservation,
};
pub use buf::{Buf, BufList, Foreign, Heap, MemorySource, SharedBuf};
pub use check::{CheckError, CheckErrorCause, CheckPlan, CheckResult};
pub use checksum::{Algorithm, ChecksumPlan};
pub use client::{
    BlockingDisk, Bytes, Client, ClientConfig, Congestion, Disk, DiskError, Driver, Inline, InlineDone, Run,
    Wait, block_on,
};
pub use compare::CompareResult;
pub use control::{Control, Effort, Meter, Stop};
pub use copy::{CopyPlan, CopyResult, Verify};
pub use core_open::CoreOpening;
pub use discover::discover;
pub use engine::remote::Found;
pub use error::{DataError, DataErrorCause, Error, ReservationError, StreamError};
pub use inspect::Inspection;
pub use last_error::LastError;
pub use listing::list_directory;
pub use load::{
    LoadEnd, LoadError, LoadInterval, LoadPlan, LoadResult, MOST_DEPTH, Pattern, Progress, SPREAD_PARTS,
    Spread, Tally, VERIFY_BYTES, WrongData,
};
pub use metadata::{
    MOST_IN_FLIGHT, MetadataPhase, MetadataPlan, MetadataResult, Names, NamesError, run_metadata,
};
pub use names::VolumeUrl;
pub use nfs::client::names::Entry;
pub use open::{Opening, PreparedOpening, Tried, openers, try_here};
pub use ordered::{ChecksumResult, ExportResult};
pub use reserve::{Changed, Holdings, reservations, reserve};
pub use run::{check, checksum, compare, copy, export, import, inspect, map, run_load, zero};
pub use zero::{Means, ZeroPlan, ZeroResult};
