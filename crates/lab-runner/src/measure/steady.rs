//! Whether a rate was steady while it was measured.
//!
//! A line is fitted to the intervals of the window. If it climbs or falls by more than a tenth of the mean, and more than the
//! intervals' scatter explains (95 %), the window began too early or something ran out; the mean then says
//! nothing about either end. An interval in which next to nothing happened is a stall and no steady state either.

use crate::measure::limits::{STALL_SHARE, STEADY_DRIFT, STEADY_INTERVALS};
use lab_model::result::{Flag, Interval};
use lab_model::statistics::number::real_length;
use lab_model::statistics::student;

/// The flag, if the intervals show no steady state. Fewer than five of them show nothing.
pub fn check(intervals: &[Interval]) -> Option<Flag> {
    if intervals.len() < STEADY_INTERVALS {
        return None;
    }
    let rates = rates(intervals);
    let detail = stall(intervals, &rates).or_else(|| drift(intervals, &rates))?;
    Some(Flag::NoSteadyState { detail })
}

/// Transactions where there are some, else I/Os, else bytes per second.
fn rates(intervals: &[Interval]) -> Vec<f64> {
    if intervals.iter().all(|interval| interval.transactions.is_some()) {
        return intervals.iter().filter_map(|interval| interval.transactions).collect();
    }
    let moved = intervals.iter().any(|interval| interval.iops > 0.0);
    intervals.iter().map(|interval| if moved { interval.iops } else { interval.bytes_per_second }).collect()
}

fn stall(intervals: &[Interval], rates: &[f64]) -> Option<String> {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = *sorted.get(sorted.len() / 2)?;
    let (interval, rate) = intervals.iter().zip(rates).find(|(_, rate)| **rate < median * STALL_SHARE)?;
    let share = 100.0 * rate / median;
    Some(format!(
        "stalled: {share:.0} % of the median rate in the interval that ended at {:.1} s",
        interval.at
    ))
}

fn drift(intervals: &[Interval], rates: &[f64]) -> Option<String> {
    let times: Vec<f64> = intervals.iter().map(|interval| interval.at).collect();
    let line = Line::fit(&times, rates)?;
    let length = times.last()? - times.first()?;
    let drift = line.slope * length / line.mean;
    let certain = line.slope.abs() > line.error * student::quantile(rates.len().saturating_sub(2).max(1));
    let detail =
        format!("the rate changed by {:+.0} % over the window ({:+.2} % per second)", 100.0 * drift, {
            100.0 * line.slope / line.mean
        });
    (certain && drift.abs() > STEADY_DRIFT).then_some(detail)
}

/// The line of least squares.
struct Line {
    mean: f64,
    slope: f64,
    /// Standard error of the slope.
    error: f64,
}

impl Line {
    /// `None` for fewer than three values, or where they have no mean or no time between them.
    fn fit(times: &[f64], values: &[f64]) -> Option<Self> {
        let count = real_length(values.len());
        let middle = times.iter().sum::<f64>() / count;
        let mean = values.iter().sum::<f64>() / count;
        let spread: f64 = times.iter().map(|time| (time - middle).powi(2)).sum();
        if values.len() < 3 || spread <= 0.0 || mean <= 0.0 {
            return None;
        }
        let pairs = || times.iter().zip(values).map(|(time, value)| (time - middle, value - mean));
        let slope = pairs().map(|(time, value)| time * value).sum::<f64>() / spread;
        let left: f64 = pairs().map(|(time, value)| (value - slope * time).powi(2)).sum();
        Some(Self { mean, slope, error: (left / (count - 2.0) / spread).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(rates: &[f64]) -> Vec<Interval> {
        let interval = |(index, rate): (usize, &f64)| Interval {
            at: real_length(index) + 1.0,
            iops: *rate,
            ..Interval::default()
        };
        rates.iter().enumerate().map(interval).collect()
    }

    fn said(rates: &[f64]) -> Option<String> {
        match check(&intervals(rates))? {
            Flag::NoSteadyState { detail } => Some(detail),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rate_that_falls_is_found_and_told() {
        let detail = said(&[120.0, 111.0, 99.0, 90.0, 80.0]).unwrap();
        assert_eq!(detail, "the rate changed by -40 % over the window (-10.10 % per second)");
        assert!(said(&[80.0, 90.0, 99.0, 111.0, 120.0]).unwrap().contains("+40 %"));
    }

    #[test]
    fn noise_and_small_drifts_are_steady() {
        assert_eq!(said(&[100.0, 80.0, 120.0, 90.0, 115.0, 95.0]), None);
        assert_eq!(said(&[96.0, 98.0, 100.0, 102.0, 104.0]), None);
        // Scatter alone lets this line climb: nothing is certain about it.
        assert_eq!(said(&[70.0, 120.0, 75.0, 125.0, 110.0]), None);
        assert_eq!(said(&[100.0; 9]), None);
    }

    #[test]
    fn a_stall_is_found_and_placed() {
        let detail = said(&[100.0, 100.0, 3.0, 101.0, 99.0]).unwrap();
        assert_eq!(detail, "stalled: 3 % of the median rate in the interval that ended at 3.0 s");
    }

    #[test]
    fn few_intervals_or_none_moved_say_nothing() {
        assert_eq!(said(&[100.0, 50.0, 25.0, 12.0]), None);
        assert_eq!(said(&[0.0; 8]), None);
    }

    #[test]
    fn streams_and_databases_are_judged_by_what_they_count() {
        let falling = [120.0, 111.0, 99.0, 90.0, 80.0];
        let mut streams = intervals(&[0.0; 5]);
        let mut databases = intervals(&[100.0; 5]);
        for (index, rate) in falling.into_iter().enumerate() {
            streams[index].bytes_per_second = rate;
            databases[index].transactions = Some(rate);
        }
        assert!(check(&streams).is_some());
        assert!(check(&databases).is_some());
    }
}
