//! `linerate check` passes volumes that keep data, over both protocols, and names what others did with it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Server, run, run_in_vain};
use tempfile::tempdir;

#[test]
fn volumes_that_keep_their_data_pass() {
    let folder = tempdir().unwrap();
    let server = Server::start(
        folder.path(),
        &["memory=ram:64M", "disk=file:disk.img?size=10M", "wide=ram:9M?block=4096"],
    );
    for volume in ["memory", "disk", "wide"] {
        for url in [server.iscsi_url(volume), server.nvme_url(volume)] {
            let said = run(&["check", &url, "--overwrite"]);
            assert_eq!(said.trim(), "8388608 bytes kept through writes, flushes, zeroes, discards", "{url}");
        }
    }
    server.stop();
}

#[test]
fn a_volume_smaller_than_the_check_is_checked_whole() {
    assert!(run(&["check", "ram:100K", "--overwrite"]).starts_with("102400 bytes kept"));
    assert!(run(&["check", "ram:512", "--overwrite"]).starts_with("512 bytes kept"));
}

#[test]
fn a_volume_that_loses_data_is_named_with_the_place() {
    let said = run_in_vain(&["check", "null:64M", "--overwrite"]);
    assert!(said.contains("null:64M does not keep its data: at byte "), "{said}");
    assert!(said.contains("what round 1 wrote was expected, but there is zeros"), "{said}");
}

#[test]
fn a_volume_that_fails_is_told_apart_from_one_that_loses() {
    let said = run_in_vain(&["check", "fail=100%,on=flush+ram:1M", "--overwrite"]);
    assert!(said.contains("cannot be flushed"), "{said}");
}

#[test]
fn nothing_is_overwritten_unasked() {
    let said = run_in_vain(&["check", "nvme+tcp://127.0.0.1:1/nqn.2026-11.org.linerate:disk/1"]);
    assert!(said.contains("--overwrite"), "{said}");
}
