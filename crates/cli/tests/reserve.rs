//! `linerate reserve` over both protocols against one server: what one takes keeps the other out.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::process::Output;

use common::{Server, begin};
use serde_json::Value;
use tempfile::tempdir;

/// Runs `linerate reserve`; the exit code, and what was said.
fn reserve(url: &str, arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        begin(&[&["reserve", url], arguments].concat()).wait_with_output().unwrap();
    let text = [stdout, stderr].concat();
    (status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// The same, which must succeed; the report.
fn report(url: &str, arguments: &[&str]) -> Value {
    let (code, text) = reserve(url, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{arguments:?}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The same, which must be refused, and say this.
fn refused(url: &str, arguments: &[&str], expected: &str) {
    let (code, text) = reserve(url, arguments);
    assert!(code == 1 && text.contains(expected), "{arguments:?}: {code}: {text}");
}

/// The first block can be written, and be read.
fn may(url: &str) -> (bool, bool) {
    let done = |arguments: &[&str]| {
        let output = begin(arguments).wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() || text.contains("a reservation of another host"), "{text}");
        output.status.success()
    };
    let write = done(&["zero", url, "--overwrite", "--length", "64K"]);
    (write, done(&["checksum", url, "--length", "64K"]))
}

#[test]
fn each_protocol_keeps_the_other_out() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:16M", "--cores", "2"]);
    let scsi = format!("{}?isid=800000000001", server.iscsi_url("disk"));
    let nvme = format!("{}?hostid=11111111-2222-3333-4444-555555555555", server.nvme_url("disk"));

    // The initiator takes it, after it has registered.
    refused(&scsi, &["reserve", "--type", "write-exclusive"], "register --new-key");
    let held = report(&scsi, &["register", "--new-key", "0xa1"]);
    assert_eq!(held["registrations"][0]["own"], true);
    let held = report(&scsi, &["reserve", "--type", "write-exclusive"]);
    assert_eq!(
        (&held["reservation"], &held["registrations"][0]["holder"]),
        (&"write-exclusive".into(), &true.into())
    );
    assert_eq!((may(&scsi), may(&nvme)), ((true, true), (false, true)));

    // The host sees it, cannot have it, and takes it over.
    let seen = report(&nvme, &[]);
    assert_eq!(
        (&seen["registrations"][0]["key"], &seen["registrations"][0]["own"]),
        (&"0xa1".into(), &false.into())
    );
    report(&nvme, &["register", "--new-key", "0xb2"]);
    refused(&nvme, &["reserve", "--type", "exclusive-access"], "held with the key 0xa1");
    refused(&nvme, &["preempt", "--type", "exclusive-access", "--victim", "0x77"], "nobody is registered");
    refused(&nvme, &["register", "--key", "5", "--new-key", "6"], "with the key 0xb2");
    let held = report(&nvme, &["preempt-abort", "--type", "exclusive-access"]);
    let registrations = held["registrations"].as_array().unwrap();
    assert_eq!((registrations.len(), &registrations[0]["holder"]), (1, &true.into()));
    assert_eq!((may(&scsi), may(&nvme)), ((false, false), (true, true)));
    refused(&scsi, &["release"], "not registered");
    assert!(report(&scsi, &[])["registrations"][0]["registrant"].as_str().unwrap().contains("11111111-2222"));

    // It gives it back.
    refused(&nvme, &["release", "--type", "write-exclusive"], "exclusive-access");
    assert_eq!(report(&nvme, &["release"])["reservation"], Value::Null);
    assert_eq!((may(&scsi), may(&nvme)), ((true, true), (true, true)));
    assert!(report(&nvme, &["register", "--new-key", "0"])["registrations"].as_array().unwrap().is_empty());
    server.stop();
}

#[test]
fn what_makes_no_sense_is_said() {
    let (code, text) = reserve("ram:1M", &[]);
    assert!(code == 2 && text.contains("iscsi://, iser://, nvme+tcp:// or nvme+rdma://"), "{code}: {text}");
    let nowhere = "nvme+tcp://127.0.0.1:1/nqn.2026-11.org.linerate:disk/1";
    for (arguments, expected) in [
        (&["register"][..], "--new-key"),
        (&["reserve"], "--type"),
        (&["preempt"], "--type"),
        (&["register", "--new-key", "0xg"], "hexadecimal"),
        (&["seize"], "preempt-abort"),
    ] {
        let (code, text) = reserve(nowhere, arguments);
        assert!(code == 2 && text.contains(expected), "{arguments:?}: {code}: {text}");
    }
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M"]);
    let url = server.nvme_url("disk");
    for (arguments, expected) in
        [(&["release"][..], "nothing is reserved"), (&["preempt", "--type", "exclusive-access"], "--victim")]
    {
        let (code, text) = reserve(&url, arguments);
        assert!(code == 2 && text.contains(expected), "{arguments:?}: {code}: {text}");
    }
    server.stop();
}

#[test]
fn every_key_of_the_report_is_documented() {
    let howto = include_str!("../../../docs/howto/reserve.md");
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M"]);
    let found = report(&server.iscsi_url("disk"), &["register", "--new-key", "7"]);
    let entry = found["registrations"][0].as_object().unwrap();
    for key in found.as_object().unwrap().keys().chain(entry.keys()) {
        assert!(howto.contains(&format!("`{key}`")), "docs/howto/reserve.md does not say what {key} is");
    }
    server.stop();
}
