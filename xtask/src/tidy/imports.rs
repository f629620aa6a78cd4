//! Which files of a crate import from which, as far as the paths in their code tell.
//!
//! A file imports from another when its code names an item that the other defines, by a path that begins with `crate`, `super`, `self`, the
//! name of a submodule or a name that a `use` brought in. Three things are no import:
//!
//! * `mod child;` declares and uses nothing.
//! * A re-export hands a name on. It counts only for a file whose own code uses the name too; a path through it leads to the file that
//!   defines the item, wherever that is.
//! * Tests may look anywhere: files and modules of tests are left out, and so is what only such a module declares.
//!
//! So a parent module and its child import each other only if the parent calls the child and the child takes something that the parent's file
//! itself defines. What is not seen: methods and traits that come without a path, the insides of macros of other crates, and modules in
//! braces, which count as their file.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use crate::workspace::Workspace;

/// Re-exports of re-exports are followed so far.
const MOST_HOPS: usize = 8;

/// A path: the names between its `::`.
type Path = Vec<String>;

/// What a file's code says, as far as it matters here.
#[derive(Debug, Default)]
struct Code {
    /// Names that `use` brings in, with what they stand for.
    names: BTreeMap<String, Path>,
    /// What is imported without being handed on.
    private: Vec<Path>,
    /// What is handed on: the name here.
    handed_on: BTreeSet<String>,
    /// Submodules in files of their own.
    submodules: BTreeSet<String>,
    /// Paths of two names or more.
    paths: Vec<Path>,
    /// Every name outside of `use`.
    words: BTreeSet<String>,
}

/// The files of a crate and what each imports from.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// By module: the file's path, and the modules that it imports from.
    files: BTreeMap<Path, (String, BTreeSet<Path>)>,
}

impl Imports {
    /// Reads the crate whose sources are in a folder such as `crates/wire/src/`.
    pub(crate) fn of(workspace: &Workspace, folder: &str) -> Self {
        let mut modules: BTreeMap<Path, (String, Code)> = BTreeMap::new();
        for (file, source) in workspace.rust_under(folder).filter(|(file, _)| !file.is_test()) {
            let Some(module) = module(file.path.trim_start_matches(folder)) else { continue };
            // A library's root stands before that of a program beside it.
            if !(module.is_empty() && file.path.ends_with("main.rs") && modules.contains_key(&module)) {
                modules.insert(module, (file.path.clone(), Code::read(source)));
            }
        }
        let declared = |module: &Path| {
            let declares = |parent: &[String], own| {
                modules.get(parent).is_some_and(|(_, code)| code.submodules.contains(own))
            };
            module.iter().enumerate().all(|(depth, own)| declares(module.split_at(depth).0, own))
        };
        let product: BTreeSet<Path> = modules.keys().filter(|module| declared(module)).cloned().collect();
        modules.retain(|module, _| product.contains(module));
        let of = |module: &Path, code: &Code| code.imports(module, &modules);
        let files = modules.iter().map(|(module, (path, code))| {
            let imports = of(module, code);
            (module.clone(), (path.clone(), imports))
        });
        Self { files: files.collect() }
    }

    /// The files of each circle: those that import each other, directly or by way of others. The largest circle first.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let reached: BTreeMap<&Path, BTreeSet<&Path>> =
            self.files.keys().map(|module| (module, self.reached(module))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (module, all) in &reached {
            if !all.contains(module) || seen.contains(module) {
                continue;
            }
            let back = |other: &&&Path| reached.get(**other).is_some_and(|from| from.contains(*module));
            let members: Vec<&Path> = all.iter().filter(back).copied().collect();
            seen.extend(members.iter().copied());
            circles.push(
                members.iter().filter_map(|one| self.files.get(*one)).map(|(path, _)| &**path).collect(),
            );
        }
        circles.sort_by_key(|circle: &Vec<&str>| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reached<'a>(&'a self, from: &'a Path) -> BTreeSet<&'a Path> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some((_, imports)) = open.pop().and_then(|module| self.files.get(module)) {
            open.extend(imports.iter().filter(|module| reached.insert(*module)));
        }
        reached
    }
}

/// The module of a file, from its path below `src/`; `None` for programs in folders of their own.
fn module(path: &str) -> Option<Path> {
    let mut names: Path = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if names.first().is_some_and(|first| first == "bin") {
        return None;
    }
    let root = names.len() == 1 && names.first().is_some_and(|name| name == "lib" || name == "main");
    if root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    Some(names)
}

impl Code {
    fn read(source: &Source) -> Self {
        let lines: Vec<&str> = source.product_lines().map(|(_, line)| line).collect();
        let text = lines.join("\n");
        let tokens = tokens(&text);
        let mut code = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            at += match tokens.get(at..).unwrap_or_default() {
                ["mod", name, ";", ..] => {
                    code.submodules.insert((*name).to_owned());
                    3
                }
                ["use", first, ..] if *first != "<" => code.take_use(&tokens, at),
                rest => code.take_path(rest),
            };
        }
        code
    }

