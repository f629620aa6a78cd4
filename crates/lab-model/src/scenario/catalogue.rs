//! The scenarios that are built in, and how one is found by name or path.
//!
//! The files stand under `scenarios/` and are part of the binary, so that `linerate lab` needs nothing beside itself. The
//! list is written by hand, in the order in which it is shown; a test compares it with the folder.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use super::{Scenario, lint};

/// A scenario with the text that it was read from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub scenario: Scenario,
    /// The file, byte for byte: a run keeps a copy.
    pub text: String,
    /// SHA-256 of the text, in hexadecimal.
    pub hash: String,
    /// Where it came from: `scenarios/FAMILY/NAME.toml` when it is built in, or the path that was given.
    pub origin: String,
}

/// A built-in file: its path under `scenarios/` and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// `FAMILY/NAME.toml`.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Names files under `scenarios/`, with their texts.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(File { path: $path, text: include_str!(concat!("../../../../scenarios/", $path)) }),*]
    };
}

/// Every built-in scenario, family by family in the order of the publications.
pub const FILES: &[File] = files![
    "marvell-41000/l2.iperf.toml",
    "marvell-41000/iscsi.linux.toml",
    "marvell-41000/iscsi.windows.toml",
    "marvell-41000/iscsi.25v10.toml",
    "marvell-41000/s2d.toml",
    "chelsio-t6/nullio.toml",
    "chelsio-t6/ssd.toml",
    "chelsio-t580/iometer.toml",
    "chelsio-t580/oltp.toml",
    "chelsio-t580/jetstress.toml",
    "chelsio-t580/latency_contributors.toml",
    "solarflare-nvme-tcp/1x.toml",
    "solarflare-nvme-tcp/2x.toml",
    "solarflare-nvme-tcp/4x.1nic.toml",
    "solarflare-nvme-tcp/4x.2nic.toml",
    "solarflare-nvme-tcp/10x.toml",
    "solarflare-nvme-tcp/24x.toml",
    "solarflare-nvme-tcp/latency.read.toml",
    "solarflare-nvme-tcp/latency.write.toml",
    "solarflare-nvme-tcp/usecases.toml",
    "solarflare-nvme-tcp/cache-tier.toml",
    "chelsio-nfs-rdma/nfs.dd.toml",
    "linerate/quick.toml",
    "linerate/bench.toml",
    "linerate/adapter.toml",
    "linerate/knee.toml",
    "linerate/spin.toml",
    "linerate/wire.toml",
    "linerate/digests.toml",
    "linerate/rdma.toml",
    "linerate/tail.toml",
    "linerate/cores.toml",
    "linerate/nbd.toml",
    "linerate/nfs.toml",
    "linerate/loss.toml",
    "linerate/reorder.toml",
    "linerate/shared-memory.toml",
    "linerate/distance.toml",
    "linerate/nat.toml",
    "linerate/mixed-traffic.toml",
    "linerate/incast.toml",
    "linerate/added-latency-streaming.toml",
    "linerate/added-latency-oltp.toml",
    "linerate/cost.toml",
    "linerate/first-io.toml",
];

/// Every built-in scenario, in the order of [`FILES`].
pub fn list() -> Result<Vec<Loaded>> {
    FILES.iter().map(built_in).collect()
}

/// The scenarios of a folder of one's own: every `.toml` file below it, in the order of the paths.
pub fn list_folder(folder: &Path) -> Result<Vec<Loaded>> {
    let cannot = || format!("cannot read the folder of scenarios {}", folder.display());
    let mut paths = Vec::new();
    for entry in folder.read_dir().with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.is_dir() {
            let inner = path.read_dir().with_context(cannot)?;
            paths.extend(inner.flatten().map(|entry| entry.path()));
        } else {
            paths.push(path);
        }
    }
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn built_in(file: &File) -> Result<Loaded> {
    parse(file.text, &format!("scenarios/{}", file.path))
}

/// `FAMILY.NAME` of a file under `scenarios/`.
pub fn id_of(path: &str) -> String {
    path.trim_end_matches(".toml").replacen('/', ".", 1)
}

/// Finds a scenario: by its identifier (Linerate's own also without the family, such as `quick`), by the
/// name of a family that has only one, or as a file. Refuses one that
/// the lints find something wrong with.
pub fn load(name: &str) -> Result<Loaded> {
    let own = format!("linerate.{name}");
    if let Some(file) = FILES.iter().find(|file| [name, &own].contains(&id_of(file.path).as_str())) {
        return checked(built_in(file)?);
    }
    let family: Vec<&File> = FILES.iter().filter(|file| file.path.split('/').next() == Some(name)).collect();
    match family.as_slice() {
        [] if Path::new(name).extension().is_some_and(|end| end == "toml") => checked(read(Path::new(name))?),
        [] => bail!(
            "no scenario is called {name:?}{}; `linerate lab list` shows all, and a path must end in .toml",
            nearest(name)
        ),
        [only] => checked(built_in(only)?),
        several => {
            let ids: Vec<String> = several.iter().map(|file| id_of(file.path)).collect();
            bail!("{name} is a family of {} scenarios; choose one of {}", ids.len(), ids.join(", "))
        }
    }
}

fn read(path: &Path) -> Result<Loaded> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the scenario {}", path.display()))?;
    parse(&text, &path.display().to_string())
}

