//! iperf: version 3's JSON, version 2's CSV and text.
//!
//! A stream has bytes and no I/Os. What the client sends is a write, what it receives (`-R`, `--bidir`) a read; the rate is
//! the receiver's where the file has it, because what was sent and not received is no payload. iperf 3's processor figures are
//! of its own process on each side, in per cent of one processor.

mod three;
mod two;

use anyhow::Result;

use super::source::Source;
use lab_model::result::PointResult;

/// Every test of a file.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    if source.text.trim_start().starts_with('{') { three::read(source) } else { two::read(source) }
}
