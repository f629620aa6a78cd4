//! sysstat's logs: `sadf -j` (JSON), `sadf -d` and `sadf` (separated), and `sar`'s own text.
//!
//! sar watches a machine, not a load: its disks' transfers are not split into reads and writes unless `-b` was asked for, and
//! then only those are the load. Everything else is told in `extra`, as means, and second by second. Disks that stand on
//! others (`dm-`, `md`, `loop`) would count twice and are left out of the sums. A text's times are taken as UTC.

mod json;
mod machine;
mod separated;
mod text;

use anyhow::Result;

use super::blank::at;
use super::source::Source;
use lab_model::result::PointResult;

/// A result for each machine of a file.
pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let hosts = if source.text.trim_start().starts_with('{') {
        json::read(source)?
    } else if source.text.lines().any(|line| line.starts_with("Linux ")) {
        text::read(source)?
    } else {
        separated::read(source)?
    };
    let several = hosts.len() > 1;
    let results = hosts.into_iter().map(|(name, host)| {
        let mut result = host.result(source);
        if several {
            result.point.push(at("host", name));
        }
        result
    });
    Ok(results.collect())
}
