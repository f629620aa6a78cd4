//! `iscsi-perf` of libiscsi: reads over iSCSI, one process for each volume.
//!
//! It prints the average rate in whole I/Os per second and nothing about latency, so latencies are absent. It tells no
//! count: I/Os are the average times the seconds. It has no warm-up: a run of its own before the window takes its place.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::assignment::{Assignment, Measured, command_line, tool, whole_seconds};
use super::settings::{LOG, Settings};
use super::{doubt, raw, shell, spread};
use crate::machine::process::CommandLine;
use lab_model::result::{Direction, Interval, Load};
use lab_model::statistics::number::real;

/// Options that it does not have.
const NOT_HERE: &[&str] = &["bssplit", "random_distribution", "fsync", "rate_iops", "rate_iops_per_job", LOG];
/// It counts in the volume's blocks, which its output tells afterwards; 512 bytes is what targets of the lab have.
const BLOCK: u64 = 512;

/// How it is started.
pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let settings = Settings(assignment.settings);
    settings.refuse("iscsi-perf", NOT_HERE)?;
    let random = match settings.text("rw", "randread") {
        "randread" => " -r",
        "read" => "",
        other => bail!("iscsi-perf only reads: rw = {other:?} needs another initiator, such as libiscsi-nbd"),
    };
    let bytes = settings.bytes("bs", 4096)?;
    if !bytes.is_multiple_of(BLOCK) {
        bail!("iscsi-perf reads whole blocks: bs must be a multiple of {BLOCK}, not {bytes}");
    }
    let shares = spread::over(settings, assignment.endpoints)?;
    let run = |seconds: f64, keep: bool| {
        let each = assignment.endpoints.iter().zip(&shares).enumerate().map(|(index, (endpoint, share))| {
            let depth = share.jobs.saturating_mul(share.depth);
            let blocks = bytes / BLOCK;
            let to = if keep { output(index) } else { "/dev/null".to_owned() };
            let url = shell::quote(&endpoint.url);
            format!("iscsi-perf -l{random} -m {depth} -b {blocks} -t {} {url} >{to}", whole_seconds(seconds))
        });
        shell::parallel(&each.collect::<Vec<_>>())
    };
    let before = if assignment.ramp > 0.0 { run(assignment.ramp, false) } else { String::new() };
    let script = format!("{before}{}{}", shell::note_window(), run(assignment.runtime, true));
    Ok(command_line(assignment, shell::argv(&script), "iscsi-perf.stdout"))
}

fn output(index: usize) -> String {
    format!("iscsi-perf.{index}.txt")
}

/// What one process printed.
#[derive(Debug, Default)]
struct Printed {
    version: String,
    transfer: u64,
    iops: u64,
    seconds: Vec<u64>,
}

/// What it measured.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let bytes = Settings(assignment.settings).bytes("bs", 4096)?;
    let runtime = whole_seconds(assignment.runtime);
    let mut direction = Direction::default();
    let mut by_second: BTreeMap<usize, u64> = BTreeMap::new();
    let mut version = String::new();
    for index in 0..assignment.endpoints.len() {
        let path = assignment.folder.join(output(index));
        let printed = parse(&raw::text(&path)?).with_context(|| path.display().to_string())?;
        if printed.transfer != bytes {
            bail!(
                "{}: read {} bytes at a time rather than {bytes}: the volume's blocks are not {BLOCK} bytes; serve it with \
                 blocks of {BLOCK}",
                path.display(),
                printed.transfer
            );
        }
        direction.iops += real(printed.iops);
        direction.ios += printed.iops.saturating_mul(runtime);
        for (second, iops) in printed.seconds.into_iter().enumerate() {
            *by_second.entry(second).or_default() += iops;
        }
        version = printed.version;
    }
    direction.bytes = direction.ios.saturating_mul(bytes);
    direction.bytes_per_second = direction.iops * real(bytes);
    let load = Load { read: (direction.ios > 0).then_some(direction), ..Load::default() };
    Ok(Measured {
        tool: tool("iscsi-perf", &version, &command(assignment)?),
        flags: doubt::flags(&load, assignment.initiator),
        load,
        intervals: by_second.into_iter().map(|(second, iops)| interval(second, iops, bytes)).collect(),
        extra: BTreeMap::new(),
        seconds: real(runtime),
        window_start: Some(shell::window_start(assignment.folder)?),
    })
}

fn interval(second: usize, iops: u64, bytes: u64) -> Interval {
    let (iops, bytes) = (real(iops), real(bytes));
    Interval { at: real(second as u64 + 1), iops, bytes_per_second: iops * bytes, ..Interval::default() }
}

fn parse(text: &str) -> Result<Printed> {
    let mut printed = Printed::default();
    let mut finished = false;
    // Progress is written over itself by carriage returns.
    for line in text.split(['\n', '\r']) {
        let after = |label: &str| raw::number_after(line, label).map(whole);
        if let Some(rest) = line.strip_prefix("iscsi-perf version ") {
            rest.split(' ').next().unwrap_or_default().clone_into(&mut printed.version);
        } else if line.starts_with("FIXED transfer size") {
            printed.transfer = after("(").context("no bytes in the line of the transfer size")?;
        } else if let Some(iops) = after("iops current") {
            printed.seconds.push(iops);
        } else if line.starts_with("iops average") {
            printed.iops = after("iops average").context("no number after the last \"iops average\"")?;
            finished = true;
        }
    }
    if !finished {
        bail!("holds no final \"iops average\": iscsi-perf ended early, see iscsi-perf.stderr beside it");
    }
    Ok(printed)
}

/// It prints whole numbers only.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "read from digits, so not negative; `as` saturates"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_run_is_read() {
        let printed = parse(include_str!("fixtures/iscsi-perf.txt")).unwrap();
        assert_eq!(printed.version, "0.1");
        assert_eq!((printed.transfer, printed.iops), (4096, 151_281));
        assert_eq!(printed.seconds, [149_598, 144_308]);
        // It prints MiB per second itself, cut to whole ones.
        assert_eq!((printed.iops * printed.transfer) >> 20, 590);
    }

    #[test]
    fn a_run_that_was_cut_off_says_so() {
        let whole = include_str!("fixtures/iscsi-perf.txt");
        let cut = whole.split("\riops average").next().unwrap();
        assert!(parse(cut).unwrap_err().to_string().contains("ended early"));
    }
}
