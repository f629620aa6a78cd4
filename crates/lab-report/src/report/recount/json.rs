//! Raw outputs that are one JSON object: fio, `linerate bench`, iperf3 and the bare loop.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::counts::{Both, Counted, Counts};

/// fio's groups that are no part of the load: a database's log, which a result counts apart, and what the lab looks at beside the load.
const BESIDE: [&str; 3] = ["log", "verified", "offsets"];
const BITS: f64 = 8.0;

/// `--output-format=json+`, fio 3.33.
pub(super) fn fio(folder: &Path) -> Result<Option<Counted>> {
    counted(folder, "fio.json", |output| {
        let beside = |job: &Value| {
            job.get("jobname").and_then(Value::as_str).is_some_and(|name| BESIDE.contains(&name))
        };
        let job = output.get("jobs")?.as_array()?.iter().find(|job| !beside(job))?;
        let side = |name: &str| {
            let side = job.get(name)?;
            Some(Counts {
                ios: number(side, "total_ios")?,
                bytes: number(side, "io_bytes")?,
                iops: number(side, "iops")?,
                bytes_per_second: number(side, "bw_bytes")?,
                mean: Some(number(side.get("lat_ns")?, "mean")?),
            })
        };
        Some(Both { read: used(side("read")?), write: used(side("write")?) })
    })
}

/// `linerate bench --json`; a direction that was not used is left out.
pub(super) fn bench(folder: &Path) -> Result<Option<Counted>> {
    counted(folder, "bench.json", |output| {
        let side = |name: &str| {
            let Some(side) = output.get(name).filter(|side| !side.is_null()) else {
                return Some(Counts::default());
            };
            Some(Counts {
                ios: number(side, "ios")?,
                bytes: number(side, "bytes")?,
                iops: number(side, "iops")?,
                bytes_per_second: number(side, "bytes_per_second")?,
                mean: Some(number(side.get("latency_ns")?, "mean")?),
            })
        };
        Some(Both { read: side("read")?, write: side("write")? })
    })
}

/// `iperf3 -J`: what the receiver got. A stream has no I/Os.
pub(super) fn iperf3(folder: &Path) -> Result<Option<Counted>> {
    counted(folder, "iperf3.json", |output| {
        let end = output.get("end")?;
        let stream = |sum: &Value| {
            let bytes_per_second = number(sum, "bits_per_second")? / BITS;
            Some(Counts { bytes: number(sum, "bytes")?, bytes_per_second, ..Counts::default() })
        };
        let forward = stream(end.get("sum_received")?)?;
        let reverse = number(output.get("start")?.get("test_start")?, "reverse")? != 0.0;
        Some(match end.get("sum_received_bidir_reverse") {
            Some(back) => Both { read: stream(back)?, write: forward },
            None if reverse => Both { read: forward, write: Counts::default() },
            None => Both { read: Counts::default(), write: forward },
        })
    })
}

/// The bare loop's client. It counts requests of one size.
pub(super) fn bareloop(folder: &Path) -> Result<Option<Counted>> {
    counted(folder, "bareloop.json", |output| {
        let ios = number(output, "requests")?;
        let counts = Counts {
            ios,
            bytes: ios * number(output, "bs")?,
            iops: number(output, "iops")?,
            bytes_per_second: number(output, "bytes_per_second")?,
            mean: Some(number(output, "mean_us")? * 1e3),
        };
        match output.get("rw")?.as_str()? {
            "read" => Some(Both { read: counts, write: Counts::default() }),
            _ => Some(Both { read: Counts::default(), write: counts }),
        }
    })
}

fn counted(folder: &Path, file: &str, read: fn(&Value) -> Option<Both>) -> Result<Option<Counted>> {
    let path = folder.join(file);
    if !path.is_file() {
        return Ok(None);
    }
    let both = read(&json(&path)?).with_context(|| format!("{file} beside it holds no counts"))?;
    Ok(Some(Counted { file: file.to_owned(), both, database: None }))
}

/// The file's first JSON object; lines before it are the tool's chatter.
fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let begin = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    let object = begin.and_then(|begin| text.get(begin..)).unwrap_or_default();
    match serde_json::Deserializer::from_str(object).into_iter().next() {
        Some(value) => value.with_context(|| format!("{} is not the tool's JSON", path.display())),
        None => bail!("{} holds no JSON", path.display()),
    }
}

fn number(of: &Value, key: &str) -> Option<f64> {
    of.get(key)?.as_f64()
}

/// A result has no direction in which there were no I/Os.
fn used(counts: Counts) -> Counts {
    if counts.ios > 0.0 { counts } else { Counts::default() }
}
