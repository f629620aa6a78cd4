//! `reactor` and `backends` contain no protocol's name.
//!
//! Why: they move bytes and blocks for any protocol. A special case for one of them would not show in the types, but it would show in a
//! name. Comments may name protocols as examples; code and messages may not.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "protocol-names", demands: "reactor and backends contain no protocol's name", check };

const FOLDERS: &[&str] = &["crates/reactor/src/", "crates/backends/src/"];
const NAMES: &[&str] = &["iscsi", "scsi", "nvme", "nfs", "iser", "iwarp", "iqn", "nqn"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in
        FOLDERS.iter().flat_map(|folder| workspace.rust_under(folder)).filter(|(file, _)| !file.is_test())
    {
        for (number, line) in source.lines_with_strings() {
            let hits = words(line).filter(|word| NAMES.contains(&word.as_str()));
            findings.extend(
                hits.map(|word| Finding::at(&file.path, number, format!("names a protocol: {word}"))),
            );
        }
    }
    findings
}

/// The words of a line in small letters; `IscsiTarget` and `iscsi_target` both have two.
fn words(line: &str) -> impl Iterator<Item = String> {
    let mut split = String::with_capacity(line.len());
    let mut previous = ' ';
    for letter in line.chars() {
        if letter.is_uppercase() && previous.is_lowercase() {
            split.push(' ');
        }
        split.push(if letter.is_alphanumeric() { letter } else { ' ' });
        previous = letter;
    }
    split.to_lowercase().split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn comments_tests_other_crates_and_other_words_pass() {
        let text =
            "//! as iscsi does\nfn f(confs: u8) {} // nvme\n#[cfg(test)]\nmod tests { fn iscsi() {} }\n";
        assert!(plant::lines(&RULE, "crates/reactor/src/lib.rs", text).is_empty());
        assert!(plant::lines(&RULE, "crates/engine/src/lib.rs", "fn iscsi() {}").is_empty());
    }

    #[test]
    fn names_in_code_and_messages_are_found() {
        let text = "//! x\nstruct IscsiPort;\nfn nvme_queue() {}\nconst M: &str = \"an nfs call\";\n";
        assert_eq!(plant::lines(&RULE, "crates/backends/src/file.rs", text), [2, 3, 4]);
    }
}
