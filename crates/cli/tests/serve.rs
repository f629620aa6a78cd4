//! `linerate serve` as its users meet it: both protocols over one volume, refusals that say the remedy, and a clean
//! end under load.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::net::TcpListener;
use std::process::Stdio;

use common::{Server, begin, ended, program, run, run_in_vain, stamped, succeeded, until, until_or};
use rustix::process::{Pid, Signal, kill_process};
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

#[test]
fn a_volume_that_may_be_left_out_keeps_none_of_the_others_from_being_served() {
    let folder = tempdir().unwrap();
    let config = folder.path().join("linerate.toml");
    let volume = |name: &str, url: &str, more: &str| {
        format!("[[volume]]\nname = \"{name}\"\nurl = \"{url}\"\ntarget = \"both\"\n{more}\n")
    };
    let portal =
        |protocol: &str| format!("[[portal]]\nprotocol = \"{protocol}\"\nlisten = \"127.0.0.1:0\"\n");
    let text = |nofail: &str| {
        let away = format!("lun = 1\n{nofail}");
        let bad = volume("bad", "nvme+tcp://127.0.0.1:1/nqn.2026-11.org.linerate:away/1", &away);
        [portal("iscsi"), portal("nvme"), bad, volume("good", "file:good.img?size=1M", "")].concat()
    };
    std::fs::write(&config, text("")).unwrap();
    let serve = ["serve", "--config", config.to_str().unwrap()];
    let state = folder.path().join("state").display().to_string();
    let said = run_in_vain(&[&serve[..], &["--state", &state]].concat());
    assert!(
        said.contains("the volume \"bad\" cannot be opened") && said.contains("cannot connect"),
        "{said}"
    );
    std::fs::write(&config, text("nofail = true")).unwrap();
    for arguments in [&["--config", serve[2]][..], &["--config", serve[2], "--nofail"]] {
        let server = Server::start_configured(folder.path(), arguments);
        run(&["checksum", &server.iscsi_url("both"), &server.nvme_url("both")]);
        let absent = [
            (server.iscsi_url("both").replace("both/0", "both/1"), "unit"),
            (server.nvme_url("both").replace("both/1", "both/2"), "namespace"),
        ];
        for (url, what) in absent {
            let said = run_in_vain(&["inspect", &format!("{url}?reconnect=0")]);
            assert!(said.to_lowercase().contains(&what.to_lowercase()), "{said}");
        }
        server.stop();
        let log = std::fs::read_to_string(folder.path().join("server.log")).unwrap();
        let told = log
            .lines()
            .filter(|line| line.contains("ERROR") && line.contains("the volume \"bad\" cannot be opened"));
        assert_eq!(told.count(), 1, "{log}");
    }
    let said = run_in_vain(&["serve", "a=file:/no/such", "--nofail", "--iscsi", "127.0.0.1:0"]);
    assert!(said.contains("no volume can be served"), "{said}");
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(place("older"), [7; 512]).unwrap();
    let (fresh, older) = (format!("a=file:{}?size=1M", place("fresh")), format!("b=file:{}", place("older")));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let away = format!("c=iscsi://{taken}/iqn.2026-11.org.linerate:disk/0");
    let (state, ready) = (place("state"), place("ready"));
    let usual = ["--iscsi", "127.0.0.1:0", "--state", &state, "--ready-file", &ready];
    for bad in ["c=file:/no/such", "c=ram:1000", away.as_str()] {
        let said = run_in_vain(&[&["serve", &fresh, &older, bad], &usual[..]].concat());
        assert!(said.contains("the volume \"c\""), "{said}");
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["older"], "{bad}");
    }
    let nowhere = ["--iscsi", "127.0.0.1:0", "--state", &state, "--ready-file", "/no/such/folder/ready"];
    let said = run_in_vain(&[&["serve", &fresh], &nowhere[..]].concat());
    assert!(said.contains("the ready file /no/such/folder/ready"), "{said}");
    assert!(!folder.path().join("fresh").exists());
    // Nothing of an adapter's either: its socket goes with it.
    let socket = format!("unix:{}", place("socket"));
    for arguments in [
        vec!["attach", "file:/no/such", &socket, "--as", "nbd", "--ready-file", &ready],
        vec!["attach", "file:/no/such", &place("vhost"), "--as", "vhost-user", "--ready-file", &ready],
        vec!["attach", "file:/no/such", &place("mounted"), "--as", "fuse", "--ready-file", &ready],
    ] {
        std::fs::write(&ready, "an earlier adapter's").unwrap();
        run_in_vain(&arguments);
        for left in ["socket", "vhost", "mounted", "ready"] {
            assert!(!folder.path().join(left).exists(), "{arguments:?} leaves {left}");
        }
    }
}

/// An adapter that stops logs out, and connects no more.
#[test]
fn an_adapter_that_stops_leaves_its_far_end() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M"]);
    let log = || std::fs::read_to_string(folder.path().join("server.log")).unwrap();
    let told = |what: &str| log().matches(what).count();
    let (logins, ends) = (|| told(" login peer="), || told(" ended peer="));
    // An iSCSI volume is looked at by a session of its own before it is used by another; an NVMe host says once that it is in.
    for (url, expected) in [(server.iscsi_url("disk"), 2), (server.nvme_url("disk"), 3)] {
        // A file of its own for each: the one that has ended leaves its.
        let (socket, ready) =
            (folder.path().join("socket"), folder.path().join(format!("ready-for-{expected}")));
        let mut command = std::process::Command::new(program());
        command.arg("attach").arg(url).arg(format!("unix:{}", socket.display()));
        command.args(["--as", "nbd", "--ready-file"]).arg(&ready);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until(|| ready.exists().then_some(()));
        until_or(|| (logins() == expected).then_some(()), log);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        ended(&mut child);
        until_or(|| (ends() >= expected).then_some(()), log);
        assert_eq!((logins(), ends()), (expected, expected), "it came back");
    }
    server.stop();
}

