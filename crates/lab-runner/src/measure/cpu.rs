//! Processor time of the machine, and how it divides into sides and others.
//!
//! Sides are exact (control groups), the machine's counters are clock ticks of 10 ms (`proc_stat(5)`). What the machine
//! was busy with and no side accounts for is *foreign*: somebody else's load, or interrupts that the kernel charges to nobody.
//! Kernels that account interrupt time apart never charge it to a process; there it is taken out of `foreign`.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::measure::kernel::PACKETS;
use crate::measure::limits::{FOREIGN_PERCENT, FOREIGN_SECONDS};
use crate::measure::process;
use crate::measure::side::Spent;
use lab_model::result::{Cpu, CpuShare, Flag};
use lab_model::statistics::number::{count, real};

/// Seconds of one processor, or of all, since boot or in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Programs, and programs at lower priority.
    pub user: f64,
    /// The kernel on behalf of programs.
    pub system: f64,
    /// Nothing to do, or waiting for a disk.
    pub idle: f64,
    /// Hardware interrupts.
    pub irq: f64,
    /// Soft interrupts: most of receiving packets.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
}

impl Times {
    /// Reads the columns of a `cpu` line: user, nice, system, idle, iowait, irq, softirq, steal (guests are in user already),
    /// in ticks of which a second has `per_second`.
    fn parse(columns: &str, per_second: u64) -> Option<Self> {
        let ticks: Vec<u64> = columns.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
        let seconds = ticks.first_chunk::<8>()?.map(|count| real(count) / real(per_second));
        let [user, nice, system, idle, iowait, irq, softirq, steal] = seconds;
        Some(Self { user: user + nice, system, idle: idle + iowait, irq, softirq, steal })
    }

    /// Each field of both, put together.
    fn with(self, other: Self, each: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            user: each(self.user, other.user),
            system: each(self.system, other.system),
            idle: each(self.idle, other.idle),
            irq: each(self.irq, other.irq),
            softirq: each(self.softirq, other.softirq),
            steal: each(self.steal, other.steal),
        }
    }

    /// What happened after `earlier`. The kernel lets idle time go back a little at times.
    fn since(self, earlier: Self) -> Self {
        self.with(earlier, |now, before| (now - before).max(0.0))
    }

    /// Seconds of work.
    pub fn busy(self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }

    /// Seconds in all.
    pub fn all(self) -> f64 {
        self.busy() + self.idle + self.steal
    }

    /// Busy per cent.
    pub fn percent(self) -> f64 {
        percent(self.busy(), self.all())
    }
}

/// A part of a whole in per cent; 0 of nothing.
pub(crate) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// `/proc/stat` at one moment, or what happened between two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// All processors together.
    pub all: Times,
    /// Each, by its number.
    pub each: BTreeMap<usize, Times>,
}

impl Machine {
    /// Now.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat: is /proc mounted?")?;
        Self::parse(&text, process::ticks()).context("/proc/stat is not as proc_stat(5) describes it")
    }

    /// From the text of `/proc/stat`, in ticks of which a second has `per_second`.
    pub fn parse(text: &str, per_second: u64) -> Option<Self> {
        let mut machine = Self::default();
        for line in text.lines().map_while(|line| line.strip_prefix("cpu")) {
            let (number, columns) = line.split_once(' ')?;
            let times = Times::parse(columns, per_second)?;
            match number {
                "" => machine.all = times,
                number => drop(machine.each.insert(number.parse().ok()?, times)),
            }
        }
        (!machine.each.is_empty()).then_some(machine)
    }

    /// What happened after `earlier`. A processor that came or went in between counts as far as it was there.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |number: &usize| earlier.each.get(number).copied().unwrap_or_default();
        let each = self.each.iter().map(|(number, times)| (*number, times.since(before(number)))).collect();
        Self { all: self.all.since(earlier.all), each }
    }

    /// The counters at a moment between this one (`share` 0) and `later` (1), as if all had grown evenly.
    pub(crate) fn toward(&self, later: &Self, share: f64) -> Self {
        let between = |from: Times, to: Times| from.with(to, |from, to| from + (to - from) * share);
        let each = self.each.iter().filter_map(|(number, from)| {
            let to = later.each.get(number)?;
            Some((*number, between(*from, *to)))
        });
        Self { all: between(self.all, later.all), each: each.collect() }
    }
}

/// Whom the kernel charges for the time that it serves interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptTime {
    /// The process that was interrupted.
    Process,
    /// Nobody: it is counted apart from processes.
    Apart,
}

