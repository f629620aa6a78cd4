//! A side of an arm: the processes whose processor time and memory are counted together.
//!
//! A program is started *in* its side: whoever starts it writes its number into the `cgroup.procs` of [`Side::folder`] before
//! it becomes the program, so that not even its loading is missed, and tells [`Side::started`], which is all that
//! there is where no control groups can be made. [`Side::command`] and [`Side::spawn`] do both.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::{Deserialize, Deserializer, Serialize};

use crate::measure::cgroup::{Group, Method, folder, remove};
use crate::measure::process::{self, Stat};
use crate::measure::tree::Tree;
use lab_model::result::{CpuShare, Network, Node};

/// Enters the group whose file is the first argument, then becomes the program that the others are.
const ENTER: &str = r#"echo 0 > "$1" && shift && exec "$@""#;

/// The processes of one side of one arm.
#[derive(Debug)]
pub struct Side {
    role: Role,
    /// Groups of its nodes within its own: they go first.
    nodes: Vec<Group>,
    group: Option<Group>,
    method: Method,
    seen: Mutex<Seen>,
}

/// The name of a node's group within that of its side.
fn node(number: usize) -> String {
    format!("node{}", number + 1)
}

#[derive(Debug, Default)]
struct Seen {
    tree: Tree,
    memory: u64,
}

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The application and its kernel path.
    Host,
    /// The process that does the protocol's work for the host, when it is one of its own.
    Adapter,
    /// The target.
    Target,
    /// Other loads on the same link, both their ends.
    Neighbour,
}

impl Role {
    /// As results say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Adapter => "adapter",
            Self::Target => "target",
            Self::Neighbour => "neighbour",
        }
    }

    fn group(self, run: &str) -> String {
        format!("{run}-{}", self.name())
    }
}

/// A map by sides' names as it comes from another machine.
pub(crate) fn by_name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<BTreeMap<&'static str, T>, D::Error> {
    let map = BTreeMap::<Role, T>::deserialize(from)?;
    Ok(map.into_iter().map(|(role, value)| (role.name(), value)).collect())
}

/// Processor time by the name of the side.
pub type Spent = BTreeMap<&'static str, CpuShare>;

impl Side {
    /// A side of a run, counted in the best way that this machine has.
    pub fn new(role: Role, run: &str) -> Result<Self> {
        Self::with_method(role, run, Method::best())
    }

