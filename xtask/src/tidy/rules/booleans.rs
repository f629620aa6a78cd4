//! A public function takes no boolean.
//!
//! Why: `write(extent, true)` makes a reader ask "true what?", and open the function to find out. An enum's variants say it where they are passed.
//! Fields are left out: they have names.

use super::super::functions::public_functions;
use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "booleans", demands: "no boolean in a public function's arguments", check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under("").filter(|(file, _)| !file.is_test()) {
        let lines: Vec<&str> = source.product_lines().map(|(_, line)| line).collect();
        for function in public_functions(&lines.join("\n")) {
            for argument in arguments(function.signature).filter_map(boolean) {
                let message = format!(
                    "`{}` takes `{argument}`, a boolean: make it an enum whose variants say what is meant",
                    function.name
                );
                findings.push(Finding::at(&file.path, function.line, message));
            }
        }
    }
    findings
}

/// What a function takes, with its types.
fn arguments(signature: &str) -> impl Iterator<Item = &str> {
    let (mut angles, mut depth, mut before) = (0_usize, 0_usize, ' ');
    let mut list = None;
    for (at, letter) in signature.char_indices() {
        match letter {
            '<' if depth == 0 => angles += 1,
            '>' if depth == 0 && before != '-' => angles = angles.saturating_sub(1),
            '(' if angles == 0 => {
                depth += 1;
                list = list.or(Some((at + 1, at + 1)));
            }
            ')' if angles == 0 && depth > 0 => {
                depth -= 1;
                if let Some((_, end)) = list.as_mut().filter(|_| depth == 0) {
                    *end = at;
                    break;
                }
            }
            _ => {}
        }
        before = letter;
    }
    list.and_then(|(start, end)| signature.get(start..end)).unwrap_or_default().split(',')
}

/// The name of an argument that is a boolean, or perhaps one.
fn boolean(argument: &str) -> Option<&str> {
    let (name, kind) = argument.split_once(':')?;
    matches!(kind.trim(), "bool" | "Option<bool>").then_some(name.trim())
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        plant::lines(&RULE, "crates/x/src/a.rs", &format!("//! x\n{text}\n"))
    }

    #[test]
    fn booleans_in_arguments_are_found_on_their_line() {
        for planted in [
            "pub fn f(extent: Extent, fua: bool) {}",
            "pub const fn f(&self, fua: bool) -> u8 { 0 }",
            "pub fn f<F: Fn(u8) -> bool>(\n    call: F,\n    persist: Option<bool>,\n) {}",
            "pub trait T { fn f(&self, fua: bool); }",
        ] {
            assert_eq!(lines(planted), [2], "{planted}");
        }
    }

    #[test]
    fn results_closures_fields_and_what_is_not_public_pass() {
        for fine in [
            "pub fn is_open(&self) -> bool { true }",
            "pub fn f(call: impl Fn(&str) -> bool) {}",
            "pub fn f<F: Fn(bool)>(call: F) {}",
            "pub fn f(all: &[bool]) {}",
            "pub struct S { pub fua: bool }",
            "pub(crate) fn f(fua: bool) {}",
            "fn f(fua: bool) {}",
            "#[cfg(test)]\nmod tests {\n    pub fn f(fua: bool) {}\n}",
        ] {
            assert!(lines(fine).is_empty(), "{fine}");
        }
        assert!(plant::lines(&RULE, "crates/x/tests/a.rs", "pub fn f(fua: bool) {}\n").is_empty());
    }
}
