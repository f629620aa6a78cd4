//! The files of a crate import each other in one direction.
//!
//! Why: files that import each other in a circle can only be read, tested and moved together, however short each of them is; a crate of
//! thirty thousand lines grew that way before it was divided. What two files share belongs into a third that knows neither. What counts as
//! an import, and what does not, stands in [`Imports`].
//!
//! Crates that had circles when the rule came are listed with the sizes of theirs. The list may only shrink: a circle that is gone or smaller
//! must leave it, and nothing may be added.

use super::super::imports::Imports;
use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule {
    name: "circles",
    demands: "no circle of files that import each other, beyond those listed, which may only shrink",
    check,
};

/// The circles that are left: a crate, and the number of files in each of its circles, the largest first.
const LEFT: &[(&str, &[usize])] = &[("buf", &[4]), ("vm-guest", &[6])];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let all = workspace.crates.iter();
    all.flat_map(|member| {
        let left = LEFT.iter().find(|(name, _)| *name == member.name).map_or(&[][..], |(_, sizes)| sizes);
        let folder = format!("{}src/", member.manifest.trim_end_matches("Cargo.toml"));
        judge(&Imports::of(workspace, &folder).circles(), left, &member.manifest)
    })
    .collect()
}

/// Compares the circles of a crate with those that it may have.
fn judge(circles: &[Vec<&str>], left: &[usize], manifest: &str) -> Vec<Finding> {
    let sizes: Vec<usize> = circles.iter().map(Vec::len).collect();
    if sizes == left {
        return Vec::new();
    }
    if sizes.iter().sum::<usize>() < left.iter().sum() {
        let message =
            format!("its circles are down to {sizes:?} from {left:?}: write that into the rule `circles`");
        return vec![Finding::whole(manifest, message)];
    }
    let told = circles.iter().map(|circle| {
        let message = format!(
            "a circle of {} files that import each other, where {left:?} are allowed: {}; move what they share into a file that imports neither",
            circle.len(),
            circle.join(", ")
        );
        Finding::whole(circle.first().copied().unwrap_or(manifest), message)
    });
    told.collect()
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

    #[test]
    fn listed_circles_may_not_grow_and_must_leave_the_list_when_they_shrink() {
        let (three, two) = (vec!["a", "b", "c"], vec!["d", "e"]);
        let judged = |circles: &[Vec<&str>], left: &[usize]| judge(circles, left, "m").len();
        assert_eq!(judged(&[three.clone(), two.clone()], &[3, 2]), 0);
        assert_eq!(judged(&[three.clone(), two.clone()], &[2, 2]), 2, "one has grown");
        assert_eq!(judged(&[two.clone(), two.clone(), two.clone()], &[2, 2]), 3, "one is new");
        assert_eq!(judged(&[two.clone(), two.clone()], &[4]), 2, "others of the same size");
        assert_eq!(judged(std::slice::from_ref(&two), &[3]), 1, "one has shrunk");
        assert_eq!(judged(&[], &[3]), 1, "one is gone");
    }
}
