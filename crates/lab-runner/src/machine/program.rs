//! Foreign programs: where they are, which Debian package brings them, and short calls of them.
//!
//! The lab is nothing without tools of other projects, so the commonest failure is that one is not installed. Every place
//! that starts a program looks for it here first, and the error names the package.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

/// Programs that the lab starts, and the Debian packages that bring them.
const PACKAGES: &[(&str, &str)] = &[
    ("createdb", "postgresql"),
    ("dd", "coreutils"),
    ("fio", "fio"),
    ("fusermount", "fuse3"),
    ("ganesha.nfsd", "nfs-ganesha"),
    ("initdb", "postgresql"),
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("iscsi-perf", "libiscsi-bin"),
    ("iscsiadm", "open-iscsi"),
    ("losetup", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mount", "mount"),
    ("nbdkit", "nbdkit"),
    ("nfs-ls", "libnfs-utils"),
    ("nft", "nftables"),
    ("nsenter", "util-linux"),
    ("nvme", "nvme-cli"),
    ("nvmetcli", "nvmetcli"),
    ("pg_ctl", "postgresql"),
    ("pgbench", "postgresql"),
    ("postgres", "postgresql"),
    ("psql", "postgresql"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-storage-daemon", "qemu-system-common"),
    ("rpcbind", "rpcbind"),
    ("setpriv", "util-linux"),
    ("sh", "dash"),
    ("sysbench", "sysbench"),
    ("targetcli", "targetcli-fb"),
    ("taskset", "util-linux"),
    ("tc", "iproute2"),
    ("tgtadm", "tgt"),
    ("tgtd", "tgt"),
    ("timeout", "coreutils"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
    ("wipefs", "util-linux"),
];

/// Folders in which Debian keeps what an ordinary user's PATH may leave out.
const FURTHER: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Where Debian keeps PostgreSQL's programs, a folder per version.
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// The Debian package that brings a program, as far as the lab knows it.
pub fn package(program: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| *package)
}

/// Where a program is: in `PATH`, in the folders of system programs, or among PostgreSQL's. A path is taken as it is.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FURTHER.map(PathBuf::from)).chain(postgresql());
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// PostgreSQL's folders, newest version first.
fn postgresql() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(POSTGRESQL).into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut folders: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((version(&entry.path())?, entry.path().join("bin")))).collect();
    folders.sort_by(|one, other| other.cmp(one));
    folders.into_iter().map(|(_, folder)| folder).collect()
}

/// Where a program is, or what to install.
pub fn require(program: &str) -> Result<PathBuf> {
    find(program).ok_or_else(|| anyhow!("{}", not_there(program)))
}

/// What to do about a program that is not there.
pub fn not_there(program: &str) -> String {
    match package(program) {
        Some(package) => format!("{program} is not installed: apt install {package}"),
        None => format!("{program} is not there: install it, or put its folder into PATH"),
    }
}

/// Runs a short command to its end and gives its standard output; a failure carries the command and its last words.
/// It is stopped after `limit`.
pub fn output(argv: &[&str], limit: Duration) -> Result<String> {
    let done = attempt(argv, limit)?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("`{}` ended with {}: {}", argv.join(" "), done.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs a short command to its end, whatever that is.
pub fn attempt(argv: &[&str], limit: Duration) -> Result<Output> {
    let (name, arguments) = argv.split_first().context("a command without a program")?;
    let mut command = Command::new(require("timeout")?);
    command.arg("--kill-after=1").arg(format!("{:.3}", limit.as_secs_f64()));
    command.arg(require(name)?).args(arguments).stdin(std::process::Stdio::null());
    command.output().with_context(|| format!("`{}` cannot be started", argv.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        assert!(find("sh").is_some());
        assert!(find("/no/such/program").is_none());
        assert_eq!(not_there("tgtd"), "tgtd is not installed: apt install tgt");
        let error = require("linerate-no-such-program").unwrap_err().to_string();
        assert!(error.contains("PATH"), "{error}");
    }

    #[test]
    fn a_failure_carries_the_command_and_its_words() {
        assert_eq!(output(&["sh", "-c", "echo fine"], LIMIT).unwrap(), "fine\n");
        let error = output(&["sh", "-c", "echo broken >&2; exit 3"], LIMIT).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3') && error.contains("sh -c"), "{error}");
    }

    #[test]
    fn a_command_that_hangs_is_stopped() {
        assert!(output(&["sleep", "600"], Duration::from_millis(20)).is_err());
    }
}
