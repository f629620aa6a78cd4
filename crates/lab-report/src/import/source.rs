//! A file of another tool as text: whichever encoding it came in, and whose lines errors can name.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;

use super::limits;

/// A file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The file's name without its folder: what evidence and errors say.
    pub(super) name: String,
    /// What it holds.
    pub(super) text: String,
    /// When it was last changed (RFC 3339): stands in for a start time that the file does not tell.
    pub(super) modified: String,
}

impl Source {
    /// Reads a file of at most [`limits::LONGEST_FILE`] bytes.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let modified = file.metadata().ok().and_then(|of| of.modified().ok());
        let mut bytes = Vec::new();
        file.take(limits::LONGEST_FILE + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {}", path.display()))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > limits::LONGEST_FILE) {
            bail!(
                "{name} is longer than {} MiB: export a shorter time from the tool that wrote it, or fewer counters",
                limits::LONGEST_FILE >> 20
            );
        }
        let mut source = Self::from_bytes(&name, &bytes);
        if let Some(at) = modified.and_then(|time| Timestamp::try_from(time).ok()) {
            source.modified = seconds_only(at);
        }
        Ok(source)
    }

    /// Of bytes: UTF-8 or UTF-16 with or without a mark, else each byte a character of Latin-1. Lines end in `\n`
    /// afterwards, so that every reader counts them alike.
    pub(super) fn from_bytes(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            text: decode(bytes).replace("\r\n", "\n"),
            modified: seconds_only(Timestamp::UNIX_EPOCH),
        }
    }

    /// An error that names file and line (from 1) and says what to do.
    pub(super) fn error(&self, line: usize, what: impl std::fmt::Display) -> anyhow::Error {
        anyhow::anyhow!("{}:{line}: {what}", self.name)
    }

    /// An error at the end of the file.
    pub(super) fn ends_before(&self, what: &str) -> anyhow::Error {
        let last = self.text.lines().count().max(1);
        self.error(
            last,
            format_args!(
                "the file ends before {what}: it is cut short, or the tool was stopped; copy it again"
            ),
        )
    }
}

/// RFC 3339 without a fraction.
pub(super) fn seconds_only(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

fn decode(bytes: &[u8]) -> String {
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => single(rest),
        [0xFF, 0xFE, rest @ ..] => double(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => double(rest, u16::from_be_bytes),
        [first, 0, _, 0, ..] if *first != 0 => double(bytes, u16::from_le_bytes),
        [0, first, 0, _, ..] if *first != 0 => double(bytes, u16::from_be_bytes),
        _ => single(bytes),
    }
}

fn single(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

fn double(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).filter_map(|pair| <[u8; 2]>::try_from(pair).ok()).map(unit);
    char::decode_utf16(units).map(|sign| sign.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_give_the_same_text() {
        let utf16 = |unit: fn(u16) -> [u8; 2]| "Zähler,1".encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let marked = |mark: &[u8], rest: Vec<u8>| [mark.to_vec(), rest].concat();
        for bytes in [
            "Zähler,1".as_bytes().to_vec(),
            marked(&[0xEF, 0xBB, 0xBF], "Zähler,1".as_bytes().to_vec()),
            marked(&[0xFF, 0xFE], utf16(u16::to_le_bytes)),
            marked(&[0xFE, 0xFF], utf16(u16::to_be_bytes)),
            utf16(u16::to_le_bytes),
            utf16(u16::to_be_bytes),
            b"Z\xE4hler,1".to_vec(),
        ] {
            assert_eq!(Source::from_bytes("a", &bytes).text, "Zähler,1", "{bytes:?}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Source::open(Path::new("/nonexistent/perf.csv")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/perf.csv"), "{error}");
    }
}
