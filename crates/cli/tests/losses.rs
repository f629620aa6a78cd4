//! Acknowledged writes that are lost (docs/decisions/0012-lost-writes.md), as programs meet them: whoever tells of a failed flush only once, by
//! every way in the loss is everybody's, and it outlives the process.
//!
//! The file that loses writes is a volume of `linerate attach --as fuse` whose every second flush fails, as Linux tells a program once.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
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
