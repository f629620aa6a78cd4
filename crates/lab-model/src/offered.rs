//! Whether the load that was asked for is the one that was put on, by the tool's own counts.
//!
//! A tool that quietly doubles one arm's block size makes that arm look slow or fast and fails nothing. So what a tool counted is held
//! against what it was told: bytes of an I/O, the share of reads, the rate, and the I/Os under way by Little's law.

use std::collections::BTreeMap;

use crate::result::{Direction, Flag, PointResult};
use crate::statistics::little;
use crate::statistics::number::{real, real_length};

/// How far bytes of an I/O may be from the block size, as a share: the last I/O of a volume may be shorter. Beside it, a window may
/// count the bytes of what was under way when it began, and not the I/Os: fio does behind its ramp.
const SIZE_SLACK: f64 = 0.02;
/// How far the share of reads may be from the one asked for, beside four standard errors of a random mix.
const MIX_SLACK: f64 = 0.02;
/// How far a rate or a depth may be above the one asked for, as a share: windows do not begin between two I/Os.
const MOST_SLACK: f64 = 0.15;
/// Of a second.
const NANOSECONDS: f64 = 1e9;
/// Below this share of the depth asked for, something else than the arm kept the queue empty.
const LEAST_DEPTH: f64 = 0.2;

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Options by their names, as the tool got them.
    pub settings: &'a BTreeMap<String, String>,
    /// Volumes that the load was spread over, on all hosts; at least 1.
    pub volumes: usize,
}

/// What of the load is not as it was asked for. Empty where the tool has no counts to tell by.
pub fn check(asked: Asked<'_>, result: &PointResult) -> Vec<Flag> {
    let details = [size(asked, result), mix(asked, result), rate(asked, result), depth(asked, result)];
    details.into_iter().flatten().map(|detail| Flag::OutsideProfile { detail }).collect()
}

fn size(asked: Asked<'_>, result: &PointResult) -> Option<String> {
    let under_way = asked.most_under_way();
    let asked = asked.number("bs")?;
    result.directions().filter(|direction| direction.ios > 0 && direction.bytes > 0).find_map(|direction| {
        let each = real(direction.bytes) / real(direction.ios);
        let slack = SIZE_SLACK + under_way / real(direction.ios);
        ((each / asked - 1.0).abs() > slack).then(|| {
            format!("blocks of {asked:.0} bytes were asked for, and the tool's own counts make {each:.0} bytes an I/O")
        })
    })
}

fn mix(asked: Asked<'_>, result: &PointResult) -> Option<String> {
    let share = match asked.settings.get("rw")?.as_str() {
        "read" | "randread" => 1.0,
        "write" | "randwrite" => 0.0,
        "rw" | "readwrite" | "randrw" => asked.number("rwmixread").unwrap_or(50.0) / 100.0,
        _ => return None,
    };
    let count = |direction: Option<&Direction>| direction.map_or(0.0, |direction| real(direction.ios));
    let (reads, writes) = (count(result.load.read.as_ref()), count(result.load.write.as_ref()));
    let all = reads + writes;
    let seen = (all > 0.0).then(|| reads / all)?;
    let slack =
        if share > 0.0 && share < 1.0 { 4.0 * (share * (1.0 - share) / all).sqrt() + MIX_SLACK } else { 0.0 };
    ((seen - share).abs() > slack).then(|| {
        format!("{:.0} % reads were asked for, and the tool counted {:.1} %", share * 100.0, seen * 100.0)
    })
}

fn rate(asked: Asked<'_>, result: &PointResult) -> Option<String> {
    let each = asked.number("rate_iops")?;
    let most = each * asked.number("numjobs").unwrap_or(1.0) * real_length(asked.volumes.max(1));
    let seen = result.iops();
    (seen > most * (1.0 + MOST_SLACK))
        .then(|| format!("at most {most:.0} I/Os a second were asked for, and the tool made {seen:.0}"))
}

/// A queue is told by depth and jobs, on each volume or over all of them, as tools have it: above the greater and below the lesser
/// is wrong. I/Os that were under way when the window began end in it, and their mean holds the time before it, too. At a rate, I/Os
/// that are due wait: `linerate bench` counts that as theirs, and fio sends no more than it has to.
fn depth(asked: Asked<'_>, result: &PointResult) -> Option<String> {
    if asked.settings.contains_key("rate_iops") {
        return None;
    }
    let (least, most) = (asked.least_under_way(), asked.most_under_way());
    let seen = little::depth(result)?;
    // An I/O of fio's null engine is over when it begins.
    let pauses = asked.settings.contains_key("thinktime") || asked.is("ioengine", "null");
    if seen > most * (1.0 + MOST_SLACK + longest_wait(result)) + 1.0 {
        Some(format!(
            "at most {most:.0} I/Os under way were asked for, and by Little's law there were {seen:.1}"
        ))
    } else if !pauses && seen < least * LEAST_DEPTH {
        Some(format!("{least:.0} I/Os under way were asked for, and by Little's law there were {seen:.1}"))
    } else {
        None
    }
}

/// The longest I/O as a share of the window: nothing that was under way when the window began brings more time from before it.
fn longest_wait(result: &PointResult) -> f64 {
    let share = |direction: &Direction| {
        let seconds = real(direction.ios) / direction.iops;
        let longest = direction.latency.as_ref()?.max / NANOSECONDS;
        (seconds > 0.0 && seconds.is_finite()).then_some(longest / seconds)
    };
    result.directions().filter_map(share).fold(0.0, f64::max)
}

