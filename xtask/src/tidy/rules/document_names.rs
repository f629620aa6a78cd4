//! What a document says of the code is there: the files it names exist, and so do the types, functions and fields.
//!
//! Why: a map that names a file that has moved costs its reader more than no map. Two kinds of words are looked at:
//!
//! * a path that ends like one of our sources, or begins with a folder of the project. A document may leave out the front of a path
//!   (`target/get_data.rs`);
//! * in backticks, an identifier of more than one word (`ListenerRole`, `take_placement`) or a path of identifiers (`Queues::submit`), which the
//!   sources must have as words.
//!
//! The changelog and the decision records are left out, as they tell of the past, and so is docs/limits.md, which is made from the sources. Blocks of
//! code show what users write, and are no names of ours.

use std::collections::HashSet;

use super::super::{Finding, Rule};
use crate::workspace::{TextFile, Workspace};

pub(super) const RULE: Rule =
    Rule { name: "document names", demands: "files and identifiers that documents name exist", check };

/// What tells of the past, or is made from the sources.
const EXEMPT: &[&str] = &["CHANGELOG.md", "docs/decisions/", "docs/glossary.md", "docs/limits.md"];
/// Identifiers of other programs.
const FOREIGN: &[&str] = &["user_allow_other"];
/// How sources of ours end.
const ENDINGS: &[&str] = &[".rs", ".table", ".golden"];
/// Folders at the root whose files documents name.
const FOLDERS: &[&str] = &[
    "conformance/",
    "crates/",
    "docs/",
    "fio-engine/",
    "fuzz/",
    "python/",
    "scenarios/",
    "schema/",
    "scripts/",
    "xtask/",
];
/// What stands in a path for any name.
const PATTERN: &[char] = &['*', '…', '<'];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let documents = workspace.files.iter().filter(|file| file.ends_in("md"));
    let present = documents.filter(|file| !EXEMPT.iter().any(|past| file.path.starts_with(past)));
    let names = Names::of(workspace);
    present.flat_map(|file| check_file(file, &names)).collect()
}

/// What there is to be named.
struct Names<'a> {
    paths: Vec<&'a str>,
    words: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(workspace: &'a Workspace) -> Self {
        let texts = workspace.files.iter().map(|file| file.path.as_str());
        let paths = texts.chain(workspace.others.iter().map(String::as_str)).collect();
        let rust = workspace.rust_under("");
        let rust = rust
            .flat_map(|(_, source)| source.code_lines().chain(source.lines_with_strings()))
            .map(|(_, line)| line);
        let others = workspace.files.iter().filter(|file| file.source.is_none() && !file.ends_in("md"));
        let lines = rust.chain(others.flat_map(|file| file.text.lines()));
        Self { paths, words: lines.flat_map(words).collect() }
    }

    /// Whether there is a file or folder of this path, whose front may be left out.
    fn has_path(&self, path: &str) -> bool {
        let inside = format!("/{path}");
        let beneath = format!("{}/", path.trim_end_matches('/'));
        let within = format!("/{beneath}");
        self.paths.iter().any(|own| {
            *own == path || own.ends_with(&inside) || own.starts_with(&beneath) || own.contains(&within)
        })
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

fn check_file(file: &TextFile, names: &Names<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_block = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let files =
            paths(line).filter(|path| !names.has_path(path)).map(|path| format!("there is no file {path}"));
        let unknown = identifiers(line).filter(|name| !names.words.contains(name) && !FOREIGN.contains(name));
        let unknown = unknown.map(|name| format!("the sources have no `{name}`"));
        findings.extend(files.chain(unknown).map(|message| Finding::at(&file.path, index + 1, message)));
    }
    findings
}

/// The paths of a line that lead to files of ours.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|letter: char| letter.is_whitespace() || "`()[],;:\"|".contains(letter));
    words.map(|word| word.trim_end_matches('.').trim_start_matches("../").trim_start_matches("./")).filter(
        |word| {
            let ours =
                ENDINGS.iter().any(|ending| word.strip_suffix(ending).is_some_and(|name| !name.is_empty()))
                    || FOLDERS
                        .iter()
                        .any(|folder| word.strip_prefix(folder).is_some_and(|rest| !rest.is_empty()));
            ours && !word.starts_with("//") && !word.contains(PATTERN) && !is_placeholder(word)
        },
    )
}

/// Whether a part of a path is in capitals, and so stands for any name.
fn is_placeholder(path: &str) -> bool {
    path.split(['/', '.'])
        .any(|part| part.len() > 1 && part.chars().all(char::is_uppercase) && part != "README")
}

/// The identifiers in a line's backticks that only code has: of several words, or in a path of identifiers.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted
        .map(|text| text.split_once('(').map_or(text, |(name, _)| name))
        .filter(|text| is_path_of_identifiers(text))
        .flat_map(|text| {
            let alone = !text.contains("::");
            text.split("::").filter(move |part| !alone || is_of_several_words(part))
        })
}

fn is_path_of_identifiers(text: &str) -> bool {
    text.split("::").all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

/// `ListenerRole`, `take_placement`; not `Buf`, `iscsi` or `FUA`.
fn is_of_several_words(name: &str) -> bool {
    let mut inner = name.chars().skip(1).zip(name.chars());
    name.contains('_') || inner.any(|(letter, before)| letter.is_uppercase() && before.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    fn lines(document: &str, text: &str) -> Vec<usize> {
        let mut workspace = plant::file(document, text);
        workspace.files.push(TextFile::new(
            "crates/a/src/target/get_data.rs",
            "pub struct GetDataProgress; // OldName\n",
        ));
        workspace.files.push(TextFile::new("crates/a/src/queues/entry.table", ""));
        workspace.files.push(TextFile::new("scripts/suites.py", "def run_suite(): pass\n"));
        plant::findings(&RULE, &workspace).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn what_is_there_passes_with_a_part_of_its_path() {
        let text = "`target/get_data.rs`, crates/a/src/target/get_data.rs, `queues/entry.table`, `crates/a/`, scripts/suites.py\n\
            `GetDataProgress::GetDataProgress`, `run_suite`, `run_suite()`\n\
            `crates/NAME`, `crates/*/src`, points/NNN-…/x, `NAME.rs`\n\
            [x](https://example.rs), a `Word`, `iscsi`, `FUA`, `cargo xtask tidy`, `--ready-file`\n\
            ```sh\nls crates/gone `GoneType`\n```\n";
        assert_eq!(lines("docs/a.md", text), Vec::<usize>::new());
    }

    #[test]
    fn what_is_not_there_is_found() {
        for gone in [
            "target/gone.rs",
            "`gone.table`",
            "docs/gone.md",
            "`scripts/gone.py`",
            "`GoneType`",
            "`gone_function`",
            "`GetDataProgress::gone`",
            "`OldName`",
        ] {
            assert_eq!(lines("ARCHITECTURE.md", &format!("fine\n{gone}\n")), [2], "{gone}");
        }
    }

    #[test]
    fn what_tells_of_the_past_may_name_what_is_gone() {
        assert_eq!(lines("CHANGELOG.md", "`GoneType`\n"), Vec::<usize>::new());
        assert_eq!(lines("docs/decisions/0001-x.md", "gone.rs\n"), Vec::<usize>::new());
    }
}
