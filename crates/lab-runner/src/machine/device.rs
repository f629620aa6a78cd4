//! Whether a block device may be overwritten: only if it holds nothing, or its serial number was given by hand.
//!
//! A wrong letter in a site file must not cost anybody a disk. A device with a file system, a partition table, a mount or
//! a holder (RAID, LVM) is refused unless `--destroy SERIAL` names it.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::machine::program;

/// What `lsblk` tells of a device.
#[derive(Debug, Clone, Deserialize)]
struct Described {
    #[serde(default)]
    serial: Option<String>,
    #[serde(default)]
    fstype: Option<String>,
    #[serde(default)]
    pttype: Option<String>,
    #[serde(default)]
    mountpoints: Vec<Option<String>>,
    #[serde(default)]
    children: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Listing {
    blockdevices: Vec<Described>,
}

/// What `wipefs` finds on a device; it prints nothing when that is nothing.
#[derive(Debug, Deserialize)]
struct Signatures {
    signatures: Vec<Signature>,
}

#[derive(Debug, Deserialize)]
struct Signature {
    #[serde(rename = "type")]
    kind: String,
}

/// How long a look at a device may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Refuses a block device that holds something, unless its serial number is among `destroy`. What is no block device is
/// not this function's business.
pub fn may_overwrite(path: &Path, destroy: &BTreeSet<String>) -> Result<()> {
    let kind =
        std::fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.file_type();
    if !kind.is_block_device() {
        return Ok(());
    }
    let output = Command::new("lsblk")
        .args(["--json", "--output", "SERIAL,FSTYPE,PTTYPE,MOUNTPOINTS"])
        .arg(path)
        .output()
        .context("cannot run lsblk, which says what a device holds: install util-linux")?;
    let mut listing: Listing = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("lsblk says nothing about {}", path.display()))?;
    for device in &mut listing.blockdevices {
        // lsblk repeats what udev wrote down, which is nothing where there is no udev, as in containers.
        if holds(device).is_none() {
            device.fstype = signature(path)?;
        }
        judge(device, destroy).with_context(|| format!("{} is not overwritten", path.display()))?;
    }
    Ok(())
}

/// Refuses what is not a block device whose serial number is among `destroy`, whether it holds something or not.
pub fn is_expendable(path: &Path, destroy: &BTreeSet<String>) -> Result<()> {
    let kind =
        std::fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.file_type();
    if !kind.is_block_device() {
        bail!("{} is no block device: only drives are preconditioned", path.display());
    }
    let words = ["lsblk", "--nodeps", "--json", "--output", "SERIAL", &path.display().to_string()];
    let listing: Listing = serde_json::from_str(&program::output(&words, LIMIT)?)
        .with_context(|| format!("lsblk says nothing about {}", path.display()))?;
    let serial = listing.blockdevices.into_iter().next().and_then(|device| device.serial);
    permit(serial.as_deref(), destroy).with_context(|| {
        format!("{} is not preconditioned, which would overwrite all of it twice", path.display())
    })
}

fn permit(serial: Option<&str>, destroy: &BTreeSet<String>) -> Result<()> {
    match serial.filter(|serial| !serial.is_empty()) {
        Some(serial) if destroy.contains(serial) => Ok(()),
        Some(serial) => {
            bail!("it is not declared expendable; if all of it may be lost, give --destroy {serial}")
        }
        None => bail!("it has no serial number by which it could be declared expendable"),
    }
}

/// The first signature (file system, partition table, RAID, …) on the device itself.
fn signature(path: &Path) -> Result<Option<String>> {
    let words = ["wipefs", "--json", "--no-act", &path.display().to_string()];
    let said = program::output(&words, LIMIT)
        .with_context(|| format!("cannot tell what {} holds, so it is not overwritten", path.display()))?;
    if said.trim().is_empty() {
        return Ok(None);
    }
    let found: Signatures = serde_json::from_str(&said)
        .with_context(|| format!("wipefs is not understood about {}: {said:?}", path.display()))?;
    Ok(found.signatures.into_iter().next().map(|signature| signature.kind))
}

fn judge(device: &Described, destroy: &BTreeSet<String>) -> Result<()> {
    let Some(holds) = holds(device) else { return Ok(()) };
    match device.serial.as_deref().filter(|serial| !serial.is_empty()) {
        Some(serial) if destroy.contains(serial) => Ok(()),
        Some(serial) => bail!("it holds {holds}; if that may be lost, give --destroy {serial}"),
        None => {
            bail!("it holds {holds}, and has no serial number by which to allow it: wipe it by hand (wipefs)")
        }
    }
}

fn holds(device: &Described) -> Option<String> {
    if let Some(mount) = device.mountpoints.iter().flatten().next() {
        return Some(format!("what is mounted at {mount}"));
    }
    if !device.children.is_empty() {
        return Some("partitions, or a part of a RAID or volume group".to_owned());
    }
    let named = |what: &str, value: &Option<String>| value.as_ref().map(|name| format!("a {what} ({name})"));
    named("file system", &device.fstype).or_else(|| named("partition table", &device.pttype))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(json: &str, destroy: &[&str]) -> Result<(), String> {
        let listing: Listing = serde_json::from_str(json).unwrap();
        let destroy = destroy.iter().map(|serial| (*serial).to_owned()).collect();
        judge(&listing.blockdevices[0], &destroy).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_empty_device_is_free_and_one_that_holds_something_is_not() {
        let empty = r#"{"blockdevices":[{"serial":"S1","fstype":null,"pttype":null,"mountpoints":[null]}]}"#;
        assert_eq!(verdict(empty, &[]), Ok(()));
        for (field, part) in [
            (r#""fstype":"ext4""#, "file system (ext4)"),
            (r#""pttype":"gpt""#, "partition table (gpt)"),
            (r#""mountpoints":["/srv"]"#, "/srv"),
            (r#""children":[{"serial":null}]"#, "partitions"),
        ] {
            let device = format!(r#"{{"blockdevices":[{{"serial":"S1",{field}}}]}}"#);
            let refused = verdict(&device, &["S2"]).unwrap_err();
            assert!(refused.contains(part) && refused.contains("--destroy S1"), "{refused}");
            assert_eq!(verdict(&device, &["S1"]), Ok(()));
            let nameless = device.replace(r#""S1""#, "null");
            assert!(verdict(&nameless, &["S1"]).unwrap_err().contains("wipefs"));
        }
    }

    #[test]
    fn only_a_drive_that_is_named_by_its_serial_number_is_preconditioned() {
        let named = BTreeSet::from(["S1".to_owned()]);
        assert!(permit(Some("S1"), &named).is_ok());
        let said = |serial, destroy: &BTreeSet<String>| permit(serial, destroy).unwrap_err().to_string();
        assert!(said(Some("S2"), &named).contains("give --destroy S2"));
        assert!(said(Some("S1"), &BTreeSet::new()).contains("not declared expendable"));
        assert!(
            said(None, &named).contains("no serial number") && said(Some(""), &named).contains("no serial")
        );
        let folder = tempfile::tempdir().unwrap();
        assert!(is_expendable(folder.path(), &named).unwrap_err().to_string().contains("no block device"));
    }

    #[test]
    fn a_file_is_no_device() {
        let folder = tempfile::tempdir().unwrap();
        assert!(may_overwrite(folder.path(), &BTreeSet::new()).is_ok());
    }
}
