//! How much of the time block devices were busy (`io_ticks` of `/sys/class/block/NAME/stat`).
//!
//! Busy means that at least one request was on its way. For a device that serves one at a time that is its utilisation; one
//! that serves many at a time can be busy always and still take more.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::measure::process;
use crate::statistics::number::real;

/// Seconds that each device was busy since boot.
pub(crate) type Busy = BTreeMap<String, f64>;

/// Now. Devices are named as in `/sys/class/block`: `sdb`, `nvme0n1`, `loop3`.
pub(crate) fn read(names: &[String]) -> Result<Busy> {
    let busy = |name: &String| {
        let path = format!("/sys/class/block/{name}/stat");
        let text = process::line(&path)
            .with_context(|| format!("there is no block device {name}: cannot read {path}"))?;
        let seconds =
            parse(&text).with_context(|| format!("{path} is not as the kernel's documentation says"))?;
        Ok((name.clone(), seconds))
    };
    names.iter().map(busy).collect()
}

/// The tenth column, milliseconds, in seconds.
fn parse(text: &str) -> Option<f64> {
    Some(real(text.split_ascii_whitespace().nth(9)?.parse().ok()?) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenth_column_counts() {
        assert_eq!(parse("1 2 3 4 5 6 7 8 0 1500 11 0 0 0 0 0 0\n"), Some(1.5));
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = read(&["none0".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no block device none0"), "{error}");
        assert_eq!(read(&[]).unwrap(), Busy::new());
    }
}
