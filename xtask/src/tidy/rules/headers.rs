//! Every Rust file opens with `//!`.
//!
//! Why: whoever opens a file first needs to know what it is for, why it is here, and which section of a standard it follows. Tests and build
//! scripts are read too.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule { name: "headers", demands: "every .rs file opens with //!", check };

/// Fewer letters than this say nothing.
const SHORTEST: usize = 12;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let files = workspace.rust_under("").map(|(file, _)| file);
    files
        .filter(|file| !opens_well(&file.text))
        .map(|file| Finding::at(&file.path, 1, "does not open with //! and what the file is for"))
        .collect()
}

fn opens_well(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("//! ").is_some_and(|words| words.trim().len() >= SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn a_file_that_says_why_passes_and_others_are_found() {
        assert!(plant::lines(&RULE, "crates/a/src/b.rs", "//! Bounded readers.\n").is_empty());
        for text in ["use a;\n", "\n//! Too late to matter.\n", "//! x\n", ""] {
            assert_eq!(plant::lines(&RULE, "crates/a/tests/b.rs", text), [1], "{text:?}");
        }
    }
}
