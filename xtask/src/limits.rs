//! `cargo xtask limits`: `docs/limits.md`, gathered from every crate's `limits.rs`.
//!
//! The number, its unit and its reason stand once, in the code; the page for operators is made from them, and tidy fails when it is stale.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use crate::workspace::{self, TextFile, Workspace};

/// Where the page stands.
pub(crate) const PAGE: &str = "docs/limits.md";

const OPENING: &str = "\
# Limits

Every queue, table and loop that a peer can drive has a limit with a name, a unit and a reason. They stand in one file per crate, `limits.rs`;
this page is gathered from those files by `cargo xtask limits`. Reaching a limit is a tested behaviour, not an error in the program. What may be
configured is set under `[limits]` in the configuration file.
";

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    let page = page(&Workspace::load()?);
    std::fs::write(workspace::root()?.join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))
}

/// The page as it should be.
pub(crate) fn page(workspace: &Workspace) -> String {
    let mut page = OPENING.to_owned();
    let mut files: Vec<&TextFile> =
        workspace.files.iter().filter(|file| file.path.ends_with("/limits.rs")).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    for file in files.into_iter().filter(|file| file.path.starts_with("crates/")) {
        let rows = rows(&file.text);
        if !rows.is_empty() {
            let title =
                file.path.trim_start_matches("crates/").replace("/src/", "/").replace("/limits.rs", "");
            let _ = write!(
                page,
                "\n## {title}\n\n| limit | value | what, and why |\n|---|---|---|\n{}",
                rows.concat()
            );
        }
    }
    page
}

/// A table row for each constant with a documentation comment.
fn rows(text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("///") {
            words.push(comment.trim());
            continue;
        }
        if let Some(constant) = constant(line) {
            let mut value = constant.1.to_owned();
            while !value.ends_with(';') {
                let Some(more) = lines.next() else { break };
                value.push(' ');
                value.push_str(more);
            }
            let value = value.trim_end_matches(';').trim().replace('|', "\\|");
            rows.push(format!(
                "| `{}` | `{value}` | {} |\n",
                constant.0,
                words.join(" ").replace('|', "\\|")
            ));
        }
        words.clear();
    }
    rows
}

/// The name of a constant and the beginning of its value, if the line defines one.
fn constant(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub(super) ")).unwrap_or(line);
    let rest = rest.strip_prefix("pub ").unwrap_or(rest).strip_prefix("const ")?;
    let (name, rest) = rest.split_once(':')?;
    rest.split_once('=').map(|(_, value)| (name, value.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_constant_becomes_a_row_with_its_words_and_value() {
        let text = "//! x\n\n/// Bytes of a thing\n/// (section 4).\npub const A: usize = 4 |\n    8;\n/// Not a limit.\npub fn f() {}\nconst B: u8 = 1;\n";
        assert_eq!(
            rows(text),
            ["| `A` | `4 \\| 8` | Bytes of a thing (section 4). |\n", "| `B` | `1` |  |\n"]
        );
    }

    #[test]
    fn crates_are_in_order_and_others_are_left_out() {
        let limits = |path: &str| TextFile::new(path, "/// x\nconst A: u8 = 1;\n");
        let files = vec![
            limits("crates/b/src/limits.rs"),
            limits("crates/a/src/c/limits.rs"),
            limits("xtask/src/limits.rs"),
        ];
        let page = page(&Workspace { files, ..Workspace::default() });
        let titles: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(titles, ["## a/c", "## b"]);
    }
}
