//! DiskSpd's results, as `-Rxml` or as text: <https://github.com/microsoft/diskspd/wiki/Analyzing-test-results>.
//!
//! Each time span is a point. Latencies come with their percentiles, reads, writes and both together; the last stand in
//! `extra` as `latency_p99` and so on, because percentiles of two directions cannot be computed from each other.

mod text;
mod xml;

use anyhow::Result;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::source::{Source, seconds_only};
use crate::result::{Latency, PointResult};

/// What stands in evidence and tool.
const TOOL: &str = "DiskSpd";

/// Every time span of a file.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    if source.text.trim_start().starts_with('<') { xml::read(source) } else { text::read(source) }
}

/// `2019/01/24 10:36:41 UTC` in RFC 3339.
fn start_time(text: &str) -> Option<String> {
    let bare = text.trim().trim_end_matches("UTC").trim();
    let at = DateTime::strptime("%Y/%m/%d %H:%M:%S", bare).ok()?;
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| seconds_only(zoned.timestamp()))
}

/// Puts a percentile (0 to 100) into a distribution; 0 and 100 are its ends.
fn put(latency: &mut Latency, percentile: f64, nanoseconds: f64) {
    if percentile <= 0.0 {
        latency.min = nanoseconds;
    } else if percentile >= 100.0 {
        latency.max = nanoseconds;
    } else {
        latency.percentiles.insert(format!("p{percentile}"), nanoseconds);
    }
}

/// Both directions' distribution as further figures.
fn put_total(result: &mut PointResult, total: &Latency) {
    let mut put = |name: &str, value: f64| {
        result.extra.insert(format!("latency_{name}"), value);
    };
    put("min", total.min);
    put("mean", total.mean);
    put("max", total.max);
    for (name, value) in &total.percentiles {
        put(name, *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_become_rfc_3339() {
        assert_eq!(start_time("2019/01/24 10:36:41 UTC").as_deref(), Some("2019-01-24T10:36:41Z"));
        assert_eq!(start_time("yesterday"), None);
    }
}
