//! `lab selftest`: the instrument against what is known, on this machine, in a few seconds.
//!
//! Each check has an answer that is known by other means: processor time by `getrusage`, an arm that is compared with itself,
//! a volume that loses data, a limiter with a set rate. A check that fails says what was measured and what was right.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use lab_runner::machine::program;
use lab_runner::measure::cgroup::Method;
use lab_runner::measure::process::Stat;
use lab_runner::measure::{Role, Side};
use linerate::{CheckPlan, LoadPlan, Stop};
use rustix::process::getpid;
use std::sync::Arc;
use std::time::Duration;

use super::exit_code::INVALID;
use crate::output;

/// Arguments of `lab selftest`.
#[derive(Debug, Parser)]
pub(crate) struct Args {}

/// What may be between two ways of counting, in per cent.
const TOLERANCE: f64 = 2.0;
/// Uses up two seconds of processor time, however long that takes on a busy machine: enough that clock ticks of 10 ms do not matter.
const BURN: &str = "ulimit -t 2; while :; do :; done";
/// Seconds that it may take.
const BURN_LIMIT: &str = "120";

/// The rate of the limited volume, I/Os per second.
const RATE: f64 = 2000.0;
/// How often something may be measured that other work on the machine can disturb; a wrong instrument is wrong each time.
const ATTEMPTS: u32 = 5;

/// Runs every check.
pub(crate) fn run(_args: &Args) -> Result<u8> {
    let mut failed = 0;
    let mut tell = |name: &str, outcome: Result<String>| match outcome {
        Ok(words) => output::line(&format!("passed  {name}: {words}")),
        Err(error) => {
            failed += 1;
            output::line(&format!("FAILED  {name}: {error:#}"))
        }
    };
    for method in Method::available() {
        tell(&format!("processor time by {}", method.name()), processor_time(method))?;
    }
    tell("rate of a limited volume", limited_rate())?;
    tell("a volume that loses data is noticed", losing_volume())?;
    tell("failed I/Os are counted", failing_volume())?;
    for name in ["fio", "iscsi-perf", "iperf3", "tgtd", "qemu-storage-daemon", "ip", "tc"] {
        let words = match program::find(name) {
            Some(path) => path.display().to_string(),
            None => format!("not there, and what needs it is left out: {}", program::not_there(name)),
        };
        output::line(&format!("        {name}: {words}"))?;
    }
    Ok(if failed == 0 { 0 } else { INVALID })
}

/// A child's processor time, counted both ways. What it spends before it is in its group is the parent's alone to see, and on
/// a busy machine more than usual, so a few attempts are made.
fn processor_time(method: Method) -> Result<String> {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let (counted, known) = processor_time_both_ways(method)?;
        let words = format!("{counted:.3} s of {known:.3} s");
        if 100.0 * (counted - known).abs() <= TOLERANCE * known {
            return Ok(words);
        }
        seen.push(words);
    }
    bail!("{} were counted", seen.join(", "))
}

/// Seconds as counted as a side of an arm, and as the kernel tells a parent (`getrusage(2)`, by `/proc`).
fn processor_time_both_ways(method: Method) -> Result<(f64, f64)> {
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    let reaped = || Stat::of(own).map(|stat| stat.reaped.seconds());
    let side = Side::with_method(Role::Host, &format!("selftest-{own}"), method)?;
    let mut command = side.command(program::require("timeout")?);
    command.args([BURN_LIMIT, "sh", "-c", BURN]);
    let before = reaped()?;
    let mut child = side.spawn(&mut command)?;
    side.wait(&mut child)?;
    Ok((side.usage()?.seconds(), reaped()? - before))
}

/// A volume that does 2,000 I/Os per second is measured to do 2,000. A machine that stops the load for a moment takes away from it,
/// so a few attempts are made.
fn limited_rate() -> Result<String> {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let measured = rate_of_limited_volume()?;
        if (measured / RATE - 1.0).abs() * 100.0 <= TOLERANCE {
            return Ok(format!("{measured:.0} of {RATE} IOPS"));
        }
        seen.push(format!("{measured:.0}"));
    }
    bail!("{} IOPS were measured, {RATE} were set", seen.join(", "))
}

/// I/Os per second of the limited volume.
fn rate_of_limited_volume() -> Result<f64> {
    let plan = LoadPlan {
        depth: 4,
        ramp: Duration::from_millis(500),
        runtime: Duration::from_secs(2),
        ..LoadPlan::default()
    };
    let url = format!("limit={RATE}iops+null:64M").parse().context("the volume's URL")?;
    let result = linerate::run_load(&[url], plan, Arc::new(|_, _| {}), Stop::new())?;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand I/Os")]
    let completed = result.completed() as f64;
    Ok(completed / result.elapsed.as_secs_f64())
}

/// A null volume keeps nothing, and the integrity pass must say so.
fn losing_volume() -> Result<String> {
    let url = "null:64M".parse().context("the volume's URL")?;
    match linerate::check(&url, CheckPlan::default()) {
        Err(error @ linerate::Error::Check { .. }) => Ok(error.to_string()),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("a volume that keeps nothing passed"),
    }
}

/// A volume at which every tenth I/O fails. The load ends with the first failure, which is a matter of milliseconds; the time is
/// for a machine that stands still meanwhile.
fn failing_volume() -> Result<String> {
    let plan = LoadPlan { depth: 1, runtime: Duration::from_secs(5), ..LoadPlan::default() };
    let url = "fail=10%+null:64M".parse().context("the volume's URL")?;
    let result = linerate::run_load(&[url], plan, Arc::new(|_, _| {}), Stop::new())?;
    ensure!(result.errors > 0, "no failure was counted in {} I/Os", result.completed());
    Ok(format!("{} beside {} good ones", result.errors, result.completed()))
}
