//! A run's folder: what ran, one folder per measurement, written so that a cut leaves whole files or none.
//!
//! ```text
//! RUN/run.json                              what ran, where, and what the budget left out
//! RUN/scenario.toml                         the scenario, byte for byte
//! RUN/ledger.jsonl                          what was made outside this folder
//! RUN/points/000-bs-4k/A-1/result.json      arm A's first repetition at the first point, the tool's raw output beside it
//! RUN/control/A2-1/result.json              the A/A control
//! RUN/calibration/all-bs-4k/A-1/result.json what arm A does at most, where loads are shares of that
//! RUN/report.html
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::Environment;
use crate::site::Site;
use lab_model::precondition::Preconditioned;
use lab_model::result::{Coordinate, PointResult, SCHEMA};
use lab_model::scenario::Design;
use lab_model::scenario::calibration::Calibrated;
use lab_model::scenario::catalogue::{self, Loaded};
use lab_model::scenario::sweep::Extent;
use lab_model::seal;

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The folder's name.
    pub id: String,
    /// The scenario's identifier.
    pub scenario: String,
    /// SHA-256 of `scenario.toml`, in hexadecimal.
    pub scenario_hash: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// RFC 3339, UTC; absent while it runs, or when it was cut off.
    #[serde(default)]
    pub finished: Option<String>,
    /// What was built: the commit, when the build knew it.
    #[serde(default)]
    pub commit: Option<String>,
    /// The machine and its settings.
    #[serde(default)]
    pub environment: Value,
    /// The machines with an agent that took part, by the site's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Environment>,
    /// Repetitions and times.
    pub design: Design,
    /// Whether all points were wanted or the quick ones.
    pub quick: bool,
    /// Seconds that the run may take, if that was limited.
    #[serde(default)]
    pub budget: Option<f64>,
    /// Names of the points that the budget left out.
    #[serde(default)]
    pub budget_dropped: Vec<String>,
    /// What the arms were found to do at most, where loads are shares of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrated: Vec<Calibrated>,
    /// What was done to drives before they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditioned: Vec<Preconditioned>,
    /// The site as it was given.
    #[serde(default)]
    pub site: Site,
    /// What went wrong on the way, in words.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl RunRecord {
    /// Which points were wanted.
    pub const fn extent(&self) -> Extent {
        if self.quick { Extent::Quick } else { Extent::Full }
    }
}

