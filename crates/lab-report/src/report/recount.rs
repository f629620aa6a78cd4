//! What a result says, counted once more from the raw output of the tool beside it.
//!
//! The runner reads a tool's output when the tool ends. A report reads it again, by itself and in the tool's own words, so that a
//! result which says something else does not count even where its seals were made anew. fio and `linerate bench` write their counts as
//! JSON and are read twice; the results of other tools rest on what the runner read and sealed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use lab_model::result::{Direction, PointResult};

/// Both directions as a tool's own output has them; nothing where it has none.
type Reader = fn(&Value) -> Option<Both>;

/// Raw outputs that are read again: the file, and how.
const OUTPUTS: [(&str, Reader); 2] = [("fio.json", fio), ("bench.json", bench)];
/// fio's job that stands for a database's log, which a result counts apart.
const LOG: &str = "log";
/// Figures that two readers round differently differ by less than this share.
const ROUNDING: f64 = 1e-6;

/// Both directions of a tool's output.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Both {
    read: Counts,
    write: Counts,
}

/// What a tool counted in a direction; all of it is zero where it did nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    ios: f64,
    bytes: f64,
    iops: f64,
    bytes_per_second: f64,
    /// Nanoseconds; absent for the sum of several hosts, whose means are weighted by what their histograms hold.
    mean: Option<f64>,
}

/// A figure that is not the same on both sides.
struct Difference {
    what: &'static str,
    counted: f64,
    said: f64,
}

/// Whether raw output beside a result says the same: false where there is none that is read again. `folder` is the result's.
///
/// # Errors
/// The output cannot be read, or the result says something else; the error names the file and both figures.
pub(crate) fn matches(folder: &Path, result: &PointResult) -> Result<bool> {
    let (mut sum, mut files) = (Both::default(), Vec::new());
    for folder in hosts(folder)? {
        for (name, read) in OUTPUTS {
            let path = folder.join(name);
            if !path.is_file() {
                continue;
            }
            let output = json(&path)?;
            let both = read(&output).with_context(|| format!("{name} beside it holds no counts"))?;
            sum = if files.is_empty() { both } else { sum.and(both) };
            files.push(name);
        }
    }
    let Some(file) = files.first() else { return Ok(false) };
    for (direction, counted, said) in
        [("read", sum.read, &result.load.read), ("write", sum.write, &result.load.write)]
    {
        if let Some(Difference { what, counted, said }) = counted.difference(&Counts::said(said.as_ref())) {
            bail!("{file} beside it says {counted} {what} ({direction}), and it says {said}");
        }
    }
    Ok(true)
}

/// The folder, or one for each initiating host.
fn hosts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = vec![folder.to_path_buf()];
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let is_host =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("host"));
        if is_host && path.is_dir() {
            all.push(path);
        }
    }
    Ok(all)
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

/// `--output-format=json+`, fio 3.33.
fn fio(output: &Value) -> Option<Both> {
    let jobs = output.get("jobs")?.as_array()?;
    let job = jobs.iter().find(|job| job.get("jobname").and_then(Value::as_str) != Some(LOG))?;
    let side = |name: &str| {
        let side = job.get(name)?;
        let number = |key: &str| side.get(key)?.as_f64();
        Some(Counts {
            ios: number("total_ios")?,
            bytes: number("io_bytes")?,
            iops: number("iops")?,
            bytes_per_second: number("bw_bytes")?,
            mean: Some(side.get("lat_ns")?.get("mean")?.as_f64()?),
        })
    };
    Some(Both { read: used(side("read")?), write: used(side("write")?) })
}

/// `linerate bench --json`; a direction that was not used is left out.
fn bench(output: &Value) -> Option<Both> {
    let side = |name: &str| {
        let Some(side) = output.get(name).filter(|side| !side.is_null()) else {
            return Some(Counts::default());
        };
        let number = |key: &str| side.get(key)?.as_f64();
        Some(Counts {
            ios: number("ios")?,
            bytes: number("bytes")?,
            iops: number("iops")?,
            bytes_per_second: number("bytes_per_second")?,
            mean: Some(side.get("latency_ns")?.get("mean")?.as_f64()?),
        })
    };
    Some(Both { read: side("read")?, write: side("write")? })
}

/// A result has no direction in which there were no I/Os.
fn used(counts: Counts) -> Counts {
    if counts.ios > 0.0 { counts } else { Counts::default() }
}

impl Counts {
    fn said(direction: Option<&Direction>) -> Self {
        let Some(direction) = direction else { return Self::default() };
        let real = lab_model::statistics::number::real;
        Self {
            ios: real(direction.ios),
            bytes: real(direction.bytes),
            iops: direction.iops,
            bytes_per_second: direction.bytes_per_second,
            mean: direction.latency.as_ref().map(|latency| latency.mean),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            ios: self.ios + other.ios,
            bytes: self.bytes + other.bytes,
            iops: self.iops + other.iops,
            bytes_per_second: self.bytes_per_second + other.bytes_per_second,
            mean: None,
        }
    }

