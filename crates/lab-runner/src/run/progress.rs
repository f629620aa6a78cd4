//! What a run tells of itself while it lasts: one event after another, shown by whoever started it.

use serde::Serialize;

/// Something that a user may want to know.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The run begins.
    Begun {
        /// Its folder.
        folder: String,
        /// Points, and measurements at least.
        points: usize,
        /// Measurements at least.
        measurements: u64,
        /// Seconds that are expected at least.
        seconds: f64,
    },
    /// A step before or after the measurements.
    Step {
        /// What is done.
        what: String,
    },
    /// One arm was measured at one point once.
    Measured {
        /// Measurements so far.
        done: u64,
        /// Measurements that are expected now.
        of: u64,
        /// Seconds that are expected to be left.
        left: f64,
        /// The point.
        point: String,
        /// The arm.
        arm: String,
        /// Repetition.
        repetition: u32,
        /// Repetitions at least.
        repetitions: u32,
        /// I/Os per second; 0 when the tool does not tell.
        iops: f64,
        /// Transactions per second, of a database.
        transactions: f64,
        /// Bytes per second.
        bytes_per_second: f64,
        /// Milliseconds to the first verified I/O; 0 when the tool measures something else.
        first_io: f64,
        /// How busy the machine was.
        cpu: Busy,
    },
    /// Something is doubtful or failed, and the run goes on.
    Warning {
        /// What.
        what: String,
    },
    /// A measurement failed or is invalid, and the run goes on; in the end its exit code says so.
    Invalid {
        /// Point, arm and repetition, and why.
        what: String,
    },
    /// The run has ended.
    Ended {
        /// The report, if one was written.
        report: Option<String>,
        /// Every measurement that failed or is invalid; empty when the run is worth what it says.
        invalid: Vec<String>,
    },
}

/// How busy a machine was, in per cent of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "(f64, f64)")]
pub struct Busy {
    /// On average.
    pub mean: f64,
    /// Half of the range over the seconds of the window.
    pub half_range: f64,
}

/// As it stands in events: a list of two.
impl From<Busy> for (f64, f64) {
    fn from(busy: Busy) -> Self {
        (busy.mean, busy.half_range)
    }
}

/// Hears of events.
pub trait Observer {
    /// Something happened.
    fn tell(&mut self, event: &Event);
}

impl Event {
    /// A step in words.
    pub fn step(what: impl Into<String>) -> Self {
        Self::Step { what: what.into() }
    }

    /// `[17/84 20 %, 06:12 left] bs=8k rw=randread B rep 3/5: 41.2k IOPS, CPU 93 % (±4 %)`, or a line like it.
    pub fn line(&self) -> String {
        match self {
            Self::Begun { folder, points, measurements, seconds } => {
                format!(
                    "{points} points, at least {measurements} measurements and {}: {folder}",
                    clock(*seconds)
                )
            }
            Self::Step { what } => what.clone(),
            Self::Warning { what } => format!("warning: {what}"),
            Self::Invalid { what } => format!("INVALID: {what}"),
            Self::Ended { report: Some(report), .. } => format!("report: {report}"),
            Self::Ended { report: None, .. } => "no report was written".to_owned(),
            Self::Measured { .. } => self.measured(),
        }
    }

    fn measured(&self) -> String {
        let Self::Measured { done, of, left, point, arm, repetition, repetitions, cpu, .. } = self else {
            return String::new();
        };
        let percent = 100 * done / (*of).max(1);
        let rate = self.rate();
        format!(
            "[{done}/{of} {percent} %, {} left] {point} {arm} rep {repetition}/{repetitions}: {rate}, CPU {:.0} % (±{:.0} %)",
            clock(*left),
            cpu.mean,
            cpu.half_range
        )
    }
}

impl Event {
    /// What the tool measured, in its own unit.
    fn rate(&self) -> String {
        match self {
            Self::Measured { iops, .. } if *iops > 0.0 => format!("{} IOPS", short(*iops)),
            Self::Measured { transactions, .. } if *transactions > 0.0 => {
                format!("{} transactions/s", short(*transactions))
            }
            Self::Measured { first_io, .. } if *first_io > 0.0 => format!("first I/O after {first_io:.0} ms"),
            Self::Measured { bytes_per_second, .. } => format!("{}B/s", short(*bytes_per_second)),
            _ => String::new(),
        }
    }
}

/// Minutes and seconds.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 359_999.0).round();
    let minutes = (whole / 60.0).floor();
    format!("{minutes:02}:{:02}", whole - minutes * 60.0)
}

/// `41.2k`: three digits and a decimal prefix.
pub fn short(value: f64) -> String {
    for (unit, prefix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= unit {
            let digits = usize::from(value < 100.0 * unit);
            return format!("{:.digits$}{prefix}", value / unit);
        }
    }
    format!("{value:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_one_line() {
        let event = Event::Measured {
            done: 17,
            of: 84,
            left: 372.4,
            point: "bs=8k rw=randread".to_owned(),
            arm: "B".to_owned(),
            repetition: 3,
            repetitions: 5,
            iops: 41_234.0,
            transactions: 0.0,
            bytes_per_second: 3e8,
            first_io: 0.0,
            cpu: Busy { mean: 93.1, half_range: 4.2 },
        };
        let line = "[17/84 20 %, 06:12 left] bs=8k rw=randread B rep 3/5: 41.2k IOPS, CPU 93 % (±4 %)";
        assert_eq!(event.line(), line);
    }

    #[test]
    fn figures_are_short() {
        let shown = [7.0, 999.0, 1000.0, 41_234.0, 283_000.0, 1.5e6, 2e9].map(short);
        assert_eq!(shown, ["7", "999", "1.0k", "41.2k", "283k", "1.5M", "2.0G"]);
        assert_eq!((clock(59.6), clock(3600.0)), ("01:00".to_owned(), "60:00".to_owned()));
    }
}
