//! The busiest thread of each side: a program with one busy thread is at its limit while the machine looks idle.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;
use serde::{Deserialize, Deserializer, Serialize};

use crate::measure::cpu::percent;
use crate::measure::process::{self, Stat};
use crate::measure::side::{Role, Sides};

/// A thread: its number and when it started.
type Key = (u32, u64);

/// Name and seconds spent so far of each thread.
type Threads = BTreeMap<Key, (String, f64)>;

/// All threads of all sides at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Census {
    sides: BTreeMap<&'static str, Threads>,
}

/// The thread of a side that spent most in a window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Busiest {
    /// Whose.
    pub side: &'static str,
    /// Name of the thread, at most 15 bytes.
    pub thread: String,
    /// Per cent of one processor.
    pub percent: f64,
}

/// The same as it comes from another machine.
#[derive(Debug, Deserialize)]
struct ByRole {
    side: Role,
    thread: String,
    percent: f64,
}

impl<'de> Deserialize<'de> for Busiest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let ByRole { side, thread, percent } = ByRole::deserialize(from)?;
        Ok(Self { side: side.name(), thread, percent })
    }
}

impl Census {
    /// One thread of one side, or none.
    #[cfg(test)]
    pub(crate) fn of(side: &'static str, spent: Option<f64>) -> Self {
        let threads = spent.map(|spent| ((1, 0), ("t1".to_owned(), spent))).into_iter().collect();
        Self { sides: BTreeMap::from([(side, threads)]) }
    }

    /// Now.
    pub(crate) fn read(sides: &Sides) -> Result<Self> {
        let threads = |pids: Vec<u32>| pids.into_iter().flat_map(of_process).collect();
        let sides = sides.iter().map(|side| Ok((side.role().name(), threads(side.pids()?))));
        Ok(Self { sides: sides.collect::<Result<_>>()? })
    }

    /// The busiest thread of each side in the `seconds` from `earlier` to this.
    pub(crate) fn busiest(&self, earlier: &Self, seconds: f64) -> Vec<Busiest> {
        let none = Threads::new();
        let of_side = |(side, threads): (&&'static str, &Threads)| {
            let before = earlier.sides.get(side).unwrap_or(&none);
            // A thread that was not there before has spent all its time since.
            let spent = |key: &Key, now: f64| (now - before.get(key).map_or(0.0, |(_, then)| *then)).max(0.0);
            let shares = threads.iter().map(|(key, (name, now))| (name, percent(spent(key, *now), seconds)));
            let (thread, percent) = shares.max_by(|one, other| one.1.total_cmp(&other.1))?;
            Some(Busiest { side, thread: thread.clone(), percent })
        };
        self.sides.iter().filter_map(of_side).collect()
    }
}

/// The threads of a process; none once it has ended.
fn of_process(pid: u32) -> Vec<(Key, (String, f64))> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stat =
        |entry: fs::DirEntry| Stat::parse(&process::line(entry.path().join("stat"))?, process::ticks());
    let stats = entries.filter_map(stat);
    stats.map(|stat| ((stat.pid, stat.started), (stat.name, stat.own.seconds()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(threads: &[(u32, f64)]) -> Census {
        let threads = threads.iter().map(|(tid, spent)| ((*tid, 0), (format!("t{tid}"), *spent))).collect();
        Census { sides: BTreeMap::from([("target", threads)]) }
    }

    #[test]
    fn the_busiest_counts_in_the_window_only() {
        let (before, after) = (census(&[(1, 100.0), (2, 1.0)]), census(&[(1, 100.5), (2, 2.9), (3, 0.25)]));
        let expected = Busiest { side: "target", thread: "t2".to_owned(), percent: 95.0 };
        let busiest = after.busiest(&before, 2.0);
        assert_eq!((busiest.len(), &busiest[0].thread), (1, &expected.thread));
        assert!((busiest[0].percent - expected.percent).abs() < 1e-9);
    }

    #[test]
    fn a_new_thread_counts_whole() {
        let busiest = census(&[(3, 1.0)]).busiest(&Census::default(), 2.0);
        assert!((busiest[0].percent - 50.0).abs() < 1e-9);
        assert!(census(&[]).busiest(&Census::default(), 2.0).is_empty());
    }

    #[test]
    fn threads_of_this_process_are_found() {
        let name = std::thread::Builder::new().name("lab-census".to_owned());
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel::<()>();
        let thread = name.spawn(move || {
            drop(ready);
            stopped.recv().ok()
        });
        assert!(is_ready.recv().is_err());
        assert!(of_process(std::process::id()).iter().any(|(_, (name, _))| name == "lab-census"));
        drop(stop);
        thread.unwrap().join().unwrap();
        assert!(of_process(u32::MAX).is_empty());
    }
}
