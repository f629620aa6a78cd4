//! `linerate inspect`: what a volume is, as text or as JSON. `docs/howto/data.md` has the keys of the JSON, which stay.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use linerate::{Features, Inspection, Run};
use names::{ByteSize, VolumeUrl};
use serde::Serialize;

use crate::output;

/// Arguments of `inspect`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volume, such as iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0
    url: VolumeUrl,
    /// Also show where it has data and where it has holes
    #[arg(long)]
    map: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Each feature and its word.
const FEATURES: [(Features, &str); 6] = [
    (Features::VOLATILE_CACHE, "volatile-cache"),
    (Features::DISCARD, "discard"),
    (Features::WRITE_ZEROES, "write-zeroes"),
    (Features::COMPARE, "compare-and-write"),
    (Features::ALLOCATION, "allocation-query"),
    (Features::READ_ONLY, "read-only"),
];

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    url: String,
    kind: String,
    bytes: u64,
    block_size: u32,
    physical_block_size: u32,
    features: Vec<&'static str>,
    path: String,
    limits: LimitsReport,
    identity: Option<IdentityReport>,
    /// Only where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<Vec<RunReport>>,
}

#[derive(Debug, Serialize)]
struct RunReport {
    offset: u64,
    length: u64,
    allocated: bool,
}

#[derive(Debug, Serialize)]
struct LimitsReport {
    max_transfer_bytes: u32,
    queue_depth: u32,
    discard_granularity_blocks: u32,
    max_discard_blocks: u64,
    atomic_blocks: u32,
}

#[derive(Debug, Serialize)]
struct IdentityReport {
    vendor: String,
    product: String,
    revision: String,
    serial: String,
    controller: Option<u16>,
    designators: Vec<DesignatorReport>,
}

#[derive(Debug, Serialize)]
struct DesignatorReport {
    kind: &'static str,
    value: String,
}

impl Report {
    fn new(url: &VolumeUrl, found: &Inspection) -> Self {
        let limits = &found.limits;
        Self {
            url: url.to_string(),
            kind: url.source.scheme().to_owned(),
            bytes: found.geometry.bytes(),
            block_size: found.geometry.block_size,
            physical_block_size: found.geometry.physical_block_size,
            features: words(found.features),
            path: found.path.to_string(),
            limits: LimitsReport {
                max_transfer_bytes: limits.max_transfer,
                queue_depth: limits.depth,
                discard_granularity_blocks: limits.discard_granularity,
                max_discard_blocks: limits.max_discard,
                atomic_blocks: limits.atomic_blocks,
            },
            identity: found.identity.as_ref().map(|identity| IdentityReport {
                vendor: identity.vendor.clone(),
                product: identity.product.clone(),
                revision: identity.revision.clone(),
                serial: identity.serial.clone(),
                controller: identity.controller,
                designators: identity
                    .designators
                    .iter()
                    .map(|one| DesignatorReport { kind: one.kind(), value: one.to_string() })
                    .collect(),
            }),
            map: None,
        }
    }

    /// One line for each thing there is to know.
    fn lines(&self) -> Vec<(String, String)> {
        let limits = &self.limits;
        let blocks =
            |count: u64| if count == u64::MAX { "any".to_owned() } else { format!("{count} blocks") };
        let mut lines = vec![
            ("kind", self.kind.clone()),
            ("size", format!("{} bytes ({})", self.bytes, ByteSize(self.bytes))),
            ("block", format!("{} bytes, physically {}", self.block_size, self.physical_block_size)),
            ("features", if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") }),
            ("path", self.path.clone()),
            ("longest transfer", format!("{}", ByteSize(limits.max_transfer_bytes.into()))),
            ("queue depth", limits.queue_depth.to_string()),
            ("discard unit", blocks(limits.discard_granularity_blocks.into())),
            ("longest discard", blocks(limits.max_discard_blocks)),
            ("atomic", blocks(limits.atomic_blocks.into())),
        ];
        if let Some(identity) = &self.identity {
            let said = [
                ("vendor", identity.vendor.clone()),
                ("product", identity.product.clone()),
                ("revision", identity.revision.clone()),
                ("serial number", identity.serial.clone()),
                ("controller", identity.controller.map(|number| number.to_string()).unwrap_or_default()),
            ];
            lines.extend(said.into_iter().filter(|(_, value)| !value.is_empty()));
            lines.extend(identity.designators.iter().map(|one| (one.kind, one.value.clone())));
        }
        for run in self.map.iter().flatten() {
            let kind = if run.allocated { "data" } else { "hole" };
            lines.push((kind, format!("{} bytes from byte {} on", run.length, run.offset)));
        }
        lines.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn words(features: Features) -> Vec<&'static str> {
    FEATURES.iter().filter(|(feature, _)| features.contains(*feature)).map(|(_, word)| *word).collect()
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut report = Report::new(&args.url, &linerate::inspect(&args.url)?);
    if args.map {
        let runs = linerate::map(&args.url)?.into_iter();
        let told = |run: Run| RunReport { offset: run.offset, length: run.len, allocated: run.allocated };
        report.map = Some(runs.map(told).collect());
    }
    if args.json {
        output::json(&report)?;
    } else {
        for (key, value) in report.lines() {
            output::line(&format!("{key:<18}{value}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOWTO: &str = include_str!("../../../docs/howto/data.md");

    fn keys(value: &serde_json::Value, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
                into.push(key.clone());
                keys(value, into);
            }),
            serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
            _ => {}
        }
    }

    #[test]
    fn every_key_and_every_word_is_documented() {
        let identity = IdentityReport {
            vendor: String::new(),
            product: String::new(),
            revision: String::new(),
            serial: String::new(),
            controller: None,
            designators: vec![DesignatorReport { kind: "naa", value: String::new() }],
        };
        let limits = LimitsReport {
            max_transfer_bytes: 0,
            queue_depth: 0,
            discard_granularity_blocks: 0,
            max_discard_blocks: 0,
            atomic_blocks: 0,
        };
        let report = Report {
            path: String::new(),
            url: String::new(),
            kind: "ram".to_owned(),
            bytes: 0,
            block_size: 0,
            physical_block_size: 0,
            features: words(Features::all()),
            limits,
            identity: Some(identity),
            map: Some(vec![RunReport { offset: 0, length: 0, allocated: false }]),
        };
        let mut wanted = Vec::new();
        keys(&serde_json::to_value(&report).unwrap(), &mut wanted);
        wanted.extend(FEATURES.iter().map(|(_, word)| (*word).to_owned()));
        for key in wanted {
            assert!(HOWTO.contains(&format!("`{key}`")), "docs/howto/data.md does not say what {key} is");
        }
        assert_eq!(report.features.len(), FEATURES.len(), "every feature has a word");
        assert_eq!(Features::all().iter().count(), FEATURES.len(), "every feature has a word");
    }
}
