//! What servers of NFS have in common here: one folder with a file for each volume, and how its files are named to whom.
//!
//! A `ram:` volume is a file in memory, written in full: a read of a hole would copy nothing from anywhere.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::backing;
use super::served::{Endpoint, ServeSpec};

/// Bytes that are written at a time.
const PIECE: usize = 1 << 20;

/// A folder of volumes.
#[derive(Debug)]
pub(super) struct Export {
    /// The folder, which has nothing else in it.
    pub(super) folder: PathBuf,
    /// The names of its files, in the volumes' order.
    pub(super) names: Vec<String>,
    /// Bytes of each.
    pub(super) size: u64,
}

impl Export {
    /// Makes the files of all volumes; those in memory below `scratch`.
    pub(super) fn make(spec: &ServeSpec<'_>, scratch: &Path) -> Result<Self> {
        let size = backing::volume_size(&spec.volumes.url);
        let (mut folder, mut names) = (None, Vec::new());
        for (_, _, number) in backing::numbers(spec.volumes) {
            let url = backing::volume_url(&spec.volumes.url, number, spec.folder);
            let path = file(&url, number, size, scratch)?;
            let parent = path.parent().map(Path::to_path_buf);
            ensure!(
                folder.is_none() || folder == parent,
                "one folder is exported here: put all volumes into the same"
            );
            folder = parent;
            let name = path.file_name().and_then(|name| name.to_str());
            names.push(name.context("a volume's file has no UTF-8 name")?.to_owned());
        }
        Ok(Self { folder: folder.context("there is no volume to export")?, names, size })
    }
}

/// A volume's file: `ram:` in memory, `file:` where it says.
fn file(url: &str, number: u32, size: u64, scratch: &Path) -> Result<PathBuf> {
    match url.split_once(':') {
        Some(("ram", _)) => {
            let folder = scratch.join("export");
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            filled(folder.join(number.to_string()), size)
        }
        Some(("file", _)) => backing::file(url, size),
        _ => bail!("{url} cannot be served over NFS: ram: and file: volumes can"),
    }
}

/// A file of zeros.
fn filled(path: PathBuf, size: u64) -> Result<PathBuf> {
    let zeros = vec![0; PIECE];
    let write = || {
        let mut file = std::fs::File::create(&path)?;
        let mut left = size;
        while left > 0 {
            let piece = zeros.get(..usize::try_from(left).unwrap_or(PIECE)).unwrap_or(&zeros);
            file.write_all(piece)?;
            left = left.saturating_sub(piece.len() as u64);
        }
        std::io::Result::Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Names a file of an NFS server as Linerate does, where it is named as libnfs does: `nfs://HOST/PATH?version=4&nfsport=PORT`. The version is the newest that
/// every server here has.
pub(super) fn for_linerate(endpoint: &Endpoint) -> Endpoint {
    let named = || {
        let (place, options) = endpoint.url.strip_prefix("nfs://")?.split_once('?')?;
        let port = options.split('&').find_map(|option| option.strip_prefix("nfsport="))?;
        let (host, path) = place.split_once('/')?;
        Some(format!("nfs://{host}:{port}/{path}?version=4.1"))
    };
    Endpoint { url: named().unwrap_or_else(|| endpoint.url.clone()), size: endpoint.size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_files_of_the_right_size_and_null_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = file("ram:8K", 1, 8192, folder.path()).unwrap();
        assert_eq!(path, folder.path().join("export/1"));
        assert_eq!(std::fs::read(&path).unwrap(), [0; 8192]);
        let large = filled(folder.path().join("large"), (PIECE + 512) as u64).unwrap();
        assert_eq!(std::fs::metadata(large).unwrap().len(), (PIECE + 512) as u64);
        assert!(file("null:8K", 1, 8192, folder.path()).is_err());
    }

    #[test]
    fn a_file_has_a_name_for_libnfs_and_one_for_linerate() {
        let of = |url: &str| for_linerate(&Endpoint { url: url.to_owned(), size: 1 }).url;
        let named = of("nfs://127.0.0.1/volumes/0?version=4&nfsport=2050");
        assert_eq!(named, "nfs://127.0.0.1:2050/volumes/0?version=4.1");
        named.parse::<names::VolumeUrl>().unwrap();
        assert_eq!(of(&named), named);
        assert_eq!(of("iscsi://h/t/0"), "iscsi://h/t/0");
    }
}
