//! DiskSpd's results, as `-Rxml` or as text: <https://github.com/microsoft/diskspd/wiki/Analyzing-test-results>.
//!
//! Each time span is a point. Latencies come with their percentiles, reads, writes and both together; the last stand in
//! `extra` as `latency_p99` and so on, because percentiles of two directions cannot be computed from each other.

mod common;
mod text;
mod xml;

use anyhow::Result;

use super::source::Source;
use lab_model::result::PointResult;

/// Every time span of a file.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    if source.text.trim_start().starts_with('<') { xml::read(source) } else { text::read(source) }
}
