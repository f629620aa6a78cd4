//! Raw output of tools: reading it, and saying which file it was when it is not what it should be.
//!
//! Tools end early, print warnings before their JSON, or are killed in the middle of a line. None of it may panic, and an
//! error must lead to the file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

/// Lines of standard error that a message repeats.
const TAIL_LINES: usize = 5;
/// Bytes of standard error that a message repeats at most: a tool may print megabytes without a line's end.
const TAIL_BYTES: usize = 1000;

/// The whole file; bytes that are no UTF-8 are replaced, since iscsi-perf prints its author's name in several encodings.
pub(super) fn text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| {
        format!("{}: the tool's output cannot be read: run the point again", path.display())
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file's first JSON object. What stands on lines before it is the tool's chatter.
pub(super) fn json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let all = text(path)?;
    let mut begin = 0;
    for line in all.split_inclusive('\n') {
        if line.starts_with('{') {
            break;
        }
        begin += line.len();
    }
    let object = all.get(begin..).unwrap_or_default();
    let first = serde_json::Deserializer::from_str(object).into_iter().next();
    match first {
        Some(read) => read.map_err(|error| {
            let skipped = all.get(..begin).unwrap_or_default().lines().count();
            anyhow!(
                "{}: not the tool's JSON as this lab knows it (line {}, column {}: {error}): was the tool killed, or is \
                 its version another?",
                path.display(),
                error.line() + skipped,
                error.column()
            )
        }),
        None => bail!(
            "{}: holds no JSON{}: the tool ended before it could report",
            path.display(),
            if all.is_empty() { ", it is empty" } else { "" }
        ),
    }
}

/// The file's last lines, for a message; empty when there is none.
pub(super) fn tail(path: &Path) -> String {
    let Ok(bytes) = fs::read(path) else { return String::new() };
    let last = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
    let last = String::from_utf8_lossy(last);
    let lines: Vec<&str> = last.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}

/// A number after `label` on a line, such as 12.5 in `tps = 12.5 (…)`.
pub(super) fn number_after(line: &str, label: &str) -> Option<f64> {
    let (_, rest) = line.split_once(label)?;
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chatter_before_and_after_the_object_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        fs::write(&path, "fio: connected\n{\n\"a\": 1\n}\nfio: bye\n").unwrap();
        let value: serde_json::Value = json(&path).unwrap();
        assert_eq!(value["a"], 1);
    }

    #[test]
    fn an_error_names_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            format!("{:#}", json::<serde_json::Value>(&path).unwrap_err())
        };
        assert!(
            said("chatter\n{\n\"a\": oops\n}")
                .contains("x.json: not the tool's JSON as this lab knows it (line 3")
        );
        assert!(said("").contains("x.json: holds no JSON, it is empty"));
        assert!(said("chatter only").contains("x.json: holds no JSON:"));
    }

    #[test]
    fn a_tail_is_short_whatever_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr");
        fs::write(&path, [&[0xff; 5000][..], b"\none\n\ntwo\n"].concat()).unwrap();
        assert!(tail(&path).ends_with("one\ntwo"));
        assert!(tail(&path).chars().count() <= TAIL_BYTES);
        assert_eq!(tail(&folder.path().join("none")), "");
    }

    #[test]
    fn a_number_follows_its_label() {
        assert_eq!(number_after("tps = 2272.228492 (without)", "tps ="), Some(2_272.228_492));
        assert_eq!(number_after("tps = none", "tps ="), None);
        assert_eq!(number_after("lat 3 ms", "tps"), None);
    }
}
