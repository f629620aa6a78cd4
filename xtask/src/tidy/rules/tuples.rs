//! A public function takes and gives no tuple.
//!
//! Why: a struct's fields have names, a tuple's have places. Whoever reads `(u32, u32)` in the signature of another crate has to look for what is what,
//! and two parts of one type change places without a word from the compiler. The arguments of closures are left out: their names stand where they
//! are written.

use super::super::functions::public_functions;
use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "tuples", demands: "no tuple in a public function's arguments or result", check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under("").filter(|(file, _)| !file.is_test()) {
        let lines: Vec<&str> = source.product_lines().map(|(_, line)| line).collect();
        for function in public_functions(&lines.join("\n")) {
            let Some(tuple) = tuple(function.signature) else { continue };
            let message = format!(
                "`{}` has a tuple, {tuple}: make it a struct whose fields say what is what",
                function.name
            );
            findings.push(Finding::at(&file.path, function.line, message));
        }
    }
    findings
}

/// The first tuple of two parts or more in a signature. Arguments of functions and closures, the signature's own among them, are none.
fn tuple(signature: &str) -> Option<String> {
    // Open brackets: where, whether it is what a function takes, whether it has a comma.
    let mut open: Vec<(usize, bool, bool)> = Vec::new();
    let mut own = true;
    let mut before = ' ';
    for (at, letter) in signature.char_indices() {
        match letter {
            '(' => {
                let inside = open.iter().all(|(at, ..)| signature.get(*at..=*at) == Some("<"));
                let takes = is_function(signature.get(..at)?) || (own && inside && open.is_empty());
                own &= !open.is_empty();
                open.push((at, takes, false));
            }
            '<' | '[' => open.push((at, true, false)),
            ']' => drop(open.pop()),
            '>' if before != '-' && before != '=' => drop(open.pop()),
            ',' => {
                if let Some(last) = open.last_mut() {
                    last.2 = true;
                }
            }
            ')' => {
                let (start, takes, comma) = open.pop()?;
                if comma && !takes {
                    let words: Vec<&str> = signature.get(start..=at)?.split_whitespace().collect();
                    return Some(words.join(" "));
                }
            }
            _ => {}
        }
        before = letter;
    }
    None
}

/// Whether what opens after this text is what a function or closure takes.
fn is_function(text: &str) -> bool {
    let word = text.trim_end().rsplit(|letter: char| !letter.is_alphanumeric()).next();
    matches!(word, Some("fn" | "Fn" | "FnMut" | "FnOnce"))
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        plant::lines(&RULE, "crates/x/src/a.rs", text)
    }

    #[test]
    fn tuples_in_arguments_and_results_are_found_on_their_line() {
        for planted in [
            "pub fn f(range: (u32, u32)) {}",
            "pub fn f() -> (u32, u32) {}",
            "pub const fn f(self) -> Option<(f64, &'static str)> {}",
            "pub fn f<'a>(all: impl Iterator<Item = &'a [(u64, u64)]>) -> u64 {}",
            "pub fn f(\n    &self,\n    (a, b): (u8, u8),\n) -> u8 {}",
            "pub fn f(call: impl Fn(u8, u8) -> (u8, u8)) {}",
            "pub fn f() -> Result<(Self, Vec<(u8, u8)>), String> where Self: Sized {}",
            "pub unsafe extern \"C\" fn f(range: (u32, u32)) {}",
            "pub trait T { fn f(&self) -> (u8, u8); }",
            "pub trait T: Sized { type A; fn g(&self) {} fn f(&self, (a, b): (u8, u8)) { g() } }",
        ] {
            assert_eq!(lines(&format!("//! x\n{planted}\n")), [2], "{planted}");
        }
    }

    #[test]
    fn arguments_closures_units_and_what_is_not_public_pass() {
        for fine in [
            "pub fn f(one: u32, other: u32) -> Result<(), String> {}",
            "pub fn f<A, B>(call: impl Fn(A, B) -> A, other: &(dyn Fn(A, B) + Send)) -> fn(A, B) {}",
            "pub fn f(map: BTreeMap<u8, u8>, array: [u8; 4]) -> (Map<u8, u8>) { (1, 2) }",
            "pub(crate) fn f(range: (u32, u32)) {}",
            "fn f(range: (u32, u32)) {}",
            "pub fn f() { let (a, b): (u8, u8) = g(); }",
            "#[cfg(test)]\nmod tests {\n    pub fn f(range: (u32, u32)) {}\n}",
            "trait T { fn f(&self) -> (u8, u8); }",
            "pub trait T { fn f(&self) { fn inner() -> (u8, u8) { g() } } }\nfn h() -> (u8, u8) {}",
        ] {
            assert!(lines(&format!("//! x\n{fine}\n")).is_empty(), "{fine}");
        }
        assert!(plant::lines(&RULE, "crates/x/tests/a.rs", "pub fn f(range: (u32, u32)) {}\n").is_empty());
    }
}
