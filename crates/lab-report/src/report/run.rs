//! Reads a run directory: what ran, its scenario, and every result that can be read.
//!
//! A report is written of what there is. A file that cannot be read does not stop it, but it is named in the report, so that
//! nobody takes a missing row for a row that never was.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use lab_model::result::{PointResult, SCHEMA};
use lab_model::scenario::Scenario;
use lab_model::scenario::calibration::Calibrated;

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
}

impl Run {
    /// Reads a run directory.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let info: RunInfo = json(&folder.join("run.json"))
            .with_context(|| format!("{} is no run directory of the lab", folder.display()))?;
        if info.schema > SCHEMA {
            bail!(
                "{}: written by a newer lab (layout {}, this one reads {SCHEMA}): use that one",
                folder.display(),
                info.schema
            );
        }
        let scenario = scenario(&folder.join("scenario.toml"))?;
        let mut unreadable = Vec::new();
        let points = results(&folder.join("points"), folder, &mut unreadable)?;
        let control = results(&folder.join("control"), folder, &mut unreadable)?;
        Ok(Self { info, scenario, points, control, unreadable })
    }
}

fn json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what the lab writes", path.display()))
}

fn scenario(path: &Path) -> Result<Scenario> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is no scenario of this lab", path.display()))
}

/// Every `result.json` below a folder, by name; none when there is no folder.
fn results(folder: &Path, run: &Path, unreadable: &mut Vec<String>) -> Result<Vec<PointResult>> {
    let mut found = Vec::new();
    for path in result_files(folder)? {
        let shown = path.strip_prefix(run).unwrap_or(&path).display().to_string();
        match json::<PointResult>(&path) {
            Ok(result) if result.schema > SCHEMA => {
                unreadable.push(format!("{shown}: layout {} is newer than {SCHEMA}", result.schema));
            }
            Ok(result) => found.push(result),
            Err(error) => unreadable.push(format!("{shown}: {:#}", error.root_cause())),
        }
    }
    Ok(found)
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
