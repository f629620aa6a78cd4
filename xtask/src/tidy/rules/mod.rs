//! The rules of tidy, one file each.

mod booleans;
mod circles;
mod datamover;
mod dependencies;
mod document_names;
mod engine;
mod fabric_queues;
mod headers;
mod ignored;
mod layers;
mod leftovers;
mod length;
mod limits;
mod links;
mod machine;
mod manifests;
mod protocol_names;
mod purity;
mod references;
mod retired_words;
mod string_errors;
mod tokio;
mod tuples;
mod unsafety;

use super::Rule;

/// Every rule, in the order in which findings are printed.
pub(super) const ALL: &[Rule] = &[
    layers::RULE,
    circles::RULE,
    purity::RULE,
    unsafety::RULE,
    protocol_names::RULE,
    fabric_queues::RULE,
    engine::RULE,
    datamover::RULE,
    tuples::RULE,
    booleans::RULE,
    string_errors::RULE,
    tokio::RULE,
    manifests::RULE,
    dependencies::RULE,
    headers::RULE,
    leftovers::RULE,
    ignored::RULE,
    machine::RULE,
    links::RULE,
    references::RULE,
    document_names::RULE,
    retired_words::RULE,
    limits::RULE,
];

/// What is worth a question and breaks nothing.
pub(super) const HINTS: &[Rule] = &[length::RULE];

/// Workspaces to plant breaches in.
#[cfg(test)]
mod plant {
    use crate::tidy::Finding;
    use crate::tidy::Rule;
    use crate::workspace::{Crate, Dependency, Kind, TextFile, Workspace};

    /// A workspace of one file.
    pub(super) fn file(path: &str, text: &str) -> Workspace {
        Workspace { files: vec![TextFile::new(path, text)], ..Workspace::default() }
    }

    /// A crate of the workspace that depends on others of the workspace.
    pub(super) fn member(name: &str, ours: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies: ours.iter().map(|name| dependency(name, true)).collect(),
        }
    }

    /// A product dependency without features.
    pub(super) fn dependency(name: &str, ours: bool) -> Dependency {
        Dependency { name: name.to_owned(), kind: Kind::Product, features: Vec::new(), ours }
    }

    /// The lines at which a rule finds something in one planted file.
    pub(super) fn lines(rule: &Rule, path: &str, text: &str) -> Vec<usize> {
        findings(rule, &file(path, text)).into_iter().map(|finding| finding.line).collect()
    }

    /// What a rule finds.
    pub(super) fn findings(rule: &Rule, workspace: &Workspace) -> Vec<Finding> {
        (rule.check)(workspace)
    }
}
