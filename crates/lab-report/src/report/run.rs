//! Reads a run directory: what ran, its scenario, and every result that can be read.
//!
//! A report is written of what there is. A file that cannot be read does not stop it, but it is named in the report, so that
//! nobody takes a missing row for a row that never was.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;

use super::recount;
use lab_model::precondition::Preconditioned;
use lab_model::prices::Prices;
use lab_model::result::{PointResult, SCHEMA};
use lab_model::scenario::Scenario;
use lab_model::scenario::calibration::Calibrated;
use lab_model::seal::{self, Checked};

/// `run.json`, as far as a report speaks of it. Fields that a report does not know are the runner's own.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct RunInfo {
    /// Version of the layout.
    #[serde(default)]
    pub(crate) schema: u32,
    /// The run's name.
    #[serde(default)]
    pub(crate) id: String,
    /// SHA-256 of the scenario, in hexadecimal.
    #[serde(default)]
    pub(crate) scenario_hash: String,
    /// RFC 3339.
    #[serde(default)]
    pub(crate) started: String,
    /// RFC 3339; absent while the run lasts or when it was cut off.
    #[serde(default)]
    pub(crate) finished: Option<String>,
    /// What was built.
    #[serde(default)]
    pub(crate) commit: Option<String>,
    /// The machine and its settings.
    #[serde(default)]
    pub(crate) environment: Value,
    /// Repetitions and times.
    #[serde(default)]
    pub(crate) design: Value,
    /// What the arms were found to do at most, where loads are shares of that.
    #[serde(default)]
    pub(crate) calibrated: Vec<Calibrated>,
    /// What was done to drives before they were measured.
    #[serde(default)]
    pub(crate) preconditioned: Vec<Preconditioned>,
    /// Where it ran.
    #[serde(default)]
    pub(crate) site: Site,
    /// What went wrong on the way, in words.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    /// Names of the points that the budget left out.
    #[serde(default)]
    pub(crate) budget_dropped: Vec<String>,
}

/// The site, as far as a report speaks of it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Site {
    /// What it has of what claims may need, such as `offload adapter`.
    #[serde(default)]
    pub(crate) has: Vec<String>,
    /// What its arms cost.
    #[serde(default)]
    pub(crate) prices: Prices,
}

/// A run as a report needs it.
#[derive(Debug)]
pub(crate) struct Run {
    /// `run.json`.
    pub(crate) info: RunInfo,
    /// The scenario as it was run.
    pub(crate) scenario: Scenario,
    /// Every result, in the order of the points.
    pub(crate) points: Vec<PointResult>,
    /// The A/A block.
    pub(crate) control: Vec<PointResult>,
    /// Files that could not be read, and why.
    pub(crate) unreadable: Vec<String>,
    /// What of the run is as it was sealed.
    pub(crate) sealed: Checked,
    /// Results that were counted once more from the tool's raw output.
    pub(crate) recounted: usize,
}

impl Run {
    /// Reads a run directory.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let info: RunInfo = json(&folder.join("run.json"))
            .with_context(|| format!("{} is not a run directory of the lab", folder.display()))?;
        if info.schema > SCHEMA {
            bail!(
                "{}: written by a newer lab (layout {}, this one reads {SCHEMA}): use that one",
                folder.display(),
                info.schema
            );
        }
        let sealed = seal::check(folder)?;
        for file in ["run.json", "scenario.toml", seal::LEDGER] {
            if let Some(broken) = sealed.against(file) {
                bail!(
                    "{}: {}: no verdict can be given on a run whose evidence was changed",
                    folder.display(),
                    broken.why
                );
            }
        }
        let scenario = scenario(&folder.join("scenario.toml"))?;
        let (mut unreadable, mut recounted) = (Vec::new(), 0);
        let mut keep = |found: Vec<Found>| -> Vec<PointResult> {
            let mut kept = Vec::new();
            for Found { name, result } in found {
                match (sealed.against(&name), result) {
                    (Some(broken), _) => unreadable.push(format!("{name} does not count: {}", broken.why)),
                    (None, Ok(result)) => {
                        let own = folder.join(Path::new(&name).parent().unwrap_or(Path::new("")));
                        match recount::matches(&own, &result) {
                            Ok(again) => {
                                recounted += usize::from(again);
                                kept.push(result);
                            }
                            Err(why) => unreadable.push(format!("{name} does not count: {why:#}")),
                        }
                    }
                    (None, Err(why)) => unreadable.push(format!("{name}: {why}")),
                }
            }
            kept
        };
        let points = keep(results(&folder.join("points"), folder)?);
        let control = keep(results(&folder.join("control"), folder)?);
        unreadable.extend(gone(&sealed));
        Ok(Self { info, scenario, points, control, unreadable, sealed, recounted })
    }
}

fn json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what the lab writes", path.display()))
}

fn scenario(path: &Path) -> Result<Scenario> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a scenario of this lab", path.display()))
}

/// A `result.json`, by its path from the run's folder on; an error says why it cannot be read.
struct Found {
    name: String,
    result: Result<PointResult>,
}

/// Every `result.json` below a folder, by name; none when there is no folder.
fn results(folder: &Path, run: &Path) -> Result<Vec<Found>> {
    let found = result_files(folder)?.into_iter().map(|path| {
        let name = path.strip_prefix(run).unwrap_or(&path).display().to_string();
        let result = json::<PointResult>(&path).map_err(|error| anyhow!("{:#}", error.root_cause()));
        Found { name, result: result.and_then(readable) }
    });
    Ok(found.collect())
}

fn readable(result: PointResult) -> Result<PointResult> {
    if result.schema > SCHEMA {
        bail!("layout {} is newer than {SCHEMA}", result.schema);
    }
    Ok(result)
}

/// Results that were sealed and are no longer there.
fn gone(sealed: &Checked) -> impl Iterator<Item = String> {
    let gone = sealed.broken.iter().filter(|broken| broken.why.ends_with("result.json is gone"));
    gone.map(|broken| format!("{} does not count: {}", broken.sealed, broken.why))
}

fn result_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        if !next.is_dir() {
            continue;
        }
        let entries = std::fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("cannot list {}", next.display()))?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|name| name == "result.json") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