/// Checks a configuration of these volumes and rules: the exit code, and what is said on either stream.
fn check(folder: &std::path::Path, text: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let config = folder.join("checked.toml");
    std::fs::write(&config, text).unwrap();
    let (config, state) = (config.display().to_string(), folder.join("state").display().to_string());
    let all = [&["serve", "--check", "--config", &config, "--state", &state], arguments].concat();
    let output = begin(&all).wait_with_output().unwrap();
    std::fs::remove_file(folder.join("checked.toml")).unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), said.concat())
}

#[test]
fn a_check_names_every_problem_and_changes_nothing() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(place("large"), [7; 4096]).unwrap();
    let volume = |name: &str, url: &str| format!("[[volume]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let text = [
        volume("fine", &format!("file:{}?size=1M", place("new"))),
        volume("gone", "file:/nonexistent/x"),
        volume("larger", &format!("file:{}?size=1K", place("large"))),
        volume("folder", &format!("readonly+file:{}", folder.path().display())),
        volume("odd", "ram:1000"),
        volume("fine", "ram:1M"),
        "[[portal]]\nprotocol = \"iscsi\"\nlisten = \"storage:3260\"\n".to_owned(),
        "[[access]]\nvolume = \"nobody\"\nhosts = [\"nqn.2026-11.org.example:h\"]\n".to_owned(),
        "[[access]]\nvolume = \"odd\"\nchap = { user = \"u\", secret_file = \"no-secret\" }\n".to_owned(),
        "[discovery]\nchap = { user = \"u\", secret_file = \"no-other\" }\n".to_owned(),
    ];
    let (code, said) = check(folder.path(), &text.concat(), &["nameless", "--driver", "kqueue"]);
    assert_eq!(code, Some(1), "{said}");
    for expected in [
        "\"nameless\" has no name: write NAME=URL",
        "\"gone\" cannot be opened: file:/nonexistent/x: No such file or directory (os error 2); check the path",
        "\"larger\" cannot be opened",
        "the file has 4096 bytes already, more than size=1k asks for; leave size= out",
        "\"folder\" cannot be opened",
        "\"odd\" cannot be opened",
        "two volumes are named \"fine\": give one",
        "storage:3260 is not an address to listen at: write",
        "entry 1 names the volume \"nobody\", which no [[volume]] has: correct the name",
        "no-secret cannot be read: No such file or directory (os error 2); check secret_file",
        "no-other cannot be read",
        "there is no driver \"kqueue\": say auto",
        "the configuration has 11 problems",
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    assert_eq!(said.matches("linerate: problem: ").count(), 11, "{said}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["large"], "{said}");
}

#[test]
fn a_check_beside_the_running_server_finds_its_volumes_in_use_and_leaves_them_alone() {
    let folder = tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    let url = format!("file:{}?size=2M", disk.display());
    let volume = format!("[[volume]]\nname = \"disk\"\nurl = \"{url}\"\n");
    assert_eq!(check(folder.path(), &volume, &[]), (Some(0), "the configuration is good\n".to_owned()));
    let server = Server::start(folder.path(), &[&format!("disk={url}")]);
    let before = std::fs::metadata(&disk).unwrap();
    let (code, said) = check(folder.path(), &volume, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("the volume \"disk\" is in use") && said.contains("the configuration is good"),
        "{said}"
    );
    assert_eq!(std::fs::metadata(&disk).unwrap().modified().unwrap(), before.modified().unwrap());
    // It still has its file for itself.
    let second = run_in_vain(&["serve", &format!("other={url}"), "--iscsi", "127.0.0.1:0"]);
    assert!(second.contains("in use by another volume or process"), "{second}");
    run(&["check", &server.iscsi_url("disk"), "--overwrite"]);
    server.stop();
    let twice = [volume.as_str(), &volume.replace("\"disk\"", "\"same\"")].concat();
    let (code, said) = check(folder.path(), &twice, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("the volume \"same\" cannot be opened") && said.contains("in use by another"),
        "{said}"
    );
}

#[test]
fn a_check_says_what_it_did_not_try_and_what_would_be_left_out() {
    let folder = tempdir().unwrap();
    let away =
        "[[volume]]\nname = \"away\"\nurl = \"nvme+tcp://127.0.0.1:1/nqn.2026-11.org.linerate:away/1\"\n";
    let secret = "[[volume]]\nname = \"locked\"\n\
                  url = \"iscsi://127.0.0.1:1/iqn.2026-11.org.linerate:a/0?chap_user=u&chap_secret_file=/no/such\"\n";
    let gone = "[[volume]]\nname = \"gone\"\nurl = \"file:/nonexistent/x\"\nnofail = true\n";
    let (code, said) = check(folder.path(), &[away, gone].concat(), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the volume \"away\" was not tried") && said.contains("another machine"), "{said}");
    assert!(said.contains("warning: the volume \"gone\" cannot be opened"), "{said}");
    let (code, said) = check(folder.path(), secret, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the secret file /no/such cannot be read"), "{said}");
    let (code, said) = check(folder.path(), gone, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no volume can be served: the volume \"gone\""), "{said}");
}
