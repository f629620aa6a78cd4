//! A control group of one side: version 2 where it can be written, else version 1's `cpuacct` (`cgroups(7)`).
//!
//! The kernel charges a group for all that its processes spend, children that have ended included, to the microsecond and
//! without being asked; no other way of counting loses nothing. Groups are made below the one in which the lab runs
//! itself, so that whatever limits the lab limits its children too, and no controller is switched on: version 2
//! counts processor time without. Names begin with [`PREFIX`], so that a killed run's are known for what they are.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};

use crate::measure::limits::{REMOVE_ATTEMPTS, REMOVE_PAUSE};
use crate::measure::process;
use lab_model::result::CpuShare;
use lab_model::statistics::number::real;

/// How the names of all groups of the lab begin; the run's identifier follows.
pub const PREFIX: &str = "linerate-lab-";

/// How processor time is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `cpu.stat` of a group of version 2.
    Cgroup2,
    /// `cpuacct.usage` of a group of version 1.
    Cgroup1,
    /// Times of the processes themselves; see [`super::tree`].
    ProcessTree,
}

impl Method {
    /// As a result says it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroup2 => "cgroup2",
            Self::Cgroup1 => "cgroup1",
            Self::ProcessTree => "process tree",
        }
    }

    /// All that this machine and this user can use, best first. The last is always the process tree.
    pub fn available() -> Vec<Self> {
        let groups = [Self::Cgroup2, Self::Cgroup1].into_iter();
        groups.filter(|method| parent(*method).is_some()).chain([Self::ProcessTree]).collect()
    }

    /// The first of them.
    pub fn best() -> Self {
        Self::available().into_iter().next().unwrap_or(Self::ProcessTree)
    }
}

/// The folder below which groups are made, if this user may.
fn parent(method: Method) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (kind, controller) = method.hierarchy()?;
    let mount = find_mount(&mounts, kind, controller)?;
    let inside = find_group(&own, controller)?;
    // In a container the path may be the host's; the mount's root is then the container's own group.
    let nested = mount.join(inside.trim_start_matches('/'));
    let folder = if nested.is_dir() { nested } else { mount };
    let writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    (writable(&folder) && writable(&folder.join("cgroup.procs"))).then_some(folder)
}

impl Method {
    /// Type of file system and controller of its hierarchy; version 2 has one hierarchy, which is not named by a controller.
    const fn hierarchy(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Cgroup2 => Some(("cgroup2", "")),
            Self::Cgroup1 => Some(("cgroup", "cpuacct")),
            Self::ProcessTree => None,
        }
    }
}

/// Where the hierarchy of a controller is mounted, from `/proc/self/mounts`.
fn find_mount(mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, is, options) = (fields.next()?, fields.next()?, fields.next()?);
        let fits =
            is == kind && (controller.is_empty() || options.split(',').any(|option| option == controller));
        fits.then(|| PathBuf::from(point))
    })
}

/// The group of this process, from `/proc/self/cgroup`: `NUMBER:CONTROLLERS:PATH`, no controllers in version 2.
fn find_group<'text>(text: &'text str, controller: &str) -> Option<&'text str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|one| one == controller).then_some(path)
    })
}

/// The folder that the group `linerate-lab-NAME` has or would have; `None` where there is none of this kind.
pub fn folder(method: Method, name: &str) -> Option<PathBuf> {
    Some(parent(method)?.join(format!("{PREFIX}{name}")))
}

/// A group of its own; removed when dropped.
#[derive(Debug)]
pub struct Group {
    method: Method,
    folder: PathBuf,
}

impl Group {
    /// Makes the group `linerate-lab-NAME`.
    pub fn new(method: Method, name: &str) -> Result<Self> {
        let folder = folder(method, name).with_context(|| {
            format!(
                "no control group ({}) can be made here: not mounted, or not writable for this user",
                method.name()
            )
        })?;
        Self::at(method, folder)
    }

    /// Makes a group within this one, which counts what that spends as well.
    pub fn within(&self, name: &str) -> Result<Self> {
        Self::at(self.method, self.folder.join(name))
    }

    fn at(method: Method, folder: PathBuf) -> Result<Self> {
        match fs::create_dir(&folder) {
            Ok(()) => Ok(Self { method, folder }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
                "the control group {} is there already: another run has this name, or `lab clean` has to remove what it left",
                folder.display()
            ),
            Err(error) => {
                Err(error).with_context(|| format!("cannot make the control group {}", folder.display()))
            }
        }
    }

    /// Its folder, for a ledger.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file into which a process writes `0` to enter.
    pub fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Moves a process into it; its children are born there from then on.
    pub fn enter(&self, pid: u32) -> Result<()> {
        fs::write(self.entrance(), pid.to_string())
            .with_context(|| format!("cannot move process {pid} into {}", self.folder.display()))
    }

    /// Its living processes.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let text = self.read("cgroup.procs")?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// What its processes spent since it was made.
    pub fn usage(&self) -> Result<CpuShare> {
        let usage = match self.method {
            Method::Cgroup2 => parse_cpu_stat(&self.read("cpu.stat")?),
            Method::Cgroup1 | Method::ProcessTree => {
                parse_cpuacct(&self.read("cpuacct.usage")?, &self.read("cpuacct.stat")?)
            }
        };
        usage.with_context(|| {
            format!("{} does not count processor time as cgroups(7) says", self.folder.display())
        })
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What cannot be removed because a process still lives there stays for `lab clean`.
        let _ = remove(&self.folder);
    }
}

