//! `linerate serve` as its users meet it: both protocols over one volume, refusals that say the remedy, and a clean
//! end under load.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::net::TcpListener;

use common::{Server, begin, run, run_in_vain, stamped, succeeded};
use tempfile::tempdir;

const SECTORS: u64 = 4096;

/// A file goes out over one protocol, between volumes, and comes back over the other.
fn round_trip(driver: &str) {
    let folder = tempdir().unwrap();
    let server =
        Server::start(folder.path(), &["--driver", driver, "first=ram:2M", "second=file:second.img?size=2M"]);
    let (there, back) = (folder.path().join("there"), folder.path().join("back"));
    let source = stamped(&there, SECTORS, 1);
    let target = format!("file:{}", back.display());
    run(&["copy", &source, &server.nvme_url("first"), "--overwrite", "--verify"]);
    run(&["copy", &server.nvme_url("first"), &server.iscsi_url("second"), "--overwrite", "--verify"]);
    run(&["copy", &server.iscsi_url("second"), &target]);
    assert!(std::fs::read(&there).unwrap() == std::fs::read(&back).unwrap(), "the file came back changed");
    server.stop();
}

#[test]
fn both_protocols_carry_a_file_with_epoll() {
    round_trip("epoll");
}

#[test]
fn both_protocols_carry_a_file_with_uring() {
    let blocked = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
    if blocked.is_some_and(|value| value.trim() == "2") {
        let refusal = run_in_vain(&[
            "serve",
            "disk=ram:1M",
            "--iscsi",
            "127.0.0.1:0",
            "--nvme",
            "127.0.0.1:0",
            "--driver",
            "uring",
        ]);
        eprintln!("io_uring is disabled on this system, which serve says: {refusal}");
        return;
    }
    round_trip("uring");
}

#[test]
fn discovery_lists_every_volume() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["one=ram:1M", "two=null:1M"]);
    for (url, prefix) in [
        (format!("iscsi://{}", server.iscsi), "iqn.2026-11.org.linerate:"),
        (format!("nvme+tcp://{}", server.nvme), "nqn.2026-11.org.linerate:"),
    ] {
        let listed = run(&["discover", &url]);
        for name in ["one", "two"] {
            assert!(listed.contains(&format!("{prefix}{name}")), "{listed}");
        }
    }
    server.stop();
}

#[test]
fn a_portal_for_everybody_must_be_meant() {
    let folder = tempdir().unwrap();
    let refusal = run_in_vain(&["serve", "disk=ram:1M", "--iscsi", "0.0.0.0:0", "--nvme", "127.0.0.1:0"]);
    assert!(refusal.contains("[[access]]") && refusal.contains("--allow-any"), "{refusal}");
    let config = folder.path().join("config.toml");
    let portal = "[[volume]]\nname = \"disk\"\nurl = \"ram:1M\"\n\
                  [[portal]]\nprotocol = \"iscsi\"\nlisten = \"0.0.0.0:0\"\n\
                  [[portal]]\nprotocol = \"nvme\"\nlisten = \"0.0.0.0:0\"\n";
    let rules = "[[access]]\ninitiators = [\"iqn.2026-11.org.example:host\"]\nhosts = [\"nqn.2026-11.org.example:host\"]\n";
    for (text, option) in [(portal.to_owned(), Some("--allow-any")), (format!("{portal}{rules}"), None)] {
        std::fs::write(&config, text).unwrap();
        let mut arguments = vec!["--config", "config.toml"];
        arguments.extend(option);
        Server::start_configured(folder.path(), &arguments).stop();
    }
}

#[test]
fn mistakes_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    for (arguments, expected) in [
        (vec!["disk=rum:1M"], "rum"),
        (vec!["ram:1M"], "NAME=URL"),
        (vec!["disk=ram:1M", "disk=ram:2M"], "two volumes are named \"disk\""),
        (vec!["disk=ram:1M", "--driver", "kqueue"], "no driver \"kqueue\""),
        (vec!["disk=ram:1M", "--congestion", "nagle"], "no TCP congestion control \"nagle\""),
        (vec!["disk=file:/no/such/folder/disk.img"], "the volume \"disk\" cannot be opened"),
        (vec![], "nothing to serve"),
    ] {
        let all = [&["serve", "--iscsi", free, "--nvme", free], arguments.as_slice()].concat();
        let refusal = run_in_vain(&all);
        assert!(refusal.contains(expected), "{arguments:?} says {refusal:?}");
    }
    let refusal = run_in_vain(&["serve", "disk=ram:1M", "--iscsi", &port, "--nvme", free]);
    assert!(refusal.contains(&format!("cannot listen at {port}")), "{refusal}");
}

#[test]
fn stops_cleanly_under_load() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:16M"]);
    // Clients that lose their server may succeed or fail, but must end; by default they would look for it for half a minute.
    let urls = [server.iscsi_url("disk"), server.nvme_url("disk")].map(|url| format!("{url}?reconnect=1s"));
    let idle = server.descriptors();
    let load = urls
        .each_ref()
        .map(|url| begin(&["bench", url, "--rw", "randwrite", "--overwrite", "--runtime", "3", "--json"]));
    common::until(|| (server.descriptors() >= idle + load.len()).then_some(()));
    server.stop();
    for mut client in load {
        common::ended(&mut client);
    }
    // The place is free again.
    let server = Server::start(folder.path(), &["disk=ram:16M"]);
    let again = begin(&["bench", &server.nvme_url("disk"), "--runtime", "1", "--json"]);
    succeeded(again.wait_with_output().unwrap());
    server.stop();
}

#[test]
fn volumes_of_one_target_keep_apart_under_both_protocols() {
    let folder = tempdir().unwrap();
    let config = folder.path().join("config.toml");
    let volumes = "[[volume]]\nname = \"system\"\nurl = \"ram:2M\"\ntarget = \"host1\"\n\
                   [[volume]]\nname = \"data\"\nurl = \"ram:2M\"\ntarget = \"host1\"\nlun = 1\n";
    std::fs::write(&config, volumes).unwrap();
    let server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    let luns = [0, 1].map(|lun| format!("iscsi://{}/iqn.2026-11.org.linerate:host1/{lun}", server.iscsi));
    let namespaces =
        [1, 2].map(|nsid| format!("nvme+tcp://{}/nqn.2026-11.org.linerate:host1/{nsid}", server.nvme));
    for (seed, (lun, namespace)) in (1..).zip(luns.iter().zip(&namespaces)) {
        let (there, back) =
            (folder.path().join(format!("there{seed}")), folder.path().join(format!("back{seed}")));
        run(&["copy", &stamped(&there, SECTORS, seed), lun, "--overwrite", "--verify"]);
        run(&["copy", namespace, &format!("file:{}", back.display())]);
        assert!(std::fs::read(&there).unwrap() == std::fs::read(&back).unwrap(), "{namespace} is not {lun}");
    }
    server.stop();
}
