//! What block devices did, and how much of the time they were busy (`/sys/class/block/NAME/stat`).
//!
//! Busy means that at least one request was on its way. For a device that serves one at a time that is its utilisation; one
//! that serves many at a time can be busy always and still take more.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::measure::process;
use lab_model::statistics::number::real;

/// What a device did since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    /// Seconds with a request on its way.
    pub(crate) busy: f64,
    /// Reads that completed.
    pub(crate) reads: Direction,
    /// Writes that completed.
    pub(crate) writes: Direction,
    /// Bytes that they moved.
    pub(crate) bytes: f64,
}

/// Requests of one direction since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Direction {
    /// How many.
    pub(crate) ios: f64,
    /// Seconds that they took, added up.
    pub(crate) took: f64,
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

/// Columns from 1: reads, 3 sectors read, 4 milliseconds of reads, 5 to 8 the same of writes, 10 milliseconds busy.
fn parse(text: &str) -> Option<Counters> {
    let columns: Vec<f64> =
        text.split_ascii_whitespace().map(|word| word.parse().ok().map(real)).collect::<Option<_>>()?;
    let [reads, _, sectors_read, reading, writes, _, sectors_written, writing, _, busy, ..] =
        columns.as_slice()
    else {
        return None;
    };
    let direction = |ios: &f64, millis: &f64| Direction { ios: *ios, took: millis / 1e3 };
    Some(Counters {
        busy: busy / 1e3,
        reads: direction(reads, reading),
        writes: direction(writes, writing),
        bytes: (sectors_read + sectors_written) * SECTOR,
    })
}

impl Counters {
    /// The counters at a moment between these (`share` 0) and `later` (1), as if they had grown evenly.
    pub(crate) fn toward(self, later: Self, share: f64) -> Self {
        let between = |from: f64, to: f64| from + (to - from) * share;
        let direction = |from: Direction, to: Direction| Direction {
            ios: between(from.ios, to.ios),
            took: between(from.took, to.took),
        };
        Self {
            busy: between(self.busy, later.busy),
            reads: direction(self.reads, later.reads),
            writes: direction(self.writes, later.writes),
            bytes: between(self.bytes, later.bytes),
        }
    }
}

/// I/Os and bytes of all devices after `earlier`.
pub(crate) fn traffic(earlier: &Devices, later: &Devices) -> (f64, f64) {
    let all = later.iter().filter_map(|(name, now)| Some((earlier.get(name)?, now)));
    all.fold((0.0, 0.0), |(ios, bytes), (before, now)| {
        let more = now.reads.ios + now.writes.ios - before.reads.ios - before.writes.ios;
        (ios + more, bytes + now.bytes - before.bytes)
    })
}

/// Requests a second of all devices after `earlier`, and the mean time that one took, by direction, and bytes a second: by the names
/// that they have among a result's further figures. A direction in which nothing was done has no mean.
pub(crate) fn directions(earlier: &Devices, later: &Devices, seconds: f64) -> BTreeMap<String, f64> {
    let sum = |of: fn(&Counters) -> Direction| {
        let all = later.iter().filter_map(|(name, now)| Some((of(earlier.get(name)?), of(now))));
        all.fold(Direction::default(), |sum, (before, now)| Direction {
            ios: sum.ios + now.ios - before.ios,
            took: sum.took + now.took - before.took,
        })
    };
    let mut figures = BTreeMap::new();
    if later.is_empty() {
        return figures;
    }
    for (name, of) in [("read", sum(|one| one.reads)), ("write", sum(|one| one.writes))] {
        figures.insert(format!("volume_{name}s_per_second"), of.ios / seconds.max(f64::EPSILON));
        if of.ios > 0.0 {
            figures.insert(format!("volume_{name}_ns"), of.took / of.ios * 1e9);
        }
    }
    let (_, bytes) = traffic(earlier, later);
    figures.insert("volume_bytes_per_second".to_owned(), bytes / seconds.max(f64::EPSILON));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_the_kernel_s() {
        let counters = parse("1 2 3 4 5 6 7 8 0 1500 11 0 0 0 0 0 0\n");
        let direction = |ios, took| Direction { ios, took };
        let (reads, writes) = (direction(1.0, 0.004), direction(5.0, 0.008));
        assert_eq!(counters, Some(Counters { busy: 1.5, reads, writes, bytes: 5120.0 }));
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn a_direction_has_its_own_rate_and_mean() {
        let devices = |text: &str| Devices::from([("sdb".to_owned(), parse(text).unwrap())]);
        let (earlier, later) = (devices("10 0 0 5 20 0 0 7 0 0 0"), devices("30 0 0 15 20 0 0 7 0 0 0"));
        let figures = directions(&earlier, &later, 2.0);
        assert_eq!((figures["volume_reads_per_second"], figures["volume_writes_per_second"]), (10.0, 0.0));
        assert!((figures["volume_read_ns"] - 500_000.0).abs() < 1.0, "{figures:?}");
        assert_eq!(figures.get("volume_write_ns"), None);
        assert!(figures["volume_bytes_per_second"].abs() < f64::EPSILON, "{figures:?}");
        let moved = directions(&devices("1 0 0 5 2 0 0 7 0 0 0"), &devices("2 0 8 6 3 0 24 8 0 0 0"), 2.0);
        assert!((moved["volume_bytes_per_second"] - 32.0 * 512.0 / 2.0).abs() < 1e-6, "{moved:?}");
        assert_eq!(directions(&Devices::new(), &Devices::new(), 1.0), BTreeMap::new());
        assert_eq!(traffic(&earlier, &later), (20.0, 0.0));
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = read(&["none0".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no block device none0"), "{error}");
        assert_eq!(read(&[]).unwrap(), Devices::new());
    }
}
