//! What a run made outside its folder: noted before it is made, so that whatever cuts the run off, it can be found and removed.
//!
//! One JSON object per line, each synchronised to the disk before the thing is made. A cut in the middle of a line leaves
//! a last line that cannot be read: what it would have named was not made yet. Tearing down goes backwards, takes what is
//! gone already as done, and can be repeated.
//!
//! It also holds the hashes of what was measured ([`Ledger::seal`]), so that nobody rewrites a result unnoticed.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::attachment::Attachment;
use super::identity::Identity;
use super::program;
use crate::measure::cgroup;
use lab_model::seal::Seal;

/// How long removing one thing may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How often the members of a control group are looked at and ended, and the time between two looks: five seconds in all.
const END_LOOKS: u32 = 100;
const END_PAUSE: Duration = Duration::from_millis(50);

/// Something that a run makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "thing", rename_all = "kebab-case")]
pub enum Thing {
    /// A network namespace.
    Namespace {
        /// Its name for `ip netns`.
        name: String,
    },
    /// A process with all that descends from it. It can only be noted once it is there.
    Process {
        /// Which one.
        identity: Identity,
        /// What it was started as.
        argv0: String,
    },
    /// A mount.
    Mount {
        /// Where.
        path: PathBuf,
    },
    /// A loop device on a file.
    LoopDevice {
        /// The file behind it: the device's number is not known before it is made.
        backing: PathBuf,
    },
    /// A control group.
    Cgroup {
        /// Its folder.
        path: PathBuf,
    },
    /// Something that the kernel holds since a named action asked it to.
    Attachment {
        /// What.
        attachment: Attachment,
    },
    /// A folder with all that is in it.
    Folder {
        /// Where.
        path: PathBuf,
    },
}

/// What came of tearing down, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TornDown {
    /// What was removed.
    pub removed: Vec<String>,
    /// What could not be, and why.
    pub left: Vec<String>,
}

/// Names a thing within its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id(u64);

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Made {
        id: Id,
        #[serde(flatten)]
        thing: Thing,
    },
    Gone {
        gone: Id,
    },
    Sealed(Seal),
}

/// The ledger of a run.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    things: Vec<(Id, Thing)>,
    next: u64,
    /// Digest of the last seal; empty before the first.
    digest: String,
}

impl Ledger {
    /// Begins an empty one; there must be none yet.
    pub fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot make the ledger {}", path.display()))?;
        Ok(Self { path: path.to_path_buf(), file, things: Vec::new(), next: 0, digest: String::new() })
    }

    /// Opens the ledger that an earlier process kept.
    pub fn open(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read the ledger {}", path.display()))?;
        let (mut things, mut next) = (Vec::new(), 0);
        let mut digest = String::new();
        for line in String::from_utf8_lossy(&text).lines() {
            match serde_json::from_str(line) {
                Ok(Line::Made { id, thing }) => {
                    things.push((id, thing));
                    next = next.max(id.0 + 1);
                }
                Ok(Line::Gone { gone }) => things.retain(|(id, _)| *id != gone),
                Ok(Line::Sealed(seal)) => digest = seal.digest(),
                // The line that a cut left unfinished.
                Err(_) => {}
            }
        }
        let mut file = OpenOptions::new()
            .append(true)
            .open(path)
            .with_context(|| format!("cannot write the ledger {}", path.display()))?;
        if text.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n").with_context(|| format!("cannot write the ledger {}", path.display()))?;
        }
        Ok(Self { path: path.to_path_buf(), file, things, next, digest })
    }

    /// Notes a thing that is about to be made (a process: that was just made).
    pub fn add(&mut self, thing: Thing) -> Result<Id> {
        let id = Id(self.next);
        self.next += 1;
        self.write(&Line::Made { id, thing: thing.clone() })?;
        self.things.push((id, thing));
        Ok(id)
    }

    /// Notes that a thing is gone.
    pub fn gone(&mut self, id: Id) -> Result<()> {
        self.things.retain(|(known, _)| *known != id);
        self.write(&Line::Gone { gone: id })
    }

    /// Notes the hashes of a file of the run's folder, or of all files of a folder in it.
    pub fn seal(&mut self, run: &Path, what: &Path) -> Result<()> {
        let name = what.strip_prefix(run).unwrap_or(what).to_string_lossy();
        let seal = Seal::of(run, &name, &self.digest)?;
        self.digest = seal.digest();
        self.write(&Line::Sealed(seal))
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line).context("an entry cannot be written as JSON")?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write the ledger {}", self.path.display()))
    }

    /// What is noted and not gone, in the order in which it was made.
    pub fn left(&self) -> impl Iterator<Item = &Thing> {
        self.things.iter().map(|(_, thing)| thing)
    }

    /// Removes everything, the last first. What cannot be removed stays noted.
    pub fn tear_down(&mut self) -> TornDown {
        let mut torn = TornDown::default();
        for (id, thing) in self.things.clone().into_iter().rev() {
            let outcome = thing.remove().and_then(|removed| self.gone(id).map(|()| removed));
            match outcome {
                Ok(true) => torn.removed.push(thing.name()),
                Ok(false) => {}
                Err(error) => torn.left.push(format!("{} is still there: {error:#}", thing.name())),
            }
        }
        torn
    }
}

