//! What a flush promises: written data survives the death of the process, and reaches the disk before the answer is sent.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::process::Command;

use common::{Server, program, run, stamped, until};
use tempfile::tempdir;

#[test]
fn flushed_data_survives_twenty_kills() {
    const ROUNDS: u64 = 20;
    const SECTORS: u64 = 512;
    let folder = tempdir().unwrap();
    let (written, read) = (folder.path().join("written"), folder.path().join("read"));
    let serve = ["disk=file:disk.img?size=256K"];
    for round in 1..=ROUNDS {
        let server = Server::start(folder.path(), &serve);
        run(&["copy", &stamped(&written, SECTORS, round), &server.nvme_url("disk"), "--overwrite"]);
        server.kill();
        let server = Server::start(folder.path(), &serve);
        run(&["copy", &server.iscsi_url("disk"), &format!("file:{}", read.display()), "--overwrite"]);
        server.kill();
        let same = std::fs::read(&written).unwrap() == std::fs::read(&read).unwrap();
        assert!(same, "round {round} lost flushed data");
    }
}

/// A command capsule without data whose opcode is Flush (NVMe/TCP, section 3.6.2.5; NVM command set, section 3.2.2),
/// up to the command's identifier, as the trace writes bytes.
const FLUSH: &str = r#""\x04\x00\x48\x00\x48\x00\x00\x00\x00\x40"#;
/// The header of a response capsule.
const RESPONSE: &str = r"\x05\x00\x18\x00\x18\x00\x00\x00";
/// Bytes of the completion before the command's identifier.
const BEFORE_IDENTIFIER: usize = 12;
/// Letters that the trace takes for each byte.
const LETTERS: usize = 4;

/// True when a line of the trace tells that data has become durable.
fn durable(line: &str) -> bool {
    let completed = line.contains("= 0") && !line.contains("<unfinished");
    completed && (line.contains("fdatasync(") || line.contains("fdatasync resumed"))
}

/// True when a line of the trace sends the response to the command with this identifier.
fn answers(line: &str, identifier: &str) -> bool {
    let answered = |capsule: &str| {
        capsule.get(BEFORE_IDENTIFIER * LETTERS..).is_some_and(|rest| rest.starts_with(identifier))
    };
    line.contains("sendmsg(") && line.split(RESPONSE).skip(1).any(answered)
}

#[test]
fn the_disk_is_synchronised_before_a_flush_is_answered() {
    let tracer = Command::new("strace").arg("--version").output();
    assert!(tracer.is_ok(), "this test needs strace: install the package of that name");
    let folder = tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut launcher = Command::new("strace");
    // The tracer is a process of its own (-D), so that the child is the server itself; bytes come in hexadecimal (-xx).
    launcher.args(["-D", "-f", "-xx", "-s", "4096", "-e", "trace=fdatasync,pwritev2,recvmsg,sendmsg", "-o"]);
    launcher.arg(&trace).arg(program());
    let server =
        Server::start_by(launcher, folder.path(), &["--driver", "epoll", "disk=file:disk.img?size=256K"]);
    run(&["copy", &stamped(&folder.path().join("source"), 512, 1), &server.nvme_url("disk"), "--overwrite"]);
    server.stop();
    let seen = until(|| std::fs::read_to_string(&trace).ok().filter(|text| text.contains("+++ exited")));
    let lines: Vec<_> = seen.lines().collect();
    let flush = lines.iter().position(|line| line.contains("recvmsg") && line.contains(FLUSH)).unwrap();
    let identifier = &lines[flush].split_once(FLUSH).unwrap().1[..2 * LETTERS];
    let after = &lines[flush..];
    let synchronised = after.iter().position(|line| durable(line)).unwrap();
    let answered = after.iter().position(|line| answers(line, identifier)).unwrap();
    assert!(synchronised < answered, "the answer went out first:\n{}", after.join("\n"));
    assert!(lines[..flush].iter().any(|line| line.contains("pwritev2(")), "nothing was written before");
}
