//! The mount point: an empty file that the volume's file is mounted over, as QEMU's storage daemon does it.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// The empty file. It is removed when this goes, if it was made here.
#[derive(Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
    made: bool,
}

impl MountPoint {
    /// Makes sure that there is an empty file at `path`. What a killed adapter left mounted there is unmounted.
    pub(crate) fn prepare(path: &Path) -> Result<Self> {
        let found = match std::fs::symlink_metadata(path) {
            Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
                detach(path).with_context(|| {
                    format!(
                        "{} is what an adapter left that has died, and cannot be unmounted: try fusermount3 -u {}",
                        path.display(),
                        path.display()
                    )
                })?;
                std::fs::symlink_metadata(path)
            }
            found => found,
        };
        match found {
            Ok(data) if data.is_file() && data.len() == 0 => Ok(Self { path: path.to_owned(), made: false }),
            Ok(_) => bail!(
                "{} exists and is not an empty file: the volume would hide it, so choose another path",
                path.display()
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(path)
                    .with_context(|| format!("{} cannot be made", path.display()))?;
                Ok(Self { path: path.to_owned(), made: true })
            }
            Err(error) => Err(error).with_context(|| format!("{} cannot be looked at", path.display())),
        }
    }

    /// The path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        let empty = std::fs::symlink_metadata(&self.path).is_ok_and(|data| data.is_file() && data.len() == 0);
        if self.made && empty {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Unmounts, also while the mount is in use: its users keep it until they close it.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => {
            // Ordinary users unmount by the helper that mounted for them.
            let output = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(path).output()?;
            if output.status.success() {
                return Ok(());
            }
            Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_file_is_covered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        drop(MountPoint::prepare(&path).unwrap());
        assert!(!path.exists(), "what was made here is removed");
        std::fs::write(&path, "").unwrap();
        drop(MountPoint::prepare(&path).unwrap());
        assert!(path.exists(), "what was there stays");
        std::fs::write(&path, "text").unwrap();
        for path in [path.as_path(), folder.path()] {
            let error = MountPoint::prepare(path).unwrap_err().to_string();
            assert!(error.contains("is not an empty file"), "{error}");
        }
    }
}
