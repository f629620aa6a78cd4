//! Processes as `/proc` shows them: times, parents, memory, processors (`proc_pid_stat(5)`, `proc_pid_status(5)`).

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use lab_model::result::CpuShare;
use lab_model::statistics::number::real;

/// What a process and its reaped children spent so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Stat {
    /// Process number.
    pub pid: u32,
    /// Name of the program, at most 15 bytes.
    pub name: String,
    /// Number of the parent.
    pub parent: u32,
    /// When it started, clock ticks since boot: tells two processes with the same number apart.
    pub started: u64,
    /// Its own time, all threads.
    pub own: CpuShare,
    /// Time of the children for which it has waited, and of theirs.
    pub reaped: CpuShare,
}

impl Stat {
    /// Reads the line of `/proc/PID/stat`; times are in ticks of which a second has `per_second`.
    pub fn parse(line: &str, per_second: u64) -> Option<Self> {
        // The name stands in parentheses and may contain any character, parentheses too.
        let (before, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let field: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| field.get(index)?.parse::<u64>().ok();
        let seconds = |index: usize| Some(real(number(index)?) / real(per_second));
        let share = |user, system| Some(CpuShare { user: seconds(user)?, system: seconds(system)? });
        Some(Self {
            pid: before.trim().parse().ok()?,
            name: name.to_owned(),
            parent: field.get(1)?.parse().ok()?,
            started: number(19)?,
            own: share(11, 12)?,
            reaped: share(13, 14)?,
        })
    }

    /// The process with this number.
    pub fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let line = fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has it ended?"))?;
        Self::parse(&line, ticks()).with_context(|| format!("{path} is not as proc(5) describes it"))
    }
}

/// Clock ticks per second in which `/proc` counts time.
pub fn ticks() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// All processes that can be seen. Those that end while they are read are missing.
pub fn all() -> Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc").context("cannot list /proc: is it mounted?")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids.filter_map(|pid| Stat::of(pid).ok()).collect())
}

/// The value of a line `NAME: VALUE` of `/proc/PID/status` and files like it.
pub fn field<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// Most resident memory of a process so far, bytes; `None` for kernel threads and processes that have ended.
pub fn peak_memory(pid: u32) -> Option<u64> {
    kibibytes(field(&status(pid).ok()?, "VmHWM")?)
}

/// Processors on which a process may run.
pub fn allowed_processors(pid: u32) -> Option<Vec<usize>> {
    parse_list(field(&status(pid).ok()?, "Cpus_allowed_list")?)
}

fn status(pid: u32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/status"))
}

/// `123 kB` in bytes.
pub fn kibibytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// `0-2,5` as numbers (`cpuset(7)`, list format).
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

/// The trimmed content of a small file of `/proc` or `/sys`; `None` where there is none.
pub fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "4242 (a) b (c) S 17 4242 17 0 -1 4194304 100 900 0 0 150 25 1000 200 20 0 3 0 987654 1 2 3";

    #[test]
    fn a_name_may_contain_parentheses() {
        let stat = Stat::parse(LINE, 100).unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.parent, stat.started), (4242, "a) b (c", 17, 987_654));
        assert_eq!(stat.own, CpuShare { user: 1.5, system: 0.25 });
        assert_eq!(stat.reaped, CpuShare { user: 10.0, system: 2.0 });
    }

    #[test]
    fn a_line_cut_anywhere_is_refused_or_whole() {
        let enough = LINE.find(" 1 2 3").unwrap();
        for end in 0..LINE.len() {
            let whole = Stat::parse(&LINE[..end], 100).is_some_and(|stat| stat.started == 987_654);
            assert_eq!(whole, end >= enough, "cut at {end}");
        }
    }

    #[test]
    fn this_process_is_found_with_memory_and_processors() {
        let me = std::process::id();
        assert!(all().unwrap().iter().any(|stat| stat.pid == me));
        assert!(peak_memory(me).unwrap() > 100_000);
        assert!(!allowed_processors(me).unwrap().is_empty());
        assert!(Stat::of(u32::MAX).unwrap_err().to_string().contains("has it ended"));
    }

    #[test]
    fn lists_and_sizes() {
        assert_eq!(parse_list("0-2,5,7-7\n"), Some(vec![0, 1, 2, 5, 7]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("0-x"), None);
        assert_eq!(kibibytes("12 MB"), None);
        assert_eq!(kibibytes("12 kB"), Some(12_288));
        assert_eq!(field("VmHWM:\t  12 kB\nVmHWMx: 1\n", "VmHWM"), Some("12 kB"));
    }
}
