//! Versions of the programs that a run may use, as they say themselves.
//!
//! A version is part of a measurement: tgt, libiscsi and QEMU have changed their speed with theirs. Programs that are not
//! installed are missing from the list. Libraries have no command; the package manager is asked for them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::measure::limits::{VERSION_BYTES, VERSION_TIMEOUT};

/// Name in the environment, program, arguments that make it say its version.
const PROGRAMS: [(&str, &str, &[&str]); 12] = [
    ("fio", "fio", &["--version"]),
    ("ganesha", "ganesha.nfsd", &["-v"]),
    ("iperf3", "iperf3", &["--version"]),
    ("libiscsi", "dpkg-query", &["-W", "-f", "${Version}", "libiscsi7"]),
    ("libnfs", "dpkg-query", &["-W", "-f", "${Version}", "libnfs13"]),
    ("nbdkit", "nbdkit", &["--version"]),
    ("open-iscsi", "iscsiadm", &["--version"]),
    ("pgbench", "pgbench", &["--version"]),
    ("qemu", "qemu-storage-daemon", &["--version"]),
    ("sysbench", "sysbench", &["--version"]),
    ("tgt", "tgtd", &["-V"]),
    ("nvme-cli", "nvme", &["version"]),
];

/// Where servers of PostgreSQL are installed beside each other, outside of `PATH`.
const POSTGRES: &str = "/usr/lib/postgresql";

/// All that are installed, by name.
pub fn all() -> BTreeMap<String, String> {
    let programs = PROGRAMS.iter().filter_map(|(name, program, arguments)| {
        Some(((*name).to_owned(), version(Path::new(program), arguments)?))
    });
    programs.chain(postgres()).collect()
}

/// Every major version of PostgreSQL's server.
fn postgres() -> impl Iterator<Item = (String, String)> {
    let folders = fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    folders.filter_map(|folder| {
        let major = folder.file_name().into_string().ok()?;
        let version = version(&folder.path().join("bin/postgres"), &["--version"])?;
        Some((format!("postgres {major}"), version))
    })
}

/// The first line that the program says; `None` if it is not installed, fails, or takes longer than three seconds.
pub fn version(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut output = child.stdout.take()?;
    let (said, what) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        // What is no text is no version.
        let _ = output.read_to_string(&mut text);
        let _ = said.send(text);
    });
    let text = what.recv_timeout(VERSION_TIMEOUT).ok();
    if text.is_none() {
        let _ = child.kill();
    }
    let fine = child.wait().is_ok_and(|status| status.success());
    if text.is_some() {
        reader.join().ok()?;
    }
    text.filter(|_| fine).as_deref().and_then(first_line)
}

fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let end = line.char_indices().map(|(index, letter)| index + letter.len_utf8());
    let end = end.take_while(|end| *end <= VERSION_BYTES).last()?;
    line.get(..end).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts() {
        assert_eq!(
            version(Path::new("/bin/sh"), &["-c", "echo; echo ' v 1.2 '; echo licence"]).unwrap(),
            "v 1.2"
        );
        assert_eq!(first_line(&"é".repeat(100)).unwrap(), "é".repeat(60));
    }

    #[test]
    fn what_is_missing_fails_or_is_silent_has_no_version() {
        assert_eq!(version(Path::new("/none/such"), &[]), None);
        assert_eq!(version(Path::new("/bin/sh"), &["-c", "echo usage; exit 1"]), None);
        assert_eq!(version(Path::new("/bin/sh"), &["-c", "exit 0"]), None);
    }
}