    /// The same, counted in this way.
    pub fn with_method(role: Role, run: &str, method: Method) -> Result<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        ensure!(
            !run.is_empty() && run.bytes().all(fits),
            "{run:?} cannot name a control group: use letters, digits, '-', '_' and '.'"
        );
        let group = match method {
            Method::ProcessTree => None,
            group => Some(Group::new(group, &role.group(run))?),
        };
        Ok(Self { role, nodes: Vec::new(), group, method, seen: Mutex::default() })
    }

    /// Which one it is.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// How it is counted.
    pub const fn method(&self) -> Method {
        self.method
    }

    /// The folder of its control group, if it has one: into its `cgroup.procs` goes what belongs to the side.
    pub fn folder(&self) -> Option<PathBuf> {
        self.group.as_ref().map(|group| group.folder().to_owned())
    }

    /// The folder of the group of a node, by its number from 0; that of the side where it is not divided.
    pub fn folder_of(&self, node: Option<usize>) -> Option<PathBuf> {
        let group = node.and_then(|number| self.nodes.get(number)).or(self.group.as_ref());
        group.map(|group| group.folder().to_owned())
    }

    /// Counts each node apart as well, where there are control groups.
    fn divide(&mut self, nodes: usize) -> Result<()> {
        if let Some(group) = &self.group {
            self.nodes = (0..nodes).map(|number| group.within(&node(number))).collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// A command that runs `program` in this side. Arguments, environment and streams are added as usual; start it by
    /// [`Side::spawn`]. A program that does not exist ends with status 127 and the shell's words.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Some(group) = &self.group else {
            return Command::new(program);
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", ENTER, "linerate-lab"]).arg(group.entrance()).arg(program);
        command
    }

    /// Starts a command that [`Side::command`] gave.
    pub fn spawn(&self, command: &mut Command) -> Result<Child> {
        let child =
            command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
        if self.group.is_none() {
            // It cannot vanish before it is waited for, so it is found.
            self.seen().tree.add(&Stat::of(child.id())?);
        }
        Ok(child)
    }

    /// Takes in a child that was just started with [`Side::folder`] as its control group: the process tree needs to be told.
    /// Does nothing for a child that has ended and was waited for.
    pub fn started(&self, pid: u32) {
        if self.group.is_none()
            && let Ok(process) = Stat::of(pid)
        {
            self.seen().tree.add(&process);
        }
    }

    /// Takes a process in that somebody else started; counted from now on, with the children it will have.
    pub fn adopt(&self, pid: u32) -> Result<()> {
        if let Some(group) = &self.group {
            return group.enter(pid);
        }
        self.seen().tree.adopt(&Stat::of(pid)?);
        Ok(())
    }

    /// Waits for a child and counts it to its very end.
    pub fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // Ended but not reaped: `/proc` still shows its times. A child that was waited for before is an error of `wait` below.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        }
        self.observe()?;
        child
            .wait()
            .with_context(|| format!("cannot wait for process {} of {}", child.id(), self.role.name()))
    }

    /// Looks at memory and, without a control group, at the process tree. A [`super::Window`] does so every second.
    pub fn observe(&self) -> Result<()> {
        let mut seen = self.seen();
        if self.group.is_none() {
            seen.tree.observe(&process::all()?);
        }
        let pids = self.pids_of(&seen)?;
        let memory = pids.into_iter().filter_map(process::peak_memory).sum();
        seen.memory = seen.memory.max(memory);
        Ok(())
    }

    /// Processor time since the side was made.
    pub fn usage(&self) -> Result<CpuShare> {
        if let Some(group) = &self.group {
            return group.usage();
        }
        let mut seen = self.seen();
        seen.tree.observe(&process::all()?);
        Ok(seen.tree.usage())
    }

    /// Most resident memory, bytes: the greatest sum over processes that lived together, of the most that each ever had.
    /// Pages that processes share count in each of them.
    pub fn memory(&self) -> Result<u64> {
        self.observe()?;
        Ok(self.seen().memory)
    }

    /// Its living processes.
    pub fn pids(&self) -> Result<Vec<u32>> {
        self.observe()?;
        self.pids_of(&self.seen())
    }

    fn pids_of(&self, seen: &Seen) -> Result<Vec<u32>> {
        let Some(group) = &self.group else { return Ok(seen.tree.pids()) };
        let mut all = group.pids()?;
        for node in &self.nodes {
            all.extend(node.pids()?);
        }
        Ok(all)
    }

    /// The processors to which all its processes are bound; `None` if one of them may run on any of the machine's.
    pub fn processors(&self, of_machine: usize) -> Result<Option<Vec<usize>>> {
        let mut all: Vec<usize> =
            self.pids()?.into_iter().filter_map(process::allowed_processors).flatten().collect();
        all.sort_unstable();
        all.dedup();
        Ok(Some(all).filter(|all| !all.is_empty() && all.len() < of_machine))
    }

    /// A panic elsewhere leaves numbers that are still right.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sides of an arm.
#[derive(Debug, Clone)]
pub struct Sides {
    sides: Vec<Arc<Side>>,
}

impl Sides {
    /// The folders that [`Sides::create`] will make, so that a ledger can note them before. None where sides are process trees.
    pub fn folders(run: &str, roles: &[Role], nodes: usize) -> Vec<PathBuf> {
        let method = Method::best();
        let own = roles.iter().filter_map(|role| folder(method, &role.group(run)));
        own.flat_map(|own| {
            let within: Vec<PathBuf> = (0..nodes).map(|number| own.join(node(number))).collect();
            std::iter::once(own).chain(within)
        })
        .collect()
    }

