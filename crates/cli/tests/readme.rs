//! The examples of `README.md` are run as they stand there, against the server that it tells to start.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use common::{Server, program, run, succeeded};
use tempfile::tempdir;

const README: &str = include_str!("../../../README.md");
/// The heading over the examples.
const HEADING: &str = "\n## Commands\n";
/// Commands that need no example among these: servers go on until they are stopped, the lab has a section of its own, the cluster needs root and has a page that is
/// run as it stands, metadata needs a share, and nothing is lost here.
const ELSEWHERE: [&str; 7] = ["serve", "lab", "cluster", "losses", "metadata", "ls", "help"];

/// The first block of code behind the heading.
fn examples() -> &'static str {
    let (_, section) = README.split_once(HEADING).unwrap();
    let (_, block) = section.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0
}

/// The volumes that the quick start serves.
fn volumes() -> Vec<String> {
    let line = README.lines().find_map(|line| line.strip_prefix("target/release/linerate serve ")).unwrap();
    line.split_whitespace().map(|word| word.replace('\'', "")).collect()
}

/// An image with a little data in it.
fn image(path: &Path) {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![0xa5; 100_000]).unwrap();
    file.set_len(32 << 20).unwrap();
}

#[test]
fn the_examples_work() {
    let folder = tempdir().unwrap();
    image(&folder.path().join("image.raw"));
    let wanted = volumes();
    let server = Server::start(folder.path(), &wanted.iter().map(String::as_str).collect::<Vec<_>>());
    let script = examples()
        .replace("iscsi://127.0.0.1", &format!("iscsi://{}", server.iscsi))
        .replace("nvme+tcp://127.0.0.1", &format!("nvme+tcp://{}", server.nvme));
    let path = format!("{}:{}", Path::new(program()).parent().unwrap().display(), env!("PATH"));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).env("PATH", path).current_dir(folder.path());
    let said = succeeded(shell.output().unwrap());
    for expected in ["linerate:disk", "nguid", "bytes kept", "equal: ", "zeroed", "IOPS"] {
        assert!(said.contains(expected), "{expected:?} is missing in {said}");
    }
    server.stop();
}

#[test]
fn every_command_has_an_example() {
    let help = run(&["--help"]);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in names.filter(|name| !name.is_empty() && !ELSEWHERE.contains(name)) {
        assert!(examples().contains(&format!("linerate {name} ")), "README.md has no example of {name}");
    }
}
