//! An error has a type of its own: no product code of a crate says `Result<_, String>`.
//!
//! Why: a text tells a person what went wrong, and nobody else. Who calls cannot match on it, its source is gone, and it is formatted even where
//! nobody reads it. A type says the same text through `Display` (`thiserror`), and says which failure it is.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule {
    name: "string_errors",
    demands: "no `Result<_, String>` in a crate's sources: an error has a type",
    check,
};

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under("crates/") {
        if file.is_test() || !file.path.contains("/src/") {
            continue;
        }
        let lines: Vec<&str> = source.product_lines().map(|(_, line)| line).collect();
        let code = lines.join("\n");
        let found = code
            .match_indices("Result<")
            .filter(|(start, name)| code.get(start + name.len()..).and_then(last_argument) == Some("String"));
        findings.extend(found.map(|(start, _)| {
            let line = code.get(..start).unwrap_or_default().matches('\n').count() + 1;
            let message = "an error is a text: give it a type whose `Display` says this text".to_owned();
            Finding::at(&file.path, line, message)
        }));
    }
    findings
}

/// The last of several type arguments, given what follows the opening `<`. `None` where there is one alone.
fn last_argument(text: &str) -> Option<&str> {
    let (mut depth, mut comma, mut before) = (0_usize, None, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if before == '-' => {}
            '>' if depth == 0 => return text.get(comma? + 1..at).map(argument),
            '>' | ')' | ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 && !is_trailing(text.get(at + 1..)?) => comma = Some(at),
            _ => {}
        }
        before = letter;
    }
    None
}

/// An argument without the blanks and the comma that may follow it.
fn argument(text: &str) -> &str {
    text.trim().trim_end_matches(',')
}

/// Whether nothing but the closing `>` follows.
fn is_trailing(rest: &str) -> bool {
    rest.trim_start().starts_with('>')
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        plant::lines(&RULE, path, &format!("//! x\n{text}\n"))
    }

    #[test]
    fn a_text_as_an_error_is_found_on_its_line() {
        for planted in [
            "fn f() -> Result<(), String> {}",
            "type Verdict = Result<(Vec<Core>, Map<u8, u8>), String>;",
            "fn f() -> Option<Result<Box<dyn Fn(u8, u8) -> u8>, String>> {}",
            "fn f() -> std::result::Result<\n    [u8; 4],\n    String,\n> {}",
            "fn f() { all.collect::<Result<_, String>>() }",
        ] {
            assert_eq!(lines("crates/x/src/a.rs", planted), [2], "{planted}");
        }
    }

    #[test]
    fn other_errors_texts_that_are_answers_and_tests_pass() {
        for fine in [
            "fn f() -> Result<String> {}",
            "fn f() -> Result<String, Error> {}",
            "fn f() -> Result<BTreeMap<String, String>> {}",
            "fn f() -> Result<(u8, String), Vec<String>> {}",
            "#[cfg(test)]\nmod tests {\n    fn f() -> Result<(), String> {}\n}",
        ] {
            assert!(lines("crates/x/src/a.rs", fine).is_empty(), "{fine}");
        }
        for elsewhere in ["crates/x/tests/a.rs", "crates/x/src/queue/tests.rs", "xtask/src/a.rs"] {
            assert!(lines(elsewhere, "fn f() -> Result<(), String> {}").is_empty(), "{elsewhere}");
        }
    }
}
