//! Programs that are told to stop while the volume that they need does not answer: they stop, and well, instead of waiting until
//! it is too late to open it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::net::TcpListener;

use common::{begin, ended};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

#[test]
fn a_signal_is_heard_while_a_volume_is_being_opened() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let socket = format!("unix:{}", place("socket"));
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("iscsi://{address}/iqn.2026-11.org.linerate:disk/0");
    let nvme = format!("nvme+tcp://{address}/nqn.2026-11.org.linerate:disk/1");
    let named = format!("gw={url}");
    for arguments in [
        vec!["serve", &named, "--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0", "--cores", "2"],
        vec!["attach", &url, &socket, "--as", "nbd", "--cores", "2"],
        vec!["attach", &nvme, &place("disk.sock"), "--as", "vhost-user"],
        vec!["attach", &url, &place("disk"), "--as", "fuse"],
    ] {
        let mut child = begin(&arguments);
        let (_connection, _) = silent.accept().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = ended(&mut child);
        assert!(status.success(), "{arguments:?} ends with {status}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left behind");
}

#[test]
fn a_command_that_waits_for_a_volume_ends_at_once_when_it_is_asked() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("iscsi://{address}/iqn.2026-11.org.linerate:disk/0");
    let nvme = format!("nvme+tcp://{address}/nqn.2026-11.org.linerate:disk/1");
    for arguments in [
        vec!["copy", &url, "ram:1M"],
        vec!["copy", "ram:1M", &nvme, "--overwrite"],
        vec!["copy", "-", &url, "--overwrite"],
        vec!["copy", &nvme, "-"],
        vec!["compare", "ram:1M", &url],
        vec!["checksum", &nvme],
        vec!["zero", &url, "--overwrite"],
        vec!["bench", &nvme],
        vec!["bench", "ram:1M", &url, "--rw", "randwrite", "--overwrite"],
    ] {
        let mut child = begin(&arguments);
        let (_connection, _) = silent.accept().unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = ended(&mut child);
        assert_eq!(status.code(), Some(130), "{arguments:?} ends with {status}");
    }
}