    /// Folders of control groups that a run of this name left.
    pub fn left_behind(run: &str) -> Vec<PathBuf> {
        let roles = [Role::Host, Role::Adapter, Role::Target, Role::Neighbour];
        let methods = [Method::Cgroup2, Method::Cgroup1].into_iter();
        let all = methods.flat_map(|method| roles.map(|role| folder(method, &role.group(run))));
        all.flatten().filter(|folder| folder.exists()).collect()
    }

    /// Makes these sides. `run` names the control groups: the run's identifier, with the arm's if several live at a time.
    pub fn create(run: &str, roles: &[Role]) -> Result<Self> {
        Self::with_method(run, roles, Method::best())
    }

    /// Makes them of a cluster of so many nodes, each counted apart as well. Without control groups nodes are not told apart.
    pub fn of_nodes(run: &str, roles: &[Role], nodes: usize) -> Result<Self> {
        let side = |role: &Role| {
            let mut side = Side::new(*role, run)?;
            side.divide(nodes)?;
            Ok(Arc::new(side))
        };
        Ok(Self { sides: roles.iter().map(side).collect::<Result<_>>()? })
    }

    /// The same, counted in this way.
    pub fn with_method(run: &str, roles: &[Role], method: Method) -> Result<Self> {
        let side = |role: &Role| Ok(Arc::new(Side::with_method(*role, run, method)?));
        Ok(Self { sides: roles.iter().map(side).collect::<Result<_>>()? })
    }

    /// The side in this role, if it was made.
    pub fn get(&self, role: Role) -> Option<&Side> {
        self.iter().find(|side| side.role == role)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().map(|side| &**side)
    }

    /// How they are counted; as the process tree when there are none.
    pub fn method(&self) -> Method {
        self.sides.first().map_or(Method::ProcessTree, |side| side.method)
    }

    /// What each spent so far.
    pub fn usage(&self) -> Result<Spent> {
        self.iter().map(|side| Ok((side.role.name(), side.usage()?))).collect()
    }

    /// What each node spent so far; empty where nodes are not counted apart.
    pub fn usage_of_nodes(&self) -> Result<Vec<Node>> {
        let count = self.sides.iter().map(|side| side.nodes.len()).min().unwrap_or(0);
        (0..count)
            .map(|number| {
                let of = |role| match self.get(role).and_then(|side| side.nodes.get(number)) {
                    Some(group) => group.usage(),
                    None => Ok(CpuShare::default()),
                };
                Ok(Node {
                    host: of(Role::Host)?,
                    adapter: of(Role::Adapter)?,
                    target: of(Role::Target)?,
                    network: Network::default(),
                })
            })
            .collect()
    }

    /// Most resident memory of each, bytes, but for those of which no process was met: what was not seen is not zero.
    pub fn memory(&self) -> Result<BTreeMap<String, u64>> {
        let all = self.iter().map(|side| Ok((side.role.name().to_owned(), side.memory()?)));
        all.filter(|seen: &Result<_>| !matches!(seen, Ok((_, 0)))).collect()
    }

    /// Removes the control groups, after their processes have ended. Dropping the last of the sides tries the same and says nothing.
    pub fn remove(self) -> Result<()> {
        for side in self.sides {
            for node in &side.nodes {
                remove(node.folder())?;
            }
            if let Some(group) = &side.group {
                remove(group.folder())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_path_is_refused() {
        for name in ["../host", "", "a b", "a/b"] {
            let error = Side::with_method(Role::Host, name, Method::ProcessTree).unwrap_err().to_string();
            assert!(error.contains("cannot name a control group"), "{error}");
        }
    }
}
