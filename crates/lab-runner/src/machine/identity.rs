//! Which process is meant: a process id and the moment its process started.
//!
//! A process id alone means whichever process has it now. The ledger of a run may be read hours after the run died, when
//! its ids belong to strangers; so everything that ends a process by id goes through here, and a signal reaches the
//! process that was meant or nobody (proc(5): `starttime`; pidfd_send_signal(2)).

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process, told apart from all that had or will have its id since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Its id.
    pub pid: u32,
    /// When it started, in clock ticks since the machine started.
    pub start_time: u64,
}

/// What `/proc/PID/stat` says of family and birth.
#[derive(Debug, Clone, Copy)]
struct Stat {
    parent: u32,
    identity: Identity,
    ended: bool,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The command's name stands in parentheses and may hold anything, parentheses too: the fields begin after the last.
    fn parse(pid: u32, line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.get(line.rfind(')')? + 1..)?.split_whitespace().collect();
        let ended = matches!(*fields.first()?, "Z" | "X");
        let identity = Identity { pid, start_time: fields.get(19)?.parse().ok()? };
        Some(Self { parent: fields.get(1)?.parse().ok()?, identity, ended })
    }
}

impl Identity {
    /// The process that has this id now.
    pub fn of(pid: u32) -> Option<Self> {
        Stat::of(pid).map(|stat| stat.identity)
    }

    /// Whether it still runs; one that ended and waits to be reaped does not.
    pub fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.identity == self && !stat.ended)
    }

    /// Sends it a signal; false when it is gone, even if its id belongs to another process by now.
    pub fn signal(self, signal: Signal) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // Asked after the handle was opened: if it is the right process now, it was the right one then.
        self.is_alive() && pidfd_send_signal(handle, signal).is_ok()
    }

    /// Its children, theirs, and so on, as they are now. A process whose parent ended has become somebody else's child.
    pub fn descendants(self) -> Vec<Self> {
        let everybody: Vec<Stat> = pids().filter_map(Stat::of).collect();
        let mut family = BTreeSet::from([self.pid]);
        let mut found = Vec::new();
        loop {
            let before = found.len();
            for stat in everybody.iter().filter(|stat| family.contains(&stat.parent)) {
                if stat.identity.start_time >= self.start_time && !found.contains(&stat.identity) {
                    found.push(stat.identity);
                }
            }
            if found.len() == before {
                return found;
            }
            family.extend(found.iter().map(|identity| identity.pid));
        }
    }

    /// Kills it and its descendants. Each is stopped before its children are counted, so that none is born unseen.
    pub fn kill_family(self) {
        if !self.signal(Signal::STOP) {
            return;
        }
        let mut family = Vec::new();
        loop {
            let fresh: Vec<Self> =
                self.descendants().into_iter().filter(|child| !family.contains(child)).collect();
            if fresh.is_empty() {
                break;
            }
            for child in &fresh {
                child.signal(Signal::STOP);
            }
            family.extend(fresh);
        }
        self.signal(Signal::KILL);
        for child in family {
            child.signal(Signal::KILL);
        }
    }
}

/// Every process whose environment had `NAME=VALUE` when it started, except this one.
pub fn marked(name: &str, value: &str) -> Vec<Identity> {
    let wanted = format!("{name}={value}");
    let has = |pid: u32| {
        let environment = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ"));
        environment.is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
    };
    let others = pids().filter(|pid| *pid != std::process::id());
    // The identity first: an id that changes hands between the two readings must not pass for the marked process.
    others.filter_map(Identity::of).filter(|identity| has(identity.pid) && identity.is_alive()).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A sleeping child that does not outlive its test.
    struct Sleeper(Child);

    impl Sleeper {
        fn new(mark: &str) -> Self {
            let mut command = Command::new("sleep");
            command.arg("600").env("LINERATE_LAB_TEST", mark).stdout(Stdio::null()).stderr(Stdio::null());
            Self(command.spawn().unwrap())
        }

        fn identity(&self) -> Identity {
            Identity::of(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let stat = Stat::parse(42, line).unwrap();
        assert_eq!((stat.parent, stat.identity.start_time, stat.ended), (7, 987_654, false));
        assert!(Stat::parse(42, "42 (short) S 7").is_none());
    }

    #[test]
    fn a_reused_id_gets_no_signal() {
        let mut child = Sleeper::new("reused");
        let now = child.identity();
        let earlier = Identity { start_time: now.start_time - 1, ..now };
        assert!(!earlier.is_alive());
        assert!(!earlier.signal(Signal::KILL));
        earlier.kill_family();
        assert!(now.is_alive(), "a signal to a predecessor reached the process that has its id now");
        assert!(now.signal(Signal::KILL));
        child.0.wait().unwrap();
        assert!(!now.signal(Signal::KILL));
    }

    #[test]
    fn marked_processes_are_found_and_others_are_not() {
        let child = Sleeper::new("marked");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        // The kernel shows the environment a moment after it let the parent go on.
        while !marked("LINERATE_LAB_TEST", "marked").contains(&child.identity()) {
            assert!(std::time::Instant::now() < deadline, "the marked process is not found");
        }
        assert!(marked("LINERATE_LAB_TEST", "mark").is_empty());
    }
}
