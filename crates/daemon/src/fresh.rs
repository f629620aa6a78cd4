//! Files that a start makes, and takes away again if it fails: a mistake in one volume's URL leaves nothing of the others behind.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use names::{Source, VolumeUrl};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A file that was not there when the start began.
#[derive(Debug)]
pub(crate) struct Fresh(PathBuf);

impl Fresh {
    /// The file that opening the volume would make.
    pub(crate) fn of(url: &VolumeUrl) -> Option<Self> {
        let Source::File(file) = &url.source else { return None };
        let path = Path::new(&file.path);
        let makes = file.size.is_some() && !url.is_read_only();
        (makes && fs::symlink_metadata(path).is_err()).then(|| Self(path.to_owned()))
    }

    /// Removes it, unless it holds something or has got another name.
    pub(crate) fn remove(&self) {
        let untouched =
            fs::symlink_metadata(&self.0).is_ok_and(|found| found.is_file() && found.nlink() == 1);
        if untouched && is_one_hole(&self.0) {
            // The start has failed already, and says why: a file more is the lesser evil.
            let _left = fs::remove_file(&self.0);
        }
    }
}

/// A seek for data finds none up to the end (lseek(2), `SEEK_DATA`).
fn is_one_hole(path: &Path) -> bool {
    fs::File::open(path).is_ok_and(|file| seek(&file, SeekFrom::Data(0)) == Err(Errno::NXIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_and_holds_nothing_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let fresh =
            |name: &str| Fresh::of(&format!("file:{}?size=1M", path(name).display()).parse().unwrap());
        let (hole, written, linked) =
            (fresh("hole").unwrap(), fresh("written").unwrap(), fresh("linked").unwrap());
        for name in ["hole", "written", "linked"] {
            fs::File::create(path(name)).unwrap().set_len(1 << 20).unwrap();
        }
        fs::write(path("written"), "x").unwrap();
        fs::hard_link(path("linked"), path("other")).unwrap();
        assert!(fresh("hole").is_none(), "it is there already");
        [hole, written, linked].iter().for_each(Fresh::remove);
        assert_eq!(["hole", "written", "linked"].map(|name| path(name).exists()), [false, true, true]);
        for url in ["ram:1M", "file:/no/such/file", "readonly+file:/no/such/file?size=1M"] {
            assert!(Fresh::of(&url.parse().unwrap()).is_none(), "{url} makes no file");
        }
    }
}
