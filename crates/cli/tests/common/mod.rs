//! A server of the built `linerate` in a folder of its own, and how to run the other commands against it.
#![allow(dead_code, reason = "each test file uses its own part of these helpers")]

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take that has to happen; far more than it needs on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);
/// Between two looks at something that is awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Where a server keeps its volumes' state, unless the arguments say.
fn state_of(folder: &Path, arguments: &[&str]) -> Vec<std::ffi::OsString> {
    if arguments.contains(&"--state") {
        return Vec::new();
    }
    vec!["--state".into(), folder.join("state").into()]
}

/// A running `linerate serve`, killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) iscsi: SocketAddr,
    pub(crate) nvme: SocketAddr,
    ready: PathBuf,
}

impl Server {
    /// Serves with `arguments` beside ephemeral loopback ports.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(program()), folder, arguments)
    }

    /// Serves by `launcher`, a command that ends with the program to run.
    pub(crate) fn start_by(launcher: Command, folder: &Path, arguments: &[&str]) -> Self {
        let portals = ["--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0"];
        Self::launch(launcher, folder, &[&portals, arguments].concat())
    }

    /// Serves at the portals that a configuration file among `arguments` names.
    pub(crate) fn start_configured(folder: &Path, arguments: &[&str]) -> Self {
        Self::launch(Command::new(program()), folder, arguments)
    }

    fn launch(mut launcher: Command, folder: &Path, arguments: &[&str]) -> Self {
        let ready = folder.join("ready");
        let _absent = std::fs::remove_file(&ready);
        let log = folder.join("server.log");
        let mut child = launcher
            .args(["serve", "--ready-file"])
            .arg(&ready)
            .args(state_of(folder, arguments))
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let listening = until(|| {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {}", std::fs::read_to_string(&log).unwrap());
            std::fs::read_to_string(&ready).ok()
        });
        let portal = |protocol: &str| {
            let line = listening.lines().find_map(|line| line.strip_prefix(protocol)).unwrap();
            line.trim().parse().unwrap()
        };
        Self { iscsi: portal("iscsi "), nvme: portal("nvme "), child, ready }
    }

    /// Where it listens for that kind of portal now, by the words of the ready file.
    pub(crate) fn portal(&self, kind: &str) -> Option<SocketAddr> {
        let listening = std::fs::read_to_string(&self.ready).unwrap();
        let mut lines = listening.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(word, _)| *word == kind).map(|(_, address)| address.parse().unwrap())
    }

    pub(crate) fn iscsi_url(&self, volume: &str) -> String {
        format!("iscsi://{}/iqn.2026-11.org.linerate:{volume}/0", self.iscsi)
    }

    pub(crate) fn nvme_url(&self, volume: &str) -> String {
        format!("nvme+tcp://{}/nqn.2026-11.org.linerate:{volume}/1", self.nvme)
    }

    /// The volume over iSER.
    pub(crate) fn iser_url(&self, volume: &str) -> String {
        let portal = self.portal("iser").unwrap();
        format!("iser://{portal}/iqn.2026-11.org.linerate:{volume}/0")
    }

    /// The volume over NVMe/RDMA.
    pub(crate) fn nvme_rdma_url(&self, volume: &str) -> String {
        let portal = self.portal("nvme-rdma").unwrap();
        format!("nvme+rdma://{portal}/nqn.2026-11.org.linerate:{volume}/1")
    }

    /// The volume over iSER on RoCE.
    pub(crate) fn iser_roce_url(&self, volume: &str) -> String {
        let (portal, udp) = (self.portal("iser-roce").unwrap(), self.portal("udp").unwrap());
        let port = udp.port();
        format!("iser://{portal}/iqn.2026-11.org.linerate:{volume}/0?transport=roce&udp_port={port}")
    }

    /// The volume over NVMe/RDMA on RoCE.
    pub(crate) fn nvme_roce_url(&self, volume: &str) -> String {
        let (portal, udp) = (self.portal("nvme-roce").unwrap(), self.portal("udp").unwrap());
        format!(
            "nvme+rdma://{portal}/nqn.2026-11.org.linerate:{volume}/1?transport=roce&udp_port={}",
            udp.port()
        )
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Asks it to stop, and requires that it ends well.
    pub(crate) fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let status = ended(&mut self.child);
        assert!(status.success(), "the server ended with {status}");
    }

    /// Ends it as a power switch would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The program under test.
pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_linerate")
}

/// Starts a command beside the test.
pub(crate) fn begin(arguments: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs a command and requires that it succeeds; answers its standard output.
pub(crate) fn run(arguments: &[&str]) -> String {
    succeeded(begin(arguments).wait_with_output().unwrap())
}

/// Runs a command and requires that it succeeds; answers its standard error.
pub(crate) fn told(arguments: &[&str]) -> String {
    let output = begin(arguments).wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    succeeded(output);
    said
}

/// Runs a command and requires that it fails; answers its standard error.
pub(crate) fn run_in_vain(arguments: &[&str]) -> String {
    let mut child = begin(arguments);
    let status = ended(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(!status.success(), "{arguments:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

/// Requires success; answers the standard output.
pub(crate) fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Waits for a child, which is killed when it does not end.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("a process did not end in {TIMEOUT:?}");
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Looks until there is something to see.
pub(crate) fn until<T>(look: impl FnMut() -> Option<T>) -> T {
    until_or(look, String::new)
}

/// The same, and says what there is instead if nothing comes.
pub(crate) fn until_or<T>(mut look: impl FnMut() -> Option<T>, instead: impl Fn() -> String) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "nothing came in {TIMEOUT:?}: {}", instead());
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Writes a file of `blocks` sectors, each stamped with `seed` and its own number, and answers its `file:` URL.
pub(crate) fn stamped(path: &Path, blocks: u64, seed: u64) -> String {
    const WORDS: u64 = 512 / 16;
    let sector = |block: u64| (0..WORDS).flat_map(move |_| [seed, block]);
    let content: Vec<u8> = (0..blocks).flat_map(sector).flat_map(u64::to_le_bytes).collect();
    std::fs::write(path, content).unwrap();
    format!("file:{}", path.display())
}
