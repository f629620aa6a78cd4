//! A cache as its users meet it: served over both protocols, killed, stopped, opened again, left by a fast volume, and what is said of it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Server, program, run, run_in_vain, stamped, succeeded, until};
use rustix::process::{Signal, kill_process};
use tempfile::tempdir;

const SECTORS: u64 = 8192;
const HOWTO: &str = include_str!("../../../docs/howto/cache.md");

/// Serves, with what the server tells in a file beside its log.
fn start(folder: &Path, arguments: &[&str]) -> Server {
    let mut launcher = Command::new("sh");
    launcher.args(["-c", "exec \"$0\" \"$@\" > server.out", program()]);
    Server::start_by(launcher, folder, arguments)
}

/// What a server has told, and logged.
fn said(folder: &Path) -> String {
    let read = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    read("server.out") + &read("server.log")
}

#[test]
fn what_was_flushed_to_a_cache_survives_kills_in_both_modes() {
    let folder = tempdir().unwrap();
    let (written, read) = (folder.path().join("written"), folder.path().join("read"));
    for (round, mode) in [(1, "through"), (2, "back"), (3, "back"), (4, "through"), (5, "back")] {
        let disk = format!("disk=cache=[file:fast.img?size=2M,file:big.img?size=8M]?mode={mode}&bypass=0");
        let server = start(folder.path(), &[&disk]);
        run(&["copy", &stamped(&written, SECTORS, round), &server.nvme_url("disk"), "--overwrite"]);
        server.kill();
        let server = start(folder.path(), &[&disk]);
        run(&["copy", &server.iscsi_url("disk"), &format!("file:{}", read.display()), "--overwrite"]);
        server.stop();
        let said = said(folder.path());
        assert!(said.contains("cache disk detached: "), "{said}");
        let (written, read) = (std::fs::read(&written).unwrap(), std::fs::read(&read).unwrap());
        assert!(written == read[..written.len()], "round {round} lost flushed data");
    }
}

#[test]
fn a_server_that_was_stopped_begins_warm_and_its_capacity_volume_has_everything() {
    let folder = tempdir().unwrap();
    let (written, read) = (folder.path().join("written"), folder.path().join("read"));
    for mode in ["through", "back"] {
        let (fast, big) = (format!("{mode}-fast.img"), format!("{mode}-big.img"));
        let disk = format!(
            "disk=cache=[file:{fast}?size=8M,stats+file:{big}?size=4M]?mode={mode}&bypass=0&admit=always&idle=1000s"
        );
        let server = start(folder.path(), &[&disk, "--cores", "2"]);
        run(&["copy", &stamped(&written, SECTORS, 7), &server.nvme_url("disk"), "--overwrite"]);
        server.stop();
        let stopped = said(folder.path());
        assert!(stopped.contains("cache disk detached: ") && stopped.contains(" 0 bytes dirty"), "{stopped}");
        let capacity = std::fs::read(folder.path().join(&big)).unwrap();
        assert!(capacity == std::fs::read(&written).unwrap(), "{mode}: not all was written back");
        let server = start(folder.path(), &[&disk, "--cores", "2"]);
        run(&["copy", &server.nvme_url("disk"), &format!("file:{}", read.display()), "--overwrite"]);
        server.stop();
        let warm = said(folder.path());
        assert!(warm.contains(" reads hit (100 %)"), "{mode}: {warm}");
        assert!(std::fs::read(&read).unwrap() == capacity);
    }
}

#[test]
fn commands_leave_a_cache_in_order() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let url = format!(
        "cache=[file:{}?size=4M,file:{}?size=4M]?mode=back&admit=always&bypass=0&idle=1000s",
        place("fast"),
        place("big")
    );
    let written = folder.path().join("written");
    run(&["copy", &stamped(&written, 2048, 3), &url, "--overwrite"]);
    let written = std::fs::read(&written).unwrap();
    assert!(std::fs::read(place("big")).unwrap()[..written.len()] == written, "not all was written back");
    // The capacity volume is another one now, so that only the fast one can have it.
    std::fs::write(place("big"), vec![0; 4 << 20]).unwrap();
    let out = place("out");
    run(&["copy", &url, &format!("file:{out}"), "--overwrite"]);
    assert!(std::fs::read(&out).unwrap()[..written.len()] == written, "it began cold");
}

