//! The ready file: notifies scripts that the device is there, and where.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `line`. The file appears whole: it is written beside its place and renamed.
pub(crate) fn write(path: &Path, line: &str) -> Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, format!("{line}\n"))
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("the ready file {} cannot be written", path.display()))
}

/// Takes away the file of an earlier adapter: while there is one, scripts believe that the device is there.
pub(crate) fn remove(path: Option<&Path>) -> Result<()> {
    match path.map(|path| (path, std::fs::remove_file(path))) {
        Some((path, Err(error))) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("the old ready file {} cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_holds_the_line_and_nothing_is_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        super::write(&path, "nbd 127.0.0.1:10809").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nbd 127.0.0.1:10809\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        super::remove(Some(&path)).unwrap();
        assert!(!path.exists() && super::remove(Some(&path)).is_ok());
        let said = super::remove(Some(folder.path())).unwrap_err().to_string();
        assert!(said.contains("the old ready file"), "{said}");
    }
}
