//! How long a load may take, and when its window was.

use std::time::Duration;

use super::assignment::Measured;

/// Longest time that a load may take: half as much again as it should, and half a minute.
pub(crate) fn limit(ramp: f64, runtime: f64) -> Duration {
    Duration::from_secs_f64(1.5 * (ramp + runtime) + 30.0)
}

/// When the tool's window was. A tool that does not tell is taken to spend as long on its start as on its end.
pub(crate) fn span(measured: &Measured, (started, ended): (f64, f64), ramp: f64) -> (f64, f64) {
    let around = (ended - started - ramp - measured.seconds).max(0.0);
    let from = measured.window_start.unwrap_or(started + ramp + around / 2.0).clamp(started, ended);
    let to = (from + measured.seconds).min(ended);
    if to > from { (from, to) } else { (started, ended) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use lab_model::result::{Load, Tool};

    fn measured(window_start: Option<f64>, seconds: f64) -> Measured {
        Measured {
            tool: Tool { name: String::new(), version: String::new(), argv: Vec::new() },
            load: Load::default(),
            intervals: Vec::new(),
            extra: BTreeMap::new(),
            seconds,
            window_start,
            flags: Vec::new(),
        }
    }

    #[test]
    fn the_window_is_the_tool_s_own_where_it_tells() {
        let of = |start, seconds| span(&measured(start, seconds), (100.0, 103.0), 0.5);
        assert_eq!(of(Some(100.7), 2.0), (100.7, 102.7));
        assert_eq!(of(None, 2.0), (100.75, 102.75));
        assert_eq!(of(Some(100.7), 9.0), (100.7, 103.0));
        assert_eq!(of(Some(200.0), 2.0), (100.0, 103.0), "a clock that was set meanwhile");
    }
}
