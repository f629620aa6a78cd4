//! Signs in a tool's figures that something other than the arm was measured.

use lab_model::result::{Flag, Load};
use lab_model::scenario::Initiator;

/// Linux delays an acknowledgement by 40 ms; Nagle's algorithm waits for it. Medians were seen from 38 to 46 ms.
const DELAYED_ACK_NANOS: (f64, f64) = (38e6, 46e6);
/// Multiples that are looked for: beyond, the ranges of neighbouring multiples meet and every latency would fit.
const MULTIPLES: u32 = 4;

/// What the load itself makes doubtful or invalid.
pub(super) fn flags(load: &Load, initiator: Initiator) -> Vec<Flag> {
    let medians = load.read.iter().chain(&load.write).filter_map(|direction| {
        direction.latency.as_ref().and_then(|latency| latency.percentiles.get("p50")).copied()
    });
    let network = initiator != Initiator::Local;
    let delayed = medians
        .filter(|median| network && is_delayed_ack(*median))
        .map(|median| Flag::DelayedAck { detail: format!("median latency {:.1} ms", median / 1e6) });
    delayed.collect()
}

/// The flag of failed I/Os.
pub(super) fn errors(count: u64, what: &str) -> Option<Flag> {
    (count > 0).then(|| Flag::Errors { detail: format!("{count} failed: {what}") })
}

fn is_delayed_ack(nanos: f64) -> bool {
    let (low, high) = DELAYED_ACK_NANOS;
    (1..=MULTIPLES).map(f64::from).any(|times| (low * times..=high * times).contains(&nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::{Direction, Latency};

    fn load(p50: f64) -> Load {
        let percentiles = [("p50".to_owned(), p50)].into();
        let latency = Some(Latency { percentiles, ..Latency::default() });
        Load { read: Some(Direction { latency, ..Direction::default() }), ..Load::default() }
    }

    #[test]
    fn forty_milliseconds_and_multiples_are_doubted_on_a_network() {
        for p50 in [38e6, 40e6, 46e6, 80e6, 120e6, 176e6] {
            assert_eq!(flags(&load(p50), Initiator::LibiscsiNbd).len(), 1, "{p50}");
            assert_eq!(flags(&load(p50), Initiator::Local), []);
        }
        for p50 in [1e6, 37e6, 47e6, 70e6, 100e6, 300e6] {
            assert_eq!(flags(&load(p50), Initiator::Linerate), [], "{p50}");
        }
    }

    #[test]
    fn failed_requests_invalidate() {
        assert_eq!(errors(0, "x"), None);
        assert!(errors(3, "x").unwrap().invalidates());
    }
}
