//! Whether the slowest arm's knee lies inside the sweep: a comparison in which the link is full everywhere shows the link, and
//! one in which it is full nowhere shows nothing of it.
//!
//! Scenarios on a shaped link choose its rate so that the knee lies inside. The machine decides whether it does.

use crate::result::PointResult;
use crate::scenario::sweep::Point;
use crate::scenario::{Metric, Scenario};
use crate::statistics::context::Contexts;
use crate::statistics::metric::value_of;

/// Per cent of the link's payload rate from which on it is full.
const FULL: f64 = 90.0;

/// A sentence for every arm whose knee lies outside of what was measured. Nothing for links without a rate, and for a
/// single point.
pub fn outside(scenario: &Scenario, points: &[Point], results: &[PointResult]) -> Vec<String> {
    let contexts = Contexts::new(scenario, results);
    let share = |arm: &str, point: &Point| {
        let here = results.iter().filter(|result| result.arm == arm && result.point == *point);
        let shares = here.filter_map(|result| value_of(Metric::LineRate, result, &contexts.of(result)));
        shares.reduce(f64::max)
    };
    let judge = |arm: &crate::scenario::Arm| {
        let shares: Vec<f64> = points.iter().filter_map(|point| share(&arm.key, point)).collect();
        let (least, most) =
            (shares.iter().copied().reduce(f64::min)?, shares.iter().copied().reduce(f64::max)?);
        let words = match shares.len() {
            0 | 1 => return None,
            _ if least >= FULL => {
                "filled the link at every point: what was compared is the link; raise its rate"
            }
            _ if most < FULL => {
                "filled the link at no point: its knee lies outside of the sweep; lower the link's rate"
            }
            _ => return None,
        };
        Some(format!("arm {} {words} ({least:.0} to {most:.0} % of its payload rate)", arm.key))
    };
    scenario.arms.iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Direction, Load};
    use crate::statistics::synthetic;

    fn points() -> Vec<Point> {
        ["bs=4k", "bs=64k"].map(synthetic::point).to_vec()
    }

    fn words(rates: [f64; 2]) -> Vec<String> {
        let text = "id='f.n'\ntitle='t'\nquestion='q'\nsource={publication='p'}\n[workload]\ntool='fio'\n\
            [topology]\nlink={kind='veth',mtu=1500,rate='1Gbit'}\n[[arm]]\nkey='A'\nname='a'\ninitiator='linerate'\n\
            target='linerate-iscsi'\nevidence={kind='emulated',stands_for='x'}\n";
        let scenario: Scenario = toml::from_str(text).unwrap();
        let result = |(point, rate): (Point, f64)| PointResult {
            point,
            load: Load {
                read: Some(Direction { bytes_per_second: rate, ..Direction::default() }),
                ..Load::default()
            },
            ..synthetic::result("A", 1, 1.0)
        };
        let results: Vec<PointResult> = points().into_iter().zip(rates).map(result).collect();
        outside(&scenario, &points(), &results)
    }

    #[test]
    fn only_a_knee_inside_the_sweep_is_passed_over_in_silence() {
        assert_eq!(words([20e6, 118e6]), Vec::<String>::new());
        assert!(words([117e6, 118e6])[0].contains("at every point"));
        assert!(words([20e6, 60e6])[0].contains("at no point"));
    }
}
