//! What somebody meets who does not know the program yet: nothing is destroyed or made unasked, a mistake is answered with what was
//! meant, and a closed pipe is no error.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{Server, begin, program, run, run_in_vain, until};
use rustix::process::{Signal, kill_process};
use tempfile::tempdir;

#[test]
fn whatever_exists_is_overwritten_only_on_demand() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M"]);
    let path = folder.path().join("full.img");
    let content: Vec<u8> =
        (0..1_u32 << 16).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(&path, &content).unwrap();
    let full = format!("file:{}", path.display());
    let volumes =
        [full.clone(), format!("stats+{full}?size=4M"), server.iscsi_url("disk"), server.nvme_url("disk")];
    for volume in volumes.iter().map(String::as_str) {
        for command in [
            vec!["copy", "ram:64k", volume],
            vec!["copy", "-", volume],
            vec!["bench", volume, "--rw", "write", "--runtime", "0.1"],
            vec!["bench", volume, "--rw", "randwrite", "--runtime", "0.1"],
            vec!["bench", "ram:1M", volume, "--rw", "randrw", "--runtime", "0.1"],
            vec!["bench", volume, "--rw", "rw", "--runtime", "0.1"],
            vec!["check", volume, "--bytes", "64k"],
            vec!["zero", volume],
            vec!["zero", volume, "--discard"],
        ] {
            let said = run_in_vain(&command);
            assert!(said.contains("--overwrite"), "{command:?}: {said}");
        }
    }
    assert!(fs::read(&path).unwrap() == content, "the file was changed unasked");
    run(&["copy", "ram:64k", &full, "--overwrite"]);
    assert!(fs::read(&path).unwrap()[..65536].iter().all(|byte| *byte == 0));
    let fresh = format!("file:{}", folder.path().join("fresh.img").display());
    run(&["copy", "ram:64k", &fresh]);
    server.stop();
}

#[test]
fn what_only_reads_makes_no_file_and_changes_none() {
    let folder = tempdir().unwrap();
    let (absent, small) = (folder.path().join("absent"), folder.path().join("small"));
    fs::write(&small, vec![7; 1 << 20]).unwrap();
    let before = fs::metadata(&small).unwrap().modified().unwrap();
    let (absent_url, small_url) =
        (format!("file:{}?size=2M", absent.display()), format!("file:{}?size=2M", small.display()));
    for (command, found) in [
        (vec!["inspect", &absent_url], false),
        (vec!["checksum", &absent_url], false),
        (vec!["compare", &absent_url, "ram:1M"], false),
        (vec!["compare", "ram:1M", &absent_url], false),
        (vec!["copy", &absent_url, "ram:1M"], false),
        (vec!["reserve", &absent_url], false),
        (vec!["inspect", &small_url], true),
        (vec!["checksum", &small_url], true),
        (vec!["compare", &small_url, &small_url], true),
        (vec!["copy", &small_url, "ram:2M"], true),
    ] {
        let done = begin(&command).wait_with_output().unwrap();
        assert_eq!(done.status.success(), found, "{command:?}");
        assert!(!absent.exists(), "{command:?} has made the file");
        let now = fs::metadata(&small).unwrap();
        assert_eq!(
            (now.len(), now.modified().unwrap()),
            (1 << 20, before),
            "{command:?} has changed the file"
        );
    }
}

#[test]
fn a_mistake_is_answered_with_what_was_meant() {
    for (command, expected) in [
        (vec!["inspect", "disk.img"], "did you mean file:disk.img?"),
        (vec!["inspect", "nvme://127.0.0.1/nqn.2026-11.org.linerate:disk/1"], "did you mean nvme+tcp://?"),
        (vec!["discover", "nvme://127.0.0.1"], "did you mean nvme+tcp://?"),
        (vec!["discover", "127.0.0.1"], "did you mean iscsi://127.0.0.1 or nvme+tcp://127.0.0.1?"),
        (vec!["bench", "ram:1M", "randrw"], "did you mean --rw randrw?"),
        (vec!["bench", "ram:1M", "--numjobs", "4"], "name a volume several times"),
        (vec!["bench", "ram:1M", "--ioengine=libaio"], "the volume's URL says how it is reached"),
        (vec!["serve", "disk=ram:1M", "--cores", "300"], "1..=256"),
        (vec!["serve", "disk=ram:1M", "--iscsi", "no such host:1"], "host name"),
    ] {
        let said = run_in_vain(&command);
        assert!(said.contains(expected), "{command:?}: {said}");
    }
    run(&[
        "bench",
        "ram:1M",
        "--iodepth",
        "4",
        "--blocksize",
        "8k",
        "--readwrite",
        "randread",
        "--runtime",
        "100ms",
    ]);
}