    /// The first figure of which a result says something else.
    fn difference(&self, said: &Self) -> Option<Difference> {
        let all = [
            ("I/Os", Some(self.ios), Some(said.ios)),
            ("bytes", Some(self.bytes), Some(said.bytes)),
            ("IOPS", Some(self.iops), Some(said.iops)),
            ("bytes a second", Some(self.bytes_per_second), Some(said.bytes_per_second)),
            ("ns of mean latency", self.mean, said.mean),
        ];
        all.into_iter().find_map(|(what, counted, said)| {
            let (counted, said) = counted.zip(said)?;
            let differs = (counted - said).abs() > ROUNDING * counted.abs().max(said.abs());
            differs.then_some(Difference { what, counted, said })
        })
    }
}

impl Both {
    fn and(self, other: Self) -> Self {
        Self { read: self.read.and(other.read), write: self.write.and(other.write) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::Latency;
    use lab_model::statistics::synthetic::result;
    use serde_json::json;

    /// A result of 5,000 reads of 4 KiB in ten seconds.
    fn measured() -> PointResult {
        let mut result = result("A", 1, 500.0);
        if let Some(read) = &mut result.load.read {
            (read.ios, read.bytes) = (5_000, 5_000 * 4_096);
            read.latency = Some(Latency { mean: 2e6, ..Latency::default() });
        }
        result
    }

    fn of_fio(ios: u32) -> String {
        let side = |ios: u32| {
            json!({
                "total_ios": ios, "io_bytes": ios * 4096, "iops": f64::from(ios) / 10.0,
                "bw_bytes": f64::from(ios) * 409.6, "lat_ns": {"mean": if ios > 0 { 2e6 } else { 0.0 }},
            })
        };
        let job = |name: &str, ios: u32| json!({"jobname": name, "read": side(ios), "write": side(0)});
        format!("fio: a warning\n{}\n", json!({"jobs": [job("log", 7), job("lab", ios)]}))
    }

    fn of_bench(ios: u32) -> String {
        let side = json!({
            "ios": ios, "bytes": ios * 4096, "iops": f64::from(ios) / 10.0, "bytes_per_second": f64::from(ios) * 409.6,
            "latency_ns": {"mean": 2e6},
        });
        json!({"version": "0.1.0", "read": side}).to_string()
    }

    #[test]
    fn a_result_that_says_more_than_its_tool_is_named_with_both_figures() {
        for (file, text) in [("fio.json", of_fio(5_000)), ("bench.json", of_bench(5_000))] {
            let folder = tempfile::tempdir().unwrap();
            assert!(!matches(folder.path(), &measured()).unwrap(), "there is no raw output");
            std::fs::write(folder.path().join(file), text).unwrap();
            assert!(matches(folder.path(), &measured()).unwrap(), "{file}");
            let mut tenfold = measured();
            tenfold.load.read.as_mut().unwrap().iops *= 10.0;
            let why = matches(folder.path(), &tenfold).unwrap_err().to_string();
            assert_eq!(why, format!("{file} beside it says 500 IOPS (read), and it says 5000"));
            let mut faster = measured();
            faster.load.read.as_mut().unwrap().latency.as_mut().unwrap().mean = 1e6;
            let why = matches(folder.path(), &faster).unwrap_err().to_string();
            assert!(why.contains("2000000 ns of mean latency (read), and it says 1000000"), "{why}");
            let mut silent = measured();
            silent.load.read = None;
            assert!(matches(folder.path(), &silent).is_err(), "{file}: reads that it does not tell");
        }
    }

    #[test]
    fn hosts_add_up_and_neighbours_do_not() {
        let folder = tempfile::tempdir().unwrap();
        for (name, ios) in [("host0", 2_000), ("host1", 3_000), ("neighbour-iscsi", 900)] {
            let part = folder.path().join(name);
            std::fs::create_dir(&part).unwrap();
            std::fs::write(part.join("fio.json"), of_fio(ios)).unwrap();
        }
        assert!(matches(folder.path(), &measured()).unwrap());
        std::fs::write(folder.path().join("host1/fio.json"), of_fio(3_001)).unwrap();
        assert!(matches(folder.path(), &measured()).is_err());
    }

    #[test]
    fn output_that_cannot_be_read_vouches_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{\"jobs\": [", "{\"jobs\": []}"] {
            std::fs::write(folder.path().join("fio.json"), text).unwrap();
            assert!(matches(folder.path(), &measured()).is_err(), "{text}");
        }
    }
}
