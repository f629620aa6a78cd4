//! Nothing of the machine that a file was written on stands in it: no home folder, no mirror, no registry address.
//!
//! Why: the project must build anywhere. Package addresses come from the machine's own configuration.

use super::super::{Finding, Rule};
use crate::workspace::{TextFile, Workspace};

pub(super) const RULE: Rule =
    Rule { name: "machine", demands: "no path of a machine and no registry address", check };

/// Folders that only one machine has, in two parts each so that this file does not find itself.
const FOLDERS: &[(&str, &str)] = &[("/wo", "rk/"), ("/fa", "rm/"), ("/ro", "ot/"), ("/ho", "me/")];
/// What configures an address of packages.
const ADDRESSES: &[(&str, &str)] = &[
    ("index", "-url"),
    ("replace", "-with"),
    ("deb ", "http"),
    ("GO", "PROXY="),
    ("arti", "factory"),
    ("registry", " = \"http"),
];
/// The one source that a lock file may name.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let lock = file.ends_in("lock");
    let complaint = |line: &str| if lock { foreign_source(line) } else { machine(line) };
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            complaint(line).map(|message| Finding::at(&file.path, index + 1, message))
        })
        .collect()
}

fn foreign_source(line: &str) -> Option<String> {
    let source = line.strip_prefix("source = \"")?;
    (!source.starts_with(CRATES_IO)).then(|| format!("a source other than crates.io: {source}"))
}

fn machine(line: &str) -> Option<String> {
    let folder =
        FOLDERS.iter().map(|(one, two)| format!("{one}{two}")).find(|folder| begins_path(line, folder));
    let address =
        || ADDRESSES.iter().map(|(one, two)| format!("{one}{two}")).find(|word| line.contains(word.as_str()));
    folder.or_else(address).map(|hit| format!("of one machine only: {hit}"))
}

/// Whether a path begins with the folder: what stands before is no part of a longer path or of an address.
fn begins_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        !before.is_some_and(|letter| letter.is_alphanumeric() || "/._-}$~".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn folders_and_addresses_are_found() {
        for (one, two) in FOLDERS.iter().chain(ADDRESSES) {
            let text = format!("fine\nx = {one}{two}x\n");
            assert_eq!(plant::lines(&RULE, "docs/a.md", &text), [2], "{text}");
        }
    }

    #[test]
    fn longer_paths_pass() {
        let text = format!("target{0}{1}x and https://example.org{0}{1}x\n", FOLDERS[0].0, FOLDERS[0].1);
        assert!(plant::lines(&RULE, "docs/a.md", &text).is_empty());
    }

    #[test]
    fn a_lock_file_names_crates_io_only() {
        let good = format!("source = \"{CRATES_IO}\"\n");
        assert!(plant::lines(&RULE, "Cargo.lock", &good).is_empty());
        assert_eq!(plant::lines(&RULE, "Cargo.lock", "source = \"git+https://example.org/x\"\n"), [1]);
    }
}
