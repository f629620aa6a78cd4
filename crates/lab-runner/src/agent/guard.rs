//! What a lab may ask for: checked before anything is started.
//!
//! The agent starts only what [`crate::arm`], [`crate::tool`] and [`super::action`] know how to start, and those build their
//! command lines from words of the lab. A word that a program could take for something else (an option, a path outside
//! of the session, an engine that is a file) is refused here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::limits::{SETTINGS, VOLUMES, WORD};
use crate::arm::{Endpoint, Volumes};
use crate::machine::device;
use crate::tool::ADDED;
use lab_model::scenario::{ToolKind, options};

/// fio's engines by name; fio would also load one from a file.
const ENGINES: &[&str] = &["libaio", "io_uring", "psync", "pvsync2", "sync", "posixaio", "nbd"];
/// Schemes of endpoints that are reached over a network or hold nothing.
const SCHEMES: &[&str] = &["iscsi://", "nvme+tcp://", "nbd://", "nfs://", "postgresql://", "null:", "ram:"];

/// What belongs to a session: the folder for its files, and the serial numbers of devices whose content may be lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grounds<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) destroy: &'a BTreeSet<String>,
}

/// A name that can be a file's and a control group's.
pub(crate) fn name(name: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ensure!(
        (1..=64).contains(&name.len()) && !name.starts_with(['.', '-']) && name.bytes().all(fits),
        "{name:?} is not a name: 1 to 64 letters, digits, '-', '_' and '.', the first a letter, a digit or '_'"
    );
    Ok(())
}

/// A word without white space, control characters and quotes that is not an option.
pub(crate) fn word(word: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"\"'`$\\;|<>(){}*!#".contains(&byte);
    ensure!(
        (1..=WORD).contains(&word.len()) && !word.starts_with('-') && word.bytes().all(fits),
        "{word:?} is refused: a word may have letters, digits and signs of URLs, at most {WORD}, and must not begin with '-'"
    );
    Ok(())
}

/// A block device whose content may be lost.
pub(crate) fn block_device(path: &str, destroy: &BTreeSet<String>) -> Result<()> {
    word(path)?;
    ensure!(path.starts_with("/dev/") && !climbs(path), "{path:?} is not a device under /dev");
    let kind = std::fs::metadata(path).with_context(|| format!("cannot look at {path}"))?.file_type();
    ensure!(std::os::unix::fs::FileTypeExt::is_block_device(&kind), "{path} is not a block device");
    device::may_overwrite(Path::new(path), destroy)
}

fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// The volumes of a target: made up, in memory, files of the session, or devices that may be overwritten.
pub(crate) fn volumes(volumes: &Volumes, grounds: Grounds<'_>) -> Result<()> {
    let count = u64::from(volumes.targets) * u64::from(volumes.luns.max(1));
    ensure!(
        (1..=VOLUMES as u64).contains(&count),
        "{count} volumes are asked for: an agent serves 1 to {VOLUMES}"
    );
    let url = volumes.url.as_str();
    word(&url.replace("{n}", "n").replace("{folder}", "f"))?;
    let base = below_layers(url);
    if let Some(path) = base.strip_prefix("device:") {
        return block_device(path.split('?').next().unwrap_or_default(), grounds.destroy);
    }
    let own = ["null:", "ram:", "file:{folder}/"].iter().any(|start| base.starts_with(start));
    ensure!(
        own && !climbs(url),
        "volume {url:?} is refused: an agent serves null:, ram:, file:{{folder}}/… and device:/dev/…, slowed by limit= and delay="
    );
    Ok(())
}

/// A volume's URL without the layers that slow it down, which name nothing on the host.
fn below_layers(url: &str) -> &str {
    let mut rest = url;
    while let Some((_, below)) =
        ["limit=", "delay="].iter().find_map(|layer| rest.strip_prefix(layer)?.split_once('+'))
    {
        rest = below;
    }
    rest
}

/// Where a load goes, as the host's tools take it. `mount:NAME` is what the action `mount` mounted under that name.
pub(crate) fn endpoint(endpoint: &Endpoint, grounds: Grounds<'_>) -> Result<Endpoint> {
    let url = endpoint.url.as_str();
    word(url)?;
    if let Some(mounted) = url.strip_prefix("mount:") {
        name(mounted)?;
        let path = mount_point(grounds.folder, mounted);
        ensure!(path.is_dir(), "{url}: nothing is mounted under this name; give the arm an action `mount`");
        return Ok(Endpoint { url: path.display().to_string(), size: endpoint.size });
    }
    if let Some(path) = url.strip_prefix("device:") {
        block_device(path.split('?').next().unwrap_or_default(), grounds.destroy)?;
    } else if url.starts_with('/') {
        block_device(url, grounds.destroy)?;
    } else {
        let stream = url.parse::<std::net::SocketAddr>().is_ok();
        ensure!(
            stream || SCHEMES.iter().any(|scheme| url.starts_with(scheme)),
            "endpoint {url:?} is refused: an agent's load goes to {} mount:NAME, ADDRESS:PORT or a device",
            SCHEMES.join(", ")
        );
    }
    Ok(endpoint.clone())
}

