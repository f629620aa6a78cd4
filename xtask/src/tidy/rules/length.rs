//! A hint at files of ours that are longer than 800 lines.
//!
//! Why: even the best protocol implementations grow one giant connection file, and the split is easier while the file is young. The number is where
//! a reader asks whether the file holds one component. A good reason is enough, and a file that is cut only to pass a count is worse than a long one:
//! so this is a hint and breaks nothing.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "length", demands: "a source file above 800 lines has a good reason", check };

/// Lines from which on the question is asked.
const ASKED_FROM: usize = 800;
const ENDINGS: &[&str] = &["rs", "py", "sh"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let files = workspace.files.iter().filter(|file| ENDINGS.iter().any(|ending| file.ends_in(ending)));
    files
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, count)| *count > ASKED_FROM)
        .map(|(file, count)| {
            Finding::whole(&file.path, format!("{count} lines: does it hold one component?"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn a_file_is_hinted_at_from_one_line_beyond_the_number() {
        assert!(plant::lines(&RULE, "a.rs", &"x\n".repeat(ASKED_FROM)).is_empty());
        assert_eq!(plant::lines(&RULE, "a.rs", &"x\n".repeat(ASKED_FROM + 1)).len(), 1);
    }
}
