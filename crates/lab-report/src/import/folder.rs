//! Imported results as a run directory, which reports and comparisons read like a measured one.
//!
//! The scenario is made of what the file tells: its axes are those of the points, its one arm is the tool's, and its evidence
//! says `imported` wherever it is shown. The file itself is kept in `imported/`, unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::{Kind, read};
use lab_model::evidence::Evidence;
use lab_model::result::{PointResult, SCHEMA};
use lab_model::scenario::catalogue;
use lab_model::scenario::{
    Arm, Axis, Design, Figure, FigureKind, Initiator, Metric, Scenario, Source, Target, ToolKind, Topology,
    Workload,
};
use lab_model::statistics::metric::{Context, value_of};

/// Reads a tool's file and writes `run_folder` of it: `run.json`, `scenario.toml`, `points/` and the file itself.
/// The folder must not exist or be empty. Returns the results as they were written.
pub fn into_run(kind: Kind, path: &Path, run_folder: &Path) -> Result<Vec<PointResult>> {
    let mut results = read(kind, path)?;
    empty(run_folder)?;
    let scenario = scenario(kind, &results);
    let text = toml::to_string(&scenario).context("cannot write the scenario of an import")?;
    let hash = catalogue::hash(&text);
    let run =
        run_folder.file_name().map_or_else(|| kind.to_string(), |name| name.to_string_lossy().into_owned());
    for result in &mut results {
        result.run.clone_from(&run);
        result.scenario.clone_from(&scenario.id);
        result.scenario_hash.clone_from(&hash);
    }
    let kept = run_folder.join("imported");
    create(&kept)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    fs::copy(path, kept.join(name))
        .with_context(|| format!("cannot copy {} to {}", path.display(), kept.display()))?;
    write(&run_folder.join("scenario.toml"), text.as_bytes())?;
    let folders = folders(run_folder, &results);
    for (folder, result) in folders.iter().zip(&results) {
        create(folder)?;
        write(
            &folder.join("result.json"),
            &serde_json::to_vec_pretty(result).context("cannot write a result")?,
        )?;
    }
    let about = about(&run, &scenario, &results, &hash);
    // Last, because a folder with it is a whole run.
    write(
        &run_folder.join("run.json"),
        &serde_json::to_vec_pretty(&about).context("cannot write run.json")?,
    )?;
    Ok(results)
}

fn empty(folder: &Path) -> Result<()> {
    let first = fs::read_dir(folder).ok().and_then(|mut entries| entries.next());
    if first.is_some() {
        bail!("{} is not empty; name a folder that does not exist yet", folder.display());
    }
    Ok(())
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// `points/NNN-SLUG/ARM-REPETITION`, points numbered as they first occur.
fn folders(run: &Path, results: &[PointResult]) -> Vec<PathBuf> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    results
        .iter()
        .map(|result| {
            let name = result.point_name();
            let next = numbers.len() + 1;
            let number = *numbers.entry(name.clone()).or_insert(next);
            let point = format!("{number:03}-{}", slug(&name));
            run.join("points").join(point).join(format!("{}-{}", result.arm, result.repetition))
        })
        .collect()
}

/// Letters, digits, dots and dashes, at most 80 of them.
fn slug(name: &str) -> String {
    let plain =
        |sign: char| if sign.is_ascii_alphanumeric() || matches!(sign, '.' | '=') { sign } else { '-' };
    let slug: String = name.chars().map(plain).take(80).collect();
    let slug = slug.replace('=', "-");
    let slug = slug.trim_matches(['-', '.']);
    if slug.is_empty() { "point".to_owned() } else { slug.to_owned() }
}

fn about(run: &str, scenario: &Scenario, results: &[PointResult], hash: &str) -> serde_json::Value {
    let tool = results.first().map(|result| result.tool.clone());
    let started = results.iter().map(|result| result.started.as_str()).min().unwrap_or_default();
    json!({
        "schema": SCHEMA,
        "id": run,
        "scenario": scenario.id,
        "scenario_hash": hash,
        "started": started,
        "finished": results.iter().map(|result| result.started.as_str()).max().unwrap_or_default(),
        "commit": null,
        "evidence": results.first().map(|result| &result.evidence),
        "environment": { "imported": true, "tool": tool },
        "design": scenario.design,
        "budget_dropped": [],
        "ledger": [],
    })
}

