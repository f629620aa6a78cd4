//! iperf3: TCP streams toward the target (`write`), from it (`read`), or both; also beside block I/O, as what the path can carry.
//!
//! Rates are what the receiver got: the sender's include what still lies in socket buffers. A stream has no I/Os, so
//! those are 0. iperf3 ends with 0 even when it could not connect; its JSON tells.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::assignment::{Assignment, Measured, command_line, tool, whole_seconds};
use super::raw;
use super::settings::Settings;
use crate::machine::process::CommandLine;
use lab_model::result::{Direction, Interval, Load};

const OUTPUT: &str = "iperf3.json";
const DIRECTIONS: &[&str] = &["uni", "reverse", "bidi"];
const BITS: f64 = 8.0;

/// How it is started.
pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    let (host, port) = place(assignment)?;
    let mut argv: Vec<String> = ["iperf3", "-J", "-c", &host, "-p", &port].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: u64| argv.extend([name.to_owned(), value.to_string()]);
    add("-t", whole_seconds(assignment.runtime));
    if assignment.ramp > 0.0 {
        add("-O", whole_seconds(assignment.ramp));
    }
    add("-P", settings.count("threads", 1)?);
    if settings.get("bs").is_some() {
        add("-l", settings.bytes("bs", 1)?);
    }
    if settings.get("window").is_some() {
        add("-w", settings.bytes("window", 1)?);
    }
    match direction(settings)? {
        "reverse" => argv.push("-R".to_owned()),
        "bidi" => argv.push("--bidir".to_owned()),
        _ => {}
    }
    Ok(command_line(assignment, argv, OUTPUT))
}

/// Its own setting, or what fio's `rw` asks of a stream beside block I/O. Depth and order mean nothing to a stream.
fn direction(settings: Settings<'_>) -> Result<&'static str> {
    match settings.get("rw") {
        None => settings.word("direction", DIRECTIONS),
        Some("read" | "randread") => Ok("reverse"),
        Some("write" | "randwrite") => Ok("uni"),
        Some(other) => bail!("a stream reads or writes, and rw = {other:?} mixes: leave its arm out"),
    }
}

fn place(assignment: &Assignment<'_>) -> Result<(String, String)> {
    let [endpoint] = assignment.endpoints else {
        bail!("iperf3 needs exactly one HOST:PORT, the arm gave {}", assignment.endpoints.len());
    };
    let (host, port) = endpoint.url.rsplit_once(':').with_context(|| {
        format!("iperf3 needs HOST:PORT and the arm gave {:?}: its target must be a stream", endpoint.url)
    })?;
    Ok((host.trim_matches(['[', ']']).to_owned(), port.to_owned()))
}

#[derive(Debug, Deserialize)]
struct Output {
    start: Start,
    #[serde(default)]
    intervals: Vec<Second>,
    end: End,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Start {
    version: String,
}

#[derive(Debug, Deserialize)]
struct Second {
    sum: Sum,
    sum_bidir_reverse: Option<Sum>,
}

#[derive(Debug, Default, Deserialize)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    sum_sent_bidir_reverse: Option<Sum>,
    sum_received_bidir_reverse: Option<Sum>,
    cpu_utilization_percent: Option<Processor>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Sum {
    end: f64,
    seconds: f64,
    bytes: u64,
    bits_per_second: f64,
    retransmits: Option<f64>,
    #[serde(default)]
    omitted: bool,
}

/// Per cent of one processor.
#[derive(Debug, Deserialize)]
struct Processor {
    host_total: f64,
    remote_total: f64,
}

/// What it measured.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let path = assignment.folder.join(OUTPUT);
    let output: Output = raw::json(&path)?;
    if let Some(error) = &output.error {
        bail!("{}: iperf3 failed: {error}: see whether the arm's `iperf3 -s` still listens", path.display());
    }
    let received = output.end.sum_received.with_context(|| {
        format!("{}: has no end.sum_received: iperf3 was ended before it could report", path.display())
    })?;
    let settings = Settings(assignment.settings);
    let forward = Some(received.direction());
    let back = output.end.sum_received_bidir_reverse.map(Sum::direction);
    let (read, write) = match direction(settings)? {
        "reverse" => (forward, None),
        "bidi" => (back, forward),
        _ => (None, forward),
    };
    Ok(Measured {
        tool: tool("iperf3", output.start.version.trim_start_matches("iperf "), &command(assignment)?),
        load: Load { read, write, ..Load::default() },
        intervals: output
            .intervals
            .iter()
            .filter(|second| !second.sum.omitted)
            .map(Second::interval)
            .collect(),
        extra: output.end.extra(),
        seconds: received.seconds,
        // It tells whole seconds only: the moment at which it was started is a better guess.
        window_start: None,
        flags: Vec::new(),
    })
}

impl Sum {
    fn direction(self) -> Direction {
        Direction { bytes: self.bytes, bytes_per_second: self.bits_per_second / BITS, ..Direction::default() }
    }
}

impl Second {
    fn interval(&self) -> Interval {
        let back = self.sum_bidir_reverse.map_or(0.0, |sum| sum.bits_per_second);
        let bytes_per_second = (self.sum.bits_per_second + back) / BITS;
        Interval { at: self.sum.end, bytes_per_second, ..Interval::default() }
    }
}

impl End {
    fn extra(&self) -> BTreeMap<String, f64> {
        let retransmits: Vec<f64> = [self.sum_sent, self.sum_sent_bidir_reverse]
            .into_iter()
            .flatten()
            .filter_map(|sum| sum.retransmits)
            .collect();
        let sum = (!retransmits.is_empty()).then(|| retransmits.iter().sum());
        let processor = self.cpu_utilization_percent.as_ref();
        let all = [
            ("retransmits", sum),
            ("sent_bytes_per_second", self.sum_sent.map(|sent| sent.bits_per_second / BITS)),
            ("tool_cpu_percent_host", processor.map(|percent| percent.host_total)),
            ("tool_cpu_percent_target", processor.map(|percent| percent.remote_total)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}