    /// Takes a `use` declaration, and gives its length.
    fn take_use(&mut self, tokens: &[&str], at: usize) -> usize {
        let rest = tokens.get(at + 1..).unwrap_or_default();
        let length = rest.iter().position(|token| *token == ";").unwrap_or(rest.len());
        let public = at
            .checked_sub(1)
            .and_then(|before| tokens.get(before))
            .is_some_and(|before| ["pub", ")"].contains(before));
        let mut all = Vec::new();
        tree(&mut rest.iter().take(length).copied().peekable(), &[], &mut all);
        for (path, name) in all {
            if public {
                self.handed_on.insert(name.clone());
            } else {
                self.private.push(path.clone());
            }
            if name != "*" {
                self.names.insert(name, path);
            }
        }
        length + 1
    }

    /// Takes what stands at the beginning: a path, a name or a sign. Gives its length.
    fn take_path(&mut self, rest: &[&str]) -> usize {
        let mut path = Path::new();
        let mut length = 0;
        while let Some(name) = rest.get(length).filter(|token| is_name(token)) {
            path.push((*name).to_owned());
            self.words.insert((*name).to_owned());
            length += 1;
            match (rest.get(length), rest.get(length + 1)) {
                (Some(&"::"), Some(next)) if is_name(next) => length += 1,
                _ => break,
            }
        }
        if path.len() > 1 {
            self.paths.push(path);
        }
        length.max(1)
    }

    /// The modules that a file imports from.
    fn imports(&self, own: &Path, modules: &BTreeMap<Path, (String, Code)>) -> BTreeSet<Path> {
        let used = self.handed_on.iter().filter(|name| self.words.contains(*name));
        let used = used.filter_map(|name| self.names.get(name));
        let all = self.private.iter().chain(used).chain(&self.paths);
        let home = all.filter_map(|path| home(path, own, modules, MOST_HOPS));
        home.filter(|module| module != own).collect()
    }
}

/// The module whose file defines what a path names; `None` for a module as such, and for what comes from another crate.
fn home(
    path: &[String],
    own: &[String],
    modules: &BTreeMap<Path, (String, Code)>,
    hops: usize,
) -> Option<Path> {
    let code = &modules.get(own)?.1;
    let (first, mut rest) = path.split_first()?;
    let mut base = own.to_vec();
    match first.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => drop(base.pop()?),
        name if code.submodules.contains(name) => base.push(name.to_owned()),
        name => {
            let known = code.names.get(name).filter(|known| known.first() != Some(first) && hops > 0)?;
            return home(&[known, rest].concat(), own, modules, hops - 1);
        }
    }
    while let Some((name, behind)) = rest.split_first() {
        if name == "super" {
            base.pop()?;
        } else if modules.get(&base).is_some_and(|(_, code)| code.submodules.contains(name)) {
            base.push(name.clone());
        } else {
            let (_, code) = modules.get(&base)?;
            return match code.names.get(name) {
                Some(known) if hops > 0 => home(&[known, behind].concat(), &base, modules, hops - 1),
                _ => Some(base),
            };
        }
        rest = behind;
    }
    None
}

/// The paths of a tree of `use`, each with the name that it gets.
fn tree<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    before: &[String],
    all: &mut Vec<(Path, String)>,
) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.next() {
        match token {
            "{" => {
                while tokens.peek().is_some_and(|next| *next != "}") {
                    tree(tokens, &path, all);
                }
                tokens.next();
                path.clear();
            }
            "," => break,
            "as" => {
                let name = tokens.next().unwrap_or_default().to_owned();
                all.push((without_self(std::mem::take(&mut path)), name));
            }
            name if is_name(name) || name == "*" => path.push(name.to_owned()),
            _ => {}
        }
        if tokens.peek() == Some(&"}") {
            break;
        }
    }
    let path = without_self(path);
    if let Some(name) = path.last().cloned() {
        all.push((path, name));
    }
}

