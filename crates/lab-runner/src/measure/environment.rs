//! The machine and the programs of a run, and what is different about two of them.
//!
//! All of it is there so that a reader who gets other figures can find out why: [`diff`] names what differs, line by line.
//! What a machine does not tell is absent; nothing is guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::cgroup::{self, Method};
use crate::measure::process::{self, field, kibibytes, line};
use crate::measure::{throttle, versions};
use lab_model::statistics::number::real;

/// Kernel parameters that change how fast it is, by the beginning of their names.
const PARAMETERS: [&str; 24] = [
    "amd_iommu",
    "amd_pstate",
    "clocksource",
    "cpufreq.",
    "cpuidle",
    "default_hugepagesz",
    "haltpoll.",
    "hugepages",
    "idle",
    "intel_idle.",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "nohz",
    "nosmt",
    "numa_balancing",
    "preempt",
    "processor.",
    "rcu_nocbs",
    "threadirqs",
    "transparent_hugepage",
];

/// What a run was measured on and with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The machine's name.
    pub host: Option<String>,
    /// Of Linerate: the commit that the program was built from, with `+changes` if files differed from it.
    pub commit: Option<String>,
    /// Processors.
    pub processor: Processor,
    /// Bytes of memory.
    pub memory: u64,
    /// NUMA nodes.
    pub numa_nodes: usize,
    /// Reserved huge pages.
    pub huge_pages: u64,
    /// When the kernel uses huge pages by itself: `always`, `madvise`, `never`.
    pub transparent_huge_pages: Option<String>,
    /// The kernel's release and build.
    pub kernel: String,
    /// Parameters at boot that change how fast the kernel is; others are nobody's business.
    pub kernel_parameters: Vec<String>,
    /// Name and version of the distribution.
    pub distribution: Option<String>,
    /// What the machine runs under: a hypervisor, a container. Absent on bare metal.
    pub virtualised: Option<String>,
    /// Clock that the kernel reads.
    pub clock_source: Option<String>,
    /// Control groups that are mounted: `cgroup2`, `cgroup1`, `hybrid`, `none`.
    pub cgroups: String,
    /// How processor time is counted by side.
    pub accounting: String,
    /// Processor quota that the lab runs under, in processors.
    pub quota: Option<String>,
    /// Network interfaces by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Devices that can do RDMA.
    pub rdma: Vec<String>,
    /// TCP settings of the kernel, by the names of `sysctl`.
    pub tcp: BTreeMap<String, String>,
    /// Versions of programs and libraries, by name.
    pub programs: BTreeMap<String, String>,
}

/// Processors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processor {
    /// Model, as the processor says.
    pub model: Option<String>,
    /// How many the kernel uses.
    pub count: usize,
    /// Of these, how many share a core.
    pub threads_per_core: usize,
    /// Frequency governor.
    pub governor: Option<String>,
    /// Whether the processor may exceed its base frequency.
    pub turbo: Option<bool>,
    /// Microcode.
    pub microcode: Option<String>,
    /// Mitigations by the name of the weakness; those that do not affect the processor are left out.
    pub mitigations: BTreeMap<String, String>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Driver, where a device is behind it.
    pub driver: Option<String>,
    /// Mbit/s, where it is known.
    pub speed: Option<u64>,
    /// Largest packet, bytes.
    pub mtu: Option<u64>,
}

impl Environment {
    /// What this machine is now. `commit` is that of the running program, if it is known; see [`commit_of`].
    pub fn capture(commit: Option<String>) -> Self {
        let memory = line("/proc/meminfo").unwrap_or_default();
        let kernel =
            ["osrelease", "version"].map(|part| line(format!("/proc/sys/kernel/{part}")).unwrap_or_default());
        Self {
            host: line("/proc/sys/kernel/hostname"),
            commit,
            processor: Processor::capture(),
            memory: field(&memory, "MemTotal").and_then(kibibytes).unwrap_or(0),
            numa_nodes: names("/sys/devices/system/node")
                .iter()
                .filter(|name| is_numbered(name, "node"))
                .count(),
            huge_pages: field(&memory, "HugePages_Total").and_then(|count| count.parse().ok()).unwrap_or(0),
            transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled")
                .as_deref()
                .and_then(chosen),
            kernel: kernel.join(" "),
            kernel_parameters: line("/proc/cmdline").as_deref().map(parameters).unwrap_or_default(),
            distribution: line("/etc/os-release").as_deref().and_then(distribution),
            virtualised: virtualised(),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            cgroups: cgroup::kind().to_owned(),
            accounting: Method::best().name().to_owned(),
            quota: quota(),
            interfaces: interfaces(Path::new("/sys/class/net")),
            rdma: names("/sys/class/infiniband").into_iter().collect(),
            tcp: tcp(),
            programs: versions::all(),
        }
    }
}

