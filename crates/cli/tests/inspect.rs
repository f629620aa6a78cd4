//! `linerate inspect` tells what a volume is, over both protocols and for users and programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;

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

/// What `inspect --map` tells: offset, length, and whether there is data.
fn mapped(url: &str) -> Vec<(u64, u64, bool)> {
    let told: Value = serde_json::from_str(&run(&["inspect", url, "--map", "--json"])).unwrap();
    let runs = told["map"].as_array().unwrap().iter();
    let run =
        |run: &Value| Some((run["offset"].as_u64()?, run["length"].as_u64()?, run["allocated"].as_bool()?));
    runs.map(|one| run(one).unwrap()).collect()
}

#[test]
fn the_holes_of_a_sparse_file_are_seen_over_both_protocols() {
    const MIB: u64 = 1 << 20;
    let folder = tempdir().unwrap();
    let file = File::create(folder.path().join("disk.img")).unwrap();
    // Longer than 65,535 blocks, which is what one command can name.
    file.set_len(200 * MIB).unwrap();
    for (at, len) in [(MIB, MIB), (3 * MIB, 65_536), (150 * MIB, 2 * MIB)] {
        file.write_all_at(&vec![7; usize::try_from(len).unwrap()], at).unwrap();
    }
    file.sync_all().unwrap();
    let expected = [
        (0, MIB, false),
        (MIB, MIB, true),
        (2 * MIB, MIB, false),
        (3 * MIB, 65_536, true),
        (3 * MIB + 65_536, 147 * MIB - 65_536, false),
        (150 * MIB, 2 * MIB, true),
        (152 * MIB, 48 * MIB, false),
    ];
    let server = Server::start(folder.path(), &["disk=file:disk.img", "plain=null:4M", "--cores", "2"]);
    for url in [server.iscsi_url("disk"), server.nvme_url("disk")] {
        assert_eq!(mapped(&url), expected, "{url}");
        let words = inspected(&url)["features"].to_string();
        assert!(words.contains("allocation-query"), "{words}");
        let read = run(&["inspect", &url, "--map"]);
        assert!(read.contains("hole") && read.contains("1048576 bytes from byte 2097152 on"), "{read}");
    }
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