/// Puts the sides and the machine's times in a window together.
pub(crate) fn account(machine: &Machine, spent: &Spent, interrupts: InterruptTime) -> Cpu {
    let accounted: f64 = spent.values().copied().map(CpuShare::seconds).sum();
    let all = machine.all;
    let busy = match interrupts {
        InterruptTime::Apart => all.user + all.system,
        InterruptTime::Process => all.busy(),
    };
    Cpu {
        processors: count(machine.each.len()),
        host: spent.get("host").copied().unwrap_or_default(),
        adapter: spent.get("adapter").copied(),
        target: spent.get("target").copied(),
        neighbour: spent.get("neighbour").copied(),
        softirq: all.softirq,
        steal: all.steal,
        foreign: (busy - accounted).max(0.0),
        machine_percent: (0.0, 0.0, 0.0),
        method: String::new(),
    }
}

/// Whom this kernel charges for interrupts, as far as its configuration can be read.
pub fn interrupt_time() -> InterruptTime {
    static CHARGED: OnceLock<InterruptTime> = OnceLock::new();
    *CHARGED.get_or_init(|| {
        let is_apart = configuration().lines().any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y");
        if is_apart { InterruptTime::Apart } else { InterruptTime::Process }
    })
}

/// The kernel's configuration, from the place of distributions or the kernel's own; empty where there is none.
fn configuration() -> String {
    let release = process::line("/proc/sys/kernel/osrelease").unwrap_or_default();
    process::line(format!("/boot/config-{release}")).unwrap_or_else(|| {
        let output = Command::new("zcat").arg("/proc/config.gz").output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    })
}

/// Seconds of what is foreign that the kernel's threads for packets spent. Where interrupts are accounted apart, so is the time of these threads.
pub(crate) fn foreign_packets(threads: &BTreeMap<String, f64>, interrupts: InterruptTime) -> f64 {
    match interrupts {
        InterruptTime::Apart => 0.0,
        InterruptTime::Process => threads.get(PACKETS).copied().unwrap_or_default(),
    }
}

