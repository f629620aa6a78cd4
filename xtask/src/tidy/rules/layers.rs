//! A crate imports only lower layers, and the edges inside a layer that the design shows.
//!
//! Why: the layers are what keeps protocols testable without a network and the engine runnable in a simulator. One edge the wrong way is
//! easily added and hard to take out again. An edge beyond these needs a decision record that names it. An edge that is allowed and that no crate has is
//! a breach too: it would let in unseen what nobody decided.

use super::super::{Finding, Rule};
use crate::workspace::{Crate, Dependency, Kind, Workspace};

pub(super) const RULE: Rule = Rule {
    name: "layers",
    demands: "a crate imports only lower layers and the edges shown in ARCHITECTURE.md, and all of these edges exist",
    check,
};

/// Every crate and its layer. A crate of the design that stands here need not exist yet; one that exists must stand here.
const LAYERS: &[(u8, &[&str])] = &[
    (0, &["wire", "buf", "names"]),
    (1, &["protocol", "volume", "filesystem", "host", "verbs"]),
    (2, &["scsi", "iscsi", "nvme", "rpc", "nfs", "iwarp", "roce", "virtio", "tls"]),
    (3, &["engine", "reactor", "backends", "ibverbs", "vhost-user", "cache", "mirror"]),
    (
        4,
        &[
            "linerate",
            "admin",
            "daemon",
            "attach",
            "lab-model",
            "lab-runner",
            "lab-report",
            "simulator",
            "cli",
            "fio-engine",
            "fuzz",
            "purity",
            "vm-guest",
            "xtask",
        ],
    ),
];

/// The file that this list is in.
const HERE: &str = "xtask/src/tidy/rules/layers.rs";

/// The edges inside a layer. `protocol` owns the clock's type, which the other contracts use.
const SAME_LAYER: &[(&str, &str)] = &[
    ("volume", "protocol"),
    ("filesystem", "protocol"),
    ("host", "protocol"),
    ("host", "verbs"),
    ("verbs", "protocol"),
    ("iscsi", "scsi"),
    ("nfs", "rpc"),
    ("lab-runner", "lab-model"),
    ("lab-report", "lab-model"),
    ("attach", "linerate"),
    ("fio-engine", "linerate"),
    ("fuzz", "attach"),
    ("fuzz", "daemon"),
    ("daemon", "linerate"),
    ("cli", "daemon"),
    ("cli", "attach"),
    ("cli", "lab-model"),
    ("cli", "lab-runner"),
    ("cli", "lab-report"),
    ("cli", "linerate"),
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings: Vec<Finding> = workspace.crates.iter().flat_map(check_crate).collect();
    findings.extend(unused(workspace, SAME_LAYER));
    findings
}

/// The allowed edges that no crate has.
fn unused(workspace: &Workspace, allowed: &[(&str, &str)]) -> Vec<Finding> {
    let has = |from: &str, to: &str| {
        let edges = workspace
            .crates
            .iter()
            .filter(|member| member.name == from)
            .flat_map(|member| &member.dependencies);
        edges.filter(|edge| edge.ours && edge.kind == Kind::Product).any(|edge| edge.name == to)
    };
    let unused = allowed.iter().filter(|(from, to)| !has(from, to));
    unused
        .map(|(from, to)| Finding::whole(HERE, format!("`{from}` does not import `{to}`: take the edge out")))
        .collect()
}

fn check_crate(member: &Crate) -> Vec<Finding> {
    let Some(own) = layer(&member.name) else {
        return vec![Finding::whole(
            &member.manifest,
            format!("`{}` is in no layer of the design", member.name),
        )];
    };
    let ours = member.dependencies.iter().filter(|dependency| dependency.ours);
    ours.filter(|dependency| !allowed(&member.name, own, dependency))
        .map(|dependency| {
            Finding::whole(
                &member.manifest,
                format!("`{}` may not import `{}`", member.name, dependency.name),
            )
        })
        .collect()
}

/// Tests may also use what stands beside a crate, as they join things that the product keeps apart; never what stands above.
fn allowed(from: &str, own: u8, dependency: &Dependency) -> bool {
    let Some(other) = layer(&dependency.name) else { return false };
    let same_layer = dependency.kind == Kind::Test || SAME_LAYER.contains(&(from, dependency.name.as_str()));
    other < own || (other == own && same_layer)
}

/// The layer of a crate of the design.
pub(super) fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(_, names)| names.contains(&name)).map(|&(layer, _)| layer)
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    fn findings(member: &Crate) -> usize {
        check_crate(member).len()
    }

    #[test]
    fn lower_layers_and_shown_edges_pass() {
        assert_eq!(findings(&plant::member("iscsi", &["wire", "volume", "scsi"])), 0);
        assert_eq!(findings(&plant::member("daemon", &["engine", "reactor", "backends", "linerate"])), 0);
    }

    #[test]
    fn upward_sideways_and_unknown_are_found() {
        assert_eq!(findings(&plant::member("volume", &["engine"])), 1);
        assert_eq!(findings(&plant::member("scsi", &["iscsi"])), 1);
        assert_eq!(findings(&plant::member("engine", &["reactor"])), 1);
        assert_eq!(findings(&plant::member("utilities", &[])), 1);
    }

    #[test]
    fn tests_may_look_sideways_but_not_up() {
        let mut member = plant::member("engine", &["reactor", "daemon"]);
        for dependency in &mut member.dependencies {
            dependency.kind = Kind::Test;
        }
        assert_eq!(findings(&member), 1);
    }

    #[test]
    fn an_allowed_edge_that_no_crate_has_is_found() {
        let mut tested = plant::member("iscsi", &["iwarp"]);
        tested.dependencies[0].kind = Kind::Test;
        let crates = vec![plant::member("daemon", &["linerate"]), tested];
        let workspace = Workspace { crates, ..Workspace::default() };
        assert_eq!(unused(&workspace, &[("daemon", "linerate")]), []);
        // What tests alone import needs no edge.
        let edges = [("daemon", "linerate"), ("daemon", "attach"), ("iscsi", "iwarp"), ("rpc", "iwarp")];
        let found: Vec<String> =
            unused(&workspace, &edges).into_iter().map(|finding| finding.message).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("`daemon` does not import `attach`"), "{found:?}");
        // The rule looks for them: a workspace of one crate has none of the edges.
        let alone = Workspace { crates: vec![plant::member("wire", &[])], ..Workspace::default() };
        assert_eq!(plant::findings(&RULE, &alone).len(), SAME_LAYER.len());
    }
}
