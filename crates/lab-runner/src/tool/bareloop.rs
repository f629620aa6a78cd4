//! The bare loop's client: the load of `linerate bench` without any protocol.
//!
//! It has no warm-up: a run of its own before the window takes its place. Blocks are taken in a fixed order that jumps, so random
//! and sequential loads are one to it, and it tells percentiles but no histogram.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Deserialize;

use super::assignment::{Assignment, Measured, command_line, tool};
use super::settings::{LOG, Settings};
use super::{doubt, raw, shell, spread};
use crate::arm::bareloop;
use crate::machine::process::CommandLine;
use lab_model::result::{Direction, Latency, Load};

const OUTPUT: &str = "bareloop.json";
/// Options that it does not have.
const NOT_HERE: &[&str] = &["bssplit", "random_distribution", "fsync", "rate_iops", "rate_iops_per_job", LOG];

/// How it is started.
pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    settings.refuse("bareloop", NOT_HERE)?;
    let direction = direction(settings)?;
    let [endpoint] = assignment.endpoints else {
        bail!("the bare loop loads one stream, the arm gave {}", assignment.endpoints.len());
    };
    let depth = spread::total(&spread::over(settings, assignment.endpoints)?);
    let bytes = settings.bytes("bs", 4096)?;
    // As programs that own one processor, it does not spin unless it is told to.
    let spin = settings.get("spin").map(|span| bareloop::microseconds("spin", span)).transpose()?;
    let spin = spin.map_or_else(String::new, |span| format!(" --spin {span}"));
    let program = bareloop::path(assignment.linerate).unwrap_or_else(|| "bareloop".into());
    let program = shell::quote(&program.display().to_string());
    let run = |seconds: f64, to: &str| {
        format!(
            "{program} --connect {} --rw {direction} --bs {bytes} --qd {depth} --runtime {seconds}{spin} --json >{to} || exit\n",
            endpoint.url
        )
    };
    let before = if assignment.ramp > 0.0 { run(assignment.ramp, "/dev/null") } else { String::new() };
    let script = format!("{before}{}{}", shell::note_window(), run(assignment.runtime, OUTPUT));
    Ok(command_line(assignment, shell::argv(&script), "bareloop.stdout"))
}

fn direction(settings: Settings<'_>) -> Result<&'static str> {
    match settings.text("rw", "randread") {
        "read" | "randread" => Ok("read"),
        "write" | "randwrite" => Ok("write"),
        other => bail!("the bare loop reads or writes, and rw = {other:?} mixes: leave its arm out"),
    }
}

/// Its JSON; times are microseconds.
#[derive(Debug, Deserialize)]
struct Output {
    requests: u64,
    seconds: f64,
    iops: f64,
    bytes_per_second: f64,
    mean_us: f64,
    min_us: f64,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    p999_us: f64,
    p9999_us: f64,
    max_us: f64,
    client_cpu_us: f64,
}

/// What it measured.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let settings = Settings(assignment.settings);
    let output: Output = raw::json(&assignment.folder.join(OUTPUT))?;
    let figures = Direction {
        ios: output.requests,
        bytes: output.requests.saturating_mul(settings.bytes("bs", 4096)?),
        iops: output.iops,
        bytes_per_second: output.bytes_per_second,
        latency: Some(output.latency()),
    };
    let load = match direction(settings)? {
        "read" => Load { read: Some(figures), ..Load::default() },
        _ => Load { write: Some(figures), ..Load::default() },
    };
    Ok(Measured {
        tool: tool("bareloop", env!("CARGO_PKG_VERSION"), &command(assignment)?),
        flags: doubt::flags(&load, assignment.initiator),
        load,
        intervals: Vec::new(),
        extra: BTreeMap::from([("tool_cpu_us_per_io".to_owned(), output.client_cpu_us)]),
        seconds: output.seconds,
        window_start: Some(shell::window_start(assignment.folder)?),
    })
}

impl Output {
    fn latency(&self) -> Latency {
        let nanos = |micros: f64| micros * 1e3;
        let percentiles = [
            ("p50", self.p50_us),
            ("p95", self.p95_us),
            ("p99", self.p99_us),
            ("p99.9", self.p999_us),
            ("p99.99", self.p9999_us),
        ];
        Latency {
            min: nanos(self.min_us),
            mean: nanos(self.mean_us),
            max: nanos(self.max_us),
            percentiles: percentiles.map(|(name, micros)| (name.to_owned(), nanos(micros))).into(),
            ..Latency::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ToolKind;
    use super::super::tests::Bench;
    use lab_model::scenario::Initiator;

    /// What one run printed: 4 KiB reads at depth 32.
    const PRINTED: &str = r#"{"mode":"bare","driver":"Auto","rw":"read","bs":4096,"qd":32,"requests":735211,"seconds":2.000123,"iops":367583,"bytes_per_second":1505619968,"mean_us":86.9,"min_us":12.5,"p50_us":84.125,"p95_us":101.0,"p99_us":133.25,"p999_us":310.5,"p9999_us":1020.0,"max_us":4107.75,"client_cpu_us":1.210,"server_cpu_us":null}"#;

    #[test]
    fn its_figures_are_taken_as_they_stand() {
        let bench = Bench::new(Initiator::BareLoop, &["127.0.0.1:9"], &[("rw", "randread")]);
        bench.put("bareloop.json", PRINTED);
        bench.put("window", "12.5\n");
        let measured = super::read(&bench.assignment()).unwrap();
        let read = measured.load.read.unwrap();
        assert_eq!((read.ios, read.bytes), (735_211, 735_211 * 4096));
        assert_eq!(read.latency.unwrap().percentiles["p99.9"].to_bits(), 310_500_f64.to_bits());
        assert!(measured.load.write.is_none() && measured.window_start == Some(12.5));
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        let refused = |urls: &[&str], setting: (&str, &str), part: &str| {
            let said = Bench::new(Initiator::BareLoop, urls, &[setting]).refusal(ToolKind::Fio);
            assert!(said.contains(part), "{said}");
        };
        refused(&["h:1"], ("rw", "randrw"), "mixes");
        refused(&["h:1"], ("spin", "soon"), "spin = \"soon\"");
        refused(&["h:1", "h:2"], ("rw", "read"), "one stream");
    }
}