impl Thing {
    /// What it is, in words.
    fn name(&self) -> String {
        match self {
            Self::Namespace { name } => format!("network namespace {name}"),
            Self::Process { identity, argv0 } => format!("process {} ({argv0})", identity.pid),
            Self::Mount { path } => format!("mount {}", path.display()),
            Self::LoopDevice { backing } => format!("loop device of {}", backing.display()),
            Self::Cgroup { path } => format!("control group {}", path.display()),
            Self::Attachment { attachment } => attachment.to_string(),
            Self::Folder { path } => format!("folder {}", path.display()),
        }
    }

    /// Removes it; false when there was nothing to remove.
    fn remove(&self) -> Result<bool> {
        match self {
            Self::Namespace { name } => remove_namespace(name),
            Self::Process { identity, .. } => {
                let alive = identity.is_alive();
                identity.kill_family();
                Ok(alive)
            }
            Self::Mount { path } => unmount(path),
            Self::LoopDevice { backing } => detach(backing),
            Self::Attachment { attachment } => attachment.remove(),
            Self::Cgroup { path } if path.exists() => {
                end_members(path);
                cgroup::remove(path).map(|()| true)
            }
            Self::Folder { path } if path.exists() => {
                std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
                Ok(true)
            }
            Self::Cgroup { .. } | Self::Folder { .. } => Ok(false),
        }
    }
}

/// Ends whatever lives in a group of ours: a load that outlived the lab stands in no ledger, since it would have ended by
/// itself. It may start others while it is looked at, and on a busy machine a killed process takes its time to go.
fn end_members(group: &Path) {
    for _ in 0..END_LOOKS {
        // The kernel's own way where it has one (Linux 5.14); what it cannot do, the signals below do.
        let _older_kernel = std::fs::write(group.join("cgroup.kill"), "1");
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        if members.is_empty() {
            return;
        }
        for member in members.lines().filter_map(|pid| Identity::of(pid.parse().ok()?)) {
            member.kill_family();
        }
        std::thread::sleep(END_PAUSE);
    }
}

fn remove_namespace(name: &str) -> Result<bool> {
    if !Path::new("/run/netns").join(name).exists() {
        return Ok(false);
    }
    program::output(&["ip", "netns", "delete", name], LIMIT)?;
    Ok(true)
}

fn unmount(path: &Path) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    let wanted = path.display().to_string();
    if !mounts.lines().any(|line| line.split(' ').nth(1) == Some(wanted.as_str())) {
        return Ok(false);
    }
    // Lazily: a mount over a target that is gone would otherwise wait for it.
    program::output(&["umount", "--lazy", &wanted], LIMIT)?;
    Ok(true)
}

fn detach(backing: &Path) -> Result<bool> {
    let backing = backing.display().to_string();
    let said =
        program::output(&["losetup", "--noheadings", "--output", "NAME", "--associated", &backing], LIMIT)?;
    let devices: BTreeSet<&str> = said.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    for device in &devices {
        if !device.starts_with("/dev/loop") {
            bail!("losetup names {device:?}, which is not a loop device");
        }
        program::output(&["losetup", "--detach", device], LIMIT)?;
    }
    Ok(!devices.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(path: &Path) -> Thing {
        Thing::Folder { path: path.to_path_buf() }
    }

    #[test]
    fn what_was_made_is_removed_backwards_and_only_once() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("ledger.jsonl");
        let mut ledger = Ledger::create(&path).unwrap();
        let (outer, inner) = (base.path().join("outer"), base.path().join("outer/inner"));
        ledger.add(folder(&outer)).unwrap();
        ledger.add(folder(&inner)).unwrap();
        std::fs::create_dir_all(&inner).unwrap();
        drop(ledger);
        let mut again = Ledger::open(&path).unwrap();
        let torn = again.tear_down();
        assert_eq!((torn.removed.len(), torn.left.len()), (2, 0), "{torn:?}");
        assert!(torn.removed[0].ends_with("outer/inner") && torn.removed[1].ends_with("outer"), "{torn:?}");
        assert!(!outer.exists() && again.tear_down() == TornDown::default());
        assert_eq!(Ledger::open(&path).unwrap().left().count(), 0);
    }

    #[test]
    fn a_line_that_a_cut_left_is_passed_over_and_the_rest_stands() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("ledger.jsonl");
        let mut ledger = Ledger::create(&path).unwrap();
        ledger.add(folder(Path::new("/nowhere/one"))).unwrap();
        ledger.add(folder(Path::new("/nowhere/two"))).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let mut again = Ledger::open(&path).unwrap();
        assert_eq!(again.left().count(), 1);
        again.add(folder(Path::new("/nowhere/three"))).unwrap();
        assert_eq!(Ledger::open(&path).unwrap().left().count(), 2);
    }

    #[test]
    fn a_stranger_with_the_same_process_id_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let other = Identity { start_time: identity.start_time - 1, ..identity };
        let stranger = Thing::Process { identity: other, argv0: "sleep".to_owned() };
        assert!(!stranger.remove().unwrap());
        assert!(identity.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
