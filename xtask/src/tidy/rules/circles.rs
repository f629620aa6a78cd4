//! The files of a crate import each other in one direction.
//!
//! Why: files that import each other in a circle can only be read, tested and moved together, however short each of them is; a crate of
//! thirty thousand lines grew that way before it was divided. What two files share belongs into a third that knows neither. What counts as
//! an import, and what does not, stands in [`Imports`].

use super::super::imports::Imports;
use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "circles", demands: "no circle of files that import each other", check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let all = workspace.crates.iter();
    all.flat_map(|member| {
        let folder = format!("{}src/", member.manifest.trim_end_matches("Cargo.toml"));
        let imports = Imports::of(workspace, &folder);
        imports.circles().iter().map(|circle| finding(circle, &member.manifest)).collect::<Vec<_>>()
    })
    .collect()
}

fn finding(circle: &[&str], manifest: &str) -> Finding {
    let message = format!(
        "a circle of {} files that import each other: {}; move what they share into a file that imports neither",
        circle.len(),
        circle.join(", ")
    );
    Finding::whole(circle.first().copied().unwrap_or(manifest), message)
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;
    use crate::workspace::TextFile;

    /// A crate `x` of two files, the first of which imports from the second.
    fn planted(second: &str) -> Workspace {
        let texts = [("lib", "mod a;\nmod b;"), ("a", "use crate::b::B;\npub struct A;"), ("b", second)];
        let files = texts.map(|(name, text)| TextFile::new(format!("crates/x/src/{name}.rs"), text));
        Workspace { files: files.into(), crates: vec![plant::member("x", &[])], ..Workspace::default() }
    }

    #[test]
    fn one_direction_passes_and_a_circle_is_found_with_its_files() {
        assert!(plant::findings(&RULE, &planted("pub struct B;")).is_empty());
        let found = plant::findings(&RULE, &planted("pub struct B(super::a::A);"));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("crates/x/src/a.rs, crates/x/src/b.rs"), "{}", found[0]);
    }
}
