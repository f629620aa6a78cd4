//! Site files: the machines, devices and rights that a scenario's arms are bound to here.
//!
//! A scenario says what is measured, a site file where. Without one, everything runs on this machine, on volumes that the
//! lab makes itself. A device of the site is written to only if nothing on it can be lost: see [`crate::machine::device`].

pub mod host;
mod processors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::arm::Endpoint;
use lab_model::evidence::Evidence;
use lab_model::prices::Prices;

pub use host::{AgentHost, HostAction};
pub use processors::Processors;

/// What a site file says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Site {
    /// What the machines have that a claim may need, such as `offload adapter` or `25GbE`.
    pub has: Vec<String>,
    /// Which processors do what.
    pub processors: Processors,
    /// The folder of fio's engines ([`crate::tool::LINERATE_ENGINE`], [`crate::tool::LIBISCSI_ENGINE`]); beside the `linerate`
    /// program where it is not named.
    pub engines: Option<PathBuf>,
    /// Arms that are bound to something of the site, by `SCENARIO/KEY` (`marvell-41000.iscsi.linux/B`) or the key alone.
    pub arm: BTreeMap<String, BoundArm>,
    /// What the arms cost, for claims of work for the price.
    pub prices: Prices,
    /// Machines with an agent, by the names that arms give.
    pub host: BTreeMap<String, AgentHost>,
}

/// An arm on something that the lab did not make, or on hosts with an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundArm {
    /// What it is, in place of the scenario's name.
    pub name: Option<String>,
    /// Where the load goes: `/dev/sdb`, `iscsi://…`, `nvme+tcp://…`, `nbd://…`, `file:…`, `rbd:…`, `mount:…`.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// The host from which the load comes; this machine where none is named.
    #[serde(default)]
    pub host: Option<String>,
    /// The host on which the scenario's target for this arm is started, in place of `endpoints`.
    #[serde(default)]
    pub target_host: Option<String>,
    /// What hosts do before, in order.
    #[serde(default)]
    pub actions: Vec<HostAction>,
    /// Whether its drives are preconditioned, which overwrites all of them.
    #[serde(default)]
    pub precondition: Option<Precondition>,
    /// The label of its figures; the machines are not the scenario's any more.
    pub evidence: Evidence,
}

/// How the drives of an arm are made ready ([`lab_model::precondition`]). Nothing of it is done unless `--destroy` names each drive's
/// serial number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precondition {
    /// How the drives were purged before, such as `nvme format --ses=1, 2026-11-20`. The lab purges nothing itself.
    pub purged: String,
    /// Seconds of a round, as PTS has it.
    #[serde(default = "a_minute")]
    pub round: f64,
}

const fn a_minute() -> f64 {
    60.0
}

impl Site {
    /// Where fio's engines are looked for.
    pub fn engines<'s>(&'s self, linerate: &'s Path) -> &'s Path {
        self.engines.as_deref().or_else(|| linerate.parent()).unwrap_or(Path::new(""))
    }

    /// Reads a site file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the site file {}", path.display()))?;
        let site: Self = toml::from_str(&text)
            .map_err(|error| anyhow!(names::redact(&error.to_string())))
            .with_context(|| format!("{} is not a site file", path.display()))?;
        site.check().with_context(|| format!("the site file {}", path.display()))?;
        Ok(site)
    }

    fn check(&self) -> Result<()> {
        self.prices.check()?;
        for (key, arm) in &self.arm {
            arm.check(key)?;
            for name in arm.hosts() {
                ensure!(
                    self.host.contains_key(name),
                    "arm.{key} names host {name}: add [host.{name}] with agent and token_file"
                );
            }
        }
        Ok(())
    }

    /// What an arm of a scenario is bound to, if the site says so.
    pub fn bound(&self, scenario: &str, key: &str) -> Option<&BoundArm> {
        self.arm.get(&format!("{scenario}/{key}")).or_else(|| self.arm.get(key))
    }
}

impl BoundArm {
    fn check(&self, key: &str) -> Result<()> {
        // The site stands in the run's folder, word for word.
        if let Some(url) = self.endpoints.iter().find(|url| names::redact(url) != **url) {
            bail!(
                "arm.{key}: the endpoint {} holds a secret: leave it out and name a file (chap_secret_file=) or an environment variable \
                 that the program reads (such as LIBISCSI_CHAP_PASSWORD or PGPASSFILE)",
                names::redact(url)
            );
        }
        match (&self.target_host, self.endpoints.is_empty()) {
            (None, true) => {
                bail!("arm.{key} has no endpoints: name at least one, such as \"/dev/sdb\", or a target_host")
            }
            (Some(_), false) => bail!("arm.{key} has both endpoints and a target_host: leave one out"),
            _ => {}
        }
        if let Some(precondition) = &self.precondition {
            ensure!(
                self.host.is_none()
                    && !self.endpoints.is_empty()
                    && self.endpoints.iter().all(|url| url.starts_with('/')),
                "arm.{key} asks for preconditioning, which is for drives of this machine: name them as endpoints such as \"/dev/nvme1n1\""
            );
            ensure!(
                !precondition.purged.trim().is_empty() && precondition.round >= 1.0,
                "arm.{key} asks for preconditioning: say in `purged` how the drives were purged, and give a `round` of a second at least"
            );
        }
        // Both would count the other's load as a stranger's.
        ensure!(
            self.host.is_none() || self.host != self.target_host,
            "arm.{key} has its load and its target on one host: name two, or leave the site out"
        );
        Ok(())
    }

