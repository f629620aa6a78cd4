//! The log of `linerate serve`: one line for each refusal, violation and failure, with the peer, the names and the reason.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Server, TIMEOUT, begin, run_in_vain, until};
use serde_json::Value;
use tempfile::tempdir;

const CONFIG: &str = "[[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n\
                      [[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n\
                      [[volume]]\nname = \"open\"\nurl = \"ram:1M\"\n\
                      [[volume]]\nname = \"bad\"\nurl = \"fail=100%,kind=media+ram:1M\"\n\
                      [[volume]]\nname = \"shut\"\nurl = \"ram:1M\"\n\
                      [[access]]\nvolume = \"shut\"\ninitiators = [\"iqn.2026-11.test:friend\"]\nhosts = [\"nqn.2026-11.test:friend\"]\n";

/// A NOP-Out, which is no login (RFC 7143 §11.18).
const PING: [u8; 48] = {
    let mut header = [0; 48];
    header[0] = 0x40;
    header
};

/// The lines so far; each must be one JSON object.
fn lines(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("server.log")).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for a line of this kind whose reason has `reason` in it.
fn line(folder: &Path, kind: &str, reason: &str) -> Value {
    until(|| {
        lines(folder)
            .into_iter()
            .find(|line| line["kind"] == kind && line["reason"].as_str().unwrap().contains(reason))
    })
}

fn sends(portal: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(portal).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(bytes).unwrap();
    let _answer = stream.read_to_end(&mut Vec::new());
}

#[test]
fn whoever_is_refused_or_misbehaves_stands_in_the_log_with_peer_and_reason() {
    let folder = tempdir().unwrap();
    let config = folder.path().join("config.toml");
    fs::write(&config, CONFIG).unwrap();
    let arguments = ["--config", config.to_str().unwrap(), "--log-format", "json", "--log", "debug"];
    let server = Server::start_configured(folder.path(), &arguments);
    common::run(&["inspect", &server.iscsi_url("open")]);
    common::run(&["inspect", &server.nvme_url("open")]);
    for url in
        [server.iscsi_url("shut"), server.nvme_url("shut"), server.iscsi_url("none"), server.nvme_url("none")]
    {
        run_in_vain(&["inspect", &format!("{url}?reconnect=0")]);
    }
    sends(server.iscsi, &PING);
    sends(server.nvme, &[0xff; 64]);
    run_in_vain(&["checksum", &format!("{}?reconnect=0", server.iscsi_url("bad"))]);
    run_in_vain(&["checksum", &format!("{}?reconnect=0", server.nvme_url("bad"))]);
    for (kind, reason, initiator, target) in [
        ("login", "logged in", "iqn.", "iqn.2026-11.org.linerate:open"),
        ("login", "connected", "nqn.", "nqn.2026-11.org.linerate:open"),
        ("refused", "this initiator may not log in", "iqn.", "iqn.2026-11.org.linerate:shut"),
        ("refused", "this host may not use the subsystem", "nqn.", "nqn.2026-11.org.linerate:shut"),
        ("refused", "there is no such target", "iqn.", "iqn.2026-11.org.linerate:none"),
        ("refused", "there is no such subsystem", "nqn.", "nqn.2026-11.org.linerate:none"),
        ("violation", "the first PDU is not a login", "", ""),
        ("violation", "a PDU", "", ""),
    ] {
        let line = line(folder.path(), kind, reason);
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        for (key, expected) in [("initiator", initiator), ("target", target)] {
            assert!(line[key].as_str().unwrap_or_default().starts_with(expected), "{line}");
        }
    }
    let failure = line(folder.path(), "io", "the medium could not read or write");
    assert_eq!((&failure["volume"], &failure["level"]), (&"bad".into(), &"error".into()), "{failure}");
    assert!(failure["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{failure}");
    server.stop();
}

#[test]
fn each_kind_of_failure_of_a_volume_stands_in_the_log_over_both_protocols() {
    let kinds = [
        ("busy", "the volume is busy"),
        ("media", "the medium could not read or write"),
        ("nospace", "no space is left behind the volume"),
        ("protection", "the protection information does not match"),
        ("timedout", "the volume did not answer in time"),
        ("unreachable", "there is no path to the volume"),
    ];
    let folder = tempdir().unwrap();
    // A volume for each protocol, as the log counts lines by volume.
    let volumes = kinds.map(|(kind, _)| {
        ["iscsi", "nvme"].map(|by| format!("{kind}-{by}=fail=100%,kind={kind},on=read+ram:1M"))
    });
    let mut arguments: Vec<&str> = volumes.iter().flatten().map(String::as_str).collect();
    arguments.extend(["--log-format", "json", "--log", "debug"]);
    let server = Server::start(folder.path(), &arguments);
    for (kind, reason) in kinds {
        let names = ["iscsi", "nvme"].map(|by| format!("{kind}-{by}"));
        for (name, url) in names.iter().zip([server.iscsi_url(&names[0]), server.nvme_url(&names[1])]) {
            let url = format!("{url}?reconnect=0&timeout=1s");
            run_in_vain(&["bench", &url, "--rw", "read", "--runtime", "0.1"]);
            let of_kind = |line: &Value| {
                let about = line["volume"] == name.as_str();
                (about && line["reason"].as_str().unwrap().contains(reason)).then(|| line.clone())
            };
            let line = until(|| lines(folder.path()).iter().find_map(of_kind));
            assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        }
    }
    server.stop();
}

#[test]
fn a_wrong_secret_is_a_refusal_and_the_secret_is_not_told() {
    let folder = tempdir().unwrap();
    for (name, secret) in [("right", "MARKER-right-secret"), ("wrong", "MARKER-wrong-secret")] {
        let path = folder.path().join(name);
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let config = folder.path().join("config.toml");
    let chap = "[[access]]\nvolume = \"open\"\nchap = { user = \"u\", secret_file = \"right\" }\n";
    fs::write(&config, format!("{CONFIG}{chap}")).unwrap();
    let arguments = ["--config", config.to_str().unwrap(), "--log-format", "json"];
    let server = Server::start_configured(folder.path(), &arguments);
    let wrong = folder.path().join("wrong");
    let url =
        format!("{}?reconnect=0&chap_user=u&chap_secret_file={}", server.iscsi_url("open"), wrong.display());
    run_in_vain(&["inspect", &url]);
    let refusal = line(folder.path(), "refused", "a wrong CHAP response");
    assert_eq!(
        (&refusal["target"], &refusal["level"]),
        (&"iqn.2026-11.org.linerate:open".into(), &"warn".into())
    );
    server.stop();
    assert!(!fs::read_to_string(folder.path().join("server.log")).unwrap().contains("MARKER"));
}

#[test]
fn what_is_logged_is_chosen_and_a_mistake_in_the_choice_is_told() {
    let refusal = run_in_vain(&["serve", "disk=ram:1M", "--log", "loud"]);
    assert!(refusal.contains("timed-out") && refusal.contains("warn,login=info"), "{refusal}");
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M", "--log", "off"]);
    common::run(&["inspect", &server.iscsi_url("disk")]);
    sends(server.iscsi, &PING);
    server.stop();
    assert_eq!(fs::read_to_string(folder.path().join("server.log")).unwrap(), "");
    let mut child = begin(&["serve", "disk=ram:1M", "--log-format", "xml"]);
    assert!(!common::ended(&mut child).success());
}