impl Processor {
    fn capture() -> Self {
        let info = line("/proc/cpuinfo").unwrap_or_default();
        let of = |name: &str| info.lines().find_map(|line| value_of(line, name));
        let folder = Path::new("/sys/devices/system/cpu");
        let siblings = line(folder.join("cpu0/topology/thread_siblings_list"));
        let turbo = line(folder.join("intel_pstate/no_turbo")).map(|off| off == "0");
        Self {
            model: of("model name").or_else(|| of("Model")),
            count: throttle::processor_folders(folder).len(),
            threads_per_core: siblings.as_deref().and_then(process::parse_list).map_or(1, |list| list.len()),
            governor: line(folder.join("cpu0/cpufreq/scaling_governor")),
            turbo: turbo.or_else(|| line(folder.join("cpufreq/boost")).map(|on| on == "1")),
            microcode: of("microcode"),
            mitigations: mitigations(&folder.join("vulnerabilities")),
        }
    }
}

/// `NAME : VALUE` of `/proc/cpuinfo`.
fn value_of(line: &str, name: &str) -> Option<String> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then(|| value.trim().to_owned())
}

fn mitigations(folder: &Path) -> BTreeMap<String, String> {
    let weaknesses = names(folder).into_iter();
    let known = weaknesses.filter_map(|name| Some((name.clone(), line(folder.join(&name))?)));
    known.filter(|(_, state)| state != "Not affected").collect()
}

