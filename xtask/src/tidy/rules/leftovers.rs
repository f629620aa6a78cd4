//! No note to oneself is left in a file.
//!
//! Why: what is not done belongs into an issue, where somebody sees it; in a file it is read for years and done by nobody.

use super::super::source::has_word;
use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "leftovers", demands: "no note to oneself and no debugging macro left behind", check };

/// The words, in two parts each so that this file does not find itself.
const WORDS: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];
const MACROS: &[(&str, &str)] = &[("todo", "!("), ("unimplemented", "!("), ("dbg", "!(")];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in workspace.files.iter().filter(|file| !file.ends_in("lock")) {
        for (index, line) in file.text.lines().enumerate() {
            let hit = hit(line);
            findings.extend(hit.map(|hit| Finding::at(&file.path, index + 1, format!("left behind: {hit}"))));
        }
    }
    findings
}

fn hit(line: &str) -> Option<String> {
    let words = WORDS.iter().map(|(one, two)| format!("{one}{two}")).find(|word| has_word(line, word));
    words.or_else(|| {
        MACROS.iter().map(|(one, two)| format!("{one}{two}")).find(|name| line.contains(name.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn every_word_is_found_where_it_stands_alone() {
        for (one, two) in WORDS.iter().chain(MACROS) {
            let text = format!("fine\n// {one}{two}: later\n");
            assert_eq!(plant::lines(&RULE, "scripts/a.sh", &text), [2], "{text}");
        }
        assert!(plant::lines(&RULE, "docs/a.md", "the TODOS of others\n").is_empty());
    }
}
