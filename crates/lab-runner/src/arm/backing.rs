//! What stands behind the volumes of an arm: their URLs, files and folders.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use names::{Source, VolumeUrl};

use super::served::Volumes;
use crate::machine::ledger::{Ledger, Thing};

/// What stands for the folder in a volume's URL.
const FOLDER: &str = "{folder}";

/// Folders that were made so far: each has a name of its own.
static SCRATCH: AtomicU32 = AtomicU32::new(0);

/// Target, LUN and number of every volume, in order.
pub(super) fn numbers(volumes: &Volumes) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
    let luns = volumes.luns.max(1);
    (0..volumes.targets).flat_map(move |target| (0..luns).map(move |lun| (target, lun, target * luns + lun)))
}

/// Where the files of an arm's volumes are, within its folder.
fn storage(folder: &Path) -> PathBuf {
    folder.join("volumes")
}

/// Makes the folder of an arm's volumes, where they are files. It goes with what the lab started: files are large, and mean nothing afterwards.
pub(super) fn make_storage(volumes: &Volumes, folder: &Path, ledger: &mut Ledger) -> Result<()> {
    let path = storage(folder);
    if !volumes.url.contains(FOLDER) || path.is_dir() {
        return Ok(());
    }
    ledger.add(Thing::Folder { path: path.clone() })?;
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
}

/// A volume's URL with its number and the folder of the arm's volumes in their places.
pub(super) fn volume_url(url: &str, number: u32, folder: &Path) -> String {
    url.replace("{n}", &number.to_string()).replace(FOLDER, &storage(folder).display().to_string())
}

/// Bytes of a volume, as its URL says; 0 where it does not.
pub(super) fn volume_size(url: &str) -> u64 {
    url.parse::<VolumeUrl>().map_or(0, |url| size(&url))
}

fn size(url: &VolumeUrl) -> u64 {
    match &url.source {
        Source::Null(memory) | Source::Ram(memory) => memory.size.0,
        Source::File(file) => file.size.map_or(0, |size| size.0),
        // The size of a cache is that of its capacity volume, the last.
        Source::Composite(made) if made.kind == "cache" => made.children.last().map_or(0, size),
        _ => 0,
    }
}

/// The file of a `file:` volume, made and grown to `size` where it is smaller.
pub(super) fn file(url: &str, size: u64) -> Result<PathBuf> {
    let path = url.strip_prefix("file:").and_then(|rest| rest.split('?').next());
    sized(path.with_context(|| format!("{url} is not a file: volume"))?.into(), size)
}

/// Makes a file of at least `size` bytes.
pub(super) fn sized(path: PathBuf, size: u64) -> Result<PathBuf> {
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let grown = file.and_then(|file| if file.metadata()?.len() < size { file.set_len(size) } else { Ok(()) });
    grown.with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// A folder of an arm in memory where there is such a place: for control sockets, whose paths must be short, and for
/// volumes that are to be in memory.
pub(super) fn scratch(name: &str, ledger: &mut Ledger) -> Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let number = SCRATCH.fetch_add(1, Ordering::Relaxed);
    let path = base.join(format!("linerate-lab-{}-{number}-{name}", std::process::id()));
    ledger.add(Thing::Folder { path: path.clone() })?;
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_volumes_go_with_what_the_lab_started() {
        let run = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(&run.path().join("ledger.jsonl")).unwrap();
        let volumes = Volumes { targets: 1, luns: 1, url: "file:{folder}/{n}.img?size=1M".to_owned() };
        make_storage(&volumes, run.path(), &mut ledger).unwrap();
        make_storage(&volumes, run.path(), &mut ledger).unwrap();
        let image = file(&volume_url(&volumes.url, 0, run.path()), 1 << 20).unwrap();
        std::fs::write(run.path().join("target.stderr"), "words").unwrap();
        assert!(image.is_file());
        assert_eq!(ledger.left().count(), 1);
        let _told = ledger.tear_down();
        assert!(!image.exists() && run.path().join("target.stderr").is_file());
    }

    #[test]
    fn sizes_are_those_that_urls_name() {
        let of = |url: &str| volume_size(url) >> 20;
        assert_eq!((of("null:600M"), of("limit=5iops+ram:64M?block=4096")), (600, 64));
        assert_eq!((of("file:{folder}/{n}.img?direct=1&size=32M"), of("file:/there")), (32, 0));
        assert_eq!(of("cache=[delay=75us+limit=35550iops+ram:16M,delay=5ms+ram:64M]?mode=back"), 64);
    }

    #[test]
    fn volumes_in_memory_need_no_folder() {
        let run = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(&run.path().join("ledger.jsonl")).unwrap();
        let volumes = Volumes { targets: 1, luns: 1, url: "ram:1M".to_owned() };
        make_storage(&volumes, run.path(), &mut ledger).unwrap();
        assert!(!storage(run.path()).exists() && ledger.left().next().is_none());
    }
}