    fn hosts(&self) -> impl Iterator<Item = &String> {
        self.host.iter().chain(&self.target_host).chain(self.actions.iter().map(|one| &one.host))
    }

    /// Whether an agent does anything for it.
    pub fn is_afar(&self) -> bool {
        self.hosts().next().is_some()
    }

    /// What the site says that the load opens.
    pub fn opened(&self) -> Vec<Endpoint> {
        self.endpoints.iter().map(|url| Endpoint { url: url.clone(), size: 0 }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_binds_arms_and_a_full_name_goes_before_a_key() {
        let text = "has=['25GbE']\n[arm.A]\nendpoints=['/dev/sdb']\nevidence={kind='real'}\n\
                    [arm.'f.n/A']\nendpoints=['/dev/sdc']\nevidence={kind='real'}\n";
        let site: Site = toml::from_str(text).unwrap();
        assert_eq!(site.bound("f.n", "A").unwrap().endpoints, ["/dev/sdc"]);
        assert_eq!(site.bound("f.m", "A").unwrap().endpoints, ["/dev/sdb"]);
        assert!(site.bound("f.m", "B").is_none());
        assert!(toml::from_str::<Site>("[arm.A]\nendpoints=['/dev/sdb']\n").is_err(), "no evidence");
        for url in [
            "iscsi://u%MARKER@h/iqn.2026-11.a:b/0",
            "postgresql://u:MARKER@h/db",
            "iscsi://h/x/0?secret=MARKER",
        ] {
            let text = format!("[arm.A]\nendpoints=['{url}']\nevidence={{kind='real'}}\n");
            let error = format!("{:#}", toml::from_str::<Site>(&text).unwrap().check().unwrap_err());
            assert!(error.contains("holds a secret") && !error.contains("MARKER"), "{error}");
        }
    }

    #[test]
    fn a_site_says_what_its_arms_cost() {
        let text = "[prices]\ncurrency='EUR'\n[prices.each]\nhost=4000\n[prices.parts.'f.n/A']\nhost=2\n";
        let site: Site = toml::from_str(text).unwrap();
        site.check().unwrap();
        assert_eq!(site.prices.words("f.n", "A").unwrap(), "8000 EUR (2 host at 4000)");
        let wrong: Site = toml::from_str(&text.replace("4000", "-1")).unwrap();
        assert!(wrong.check().unwrap_err().to_string().contains("prices.each.host is -1"));
        assert!(toml::from_str::<Site>("[prices]\nhost=4000\n").is_err(), "a price stands in [prices.each]");
    }

    #[test]
    fn preconditioning_is_for_drives_of_this_machine_and_says_how_they_were_purged() {
        let check = |arm: &str| {
            let text = format!("[arm.A]\nevidence={{kind='real'}}\n{arm}");
            let site: Site = toml::from_str(&text).map_err(|error| error.to_string())?;
            site.check().map_err(|error| error.to_string())
        };
        let purged = "[arm.A.precondition]\npurged='nvme format --ses=1'\n";
        assert_eq!(check(&format!("endpoints=['/dev/nvme1n1']\n{purged}")), Ok(()));
        for (arm, part) in [
            (format!("endpoints=['iscsi://h/x/0']\n{purged}"), "drives of this machine"),
            (
                "endpoints=['/dev/nvme1n1']\n[arm.A.precondition]\npurged=' '\n".to_owned(),
                "how the drives were purged",
            ),
            ("endpoints=['/dev/nvme1n1']\n[arm.A.precondition]\n".to_owned(), "purged"),
            (format!("endpoints=['/dev/nvme1n1']\n{purged}round=0.0\n"), "a second at least"),
        ] {
            assert!(check(&arm).unwrap_err().contains(part), "{arm}");
        }
    }

    #[test]
    fn arms_are_bound_to_hosts_that_the_site_names() {
        let host =
            "[host.s]\nagent='10.0.0.2:7311'\ntoken_file='/t'\n[host.c]\nagent='h:1'\ntoken_file='/t'\n";
        let check = |arm: &str| {
            let text = format!("{host}[arm.A]\nevidence={{kind='real'}}\n{arm}");
            let site: Site = toml::from_str(&text).map_err(|error| error.to_string())?;
            site.check().map_err(|error| error.to_string()).map(|()| site.bound("f", "A").unwrap().is_afar())
        };
        assert_eq!(check("target_host='s'\nhost='c'\n"), Ok(true));
        assert_eq!(check("host='c'\nendpoints=['/dev/sdb']\n"), Ok(true));
        assert_eq!(check("endpoints=['/dev/sdb']\n"), Ok(false));
        let action = "[[arm.A.actions]]\nhost='c'\n[arm.A.actions.action.nvme-connect]\nportal='10.0.0.2:4420'\nsubsystem='nqn.x'\n";
        assert_eq!(check(&format!("endpoints=['/dev/nvme1n1']\n{action}")), Ok(true));
        for (arm, part) in [
            ("", "target_host"),
            ("target_host='s'\nendpoints=['/dev/sdb']\n", "leave one out"),
            ("target_host='s'\nhost='s'\n", "one host"),
            ("target_host='x'\n", "[host.x]"),
        ] {
            assert!(check(arm).unwrap_err().contains(part), "{arm}");
        }
    }
}
