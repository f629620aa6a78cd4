//! What a link can carry: the rule that figures draw at line rate.

use std::collections::BTreeMap;

use crate::scenario::{LinkKind, Scenario};

use super::series::Group;

/// Headers of IPv4 and TCP with timestamps within each packet (RFC 791, RFC 9293, RFC 7323).
const IP_AND_TCP: f64 = 20.0 + 20.0 + 12.0;
/// What Ethernet puts around each packet on a wire: header, check sequence, preamble and gap (IEEE 802.3).
const ETHERNET_ON_WIRE: f64 = 14.0 + 4.0 + 8.0 + 12.0;
/// A shaper between namespaces counts the frame without what only a wire has.
const ETHERNET_IN_SHAPER: f64 = 14.0;

/// Bytes per second of TCP payload that the link of a group carries in one direction; none where it is not limited.
pub(crate) fn payload_rate(scenario: &Scenario, group: &Group<'_>) -> Option<f64> {
    let link = &scenario.topology.link;
    let mtu = group.at("mtu").and_then(|text| text.parse().ok()).unwrap_or(f64::from(link.mtu));
    let rate = bits(group.at("link").or(link.rate.as_deref())?)?;
    let around = match link.kind {
        LinkKind::Loopback => return None,
        LinkKind::Veth => ETHERNET_IN_SHAPER,
        LinkKind::Physical => ETHERNET_ON_WIRE,
    };
    Some(rate / 8.0 * (mtu - IP_AND_TCP) / (mtu + around))
}

/// Bits per second of a rate as `tc` writes it, such as `2.5Gbit`.
fn bits(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| letter.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factors: BTreeMap<&str, f64> = BTreeMap::from([
        ("kbit", 1e3),
        ("mbit", 1e6),
        ("gbit", 1e9),
        ("gbit/s", 1e9),
        ("mbit/s", 1e6),
        ("bit", 1.0),
        ("gbe", 1e9),
    ]);
    Some(number.trim().parse::<f64>().ok()? * factors.get(unit.to_ascii_lowercase().as_str())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_tc_writes_them() {
        assert_eq!(bits("2.5Gbit"), Some(2.5e9));
        assert_eq!(bits("954.6mbit"), Some(954.6e6));
        assert_eq!(bits("25GbE"), Some(25e9));
        assert_eq!(bits("fast"), None);
    }
}
