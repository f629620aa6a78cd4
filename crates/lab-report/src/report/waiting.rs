//! What fio's latencies leave out when it keeps a rate.
//!
//! fio waits with a target that stalls, and submits what was due meanwhile when it goes on: latencies count from that moment. Against an NBD
//! server that was stopped for one second of four, at 1,000 I/Os a second, fio 3.33 told a 99th percentile of 12 ms, with
//! `rate_process=poisson` of 9 ms, where a client whose requests were due would have seen 960 ms. `linerate bench` counts from when an
//! I/O was due. So the report says, beside every latency, which arms' latencies leave out the wait.

use std::collections::BTreeSet;

use lab_model::result::PointResult;
use lab_model::scenario::Metric;

/// Whether a result's latencies count from submission though a rate was to be kept.
fn leaves_out_waiting(result: &PointResult) -> bool {
    result.tool.name == "fio" && result.extra.contains_key("rate_iops")
}

/// The sentence about results of which some leave out what I/Os waited; `None` where none does.
pub(crate) fn note<'r>(results: impl Iterator<Item = &'r PointResult>) -> Option<String> {
    let (mut arms, mut late) = (BTreeSet::new(), 0.0_f64);
    for result in results.filter(|result| leaves_out_waiting(result)) {
        arms.insert(result.arm.as_str());
        late = late.max(result.extra.get("late_ios").copied().unwrap_or_default());
    }
    let arms: Vec<&str> = arms.into_iter().collect();
    (!arms.is_empty()).then(|| {
        format!(
            "fio keeps the rate of {} in a closed loop: these latencies count from submission and leave out how long an I/O that was due \
             waited for it. At the end of a second, up to {late:.0} I/Os were due and had not ended.",
            arms.join(", ")
        )
    })
}

/// Whether a metric is a latency.
pub(crate) const fn is_latency(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::LatencyMean
            | Metric::LatencyMin
            | Metric::LatencyP50
            | Metric::LatencyP95
            | Metric::LatencyP99
            | Metric::LatencyP999
            | Metric::LatencyP9999
            | Metric::LatencyMax
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::statistics::synthetic::result;

    #[test]
    fn a_rate_that_fio_keeps_is_told_and_one_that_bench_keeps_is_not() {
        let of = |tool: &str, arm: &str, rate: bool| {
            let mut result = result(arm, 1, 1000.0);
            tool.clone_into(&mut result.tool.name);
            if rate {
                result.extra = [("rate_iops".to_owned(), 1000.0), ("late_ios".to_owned(), 900.0)].into();
            }
            result
        };
        let results = [of("fio", "B", true), of("linerate bench", "A", true), of("fio", "C", false)];
        let words = note(results.iter()).unwrap();
        assert!(words.starts_with("fio keeps the rate of B in a closed loop"), "{words}");
        assert!(words.contains("up to 900 I/Os were due"), "{words}");
        assert_eq!(note(results.iter().skip(1)), None);
    }
}
