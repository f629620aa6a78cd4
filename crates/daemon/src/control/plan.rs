//! From the configuration that is served and the next one to what has to be done, or why it cannot be done while the server runs.
//!
//! Nothing is opened or changed here: a plan that is refused has cost nothing. docs/reference/configuration.md has the table of what may change.

use names::{ByteSize, Source, VolumeUrl};

use crate::config::{Config, Daemon, PortalEntry, VolumeEntry};
use crate::identity::Identity;
use crate::prepare::USUAL_MEMORY;
use crate::state::{is_ephemeral, place};

/// What is served now.
#[derive(Debug)]
pub(super) struct Situation<'a> {
    /// The configuration; `None` before the first one is served.
    pub(super) config: Option<&'a Config>,
    /// Its volumes that are open.
    pub(super) open: Vec<OpenVolume<'a>>,
    /// Volumes of earlier ones whose last requests are still under way.
    pub(super) closing: Vec<ClosingVolume<'a>>,
    /// Volumes of one name have one state, whatever they lie on.
    pub(super) states_go_by_name: bool,
}

/// A volume that is open.
#[derive(Debug)]
pub(super) struct OpenVolume<'a> {
    pub(super) entry: &'a VolumeEntry,
    pub(super) identity: &'a Identity,
}

/// A volume that is being closed.
#[derive(Debug)]
pub(super) struct ClosingVolume<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a Source,
}

/// What has to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ApplyPlan {
    /// Volumes to open: new ones, and those that could not be opened before.
    pub(super) added: Vec<VolumeEntry>,
    /// Volumes to withdraw, by name. One that is replaced by another of its name is among both.
    pub(super) removed: Vec<String>,
    /// Volumes that stay open, by name.
    pub(super) kept: Vec<String>,
    /// For each portal, the place of the one in the present configuration that listens there; `None` for those to bind.
    pub(super) portals: Vec<Option<usize>>,
}

impl ApplyPlan {
    /// What leads from one to the other, or all that speaks against it.
    pub(super) fn between(now: &Situation<'_>, next: &Config) -> Result<Self, Vec<String>> {
        let mut problems = now.config.map_or_else(Vec::new, |config| fixed(config, next));
        let mut plan = Self::default();
        for entry in &next.volumes {
            match now.open.iter().find(|open| open.entry.name == entry.name) {
                Some(open) if are_opened_alike(&open.entry.url, &entry.url) => {
                    problems.extend(another_identity(open, entry));
                    plan.kept.push(entry.name.clone());
                }
                same_name => {
                    problems.extend(same_name.and_then(|open| now.cannot_replace(open, entry)));
                    problems.extend(now.in_the_way(entry));
                    plan.added.push(entry.clone());
                }
            }
        }
        let goes = |open: &&OpenVolume<'_>| !plan.kept.contains(&open.entry.name);
        plan.removed = now.open.iter().filter(goes).map(|open| open.entry.name.clone()).collect();
        let before = now.config.map_or(&[][..], |config| &config.portals);
        match portals(before, &next.portals) {
            Ok(portals) => plan.portals = portals,
            Err(changed) => problems.extend(changed),
        }
        if problems.is_empty() { Ok(plan) } else { Err(problems) }
    }
}

impl Situation<'_> {
    /// Why a volume cannot become another one under its name.
    fn cannot_replace(&self, open: &OpenVolume<'_>, next: &VolumeEntry) -> Option<String> {
        let (was, is) = (&open.entry.url, &next.url);
        let shares_state = self.states_go_by_name && !is_ephemeral(&was.source) && !is_ephemeral(&is.source);
        let keeps_uuid = next.uuid.is_some_and(|uuid| uuid.bytes() == open.identity.uuid);
        let why = match () {
            () if are_one(&was.source, &is.source) => {
                let thing = thing(&is.source);
                format!("the same {thing} is being served, and two openings of it would destroy data")
            }
            () if shares_state || keeps_uuid => {
                "it would keep its identity, and hosts would take the one disk for the other".to_owned()
            }
            () => return None,
        };
        let name = &next.name;
        Some(format!(
            "the volume {name:?} cannot change from {was} to {is}: {why}; take the volume out, reload, and put it back, or restart"
        ))
    }

    /// What else speaks against opening a volume.
    fn in_the_way(&self, next: &VolumeEntry) -> Option<String> {
        let (name, source) = (&next.name, &next.url.source);
        let is_closing =
            |closing: &ClosingVolume<'_>| closing.name == name || are_one(closing.source, source);
        if let Some(closing) = self.closing.iter().find(|closing| is_closing(closing)) {
            return Some(format!(
                "the volume {:?} is still being closed: requests wait for what it lies on; try again later",
                closing.name
            ));
        }
        let only_read = |open: &OpenVolume<'_>| open.entry.url.is_read_only() && next.url.is_read_only();
        let is_served = |open: &&OpenVolume<'_>| {
            open.entry.name != *name && are_one(&open.entry.url.source, source) && !only_read(open)
        };
        let open = self.open.iter().find(is_served)?;
        Some(format!(
            "the volume {name:?} cannot be opened: the same {} is being served as {:?}, and two openings of it would destroy data; take {:?} out, \
             reload, and put it back as {name:?}, or restart",
            thing(source),
            open.entry.name,
            open.entry.name
        ))
    }
}

