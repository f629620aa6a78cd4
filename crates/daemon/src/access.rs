//! Who may use what: from the rules of the configuration to what the protocols ask at login.
//!
//! A volume without any rule is open to everybody who can reach a portal. As soon as one rule concerns a target, each of its volumes
//! is open only to those whom a rule names for it: a rule for one volume never opens its neighbours.

use iscsi::target;
use nvme::controller::{AllowedHost, Hosts};

use crate::accounts::Accounts;
use crate::config::{AccessEntry, Config, VolumeEntry};

/// The place of a rule in the configuration, and the rule.
type Placed<'a> = (usize, &'a AccessEntry);

/// The rules that concern a target or a volume of it.
fn rules<'a>(config: &'a Config, target: &'a str) -> impl Iterator<Item = Placed<'a>> {
    config.access.iter().enumerate().filter(move |(_, rule)| rule.concerns(config, target))
}

/// The volume of a rule that names one.
fn named<'a>(config: &'a Config, rule: &AccessEntry) -> Option<&'a VolumeEntry> {
    let name = rule.volume.as_deref()?;
    config.volumes.iter().find(|volume| volume.name == name)
}

/// True when every volume says who may use it.
pub(crate) fn restricted(config: &Config) -> bool {
    config.volumes.iter().all(|volume| rules(config, volume.target()).next().is_some())
}

/// Which initiators may use a target.
pub(crate) fn initiators(config: &Config, accounts: &Accounts, target: &str) -> target::Access {
    if rules(config, target).next().is_none() {
        return target::Access::Open;
    }
    // A rule that names NVMe hosts only is not for iSCSI initiators.
    let speaks = |(_, rule): &Placed<'_>| !rule.initiators.is_empty() || rule.chap.is_some();
    let rules = rules(config, target).filter(speaks).map(|(index, rule)| target::Rule {
        initiators: (!rule.initiators.is_empty()).then(|| rule.initiators.clone()),
        chap: accounts.of_rule(index).cloned(),
        luns: named(config, rule).map(|volume| vec![volume.lun]),
    });
    target::Access::Rules(rules.collect())
}

/// Which hosts may use a subsystem.
pub(crate) fn hosts(config: &Config, target: &str) -> Hosts {
    if rules(config, target).next().is_none() {
        return Hosts::Any;
    }
    let allowed = rules(config, target).flat_map(|(_, rule)| {
        let namespaces = named(config, rule).map(|volume| vec![volume.nsid()]);
        rule.hosts
            .iter()
            .map(move |host| AllowedHost { nqn: host.to_string(), namespaces: namespaces.clone() })
    });
    Hosts::Listed(allowed.collect())
}

/// What a configuration of an earlier version may have meant otherwise, and volumes that nobody may use.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let narrow = config.access.iter().filter_map(|rule| {
        let volume = named(config, rule)?;
        let missing = neighbours(config, volume).filter(|other| !covers(config, rule, other));
        let missing: Vec<String> = missing.map(|other| format!("{:?}", other.name)).collect();
        let (name, target) = (&volume.name, volume.target());
        (!missing.is_empty()).then(|| {
            format!(
                "[[access]] with volume = {name:?} opens that volume alone, and not {} of the same target, as earlier versions did; \
                 if all of the target is meant, write target = {target:?} instead",
                missing.join(", ")
            )
        })
    });
    let closed = config.volumes.iter().filter(|volume| {
        rules(config, volume.target()).next().is_some()
            && !config.access.iter().any(|rule| rule.opens(volume))
    });
    let closed = closed.map(|volume| {
        format!(
            "nobody may use the volume {:?}: other volumes of the target {:?} have [[access]] entries, and none is for this one; add \
             one with volume = {:?}",
            volume.name,
            volume.target(),
            volume.name
        )
    });
    narrow.chain(closed).collect()
}

fn neighbours<'a>(config: &'a Config, volume: &'a VolumeEntry) -> impl Iterator<Item = &'a VolumeEntry> {
    config.volumes.iter().filter(|other| other.target() == volume.target() && other.name != volume.name)
}

