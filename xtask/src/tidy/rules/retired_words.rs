//! Words that were retired do not come back.
//!
//! Why: a name that only this project uses has to be learned; the field's term is known, and can be searched for. The glossary lists the words
//! that were replaced, what to say instead, and where that holds: some of them mean something elsewhere. The rule looks at sources of every language,
//! comments, scripts, tables and documents. What tells of the past, the changelog and the decision records, may use them.
//!
//! The name of a type is found as it is written. An ordinary word (`lane`) is found in any case, with the endings of its verb or plural, and as a part
//! of an identifier (`lane_of`).

use super::super::source::has_word;
use super::super::{Finding, Rule};
use crate::workspace::{TextFile, Workspace};

pub(super) const RULE: Rule = Rule {
    name: "retired words",
    demands: "no word that the glossary has retired, in code, comments and documents",
    check,
};

const GLOSSARY: &str = "docs/glossary.md";
const HEADING: &str = "## Retired words";
/// In the column of places: the whole project.
const EVERYWHERE: &str = "everywhere";
/// What tells of the past.
const PAST: &[&str] = &["CHANGELOG.md", "docs/decisions/", GLOSSARY];
/// What others wrote, and figures.
const FOREIGN: &[&str] = &["lock", "js", "csv"];
/// Endings of verbs and plurals.
const ENDINGS: &[&str] = &["s", "es", "d", "ed", "ing"];

/// A line of the glossary's second table.
struct Retired<'a> {
    word: &'a str,
    instead: &'a str,
    /// Folders from the root; none for the whole project.
    folders: Vec<&'a str>,
}

impl Retired<'_> {
    fn is_in(&self, line: &str) -> bool {
        if !self.word.chars().all(|letter| letter.is_ascii_lowercase()) {
            return has_word(line, self.word);
        }
        let mut words = line.split(|letter: char| !letter.is_ascii_alphabetic());
        words.any(|word| self.is_form(word))
    }

    /// Whether a word is an ordinary retired word in some form: `lane`, `Lanes`, `laned`.
    fn is_form(&self, word: &str) -> bool {
        let begins = |stem: &str| word.get(..stem.len()).filter(|front| front.eq_ignore_ascii_case(stem));
        let ending = begins(self.word).and_then(|front| word.get(front.len()..));
        let without_e =
            self.word.strip_suffix('e').and_then(begins).and_then(|front| word.get(front.len()..));
        ending.is_some_and(|ending| ending.is_empty() || ENDINGS.contains(&ending))
            || without_e == Some("ing")
    }
}

fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(glossary) = workspace.file(GLOSSARY) else { return Vec::new() };
    let retired = read(&glossary.text);
    let files = workspace.files.iter().filter(|file| !FOREIGN.iter().any(|ending| file.ends_in(ending)));
    let present = files.filter(|file| !PAST.iter().any(|past| file.path.starts_with(past)));
    present.flat_map(|file| uses(file, &retired)).collect()
}

fn read(glossary: &str) -> Vec<Retired<'_>> {
    let lines = glossary.lines().skip_while(|line| *line != HEADING).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`'));
        let (word, instead, places) = (cells.next()?, cells.next()?, cells.next()?);
        let folders =
            places.split(", ").map(|folder| folder.trim_matches('`')).filter(|folder| *folder != EVERYWHERE);
        (word != "retired").then(|| Retired { word, instead, folders: folders.collect() })
    })
    .collect()
}

fn uses(file: &TextFile, retired: &[Retired<'_>]) -> Vec<Finding> {
    let concerns = |one: &&Retired<'_>| {
        one.folders.is_empty() || one.folders.iter().any(|folder| file.path.starts_with(folder))
    };
    let here: Vec<&Retired<'_>> = retired.iter().filter(concerns).collect();
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for one in here.iter().filter(|one| one.is_in(line)) {
            let message = format!("`{}` is retired: say {} ({GLOSSARY})", one.word, one.instead);
            findings.push(Finding::at(&file.path, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    const TABLES: &str = "# Glossary\n\n| word | means | where from |\n|---|---|---|\n| turn | a round | ours |\n\n\
        ## Retired words\n\nWhy.\n\n| retired | say | where |\n|---|---|---|\n\
        | `Quux` | slot | everywhere |\n| `lane` | link | `crates/x/`, `crates/y/` |\n";

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut workspace = plant::file(path, text);
        workspace.files.push(TextFile::new(GLOSSARY, TABLES));
        plant::findings(&RULE, &workspace).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_retired_word_is_found_in_code_comments_and_documents() {
        assert_eq!(lines("crates/z/src/a.rs", "struct Quux;\n// a Quux\nlet quux = \"Quux\";\n"), [1, 2, 3]);
        assert_eq!(lines("docs/a.md", "fine\na Quux\n"), [2]);
        assert_eq!(
            lines("crates/z/src/a.rs", "struct QuuxTop;\nlet my_Quux = 1; // turn\n"),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn an_ordinary_word_is_found_in_every_form_and_file() {
        for line in ["let lane = 1;", "// Lanes", "fn lane_of() {}", "a laned road", "laning"] {
            assert_eq!(lines("crates/x/src/a.rs", line), [1], "{line}");
        }
        for line in ["planes", "laneway", "a lan", "Quuxes"] {
            assert_eq!(lines("crates/x/src/a.rs", line), Vec::<usize>::new(), "{line}");
        }
        for file in ["scripts/a.py", "scripts/a.sh", "Makefile", "crates/a/src/b.table"] {
            assert_eq!(lines(file, "a Quux\n"), [1], "{file}");
        }
        assert_eq!(lines("crates/x/Cargo.lock", "a Quux\n"), Vec::<usize>::new());
    }

    #[test]
    fn it_is_found_only_where_it_is_retired_and_never_in_what_tells_of_the_past() {
        assert_eq!(lines("crates/x/src/a.rs", "let lane = 1;\n"), [1]);
        assert_eq!(lines("crates/y/tests/a.rs", "let lane = 1;\n"), [1]);
        assert_eq!(lines("crates/z/src/a.rs", "let lane = 1;\n"), Vec::<usize>::new());
        assert_eq!(lines("CHANGELOG.md", "Quux\n"), Vec::<usize>::new());
        assert_eq!(lines("docs/decisions/0001-x.md", "Quux\n"), Vec::<usize>::new());
    }

    #[test]
    fn the_glossary_says_what_to_say() {
        let mut workspace = plant::file("docs/a.md", "a Quux\n");
        workspace.files.push(TextFile::new(GLOSSARY, TABLES));
        let found = plant::findings(&RULE, &workspace);
        assert!(found[0].message.contains("say slot"), "{}", found[0]);
    }
}
