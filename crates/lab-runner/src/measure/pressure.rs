//! The quiet gate: a run starts when the machine has nothing else to do, or says what it is that disturbs.
//!
//! Two things are asked: how much of the processors others use, and how long processes waited for one (pressure stall
//! information, `/proc/pressure/cpu`). The second also sees a machine on which a hypervisor or a quota holds back. Kernels
//! without it are judged by the first alone.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::measure::cpu::{Machine, percent};
use crate::measure::limits::{
    DISTURBER_PERCENT, DISTURBERS, QUIET_BUSY_PERCENT, QUIET_LOOK, QUIET_PRESSURE_PERCENT,
};
use crate::measure::process::{self, Stat};
use crate::measure::side::Sides;
use lab_model::result::CpuShare;
use lab_model::statistics::number::real;

/// What the gate saw last.
#[derive(Debug, Clone, PartialEq)]
pub struct Quiet {
    /// Whether the machine was quiet.
    pub calm: bool,
    /// How long it took.
    pub waited: Duration,
    /// Per cent of the machine's processors that others used.
    pub busy: f64,
    /// Per cent of the time in which some process waited for a processor; `None` where the kernel does not tell.
    pub pressure: Option<f64>,
    /// Who used most, at most five.
    pub disturbers: Vec<Disturber>,
}

/// A process that disturbs.
#[derive(Debug, Clone, PartialEq)]
pub struct Disturber {
    /// Its number.
    pub pid: u32,
    /// Its program's name.
    pub name: String,
    /// Per cent of one processor.
    pub percent: f64,
}

/// Waits until the machine is quiet, but not longer than `limit`, in steps of a second. What `sides` use counts as ours.
pub fn wait_until_quiet(limit: Duration, sides: Option<&Sides>) -> Result<Quiet> {
    let began = Instant::now();
    wait(limit, || Look::read(began, sides), thread::sleep)
}

/// The same with any eyes and any clock.
fn wait(
    limit: Duration,
    mut look: impl FnMut() -> Result<Look>,
    mut pause: impl FnMut(Duration),
) -> Result<Quiet> {
    let mut before = look()?;
    let start = before.at;
    loop {
        pause(QUIET_LOOK);
        let now = look()?;
        let waited = now.at.saturating_sub(start);
        let quiet = now.judge(&before, waited);
        if quiet.calm || waited >= limit {
            return Ok(quiet);
        }
        before = now;
    }
}

/// Counters at one moment.
#[derive(Debug, Clone, Default)]
struct Look {
    at: Duration,
    machine: Machine,
    /// Seconds that our sides spent.
    ours: f64,
    /// Processes that belong to our sides.
    our_pids: Vec<u32>,
    /// Seconds in which some process waited.
    stalled: Option<f64>,
    processes: Vec<Stat>,
}

impl Look {
    fn read(began: Instant, sides: Option<&Sides>) -> Result<Self> {
        let mut our_pids = vec![std::process::id()];
        let mut ours = 0.0;
        for side in sides.into_iter().flat_map(Sides::iter) {
            our_pids.extend(side.pids()?);
            ours += side.usage()?.seconds();
        }
        Ok(Self {
            at: began.elapsed(),
            machine: Machine::read()?,
            ours,
            our_pids,
            stalled: process::line("/proc/pressure/cpu").as_deref().and_then(parse_stalled),
            processes: process::all()?,
        })
    }

    fn judge(&self, earlier: &Self, waited: Duration) -> Quiet {
        let machine = self.machine.since(&earlier.machine).all;
        let seconds = self.at.saturating_sub(earlier.at).as_secs_f64();
        let foreign = (machine.busy() - (self.ours - earlier.ours)).max(0.0) + machine.steal;
        let busy = percent(foreign, machine.all());
        let pressure = self.stalled.zip(earlier.stalled).map(|(now, then)| percent(now - then, seconds));
        let calm = busy <= QUIET_BUSY_PERCENT && pressure.is_none_or(|share| share <= QUIET_PRESSURE_PERCENT);
        Quiet { calm, waited, busy, pressure, disturbers: self.disturbers(earlier, seconds) }
    }

    fn disturbers(&self, earlier: &Self, seconds: f64) -> Vec<Disturber> {
        let before: BTreeMap<(u32, u64), CpuShare> =
            earlier.processes.iter().map(|process| ((process.pid, process.started), process.own)).collect();
        let strangers = self.processes.iter().filter(|process| !self.our_pids.contains(&process.pid));
        let mut all: Vec<Disturber> = strangers
            .map(|process| {
                let then = before.get(&(process.pid, process.started)).copied().unwrap_or_default();
                let share = percent((process.own.seconds() - then.seconds()).max(0.0), seconds);
                Disturber { pid: process.pid, name: process.name.clone(), percent: share }
            })
            .filter(|process| process.percent >= DISTURBER_PERCENT)
            .collect();
        all.sort_unstable_by(|one, other| other.percent.total_cmp(&one.percent));
        all.truncate(DISTURBERS);
        all
    }
}

