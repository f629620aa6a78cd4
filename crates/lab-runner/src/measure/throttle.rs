//! Whether processors were slowed down: by a quota of a control group, by heat, by a lowered clock.
//!
//! A figure that was measured while the machine was held back says nothing about the arm, so the point is flagged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::measure::cpu::{Machine, percent};
use crate::measure::limits::{SLOWED_BUSY_PERCENT, SLOWED_SHARE};
use crate::measure::side::{Side, Sides};
use crate::measure::{cgroup, process};
use lab_model::result::Flag;
use lab_model::statistics::number::real;

/// Where processors are described.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Counters of slowing down at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Throttling {
    /// Periods in which a quota above the lab, or on a side alone, stopped processes, by the group's `cpu.stat`.
    quota: BTreeMap<PathBuf, u64>,
    /// Times that a processor was too hot, all processors together.
    heat: u64,
    /// Frequency and base frequency of each processor that tells them, kHz.
    clocks: BTreeMap<usize, (u64, u64)>,
}

impl Throttling {
    /// Now.
    pub(crate) fn read(sides: &Sides) -> Self {
        Self::read_from(&quotas(sides), Path::new(PROCESSORS))
    }

    fn read_from(quotas: &[PathBuf], processors: &Path) -> Self {
        let quota = quotas.iter().filter_map(|path| Some((path.clone(), periods(&process::line(path)?)?)));
        let folders: Vec<(usize, PathBuf)> = processor_folders(processors);
        let heat = folders
            .iter()
            .filter_map(|(_, folder)| number(folder.join("thermal_throttle/core_throttle_count")));
        let clocks = folders
            .iter()
            .filter_map(|(processor, folder)| Some((*processor, clock(&folder.join("cpufreq"))?)));
        Self { quota: quota.collect(), heat: heat.sum(), clocks: clocks.collect() }
    }

    /// Keeps the greatest frequency of each processor: clocks fall as soon as a load ends.
    pub(crate) fn fastest(mut self, other: &Self) -> Self {
        for (processor, (now, _)) in &mut self.clocks {
            *now = other.clocks.get(processor).map_or(*now, |(seen, _)| *seen.max(now));
        }
        self
    }

    /// What slowed the machine between `earlier` and this, given what it was busy with in between.
    pub(crate) fn flags(&self, earlier: &Self, machine: &Machine) -> Vec<Flag> {
        let details =
            self.by_quota(earlier).into_iter().chain(self.by_heat(earlier)).chain(self.by_clock(machine));
        details.map(|detail| Flag::Throttled { detail }).collect()
    }

    fn by_quota(&self, earlier: &Self) -> Option<String> {
        let grown =
            |path: &PathBuf, now: u64| now.saturating_sub(earlier.quota.get(path).copied().unwrap_or(now));
        let (path, periods) =
            self.quota.iter().map(|(path, now)| (path, grown(path, *now))).max_by_key(|(_, more)| *more)?;
        (periods > 0).then(|| {
            format!("a processor quota stopped processes in {periods} periods ({}): lift cpu.max or cpu.cfs_quota_us", path.display())
        })
    }

    fn by_heat(&self, earlier: &Self) -> Option<String> {
        let times = self.heat.saturating_sub(earlier.heat);
        (times > 0).then(|| format!("processors were slowed {times} times because of their temperature"))
    }

    fn by_clock(&self, machine: &Machine) -> Option<String> {
        self.clocks.iter().find_map(|(processor, (now, base))| {
            let busy = machine.each.get(processor)?.percent() >= SLOWED_BUSY_PERCENT;
            let (now, base) = (real(*now), real(*base));
            let detail = format!(
                "processor {processor} ran at {:.0} MHz, {:.0} % of its base frequency: see its cpufreq governor and limits",
                now / 1e3,
                percent(now, base)
            );
            (busy && now < base * SLOWED_SHARE).then_some(detail)
        })
    }
}

/// Where quotas tell of themselves: above the lab, where they hold back all arms, and on the groups of the sides, where somebody else
/// may hold back one of them.
fn quotas(sides: &Sides) -> Vec<PathBuf> {
    let own = sides.iter().filter_map(Side::folder).map(|folder| folder.join("cpu.stat"));
    cgroup::quota_files().into_iter().chain(own).collect()
}

