//! Every foreign crate has a line in `docs/dependencies.md`, and none is declared that nobody uses.
//!
//! Why: each dependency is code that we ship and did not write. A line that says what it is for is what keeps the list short.

use std::collections::BTreeSet;

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule {
    name: "dependencies",
    demands: "every foreign crate has a line in docs/dependencies.md and a user",
    check,
};

const LIST: &str = "docs/dependencies.md";
const MANIFEST: &str = "Cargo.toml";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let dependencies = workspace.crates.iter().flat_map(|member| &member.dependencies);
    let used: BTreeSet<&str> = dependencies.filter(|one| !one.ours).map(|one| one.name.as_str()).collect();
    let listed = workspace.file(LIST).map(|file| listed(&file.text)).unwrap_or_default();
    let declared = workspace.file(MANIFEST).map(|file| declared(&file.text)).unwrap_or_default();
    let missing = used.iter().filter(|name| !listed.contains(**name));
    let stale = listed.iter().filter(|name| !used.contains(name.as_str()));
    let idle = declared.iter().filter(|name| !used.contains(name.as_str()));
    let mut findings: Vec<Finding> =
        missing.map(|name| Finding::whole(LIST, format!("has no line for `{name}`"))).collect();
    findings.extend(
        stale.map(|name| Finding::whole(LIST, format!("has a line for `{name}`, which nothing uses"))),
    );
    findings
        .extend(idle.map(|name| Finding::whole(MANIFEST, format!("declares `{name}`, which nothing uses"))));
    findings
}

/// The crates that the list names: the code words in the first cell of each table row.
fn listed(text: &str) -> BTreeSet<String> {
    let cells =
        text.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split(" |").next());
    cells
        .flat_map(|cell| cell.split('`').map(str::trim).filter(|name| !name.is_empty() && *name != ","))
        .map(str::to_owned)
        .collect()
}

/// The foreign crates under `[workspace.dependencies]`.
fn declared(text: &str) -> BTreeSet<String> {
    let manifest = text.parse::<toml::Table>().unwrap_or_default();
    let table = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(toml::Value::as_table);
    let foreign = table.into_iter().flatten().filter(|(_, value)| value.get("path").is_none());
    foreign.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;
    use crate::workspace::TextFile;

    fn findings(list: &str) -> usize {
        let mut member = plant::member("volume", &["buf"]);
        member.dependencies.push(plant::dependency("bitflags", false));
        let manifest = "[workspace.dependencies]\nbuf = { path = \"x\" }\nbitflags = \"2\"\n";
        let files = vec![TextFile::new(LIST, list), TextFile::new(MANIFEST, manifest)];
        plant::findings(&RULE, &Workspace { files, crates: vec![member], ..Workspace::default() }).len()
    }

    #[test]
    fn a_line_for_each_passes() {
        assert_eq!(findings("| crate | why |\n| `bitflags` | flags |\n"), 0);
    }

    #[test]
    fn missing_and_stale_lines_are_found() {
        assert_eq!(findings(""), 1);
        assert_eq!(findings("| `bitflags`, `rand` | flags |\n"), 1);
    }

    #[test]
    fn a_crate_that_nobody_uses_is_found() {
        let files = vec![TextFile::new(MANIFEST, "[workspace.dependencies]\nrand = \"1\"\n")];
        assert_eq!(plant::findings(&RULE, &Workspace { files, ..Workspace::default() }).len(), 1);
    }
}
