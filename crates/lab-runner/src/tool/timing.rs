//! How long a load may take, and when its window was.

use std::time::Duration;

use super::assignment::Measured;
use crate::machine::clock::Period;

/// Longest time that a load may take: half as much again as it should, and half a minute.
pub(crate) fn limit(ramp: f64, runtime: f64) -> Duration {
    Duration::from_secs_f64(1.5 * (ramp + runtime) + 30.0)
}

/// When the tool's window was in the period in which it ran. A tool that does not tell is taken to spend as long on its start as on its end.
pub(crate) fn span(measured: &Measured, load: Period, ramp: f64) -> Period {
    let Period { from: started, to: ended } = load;
    let around = (ended - started - ramp - measured.seconds).max(0.0);
    let from = measured.window_start.unwrap_or(started + ramp + around / 2.0).clamp(started, ended);
    let to = (from + measured.seconds).min(ended);
    if to > from { Period { from, to } } else { load }
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
        let of = |start, seconds| {
            let load = Period { from: 100.0, to: 103.0 };
            let Period { from, to } = span(&measured(start, seconds), load, 0.5);
            (from, to)
        };
        assert_eq!(of(Some(100.7), 2.0), (100.7, 102.7));
        assert_eq!(of(None, 2.0), (100.75, 102.75));
        assert_eq!(of(Some(100.7), 9.0), (100.7, 103.0));
        assert_eq!(of(Some(200.0), 2.0), (100.0, 103.0), "a clock that was set meanwhile");
    }
}
