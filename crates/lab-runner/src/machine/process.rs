//! Child processes that end: each in a process group of its own, placed before its program begins, killed whole.
//!
//! Load tools fork, and some leave their group (fio gives every job a session of its own), so ending a child means
//! ending its group *and* its descendants. Where a program runs (namespace, processors, control group, user) is arranged
//! by a chain of small programs that each replace themselves by the next, so that the process id stays the same and
//! nothing runs in the wrong place even for a moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::identity::Identity;
use super::program;

/// How much of a program's last words an error repeats, in bytes.
const TAIL: usize = 2000;
/// How long a look-up of a user may take.
const LOOKUP: Duration = Duration::from_secs(10);

/// What is started, and where its words go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables beside those of this process.
    pub environment: BTreeMap<String, String>,
    /// Its working folder.
    pub folder: PathBuf,
    /// The file that its standard output replaces.
    pub stdout: PathBuf,
    /// The file that its standard error replaces; may be the same.
    pub stderr: PathBuf,
    /// Who runs it, when not the one who runs the lab: PostgreSQL refuses root.
    pub user: Option<String>,
}

impl CommandLine {
    /// A command in `folder` that writes to `NAME.stdout` and `NAME.stderr` there.
    pub fn new(name: &str, argv: Vec<String>, folder: &Path) -> Self {
        Self {
            argv,
            environment: BTreeMap::new(),
            folder: folder.to_owned(),
            stdout: folder.join(format!("{name}.stdout")),
            stderr: folder.join(format!("{name}.stderr")),
            user: None,
        }
    }
}

/// Where a process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Network namespace, as `ip netns` names it.
    pub namespace: Option<String>,
    /// The processors that it may use, counted from 0.
    pub processors: Option<Vec<usize>>,
    /// Folder of the control group that it enters before its program begins.
    pub cgroup: Option<PathBuf>,
}

impl Placement {
    /// The programs that lead to the right place, each replaced by the next.
    fn chain(&self, user: Option<&str>) -> Result<Vec<String>> {
        let mut chain = Vec::new();
        if let Some(folder) = &self.cgroup {
            let entrance = folder.join("cgroup.procs");
            if !entrance.is_file() {
                bail!("{} is not a control group: it has no file cgroup.procs", folder.display());
            }
            let entrance = text(&entrance)?;
            chain.extend([
                found("sh")?,
                "-c".to_owned(),
                "echo $$ >\"$0\" && exec \"$@\"".to_owned(),
                entrance,
            ]);
        }
        if let Some(name) = &self.namespace {
            // Not `ip netns exec`: that would give a mount namespace as well, and nobody outside would see a FUSE export.
            chain.extend([found("nsenter")?, format!("--net=/run/netns/{name}"), "--".to_owned()]);
        }
        if let Some(processors) = &self.processors {
            let list: Vec<String> = processors.iter().map(ToString::to_string).collect();
            chain.extend([found("taskset")?, "-c".to_owned(), list.join(",")]);
        }
        if let Some(user) = user {
            let group = program::output(&["id", "-g", user], LOOKUP)
                .with_context(|| format!("there is no user {user:?} to run a program as"))?;
            let words =
                [format!("--reuid={user}"), format!("--regid={}", group.trim()), "--init-groups".to_owned()];
            chain.push(found("setpriv")?);
            chain.extend(words);
        }
        Ok(chain)
    }
}

fn found(name: &str) -> Result<String> {
    text(&program::require(name)?)
}

fn text(path: &Path) -> Result<String> {
    let text =
        path.to_str().with_context(|| format!("{} is not UTF-8: name it otherwise", path.display()))?;
    Ok(text.to_owned())
}

