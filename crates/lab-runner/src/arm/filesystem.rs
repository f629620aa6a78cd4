//! A file system on an endpoint that is a file: loop device, ext4, mount. For loads that want a file system or a database.
//!
//! The loop device goes through the page cache, not around it: with `losetup --direct-io` on a FUSE export of QEMU 7.2 the
//! file system was damaged right after it was made, on Linux 6.18. Flushes reach the volume all the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::backing;
use super::served::Endpoint;
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::program;

/// How long making a file system, mounting and unmounting may take: it writes what is in the cache.
const LIMIT: Duration = Duration::from_mins(1);
/// ext4's tables are written when it is made, not later while something is measured; and a fresh volume needs no discard.
const FORMAT: [&str; 5] = ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];

/// A mounted file system of its own. Dropping it writes what is in the cache, unmounts it and frees its loop device; it must
/// go before the processes that serve the volume.
#[derive(Debug)]
pub struct Filesystem {
    path: PathBuf,
    device: String,
}

impl Filesystem {
    /// Makes a file system on the endpoint, all of whose data is lost, and mounts it. `owner` gets its root folder.
    pub fn make(endpoint: &Endpoint, owner: Option<&str>, ledger: &mut Ledger) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("a file system on {} needs root, for losetup and mount: run with sudo", endpoint.url);
        }
        let backing = backing(endpoint)?;
        let path = backing::scratch("mount", ledger)?.join("files");
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        ledger.add(Thing::LoopDevice { backing: backing.clone() })?;
        let device = program::output(&["losetup", "--find", "--show", text(&backing)?], LIMIT)?;
        let mut made = Self { path, device: device.trim().to_owned() };
        made.mount(owner, ledger).inspect_err(|_| made.release())?;
        Ok(made)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its block device, as `/sys/class/block` names it.
    pub fn device(&self) -> Option<&str> {
        self.device.strip_prefix("/dev/")
    }

    fn mount(&mut self, owner: Option<&str>, ledger: &mut Ledger) -> Result<()> {
        let path = text(&self.path)?;
        program::output(&[&FORMAT[..], &[&self.device]].concat(), LIMIT)?;
        ledger.add(Thing::Mount { path: self.path.clone() })?;
        program::output(&["mount", "-t", "ext4", "-o", "noatime", &self.device, path], LIMIT)?;
        if let Some(owner) = owner {
            program::output(&["chown", owner, path], LIMIT)?;
        }
        Ok(())
    }

    fn release(&mut self) {
        let path = self.path.display().to_string();
        // What fails here is in the ledger, and tearing that down says so.
        let _in_ledger = program::output(&["umount", &path], LIMIT);
        if !self.device.is_empty() {
            let _in_ledger = program::output(&["losetup", "--detach", &self.device], LIMIT);
            self.device.clear();
        }
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        self.release();
    }
}

/// The file behind an endpoint: a path, or a local volume's `file:` URL.
fn backing(endpoint: &Endpoint) -> Result<PathBuf> {
    if endpoint.url.starts_with("file:") {
        return backing::file(&endpoint.url, endpoint.size);
    }
    let path = PathBuf::from(&endpoint.url);
    if !path.is_file() {
        bail!(
            "a file system needs a file, and {} is none: choose an initiator that hands a file",
            endpoint.url
        );
    }
    Ok(path)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: name it otherwise", path.display()))
}