impl Asked<'_> {
    /// I/Os under way at a time where depth and jobs are those of all volumes together.
    fn least_under_way(&self) -> f64 {
        self.number("iodepth").unwrap_or(1.0) * self.number("numjobs").unwrap_or(1.0)
    }

    /// The same where they are those of each volume.
    fn most_under_way(&self) -> f64 {
        self.least_under_way() * real_length(self.volumes.max(1))
    }

    /// Whether a setting has this value.
    fn is(&self, name: &str, value: &str) -> bool {
        self.settings.get(name).is_some_and(|own| own == value)
    }

    /// A setting that is one number, such as `4k`; mixed block sizes are none.
    fn number(&self, name: &str) -> Option<f64> {
        if name == "bs" && ["bssplit", "bsrange"].iter().any(|mixed| self.settings.contains_key(*mixed)) {
            return None;
        }
        let text = self.settings.get(name)?.trim().to_ascii_lowercase();
        let units = [("k", 1024.0), ("m", 1_048_576.0), ("g", 1_073_741_824.0)];
        let unit = units.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)));
        let (digits, worth) = unit.unwrap_or((&text, 1.0));
        Some(digits.parse::<f64>().ok()? * worth).filter(|&number| number > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Latency;
    use crate::statistics::synthetic;

    /// A result of ten seconds: reads and writes so many, of so many bytes, that take so many microseconds each.
    fn result(reads: u64, writes: u64, bytes: u64, microseconds: f64) -> PointResult {
        let mut result = synthetic::result("A", 1, 0.0);
        let direction = |ios: u64| {
            (ios > 0).then(|| Direction {
                ios,
                bytes: ios * bytes,
                iops: real(ios) / 10.0,
                bytes_per_second: real(ios * bytes) / 10.0,
                latency: Some(Latency { mean: microseconds * 1e3, ..Latency::default() }),
            })
        };
        (result.load.read, result.load.write) = (direction(reads), direction(writes));
        result
    }

    #[track_caller]
    fn said(settings: &[(&str, &str)], result: &PointResult) -> String {
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let flags = check(Asked { settings: &settings, volumes: 1 }, result);
        assert!(flags.len() < 2 && flags.iter().all(Flag::invalidates), "{flags:?}");
        match flags.first() {
            Some(Flag::OutsideProfile { detail }) => detail.clone(),
            _ => String::new(),
        }
    }

    const READS: [(&str, &str); 3] = [("rw", "randread"), ("bs", "4k"), ("iodepth", "32")];

    #[test]
    fn what_was_asked_for_is_fine() {
        // 40,000 a second of 800 us each are 32 under way.
        assert_eq!(said(&READS, &result(400_000, 0, 4096, 800.0)), "");
        let mixed = [("rw", "randrw"), ("rwmixread", "70"), ("bs", "8k")];
        assert_eq!(said(&mixed, &result(70_100, 29_900, 8192, 50.0)), "");
    }

    #[test]
    fn a_doubled_block_size_is_found() {
        let words = said(&READS, &result(200_000, 0, 8192, 1600.0));
        assert_eq!(
            words,
            "blocks of 4096 bytes were asked for, and the tool's own counts make 8192 bytes an I/O"
        );
        let split = [("rw", "randread"), ("bs", "4k"), ("bssplit", "4k/50:8k/50")];
        assert_eq!(said(&split, &result(10_000, 0, 6144, 900.0)), "", "a mix has no one size");
    }

    #[test]
    fn what_was_under_way_when_the_window_began_may_count_as_bytes() {
        assert_eq!(said(&READS, &result(640, 0, 4096 + 200, 500_000.0)), "", "32 in 640 are a twentieth");
        assert!(said(&READS, &result(640, 0, 4096 + 300, 500_000.0)).starts_with("blocks of 4096 bytes"));
    }

    #[test]
    fn writes_among_reads_are_found() {
        let words = said(&READS, &result(400_000, 10, 4096, 800.0));
        assert_eq!(words, "100 % reads were asked for, and the tool counted 100.0 %");
        let mixed = [("rw", "randrw"), ("rwmixread", "70"), ("bs", "4k")];
        assert!(said(&mixed, &result(50_000, 50_000, 4096, 90.0)).starts_with("70 % reads"));
    }

    #[test]
    fn another_depth_is_found() {
        let words = said(&READS, &result(400_000, 0, 4096, 1600.0));
        assert_eq!(words, "at most 32 I/Os under way were asked for, and by Little's law there were 64.0");
        let words = said(&READS, &result(400_000, 0, 4096, 25.0));
        assert_eq!(words, "32 I/Os under way were asked for, and by Little's law there were 1.0");
        let null = [("ioengine", "null"), ("rw", "randread"), ("bs", "4k"), ("iodepth", "32")];
        assert_eq!(said(&null, &result(400_000, 0, 4096, 25.0)), "", "they are over at once");
    }

    #[test]
    fn a_stall_across_the_beginning_of_the_window_is_no_deeper_queue() {
        // A window of 10 s. 32 I/Os had waited for two seconds when it began, and end in it.
        let mut stalled = result(400_000, 0, 4096, 960.0);
        assert!(said(&READS, &stalled).contains("there were 38.4"), "without a stall");
        for latency in stalled.load.read.iter_mut().filter_map(|read| read.latency.as_mut()) {
            latency.max = 2e9;
        }
        assert_eq!(said(&READS, &stalled), "");
    }

    #[test]
    fn a_rate_that_is_not_kept_to_is_found() {
        let settings = [("rw", "randread"), ("bs", "4k"), ("rate_iops", "1000"), ("iodepth", "32")];
        assert!(said(&settings, &result(20_000, 0, 4096, 80.0)).starts_with("at most 1000 I/Os a second"));
        assert_eq!(said(&settings, &result(9_000, 0, 4096, 80.0)), "", "a slow arm is a result");
        assert_eq!(
            said(&settings, &result(9_000, 0, 4096, 1e6)),
            "",
            "what is due waits, and not at the arm"
        );
    }
}