/// `a::b::{self}` is `a::b`.
fn without_self(mut path: Path) -> Path {
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    path
}

/// Names, `::` and single signs.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_letter(first) {
            rest.find(|letter: char| !is_letter(letter)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, behind) = rest.split_at(length);
        tokens.push(token);
        rest = behind.trim_start();
    }
    tokens
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::TextFile;

    /// The circles of a crate of some files.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files = files.iter().map(|(path, text)| TextFile::new(format!("crates/x/src/{path}"), *text));
        let workspace = Workspace { files: files.collect(), ..Workspace::default() };
        let imports = Imports::of(&workspace, "crates/x/src/");
        let name = |path: &str| path.trim_start_matches("crates/x/src/").to_owned();
        imports.circles().into_iter().map(|circle| circle.into_iter().map(name).collect()).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "pub mod a;\npub mod b;\nmod c;");

    #[test]
    fn a_circle_is_found_through_every_kind_of_path() {
        let b = ("b.rs", "pub struct B;\nfn f(_: crate::a::A) {}");
        for a in [
            "use crate::b::B;\npub struct A;",
            "use super::b::B;\npub struct A;",
            "use crate::{b::B, c};\npub struct A;",
            "use crate::b;\npub struct A;\nfn f(_: b::B) {}",
            "use crate::b::{self as other, X as Y};\npub struct A;",
            "pub struct A;\nfn f() -> super::b::B { make() }",
            "pub use crate::b::B;\npub struct A(B);",
        ] {
            assert_eq!(circles(&[ROOT, ("a.rs", a), b]), [["a.rs", "b.rs"]], "{a}");
        }
    }

    #[test]
    fn three_files_make_one_circle() {
        let a = ("a.rs", "use crate::b::B;\npub struct A;");
        let b = ("b.rs", "use crate::c::C;\npub struct B;");
        let c = ("c.rs", "use crate::a::A;\npub struct C;");
        assert_eq!(circles(&[ROOT, a, b, c]), [["a.rs", "b.rs", "c.rs"]]);
        assert!(circles(&[ROOT, a, b, ("c.rs", "pub struct C;")]).is_empty());
    }

    #[test]
    fn declarations_re_exports_comments_and_tests_are_no_imports() {
        let b = ("b.rs", "pub struct B;\nfn f(_: crate::a::A) {}");
        for a in [
            "pub use crate::b::B;\npub struct A;",
            "use crate::b;\npub struct A;",
            "pub struct A; // crate::b::B\nconst T: &str = \"crate::b::B\";",
            "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}",
        ] {
            assert!(circles(&[ROOT, ("a.rs", a), b]).is_empty(), "{a}");
        }
        let helper = ("helper.rs", "use crate::a::A;\npub struct H;");
        let a = ("a.rs", "use crate::helper::H;\npub struct A;");
        assert!(circles(&[("lib.rs", "mod a;\n#[cfg(test)]\nmod helper;"), a, helper]).is_empty());
    }

    #[test]
    fn a_parent_and_its_child_count_when_both_take_from_each_other() {
        let root = ("lib.rs", "mod a;");
        let child = ("a/child.rs", "use super::T;\npub fn f(_: T) {}");
        let both = ("a/mod.rs", "mod child;\npub struct T;\nfn g() { child::f(T) }");
        assert_eq!(circles(&[root, both, child]), [["a/mod.rs", "a/child.rs"]]);
        let hands_on = ("a/mod.rs", "mod child;\npub use child::f;\npub struct T;");
        assert!(circles(&[root, hands_on, child]).is_empty());
        let apart = ("a/mod.rs", "mod child;\nmod types;\npub use types::T;\nfn g() { child::f(T) }");
        assert!(circles(&[root, apart, child, ("a/types.rs", "pub struct T;")]).is_empty());
    }

    #[test]
    fn a_path_through_a_re_export_leads_to_the_definition() {
        let root = ("lib.rs", "pub mod a;\npub mod b;\npub use b::B;\nfn f() { a::g() }");
        let a = ("a.rs", "use crate::B;\npub fn g() {}");
        assert!(circles(&[root, a, ("b.rs", "pub struct B;")]).is_empty());
        let back = ("b.rs", "pub struct B;\nfn h() { crate::a::g() }");
        assert_eq!(circles(&[root, a, back]), [["a.rs", "b.rs"]]);
    }
}
