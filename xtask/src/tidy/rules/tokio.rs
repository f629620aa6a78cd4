//! tokio is reached only through `daemon` and `admin`.
//!
//! Why: it serves the control plane, which its users (HTTP, gRPC) need. On the data path it costs a wakeup per I/O that the reactor does
//! not have, and as a dependency of a lower crate it would come into every program that embeds a volume.

use std::collections::BTreeSet;

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule { name: "tokio", demands: "tokio only through daemon and admin", check };

const RUNTIME: &str = "tokio";
const GATES: &[&str] = &["daemon", "admin"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let members = workspace.crates.iter().filter(|member| !GATES.contains(&member.name.as_str()));
    members
        .filter(|member| reaches(workspace, &member.name))
        .map(|member| {
            Finding::whole(&member.manifest, format!("`{}` reaches tokio past daemon and admin", member.name))
        })
        .collect()
}

/// Whether the runtime can be reached over product dependencies without passing a gate.
fn reaches(workspace: &Workspace, from: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        if name == RUNTIME {
            return true;
        }
        if !GATES.contains(&name) && seen.insert(name) {
            open.extend(workspace.graph.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    fn planted(edges: &[(&str, &str)]) -> usize {
        let mut workspace = Workspace { crates: vec![plant::member("cli", &[])], ..Workspace::default() };
        for (from, to) in edges {
            workspace.graph.entry((*from).to_owned()).or_default().push((*to).to_owned());
        }
        plant::findings(&RULE, &workspace).len()
    }

    #[test]
    fn through_the_daemon_is_allowed_and_past_it_is_found() {
        assert_eq!(planted(&[("cli", "daemon"), ("daemon", "axum"), ("axum", "tokio")]), 0);
        assert_eq!(planted(&[("cli", "hyper"), ("hyper", "tokio")]), 1);
    }
}
