//! The one rule for commands that destroy what a volume holds: they need `--overwrite`, unless there is nothing to lose.
//!
//! There is nothing to lose in memory of this process (`ram:`, `null:`), and in a file that does not exist yet or has no data in it. Whatever
//! else exists needs the option, whether it holds something of use or not: a script must not work once and fail the next time
//! because of what somebody else wrote. Nobody is asked on a terminal, so that a command does the same by hand and in a script.
//! `docs/decisions/0017-overwrite.md` has the reasons.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Parser;
use names::{Source, VolumeUrl};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// The option of every command that writes.
#[derive(Debug, Parser)]
pub(crate) struct OverwriteArgs {
    /// Let the command destroy what the volume holds. Not needed for a file that does not exist yet or has no data
    #[arg(long)]
    overwrite: bool,
}

impl OverwriteArgs {
    /// Whether a command may write to `url`; `deed` says what it would do, such as "the copy would overwrite the volume".
    pub(crate) fn permit(&self, url: &VolumeUrl, deed: &str) -> Result<()> {
        if self.overwrite || has_nothing(&url.source) {
            return Ok(());
        }
        bail!("{url}: {deed}; add --overwrite if nothing there is needed")
    }
}

/// Whether a volume has nothing to lose.
fn has_nothing(source: &Source) -> bool {
    match source {
        Source::Null(_) | Source::Ram(_) => true,
        Source::File(file) => has_no_data(Path::new(&file.path)),
        _ => false,
    }
}

/// Whether a file is not there, or is empty, or is one hole. What cannot be looked at may hold something.
fn has_no_data(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(found) if !found.is_file() => false,
        Ok(_) => {
            let first = File::open(path).map(|file| seek(&file, SeekFrom::Data(0)));
            // A seek for data that finds none up to the end (lseek(2), SEEK_DATA).
            matches!(first, Ok(Err(Errno::NXIO)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_data_is_protected() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("empty"), "").unwrap();
        std::fs::write(path("text"), "x").unwrap();
        let hole = File::create(path("hole")).unwrap();
        hole.set_len(1 << 20).unwrap();
        let url = |name: &str| format!("file:{}", path(name).display());
        for (url, free) in [
            ("ram:1M".to_owned(), true),
            ("delay=1ms+null:1M".to_owned(), true),
            (url("absent"), true),
            (url("empty"), true),
            (url("hole"), true),
            (url("text"), false),
            (format!("{}?size=1G", url("text")), false),
            (url(""), false),
            ("device:/dev/null".to_owned(), false),
            ("iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0".to_owned(), false),
            ("stats+nvme+tcp://127.0.0.1/nqn.2026-11.org.linerate:disk/1".to_owned(), false),
        ] {
            let url: VolumeUrl = url.parse().unwrap();
            let refused = OverwriteArgs { overwrite: false }.permit(&url, "the copy would overwrite it");
            assert_eq!(refused.is_ok(), free, "{url}");
            assert!(refused.is_ok() || refused.unwrap_err().to_string().contains("--overwrite"));
            assert!(OverwriteArgs { overwrite: true }.permit(&url, "").is_ok());
        }
    }
}
