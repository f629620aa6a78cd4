//! A document that a source file speaks of exists.
//!
//! Why: "see X.md, rule 5" in a comment is worth nothing if there is no X.md in the project.

use super::super::{Finding, Rule};
use crate::workspace::{TextFile, Workspace};

pub(super) const RULE: Rule =
    Rule { name: "references", demands: "a document that a source file names exists", check };

const ENDINGS: &[&str] = &["rs", "toml", "sh", "py"];
/// The rules themselves and their tests speak of documents that are not there.
const EXEMPT: &str = "xtask/src/tidy/rules/";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let sources = workspace.files.iter().filter(|file| ENDINGS.iter().any(|ending| file.ends_in(ending)));
    sources
        .filter(|file| !file.path.starts_with(EXEMPT))
        .flat_map(|file| check_file(workspace, file))
        .collect()
}

fn check_file(workspace: &Workspace, file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let missing = documents(line).filter(|name| !exists(workspace, name));
        findings
            .extend(missing.map(|name| Finding::at(&file.path, index + 1, format!("there is no {name}"))));
    }
    findings
}

/// The words of a line that are the name of a Markdown file; patterns are none.
fn documents(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|letter: char| !(letter.is_alphanumeric() || "_-./*".contains(letter)));
    words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.strip_suffix(".md").is_some_and(|name| !name.is_empty()) && !word.contains('*'))
}

fn exists(workspace: &Workspace, name: &str) -> bool {
    let name = name.trim_start_matches("../").trim_start_matches("./");
    let tail = format!("/{name}");
    workspace.files.iter().any(|file| file.path == name || file.path.ends_with(&tail))
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn a_document_that_is_not_there_is_found() {
        let mut workspace = plant::file(
            "crates/a/src/b.rs",
            "//! See docs/there.md and `there.md`.\n//! See GONE.md rule 5.\n",
        );
        workspace.files.push(TextFile::new("docs/there.md", ""));
        let lines: Vec<usize> =
            plant::findings(&RULE, &workspace).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2]);
    }
}