/// `cpu.stat` of the group in which the lab runs and of all above it, in every hierarchy that has processor quotas.
pub(crate) fn quota_files() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of_kind = |kind: &str, controller: &str| {
        let point = find_mount(&mounts, kind, controller)?;
        let inside = point.join(find_group(&own, controller)?.trim_start_matches('/'));
        let below = inside.ancestors().take_while(|folder| folder.starts_with(&point));
        Some(below.map(|folder| folder.join("cpu.stat")).filter(|file| file.is_file()).collect::<Vec<_>>())
    };
    [of_kind("cgroup2", ""), of_kind("cgroup", "cpu")].into_iter().flatten().flatten().collect()
}

/// Removes the folder of a group. Its last process may still be on its way out, which the kernel calls busy.
pub fn remove(folder: &Path) -> Result<()> {
    for attempt in 1.. {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && attempt < REMOVE_ATTEMPTS => {
                std::thread::sleep(REMOVE_PAUSE);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            done => {
                return done.with_context(|| {
                    format!(
                        "cannot remove the control group {}: end its processes (see its cgroup.procs)",
                        folder.display()
                    )
                });
            }
        }
    }
    Ok(())
}

/// `cpu.stat`: `user_usec` and `system_usec` add up to `usage_usec`.
fn parse_cpu_stat(text: &str) -> Option<CpuShare> {
    let seconds = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(real(value.trim().parse().ok()?) / 1e6)
    };
    Some(CpuShare { user: seconds("user_usec")?, system: seconds("system_usec")? })
}

/// `cpuacct.usage` is exact, in nanoseconds; `cpuacct.stat` says in clock ticks how it divides into user and kernel.
fn parse_cpuacct(usage: &str, stat: &str) -> Option<CpuShare> {
    let total = real(usage.trim().parse().ok()?) / 1e9;
    let ticks = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        Some(real(value.trim().parse().ok()?))
    };
    let (user, system) = (ticks("user")?, ticks("system")?);
    let share = if user + system > 0.0 { system / (user + system) } else { 0.0 };
    Some(CpuShare { user: total * (1.0 - share), system: total * share })
}

/// Which hierarchies this machine has, in words for the environment: `cgroup2`, `cgroup1`, `hybrid` or `none`.
pub fn kind() -> &'static str {
    let mounts = process::line("/proc/self/mounts").unwrap_or_default();
    let has = |kind| find_mount(&mounts, kind, "").is_some();
    match (has("cgroup2"), has("cgroup")) {
        (true, false) => "cgroup2",
        (false, true) => "cgroup1",
        (true, true) => "hybrid",
        (false, false) => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
    const OWN: &str = "4:memory:/a\n2:cpu,cpuacct:/batch/job:7\n0::/user.slice\n";

    #[test]
    fn a_group_is_gone_even_if_its_last_process_was_on_its_way_out() {
        let methods = Method::available().into_iter().filter(|method| *method != Method::ProcessTree);
        for (number, method) in methods.enumerate() {
            let name = format!("leaving-{}-{number}", std::process::id());
            let group = Group::new(method, &name).unwrap();
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            group.enter(child.id()).unwrap();
            let leaving = std::thread::spawn(move || {
                std::thread::sleep(REMOVE_PAUSE * 4);
                child.kill().unwrap();
                child.wait().unwrap();
            });
            drop(group);
            leaving.join().unwrap();
            assert!(!folder(method, &name).unwrap().exists(), "{}", method.name());
        }
    }

    #[test]
    fn both_hierarchies_are_found_where_they_are() {
        let mount = |kind, controller| find_mount(MOUNTS, kind, controller);
        assert_eq!(mount("cgroup2", ""), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount("cgroup", "cpuacct"), Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(mount("cgroup", "memory"), None);
        assert_eq!(find_group(OWN, ""), Some("/user.slice"));
        assert_eq!(find_group(OWN, "cpuacct"), Some("/batch/job:7"));
        assert_eq!(find_group("4:memory:/a\n", ""), None);
    }

    #[test]
    fn counters_of_both_versions() {
        let text = "usage_usec 906936\nuser_usec 864302\nsystem_usec 42634\nnice_usec 0\n";
        assert_eq!(parse_cpu_stat(text), Some(CpuShare { user: 0.864_302, system: 0.042_634 }));
        let share = parse_cpuacct("1000000000\n", "user 75\nsystem 25\n").unwrap();
        assert_eq!(share, CpuShare { user: 0.75, system: 0.25 });
        assert_eq!(
            parse_cpuacct("500000000\n", "user 0\nsystem 0\n"),
            Some(CpuShare { user: 0.5, system: 0.0 })
        );
        assert_eq!(parse_cpuacct("x", "user 0\nsystem 0\n"), None);
        assert_eq!(parse_cpu_stat("usage_usec 1\n"), None);
    }

    #[test]
    fn the_process_tree_is_always_there() {
        assert_eq!(Method::available().last(), Some(&Method::ProcessTree));
    }
}
