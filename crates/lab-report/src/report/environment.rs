//! When and on what a run was measured, as plain facts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use lab_model::result::PointResult;

use super::run::Run;
use super::series::Measured;
use super::words;

/// Characters of a value that a page shows whole.
const LONGEST_SHOWN: usize = 800;
/// Characters shown of a longer one: a command with its first job.
const BEGINNING: usize = 400;

/// A name and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// What, with the path to it: `cpu.model`.
    pub(crate) name: String,
    /// As text.
    pub(crate) value: String,
}

impl Fact {
    /// A fact, unless there is nothing to say.
    fn new(name: &str, value: impl Into<String>) -> Option<Self> {
        let value = value.into();
        (!value.is_empty()).then(|| Self { name: name.to_owned(), value })
    }

    /// How it begins, where it is so long that a page shows the rest on demand: the command for dozens of jobs.
    pub(crate) fn beginning(&self) -> Option<String> {
        if self.value.chars().count() <= LONGEST_SHOWN {
            return None;
        }
        let mut beginning: String = self.value.chars().take(BEGINNING).collect();
        if let Some(space) = beginning.rfind(' ') {
            beginning.truncate(space);
        }
        let words = self.value.split(' ').count() - beginning.split(' ').count();
        Some(format!("{beginning} … and {words} words more"))
    }
}

/// The run in short.
pub(crate) fn facts(run: &Run, measured: &Measured<'_>) -> Vec<Fact> {
    let info = &run.info;
    let design = &run.scenario.design;
    let hash: String = info.scenario_hash.chars().take(16).collect();
    let valid: usize = measured.groups.iter().map(|group| group.results.len()).sum();
    let facts = [
        Fact::new("run", &info.id),
        Fact::new("started", &info.started),
        Fact::new("finished", info.finished.as_deref().unwrap_or("no: cut off, or still running")),
        Fact::new("built from", info.commit.as_deref().unwrap_or("an unknown commit")),
        Fact::new("scenario", format!("{}, SHA-256 {hash}…", run.scenario.id)),
        Fact::new("window", format!("{} s after {} s of ramp", design.runtime, design.ramp)),
        Fact::new("pairs at each point", format!("{} to {}", design.min_pairs, design.max_pairs)),
        Fact::new("results", format!("{valid} valid, {} not", measured.excluded.len())),
        Fact::new("A/A control", words::count(run.control.len(), "result")),
        Fact::new("tools", tools(&run.points)),
        Fact::new("processor time", methods(&run.points)),
    ];
    let design =
        flat(&info.design).into_iter().map(|fact| Fact { name: format!("design: {}", fact.name), ..fact });
    facts.into_iter().flatten().chain(design).collect()
}

fn tools(points: &[PointResult]) -> String {
    let tools: BTreeSet<String> =
        points.iter().map(|result| format!("{} {}", result.tool.name, result.tool.version)).collect();
    tools.into_iter().collect::<Vec<_>>().join(", ")
}

fn methods(points: &[PointResult]) -> String {
    let methods: BTreeSet<&str> = points.iter().map(|result| result.cpu.method.as_str()).collect();
    let methods: Vec<&str> = methods.into_iter().filter(|method| !method.is_empty()).collect();
    if methods.is_empty() { String::new() } else { format!("by {}", methods.join(", ")) }
}

/// An object's leaves with the path to each.
pub(crate) fn flat(value: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    add("", value, &mut facts);
    facts
}

fn add(path: &str, value: &Value, facts: &mut Vec<Fact>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                add(&path, member, facts);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (place, item) in items.iter().enumerate() {
                add(&format!("{path}[{place}]"), item, facts);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(scalar).collect();
            facts.extend(Fact::new(path, items.join(", ")));
        }
        _ => facts.extend(Fact::new(path, scalar(value))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The flags of results that are shown all the same, alike ones in one line.
pub(crate) fn flagged(run: &Run) -> Vec<String> {
    let mut lines: BTreeMap<(String, String), Vec<(u32, String)>> = BTreeMap::new();
    for result in run.points.iter().filter(|result| result.valid()) {
        for flag in &result.flags {
            let key =
                (format!("{} at {}", result.arm, result.point_name()), words::flag_name(flag).to_owned());
            lines.entry(key).or_default().push((result.repetition, words::flag_detail(flag).to_owned()));
        }
    }
    lines.into_iter().map(|((place, name), flags)| line(&place, &name, &flags)).collect()
}

/// `A at bs=4k, pairs 1, 3: others used the processors (12 %)`: the first detail speaks for all.
fn line(place: &str, name: &str, flags: &[(u32, String)]) -> String {
    let pairs: Vec<String> = flags.iter().map(|(pair, _)| pair.to_string()).collect();
    let pair = if pairs.len() == 1 { "pair" } else { "pairs" };
    let detail = flags.first().map(|(_, detail)| detail.as_str()).unwrap_or_default();
    let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
    format!("{place}, {pair} {}: {name}{detail}", pairs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_becomes_lines() {
        let value = serde_json::json!({
            "cpu": {"model": "x", "flags": ["a", "b"]}, "nothing": null, "disks": [{"name": "vda"}], "quiet": true
        });
        let facts: Vec<String> =
            flat(&value).iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect();
        assert_eq!(facts, ["cpu.flags=a, b", "cpu.model=x", "disks[0].name=vda", "quiet=true"]);
    }

    #[test]
    fn alike_flags_share_a_line() {
        let flags = [(1, "12 %".to_owned()), (3, "14 %".to_owned())];
        assert_eq!(line("A at bs=4k", "contended", &flags), "A at bs=4k, pairs 1, 3: contended (12 %)");
    }
}
