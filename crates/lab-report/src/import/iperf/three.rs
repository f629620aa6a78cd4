//! `iperf3 -J`: one document for each test, one after the other when several wrote to the same file.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Deserializer, Value};

use super::super::blank::{at, blank};
use super::super::limits;
use super::super::number::{size, whole};
use super::super::source::{Source, seconds_only};
use lab_model::result::{CpuShare, Direction, Interval, Network, PointResult};

/// What stands in evidence and tool.
const TOOL: &str = "iperf";

pub(super) fn read(source: &Source) -> Result<Vec<PointResult>> {
    let mut documents = Deserializer::from_str(&source.text).into_iter::<Value>();
    let mut all = Vec::new();
    let mut line = 1;
    while let Some(document) = documents.next() {
        let document = document.map_err(|error| {
            let at = error.line().max(1);
            source.error(at, format_args!("no whole JSON ({error}): the file is cut short; copy it again"))
        })?;
        all.push(result(source, line, &document)?);
        line = source.text.get(..documents.byte_offset()).map_or(1, |read| read.lines().count().max(1));
    }
    Ok(all)
}

fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path).and_then(Value::as_f64).filter(|number| *number >= 0.0)
}

fn result(source: &Source, line: usize, test: &Value) -> Result<PointResult> {
    if let Some(error) = test.get("error").and_then(Value::as_str) {
        return Err(source.error(line, format_args!("iperf3 says of this test: {error}; repeat it")));
    }
    let end = test.get("end").filter(|end| end.get("sum_received").is_some() || end.get("sum").is_some());
    let Some(end) = end else {
        return Err(source.error(line, "this is no result of 'iperf3 -J': it has no end.sum_received"));
    };
    let mut result = blank(source, TOOL);
    if let Some(version) = test.pointer("/start/version").and_then(Value::as_str) {
        version.trim_start_matches("iperf ").clone_into(&mut result.tool.version);
    }
    let started = test.pointer("/start/timestamp/timesecs").and_then(Value::as_i64);
    if let Some(started) = started.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        result.started = seconds_only(started);
    }
    let sums = [end.get("sum_sent"), end.get("sum_received"), end.get("sum")];
    result.seconds = sums.into_iter().flatten().find_map(|sum| number(sum, "/seconds")).unwrap_or(0.0);
    shape(test, &mut result);
    load(test, end, &mut result);
    processors(end, &mut result);
    result.intervals = intervals(test);
    Ok(result)
}

fn shape(test: &Value, result: &mut PointResult) {
    let start = |name: &str| test.pointer(&format!("/start/test_start/{name}"));
    let count = |name: &str| start(name).and_then(Value::as_u64);
    if let Some(length) = count("blksize") {
        result.point.push(at("bs", size(length)));
    }
    if let Some(streams) = count("num_streams") {
        result.point.push(at("numjobs", streams.to_string()));
    }
    // Older versions do not say that a test was asked to go both ways, but have the sum of the way back.
    let both = count("bidir") == Some(1) || test.pointer("/end/sum_received_bidir_reverse").is_some();
    let direction = match count("reverse") {
        _ if both => "rw",
        Some(1) => "read",
        _ => "write",
    };
    result.point.push(at("rw", direction));
    if start("protocol").and_then(Value::as_str) == Some("UDP") {
        result.point.push(at("protocol", "udp"));
    }
}

/// Bytes and rates of a sum.
fn direction(sum: Option<&Value>) -> Option<Direction> {
    let sum = sum?;
    Some(Direction {
        bytes: sum.get("bytes").and_then(Value::as_u64)?,
        bytes_per_second: number(sum, "/bits_per_second")? / 8.0,
        ..Direction::default()
    })
}

fn load(test: &Value, end: &Value, result: &mut PointResult) {
    let forward = direction(end.get("sum_received").or_else(|| end.get("sum")));
    let back = direction(end.get("sum_received_bidir_reverse"));
    let reverse = test.pointer("/start/test_start/reverse").and_then(Value::as_u64) == Some(1);
    (result.load.write, result.load.read) = if reverse { (back, forward) } else { (forward, back) };
    let bytes = |direction: &Option<Direction>| direction.as_ref().map_or(0, |of| of.bytes);
    let again = ["/sum_sent/retransmits", "/sum_sent_bidir_reverse/retransmits"];
    result.network = Some(Network {
        sent: bytes(&result.load.write),
        received: bytes(&result.load.read),
        retransmitted: again
            .iter()
            .filter_map(|path| number(end, path))
            .map(whole)
            .fold(0, u64::saturating_add),
        ..Network::default()
    });
    for (name, path) in [("jitter_ms", "/sum/jitter_ms"), ("lost_percent", "/sum/lost_percent")] {
        if let Some(value) = number(end, path) {
            result.extra.insert(name.to_owned(), value);
        }
    }
}

fn processors(end: &Value, result: &mut PointResult) {
    let seconds = |name: &str| {
        number(end, &format!("/cpu_utilization_percent/{name}"))
            .map(|percent| percent / 100.0 * result.seconds)
    };
    let share = |side: &str| {
        Some(CpuShare {
            user: seconds(&format!("{side}_user"))?,
            system: seconds(&format!("{side}_system"))?,
        })
    };
    let (host, target) = (share("host"), share("remote"));
    if let Some(host) = host {
        result.cpu.host = host;
        "imported from iperf3: its own processes".clone_into(&mut result.cpu.method);
    }
    result.cpu.target = target;
}

fn intervals(test: &Value) -> Vec<Interval> {
    let all = test.get("intervals").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let counted = all.iter().filter(|one| one.pointer("/sum/omitted") != Some(&Value::Bool(true)));
    counted
        .take(limits::MOST_INTERVALS)
        .filter_map(|one| {
            let bits = number(one, "/sum/bits_per_second")?;
            let back = number(one, "/sum_bidir_reverse/bits_per_second").unwrap_or(0.0);
            Some(Interval {
                at: number(one, "/sum/end")?,
                bytes_per_second: (bits + back) / 8.0,
                ..Interval::default()
            })
        })
        .collect()
}
