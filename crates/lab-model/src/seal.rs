//! Evidence that cannot be rewritten unnoticed: hashes of a run's files, in the ledger of the run, each chained to the one before.
//!
//! The runner seals the scenario, `run.json`, and the folder of each measurement (its result and the tool's raw output) as soon as
//! they are written. Whoever reads the run checks them ([`check`]). A later seal of the same name replaces the earlier one:
//! `run.json` changes during a run, and a measurement that was cut off is taken again.
//!
//! Whoever rewrites files, ledger and all, makes another run with another [`Checked::digest`]: the report prints the digest, so
//! that a copy of it elsewhere settles which run is which.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The ledger's name in a run's folder.
pub const LEDGER: &str = "ledger.jsonl";

/// What is said of a result that no seal names.
pub const NEVER_SEALED: &str = "it was never sealed";

/// Folders of a run whose results count only when they are sealed.
const BLOCKS: [&str; 3] = ["points", "control", "calibration"];

/// Hashes of a file, or of all files of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The file or folder, from the run's folder on, with `/` between its parts.
    pub sealed: String,
    /// SHA-256 in hexadecimal of each file, by the same kind of path.
    pub files: BTreeMap<String, String>,
    /// [`Seal::digest`] of the seal before; empty for the first.
    pub previous: String,
}

impl Seal {
    /// Hashes what is there now. Fails when something of it cannot be read.
    pub fn of(run: &Path, what: &str, previous: &str) -> Result<Self> {
        Ok(Self { sealed: what.to_owned(), files: hashes(run, what)?, previous: previous.to_owned() })
    }

    /// SHA-256 in hexadecimal over this seal and, through `previous`, all before it.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        let pairs = self.files.iter().flat_map(|(name, hash)| [name, hash]);
        for text in [&self.previous, &self.sealed].into_iter().chain(pairs) {
            digest.update(text.as_bytes());
            digest.update(b"\n");
        }
        hex(&digest.finalize())
    }
}

/// What a check of a run found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Files that are as they were sealed.
    pub intact: usize,
    /// Digest of the last seal; `None` where a run has no seals (imported results, runs of an older lab).
    pub digest: Option<String>,
    /// What does not match.
    pub broken: Vec<Broken>,
}

/// Something that is not as it was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The sealed file or folder, from the run's folder on.
    pub sealed: String,
    /// What is wrong, in words.
    pub why: String,
}

