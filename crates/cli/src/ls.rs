//! `linerate ls`: what a directory at an NFS server holds.

use anyhow::Result;
use clap::Parser;
use linerate::Entry;
use names::NfsUrl;
use serde::Serialize;

use crate::directory::directory;
use crate::output;

/// What a user should know.
const MEANING: &str = "Names come in the server's order, one on each line, a directory's with a slash behind it. What a terminal would obey, and bytes that are no \
    UTF-8, are shown as \\u{…} and \\x….";

/// Arguments of `ls`.
#[derive(Debug, Parser)]
#[command(after_help = MEANING)]
pub(crate) struct Args {
    /// The directory, such as nfs://127.0.0.1/files
    #[arg(value_name = "URL", value_parser = directory)]
    url: NfsUrl,
    /// Show kind, size in bytes and time of the last change before each name: d is a directory, l a symbolic link, - a file, ? anything else
    #[arg(long, short)]
    long: bool,
    /// Print each name as a line of JSON
    #[arg(long, conflicts_with = "long")]
    json: bool,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    File,
    Directory,
    SymbolicLink,
    Other,
}

impl Kind {
    /// By `nfs_ftype4` (RFC 8881 §3.2).
    const fn of(entry: &Entry) -> Self {
        match entry.kind {
            Some(1) => Self::File,
            Some(2) => Self::Directory,
            Some(5) => Self::SymbolicLink,
            _ => Self::Other,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::File => '-',
            Self::Directory => 'd',
            Self::SymbolicLink => 'l',
            Self::Other => '?',
        }
    }
}

/// An entry as JSON.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    kind: Kind,
    /// Bytes.
    size: Option<u64>,
    modified: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    linerate::list_directory(&args.url, |entry| show(args, &entry))
}

fn show(args: &Args, entry: &Entry) -> Result<()> {
    let Entry { size, .. } = *entry;
    let (name, kind, modified) = (shown(&entry.name), Kind::of(entry), modified(entry));
    if args.json {
        return output::json(&Row { name, kind, size, modified });
    }
    let slash = if kind == Kind::Directory { "/" } else { "" };
    if args.long {
        let size = size.map_or_else(|| "?".to_owned(), |size| size.to_string());
        let modified = modified.unwrap_or_else(|| "?".to_owned());
        return output::line(&format!("{} {size:>15} {modified:20} {name}{slash}", kind.letter()));
    }
    output::line(&format!("{name}{slash}"))
}

/// The time of the last change, of UTC; nothing for one that no calendar has.
fn modified(entry: &Entry) -> Option<String> {
    let at = jiff::Timestamp::from_second(entry.modified?).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A name for people.
fn shown(name: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(name) else { return name.escape_ascii().to_string() };
    let each = text.chars().map(|letter| match letter {
        '\\' => "\\\\".to_owned(),
        obeyed if obeyed.is_control() => obeyed.escape_unicode().to_string(),
        other => other.to_string(),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_and_never_obeyed() {
        assert_eq!(shown("Grüße".as_bytes()), "Grüße");
        assert_eq!(shown(b"a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(shown(b"back\\slash"), "back\\\\slash");
        assert_eq!(shown(b"\xff\n"), "\\xff\\n");
    }

    #[test]
    fn a_time_that_no_calendar_has_is_left_out() {
        let at = |modified| super::modified(&Entry { name: Vec::new(), kind: Some(1), size: None, modified });
        assert_eq!(at(Some(1_000_000_000)).as_deref(), Some("2001-09-09T01:46:40Z"));
        assert_eq!((at(Some(i64::MAX)), at(None)), (None, None));
    }
}