/// `total` of the `some` line of a pressure file, which is in microseconds, in seconds.
fn parse_stalled(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|field| field.strip_prefix("total="))?;
    Some(real(total.parse().ok()?) / 1e6)
}

impl fmt::Display for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.calm { "quiet" } else { "still busy" };
        write!(
            f,
            "{state} after {:.0} s: others use {:.0} % of the processors ({QUIET_BUSY_PERCENT} % are allowed)",
            self.waited.as_secs_f64(),
            self.busy
        )?;
        if let Some(pressure) = self.pressure {
            write!(
                f,
                ", processes waited {pressure:.0} % of the time ({QUIET_PRESSURE_PERCENT} % are allowed)"
            )?;
        }
        for (index, process) in self.disturbers.iter().enumerate() {
            let before = if index == 0 { "; " } else { ", " };
            write!(f, "{before}{} (process {}) {:.0} %", process.name, process.pid, process.percent)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of a machine with two processors: how much of it others and we spent, and others waited.
    #[derive(Clone, Copy)]
    struct Second {
        others: f64,
        ours: f64,
        waited: Option<f64>,
    }

    /// Plays seconds one after another; the last one goes on.
    fn play(limit: u64, seconds: &[Second]) -> Quiet {
        let (mut at, mut others, mut ours, mut stalled) = (0, 0.0, 0.0, Some(0.0));
        let look = || {
            let second = seconds[at.min(seconds.len() - 1)];
            if at > 0 {
                let second = seconds[(at - 1).min(seconds.len() - 1)];
                (others, ours) = (others + second.others, ours + second.ours);
                stalled = stalled.zip(second.waited).map(|(sum, more): (f64, f64)| sum + more);
            }
            let busy = others + ours;
            let line = format!("{:.0} 0 0 {:.0} 0 0 0 0", busy * 1e6, (real(at as u64) * 2.0 - busy) * 1e6);
            let machine = Machine::parse(&format!("cpu  {line}\ncpu0 {line}\n"), 1_000_000).unwrap();
            let process = |pid: u32, name: &str, spent: f64| Stat {
                pid,
                name: name.to_owned(),
                parent: 1,
                started: 5,
                own: CpuShare { user: spent, system: 0.0 },
                reaped: CpuShare::default(),
            };
            let processes =
                vec![process(7, "rustc", others), process(8, "fio", ours), process(9, "idle", 0.0)];
            let look = Look {
                at: Duration::from_secs(at as u64),
                machine,
                ours,
                our_pids: vec![8],
                stalled: stalled.filter(|_| second.waited.is_some()),
                processes,
            };
            at += 1;
            Ok(look)
        };
        wait(Duration::from_secs(limit), look, |_| {}).unwrap()
    }

    const BUSY: Second = Second { others: 1.0, ours: 0.0, waited: Some(0.5) };
    const CALM: Second = Second { others: 0.02, ours: 0.0, waited: Some(0.01) };

    #[test]
    fn it_waits_until_the_machine_is_quiet() {
        let quiet = play(30, &[BUSY, BUSY, CALM]);
        assert!(quiet.calm && quiet.disturbers.len() == 1, "{quiet:?}");
        assert_eq!(quiet.waited, Duration::from_secs(3));
        assert!(
            quiet.to_string().starts_with("quiet after 3 s: others use 1 % of the processors"),
            "{quiet}"
        );
    }

    #[test]
    fn past_the_limit_it_says_what_is_busy() {
        let quiet = play(2, &[BUSY]);
        assert_eq!((quiet.calm, quiet.waited), (false, Duration::from_secs(2)));
        assert_eq!(
            quiet.to_string(),
            "still busy after 2 s: others use 50 % of the processors (5 % are allowed), processes waited 50 % of the time (10 % are allowed); rustc (process 7) 100 %"
        );
    }

    #[test]
    fn waiting_alone_is_not_quiet_and_our_own_load_is() {
        assert!(!play(1, &[Second { waited: Some(0.2), ..CALM }]).calm);
        assert!(play(1, &[Second { ours: 1.5, ..CALM }]).calm);
        assert!(play(1, &[Second { waited: None, ..CALM }]).calm);
        assert!(!play(1, &[Second { waited: None, ..BUSY }]).calm);
    }

    #[test]
    fn pressure_files() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n";
        assert_eq!(parse_stalled(text), Some(2.5));
        assert_eq!(parse_stalled("full total=1\n"), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let began = Instant::now();
        let (before, after) = (Look::read(began, None).unwrap(), Look::read(began, None).unwrap());
        let quiet = after.judge(&before, Duration::ZERO);
        assert!((0.0..=100.0).contains(&quiet.busy), "{quiet:?}");
    }
}
