//! A far end that has too much to do says so, and its clients ask again a little later: SCSI's BUSY, NVMe's Command Interrupted.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::Server;
use linerate::{BlockingDisk, Client, ClientConfig, VolumeErrorKind};
use tempfile::tempdir;

fn open(client: &Client, url: &str) -> BlockingDisk {
    client.open(&url.parse().unwrap()).unwrap().blocking()
}

#[test]
fn what_was_too_much_is_asked_for_again() {
    let (back, front) = (tempdir().unwrap(), tempdir().unwrap());
    let server = Server::start(back.path(), &["disk=fail=1/2,kind=busy+ram:4M"]);
    let gateway = Server::start(front.path(), &[&format!("gw={}", server.iscsi_url("disk"))]);
    let client = Client::start(&ClientConfig::default()).unwrap();
    let urls = [server.iscsi_url("disk"), server.nvme_url("disk"), gateway.nvme_url("gw")];
    for (number, url) in (1..).zip(&urls) {
        let disk = open(&client, url);
        for at in (0..64 * 512).step_by(512) {
            disk.write_at(at, &[number; 512]).unwrap();
        }
        disk.flush().unwrap();
        let mut back = vec![0; 64 * 512];
        disk.read_at(0, &mut back).unwrap();
        assert_eq!(back, vec![number; 64 * 512], "{url}");
        disk.write_zeroes(0, 4096).unwrap();
        disk.discard(0, 4096).unwrap();
    }
    drop(client);
    gateway.stop();
    server.stop();
}

#[test]
fn who_is_busy_for_longer_than_a_command_may_take_has_not_answered() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=fail=100%,kind=busy+ram:4M"]);
    let client = Client::start(&ClientConfig::default()).unwrap();
    for url in [server.iscsi_url("disk"), server.nvme_url("disk")] {
        let with = if url.contains('?') { '&' } else { '?' };
        let disk = open(&client, &format!("{url}{with}timeout=1s"));
        let error = disk.read_at(0, &mut [0; 512]).unwrap_err();
        assert_eq!(error.kind(), VolumeErrorKind::TimedOut, "{error}");
    }
    // What must not be carried out twice is not kept for a second time.
    let disk = open(&client, &server.iscsi_url("disk"));
    let error = disk.compare_and_write(0, &[0; 512], &[1; 512]).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::Busy);
    assert!(error.to_string().contains("the volume is busy"), "{error}");
    drop(client);
    server.stop();
}
