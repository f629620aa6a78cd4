//! What hosts know volumes by, and what they are told after a restart.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Server, run, run_in_vain};
use linerate::{Client, ClientConfig};
use tempfile::tempdir;

/// The designators of a volume, its serial number among them.
fn names(url: &str) -> BTreeMap<String, String> {
    let told: serde_json::Value = serde_json::from_str(&run(&["inspect", url, "--json"])).unwrap();
    let identity = &told["identity"];
    let designators = identity["designators"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let names = designators.map(|one| (text(&one["kind"]), text(&one["value"])));
    names.chain([("serial".to_owned(), text(&identity["serial"]))]).collect()
}

/// The same over both protocols.
fn both(server: &Server, volume: &str) -> [BTreeMap<String, String>; 2] {
    let both = [names(&server.iscsi_url(volume)), names(&server.nvme_url(volume))];
    assert_eq!(both[0]["uuid"], both[1]["uuid"], "one volume has one UUID");
    both
}

/// No name of one is a name of the other.
fn assert_distinct(one: &[BTreeMap<String, String>; 2], other: &[BTreeMap<String, String>; 2]) {
    for (one, other) in one.iter().zip(other) {
        for (kind, value) in one {
            assert_ne!(Some(value), other.get(kind), "two disks have one {kind}: hosts take them for one");
        }
    }
}

#[test]
fn volumes_of_one_name_are_two_disks_and_each_stays_what_it_is() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let start = |folder: &Path| Server::start(folder, &["disk=file:disk.img?size=1M"]);
    let (one, two) = (start(here.path()), start(there.path()));
    let known = [both(&one, "disk"), both(&two, "disk")];
    assert_distinct(&known[0], &known[1]);
    one.stop();
    two.kill();
    let (one, two) = (start(here.path()), start(there.path()));
    assert_eq!([both(&one, "disk"), both(&two, "disk")], known, "a restart changes no identity");
    one.stop();
    two.stop();
}

#[test]
fn what_a_process_takes_with_it_is_another_disk_the_next_time() {
    let folder = tempdir().unwrap();
    let start = || Server::start(folder.path(), &["disk=ram:1M"]);
    let server = start();
    let before = both(&server, "disk");
    server.stop();
    let server = start();
    assert_distinct(&before, &both(&server, "disk"));
    server.stop();
    assert!(!folder.path().join("state").exists(), "nothing is kept of it");
}

#[test]
fn identity_and_prefixes_can_be_configured() {
    let folder = tempdir().unwrap();
    let uuid = "0b3f5f0e-6a1d-4c58-9f2b-7d1f0c9a4e21";
    let config = format!(
        "[daemon]\nstate = \"kept\"\niqn_prefix = \"iqn.2001-04.com.example:storage.\"\nnqn_prefix = \"nqn.2001-04.com.example:storage.\"\n\
         [[volume]]\nname = \"disk\"\nurl = \"file:disk.img?size=1M\"\nuuid = \"{uuid}\"\nserial = \"SN-0007\"\n\
         [[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n"
    );
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    // An option would win over the file.
    let state = folder.path().join("kept").display().to_string();
    let server = Server::start_configured(folder.path(), &["--config", "config.toml", "--state", &state]);
    for url in [
        format!("iscsi://{}/iqn.2001-04.com.example:storage.disk/0", server.iscsi),
        format!("nvme+tcp://{}/nqn.2001-04.com.example:storage.disk/1", server.nvme),
    ] {
        let names = names(&url);
        assert_eq!((names["uuid"].as_str(), names["serial"].as_str()), (uuid, "SN-0007"), "{url}");
    }
    server.stop();
    assert!(folder.path().join("kept/disk/identity").exists());
}

#[test]
fn state_that_cannot_be_used_is_named() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (state, disk) = (place("state"), format!("disk=file:{}?size=1M", place("disk.img")));
    let other = format!("disk=file:{}?size=1M", place("other.img"));
    let server = Server::start(folder.path(), &[&disk, "--state", &state]);
    let start = ["serve", &other, "--iscsi", "127.0.0.1:0", "--nvme", "127.0.0.1:0", "--state", &state];
    let said = run_in_vain(&start);
    assert!(said.contains("state/disk is in use: another process"), "{said}");
    server.stop();
    let identity = folder.path().join("state/disk/identity");
    let mut bytes = std::fs::read(&identity).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&identity, bytes).unwrap();
    let said = run_in_vain(&start);
    assert!(said.contains("state/disk/identity is damaged: its checksum does not match"), "{said}");
    assert!(!folder.path().join("disk.img").metadata().unwrap().is_dir());
}

/// Writes without a flush, restarts the server, and flushes: whether the flush could promise anything.
fn flush_after(protocol: &str, restart: impl FnOnce(&Path, Server)) -> bool {
    let folder = tempdir().unwrap();
    let volume = "disk=file:disk.img?size=1M";
    let server = Server::start(folder.path(), &[volume]);
    let portals = [server.iscsi.to_string(), server.nvme.to_string()];
    let url = if protocol == "iscsi" { server.iscsi_url("disk") } else { server.nvme_url("disk") };
    let client = Client::start(&ClientConfig::default()).unwrap();
    let disk = client.open(&format!("{url}?reconnect=1m").parse().unwrap()).unwrap().blocking();
    disk.write_at(4096, &[0xa7; 4096]).unwrap();
    restart(folder.path(), server);
    let arguments = ["--iscsi", &portals[0], "--nvme", &portals[1], volume];
    let server = Server::start_configured(folder.path(), &arguments);
    let flushed = disk.flush().is_ok();
    drop(disk);
    drop(client);
    server.stop();
    flushed
}

#[test]
fn after_a_clean_restart_a_client_has_lost_nothing() {
    for protocol in ["iscsi", "nvme"] {
        assert!(
            flush_after(protocol, |_, server| server.stop()),
            "{protocol}: the server flushed what it had"
        );
    }
}

#[test]
fn after_any_other_end_a_client_is_told_that_it_may_have_lost_something() {
    for protocol in ["iscsi", "nvme"] {
        assert!(!flush_after(protocol, |_, server| server.kill()), "{protocol}: killed");
        let changed = flush_after(protocol, |folder, server| {
            server.stop();
            // Somebody else has written to the file, or put a copy in its place.
            let (disk, copy) = (folder.join("disk.img"), folder.join("copy.img"));
            std::fs::copy(&disk, &copy).unwrap();
            std::fs::rename(&copy, &disk).unwrap();
        });
        assert!(!changed, "{protocol}: the file is another");
        let damaged = flush_after(protocol, |folder, server| {
            server.stop();
            std::fs::write(folder.join("state/disk/clean-stop"), "torn").unwrap();
        });
        assert!(!damaged, "{protocol}: the record is damaged");
    }
}

#[test]
fn a_server_that_was_started_and_killed_has_used_up_the_clean_stop() {
    assert!(!flush_after("nvme", |folder, server| {
        let portals = [server.iscsi.to_string(), server.nvme.to_string()];
        server.stop();
        assert!(folder.join("state/disk/clean-stop").exists());
        let arguments = ["--iscsi", &portals[0], "--nvme", &portals[1], "disk=file:disk.img?size=1M"];
        let server = Server::start_configured(folder, &arguments);
        assert!(!folder.join("state/disk/clean-stop").exists(), "it is removed before anything is served");
        server.kill();
    }));
}