/// True when the one would be opened as the other is. The size of a file that is there counts only for its next opening.
fn are_opened_alike(one: &VolumeUrl, other: &VolumeUrl) -> bool {
    let without_size = |url: &VolumeUrl| {
        let mut url = url.clone();
        if let Source::File(file) = &mut url.source {
            file.size = None;
        }
        url
    };
    without_size(one) == without_size(other)
}

/// True when both lie on the same.
fn are_one(one: &Source, other: &Source) -> bool {
    !is_ephemeral(one) && !is_ephemeral(other) && place(one) == place(other)
}

/// What a source is called.
fn thing(source: &Source) -> &'static str {
    match source {
        Source::File(_) => "file",
        Source::Device(_) => "device",
        _ => "remote volume",
    }
}

/// Why a volume that stays open cannot get what it is to be known by.
fn another_identity(open: &OpenVolume<'_>, next: &VolumeEntry) -> Option<String> {
    let name = &next.name;
    let what = open.identity.changed_by(next.uuid, next.serial.as_deref())?;
    Some(format!(
        "the volume {name:?} cannot get another {what} while it is served: its hosts would take it for another disk in place of theirs; take it \
         out, reload, and put it back"
    ))
}

/// For each portal of the next configuration, the one of now that listens there.
fn portals(now: &[PortalEntry], next: &[PortalEntry]) -> Result<Vec<Option<usize>>, Vec<String>> {
    let mut left: Vec<usize> = (0..now.len()).collect();
    let mut take = |fits: &dyn Fn(&PortalEntry) -> bool| {
        let place = left.iter().position(|index| now.get(*index).is_some_and(fits))?;
        Some(left.remove(place))
    };
    let listens = |entry: &PortalEntry| {
        take(&|old: &PortalEntry| {
            old.listen == entry.listen && old.kind() == entry.kind() && old.udp() == entry.udp()
        })
    };
    let found: Vec<Option<usize>> = next.iter().map(listens).collect();
    let mut problems = Vec::new();
    for (entry, _) in
        next.iter().zip(&found).filter(|(entry, found)| found.is_none() && entry.listen.port != 0)
    {
        let shares =
            |old: &PortalEntry| old.listen == entry.listen && old.udp().is_some() == entry.udp().is_some();
        if let Some(old) = take(&shares).and_then(|old| now.get(old)) {
            problems.push(format!(
                "the portal {} cannot change from {} to {}: its connections speak the old protocol; take it out, reload, and put it back",
                entry.listen,
                old.kind().word(),
                entry.kind().word()
            ));
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// What cannot change at all while the server runs.
fn fixed(now: &Config, next: &Config) -> Vec<String> {
    const LOOPS: &str = "its event loops are running";
    const NAMES: &str = "every target would get another name";
    let (was, is) = (&now.daemon, &next.daemon);
    let differ = |key: fn(&Daemon) -> String| key(was) != key(is);
    let keys = [
        ("cores", differ(|daemon| daemon.cores.unwrap_or(1).to_string()), LOOPS),
        ("driver", differ(|daemon| daemon.driver.clone().unwrap_or_else(|| "auto".to_owned())), LOOPS),
        ("spin", was.spin != is.spin, LOOPS),
        ("congestion", was.congestion != is.congestion, LOOPS),
        ("state", was.state != is.state, "the state of its volumes is there"),
        ("iqn_prefix", differ(|daemon| prefix(daemon.iqn_prefix.as_deref(), crate::IQN_PREFIX)), NAMES),
        ("nqn_prefix", differ(|daemon| prefix(daemon.nqn_prefix.as_deref(), crate::NQN_PREFIX)), NAMES),
        (
            "log_format",
            was.log_format.unwrap_or_default() != is.log_format.unwrap_or_default(),
            "its log has begun",
        ),
    ];
    let changed = keys.iter().filter(|(_, differs, _)| *differs);
    let mut problems: Vec<String> = changed
        .map(|(key, _, why)| format!("[daemon] {key} cannot change while the server runs: {why}; restart"))
        .collect();
    let memory = |config: &Config| config.limits.memory.unwrap_or(ByteSize(USUAL_MEMORY));
    if memory(now) != memory(next) {
        problems.push(
            "[limits] memory cannot change while the server runs: its cores have taken their buffers; restart"
                .to_owned(),
        );
    }
    problems
}

fn prefix(given: Option<&str>, usual: &str) -> String {
    given.unwrap_or(usual).to_owned()
}

#[cfg(test)]
mod tests {
    use names::Uuid;

    use super::*;
    use crate::config::Protocol;

    const NOW: &str = "[[portal]]\nprotocol='iscsi'\nlisten='127.0.0.1:3260'\n\
                       [[portal]]\nprotocol='nvme'\nlisten='127.0.0.1:0'\n\
                       [[portal]]\nprotocol='nvme'\nlisten='127.0.0.1:0'\n\
                       [[volume]]\nname='a'\nurl='file:/a'\n\
                       [[volume]]\nname='r'\nurl='ram:1M'\n\
                       [[volume]]\nname='o'\nurl='readonly+file:/o'\n\
                       [[volume]]\nname='m'\nurl='file:/m'\nnofail=true\n";

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    fn identity() -> Identity {
        Identity::new(Uuid::random([7; 16]), None)
    }

    /// What leads from `NOW`, of which `m` could not be opened and an older `c` is being closed, to the next configuration.
    fn plan(next: &str, by_name: bool) -> Result<ApplyPlan, Vec<String>> {
        let (now, known) = (config(NOW), identity());
        let closing: names::VolumeUrl = "file:/c".parse().unwrap();
        let open = now.volumes.iter().filter(|entry| entry.name != "m");
        let situation = Situation {
            config: Some(&now),
            open: open.map(|entry| OpenVolume { entry, identity: &known }).collect(),
            closing: vec![ClosingVolume { name: "c", source: &closing.source }],
            states_go_by_name: by_name,
        };
        ApplyPlan::between(&situation, &config(next))
    }

    /// `NOW` with one text in place of another.
    fn with(old: &str, new: &str) -> String {
        assert!(NOW.contains(old), "{old}");
        NOW.replacen(old, new, 1)
    }

    fn names(plan: &ApplyPlan) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
        let added = plan.added.iter().map(|entry| entry.name.as_str()).collect();
        let [removed, kept] =
            [&plan.removed, &plan.kept].map(|names| names.iter().map(String::as_str).collect());
        (added, removed, kept)
    }

    #[test]
    fn table_of_what_comes_and_goes() {
        let url = |old: &str, new: &str| with(&format!("url='{old}'"), &format!("url='{new}'"));
        for (next, added, removed, kept) in [
            (NOW.to_owned(), &["m"][..], &[][..], &["a", "r", "o"][..]),
            (format!("{NOW}[[volume]]\nname='b'\nurl='file:/b'\n"), &["m", "b"], &[], &["a", "r", "o"]),
            (with("[[volume]]\nname='a'\nurl='file:/a'\n", ""), &["m"], &["a"], &["r", "o"]),
            (with("name='a'", "name='a'\ntarget='t'\nlun=3"), &["m"], &[], &["a", "r", "o"]),
            (url("file:/a", "file:/b"), &["a", "m"], &["a"], &["r", "o"]),
            (url("ram:1M", "ram:2M"), &["r", "m"], &["r"], &["a", "o"]),
            (url("file:/a", "file:/a?size=1G"), &["m"], &[], &["a", "r", "o"]),
            (url("file:/m", "file:/other"), &["m"], &[], &["a", "r", "o"]),
            (with("name='r'", "name='s'"), &["s", "m"], &["r"], &["a", "o"]),
            (with("name='o'", "name='p'"), &["p", "m"], &["o"], &["a", "r"]),
        ] {
            let plan = plan(&next, false).unwrap();
            assert_eq!(names(&plan), (added.to_vec(), removed.to_vec(), kept.to_vec()), "{next}");
        }
    }

    #[test]
    fn table_of_what_is_refused() {
        let url = |old: &str, new: &str| with(&format!("url='{old}'"), &format!("url='{new}'"));
        let add = |volume: &str| format!("{NOW}[[volume]]\n{volume}\n");
        for (next, expected) in [
            (
                url("file:/a", "file:/a?direct=1"),
                "\"a\" cannot change from file:/a to file:/a?direct=1: the same file",
            ),
            (url("file:/a", "delay=1s+file:/a"), "two openings of it would destroy data"),
            (with("name='a'", "name='z'"), "\"z\" cannot be opened: the same file is being served as \"a\""),
            (add("name='z'\nurl='file:/o'"), "the same file is being served as \"o\""),
            (add("name='c'\nurl='file:/z'"), "the volume \"c\" is still being closed"),
            (add("name='z'\nurl='file:/c'"), "the volume \"c\" is still being closed"),
            (with("name='a'", "name='a'\nserial='7'"), "cannot get another serial"),
            (
                with("name='a'", "name='a'\nuuid='0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21'"),
                "cannot get another uuid while it is served: its hosts would take it for another disk",
            ),
            (with("'iscsi'", "'nvme'"), "the portal 127.0.0.1:3260 cannot change from iscsi to nvme"),
            (
                with("'iscsi'", "'iscsi'\ntransport='iwarp'"),
                "the portal 127.0.0.1:3260 cannot change from iscsi to iser",
            ),
            (format!("{NOW}[daemon]\ncores=2"), "[daemon] cores cannot change while the server runs"),
            (format!("{NOW}[daemon]\nstate='/s'"), "[daemon] state cannot change"),
            (format!("{NOW}[limits]\nmemory='1G'"), "[limits] memory cannot change"),
        ] {
            let problems = plan(&next, false).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(expected), "{next}: {problems:?}");
        }
        assert_eq!(
            plan(&format!("{}[daemon]\ncores=2", with("name='a'", "name='z'")), false).unwrap_err().len(),
            2
        );
    }

    #[test]
    fn what_only_looks_different_is_the_same() {
        let uuid = Uuid::random([7; 16]);
        for next in [
            with("name='a'", &format!("name='a'\nuuid='{uuid}'")),
            with("name='a'", &format!("name='a'\nserial='{}'", identity().serial)),
            format!(
                "{NOW}[daemon]\ncores=1\ndriver='auto'\nlog_format='text'\niqn_prefix='{}'",
                crate::IQN_PREFIX
            ),
            format!("{NOW}[limits]\nmemory='512M'\nconnections=7"),
        ] {
            assert!(plan(&next, false).is_ok(), "{next}: {:?}", plan(&next, false));
        }
    }

    #[test]
    fn a_name_that_stands_for_a_state_is_not_given_to_another_disk() {
        let next = with("url='file:/a'", "url='file:/b'");
        let problems = plan(&next, true).unwrap_err();
        assert!(problems[0].contains("it would keep its identity, and hosts"), "{problems:?}");
        let uuid = Uuid::random([7; 16]);
        let problems =
            plan(&with("url='ram:1M'", &format!("url='ram:2M'\nuuid='{uuid}'")), false).unwrap_err();
        assert!(problems[0].contains("it would keep its identity, and hosts"), "{problems:?}");
        assert!(plan(&with("url='ram:1M'", "url='ram:2M'"), true).is_ok(), "it keeps no state");
    }

    #[test]
    fn portals_are_matched_by_where_they_listen() {
        let portal = |protocol: Protocol, listen: &str| PortalEntry::at(protocol, listen.parse().unwrap());
        let (iscsi, nvme) = (portal(Protocol::Iscsi, "127.0.0.1:1"), portal(Protocol::Nvme, "127.0.0.1:0"));
        let now = [iscsi.clone(), nvme.clone(), nvme.clone()];
        let found = |next: &[PortalEntry]| portals(&now, next);
        assert_eq!(found(&now), Ok(vec![Some(0), Some(1), Some(2)]));
        assert_eq!(found(&[nvme.clone(), iscsi.clone()]), Ok(vec![Some(1), Some(0)]));
        let free = portal(Protocol::Iscsi, "127.0.0.1:0");
        assert_eq!(found(&[free, nvme.clone(), nvme.clone(), nvme]), Ok(vec![None, Some(1), Some(2), None]));
        let changed = PortalEntry { advertise: Some("192.0.2.1:1".parse().unwrap()), ..iscsi };
        assert_eq!(found(&[changed]), Ok(vec![Some(0)]), "only what is told of it changes");
    }
}
