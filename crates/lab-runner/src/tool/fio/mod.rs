//! fio: block I/O on files, devices and NBD exports, and on volumes by engines of its own.
//!
//! fio's options keep fio's names and values. The lab adds what makes results comparable: one section for each volume
//! (its NBD engine takes one export), `json+` with total latency (submission to completion), 1 s logs, and group
//! reporting, so that percentiles are fio's own. fio keeps a rate in a closed loop: it measures from submission, so a
//! stalled target hides from its percentiles; `linerate bench --rate` measures from the intended start instead.

mod command;
mod engine;
mod log;
mod output;
mod read;
mod sample;
mod sections;
#[cfg(test)]
mod tests;

pub(super) use command::command;
pub(crate) use engine::engine;
pub use engine::{LIBISCSI_ENGINE, LINERATE_ENGINE};
pub(super) use read::read;

/// fio's JSON. fio prints warnings there too.
const OUTPUT: &str = "fio.json";
/// What the names of the first section's logs begin with: `load_iops.1.log`.
const LOGS: &str = "load";
/// Milliseconds that an entry of a log stands for.
const LOG_MILLIS: u64 = 1000;
/// The name of the second section.
const LOG_SECTION: &str = "log";
/// The name of the sections that verify data beside the load.
const VERIFIED_SECTION: &str = "verified";
/// The name of the sections that log offsets after it.
const OFFSETS_SECTION: &str = "offsets";
