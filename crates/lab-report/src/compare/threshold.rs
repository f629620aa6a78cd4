//! What counts as a regression: `iops<-5%`, `latency_p99>+10%`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use lab_model::scenario::Metric;
use lab_model::statistics::Ratio;

/// A change of a metric that fails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Threshold {
    /// What changes.
    pub metric: Metric,
    /// Which way.
    pub side: Side,
    /// By how many per cent at least, with its sign.
    pub percent: f64,
}

/// Which way a change fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Less than the threshold fails.
    Below,
    /// More than the threshold fails.
    Above,
}

impl Threshold {
    /// Whether a ratio of current to baseline lies beyond the threshold with its whole interval.
    pub fn fails(&self, ratio: &Ratio) -> bool {
        let limit = 1.0 + self.percent / 100.0;
        match self.side {
            Side::Below => ratio.high < limit,
            Side::Above => ratio.low > limit,
        }
    }
}

impl FromStr for Threshold {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, side, percent) = [('<', Side::Below), ('>', Side::Above)]
            .into_iter()
            .find_map(|(sign, side)| {
                text.split_once(sign).map(|(name, percent)| (name.trim(), side, percent))
            })
            .with_context(|| {
                format!("'{text}' is not a threshold; write a metric, < or >, and per cent, such as iops<-5%")
            })?;
        let metric = Metric::named(name).with_context(|| {
            let names: Vec<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
            format!("'{name}' in '{text}' is not a metric; say one of {}", names.join(", "))
        })?;
        let number = percent.trim().trim_end_matches('%').trim_end().replace('\u{2212}', "-");
        let percent: f64 = number
            .parse()
            .with_context(|| format!("'{number}' in '{text}' is not a number of per cent, such as -5%"))?;
        if !(percent > -100.0 && percent.is_finite()) {
            bail!("'{text}' can never fail: nothing falls by 100 % or more");
        }
        Ok(Self { metric, side, percent })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.side {
            Side::Below => '<',
            Side::Above => '>',
        };
        write!(f, "{}{sign}{:+}%", self.metric.name(), self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_as_they_are_shown() {
        for text in ["iops<-5%", "latency_p99>+10%", "cpu_per_io>+2.5%"] {
            assert_eq!(text.parse::<Threshold>().unwrap().to_string(), text);
        }
        assert_eq!(" iops < \u{2212}5 %".parse::<Threshold>().unwrap().to_string(), "iops<-5%");
    }

    #[test]
    fn what_is_no_threshold_is_explained() {
        for (text, part) in [
            ("iops", "such as iops<-5%"),
            ("speed<-5%", "say one of iops, bandwidth"),
            ("iops<few", "'few'"),
            ("iops<-100%", "never fail"),
            ("iops<NaN", "never fail"),
        ] {
            let error = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn only_whole_intervals_fail() {
        let ratio = |low: f64, high: f64| Ratio {
            median: f64::midpoint(low, high),
            low,
            high,
            p_value: 0.0,
            adjusted: 0.0,
        };
        let less: Threshold = "iops<-5%".parse().unwrap();
        assert!(less.fails(&ratio(0.85, 0.94)));
        assert!(!less.fails(&ratio(0.85, 0.951)));
        let more: Threshold = "latency_p99>+10%".parse().unwrap();
        assert!(more.fails(&ratio(1.11, 1.3)));
        assert!(!more.fails(&ratio(1.09, 1.3)));
    }
}