/// The flags for others' use of the processors: what was foreign, and what the hypervisor gave to other machines.
///
/// `packets` are the seconds of [`foreign_packets`], which do not count: where a link loses or shapes packets these threads do the sides' work, of which no
/// side can be told. Another process that sends so many packets is seen by its own time; packets of other machines are not seen here.
pub(crate) fn contended(cpu: &Cpu, machine: &Machine, packets: f64) -> Vec<Flag> {
    let told = |seconds: f64| seconds > FOREIGN_SECONDS * f64::from(cpu.processors);
    let share = |seconds| if told(seconds) { percent(seconds, machine.all.all()) } else { 0.0 };
    let others = (cpu.foreign - packets).max(0.0);
    let foreign = share(others);
    let stolen = share(cpu.steal);
    let mut flags = Vec::new();
    if foreign > FOREIGN_PERCENT {
        flags.push(Flag::Contended {
            detail: format!(
                "{foreign:.1} % of the machine's processors were foreign, {FOREIGN_PERCENT} % are allowed ({others:.2} s, without {packets:.2} s of ksoftirqd; soft interrupts {:.2} s)",
                cpu.softirq
            ),
        });
    }
    if stolen > FOREIGN_PERCENT {
        let detail = format!(
            "the hypervisor took {stolen:.1} % of the machine's processors, {FOREIGN_PERCENT} % are allowed"
        );
        flags.push(Flag::Contended { detail });
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  1000 10 500 9000 50 5 40 2 0 0\ncpu0 500 5 250 4500 25 5 20 1 0 0\n\
        cpu1 500 5 250 4500 25 0 20 1 0 0\nintr 1 2 3\nctxt 5\n";
    /// Two processors, one second: 100 ticks each.
    const AFTER: &str = "cpu  1080 20 530 9060 60 5 45 7 0 0\ncpu0 560 15 265 4505 25 5 25 1 0 0\n\
        cpu1 520 5 265 4555 35 0 20 6 0 0\nintr 1 2 3\nctxt 5\n";

    fn parse(text: &str) -> Machine {
        Machine::parse(text, 100).unwrap()
    }

    fn second() -> Machine {
        parse(AFTER).since(&parse(BEFORE))
    }

    fn spent(seconds: f64) -> Spent {
        let share = CpuShare { user: seconds / 2.0, system: seconds / 2.0 };
        Spent::from([("host", share), ("target", CpuShare::default())])
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn times_are_told_apart() {
        let all = second().all;
        let shown = [all.user, all.system, all.idle, all.irq, all.softirq, all.steal];
        assert!(shown.iter().zip([0.9, 0.3, 0.7, 0.0, 0.05, 0.05]).all(|(a, b)| near(*a, b)), "{all:?}");
        assert!(near(all.percent(), 62.5));
        assert!(near(second().each[&0].percent(), 100.0 * 90.0 / 95.0));
        assert_eq!(Machine::parse("intr 1\n", 100), None);
        assert_eq!(Machine::parse("cpu  1 2 3\ncpu0 1 2 3\n", 100), None);
    }

    #[test]
    fn between_two_samples_counters_grow_evenly() {
        let (before, after) = (parse(BEFORE), parse(AFTER));
        assert_eq!(before.toward(&after, 0.0), before);
        let quarter = before.toward(&after, 0.25).since(&before);
        assert!(near(quarter.all.user, 0.225) && near(quarter.each[&1].idle, 0.1625), "{quarter:?}");
    }

    #[test]
    fn a_processor_that_came_counts_and_one_that_went_does_not() {
        let one = parse("cpu  1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1\n");
        let other = parse("cpu  2 2 2 2 2 2 2 2\ncpu0 2 2 2 2 2 2 2 2\n");
        assert_eq!(other.since(&one).each.keys().collect::<Vec<_>>(), [&0]);
    }

    #[test]
    fn what_no_side_accounts_for_is_foreign_and_flagged() {
        let quiet = account(&second(), &spent(1.2), InterruptTime::Process);
        assert!(near(quiet.foreign, 0.05), "{quiet:?}");
        assert_eq!((quiet.processors, quiet.adapter, quiet.target), (2, None, Some(CpuShare::default())));
        assert!(contended(&quiet, &second(), 0.0).is_empty());
        let loud = account(&second(), &spent(1.1), InterruptTime::Process);
        let flags = contended(&loud, &second(), 0.0);
        assert!(
            matches!(&flags[..], [Flag::Contended { detail }] if detail.starts_with("7.5 %")),
            "{flags:?}"
        );
    }

    #[test]
    fn packets_that_the_kernel_s_threads_work_off_are_foreign_and_nobody_s_contention() {
        let lossy = account(&second(), &spent(0.9), InterruptTime::Process);
        assert!(near(lossy.foreign, 0.35), "{lossy:?}");
        assert_eq!(contended(&lossy, &second(), 0.3), []);
        let flags = contended(&lossy, &second(), 0.1);
        assert!(
            matches!(&flags[..], [Flag::Contended { detail }] if detail.starts_with("12.5 %") && detail.contains("0.10 s of ksoftirqd")),
            "{flags:?}"
        );
    }

    #[test]
    fn threads_for_packets_are_taken_out_of_what_is_foreign_only_where_they_are_in_it() {
        let threads = BTreeMap::from([(PACKETS.to_owned(), 0.3), ("kernel_loop_seconds".to_owned(), 9.0)]);
        assert!(near(foreign_packets(&threads, InterruptTime::Process), 0.3));
        assert!(near(foreign_packets(&threads, InterruptTime::Apart), 0.0));
        assert!(near(foreign_packets(&BTreeMap::new(), InterruptTime::Process), 0.0));
    }

    #[test]
    fn a_window_of_a_few_ticks_is_not_flagged_by_its_edges() {
        let machine = second();
        let cpu = Cpu { steal: 0.03, ..account(&machine, &spent(1.25 - 0.03), InterruptTime::Process) };
        let mut short = machine;
        short.all = Times { user: 0.07, ..Times::default() };
        assert!(percent(cpu.foreign, short.all.all()) > FOREIGN_PERCENT);
        assert_eq!(contended(&cpu, &short, 0.0), []);
    }

    #[test]
    fn what_the_hypervisor_takes_is_flagged_too() {
        let mut machine = second();
        machine.all.steal = 1.0;
        let flags = contended(&account(&machine, &spent(1.25), InterruptTime::Process), &machine, 0.0);
        assert!(
            matches!(&flags[..], [Flag::Contended { detail }] if detail.contains("hypervisor")),
            "{flags:?}"
        );
    }

    #[test]
    fn interrupts_that_are_accounted_apart_are_not_foreign() {
        assert!(near(account(&second(), &spent(1.2), InterruptTime::Apart).foreign, 0.0));
        assert!(near(account(&second(), &spent(1.3), InterruptTime::Apart).foreign, 0.0));
    }
}
