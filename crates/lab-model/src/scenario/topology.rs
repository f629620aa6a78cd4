//! The topology that an arm gets at a point: the scenario's own, with the lab's settings in their places.
//!
//! The runner builds what [`at`] says and asks again at the next point; [`super::options::LAB`] names the settings.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use names::Span;

use super::{AdapterCore, Arm, Gateway, Link, LinkKind, Neighbour, Placement, Scenario, Topology, sweep};
use crate::result::Coordinate;

/// What is built for an arm at a point. An error names the setting whose value means nothing.
pub fn at(scenario: &Scenario, arm: &Arm, point: &[Coordinate]) -> Result<Topology> {
    let settings = sweep::settings(scenario, arm, point);
    let mut topology = scenario.topology.clone();
    count(&settings, "initiators", &mut topology.initiators)?;
    count(&settings, "targets", &mut topology.targets)?;
    count(&settings, "volumes", &mut topology.luns)?;
    count(&settings, "cores", &mut topology.cores)?;
    if let Some(copies) = settings.get("copies") {
        topology.copies = number("copies", copies)?;
    }
    if let Some(spin) = settings.get("target_spin") {
        let Span(_) = spin.parse().with_context(|| format!("target_spin = {spin:?}"))?;
        topology.target_spin = Some(spin.clone());
    }
    if let Some(digests) = settings.get("digests") {
        topology.digests = switch("digests", digests)?;
    }
    if let Some(volume) = settings.get("volume") {
        topology.volume.clone_from(volume);
    }
    if let Some(placement) = settings.get("placement") {
        topology.placement = self::placement(placement)?;
    }
    if let Some(core) = settings.get("adapter") {
        topology.adapter = adapter(core)?;
    }
    if let Some(anew) = settings.get("anew") {
        topology.anew = switch("anew", anew)?;
    }
    if let Some(neighbour) = settings.get("neighbour") {
        topology.neighbour = self::neighbour(neighbour)?;
    }
    link(&settings, &mut topology.link)?;
    Ok(topology)
}

fn count(settings: &BTreeMap<String, String>, name: &str, into: &mut u32) -> Result<()> {
    if let Some(value) = settings.get(name) {
        *into = number(name, value)?;
        ensure!(*into > 0, "{name} = {value:?}: at least one is needed");
    }
    Ok(())
}

fn number<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(name: &str, value: &str) -> Result<T> {
    value.parse().with_context(|| format!("{name} = {value:?} is not a whole number in range"))
}

fn placement(value: &str) -> Result<Placement> {
    match value {
        "same" => Ok(Placement::Same),
        "other" => Ok(Placement::Other),
        _ => bail!("placement = {value:?}: it is \"same\" or \"other\""),
    }
}

fn switch(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => bail!("{name} = {value:?}: it is \"on\" or \"off\""),
    }
}

fn adapter(value: &str) -> Result<AdapterCore> {
    match value {
        "usual" => Ok(AdapterCore::Usual),
        "apart" => Ok(AdapterCore::Apart),
        _ => bail!("adapter = {value:?}: it is \"usual\" or \"apart\""),
    }
}

fn gateway(value: &str) -> Result<Gateway> {
    match value {
        NONE => Ok(Gateway::None),
        "nat" => Ok(Gateway::Nat),
        _ => bail!("gateway = {value:?}: it is \"none\" or \"nat\""),
    }
}

fn neighbour(value: &str) -> Result<Neighbour> {
    let all = [
        Neighbour::None,
        Neighbour::Stream,
        Neighbour::Iscsi,
        Neighbour::Nvme,
        Neighbour::Nfs,
        Neighbour::All,
    ];
    all.into_iter().find(|one| one.name() == value).with_context(|| {
        let names = all.map(Neighbour::name).join(", ");
        format!("neighbour = {value:?}: it is one of {names}")
    })
}

fn link(settings: &BTreeMap<String, String>, link: &mut Link) -> Result<()> {
    match settings.get("link").map(String::as_str) {
        None => {}
        Some("loopback") => (link.kind, link.rate) = (LinkKind::Loopback, None),
        Some("physical") => (link.kind, link.rate) = (LinkKind::Physical, None),
        Some("unshaped") => link.rate = None,
        Some(rate) => {
            ensure!(link.kind != LinkKind::Loopback, "link = {rate:?}: loopback has no rate; take a veth");
            bits_per_second(rate)?;
            link.rate = Some(rate.to_owned());
        }
    }
    if let Some(mtu) = settings.get("mtu") {
        link.mtu = number("mtu", mtu)?;
    }
    if let Some(gateway) = settings.get("gateway") {
        link.gateway = self::gateway(gateway)?;
    }
    for (name, into) in [("delay", &mut link.delay), ("loss", &mut link.loss), ("reorder", &mut link.reorder)]
    {
        if let Some(value) = settings.get(name) {
            *into = (value != NONE).then(|| value.clone());
        }
    }
    Ok(())
}

