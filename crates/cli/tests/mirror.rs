//! `mirror=[…]` on the command line: in memory, in files that outlive the process, over both protocols.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::path::Path;

use common::{Server, begin, ended, run, run_in_vain, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::tempdir;

const KEPT: &str = "8388608 bytes kept through writes, flushes, zeroes, discards";

fn check(url: &str) -> String {
    run(&["check", url, "--overwrite"])
}

#[test]
fn a_mirror_in_memory_keeps_its_data_and_is_measured() {
    assert_eq!(check("mirror=[ram:64M,ram:64M]").trim(), KEPT);
    assert_eq!(check("mirror=[ram:16M,ram:16M,ram:16M,ram:16M]?copies=3&slab=1M").trim(), KEPT);
    let url = "mirror=[ram:64M,ram:64M]";
    let arguments =
        ["bench", "--json", url, "--rw", "randwrite", "--qd", "8", "--overwrite", "--runtime", "0.5"];
    let result: Value = serde_json::from_str(&run(&arguments)).unwrap();
    assert!(result["write"]["ios"].as_u64().unwrap() > 100, "{result}");
    assert_eq!(result["errors"].as_u64(), Some(0), "{result}");
}

#[test]
fn a_mirror_of_files_is_known_again_and_not_opened_without_the_leg_that_may_be_newer() {
    let folder = tempdir().unwrap();
    let leg = |name: &str| format!("file:{}?size=16M", folder.path().join(name).display());
    let url = format!("mirror=[{},{}]", leg("a.img"), leg("b.img"));
    assert_eq!(check(&url).trim(), KEPT);
    assert_eq!(check(&url).trim(), KEPT, "opened again");
    let other = format!("mirror=[{}]", leg("a.img"));
    let said = run_in_vain(&["check", &other, "--overwrite"]);
    assert!(said.contains("was made of 2 legs"), "{said}");
    let said = run_in_vain(&["check", &format!("{url}?copys=2"), "--overwrite"]);
    assert!(said.contains("did you mean copies?"), "{said}");
}

#[test]
fn a_volume_with_data_of_its_own_is_not_made_a_copy_of_another_one() {
    let folder = tempdir().unwrap();
    let (blank, used) = (folder.path().join("blank.img"), folder.path().join("used.img"));
    std::fs::write(&used, [vec![7; 4096], vec![0; (8 << 20) - 4096]].concat()).unwrap();
    let url = format!("mirror=[file:{}?size=8M,file:{}]", blank.display(), used.display());
    let said = run_in_vain(&["inspect", &url]);
    assert!(said.contains("leg 2") && said.contains("overwrite=1"), "{said}");
    assert_eq!(std::fs::read(&used).unwrap()[..4096], [7; 4096]);
    run(&["check", &format!("{url}?overwrite=1"), "--overwrite"]);
}

/// Has a process attach the volume, and asks it to stop once it has.
fn attach_and_stop(url: &str, kind: &str, folder: &Path) {
    let place = folder.join(kind);
    if kind == "fuse" {
        std::fs::write(&place, []).unwrap();
    }
    let unix = if kind == "nbd" { "unix:" } else { "" };
    let (place, ready) = (format!("{unix}{}", place.display()), folder.join(format!("{kind}.ready")));
    let mut child =
        begin(&["attach", url, &place, "--as", kind, "--ready-file", &ready.display().to_string()]);
    until(|| ready.exists().then_some(()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = ended(&mut child);
    assert!(status.success(), "{kind}: {status}");
}

#[test]
fn a_mirror_over_both_protocols_keeps_its_data_and_is_one_owners() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["one=ram:32M", "two=ram:32M"]);
    let url = format!("mirror=[{},{}]", server.iscsi_url("one"), server.nvme_url("two"));
    assert_eq!(check(&url).trim(), KEPT);
    assert_eq!(check(&url).trim(), KEPT, "whoever ended in order has given its reservations back");
    // An owner that crashes does not: here and elsewhere its volume has to be taken over.
    let elsewhere = tempdir().unwrap();
    let owner = Server::start(elsewhere.path(), &[&format!("disk={url}")]);
    let said = run_in_vain(&["check", &url, "--overwrite"]);
    assert!(said.contains("reservation is held by"), "{said}");
    owner.kill();
    let said = run_in_vain(&["check", &url, "--overwrite"]);
    assert!(said.contains("reservation is held by") && said.contains("takeover=1"), "{said}");
    // What the crash left to be made equal is copied meanwhile. Whoever ends before that is done gives its reservations back too.
    run(&["checksum", &format!("{url}?takeover=1")]);
    assert_eq!(
        check(&url).trim(),
        KEPT,
        "whoever ended while it may have been copying has given its reservations back"
    );
    // So does a server that is stopped while it has clients, and a disk of the library.
    let owner = Server::start(elsewhere.path(), &[&format!("disk={url}")]);
    assert_eq!(check(&owner.nvme_url("disk")).trim(), KEPT);
    assert_eq!(check(&owner.iscsi_url("disk")).trim(), KEPT);
    owner.stop();
    run(&["bench", "--json", &url, "--rw", "randrw", "--qd", "8", "--overwrite", "--runtime", "0.3"]);
    for kind in ["nbd", "vhost-user", "fuse"] {
        attach_and_stop(&url, kind, elsewhere.path());
        assert_eq!(check(&url).trim(), KEPT, "after {kind}");
    }
    server.stop();
}