/// Commands, the words that their error must have, each once, and what the user should do.
const MISTAKES: [(&[&str], &[&str], &str); 30] = [
    (&["inspect", "file:/no/such"], &["/no/such", "No such file"], "check the path"),
    (&["checksum", "device:/no/such"], &["/no/such"], "check the path"),
    (&["bench", "file:/no/such"], &["/no/such"], "check the path"),
    (&["zero", "file:/no/such"], &["/no/such"], "create a file"),
    (&["check", "file:/no/such"], &["/no/such"], "create a file"),
    (&["compare", "ram:1M", "file:/no/such"], &["/no/such"], "check the path"),
    (&["copy", "file:/no/such", "ram:1M"], &["/no/such"], "check the path"),
    (&["copy", "ram:2M", "file:/no/dir/x"], &["/no/dir/x"], "its folder"),
    (&["copy", "ram:2M", "ram:1M"], &["ram:1M", "ram:2M", "1048576"], "at least as large"),
    (&["attach", "file:/no/such", "unix:/tmp/linerate-none", "--as", "nbd"], &["/no/such"], "create a file"),
    (&["reserve", "ram:1M"], &["ram:1M"], "name it as others see it"),
    (&["inspect", "ram:1Q"], &["ram:1Q", "volume URL", "is not a size"], "write bytes"),
    (&["inspect", "ram:"], &["volume URL", "is not a size"], "write bytes"),
    (&["inspect", "fail=x+ram:1M"], &["fail=x+ram:1M", "is not a rate"], "write 1%"),
    (&["inspect", "file:disk?bogus=1"], &["file:disk?bogus=1", "has no option"], "it has size"),
    (&["inspect", "ram:1000"], &["ram:1000"], "give a size"),
    (
        &["inspect", "iscsi://127.0.0.1:1/iqn.2026-11.test:d/0"],
        &["iqn.2026-11.test:d", "cannot connect"],
        "start the server",
    ),
    (
        &["inspect", "nvme+tcp://127.0.0.1:1/nqn.2026-11.test:d/1"],
        &["nqn.2026-11.test:d", "cannot connect"],
        "start the server",
    ),
    (
        &["inspect", "iscsi://no-such-host.invalid/iqn.2026-11.test:d/0"],
        &["\"no-such-host.invalid\"", "cannot be resolved"],
        "check the name",
    ),
    (
        &["inspect", "iscsi://127.0.0.1:1/iqn.2026-11.test:d/0?chap_user=u&chap_secret_file=/no/such"],
        &["the secret file /no/such", "No such file"],
        "put the secret there",
    ),
    (&["inspect", "iscsi://h/no/0"], &["iscsi://h/no/0", "begins with iqn."], "write a name"),
    (
        &["discover", "nvme+tcp://127.0.0.1:1"],
        &["nvme+tcp://127.0.0.1:1", "cannot connect"],
        "start the server",
    ),
    (&["zero", "fail=100%+ram:1M"], &["fail=100%+ram:1M", "cannot be zeroed"], ""),
    (&["copy", "fail=100%+ram:1M", "ram:1M"], &["fail=100%+ram:1M", "cannot be read"], ""),
    (&["bench", "ram:1M", "--spin", "7q"], &["7q", "is not a duration"], "write a whole number"),
    (&["bench", "ram:1M", "--bs", "7q"], &["7q", "is not a size"], "write bytes"),
    (&["serve", "a=ram:1M", "--iscsi", "1.2.3"], &["1.2.3", "the port is missing"], "write ADDRESS:PORT"),
    (&["serve", "a=file:/no/such"], &["/no/such", "cannot be opened", "\"a\""], "create a file"),
    (&["serve", "a=ramm:1M"], &["\"ramm:1M\"", "volume URL"], "did you mean ram:?"),
    (
        &["losses", "a=file:x", "--state", "/dev/null/x"],
        &["/dev/null/x/a", "the volume"],
        "choose a state folder",
    ),
];

