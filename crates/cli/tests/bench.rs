//! What `linerate bench` counts: mixes, several volumes, failures, and an open loop that a stall cannot hide from.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::process::Child;
use std::time::Duration;

use common::{Server, begin, run, run_in_vain, succeeded};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::tempdir;

fn bench(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(&[&["bench", "--json"], arguments].concat())).unwrap()
}

fn finished(child: Child) -> Value {
    serde_json::from_str(&succeeded(child.wait_with_output().unwrap())).unwrap()
}

fn count(result: &Value, direction: &str) -> u64 {
    result[direction]["ios"].as_u64().unwrap_or(0)
}

#[test]
fn a_mix_is_counted_by_direction_and_every_request_is_in_a_histogram() {
    let result = bench(&["null:64M", "null:64M", "--rw", "randrw", "--rwmixread", "30", "--runtime", "0.5"]);
    let (reads, writes) = (count(&result, "read"), count(&result, "write"));
    assert!(reads > 100 && (25..=35).contains(&(100 * reads / (reads + writes))), "{reads} and {writes}");
    for (direction, ios) in [("read", reads), ("write", writes)] {
        let histogram = result[direction]["latency_ns"]["histogram"].as_array().unwrap();
        let held: u64 = histogram.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
        assert_eq!(held, ios, "{direction}");
        assert_eq!(result[direction]["bytes"].as_u64(), Some(ios * 4096), "{direction}");
    }
    let by_interval: u64 =
        result["intervals"].as_array().unwrap().iter().map(|one| one["ios"].as_u64().unwrap()).sum();
    assert_eq!(by_interval, reads + writes);
}

#[test]
fn every_volume_gets_its_part() {
    let folder = tempdir().unwrap();
    let paths = ["one", "two", "three"].map(|name| folder.path().join(name));
    let urls: Vec<String> = paths.iter().map(|path| format!("file:{}?size=64K", path.display())).collect();
    let volumes: Vec<&str> = urls.iter().map(String::as_str).collect();
    bench(&[&volumes, ["--rw", "write", "--qd", "3", "--runtime", "0.3"].as_slice()].concat());
    for path in paths {
        let written = std::fs::read(&path).unwrap();
        assert!(written.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)), "{}", path.display());
    }
}

#[test]
fn a_load_that_only_reads_verifies_a_file_too() {
    let folder = tempdir().unwrap();
    let url = format!("file:{}?size=1M", folder.path().join("disk").display());
    for rw in ["randread", "randwrite"] {
        let result = bench(&[&url, "--rw", rw, "--verify", "--overwrite", "--runtime", "0.5", "--qd", "4"]);
        let verified = result["verified"].as_u64().unwrap();
        assert!(verified >= 1 && result["errors"] == 0 && result["wrong_data"].is_null(), "{rw}: {result}");
    }
}

fn failing(arguments: &[&str]) -> (Value, String) {
    let done = begin(&[&["bench", "--json"], arguments].concat()).wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{arguments:?}");
    (serde_json::from_slice(&done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn failures_are_counted_apart() {
    let url = "fail=50%,kind=nospace+null:64M";
    let (result, said) = failing(&[url, "--runtime", "0.2", "--qd", "1", "--continue-on-error"]);
    let errors = result["errors"].as_u64().unwrap();
    assert!(errors > 1000, "the load must go on after failures: {result}");
    assert_eq!((&result["errors_by_kind"]["no-space"], &result["end"]), (&errors.into(), &"runtime".into()));
    let reads = count(&result, "read");
    assert!(reads.abs_diff(errors) * 5 < reads, "{reads} of both kinds are half each: {errors}");
    let rate = result["iops"].as_f64().unwrap() * result["seconds"].as_f64().unwrap();
    assert!((rate - result["read"]["ios"].as_f64().unwrap()).abs() < 1.0, "failures are no I/Os: {result}");
    assert!(said.contains(&format!("{errors} requests failed ({errors} no-space)")), "{said}");
    assert!(said.contains(&format!("{url}: read of 4096 bytes at byte ")), "{said}");
}

#[test]
fn the_first_failure_ends_a_load_that_is_not_to_go_on() {
    let (result, said) = failing(&["fail=1/100+null:64M", "--runtime", "600", "--qd", "1"]);
    assert_eq!(
        (&result["errors"], &result["end"], &result["iops"]),
        (&1.into(), &"error".into(), &Value::Null)
    );
    assert_eq!(count(&result, "read"), 99, "{result}");
    assert!(said.contains("1 request failed (1 media)") && said.contains("--continue-on-error"), "{said}");
    let (result, _) =
        failing(&["fail=100%+null:64M", "--runtime", "0.1", "--qd", "1", "--continue-on-error"]);
    assert_eq!((&result["iops"], &result["read"]), (&0.0.into(), &Value::Null));
}

#[test]
fn an_open_loop_counts_from_when_a_request_was_due() {
    const RATE: u64 = 500;
    const SECONDS: u64 = 4;
    const STALL: Duration = Duration::from_millis(1500);
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:64M"]);
    let url = server.nvme_url("disk");
    let (rate, seconds) = (RATE.to_string(), SECONDS.to_string());
    let open = ["bench", "--json", &url, "--rate", &rate, "--runtime", &seconds, "--qd", "8"];
    let load = begin(&open);
    // The stall is what is measured, and has to fall inside the run: a wait for nothing else.
    std::thread::sleep(Duration::from_secs(1));
    kill_process(server.pid(), Signal::STOP).unwrap();
    std::thread::sleep(STALL);
    kill_process(server.pid(), Signal::CONT).unwrap();
    let result = finished(load);
    let due = count(&result, "read") + result["missed"].as_u64().unwrap();
    assert!(due.abs_diff(RATE * SECONDS) <= 1, "{due} requests were due: {result}");
    // 1.5 of 4 seconds stood still: much more than one request in a hundred waited for over a second.
    let p99 = result["latency_us"]["p99"].as_f64().unwrap();
    assert!(p99 > 1e6, "a p99 of {p99} µs hides the stall");
    server.stop();
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (["--rate", "0"], "a rate of 0"),
        (["--rwmixread", "101"], "101"),
        (["--bs", "1000"], "use a multiple"),
        (["--qd", "0"], "queue depth"),
        (["--runtime", "nan"], "not a number of seconds"),
    ] {
        let said = run_in_vain(&[["bench", "null:64M"], arguments].concat());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}