/// A child that runs, or ran. Dropping it kills whatever is left of it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    identity: Identity,
    handle: OwnedFd,
    program: String,
    stderr: PathBuf,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts a program in its place, in a process group of its own.
    pub fn start(line: &CommandLine, placement: &Placement) -> Result<Self> {
        let (name, arguments) = line.argv.split_first().context("a command without a program")?;
        let mut words = placement.chain(line.user.as_deref())?;
        words.push(found(name)?);
        words.extend(arguments.iter().cloned());
        let (first, rest) = words.split_first().context("a command without a program")?;
        let (stdout, stderr) = outputs(line)?;
        let mut command = Command::new(first);
        command.args(rest).envs(&line.environment).current_dir(&line.folder).process_group(0);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child = command.spawn().with_context(|| {
            format!("`{}` cannot be started in {}", line.argv.join(" "), line.folder.display())
        })?;
        Self::watch(child, name, &line.stderr)
    }

    fn watch(mut child: Child, program: &str, stderr: &Path) -> Result<Self> {
        // The child is not reaped yet, so its id cannot have passed to another process.
        let handle = pidfd_open(group(&child), PidfdFlags::empty());
        let (Ok(handle), Some(identity)) = (handle, Identity::of(child.id())) else {
            child
                .kill()
                .and_then(|()| child.wait())
                .context("a child that cannot be watched cannot be ended either")?;
            bail!("{program} was started but cannot be watched: this needs /proc and Linux 5.3 (pidfd_open)");
        };
        let (program, stderr) = (program.to_owned(), stderr.to_owned());
        Ok(Self { child, identity, handle, program, stderr, ended: None })
    }

    /// Its process id, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Its process id together with its start, for a ledger.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Waits for its end and kills what it left of its group. After `limit` it is killed, and the error says so with its
    /// last words.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        if !self.ends_within(limit)? {
            self.kill();
            bail!(
                "{} did not end within {:.1} s and was killed{}",
                self.program,
                limit.as_secs_f64(),
                last_words(&self.stderr)
            );
        }
        self.reap().with_context(|| format!("the end of {} was lost", self.program))
    }

    /// Waits for its end; an end other than exit status 0 is an error with its last words.
    pub fn finish(&mut self, limit: Duration) -> Result<()> {
        let status = self.wait(limit)?;
        if !status.success() {
            bail!("{} ended with {status}{}", self.program, last_words(&self.stderr));
        }
        Ok(())
    }

    /// Asks the group to end (SIGTERM), and kills what is left of group and descendants after `timeout`.
    pub fn stop(&mut self, timeout: Duration) {
        if self.ended.is_some() {
            return;
        }
        // Counted before they can lose their parent.
        let family = self.identity.descendants();
        self.signal_group(Signal::TERM);
        if matches!(self.ends_within(timeout), Ok(true)) {
            let _status = self.reap();
        } else {
            self.kill();
        }
        for child in family {
            child.kill_family();
        }
    }

    /// Sends SIGHUP to the process itself, not to its group: servers take it as a wish to look at what has changed.
    pub fn hang_up(&mut self) -> Result<()> {
        if !self.is_alive() {
            bail!("{} has ended{}", self.program, self.last_words());
        }
        kill_process(group(&self.child), Signal::HUP)
            .with_context(|| format!("{} cannot be sent a signal", self.program))
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        if self.ended.is_none() && matches!(self.ends_within(Duration::ZERO), Ok(true)) {
            let _status = self.reap();
        }
        self.ended.is_none()
    }

    /// The end of its standard error, as words that can follow a sentence; empty when it said nothing.
    pub fn last_words(&self) -> String {
        last_words(&self.stderr)
    }

    fn kill(&mut self) {
        if self.ended.is_none() {
            self.identity.kill_family();
            let _status = self.reap();
        }
    }

    /// Kills the rest of the group while the leader's id is still its own, then takes the leader's status.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.signal_group(Signal::KILL);
        self.ended = self.child.wait().ok().or(self.ended);
        self.ended
    }

    fn signal_group(&self, signal: Signal) {
        if self.ended.is_none() {
            // An empty group is what is wished for.
            let _gone = kill_process_group(group(&self.child), signal);
        }
    }

    fn ends_within(&self, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let wait =
                Timespec { tv_sec: i64::try_from(left.as_secs())?, tv_nsec: left.subsec_nanos().into() };
            let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut fds, Some(&wait)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return Ok(ready.context("a child cannot be waited for")? > 0),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn group(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn outputs(line: &CommandLine) -> Result<(Stdio, Stdio)> {
    let create =
        |path: &Path| File::create(path).with_context(|| format!("{} cannot be written", path.display()));
    let stdout = create(&line.stdout)?;
    let stderr = if line.stderr == line.stdout {
        stdout.try_clone().with_context(|| format!("{} cannot be shared", line.stderr.display()))?
    } else {
        create(&line.stderr)?
    };
    Ok((stdout.into(), stderr.into()))
}

/// The end of what a program wrote to a file, as words that can follow a sentence.
pub fn last_words(written: &Path) -> String {
    let bytes = std::fs::read(written).unwrap_or_default();
    let tail = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default();
    let words = String::from_utf8_lossy(tail);
    match words.trim() {
        "" => format!(" (it wrote nothing to {})", written.display()),
        words => format!("; its last words in {}:\n{words}", written.display()),
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
