//! What a machine's hardware counts by itself: packets of its interface, interrupts, pages by NUMA node, energy.
//!
//! Read once at the beginning and once at the end of a window (`proc(5)`, `Documentation/ABI/testing/sysfs-class-net-statistics`,
//! `Documentation/admin-guide/numastat.rst`, `Documentation/power/powercap`). What a machine does not show is left out: a
//! guest has no energy counters, and most systems let only root read them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::measure::limits::INTERRUPT_SOURCES;
use crate::measure::process::{line, parse_list};
use lab_model::result::Hardware;
use lab_model::statistics::number::real;

/// All counters at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    at: Instant,
    interface: BTreeMap<String, u64>,
    interrupts: BTreeMap<String, u64>,
    pages: BTreeMap<String, u64>,
    energy: BTreeMap<String, Meter>,
}

/// An energy counter: it starts anew at its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meter {
    microjoules: u64,
    range: u64,
}

impl Snapshot {
    /// Now; the counters of an interface only if one is named.
    pub fn read(interface: Option<&str>) -> Self {
        let statistics = interface.map(|name| Path::new("/sys/class/net").join(name).join("statistics"));
        let mut interrupts = sources(&line("/proc/interrupts").unwrap_or_default());
        let soft = sources(&line("/proc/softirqs").unwrap_or_default());
        interrupts.extend(soft.into_iter().map(|(name, count)| (format!("soft {name}"), count)));
        Self {
            at: Instant::now(),
            interface: statistics.map(|folder| numbers(&folder)).unwrap_or_default(),
            interrupts,
            pages: pages(Path::new("/sys/devices/system/node")),
            energy: energy(Path::new("/sys/class/powercap")),
        }
    }

    /// What happened after `earlier`, and on which node the interface is.
    pub fn since(&self, earlier: &Self, interface: Option<&str>) -> Hardware {
        let energy = self.energy.iter().filter_map(|(name, now)| {
            let spent = now.since(*earlier.energy.get(name)?);
            Some((name.clone(), real(spent) / 1e6))
        });
        Hardware {
            seconds: self.at.duration_since(earlier.at).as_secs_f64(),
            interface: less(&self.interface, &earlier.interface),
            interrupts: most(less(&self.interrupts, &earlier.interrupts)),
            pages: less(&self.pages, &earlier.pages),
            interface_node: interface
                .and_then(|name| node_of(Path::new("/sys/class/net").join(name).as_path())),
            energy: energy.collect(),
        }
    }
}

impl Meter {
    fn since(self, earlier: Self) -> u64 {
        match self.microjoules.checked_sub(earlier.microjoules) {
            Some(spent) => spent,
            None => self.microjoules + self.range.saturating_sub(earlier.microjoules),
        }
    }
}

/// Counters that grew. One that is new counts from nothing; one that fell began anew and says nothing.
fn less(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = now.iter().filter_map(|(name, now)| {
        let grown = now.checked_sub(before.get(name).copied().unwrap_or(0))?;
        (grown > 0).then(|| (name.clone(), grown))
    });
    grown.collect()
}

/// The busiest interrupts: machines with hundreds of queues have thousands.
fn most(all: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut sorted: Vec<(String, u64)> = all.into_iter().collect();
    sorted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    sorted.truncate(INTERRUPT_SOURCES);
    sorted.into_iter().collect()
}

/// `NUMBER: COUNT… WORDS` of `/proc/interrupts` and `/proc/softirqs`: the sum over all processors by the words' last, which
/// names the queue, or by the number where there are none.
fn sources(text: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in text.lines().skip(1) {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let mut words = rest.split_ascii_whitespace().peekable();
        let mut sum = 0_u64;
        while let Some(count) = words.peek().and_then(|word| word.parse::<u64>().ok()) {
            sum = sum.saturating_add(count);
            words.next();
        }
        let number = number.trim();
        let is_device = number.bytes().all(|byte| byte.is_ascii_digit());
        let name = match words.last() {
            Some(device) if is_device => format!("{number} {device}"),
            _ => number.to_owned(),
        };
        all.insert(name, sum);
    }
    all
}