/// A run's folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Which of the blocks of a run a measurement belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block<'a> {
    /// The point with this number.
    Point(usize, &'a [Coordinate]),
    /// Arm A against itself.
    Control,
    /// What an arm does at most, at these coordinates.
    Calibration(&'a [Coordinate]),
}

/// An earlier run, opened again.
#[derive(Debug)]
pub struct Opened {
    /// Its folder.
    pub store: Store,
    /// Its `run.json`.
    pub record: RunRecord,
    /// Its scenario, which has not changed since.
    pub scenario: Loaded,
}

impl Store {
    /// Makes `RUNS/ID` with the scenario and `run.json`.
    pub fn create(runs: &Path, record: &RunRecord, scenario: &Loaded) -> Result<Self> {
        let folder = runs.join(&record.id);
        fs::create_dir_all(runs).with_context(|| format!("cannot make the folder {}", runs.display()))?;
        fs::create_dir(&folder)
            .with_context(|| format!("cannot make the run's folder {}", folder.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        let store = Self { folder };
        write_whole(&store.folder.join("scenario.toml"), scenario.text.as_bytes())?;
        store.write_record(record)?;
        Ok(store)
    }

    /// Opens the folder of an earlier run.
    pub fn open(folder: &Path) -> Result<Opened> {
        let path = folder.join("run.json");
        let text = fs::read_to_string(&path).with_context(|| {
            format!("{} is not a run of the lab: cannot read {}", folder.display(), path.display())
        })?;
        let record: RunRecord = serde_json::from_str(&text)
            .with_context(|| format!("{} is not what the lab writes", path.display()))?;
        if record.schema > SCHEMA {
            bail!("{}: its layout {} is newer than this lab's {SCHEMA}", folder.display(), record.schema);
        }
        let origin = folder.join("scenario.toml");
        let text =
            fs::read_to_string(&origin).with_context(|| format!("cannot read {}", origin.display()))?;
        let scenario = catalogue::parse(&text, &origin.display().to_string())?;
        if scenario.hash != record.scenario_hash {
            bail!(
                "{} was changed since the run began: its results would not be of one experiment",
                origin.display()
            );
        }
        let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
        Ok(Opened { store: Self { folder }, record, scenario })
    }

    /// Holds the run's files against its seals: a run that was changed since does not go on. A measurement whose result was
    /// written and not sealed any more, as the run was cut off there, is cleared and taken again.
    pub fn verify(&self) -> Result<()> {
        for broken in seal::check(&self.folder)?.broken {
            if broken.why != seal::NEVER_SEALED {
                bail!(
                    "{} was changed since it was measured, so this run does not go on: {}: {}",
                    self.folder.display(),
                    broken.sealed,
                    broken.why
                );
            }
            let unsealed = self.folder.join(&broken.sealed);
            fs::remove_dir_all(&unsealed).with_context(|| format!("cannot clear {}", unsealed.display()))?;
        }
        Ok(())
    }

    /// Where everything of the run is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes `run.json` anew.
    pub fn write_record(&self, record: &RunRecord) -> Result<()> {
        write_json(&self.folder.join("run.json"), record)
    }

    /// The folder of one measurement; it need not exist.
    pub fn measurement(&self, block: Block<'_>, arm: &str, repetition: u32) -> PathBuf {
        let block = match block {
            Block::Point(number, point) => {
                self.folder.join("points").join(format!("{number:03}{}", slug(point)))
            }
            Block::Control => self.folder.join("control"),
            Block::Calibration(place) => self.folder.join("calibration").join(format!("all{}", slug(place))),
        };
        block.join(format!("{arm}-{repetition}"))
    }

    /// The result of a measurement that an earlier part of the run finished; `None` where there is none that is whole.
    pub fn finished(&self, block: Block<'_>, arm: &str, repetition: u32) -> Option<PointResult> {
        let text = fs::read_to_string(self.measurement(block, arm, repetition).join("result.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Makes the folder of a measurement, empty: what a cut left there goes.
    pub fn begin(&self, block: Block<'_>, arm: &str, repetition: u32) -> Result<PathBuf> {
        let folder = self.measurement(block, arm, repetition);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// Writes the result of a measurement.
    pub fn finish(&self, folder: &Path, result: &PointResult) -> Result<()> {
        write_json(&folder.join("result.json"), result)
    }
}

/// `-bs-4k-rw-randread`; only letters, digits, dots and dashes.
fn slug(point: &[Coordinate]) -> String {
    let mut text = String::new();
    for at in point {
        for part in [&at.axis, &at.value] {
            text.push('-');
            text.extend(
                part.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).take(24),
            );
        }
    }
    text
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text =
        serde_json::to_vec_pretty(value).with_context(|| format!("cannot describe {}", path.display()))?;
    text.push(b'\n');
    write_whole(path, &text)
}

/// Writes a file so that a cut leaves the old one or the new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("partial");
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ledger::Ledger;

    fn at(axis: &str, value: &str) -> Coordinate {
        Coordinate { axis: axis.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_folder_s_name_says_the_point_and_holds_no_surprise() {
        let store = Store { folder: PathBuf::from("run") };
        let point = [at("bs", "4k"), at("volume", "ram:64M?a=../b c")];
        let path = store.measurement(Block::Point(7, &point), "A", 2);
        assert_eq!(path, Path::new("run/points/007-bs-4k-volume-ram_64M_a_.._b_c/A-2"));
        assert_eq!(store.measurement(Block::Control, "A2", 1), Path::new("run/control/A2-1"));
    }

    #[test]
    fn a_cut_measurement_is_none_and_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store { folder: folder.path().to_path_buf() };
        let made = store.begin(Block::Control, "A", 1).unwrap();
        fs::write(made.join("result.json"), "{\"schema\":").unwrap();
        fs::write(made.join("fio.json"), "raw").unwrap();
        assert!(store.finished(Block::Control, "A", 1).is_none());
        store.begin(Block::Control, "A", 1).unwrap();
        assert_eq!(fs::read_dir(&made).unwrap().count(), 0);
    }

    #[test]
    fn a_run_that_was_changed_does_not_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store { folder: folder.path().to_path_buf() };
        let mut ledger = Ledger::create(&folder.path().join(seal::LEDGER)).unwrap();
        let made = store.begin(Block::Control, "A", 1).unwrap();
        fs::write(made.join("result.json"), "{}").unwrap();
        ledger.seal(folder.path(), &made).unwrap();
        store.verify().unwrap();
        fs::write(made.join("result.json"), "{ }").unwrap();
        let said = format!("{:#}", store.verify().unwrap_err());
        assert!(said.ends_with("control/A-1: control/A-1/result.json was changed"), "{said}");
    }

    #[test]
    fn a_measurement_that_a_cut_left_unsealed_is_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store { folder: folder.path().to_path_buf() };
        let mut ledger = Ledger::create(&folder.path().join(seal::LEDGER)).unwrap();
        fs::write(folder.path().join("run.json"), "{}").unwrap();
        ledger.seal(folder.path(), &folder.path().join("run.json")).unwrap();
        let made = store.begin(Block::Control, "A", 1).unwrap();
        fs::write(made.join("result.json"), "{}").unwrap();
        store.verify().unwrap();
        assert!(!made.exists());
    }
}