/// True when all whom the rule names may use the volume, by whatever rules.
fn covers(config: &Config, rule: &AccessEntry, volume: &VolumeEntry) -> bool {
    let open = || config.access.iter().filter(|other| other.opens(volume));
    let initiators = rule.initiators.iter().all(|name| open().any(|other| other.initiators.contains(name)));
    let hosts = rule.hosts.iter().all(|name| open().any(|other| other.hosts.contains(name)));
    let anybody = rule.initiators.is_empty() && rule.chap.is_some();
    initiators
        && hosts
        && (!anybody || open().any(|other| other.initiators.is_empty() && other.chap.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUMES: &str = "[[volume]]\nname='payroll'\ntarget='box'\nlun=0\nurl='ram:1M'\n\
                           [[volume]]\nname='scratch'\ntarget='box'\nlun=1\nurl='ram:1M'\n\
                           [[volume]]\nname='alone'\nurl='ram:1M'\n";

    fn config(access: &str) -> Config {
        let config: Config = toml::from_str(&format!("{VOLUMES}{access}")).unwrap();
        config.check().unwrap();
        config
    }

    /// The LUNs that an initiator named `who` is let in for, by the rules alone; `None` when all are open.
    fn luns(config: &Config, target: &str, who: &str) -> Option<Vec<u16>> {
        let name = format!("iqn.2026-11.test:{who}").parse().unwrap();
        let target::Access::Rules(rules) = initiators(config, &Accounts::default(), target) else {
            return None;
        };
        let rules =
            rules.iter().filter(|rule| rule.initiators.as_ref().is_none_or(|names| names.contains(&name)));
        Some(rules.flat_map(|rule| rule.luns.clone().unwrap_or(vec![0, 1])).collect())
    }

    /// The same for a host's namespaces.
    fn namespaces(config: &Config, target: &str, who: &str) -> Option<Vec<u32>> {
        let name = format!("nqn.2026-11.test:{who}");
        let Hosts::Listed(listed) = hosts(config, target) else { return None };
        let of_host = listed.iter().filter(|host| host.nqn == name);
        Some(of_host.flat_map(|host| host.namespaces.clone().unwrap_or(vec![1, 2])).collect())
    }

    const BOSS: &str = "initiators=['iqn.2026-11.test:boss']\nhosts=['nqn.2026-11.test:boss']\n";
    const INTERN: &str = "initiators=['IQN.2026-11.test:Intern']\nhosts=['nqn.2026-11.test:intern']\n";

    #[test]
    fn table_of_who_may_use_what() {
        let both = |one: &str, other: &str| format!("[[access]]\n{one}[[access]]\n{other}");
        let rule = |what: &str, who: &str| format!("{what}\n{who}");
        for (access, target, who, expected) in [
            (String::new(), "box", "boss", None),
            (format!("[[access]]\n{BOSS}"), "box", "boss", Some(vec![0, 1])),
            (format!("[[access]]\n{BOSS}"), "box", "intern", Some(vec![])),
            (format!("[[access]]\n{BOSS}"), "alone", "intern", Some(vec![])),
            (format!("[[access]]\nvolume='payroll'\n{BOSS}"), "box", "boss", Some(vec![0])),
            (format!("[[access]]\nvolume='payroll'\n{BOSS}"), "alone", "intern", None),
            (format!("[[access]]\ntarget='box'\n{BOSS}"), "box", "boss", Some(vec![0, 1])),
            (format!("[[access]]\ntarget='box'\n{BOSS}"), "alone", "boss", None),
            (
                both(&rule("volume='payroll'", BOSS), &rule("volume='scratch'", INTERN)),
                "box",
                "boss",
                Some(vec![0]),
            ),
            (
                both(&rule("volume='payroll'", BOSS), &rule("volume='scratch'", INTERN)),
                "box",
                "intern",
                Some(vec![1]),
            ),
            (
                both(&rule("volume='payroll'", BOSS), &rule("volume='scratch'", BOSS)),
                "box",
                "boss",
                Some(vec![0, 1]),
            ),
        ] {
            let config = config(&access);
            assert_eq!(luns(&config, target, who), expected, "{access} {target} {who}");
            let nsids = expected.map(|luns| luns.iter().map(|lun| u32::from(*lun) + 1).collect::<Vec<_>>());
            assert_eq!(namespaces(&config, target, who), nsids, "{access} {target} {who}");
        }
    }

    #[test]
    fn a_rule_of_one_protocol_closes_the_other() {
        let hosts_only = config("[[access]]\nhosts=['nqn.2026-11.test:boss']");
        assert_eq!(luns(&hosts_only, "box", "boss"), Some(vec![]));
        assert_eq!(namespaces(&hosts_only, "box", "boss"), Some(vec![1, 2]));
        let initiators_only = config("[[access]]\ninitiators=['iqn.2026-11.test:boss']");
        assert_eq!(namespaces(&initiators_only, "box", "boss"), Some(vec![]));
        let chap = config("[[access]]\nvolume='scratch'\nchap={user='u',secret_file='s'}");
        assert_eq!(luns(&chap, "box", "anybody"), Some(vec![1]));
        assert_eq!(namespaces(&chap, "box", "anybody"), Some(vec![]));
    }

    #[test]
    fn names_of_hosts_are_bytes_and_names_of_initiators_fold_case() {
        let config =
            config("[[access]]\ninitiators=['iqn.2026-11.test:BOSS']\nhosts=['nqn.2026-11.test:BOSS']");
        assert_eq!(luns(&config, "box", "boss"), Some(vec![0, 1]));
        assert_eq!(namespaces(&config, "box", "boss"), Some(vec![]));
        assert_eq!(namespaces(&config, "box", "BOSS"), Some(vec![1, 2]));
    }

    #[test]
    fn whoever_relied_on_one_rule_for_a_whole_target_is_told() {
        let old = config(&format!("[[access]]\nvolume='payroll'\n{BOSS}"));
        let lines = warnings(&old);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("not \"scratch\"") && lines[0].contains("target = \"box\""), "{lines:?}");
        assert!(lines[1].contains("nobody may use the volume \"scratch\""), "{lines:?}");
        for fine in [
            String::new(),
            format!("[[access]]\n{BOSS}"),
            format!("[[access]]\ntarget='box'\n{BOSS}"),
            format!("[[access]]\nvolume='alone'\n{BOSS}"),
            format!("[[access]]\nvolume='payroll'\n{BOSS}[[access]]\nvolume='scratch'\n{BOSS}"),
        ] {
            assert!(warnings(&config(&fine)).is_empty(), "{fine}");
        }
        assert!(!restricted(&old) && restricted(&config(&format!("[[access]]\n{BOSS}"))));
    }
}
