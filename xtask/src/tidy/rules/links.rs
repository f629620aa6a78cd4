//! Every relative link in a Markdown file leads to a file of the project.
//!
//! Why: documents outlive the files they speak of, and a dead link is how a reader finds out.

use std::collections::BTreeSet;

use super::super::{Finding, Rule};
use crate::workspace::{TextFile, Workspace};

pub(super) const RULE: Rule =
    Rule { name: "links", demands: "every relative link in Markdown leads somewhere", check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let texts = workspace.files.iter().map(|file| file.path.as_str());
    let paths: BTreeSet<&str> = texts.chain(workspace.others.iter().map(String::as_str)).collect();
    let documents = workspace.files.iter().filter(|file| file.ends_in("md"));
    documents.flat_map(|file| dead_links(file, &paths)).collect()
}

fn dead_links(file: &TextFile, paths: &BTreeSet<&str>) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for target in targets(line).filter(|target| !leads_somewhere(folder, target, paths)) {
            findings.push(Finding::at(&file.path, index + 1, format!("the link leads nowhere: {target}")));
        }
    }
    findings
}

/// The relative targets of the links on a line, without their anchors.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.map(|target| target.split('#').next().unwrap_or_default());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

fn leads_somewhere(folder: &str, target: &str, paths: &BTreeSet<&str>) -> bool {
    let path = resolve(folder, target);
    let inside = format!("{path}/");
    paths.contains(path.as_str())
        || paths.range(inside.as_str()..).next().is_some_and(|next| next.starts_with(&inside))
}

fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    #[test]
    fn files_folders_anchors_and_addresses_pass() {
        let text =
            "[a](../README.md) [b](b.md#x) [c](#y) [d](https://example.org) [e](../docs) ![f](f.png)\n";
        let mut workspace = plant::file("docs/a.md", text);
        workspace.files.push(TextFile::new("README.md", ""));
        workspace.files.push(TextFile::new("docs/b.md", ""));
        workspace.others.push("docs/f.png".to_owned());
        assert_eq!(plant::findings(&RULE, &workspace), []);
    }

    #[test]
    fn a_dead_link_is_found() {
        assert_eq!(plant::lines(&RULE, "docs/a.md", "fine\n[a](gone.md)\n"), [2]);
    }
}
