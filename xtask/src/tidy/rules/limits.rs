//! `docs/limits.md` says what the code says.
//!
//! Why: operators read the page, not the sources. It is made by `cargo xtask limits`; a page that was not made again after a change is wrong
//! in the one place where it matters.

use super::super::{Finding, Rule};
use crate::limits::{PAGE, page};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "limits", demands: "docs/limits.md is what `cargo xtask limits` writes", check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let stands = workspace.file(PAGE).is_some_and(|file| file.text == page(workspace));
    if stands { Vec::new() } else { vec![Finding::whole(PAGE, "is stale: cargo xtask limits")] }
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn a_page_that_is_current_passes_and_a_stale_one_is_found() {
        let current = page(&Workspace::default());
        assert_eq!(plant::findings(&RULE, &plant::file(PAGE, &current)), []);
        assert_eq!(plant::lines(&RULE, PAGE, &format!("{current}more\n")), [0]);
    }
}