/// Names in a folder, sorted; none if there is no such folder.
fn names(folder: impl AsRef<Path>) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn is_numbered(name: &str, start: &str) -> bool {
    name.strip_prefix(start).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The choice in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Those of the kernel's command line that count; it may hold names and secrets besides.
fn parameters(text: &str) -> Vec<String> {
    let counts = |word: &&str| PARAMETERS.iter().any(|start| word.starts_with(start));
    text.split_ascii_whitespace().take_while(|word| *word != "--").filter(counts).map(str::to_owned).collect()
}

/// `PRETTY_NAME` of `os-release(5)`.
fn distribution(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// A hypervisor by the name that the firmware gives, a container by the files that its manager leaves.
fn virtualised() -> Option<String> {
    let container = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists());
    let flags = line("/proc/cpuinfo").unwrap_or_default();
    let guest =
        flags.lines().filter_map(|line| value_of(line, "flags")).any(|flags| flags.contains("hypervisor"));
    let firmware = || {
        let parts = ["sys_vendor", "product_name"]
            .into_iter()
            .filter_map(|part| line(format!("/sys/class/dmi/id/{part}")));
        let name = parts.collect::<Vec<_>>().join(" ");
        if name.is_empty() { "a hypervisor that does not say its name".to_owned() } else { name }
    };
    let parts = [guest.then(firmware), container.then(|| "a container".to_owned())];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

/// The smallest processor quota of the group in which the lab runs and of those above it.
fn quota() -> Option<String> {
    let folders = cgroup::quota_files().into_iter().filter_map(|file| Some(file.parent()?.to_owned()));
    let smallest = folders.filter_map(|folder| quota_of(&folder)).min_by(f64::total_cmp)?;
    Some(format!("{smallest:.2} processors"))
}

/// `cpu.max` of version 2, `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1; `None` without limit.
fn quota_of(folder: &Path) -> Option<f64> {
    let number = |text: &str| text.parse().ok().map(real);
    if let Some(text) = line(folder.join("cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return Some(number(quota)? / number(period)?);
    }
    let quota = line(folder.join("cpu.cfs_quota_us"))?;
    Some(number(&quota)? / number(&line(folder.join("cpu.cfs_period_us"))?)?)
}

/// Interfaces that were there before the lab made its own.
fn interfaces(folder: &Path) -> BTreeMap<String, Interface> {
    let interface = |name: String| {
        let at = folder.join(&name);
        let number = |file: &str| line(at.join(file))?.parse().ok();
        let driver = fs::read_link(at.join("device/driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        (name, Interface { driver, speed: number("speed"), mtu: number("mtu") })
    };
    names(folder).into_iter().map(interface).collect()
}

fn tcp() -> BTreeMap<String, String> {
    let settings = ["tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_timestamps", "tcp_sack"];
    let known =
        settings.into_iter().filter_map(|name| Some((name, line(format!("/proc/sys/net/ipv4/{name}"))?)));
    known.map(|(name, value)| (name.to_owned(), value.replace('\t', " "))).collect()
}

/// The commit of a checkout, by `git`; `None` where there is none. `+changes` says that files differ from it.
pub fn commit_of(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
    Some(if changed { format!("{commit}+changes") } else { commit })
}

/// What is different, a line each: `processor governor: performance → powersave`. Empty for equal environments.
pub fn diff(one: &Environment, other: &Environment) -> Result<Vec<String>> {
    let (one, other) = (flat(one)?, flat(other)?);
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let line = |name: &String| {
        let (before, after) = (one.get(name), other.get(name));
        let show = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
        (before != after).then(|| format!("{name}: {} → {}", show(before), show(after)))
    };
    Ok(names.into_iter().filter_map(line).collect())
}

/// Every value by its name in words; what is absent has none.
fn flat(environment: &Environment) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    let mut left = vec![(String::new(), serde_json::to_value(environment)?)];
    while let Some((name, value)) = left.pop() {
        let below = |key: &str| format!("{name} {}", key.replace('_', " ")).trim().to_owned();
        match value {
            Value::Null => {}
            Value::Object(fields) => left.extend(fields.into_iter().map(|(key, value)| (below(&key), value))),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(text_of).collect();
                all.extend((!items.is_empty()).then(|| (name, items.join(", "))));
            }
            value => drop(all.insert(name, text_of(&value))),
        }
    }
    Ok(all)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_the_essentials() {
        let here = Environment::capture(Some("0123456789ab".to_owned()));
        assert!(here.processor.count > 0 && here.memory > 1 << 20, "{here:?}");
        assert!(!here.kernel.trim().is_empty() && !here.accounting.is_empty(), "{here:?}");
        assert!(here.interfaces.contains_key("lo"), "{here:?}");
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), here);
        assert_eq!(diff(&here, &here).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn differences_are_readable_lines() {
        let mut one = Environment { memory: 1024, ..Environment::default() };
        one.programs.insert("fio".to_owned(), "fio-3.33".to_owned());
        one.processor.governor = Some("performance".to_owned());
        let mut other = one.clone();
        other.processor.governor = Some("powersave".to_owned());
        other.programs.insert("fio".to_owned(), "fio-3.36".to_owned());
        other.programs.insert("tgt".to_owned(), "1.0.85".to_owned());
        other.rdma = vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()];
        other.memory = 2048;
        let expected = [
            "memory: 1024 → 2048",
            "processor governor: performance → powersave",
            "programs fio: fio-3.33 → fio-3.36",
            "programs tgt: none → 1.0.85",
            "rdma: none → mlx5_0, mlx5_1",
        ];
        assert_eq!(diff(&one, &other).unwrap(), expected);
    }

    #[test]
    fn texts_of_the_system() {
        assert_eq!(chosen("always [madvise] never").unwrap(), "madvise");
        assert_eq!(distribution("NAME=x\nPRETTY_NAME=\"Debian 12\"\n").unwrap(), "Debian 12");
        let line = "root=/dev/x mitigations=off password=1 isolcpus=2-3 -- nohz";
        assert_eq!(parameters(line), ["mitigations=off", "isolcpus=2-3"]);
        assert_eq!(value_of("model name\t: X 1", "model name").unwrap(), "X 1");
        assert!(is_numbered("node12", "node") && !is_numbered("nodes", "node"));
    }

    #[test]
    fn quotas_of_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(quota_of(folder.path()), None);
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "100000\n");
        assert_eq!(quota_of(folder.path()), None);
        write("cpu.cfs_quota_us", "50000\n");
        assert_eq!(quota_of(folder.path()), Some(0.5));
        write("cpu.max", "max 100000\n");
        assert_eq!(quota_of(folder.path()), None);
        write("cpu.max", "150000 100000\n");
        assert_eq!(quota_of(folder.path()), Some(1.5));
    }

    #[test]
    fn interfaces_and_mitigations_as_far_as_they_are_told() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("eth9/mtu", "9000\n"), ("eth9/speed", "25000\n"), ("veth1/speed", "-1\n")] {
            let path = folder.path().join("net").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = interfaces(&folder.path().join("net"));
        assert_eq!(found["eth9"], Interface { driver: None, speed: Some(25_000), mtu: Some(9000) });
        assert_eq!(found["veth1"], Interface::default());
        fs::write(folder.path().join("meltdown"), "Not affected\n").unwrap();
        fs::write(folder.path().join("mds"), "Mitigation: Clear buffers\n").unwrap();
        fs::remove_dir_all(folder.path().join("net")).unwrap();
        assert_eq!(mitigations(folder.path()).into_keys().collect::<Vec<_>>(), ["mds"]);
    }

    #[test]
    fn the_commit_of_a_checkout_and_of_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(commit_of(&folder.path().join("missing")), None);
        let git = |arguments: &[&str]| {
            let identity = [
                "-c",
                "user.name=x",
                "-c",
                "user.email=x@example.invalid",
                "-C",
                folder.path().to_str().unwrap(),
            ];
            assert!(Command::new("git").args(identity).args(arguments).output().unwrap().status.success());
        };
        git(&["init", "-q"]);
        fs::write(folder.path().join("file"), "one").unwrap();
        git(&["add", "file"]);
        git(&["commit", "-q", "-m", "first"]);
        let clean = commit_of(folder.path()).unwrap();
        assert_eq!(clean.len(), 12);
        fs::write(folder.path().join("file"), "two").unwrap();
        assert_eq!(commit_of(folder.path()).unwrap(), format!("{clean}+changes"));
    }
}
