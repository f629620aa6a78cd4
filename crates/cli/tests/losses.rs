//! Acknowledged writes that are lost (docs/decisions/0012-lost-writes.md), as programs meet them: whoever tells of a failed flush only once, by
//! every way in the loss is everybody's, and it outlives the process.
//!
//! The file that loses writes is a volume of `linerate attach --as fuse` whose every second flush fails, as Linux tells a program once.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Server, ended, program, run, run_in_vain, until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

/// Every second flush of each queue fails, and the others find nothing to do.
const TOLD_ONCE: &str = "fail=1/2,on=flush+ram:4M";

/// A volume that appears as a file, until it is dropped.
struct Mounted {
    child: Child,
    path: PathBuf,
}

impl Mounted {
    fn new(folder: &Path, name: &str, url: &str) -> Self {
        let (path, ready) = (folder.join(name), folder.join(format!("{name}.ready")));
        File::create(&path).unwrap();
        let mut command = Command::new(program());
        command.arg("attach").arg(url).arg(&path).args(["--as", "fuse", "--ready-file"]).arg(&ready);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until(|| ready.exists().then_some(()));
        Self { child, path }
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.path).unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
        ended(&mut self.child);
    }
}

/// Writes, flushes and reads: which of the three succeed.
fn tried(file: &File) -> [bool; 3] {
    let written = file.write_all_at(&[7; 4096], 0).is_ok();
    [written, file.sync_data().is_ok(), file.read_exact_at(&mut [0; 4096], 0).is_ok()]
}

const ALL: [bool; 3] = [true; 3];
/// The write had been taken when its flush failed.
const LOST_NOW: [bool; 3] = [true, false, true];
const LOST_BEFORE: [bool; 3] = [false, false, true];

#[test]
fn what_another_machine_tells_once_is_lost_for_every_program_here() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &[&format!("disk={TOLD_ONCE}")]);
    for (name, url) in [("iscsi", server.iscsi_url("disk")), ("nvme", server.nvme_url("disk"))] {
        let mounted = Mounted::new(folder.path(), name, &url);
        let (one, two) = (mounted.open(), mounted.open());
        assert_eq!([tried(&one), tried(&two)], [ALL, LOST_NOW], "{name}");
        assert_eq!([tried(&one), tried(&two), tried(&mounted.open())], [LOST_BEFORE; 3], "{name}");
        // Its last flush fails here, so that the next one that the server counts fails there again.
    }
    server.stop();
}

/// A client of `linerate attach --as nbd`, as far as it takes to write, flush and read.
struct Nbd(UnixStream);

impl Nbd {
    /// Takes the only export, by the oldest way in.
    fn new(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // No zeroes; then EXPORT_NAME without a name.
        let told = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &0_u32.to_be_bytes()];
        stream.write_all(&told.concat()).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Self(stream)
    }

    /// The error of a request of the first 4 KiB: its flags and type, what it sends, and the bytes that it brings.
    fn ask(&mut self, (flags, kind): (u16, u16), data: &[u8], brings: usize) -> u32 {
        let length = if kind == FLUSH { 0 } else { 4096_u32 };
        let header = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &[9; 8],
            &[0; 8],
            &length.to_be_bytes(),
        ];
        self.0.write_all(&[&header.concat(), data].concat()).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        let error = u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        if error == 0 {
            self.0.read_exact(&mut vec![0; brings]).unwrap();
        }
        error
    }

    /// Writes, flushes, writes durably and reads: the error of each.
    fn tried(&mut self) -> [u32; 4] {
        let data = [7; 4096];
        [
            self.ask((0, WRITE), &data, 0),
            self.ask((0, FLUSH), &[], 0),
            self.ask((1, WRITE), &data, 0),
            self.ask((0, 0), &[], 4096),
        ]
    }
}

const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const EIO: u32 = 5;