impl Checked {
    /// Why a file does not count, if it does not. `path` is from the run's folder on.
    pub fn against(&self, path: &str) -> Option<&Broken> {
        let within = |broken: &&Broken| {
            path.strip_prefix(broken.sealed.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.broken.iter().find(within)
    }
}

/// The seals of a ledger, in their order. Lines of other kinds, and one that a cut left unfinished, are passed over.
pub fn read(ledger: &Path) -> Result<Vec<Seal>> {
    if !ledger.is_file() {
        return Ok(Vec::new());
    }
    let text = fs::read(ledger).with_context(|| format!("cannot read {}", ledger.display()))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Holds a run's files against its seals. Fails only when a file that is there cannot be read.
pub fn check(run: &Path) -> Result<Checked> {
    let seals = read(&run.join(LEDGER))?;
    let mut checked = Checked { digest: seals.last().map(Seal::digest), ..Checked::default() };
    if seals.is_empty() {
        return Ok(checked);
    }
    checked.broken.extend(broken_chain(&seals));
    let latest: BTreeMap<&str, &Seal> = seals.iter().map(|seal| (seal.sealed.as_str(), seal)).collect();
    for (what, seal) in &latest {
        let there = hashes(run, what)?;
        checked.intact += there.iter().filter(|(name, hash)| seal.files.get(*name) == Some(hash)).count();
        checked.broken.extend(differences(seal, &there));
    }
    for block in BLOCKS {
        for name in hashes(run, block)?.into_keys().filter(|name| name.ends_with("/result.json")) {
            let sealed = name.trim_end_matches("/result.json");
            if !latest.contains_key(sealed) {
                checked.broken.push(Broken { sealed: sealed.to_owned(), why: NEVER_SEALED.to_owned() });
            }
        }
    }
    Ok(checked)
}

fn broken_chain(seals: &[Seal]) -> Option<Broken> {
    let mut previous = String::new();
    for seal in seals {
        if seal.previous != previous {
            let why = format!("the seal of {} does not follow from the one before it", seal.sealed);
            return Some(Broken { sealed: LEDGER.to_owned(), why });
        }
        previous = seal.digest();
    }
    None
}

fn differences(seal: &Seal, there: &BTreeMap<String, String>) -> Vec<Broken> {
    let broken = |why: String| Broken { sealed: seal.sealed.clone(), why };
    let changed = seal.files.iter().filter_map(|(name, hash)| match there.get(name) {
        Some(now) if now == hash => None,
        Some(_) => Some(broken(format!("{name} was changed"))),
        None => Some(broken(format!("{name} is gone"))),
    });
    let added = there.keys().filter(|name| !seal.files.contains_key(*name));
    changed.chain(added.map(|name| broken(format!("{name} was added")))).collect()
}

/// The hash of each file below a path, or of the file that it is; none when nothing is there.
fn hashes(run: &Path, what: &str) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut open = vec![what.to_owned()];
    while let Some(name) = open.pop() {
        let path = run.join(&name);
        if path.is_file() {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.insert(name, hex(&Sha256::digest(bytes)));
        } else if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))? {
                let entry = entry.with_context(|| format!("cannot list {}", path.display()))?;
                open.push(format!("{name}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    Ok(found)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        text.extend([byte >> 4, byte & 15].map(|half| char::from_digit(u32::from(half), 16).unwrap_or('0')));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "points/000/A-1/result.json";
    const RAW: &str = "points/000/A-1/fio.json";

    /// A run of one scenario and one measurement, sealed.
    fn run() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        put(&folder, "scenario.toml", "ratio(iops) > 1");
        put(&folder, RESULT, "{\"iops\": 100}");
        put(&folder, RAW, "{\"jobs\": []}");
        seal(&folder, "scenario.toml");
        seal(&folder, "points/000/A-1");
        folder
    }

    fn put(folder: &tempfile::TempDir, name: &str, text: &str) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn seal(folder: &tempfile::TempDir, what: &str) {
        let ledger = folder.path().join(LEDGER);
        let previous = read(&ledger).unwrap().last().map(Seal::digest).unwrap_or_default();
        let line = serde_json::to_string(&Seal::of(folder.path(), what, &previous).unwrap()).unwrap();
        let before = fs::read_to_string(&ledger).unwrap_or_default();
        fs::write(ledger, format!("{before}{line}\n")).unwrap();
    }

    fn broken(folder: &tempfile::TempDir) -> Vec<String> {
        check(folder.path()).unwrap().broken.into_iter().map(|broken| broken.why).collect()
    }

    #[test]
    fn an_untouched_run_is_intact() {
        let folder = run();
        let checked = check(folder.path()).unwrap();
        assert_eq!((checked.intact, checked.broken.len()), (3, 0));
        assert_eq!(checked.digest.unwrap().len(), 64);
    }

    #[test]
    fn a_result_multiplied_by_ten_is_found() {
        let folder = run();
        put(&folder, RESULT, "{\"iops\": 1000}");
        assert_eq!(broken(&folder), [format!("{RESULT} was changed")]);
        assert!(check(folder.path()).unwrap().against(RAW).is_some(), "nothing of the measurement counts");
    }

    #[test]
    fn an_inverted_claim_is_found() {
        let folder = run();
        put(&folder, "scenario.toml", "ratio(iops) < 1");
        assert_eq!(broken(&folder), ["scenario.toml was changed"]);
    }

    #[test]
    fn raw_output_that_is_changed_or_gone_is_found() {
        let folder = run();
        put(&folder, RAW, "{\"jobs\": [1]}");
        assert_eq!(broken(&folder), [format!("{RAW} was changed")]);
        fs::remove_file(folder.path().join(RAW)).unwrap();
        assert_eq!(broken(&folder), [format!("{RAW} is gone")]);
    }

    #[test]
    fn a_measurement_that_nobody_took_is_found() {
        let folder = run();
        put(&folder, "points/000/A-2/result.json", "{\"iops\": 900}");
        assert_eq!(broken(&folder), ["it was never sealed"]);
    }

    #[test]
    fn a_seal_taken_out_of_the_ledger_or_exchanged_is_found() {
        let folder = run();
        let ledger = folder.path().join(LEDGER);
        let text = fs::read_to_string(&ledger).unwrap();
        fs::write(&ledger, text.lines().next_back().unwrap()).unwrap();
        assert_eq!(broken(&folder), ["the seal of points/000/A-1 does not follow from the one before it"]);
    }

    #[test]
    fn what_is_measured_again_is_sealed_again() {
        let folder = run();
        put(&folder, RESULT, "{\"iops\": 101}");
        seal(&folder, "points/000/A-1");
        assert_eq!(broken(&folder), [""; 0]);
    }

    #[test]
    fn a_run_without_seals_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check(folder.path()).unwrap(), Checked::default());
    }
}