/// `nr_throttled` of a `cpu.stat`.
fn periods(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

/// Frequency now and the one that is kept up under load: the base frequency, or the greatest where no base is told.
fn clock(folder: &Path) -> Option<(u64, u64)> {
    let base = number(folder.join("base_frequency")).or_else(|| number(folder.join("cpuinfo_max_freq")))?;
    Some((number(folder.join("scaling_cur_freq"))?, base))
}

fn number(path: PathBuf) -> Option<u64> {
    process::line(path)?.parse().ok()
}

/// The folders `cpu0`, `cpu1`, …
pub(crate) fn processor_folders(parent: &Path) -> Vec<(usize, PathBuf)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let numbered = |entry: fs::DirEntry| {
        let processor = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
        Some((processor, entry.path()))
    };
    let mut folders: Vec<_> = entries.filter_map(numbered).collect();
    folders.sort_unstable();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::side::Role;

    /// A machine of one processor that is busy or idle for a second.
    fn machine(busy: u32) -> Machine {
        let line = format!("{busy} 0 0 {} 0 0 0 0", 100 - busy);
        Machine::parse(&format!("cpu  {line}\ncpu0 {line}\n"), 100).unwrap()
    }

    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for part in ["cpu0/cpufreq", "cpu0/thermal_throttle", "cpuidle"] {
                fs::create_dir_all(folder.path().join(part)).unwrap();
            }
            Self { folder }
        }

        fn read(&self, throttled: u64, heat: u64, kilohertz: u64) -> Throttling {
            let write = |name: &str, text: String| fs::write(self.folder.path().join(name), text).unwrap();
            write("cpu.stat", format!("nr_periods 9\nnr_throttled {throttled}\nthrottled_usec 1\n"));
            write("cpu0/thermal_throttle/core_throttle_count", format!("{heat}\n"));
            write("cpu0/cpufreq/scaling_cur_freq", format!("{kilohertz}\n"));
            write("cpu0/cpufreq/base_frequency", "2000000\n".to_owned());
            Throttling::read_from(&[self.folder.path().join("cpu.stat")], self.folder.path())
        }
    }

    #[test]
    fn each_cause_is_flagged_by_itself() {
        let files = Files::new();
        let before = files.read(3, 7, 2_000_000);
        assert!(files.read(3, 7, 1_900_000).flags(&before, &machine(100)).is_empty());
        for (after, word) in [
            (files.read(5, 7, 2_000_000), "in 2 periods"),
            (files.read(3, 8, 2_000_000), "1 times because of their temperature"),
            (files.read(3, 7, 1_000_000), "1000 MHz, 50 %"),
        ] {
            let flags = after.flags(&before, &machine(100));
            assert!(matches!(&flags[..], [Flag::Throttled { detail }] if detail.contains(word)), "{flags:?}");
        }
    }

    #[test]
    fn a_quota_on_one_side_alone_is_found_and_its_group_named() {
        let folder = tempfile::tempdir().unwrap();
        let [above, side] = ["above.stat", "target.stat"].map(|name| folder.path().join(name));
        let read = |throttled: u64| {
            fs::write(&above, "nr_throttled 4\n").unwrap();
            fs::write(&side, format!("nr_throttled {throttled}\n")).unwrap();
            Throttling::read_from(&[above.clone(), side.clone()], folder.path())
        };
        let before = read(0);
        let flags = read(6).flags(&before, &machine(100));
        assert!(
            matches!(&flags[..], [Flag::Throttled { detail }] if detail.contains("in 6 periods") && detail.contains("target.stat")),
            "{flags:?}"
        );
        let sides = Sides::create("throttle-quota", &[Role::Host, Role::Target]).unwrap();
        let looked_at = quotas(&sides);
        assert!(
            sides.iter().filter_map(Side::folder).all(|group| looked_at.contains(&group.join("cpu.stat")))
        );
        sides.remove().unwrap();
    }

    #[test]
    fn an_idle_processor_may_be_slow() {
        let files = Files::new();
        let slow = files.read(0, 0, 500_000);
        assert!(slow.flags(&slow, &machine(10)).is_empty());
        let once_fast = slow.clone().fastest(&files.read(0, 0, 2_000_000));
        assert!(once_fast.flags(&slow, &machine(100)).is_empty());
        assert_eq!(slow.clone().fastest(&slow).flags(&slow, &machine(100)).len(), 1);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_flagged() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = Throttling::read_from(&[folder.path().join("cpu.stat")], folder.path());
        assert_eq!(nothing, Throttling::default());
        assert!(nothing.flags(&nothing, &machine(100)).is_empty());
    }
}
