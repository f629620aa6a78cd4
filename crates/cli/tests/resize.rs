//! A served file that grows and shrinks: SIGHUP makes the server look, its clients are told, and so are theirs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::OpenOptions;
use std::path::Path;

use common::{Server, until};
use linerate::{BlockingDisk, Client, ClientConfig, VolumeErrorKind};
use rustix::process::{Signal, kill_process};
use tempfile::tempdir;

const MIB: u64 = 1 << 20;

fn truncate(path: &Path, size: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(size).unwrap();
}

fn open(client: &Client, url: &str) -> BlockingDisk {
    client.open(&url.parse().unwrap()).unwrap().blocking()
}

/// Waits until the disk has so many bytes. An iSCSI target tells of it only when it is asked for something.
fn await_size(disk: &BlockingDisk, size: u64) {
    until(|| {
        disk.read_at(0, &mut [0; 512]).unwrap();
        (disk.disk().geometry().bytes() == size).then_some(())
    });
}

#[test]
fn a_new_size_is_noticed_by_clients_and_through_a_gateway() {
    let (back, front) = (tempdir().unwrap(), tempdir().unwrap());
    let file = back.path().join("disk.img");
    let server = Server::start(back.path(), &["disk=file:disk.img?size=2M", "--cores", "2"]);
    let gateway = Server::start(front.path(), &[&format!("gw={}", server.nvme_url("disk"))]);
    let client = Client::start(&ClientConfig::default()).unwrap();
    let urls =
        [server.nvme_url("disk"), server.iscsi_url("disk"), gateway.nvme_url("gw"), gateway.iscsi_url("gw")];
    let disks = urls.map(|url| open(&client, &url));
    for size in [4 * MIB, MIB, 3 * MIB] {
        truncate(&file, size);
        kill_process(server.pid(), Signal::HUP).unwrap();
        for (number, disk) in (0..).zip(&disks) {
            await_size(disk, size);
            disk.write_at(size - 512, &[number; 512]).unwrap();
            let error = disk.read_at(size, &mut [0; 512]).unwrap_err();
            assert_eq!(error.kind(), VolumeErrorKind::OutOfRange);
            assert!(error.to_string().contains(&format!("has only {size} bytes")), "{error}");
        }
    }
    // Whoever comes later finds the size of now.
    let later = open(&client, &server.iscsi_url("disk"));
    assert_eq!(later.disk().geometry().bytes(), 3 * MIB);
    drop((disks, later));
    gateway.stop();
    server.stop();
}

#[test]
fn an_idle_nvme_host_is_told_without_asking() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=file:disk.img?size=2M"]);
    let client = Client::start(&ClientConfig::default()).unwrap();
    let disk = open(&client, &server.nvme_url("disk"));
    truncate(&folder.path().join("disk.img"), 8 * MIB);
    kill_process(server.pid(), Signal::HUP).unwrap();
    until(|| (disk.disk().geometry().bytes() == 8 * MIB).then_some(()));
    drop(disk);
    server.stop();
}

#[test]
fn a_size_that_cannot_be_changes_nothing() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=file:disk.img?size=2M"]);
    let client = Client::start(&ClientConfig::default()).unwrap();
    let disk = open(&client, &server.nvme_url("disk"));
    truncate(&folder.path().join("disk.img"), 2 * MIB + 100);
    kill_process(server.pid(), Signal::HUP).unwrap();
    // Whoever opens it once more is served as before, whether the server has looked already or not.
    let again = open(&client, &server.iscsi_url("disk"));
    again.write_at(2 * MIB - 512, &[1; 512]).unwrap();
    assert_eq!(again.disk().geometry().bytes(), 2 * MIB);
    truncate(&folder.path().join("disk.img"), 3 * MIB);
    kill_process(server.pid(), Signal::HUP).unwrap();
    await_size(&disk, 3 * MIB);
    drop((disk, again));
    server.stop();
}