/// Files of a folder that hold a number each.
fn numbers(folder: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        Some((entry.file_name().into_string().ok()?, line(entry.path())?.trim().parse().ok()?))
    };
    entries.filter_map(number).collect()
}

/// `node0 other_node`: pages that were taken there for a processor of another node, and so on.
fn pages(folder: &Path) -> BTreeMap<String, u64> {
    let online = line(folder.join("online")).as_deref().and_then(parse_list).unwrap_or_default();
    let mut all = BTreeMap::new();
    for node in online {
        let text = line(folder.join(format!("node{node}/numastat"))).unwrap_or_default();
        for (name, count) in text.lines().filter_map(|line| line.split_once(' ')) {
            if let Ok(count) = count.trim().parse() {
                all.insert(format!("node{node} {name}"), count);
            }
        }
    }
    all
}

/// The NUMA node of a device; none where there is only one.
fn node_of(device: &Path) -> Option<u32> {
    line(device.join("device/numa_node"))?.trim().parse().ok()
}

/// RAPL's domains by their names (`package-0`, `dram`), those inside a package with its number.
fn energy(folder: &Path) -> BTreeMap<String, Meter> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let meter = |entry: fs::DirEntry| {
        let (id, path) = (entry.file_name().into_string().ok()?, entry.path());
        let domain = id.strip_prefix("intel-rapl:")?.to_owned();
        let number = |file: &str| line(path.join(file))?.trim().parse().ok();
        let name = line(path.join("name"))?;
        let meter = Meter { microjoules: number("energy_uj")?, range: number("max_energy_range_uj")? };
        Some((format!("{domain} {}", name.trim()), meter))
    };
    entries.filter_map(meter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed_over_processors() {
        let text = "            CPU0       CPU1\n  24:   10   5  PCI-MSI 1-edge  eth0-rx-0\n NMI:  1  2  Non-maskable interrupts\n ERR:  7\n";
        let found = sources(text);
        assert_eq!(found["24 eth0-rx-0"], 15);
        assert_eq!((found["NMI"], found["ERR"]), (3, 7));
        assert_eq!(sources("  CPU0\n NET_RX: 4 5\n")["NET_RX"], 9);
    }

    #[test]
    fn only_what_grew_is_told_and_the_most_of_it() {
        let of =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let grown =
            less(&of(&[("a", 5), ("b", 2), ("c", 1), ("d", 4)]), &of(&[("a", 3), ("b", 2), ("c", 9)]));
        assert_eq!(grown, of(&[("a", 2), ("d", 4)]));
        let many: BTreeMap<String, u64> = (0..1000).map(|number| (number.to_string(), number)).collect();
        let kept = most(many);
        assert!(kept.len() == INTERRUPT_SOURCES && kept.contains_key("999") && !kept.contains_key("0"));
    }

    #[test]
    fn energy_counters_begin_anew() {
        let at = |microjoules| Meter { microjoules, range: 1000 };
        assert_eq!((at(700).since(at(200)), at(100).since(at(900))), (500, 200));
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("intel-rapl:0/name", "package-0\n");
        write("intel-rapl:0/energy_uj", "42\n");
        write("intel-rapl:0/max_energy_range_uj", "1000\n");
        write("intel-rapl:1/name", "unreadable\n");
        write("node/online", "0\n");
        write("node/node0/numastat", "numa_hit 12\nother_node 3\n");
        assert_eq!(energy(folder.path()), BTreeMap::from([("0 package-0".to_owned(), at(42))]));
        assert_eq!(pages(&folder.path().join("node"))["node0 other_node"], 3);
    }

    #[test]
    fn this_machine_counts_interrupts() {
        let earlier = Snapshot::read(Some("lo"));
        assert!(!earlier.interrupts.is_empty() && earlier.interface.contains_key("rx_bytes"), "{earlier:?}");
        let hardware = Snapshot::read(Some("lo")).since(&earlier, Some("lo"));
        assert!(hardware.seconds >= 0.0 && hardware.interface_node.is_none());
    }
}
