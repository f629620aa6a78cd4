//! `--json` of every command that looks at or moves data: it is JSON, and every key that it has is in `docs/howto/data.md`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{begin, run, told};
use serde_json::Value;
use tempfile::tempdir;

const HOWTO: &str = include_str!("../../../docs/howto/data.md");

/// Requires that every key within `value` is documented.
fn documented(value: &Value, command: &str) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            // Percentiles and kinds of failures are keys by value.
            let known = HOWTO.contains(&format!("`{key}`")) || key.starts_with('p');
            assert!(known, "docs/howto/data.md does not say what {key} of {command} is");
            documented(value, command);
        }),
        Value::Array(list) => list.iter().for_each(|value| documented(value, command)),
        _ => {}
    }
}

fn json(text: &str, command: &str) -> Value {
    let value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"));
    documented(&value, command);
    value
}

#[test]
fn every_command_has_its_keys() {
    let folder = tempdir().unwrap();
    let file = format!("file:{}", folder.path().join("disk.img").display());
    let copied = json(&run(&["copy", "ram:1M", &file, "--verify", "--json"]), "copy");
    assert_eq!((&copied["bytes"], &copied["holes"]), (&Value::from(1 << 20), &Value::from(1 << 20)));
    assert_eq!((&copied["verified"], &copied["target"]), (&Value::from(true), &Value::from(file.as_str())));
    let same = json(&run(&["compare", "ram:1M", &file, "--json"]), "compare");
    assert_eq!((&same["equal"], &same["first_difference"]), (&Value::from(true), &Value::Null));
    let sums = json(&run(&["checksum", "ram:1M", &file, "--json"]), "checksum");
    assert_eq!(sums[0]["digits"], sums[1]["digits"]);
    let checked = json(&run(&["check", &file, "--bytes", "64k", "--json"]), "check");
    assert_eq!((&checked["passed"], &checked["bytes"]), (&Value::from(true), &Value::from(65536)));
    let zeroed = json(&run(&["zero", &file, "--overwrite", "--json"]), "zero");
    assert_eq!(zeroed["bytes"], 1 << 20);
    json(&run(&["inspect", &file, "--json"]), "inspect");
    let load = json(&run(&["bench", "null:1M", "--runtime", "0.1", "--json"]), "bench");
    assert_eq!((&load["end"], &load["first_error"]), (&Value::from("runtime"), &Value::Null));
}

#[test]
fn a_difference_and_a_failed_check_are_told_in_json_too() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let mut bytes = vec![0; 4096];
    bytes[700] = 1;
    std::fs::write(&path, bytes).unwrap();
    let url = format!("file:{}", path.display());
    let found = begin(&["compare", "ram:4k", &url, "--json"]).wait_with_output().unwrap();
    assert_eq!(found.status.code(), Some(1));
    let found = json(std::str::from_utf8(&found.stdout).unwrap(), "compare");
    assert_eq!((&found["equal"], &found["first_difference"]), (&Value::from(false), &Value::from(700)));
    let failed = begin(&["check", "null:1M", "--json"]).wait_with_output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let failed = json(std::str::from_utf8(&failed.stdout).unwrap(), "check");
    assert!(failed["failure"].as_str().unwrap().contains("was expected"), "{failed}");
}

#[test]
fn totals_stand_beside_the_data_and_can_be_left_out() {
    let said = told(&["copy", "ram:1M", "-"]);
    assert!(
        said.contains("1048576 bytes copied") && said.contains("in holes) in ") && said.contains("MB/s"),
        "{said}"
    );
    json(&told(&["copy", "ram:1M", "-", "--json"]), "copy");
    assert_eq!(told(&["copy", "ram:1M", "-", "--quiet"]), "");
}
