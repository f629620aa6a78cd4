//! What a metric's value depends on beside its own point: the link's payload rate, the local arm's latency and the arm's price.

use super::bootstrap::median;
use super::metric::{Context, value_of};
use crate::prices::Prices;
use crate::result::{Coordinate, PointResult};
use crate::scenario::{Initiator, Link, LinkKind, Metric, Scenario, topology};

/// Headers of IPv4 (RFC 791) and TCP (RFC 9293) with timestamps (RFC 7323) in each packet, bytes.
const IP_AND_TCP: f64 = 20.0 + 20.0 + 12.0;
/// What Ethernet puts around each packet on a wire (IEEE 802.3): header, check sequence, preamble and gap, bytes.
const ETHERNET_ON_WIRE: f64 = 14.0 + 4.0 + 8.0 + 12.0;
/// A shaper between namespaces counts the frame without what only a wire has, bytes.
const ETHERNET_IN_SHAPER: f64 = 14.0;

/// The contexts of a run's points.
#[derive(Debug)]
pub struct Contexts<'a> {
    scenario: &'a Scenario,
    /// Median of the local arm's mean latencies by point, ns.
    local: Vec<(&'a [Coordinate], f64)>,
    prices: Option<&'a Prices>,
}

impl<'a> Contexts<'a> {
    /// Of a scenario and all results of its run.
    pub fn new(scenario: &'a Scenario, results: &'a [PointResult]) -> Self {
        let local = scenario.arms.iter().find(|arm| arm.initiator == Initiator::Local);
        let measured = local.map(|arm| latencies(results, &arm.key)).unwrap_or_default();
        let local = measured.into_iter().filter_map(|(point, mut means)| {
            means.sort_by(f64::total_cmp);
            Some((point, median(&means)?))
        });
        Self { scenario, local: local.collect(), prices: None }
    }

    /// The same with what arms cost.
    #[must_use]
    pub fn priced(self, prices: Option<&'a Prices>) -> Self {
        Self { prices, ..self }
    }

    /// The context of a result. Parts that are not known are absent.
    pub fn of(&self, result: &PointResult) -> Context {
        let arm = self.scenario.arms.iter().find(|arm| arm.key == result.arm);
        let link = arm.and_then(|arm| topology::at(self.scenario, arm, &result.point).ok()).map(|at| at.link);
        let local = self.local.iter().find(|(point, _)| *point == result.point);
        Context {
            payload_rate: link.as_ref().and_then(payload_rate),
            local_latency: local.map(|(_, mean)| *mean),
            price: self.prices.and_then(|prices| prices.of(&self.scenario.id, &result.arm).ok()),
        }
    }
}

/// Mean latencies of an arm's repetitions, by point.
fn latencies<'a>(results: &'a [PointResult], arm: &str) -> Vec<(&'a [Coordinate], Vec<f64>)> {
    let mut points: Vec<(&[Coordinate], Vec<f64>)> = Vec::new();
    for result in results.iter().filter(|result| result.arm == arm) {
        let Some(mean) = value_of(Metric::LatencyMean, result, &Context::default()) else { continue };
        match points.iter_mut().find(|(point, _)| *point == result.point) {
            Some((_, means)) => means.push(mean),
            None => points.push((&result.point, vec![mean])),
        }
    }
    points
}

/// Bytes per second of TCP payload that a link carries in one direction; `None` where no rate limits it.
pub fn payload_rate(link: &Link) -> Option<f64> {
    let around = match link.kind {
        LinkKind::Loopback => return None,
        LinkKind::Veth => ETHERNET_IN_SHAPER,
        LinkKind::Physical => ETHERNET_ON_WIRE,
    };
    let bits = topology::bits_per_second(link.rate.as_deref()?).ok()?;
    let mtu = f64::from(link.mtu);
    Some(bits / 8.0 * (mtu - IP_AND_TCP).max(0.0) / (mtu + around))
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{point, result, scenario};
    use super::*;
    use crate::result::Latency;

    #[test]
    fn a_gigabit_carries_what_was_measured_of_it() {
        let link = |kind, mtu, rate: Option<&str>| Link {
            kind,
            mtu,
            rate: rate.map(str::to_owned),
            ..Link::default()
        };
        // 954.6 Mbit/s of payload went through a shaper of 1 Gbit/s; 941 Mbit/s is what a gigabit wire carries.
        let shaped = payload_rate(&link(LinkKind::Veth, 1500, Some("1Gbit"))).unwrap();
        assert!((shaped * 8.0 / 954.6e6 - 1.0).abs() < 0.003, "{shaped}");
        let wire = payload_rate(&link(LinkKind::Physical, 1500, Some("1Gbit"))).unwrap();
        assert!((wire * 8.0 / 941.5e6 - 1.0).abs() < 0.001, "{wire}");
        assert!(payload_rate(&link(LinkKind::Veth, 9000, Some("1Gbit"))).unwrap() > shaped);
        assert_eq!(payload_rate(&link(LinkKind::Loopback, 1500, Some("1Gbit"))), None);
        assert_eq!(payload_rate(&link(LinkKind::Veth, 1500, None)), None);
    }

    #[test]
    fn points_and_arms_decide_the_link_and_local_runs_the_latency() {
        let text = "[topology]\nlink={kind='veth',rate='2.5Gbit'}\n[[arm]]\nkey='L'\nname='local'\n\
            initiator='local'\ntarget='none'\nevidence={kind='real'}\n";
        let scenario = scenario(text);
        let timed = |arm: &str, repetition, mean| {
            let mut result = PointResult { point: point("bs=4k"), ..result(arm, repetition, 1000.0) };
            if let Some(read) = &mut result.load.read {
                read.ios = 10;
                read.latency = Some(Latency { mean, ..Latency::default() });
            }
            result
        };
        let results = [timed("A", 1, 99.0), timed("L", 1, 10.0), timed("L", 2, 30.0), timed("L", 3, 12.0)];
        let contexts = Contexts::new(&scenario, &results);
        let context = contexts.of(&results[0]);
        assert_eq!(context.local_latency, Some(12.0));
        assert!((context.payload_rate.unwrap() * 8.0 / 2.39e9 - 1.0).abs() < 0.01, "{context:?}");
        let slower = PointResult { point: point("link=1Gbit"), ..results[0].clone() };
        assert!(contexts.of(&slower).payload_rate.unwrap() * 8.0 < 1e9);
        assert_eq!(contexts.of(&slower).local_latency, None);
    }
}
