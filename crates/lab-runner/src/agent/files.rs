//! The files of a session: its folders, and raw output that the lab fetches.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::guard;
use super::limits::{CHUNK, FILES, FILES_BYTES};
use super::message::RawFile;

/// Makes a folder, and those above it. Others may look into it: PostgreSQL runs as a user of its own.
pub(super) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Removes a folder with all that is in it.
pub(super) fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// The files of a load, without folders and whatever else is not to be fetched.
pub(super) fn list(folder: &Path) -> Result<Vec<RawFile>> {
    let mut all = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let (Ok(name), data) = (entry.file_name().into_string(), entry.metadata()?) else { continue };
        if data.is_file() && guard::name(&name).is_ok() {
            all.push(RawFile { name, bytes: data.len() });
        }
    }
    let bytes: u64 = all.iter().map(|file| file.bytes).sum();
    ensure!(all.len() <= FILES && bytes <= FILES_BYTES, "the load left {} files of {bytes} bytes", all.len());
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// A part of a file: [`CHUNK`] bytes, fewer at its end.
pub(super) fn read(path: &Path, offset: u64) -> Result<Vec<u8>> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(file.metadata()?.is_file(), "{} is not a file", path.display());
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(u64::try_from(CHUNK)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_and_read_in_parts() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("load");
        make_folder(&folder).unwrap();
        let content: Vec<u8> = (0..=255).cycle().take(CHUNK + 3).collect();
        fs::write(folder.join("fio.json"), &content).unwrap();
        fs::write(folder.join("a b"), "").unwrap();
        fs::create_dir(folder.join("folder")).unwrap();
        let listed = list(&folder).unwrap();
        assert_eq!(listed, [RawFile { name: "fio.json".to_owned(), bytes: content.len() as u64 }]);
        let path = folder.join("fio.json");
        let parts = [read(&path, 0).unwrap(), read(&path, CHUNK as u64).unwrap()];
        assert_eq!((parts[0].len(), parts[1].len()), (CHUNK, 3));
        assert!(parts.concat() == content && read(&path, 1 << 40).unwrap().is_empty());
        remove(&folder).unwrap();
        assert!(list(&folder).is_err() && remove(&folder).is_err());
    }
}