#[test]
fn an_nbd_client_is_told_of_a_failed_flush_and_so_is_every_later_one_until_somebody_accepts() {
    let folder = tempdir().unwrap();
    let below = Mounted::new(folder.path(), "below", TOLD_ONCE);
    let volume = format!("disk=file:{}", below.path.display());
    let server = Server::start(folder.path(), &[&volume]);
    let mut attached = Vec::new();
    let mut attach = |name: &str, url: &str| {
        let (socket, ready) = (folder.path().join(name), folder.path().join(format!("{name}.ready")));
        let mut command = Command::new(program());
        command.arg("attach").arg(url).arg(format!("unix:{}", socket.display()));
        command.args(["--as", "nbd", "--ready-file"]).arg(&ready);
        attached.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until(|| ready.exists().then_some(()));
        socket
    };
    let socket = attach("iscsi", &server.iscsi_url("disk"));
    let (mut one, mut two) = (Nbd::new(&socket), Nbd::new(&socket));
    assert_eq!(one.ask((0, FLUSH), &[], 0), 0);
    assert_eq!(one.tried(), [0, EIO, EIO, 0], "what was written is lost");
    for _ in 0..2 {
        assert_eq!([one.tried(), two.tried()], [[EIO, EIO, EIO, 0]; 2]);
    }
    // Whoever comes later, another way.
    let other = attach("nvme", &server.nvme_url("disk"));
    assert_eq!(Nbd::new(&other).tried(), [EIO, EIO, EIO, 0]);
    for mut child in attached {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        ended(&mut child);
    }
    server.stop();
    let state = folder.path().join("state");
    run(&["losses", &volume, "--state", state.to_str().unwrap(), "--accept"]);
    let server = Server::start(folder.path(), &[&volume]);
    run(&["zero", &server.nvme_url("disk"), "--overwrite", "--length", "4096"]);
    server.stop();
}

#[test]
fn a_command_whose_volume_cannot_be_flushed_fails_and_says_so() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=fail=100%,on=flush+ram:4M"]);
    for url in [server.iscsi_url("disk"), server.nvme_url("disk"), "fail=100%,on=flush+ram:4M".to_owned()] {
        for connections in ["1", "3"] {
            for command in [
                vec!["copy", "ram:1M", &url, "--overwrite", "--connections", connections],
                vec!["copy", "-", &url, "--overwrite", "--connections", connections],
                vec!["zero", &url, "--overwrite", "--connections", connections],
                vec!["check", &url, "--overwrite", "--bytes", "64k"],
            ] {
                let said = run_in_vain(&command);
                assert!(said.contains("cannot be flushed: the medium"), "{command:?}: {said}");
            }
        }
        run(&["checksum", &url]);
        run(&["compare", &url, &url]);
        run(&["copy", &url, "ram:4M"]);
    }
    server.stop();
}

#[test]
fn a_loss_outlives_servers_and_a_client_that_has_not_heard_of_it_learns_it() {
    let folder = tempdir().unwrap();
    let below = Mounted::new(folder.path(), "below", TOLD_ONCE);
    let volume = format!("disk=file:{}", below.path.display());
    let (config, state) = (folder.path().join("linerate.toml"), folder.path().join("state"));
    let server = Server::start(folder.path(), &[&volume]);
    // The same addresses again, so that clients find the next server.
    let portals = [("iscsi", server.iscsi), ("nvme", server.nvme)].map(|(protocol, address)| {
        format!("[[portal]]\nprotocol = \"{protocol}\"\nlisten = \"{address}\"\n")
    });
    fs::write(&config, portals.concat()).unwrap();
    let again = ["--config", config.to_str().unwrap(), volume.as_str()];
    let unaware = Mounted::new(folder.path(), "unaware", &server.iscsi_url("disk"));
    let unaware = unaware.open();
    unaware.write_all_at(&[1; 4096], 8192).unwrap();
    let client = Mounted::new(folder.path(), "client", &server.nvme_url("disk"));
    let file = client.open();
    assert_eq!([tried(&file), tried(&file), tried(&file)], [ALL, LOST_NOW, LOST_BEFORE]);
    server.stop();
    let log = |about: &str| {
        let text = fs::read_to_string(folder.path().join("server.log")).unwrap();
        assert!(text.contains(about), "no {about:?} in: {text}");
    };
    log("has lost acknowledged writes");
    log("linerate losses --accept");

    let server = Server::start_configured(folder.path(), &again);
    for url in [server.iscsi_url("disk"), server.nvme_url("disk")] {
        assert!(run_in_vain(&["zero", &url, "--overwrite"]).contains("the medium"), "{url}");
        run(&["checksum", &url]);
    }
    let kept = state.to_str().unwrap();
    let refused = run_in_vain(&["losses", &volume, "--state", kept, "--accept"]);
    assert!(refused.contains("is in use"), "{refused}");
    server.stop();
    assert!(run(&["losses", &volume, "--state", kept]).contains("a flush failed"));
    assert!(run(&["losses", &volume, "--state", kept, "--accept"]).contains("cleared"));

    let server = Server::start_configured(folder.path(), &again);
    run(&["zero", &server.nvme_url("disk"), "--overwrite", "--length", "4096"]);
    assert!(
        unaware.sync_data().is_err(),
        "what it wrote before the loss may be gone, and no flush covered it"
    );
    server.stop();
}
