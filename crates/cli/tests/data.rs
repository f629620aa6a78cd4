//! `linerate copy`, `compare`, `checksum` and `zero` as their users meet them: over both protocols, with streams, with Ctrl-C, and
//! with every mistake that one can make.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{Server, ended, program, run, run_in_vain, stamped, succeeded, told, until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

const SECTORS: u64 = 6000;
const BYTES: usize = 6000 * 512;

/// What a program says of a file.
fn judged(tool: &str, path: &Path) -> String {
    let output = Command::new(tool).arg(path).output().unwrap();
    succeeded(output).split_whitespace().next().unwrap().to_owned()
}

fn output(arguments: &[&str]) -> Output {
    common::begin(arguments).wait_with_output().unwrap()
}

fn code(arguments: &[&str]) -> i32 {
    output(arguments).status.code().unwrap()
}

#[test]
fn both_protocols_copy_compare_and_sum() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["one=ram:4M", "two=file:two.img?size=4M"]);
    let path = folder.path().join("source");
    let source = stamped(&path, SECTORS, 1);
    let sum = judged("sha256sum", &path);
    for volume in ["one", "two"] {
        let urls = [server.iscsi_url(volume), server.nvme_url(volume)];
        for (index, (url, other)) in [(&urls[0], &urls[1]), (&urls[1], &urls[0])].into_iter().enumerate() {
            let said = told(&[
                "copy",
                &source,
                url,
                "--overwrite",
                "--verify",
                "--connections",
                "3",
                "--depth",
                "5",
            ]);
            assert!(said.starts_with("3072000 bytes copied (0 of them zeros"), "{said}");
            assert_eq!(run(&["compare", &source, other]).split(" (").next().unwrap(), "equal: 4194304 bytes");
            let summed = run(&["checksum", other, "--length", &BYTES.to_string(), "--connections", "2"]);
            assert_eq!(summed.trim(), format!("{sum}  {other}"));
            let length = (BYTES / 2).to_string();
            run(&["zero", url, "--overwrite", "--length", &length, ["--discard", "--depth=2"][index]]);
            let different = output(&["compare", &source, other]);
            let said = String::from_utf8(different.stdout).unwrap();
            assert_eq!(different.status.code(), Some(1), "{said}");
            assert!(said.starts_with("different from byte 0 on: "), "{said}");
        }
    }
    server.stop();
}

#[test]
fn holes_stay_holes_through_iscsi() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=file:disk.img?size=64M"]);
    let path = folder.path().join("sparse");
    let mut file = File::create(&path).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    file.set_len(64 << 20).unwrap();
    let said = told(&["copy", &format!("file:{}", path.display()), &server.nvme_url("disk"), "--overwrite"]);
    assert!(said.contains("(67104768 of them zeros, 67104768 in holes)"), "{said}");
    let back = folder.path().join("back");
    let said = told(&["copy", &server.iscsi_url("disk"), &format!("file:{}", back.display())]);
    assert!(said.contains("67104768 in holes)"), "{said}");
    server.stop();
    assert_eq!(judged("sha256sum", &path), judged("sha256sum", &back));
    let taken = |path: &Path| std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap());
    assert!(taken(&back) < 1024, "{} sectors are taken", taken(&back));
}

#[test]
fn a_shell_pipes_volumes() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:4M"]);
    let path = folder.path().join("source");
    stamped(&path, SECTORS, 2);
    for url in [server.iscsi_url("disk"), server.nvme_url("disk")] {
        let script = "cat \"$1\" | \"$0\" copy - \"$2\" --overwrite --verify 2>&1 && \"$0\" copy \"$2\" - | head -c \"$3\" | sha256sum";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, program()]).arg(&path).args([&url, &BYTES.to_string()]);
        let said = succeeded(shell.output().unwrap());
        assert!(said.contains("3072000 bytes copied"), "{said}");
        assert!(said.contains(&judged("sha256sum", &path)), "{said}");
        run(&["zero", &url, "--overwrite"]);
    }
    server.stop();
}

