//! Secrets come from files; they are never printed, and never part of an error.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Result, anyhow, bail};

/// The fewest bytes of a CHAP secret that is used without IPsec (RFC 7143 §12.1.3: 96 bits).
const SHORTEST: usize = 12;
/// The most bytes of a secret: a longer file is no secret.
const LONGEST: u64 = 1024;

/// Reads a secret: the file's content without the line end. A file that others can read is told in `warnings`.
pub(crate) fn read(path: &Path, warnings: &mut Vec<String>) -> Result<Vec<u8>> {
    let told = || format!("the secret file {}", path.display());
    let unreadable = |error: std::io::Error| {
        let remedy = remedy(&error);
        anyhow!("{} cannot be read: {error}; {remedy}", told())
    };
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if meta.is_dir() {
        bail!("{} is a folder: check the path", told());
    }
    if meta.len() > LONGEST {
        bail!(
            "{} has {} bytes, more than the {LONGEST} of any secret: name a file that holds the secret alone",
            told(),
            meta.len()
        );
    }
    if meta.mode() & 0o077 != 0 {
        warnings.push(format!("others can read the secret file {}: chmod 600 it", path.display()));
    }
    let mut secret = std::fs::read(path).map_err(unreadable)?;
    while secret.last().is_some_and(|&byte| byte == b'\n' || byte == b'\r') {
        secret.pop();
    }
    if secret.len() < SHORTEST {
        bail!(
            "{} holds {} bytes: CHAP needs at least {SHORTEST} (RFC 7143 §12.1.3); write a longer one on both sides",
            told(),
            secret.len()
        );
    }
    Ok(secret)
}

/// What helps against a secret file that cannot be read.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "check secret_file, or put the secret there, for this user alone (chmod 600)",
        ErrorKind::PermissionDenied => "let the server's user read it (chown, chmod 600)",
        _ => "check the path",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_end_is_no_part_and_short_secrets_are_refused_without_being_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "twelve-bytes\n").unwrap();
        let mut warnings = Vec::new();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(read(&file, &mut warnings).unwrap(), b"twelve-bytes");
        assert!(warnings[0].contains("chmod 600") && !warnings[0].contains("twelve"), "{warnings:?}");
        std::fs::write(&file, "short").unwrap();
        let error = read(&file, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("at least 12") && !error.contains("short"), "{error}");
        let error = read(&folder.path().join("none"), &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("put the secret there"), "{error}");
        let error = read(folder.path(), &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("check the path"), "{error}");
    }
}