#[test]
fn a_fast_volume_that_fails_is_told_once_and_nothing_is_lost() {
    let folder = tempdir().unwrap();
    let (written, read) = (folder.path().join("written"), folder.path().join("read"));
    // The superblocks and the map are well, and no line is.
    let disk = "disk=cache=[fail=1/1,blocks=1000-4095+ram:2M,file:big.img?size=8M]?admit=always&bypass=0";
    let server = start(folder.path(), &[disk]);
    run(&["copy", &stamped(&written, SECTORS, 9), &server.nvme_url("disk"), "--overwrite"]);
    run(&["copy", &server.iscsi_url("disk"), &format!("file:{}", read.display()), "--overwrite"]);
    server.stop();
    let (written, read) = (std::fs::read(&written).unwrap(), std::fs::read(&read).unwrap());
    assert!(written == read[..written.len()]);
    let said = said(folder.path());
    assert_eq!(said.matches("the fast volume of the cache has failed").count(), 1, "{said}");
    assert!(said.contains("nothing is lost") && said.contains("cache disk off: "), "{said}");
}

#[test]
fn a_cache_of_another_volume_is_refused_with_what_helps() {
    let folder = tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (fast, one, two) = (place("fast.img"), place("one.img"), place("two.img"));
    run(&["copy", "ram:1M", &format!("cache=[file:{fast}?size=2M,file:{one}?size=8M]"), "--overwrite"]);
    let said = run_in_vain(&["checksum", &format!("cache=[file:{fast},file:{two}?size=4M]")]);
    assert!(said.contains("belongs to another capacity volume") && said.contains("to begin anew"), "{said}");
}

#[test]
fn the_commands_of_the_howto_work() {
    let blocks = HOWTO.split("\n```sh\n").skip(1).map(|block| block.split_once("```").unwrap().0);
    let script: String = blocks.collect();
    // Ports of its own, which the ready file names.
    let script = script
        .replace(
            "--ready-file ready",
            "--iscsi 127.0.0.1:0 --nvme 127.0.0.1:0 --state state --ready-file ready",
        )
        .replace("nvme+tcp://127.0.0.1/", "nvme+tcp://$(sed -n 's/^nvme //p' ready)/");
    let head = "trap 'status=$?; kill $(jobs -p) 2> /dev/null || true; wait; exit $status' EXIT\n";
    let folder = tempdir().unwrap();
    let path = format!("{}:{}", Path::new(program()).parent().unwrap().display(), env!("PATH"));
    let mut shell = Command::new("bash");
    shell.args(["-e", "-c", &format!("{head}{script}")]).env("PATH", path).current_dir(folder.path());
    let output = shell.output().unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    assert!(output.status.success(), "{}{log}", String::from_utf8_lossy(&output.stderr));
    assert!(succeeded(output).contains("cache disk detached: "), "{log}");
}

#[test]
fn a_cache_that_a_reload_takes_away_is_left_in_order() {
    let folder = tempdir().unwrap();
    let (written, config) = (folder.path().join("written"), folder.path().join("config.toml"));
    let portals = "[[portal]]\nprotocol = \"iscsi\"\nlisten = \"127.0.0.1:0\"\n[[portal]]\nprotocol = \"nvme\"\nlisten = \"127.0.0.1:0\"\n";
    let cache = "[[volume]]\nname = \"disk\"\nurl = \"cache=[file:fast.img?size=8M,file:big.img?size=1M]?mode=back&idle=1000s&bypass=0\"\n";
    let other = "[[volume]]\nname = \"other\"\nurl = \"ram:1M\"\n";
    std::fs::write(&config, format!("{portals}{cache}{other}")).unwrap();
    let server = Server::start_configured(folder.path(), &["--config", config.to_str().unwrap()]);
    run(&["copy", &stamped(&written, 2048, 5), &server.nvme_url("disk"), "--overwrite"]);
    let (written, big) = (std::fs::read(&written).unwrap(), folder.path().join("big.img"));
    assert!(std::fs::read(&big).unwrap() != written, "it is written back though nobody was idle");
    std::fs::write(&config, format!("{portals}{other}")).unwrap();
    kill_process(server.pid(), Signal::HUP).unwrap();
    until(|| (std::fs::read(&big).unwrap() == written).then_some(()));
    server.stop();
}