#[test]
fn every_sum_is_the_systems() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("source");
    let source = stamped(&path, 77, 3);
    for (algorithm, tool) in [("sha256", "sha256sum"), ("sha512", "sha512sum")] {
        let said = run(&["checksum", &source, "--algorithm", algorithm]);
        assert_eq!(said.trim(), format!("{}  {source}", judged(tool, &path)));
    }
    let twice = run(&["checksum", &source, "ram:1M", "--algorithm", "crc32c"]);
    assert_eq!(twice.lines().count(), 2, "{twice}");
}

#[test]
fn compare_answers_by_its_exit_code() {
    let folder = tempdir().unwrap();
    let short = stamped(&folder.path().join("short"), 100, 4);
    let (path, other) = (folder.path().join("long"), folder.path().join("other"));
    let (long, third) = (stamped(&path, 100, 4), stamped(&other, 100, 5));
    File::options().write(true).open(&path).unwrap().set_len(200 * 512).unwrap();
    assert_eq!(code(&["compare", &short, &short]), 0);
    assert_eq!(code(&["compare", &short, &long]), 0, "the tail is zero");
    assert_eq!(code(&["compare", &short, &long, "--strict"]), 1, "the sizes differ");
    assert_eq!(code(&["compare", &short, &third]), 1);
    assert_eq!(code(&["compare", &short, "file:/no/such/file"]), 2);
    assert_eq!(code(&["compare", &short]), 2, "an argument is missing");
    assert_eq!(code(&["compare", &short, "fail=100%,on=read+ram:1M"]), 2);
}

#[test]
fn ctrl_c_ends_a_copy_with_what_was_done() {
    let folder = tempdir().unwrap();
    let target = folder.path().join("target");
    // A volume so slow that nobody sees its end, and a copy that has begun: its target exists.
    let slow = "limit=8M/s+null:4G";
    let mut copy = Command::new(program());
    copy.args(["copy", slow, &format!("file:{}", target.display()), "--no-sparse", "--depth", "2"]);
    let mut child = copy.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| std::fs::metadata(&target).is_ok().then_some(()));
    let pid = Pid::from_child(&child);
    // Twice, as timeout(1) does: that is no reason to end at once.
    kill_process(pid, Signal::INT).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = ended(&mut child);
    let said = child.wait_with_output().unwrap();
    let (out, error) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
    assert_eq!(status.code(), Some(130), "{out}{error}");
    assert!(
        error.contains("stopped; from the beginning of file:") && error.contains(" bytes copied"),
        "{out}{error}"
    );
}

#[test]
fn mistakes_are_named() {
    for (arguments, expected) in [
        (vec!["copy", "-", "-"], "cannot be both source and target"),
        (vec!["copy", "ram:1M", "-", "--verify"], "--verify reads the target back"),
        (
            vec!["copy", "ram:1M", "ram:512K"],
            "ram:512k: it has 524288 bytes, fewer than the 1048576 of ram:1M",
        ),
        (vec!["copy", "rum:1M", "ram:1M"], "rum"),
        (vec!["copy", "ram:1M", "ram:1M", "--connections", "0"], "--connections"),
        (vec!["copy", "ram:1M", "ram:1M", "--depth", "1000"], "1..=256"),
        (vec!["zero", "iscsi://127.0.0.1:1/iqn.2026-11.org.linerate:disk/0"], "--overwrite"),
        (vec!["zero", "ram:1M", "--overwrite", "--offset", "7"], "multiples"),
        (vec!["zero", "readonly+ram:1M", "--overwrite"], "read-only"),
        (vec!["checksum", "ram:1M", "--offset", "2M"], "do not lie within it"),
        (vec!["checksum"], "<URL>"),
        (vec!["checksum", "ram:1M", "--algorithm", "md4"], "sha256"),
        (vec!["compare", "ram:1M", "iscsi://127.0.0.1"], "target or logical unit is missing"),
    ] {
        let refusal = run_in_vain(&arguments);
        assert!(refusal.contains(expected), "{arguments:?} says {refusal:?}");
    }
}
