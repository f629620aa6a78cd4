//! No file of ours is longer than 800 lines.
//!
//! Why: even the best protocol implementations grow one giant connection file. A limit makes the split happen while it is still easy.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule { name: "length", demands: "no source file above 800 lines", check };

/// Lines in a file, at most.
const LIMIT: usize = 800;
const ENDINGS: &[&str] = &["rs", "py", "sh"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let files = workspace.files.iter().filter(|file| ENDINGS.iter().any(|ending| file.ends_in(ending)));
    files
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, count)| *count > LIMIT)
        .map(|(file, count)| Finding::whole(&file.path, format!("{count} lines, of {LIMIT} allowed")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn the_limit_passes_and_one_more_is_found() {
        assert!(plant::lines(&RULE, "a.rs", &"x\n".repeat(LIMIT)).is_empty());
        assert_eq!(plant::lines(&RULE, "a.rs", &"x\n".repeat(LIMIT + 1)).len(), 1);
    }
}
