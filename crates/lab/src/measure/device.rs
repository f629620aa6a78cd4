//! What block devices did, and how much of the time they were busy (`/sys/class/block/NAME/stat`).
//!
//! Busy means that at least one request was on its way. For a device that serves one at a time that is its utilisation; one
//! that serves many at a time can be busy always and still take more.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::measure::process;
use crate::statistics::number::real;

/// What a device did since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    /// Seconds with a request on its way.
    pub(crate) busy: f64,
    /// Reads and writes that completed.
    pub(crate) ios: f64,
    /// Bytes that they moved.
    pub(crate) bytes: f64,
}

/// The counters of each device.
pub(crate) type Devices = BTreeMap<String, Counters>;

/// Bytes of a sector as the kernel counts them here, whatever the device's own size is.
const SECTOR: f64 = 512.0;

/// Now. Devices are named as in `/sys/class/block`: `sdb`, `nvme0n1`, `loop3`.
pub(crate) fn read(names: &[String]) -> Result<Devices> {
    let counters = |name: &String| {
        let path = format!("/sys/class/block/{name}/stat");
        let text = process::line(&path)
            .with_context(|| format!("there is no block device {name}: cannot read {path}"))?;
        let counters =
            parse(&text).with_context(|| format!("{path} is not as the kernel's documentation says"))?;
        Ok((name.clone(), counters))
    };
    names.iter().map(counters).collect()
}

/// Columns from 1: reads, 3 sectors read, 5 writes, 7 sectors written, 10 milliseconds busy.
fn parse(text: &str) -> Option<Counters> {
    let columns: Vec<f64> =
        text.split_ascii_whitespace().map(|word| word.parse().ok().map(real)).collect::<Option<_>>()?;
    let [reads, _, sectors_read, _, writes, _, sectors_written, _, _, busy, ..] = columns.as_slice() else {
        return None;
    };
    Some(Counters { busy: busy / 1e3, ios: reads + writes, bytes: (sectors_read + sectors_written) * SECTOR })
}

impl Counters {
    /// The counters at a moment between these (`share` 0) and `later` (1), as if they had grown evenly.
    pub(crate) fn toward(self, later: Self, share: f64) -> Self {
        let between = |from: f64, to: f64| from + (to - from) * share;
        Self {
            busy: between(self.busy, later.busy),
            ios: between(self.ios, later.ios),
            bytes: between(self.bytes, later.bytes),
        }
    }
}

/// I/Os and bytes of all devices after `earlier`.
pub(crate) fn traffic(earlier: &Devices, later: &Devices) -> (f64, f64) {
    let all = later.iter().filter_map(|(name, now)| Some((earlier.get(name)?, now)));
    all.fold((0.0, 0.0), |(ios, bytes), (before, now)| {
        (ios + now.ios - before.ios, bytes + now.bytes - before.bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_the_kernel_s() {
        let counters = parse("1 2 3 4 5 6 7 8 0 1500 11 0 0 0 0 0 0\n");
        assert_eq!(counters, Some(Counters { busy: 1.5, ios: 6.0, bytes: 5120.0 }));
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = read(&["none0".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no block device none0"), "{error}");
        assert_eq!(read(&[]).unwrap(), Devices::new());
    }
}
