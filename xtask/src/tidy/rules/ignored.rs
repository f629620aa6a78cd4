//! Every ignored test says why.
//!
//! Why: a test that does not run proves nothing, and without a reason nobody dares to take the mark off.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule { name: "ignored", demands: "every #[ignore] has a reason", check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under("") {
        let bare = source.code_lines().filter(|(_, line)| line.replace(' ', "").contains("#[ignore]"));
        findings.extend(
            bare.map(|(number, _)| Finding::at(&file.path, number, "an ignored test without a reason")),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn a_reason_passes_and_none_is_found() {
        assert!(plant::lines(&RULE, "a.rs", "#[ignore = \"needs root: make test-vm\"]\n").is_empty());
        assert_eq!(plant::lines(&RULE, "a.rs", "#[test]\n#[ignore]\n"), [2]);
    }
}
