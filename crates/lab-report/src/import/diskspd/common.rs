//! What both ways of writing DiskSpd's results share.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::super::source::seconds_only;
use lab_model::result::{Latency, PointResult};

/// What stands in evidence and tool.
pub(super) const TOOL: &str = "DiskSpd";

/// `2019/01/24 10:36:41 UTC` in RFC 3339.
pub(super) fn start_time(text: &str) -> Option<String> {
    let bare = text.trim().trim_end_matches("UTC").trim();
    let at = DateTime::strptime("%Y/%m/%d %H:%M:%S", bare).ok()?;
    at.to_zoned(TimeZone::UTC).ok().map(|zoned| seconds_only(zoned.timestamp()))
}

/// Puts a percentile (0 to 100) into a distribution; 0 and 100 are its ends.
pub(super) fn put(latency: &mut Latency, percentile: f64, nanoseconds: f64) {
    if percentile <= 0.0 {
        latency.min = nanoseconds;
    } else if percentile >= 100.0 {
        latency.max = nanoseconds;
    } else {
        latency.percentiles.insert(format!("p{percentile}"), nanoseconds);
    }
}

/// Both directions' distribution as further figures.
pub(super) fn put_total(result: &mut PointResult, total: &Latency) {
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
