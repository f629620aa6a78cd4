//! Texts without the secrets that somebody may have put into them.
//!
//! A URL here never holds a secret: it names the file or the variable with it. But what users type may, in spite of that, and so may
//! URLs of other programs; and an error that repeats such a text ends in a log.

use alloc::string::String;
use alloc::vec::Vec;

/// What stands for a secret.
const HIDDEN: &str = "…";
/// Words in the names of options and keys whose values are secrets.
const WORDS: &[&str] = &["secret", "password", "passwd", "token"];
/// Ends of such names whose values only say where the secret is.
const PLACES: &[&str] = &["file", "env"];

/// The text with `…` in place of users before a URL's host, and of the values of keys that are named after secrets.
pub fn redact(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (kept, skipped) = user(rest).or_else(|| value(rest)).unwrap_or_default();
        hidden.push_str(kept);
        if kept.is_empty() {
            hidden.push(letter);
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        } else {
            hidden.push_str(if skipped == 0 { "" } else { HIDDEN });
            rest = rest.get(kept.len() + skipped..).unwrap_or_default();
        }
    }
    hidden
}

/// True when the text holds what looks like a secret.
pub(crate) fn holds_secret(text: &str) -> bool {
    redact(text) != text
}

/// At `SCHEME://USER@`: what to keep, and how many bytes of user follow it.
fn user(text: &str) -> Option<(&str, usize)> {
    let scheme = word(text)?;
    let after = text.get(scheme.len()..)?.strip_prefix("://")?;
    let url = after.split([' ', '\t', '\n', '"', '\'', '`', '?', '#']).next()?;
    // A password may hold a slash, and a file's path an '@'.
    let user = if scheme.ends_with("file") { 0 } else { url.rfind('@').unwrap_or(0) };
    Some((text.get(..scheme.len() + 3)?, user))
}

/// At `NAME=VALUE` or `"NAME": VALUE`: what to keep, and how many bytes of a secret value follow it. Any other name is kept whole, so
/// that no part of it is taken for another.
fn value(text: &str) -> Option<(&str, usize)> {
    let name = word(text)?;
    let lower = name.to_ascii_lowercase();
    let secret = WORDS.iter().any(|word| lower.contains(word));
    if !secret || PLACES.iter().any(|place| lower.ends_with(place)) {
        return Some((name, 0));
    }
    let after = text.get(name.len()..)?;
    let bare = after.trim_start_matches(['"', '\'']);
    let quoted = bare.len() < after.len();
    let bare = bare.trim_start();
    let assigned = bare.strip_prefix('=').or_else(|| bare.strip_prefix(':').filter(|_| quoted));
    let Some(assigned) = assigned else { return Some((name, 0)) };
    let secret = assigned.trim_start_matches([' ', '\t']);
    let (opening, length) = match secret.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = secret.get(1..).unwrap_or_default();
            (1, inner.find(quote).unwrap_or(inner.len()))
        }
        _ => (0, secret.find(['&', ' ', '\t', '\n', '"', '\'', ',', '}', ')', ';']).unwrap_or(secret.len())),
    };
    let kept = text.len().checked_sub(secret.len())?.checked_add(opening)?;
    Some((text.get(..kept)?, length))
}

/// The name that the text begins with.
fn word(text: &str) -> Option<&str> {
    let belongs = |letter: char| letter.is_ascii_alphanumeric() || "_-+.".contains(letter);
    let end = text.find(|letter| !belongs(letter)).unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

/// The same for each of several words.
pub fn redact_all<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(redact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        for (text, shown) in [
            ("iscsi://bob:MARKER@host/iqn.a:b/0", "iscsi://…@host/iqn.a:b/0"),
            ("delay=5ms+iscsi://bob:MARKER@host/x", "delay=5ms+iscsi://…@host/x"),
            ("iscsi://bob%MARKER@host/x", "iscsi://…@host/x"),
            ("iscsi://bob:MAR/KER@host/x", "iscsi://…@host/x"),
            ("a=iscsi://bob:MARKER@host/x", "a=iscsi://…@host/x"),
            ("exec 'a://u:MARKER@h/' 'b://u:MARKER@h'", "exec 'a://…@h/' 'b://…@h'"),
            ("iscsi://h/x/0?chap_secret=MARKER&timeout=1s", "iscsi://h/x/0?chap_secret=…&timeout=1s"),
            ("iscsi://h/x/0?Password=MARKER", "iscsi://h/x/0?Password=…"),
            ("chap = { user = \"u\", secret = \"MARKER one\" }", "chap = { user = \"u\", secret = \"…\" }"),
            ("chap = { mutual_secret='MARKER' }", "chap = { mutual_secret='…' }"),
            ("{\"secret\": \"MARKER\"}", "{\"secret\": \"…\"}"),
            ("--token=MARKER x", "--token=… x"),
        ] {
            assert_eq!(redact(text), shown);
            assert_eq!(redact(shown), shown, "hiding twice changes nothing");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:a/0?chap_user=u&chap_secret_file=/etc/s&timeout=1s",
            "nvme+tcp://h/nqn.2014-08.a:b/1?header_digest=crc32c",
            "file:/tmp/a@b?size=1G",
            "file:///tmp/a@b",
            "secrets never stand in a URL: put it in a file and name that with chap_secret_file=",
            "iscsi: has no option \"chap_secret\"; it has timeout",
            "token_file = \"/etc/token\"",
            "secret_file = 'x'",
            "ümläut secret",
            "",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
