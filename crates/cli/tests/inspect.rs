//! `linerate inspect` tells what a volume is, over both protocols and for people and programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Server, run, run_in_vain};
use serde_json::Value;
use tempfile::tempdir;

fn inspected(url: &str) -> Value {
    serde_json::from_str(&run(&["inspect", url, "--json"])).unwrap()
}

#[test]
fn both_protocols_tell_who_answers() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:8M?block=4096", "other=ram:8M"]);
    for (url, kind, own) in
        [(server.iscsi_url("disk"), "iscsi", "naa"), (server.nvme_url("disk"), "nvme+tcp", "nguid")]
    {
        let told = inspected(&url);
        assert_eq!((told["kind"].as_str(), told["bytes"].as_u64()), (Some(kind), Some(8 << 20)), "{told}");
        assert_eq!(told["block_size"], 4096);
        let identity = &told["identity"];
        assert!(!identity["serial"].as_str().unwrap().is_empty(), "{told}");
        assert!(identity["product"].as_str().unwrap().to_lowercase().contains("volume"), "{told}");
        let names = identity["designators"].as_array().unwrap();
        let name = |kind: &str| names.iter().find(|one| one["kind"] == kind).map(|one| one["value"].clone());
        assert!(name(own).is_some(), "{told}");
        // The same volume has the same UUID whoever asks.
        let uuid = name("uuid").unwrap();
        assert_eq!(uuid.as_str().unwrap().len(), 36, "{told}");
        let read = run(&["inspect", &url]);
        assert!(read.contains("8388608 bytes (8M)") && read.contains(uuid.as_str().unwrap()), "{read}");
    }
    let serials =
        [server.iscsi_url("disk"), server.iscsi_url("other")].map(|url| inspected(&url)["identity"].clone());
    assert_ne!(serials[0], serials[1], "two volumes are told apart");
    server.stop();
}

#[test]
fn local_volumes_have_a_shape_and_no_identity() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=file:disk.img?size=1M"]);
    let path = folder.path().join("disk.img");
    let told = inspected(&format!("file:{}", path.display()));
    assert!(told["identity"].is_null(), "{told}");
    let words = told["features"].as_array().unwrap();
    assert!(words.iter().any(|word| word == "read-only"), "it is being served: {told}");
    server.stop();
    let told = inspected(&format!("file:{}", path.display()));
    let words = told["features"].as_array().unwrap();
    assert!(!words.iter().any(|word| word == "read-only"), "{told}");
    assert!(run_in_vain(&["inspect", "file:/no/such/file"]).contains("/no/such/file"));
}
