//! Secrets come from files; they are never printed, and never part of an error.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The fewest bytes of a CHAP secret that is used without IPsec (RFC 7143 §12.1.3: 96 bits).
const SHORTEST: usize = 12;
/// The most bytes of a secret: a longer file is no secret.
const LONGEST: u64 = 1024;

/// Reads a secret: the file's content without the line end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let told = || format!("the secret file {}", path.display());
    let meta = std::fs::metadata(path).with_context(|| format!("{} cannot be read", told()))?;
    if meta.len() > LONGEST {
        bail!("{} has {} bytes, more than the {LONGEST} of any secret", told(), meta.len());
    }
    if meta.mode() & 0o077 != 0 {
        tracing::warn!(file = %path.display(), "others can read this secret file: chmod 600 it");
    }
    let mut secret = std::fs::read(path).with_context(|| format!("{} cannot be read", told()))?;
    while secret.last().is_some_and(|&byte| byte == b'\n' || byte == b'\r') {
        secret.pop();
    }
    if secret.len() < SHORTEST {
        bail!("{} holds {} bytes: CHAP needs at least {SHORTEST} (RFC 7143 §12.1.3)", told(), secret.len());
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_end_is_no_part_and_short_secrets_are_refused_without_being_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "twelve-bytes\n").unwrap();
        assert_eq!(read(&file).unwrap(), b"twelve-bytes");
        std::fs::write(&file, "short").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("at least 12") && !error.contains("short"), "{error}");
        assert!(read(&folder.path().join("none")).is_err());
    }
}
