//! Processor time of a tree of processes, where control groups cannot be made.
//!
//! A process counts its own time and that of children for which it waited (`proc_pid_stat(5)`). What neither shows, the
//! last observation stands for: so a tree is observed every second of a window, and once more before a process is waited for.
//! A child that ends between two observations while its parent ignores it is lost; the control groups do not have that hole.

use std::collections::BTreeMap;

use crate::measure::process::Stat;
use lab_model::result::CpuShare;

/// A process of the tree: its number and when it started.
type Key = (u32, u64);

/// The processes of one side.
#[derive(Debug, Default)]
pub struct Tree {
    members: BTreeMap<Key, Member>,
    /// Time of members that have ended and that no living member counts.
    ended: CpuShare,
}

#[derive(Debug)]
struct Member {
    parent: u32,
    spent: CpuShare,
    /// What it had spent before it belonged to the tree.
    before: CpuShare,
}

impl Tree {
    /// Takes a process in, with all that it spent since it started: for children that were just started.
    pub fn add(&mut self, process: &Stat) {
        self.insert(process, CpuShare::default());
    }

    /// Takes a process in from now on: for processes that others started.
    pub fn adopt(&mut self, process: &Stat) {
        self.insert(process, sum(process.own, process.reaped));
    }

    fn insert(&mut self, process: &Stat, before: CpuShare) {
        let member = Member { parent: process.parent, spent: sum(process.own, process.reaped), before };
        self.members.insert((process.pid, process.started), member);
    }

    /// Brings the tree up to date with all the `processes` of the machine.
    pub fn observe(&mut self, processes: &[Stat]) {
        let alive: BTreeMap<Key, &Stat> = processes.iter().map(|one| ((one.pid, one.started), one)).collect();
        self.retire(&alive);
        self.descend(processes);
        for (key, member) in &mut self.members {
            if let Some(process) = alive.get(key) {
                member.parent = process.parent;
                member.spent = sum(process.own, process.reaped);
            }
        }
    }

    /// Members that have ended count by themselves unless their parent, a member too, has waited for them.
    fn retire(&mut self, alive: &BTreeMap<Key, &Stat>) {
        let waiting: Vec<u32> =
            self.members.keys().filter(|key| alive.contains_key(key)).map(|key| key.0).collect();
        let ended = &mut self.ended;
        self.members.retain(|key, member| {
            let lives = alive.contains_key(key);
            if !lives && !waiting.contains(&member.parent) {
                *ended = sum(*ended, less(member.spent, member.before));
            }
            lives
        });
    }

    /// Takes in the members' children, and theirs.
    fn descend(&mut self, processes: &[Stat]) {
        loop {
            let new: Vec<&Stat> = processes.iter().filter(|one| self.is_new_child(one)).collect();
            if new.is_empty() {
                return;
            }
            for process in new {
                self.add(process);
            }
        }
    }

    fn is_new_child(&self, process: &Stat) -> bool {
        !self.members.contains_key(&(process.pid, process.started))
            && self.members.keys().any(|(pid, started)| *pid == process.parent && *started <= process.started)
    }

    /// What the tree spent up to the last observation.
    pub fn usage(&self) -> CpuShare {
        self.members.values().fold(self.ended, |total, member| sum(total, less(member.spent, member.before)))
    }

    /// Numbers of the processes that lived at the last observation.
    pub fn pids(&self) -> Vec<u32> {
        self.members.keys().map(|key| key.0).collect()
    }
}

/// Both together.
pub fn sum(one: CpuShare, other: CpuShare) -> CpuShare {
    CpuShare { user: one.user + other.user, system: one.system + other.system }
}

/// What `later` has more than `earlier`; nothing where a counter went back.
pub fn less(later: CpuShare, earlier: CpuShare) -> CpuShare {
    CpuShare { user: (later.user - earlier.user).max(0.0), system: (later.system - earlier.system).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, own: f64, reaped: f64) -> Stat {
        let share = |user| CpuShare { user, system: 0.0 };
        let started = u64::from(pid);
        Stat { pid, name: "x".to_owned(), parent, started, own: share(own), reaped: share(reaped) }
    }

    fn spent(tree: &Tree) -> f64 {
        tree.usage().seconds()
    }

    #[test]
    fn descendants_count_and_strangers_do_not() {
        let mut tree = Tree::default();
        tree.add(&process(10, 1, 0.5, 0.0));
        tree.observe(&[
            process(12, 11, 4.0, 0.0),
            process(11, 10, 2.0, 0.0),
            process(10, 1, 1.0, 0.0),
            process(13, 1, 9.0, 0.0),
        ]);
        assert!((spent(&tree) - 7.0).abs() < 1e-9);
        assert_eq!(tree.pids(), [10, 11, 12]);
    }

    #[test]
    fn a_child_that_was_waited_for_counts_once() {
        let mut tree = Tree::default();
        tree.add(&process(10, 1, 1.0, 0.0));
        tree.observe(&[process(10, 1, 1.0, 0.0), process(11, 10, 2.0, 0.0)]);
        tree.observe(&[process(10, 1, 1.0, 2.5)]);
        assert!((spent(&tree) - 3.5).abs() < 1e-9);
    }

    #[test]
    fn a_root_that_ended_keeps_its_last_value_and_its_orphan_stays() {
        let mut tree = Tree::default();
        tree.add(&process(10, 1, 1.0, 0.0));
        tree.observe(&[process(10, 1, 1.0, 0.0), process(11, 10, 2.0, 0.0)]);
        tree.observe(&[process(11, 1, 3.0, 0.0)]);
        assert!((spent(&tree) - 4.0).abs() < 1e-9);
        tree.observe(&[]);
        assert!((spent(&tree) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn an_adopted_process_counts_from_then_on() {
        let mut tree = Tree::default();
        tree.adopt(&process(10, 1, 5.0, 1.0));
        assert!(spent(&tree).abs() < 1e-9);
        tree.observe(&[process(10, 1, 7.0, 1.0)]);
        assert!((spent(&tree) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_number_used_again_is_another_process() {
        let mut tree = Tree::default();
        tree.add(&process(10, 1, 1.0, 0.0));
        let stranger = Stat { started: 99, ..process(10, 1, 50.0, 0.0) };
        tree.observe(&[stranger]);
        assert!((spent(&tree) - 1.0).abs() < 1e-9);
    }
}