/// Where the action `mount` puts what it mounts under a name.
pub(crate) fn mount_point(folder: &Path, name: &str) -> PathBuf {
    folder.join("mounts").join(name)
}

/// Options of a load: those that scenarios may use and those that the runner adds, with values that are words.
pub(crate) fn settings(tool: ToolKind, settings: &BTreeMap<String, String>) -> Result<()> {
    ensure!(settings.len() <= SETTINGS, "{} settings are more than {SETTINGS}", settings.len());
    for (name, value) in settings {
        if options::find(tool, name).is_none() && !ADDED.contains(&name.as_str()) {
            bail!("setting {name:?} is refused: {tool:?} has {}", options::names(tool));
        }
        let checked = if options::LAB.iter().any(|own| own.name == name) { Ok(()) } else { word(value) };
        checked.with_context(|| format!("setting {name}"))?;
        ensure!(
            name != "ioengine" || ENGINES.contains(&value.as_str()),
            "setting ioengine = {value:?} is refused: an agent starts fio with {}",
            ENGINES.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grounds<'a>(folder: &'a Path, destroy: &'a BTreeSet<String>) -> Grounds<'a> {
        Grounds { folder, destroy }
    }

    #[test]
    fn names_stay_within_their_folder() {
        for good in ["A", "A2-target", "x.y_z"] {
            name(good).unwrap();
        }
        for wrong in ["", ".", "..", "a/b", "-a", "a b", "\u{e9}", &"a".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn volumes_are_the_session_s_own() {
        let (folder, destroy) = (tempfile::tempdir().unwrap(), BTreeSet::new());
        let of = |targets, url: &str| {
            let one = Volumes { targets, luns: 2, url: url.to_owned() };
            volumes(&one, grounds(folder.path(), &destroy))
        };
        let slow = "delay=75us+limit=150000iops+ram:64M";
        for good in ["null:1G", "ram:64M", slow, "file:{folder}/{n}.img?size=64M"] {
            of(2, good).unwrap();
        }
        for wrong in [
            "file:/etc/passwd",
            "file:{folder}/../x",
            "device:/dev/null",
            "device:/dev/../etc/x",
            "x:1",
            "",
            "null:1 G",
            "limit=1iops+file:/x",
        ] {
            assert!(of(1, wrong).is_err(), "{wrong:?}");
        }
        assert!(of(0, "null:1G").is_err() && of(u32::MAX, "null:1G").is_err());
    }

    #[test]
    fn loads_go_to_networks_mounts_and_free_devices_alone() {
        let (folder, destroy) = (tempfile::tempdir().unwrap(), BTreeSet::new());
        let of = |url: &str| {
            endpoint(&Endpoint { url: url.to_owned(), size: 1 }, grounds(folder.path(), &destroy))
        };
        for good in ["iscsi://10.0.0.1/iqn.x/0", "nvme+tcp://[::1]:4420/nqn.x/1", "10.0.0.1:5201", "null:1G"]
        {
            assert_eq!(of(good).unwrap().url, good);
        }
        for wrong in
            ["/etc/passwd", "/dev/null", "file:/etc/x", "nbd+unix:///?socket=/s", "--x", "a b", "mount:../x"]
        {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        assert!(of("mount:data").unwrap_err().to_string().contains("action"));
        std::fs::create_dir_all(mount_point(folder.path(), "data")).unwrap();
        assert!(of("mount:data").unwrap().url.ends_with("mounts/data"));
    }

    #[test]
    fn settings_are_those_of_scenarios() {
        let of = |name: &str, value: &str| {
            settings(ToolKind::Fio, &BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        of("bs", "4k").unwrap();
        of("bssplit", "6k/50:8k/50").unwrap();
        of("ioengine", "libaio").unwrap();
        for (name, value) in [
            ("exec_prerun", "id"),
            ("ioengine", "external:/x.so"),
            ("bs", "4k --exec_prerun=id"),
            ("rw", "-x"),
        ] {
            assert!(of(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn settings_may_be_those_that_the_runner_adds() {
        let mut added = BTreeMap::new();
        crate::tool::ask(&mut added, crate::tool::Keeping::Data);
        assert_eq!(added.len(), ADDED.len());
        settings(ToolKind::Fio, &added).unwrap();
    }
}