/// Reads a scenario's text; `origin` is what messages call it.
pub fn parse(text: &str, origin: &str) -> Result<Loaded> {
    let scenario = toml::from_str(text)
        .map_err(|error| anyhow!(names::redact(&error.to_string())))
        .with_context(|| format!("{origin} is not a scenario"))?;
    Ok(Loaded { scenario, text: text.to_owned(), hash: hash(text), origin: origin.to_owned() })
}

fn checked(loaded: Loaded) -> Result<Loaded> {
    let findings: Vec<String> = lint::errors(&loaded.scenario).iter().map(ToString::to_string).collect();
    if findings.is_empty() {
        return Ok(loaded);
    }
    bail!("{} cannot be run as it is:\n  {}", loaded.origin, findings.join("\n  "))
}

/// SHA-256 of a scenario's text, in hexadecimal: two runs are of the same experiment when it is equal.
pub fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().fold(String::new(), |mut hex, byte| {
        hex.extend([byte >> 4, byte & 15].map(|half| char::from_digit(u32::from(half), 16).unwrap_or('0')));
        hex
    })
}

/// `; did you mean …?` when identifiers contain the name or a part of it.
fn nearest(name: &str) -> String {
    let wanted = name.to_lowercase();
    let parts: Vec<&str> = wanted.split(['.', '-', '/']).filter(|part| part.len() > 1).collect();
    let score = |id: &str| parts.iter().filter(|part| id.contains(**part)).count();
    let best =
        FILES.iter().map(|file| id_of(file.path)).max_by_key(|id| score(id)).filter(|id| score(id) > 0);
    best.map(|id| format!("; did you mean {id}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_standard_s() {
        // FIPS 180-4, the message "abc".
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn the_list_is_the_folder_and_every_file_says_its_own_name() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut on_disk = Vec::new();
        for family in std::fs::read_dir(&folder).unwrap() {
            for file in std::fs::read_dir(family.unwrap().path()).unwrap() {
                on_disk
                    .push(file.unwrap().path().strip_prefix(&folder).unwrap().to_str().unwrap().to_owned());
            }
        }
        on_disk.sort();
        let mut listed: Vec<String> = FILES.iter().map(|file| file.path.to_owned()).collect();
        listed.sort();
        assert_eq!(listed, on_disk);
        for loaded in list().unwrap() {
            assert_eq!(format!("scenarios/{}.toml", loaded.scenario.id.replacen('.', "/", 1)), loaded.origin);
        }
    }

    #[test]
    fn every_experiment_of_the_five_publications_is_there() {
        let experiments = [
            "marvell-41000.l2.iperf",
            "marvell-41000.iscsi.linux",
            "marvell-41000.iscsi.windows",
            "marvell-41000.iscsi.25v10",
            "marvell-41000.s2d",
            "chelsio-t6.nullio",
            "chelsio-t6.ssd",
            "chelsio-t580.iometer",
            "chelsio-t580.oltp",
            "chelsio-t580.jetstress",
            "chelsio-t580.latency_contributors",
            "solarflare-nvme-tcp.1x",
            "solarflare-nvme-tcp.2x",
            "solarflare-nvme-tcp.4x.1nic",
            "solarflare-nvme-tcp.4x.2nic",
            "solarflare-nvme-tcp.24x",
            "solarflare-nvme-tcp.latency.read",
            "solarflare-nvme-tcp.latency.write",
            "solarflare-nvme-tcp.usecases",
            "solarflare-nvme-tcp.10x",
            "solarflare-nvme-tcp.cache-tier",
            "chelsio-nfs-rdma.nfs.dd",
        ];
        for id in experiments {
            let scenario = load(id).unwrap().scenario;
            assert!(!scenario.figures.is_empty() && !scenario.claims.is_empty(), "{id}");
            assert!(!scenario.arms.is_empty() || !scenario.missing.is_empty(), "{id}");
        }
        let others =
            FILES.iter().map(|file| id_of(file.path)).filter(|id| !experiments.contains(&id.as_str()));
        assert!(others.into_iter().all(|id| id.starts_with("linerate.")));
    }

    #[test]
    fn a_short_name_finds_what_it_means() {
        assert_eq!(load("quick").unwrap().scenario.id, "linerate.quick");
        assert_eq!(load("chelsio-nfs-rdma").unwrap().scenario.id, "chelsio-nfs-rdma.nfs.dd");
        assert!(load("marvell-41000").unwrap_err().to_string().contains("marvell-41000.s2d"));
        assert!(load("chelsio.nulio").unwrap_err().to_string().contains("did you mean chelsio"));
    }

    #[test]
    fn an_identifier_keeps_the_dots_of_a_name() {
        assert_eq!(id_of("solarflare-nvme-tcp/4x.1nic.toml"), "solarflare-nvme-tcp.4x.1nic");
    }

    #[test]
    fn a_path_is_read_and_what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, "id = 'mine.one'\ncolour = 'red'\n").unwrap();
        let error = format!("{:#}", load(path.to_str().unwrap()).unwrap_err());
        assert!(error.contains("mine.toml") && error.contains("colour"), "{error}");
        let error = load("no/such.toml").unwrap_err().to_string();
        assert!(error.contains("no/such.toml"), "{error}");
    }
}