/// The value of `delay`, `loss`, `reorder` and `gateway` that leaves the link as it is.
const NONE: &str = "none";

/// A share as a percentage, such as `0.1%`, in millionths.
pub fn millionths(share: &str) -> Result<u32> {
    let value = share.strip_suffix('%').and_then(|value| value.parse::<f64>().ok());
    let value = value.with_context(|| format!("share {share:?}: write it as 0.1%"))?;
    ensure!((0.0..=100.0).contains(&value), "share {share:?} is not between 0% and 100%");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
    let millionths = (value * 1e4).round() as u32;
    ensure!(millionths > 0 || value == 0.0, "share {share:?} is less than one in a million");
    Ok(millionths)
}

/// A rate as `tc` writes it, such as `2.5Gbit`, in bits per second.
pub fn bits_per_second(rate: &str) -> Result<f64> {
    let units = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)];
    let (value, unit) = units
        .iter()
        .find_map(|(name, unit)| rate.strip_suffix(name).map(|value| (value, unit)))
        .with_context(|| format!("link rate {rate:?}: write it as 5Gbit, 2.5Gbit or 100Mbit"))?;
    let value: f64 =
        value.parse().with_context(|| format!("link rate {rate:?} has no number before its unit"))?;
    ensure!(value.is_finite() && value > 0.0, "link rate {rate:?} is not above zero");
    Ok(value * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(link: &str, with: &str) -> Scenario {
        let text = format!(
            "id='f.n'\ntitle='t'\nquestion='q'\nsource={{publication='p'}}\n[workload]\ntool='fio'\n\
             [topology]\ntargets=4\nlink={link}\n[[arm]]\nkey='A'\nname='a'\ninitiator='linerate'\n\
             target='linerate-iscsi'\nevidence={{kind='real'}}\nwith={{{with}}}\n"
        );
        toml::from_str(&text).unwrap()
    }

    fn built(link: &str, with: &str) -> Result<Topology> {
        let scenario = scenario(link, with);
        at(&scenario, &scenario.arms[0], &[])
    }

    #[test]
    fn settings_take_the_place_of_the_scenario_s_own() {
        let veth = "{kind='veth',mtu=1500,rate='5Gbit'}";
        let plain = built(veth, "").unwrap();
        assert_eq!((plain.targets, plain.link.rate.as_deref()), (4, Some("5Gbit")));
        assert_eq!(plain.cores, 1);
        let other = built(
            veth,
            "targets='2',volumes='3',cores='2',mtu='9000',link='1Gbit',delay='100us',placement='same'",
        );
        let other = other.unwrap();
        assert_eq!(
            (other.targets, other.luns, other.cores, other.link.mtu, other.placement),
            (2, 3, 2, 9000, Placement::Same)
        );
        assert_eq!((other.link.rate.as_deref(), other.link.delay.as_deref()), (Some("1Gbit"), Some("100us")));
        let loopback = built(veth, "link='loopback',delay='none'").unwrap().link;
        assert_eq!((loopback.kind, loopback.rate, loopback.delay), (LinkKind::Loopback, None, None));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (link, with, part) in [
            ("{kind='loopback'}", "link='1Gbit'", "loopback"),
            ("{kind='veth'}", "link='fast'", "5Gbit"),
            ("{kind='veth'}", "link='-1Gbit'", "above zero"),
            ("{kind='veth'}", "mtu='jumbo'", "mtu"),
            ("{kind='veth'}", "targets='0'", "at least one"),
            ("{kind='veth'}", "placement='near'", "other"),
            ("{kind='veth'}", "adapter='own'", "apart"),
            ("{kind='veth'}", "neighbour='disk'", "stream, iscsi, nvme, nfs, all"),
        ] {
            let error = format!("{:#}", built(link, with).unwrap_err());
            assert!(error.contains(part), "{with}: {error}");
        }
    }

    #[test]
    fn rates_are_tc_s() {
        for (text, bits) in [("2.5Gbit", 2.5e9), ("100Mbit", 1e8), ("64kbit", 64e3)] {
            assert!((bits_per_second(text).unwrap() - bits).abs() < 1e-3);
        }
        assert!(bits_per_second("5GB").is_err());
    }
}
