//! Kernel threads: processor time that is spent for a side and that no side's processes account for.
//!
//! A loop device, a journal or a work queue does its work in a thread of the kernel, which belongs to no control group of the lab.
//! Which side it worked for cannot be told, so its time is part of what is foreign; here it is named with its size, kind by kind.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::measure::process::{self, Stat};

/// The further figure of the threads that work off packets when there are too many for the interrupts themselves.
pub(crate) const PACKETS: &str = "kernel_ksoftirqd_seconds";
/// The kernel's `kthreadd`, parent of every kernel thread.
const KTHREADD: u32 = 2;

/// Name and seconds spent so far of each kernel thread, by its number and start.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KernelThreads(BTreeMap<Key, Thread>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pid: u32,
    started: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Thread {
    kind: String,
    seconds: f64,
}

impl KernelThreads {
    /// Now. The whole of `/proc` is read.
    pub(crate) fn read() -> Result<Self> {
        Ok(Self::of(process::all()?))
    }

    pub(super) fn of(all: Vec<Stat>) -> Self {
        let threads = all.into_iter().filter(|stat| stat.parent == KTHREADD);
        let entry = |stat: Stat| {
            let key = Key { pid: stat.pid, started: stat.started };
            (key, Thread { kind: kind(&stat.name).to_owned(), seconds: stat.own.seconds() })
        };
        Self(threads.map(entry).collect())
    }

    /// Seconds that threads of each kind spent after `earlier`; a kind that spent none is left out.
    pub(crate) fn since(&self, earlier: &Self) -> BTreeMap<String, f64> {
        let mut kinds = BTreeMap::new();
        for (key, now) in &self.0 {
            // A thread that was not there before has spent all its time since.
            let before = earlier.0.get(key).map_or(0.0, |then| then.seconds);
            let spent = now.seconds - before;
            if spent > 0.0 {
                *kinds.entry(now.kind.clone()).or_insert(0.0) += spent;
            }
        }
        kinds
    }
}

/// `kworker/0:1-events` is a `kworker`, `loop3` a `loop`, `jbd2/loop0-8` a `jbd2`.
fn kind(name: &str) -> &str {
    let end = name.find(['/', ':', '-']).unwrap_or(name.len());
    let short = name.get(..end).unwrap_or(name);
    let letters = short.trim_end_matches(|letter: char| letter.is_ascii_digit());
    // Of `jbd2/…` the digit is part of the name; of `loop3` it is the device's number.
    if letters.is_empty() || end < name.len() { short } else { letters }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_model::result::CpuShare;

    fn stat(pid: u32, name: &str, parent: u32, seconds: f64) -> Stat {
        let own = CpuShare { user: 0.0, system: seconds };
        Stat { pid, name: name.to_owned(), parent, started: 1, own, reaped: CpuShare::default() }
    }

    #[test]
    fn threads_are_named_by_what_they_do() {
        for (name, expected) in [
            ("kworker/0:1-events", "kworker"),
            ("loop3", "loop"),
            ("jbd2/loop0-8", "jbd2"),
            ("ksoftirqd/1", "ksoftirqd"),
            ("nvme_tcp_wq", "nvme_tcp_wq"),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn work_of_a_loop_device_in_the_window_is_named_with_its_size() {
        let before = KernelThreads::of(vec![stat(90, "loop0", 2, 5.0), stat(70, "kworker/0:1", 2, 1.0)]);
        let after = KernelThreads::of(vec![
            stat(90, "loop0", 2, 5.5),
            stat(91, "loop1", 2, 0.25),
            stat(70, "kworker/0:1", 2, 1.0),
            stat(1_000, "loop-hole", 1, 9.0),
        ]);
        let spent = after.since(&before);
        assert_eq!(
            spent.len(),
            1,
            "an idle thread and a process with a like name are not among them: {spent:?}"
        );
        assert!((spent["loop"] - 0.75).abs() < 1e-9);
    }
}