/// A scenario that says what was imported.
fn scenario(kind: Kind, results: &[PointResult]) -> Scenario {
    let from = results.first().and_then(|result| result.evidence.detail()).unwrap_or_default().to_owned();
    let longest = results.iter().map(|result| result.seconds).fold(0.0, f64::max);
    let repetitions = results.iter().map(|result| result.repetition).max().unwrap_or(1);
    Scenario {
        id: format!("imported.{kind}"),
        title: format!("Imported: {from}"),
        question: "What does somebody else's measurement say? Nothing here was measured by this lab."
            .to_owned(),
        source: Source {
            publication: from.clone(),
            part: None,
            lost: Vec::new(),
            inferred: Vec::new(),
            environment: Vec::new(),
        },
        systems: Vec::new(),
        arms: vec![Arm {
            key: "A".to_owned(),
            name: from.clone(),
            initiator: Initiator::Imported,
            target: Target::Site,
            stands_for: None,
            evidence: Evidence::Imported { from },
            with: BTreeMap::new(),
        }],
        compares: Vec::new(),
        missing: Vec::new(),
        topology: Topology::default(),
        workload: Workload {
            tool: tool(kind),
            options: BTreeMap::new(),
            jobs: BTreeMap::new(),
            published_command: None,
        },
        calibration: None,
        sweep: axes(results),
        design: Design {
            min_pairs: 1,
            max_pairs: repetitions,
            ramp: 0.0,
            runtime: longest,
            ..Design::default()
        },
        scales: Vec::new(),
        figures: figures(results),
        published: Vec::new(),
        claims: Vec::new(),
        traps: Vec::new(),
    }
}

const fn tool(kind: Kind) -> ToolKind {
    match kind {
        Kind::Diskspd => ToolKind::Diskspd,
        Kind::Vmfleet => ToolKind::Vmfleet,
        Kind::Iperf => ToolKind::Iperf3,
        Kind::Iometer | Kind::Jetstress | Kind::Perfmon | Kind::Sar => ToolKind::Analysis,
    }
}

/// Every axis with its values, both as they first occur.
fn axes(results: &[PointResult]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for at in results.iter().flat_map(|result| &result.point) {
        match axes.iter_mut().find(|known| known.axis == at.axis) {
            Some(known) if known.values.contains(&at.value) => {}
            Some(known) => known.values.push(at.value.clone()),
            None => axes.push(Axis {
                axis: at.axis.clone(),
                values: vec![at.value.clone()],
                quick: Vec::new(),
                inferred: false,
            }),
        }
    }
    axes
}

/// A table of the metrics that the results have, and the course of time where they have that.
fn figures(results: &[PointResult]) -> Vec<Figure> {
    let told = |metric: &Metric| {
        results
            .iter()
            .any(|result| value_of(*metric, result, &Context::default()).is_some_and(|value| value > 0.0))
    };
    let figure = |id: &str, title: &str, kind, y| Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        kind,
        x: None,
        y,
        series: Vec::new(),
        at: BTreeMap::new(),
        line_rate: false,
        title_lost: false,
    };
    let metrics: Vec<Metric> = Metric::ALL.into_iter().filter(told).collect();
    let mut figures = Vec::new();
    if !metrics.is_empty() {
        figures.push(figure("values", "Imported values", FigureKind::Table, metrics));
    }
    if results.iter().any(|result| result.intervals.len() > 1) {
        let iops = results.iter().flat_map(|result| &result.intervals).any(|one| one.iops > 0.0);
        let y = vec![if iops { Metric::Iops } else { Metric::Bandwidth }];
        figures.push(Figure {
            x: Some("time".to_owned()),
            ..figure("over-time", "Imported course of time", FigureKind::OverTime, y)
        });
    }
    figures
}