#[test]
fn an_error_says_what_where_why_and_the_remedy_once_each() {
    for (command, once, remedy) in MISTAKES {
        let listens = ["--iscsi", "127.0.0.1:0"];
        let serves = command[0] == "serve" && !command.contains(&"--iscsi");
        let said = run_in_vain(&[command, if serves { &listens[..] } else { &[] }].concat());
        for word in once {
            assert_eq!(said.matches(word).count(), 1, "{command:?}, {word:?}: {said}");
        }
        assert!(said.contains(remedy), "{command:?}: {said}");
    }
}

#[test]
fn a_load_that_only_reads_makes_no_file_and_makes_none_longer() {
    let folder = tempdir().unwrap();
    let (absent, small) = (folder.path().join("absent"), folder.path().join("small"));
    fs::write(&small, vec![7; 1 << 20]).unwrap();
    for rw in ["read", "randread"] {
        let url = format!("file:{}?size=2M", absent.display());
        let said = run_in_vain(&["bench", &url, "--rw", rw, "--runtime", "0.1", "--overwrite"]);
        assert!(said.contains("what is only read is not created") && !absent.exists(), "{said}");
        run(&["bench", &format!("file:{}?size=2M", small.display()), "--rw", rw, "--runtime", "0.1"]);
        assert_eq!(fs::metadata(&small).unwrap().len(), 1 << 20);
    }
    run(&["bench", &format!("file:{}?size=2M", absent.display()), "--rw", "write", "--runtime", "0.1"]);
    assert_eq!(fs::metadata(&absent).unwrap().len(), 2 << 20);
}

#[test]
fn a_closed_pipe_ends_a_command_without_a_word() {
    for command in [
        vec!["copy", "ram:64M", "-"],
        vec!["inspect", "ram:1M"],
        vec!["inspect", "ram:1M", "--json"],
        vec!["checksum", "ram:1M"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["lab", "list"],
    ] {
        let mut child = Command::new(program());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child =
            child.args(&command).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let said = child.wait_with_output().unwrap().stderr;
        assert!(said.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// Processor time of a process, in the clock's ticks: a load that has used some is well under way.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_load_ends_with_its_result_when_it_is_asked() {
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path(), &["disk=ram:1M"]);
    let load = begin(&["bench", &server.nvme_url("disk"), "--runtime", "600", "--json"]);
    until(|| (ticks(load.id()) >= 20).then_some(()));
    kill_process(rustix::process::Pid::from_child(&load), Signal::INT).unwrap();
    let done = load.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stderr));
    let result: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(result["read"]["ios"].as_u64() > Some(0) && result["end"] == "stopped", "{result}");
    server.stop();
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempdir().unwrap();
    let manual = folder.path().join("manual");
    run(&["man", &manual.display().to_string()]);
    let help = run(&["--help"]);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let pages =
        names.filter(|name| !name.is_empty() && *name != "help").map(|name| format!("linerate-{name}.1"));
    let listed = run(&["man"]);
    for page in pages.chain(
        ["linerate.1", "linerate-urls.7", "linerate-configuration.5", "linerate-lab-run.1"]
            .map(str::to_owned),
    ) {
        let text = fs::read_to_string(manual.join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME"), "{page}");
        assert!(listed.lines().any(|line| line == page), "{page} is not listed");
    }
    let urls = run(&["man", "--page", "linerate-urls"]);
    for word in ["chap_secret_file", "readonly", "nvme+tcp"] {
        assert!(urls.contains(word), "{word} is missing");
    }
    assert!(run(&["completions", "bash"]).contains("--overwrite"));
}
