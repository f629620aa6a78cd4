//! Protocol crates are `#![no_std]` without `unsafe`, and use only foreign crates that compute.
//!
//! Why: a protocol that has no clock, socket, thread or random source gives the same output for the same input, so that it can be tested
//! with a fake clock, fuzzed, and run in a simulator. `no_std` makes most of it a matter of the compiler; this rule sees that nobody takes
//! it off, and that no foreign dependency brings it back. `cargo xtask purity` sees what comes with our own: it links every protocol crate and what
//! it imports without the standard library. So this rule also demands that each of them is linked there, and that the crates of layers 0 and 1 below
//! them can be built so.

use super::super::source::has_word;
use super::super::{Finding, Rule};
use super::layers::layer;
use crate::workspace::{Crate, Dependency, Kind, Workspace};

pub(super) const RULE: Rule = Rule {
    name: "purity",
    demands: "protocol crates are no_std, free of unsafe, import only what computes, and are linked by `cargo xtask purity`",
    check,
};

/// The layer of the protocols.
const LAYER: u8 = 2;

/// The crate of that layer whose library is OpenSSL.
const EXEMPT: &str = "tls";

/// The crate that links them without the standard library.
const PROOF: &str = "purity";

/// What a crate below the protocols says in its root: one of these.
const WITHOUT_STD: &[&str] = &[
    "#![no_std]",
    "#![cfg_attr(not(feature = \"std\"), no_std)]",
    "#![cfg_attr(not(any(test, feature = \"std\")), no_std)]",
];

/// Foreign crates that only compute: layouts, flags, hashes, errors, containers.
const COMPUTING: &[&str] = &[
    "arrayvec",
    "bitflags",
    "crc-fast",
    "crypto-bigint",
    "hmac",
    "md-5",
    "num_enum",
    "sha1",
    "sha2",
    "sha3",
    "smallvec",
    "thiserror",
    "zerocopy",
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let members = workspace.crates.iter().filter(|member| is_protocol(&member.name));
    members
        .flat_map(|member| {
            let mut findings = check_root(workspace, &member.name);
            findings.extend(check_sources(workspace, &member.name));
            findings.extend(check_dependencies(member));
            findings.extend(check_proof(workspace, &member.name));
            findings.extend(check_below(workspace, member));
            findings
        })
        .collect()
}

fn is_protocol(name: &str) -> bool {
    layer(name) == Some(LAYER) && name != EXEMPT
}

fn check_proof(workspace: &Workspace, name: &str) -> Option<Finding> {
    let proof = workspace.crates.iter().find(|member| member.name == PROOF)?;
    let linked = proof.dependencies.iter().any(|dependency| dependency.name == name);
    let message =
        format!("`{name}` is not linked without the standard library: import it here, and in src/lib.rs");
    (!linked).then(|| Finding::whole(&proof.manifest, message))
}

/// The crates of ours that a protocol crate imports.
fn check_below(workspace: &Workspace, member: &Crate) -> Vec<Finding> {
    let ours =
        member.dependencies.iter().filter(|dependency| dependency.ours && dependency.kind == Kind::Product);
    let roots =
        ours.filter_map(|dependency| workspace.file(&format!("crates/{}/src/lib.rs", dependency.name)));
    let with_std = roots.filter(|file| !file.text.lines().any(|line| WITHOUT_STD.contains(&line)));
    let message = format!(
        "`{}` imports this crate, so it has {}, and what needs the standard library stands behind its feature `std`",
        member.name, WITHOUT_STD[1]
    );
    with_std.map(|file| Finding::whole(&file.path, message.clone())).collect()
}

fn check_root(workspace: &Workspace, name: &str) -> Vec<Finding> {
    let path = format!("crates/{name}/src/lib.rs");
    let text = workspace.file(&path).map_or("", |file| file.text.as_str());
    let missing = ["#![no_std]", "#![forbid(unsafe_code)]"]
        .into_iter()
        .filter(|line| !text.lines().any(|have| have == *line));
    missing.map(|line| Finding::whole(&path, format!("a protocol crate has {line}"))).collect()
}

fn check_sources(workspace: &Workspace, name: &str) -> Vec<Finding> {
    let folder = format!("crates/{name}/src/");
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under(&folder).filter(|(file, _)| !file.is_test()) {
        let uses_std = source.product_lines().filter(|(_, line)| uses_std(line));
        findings.extend(uses_std.map(|(number, _)| Finding::at(&file.path, number, USES_STD)));
    }
    findings
}

const USES_STD: &str = "a protocol crate uses `std`: take it from `core` or `alloc`, or as an argument if it is a clock, a thread or randomness";

fn uses_std(line: &str) -> bool {
    has_word(line, "std") && (line.contains("std::") || line.contains("crate std"))
}

fn check_dependencies(member: &Crate) -> Vec<Finding> {
    let foreign =
        member.dependencies.iter().filter(|dependency| !dependency.ours && dependency.kind == Kind::Product);
    foreign
        .filter_map(|dependency| {
            complaint(dependency).map(|message| Finding::whole(&member.manifest, message))
        })
        .collect()
}

fn complaint(dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    if !COMPUTING.contains(&name.as_str()) {
        return Some(format!("`{name}` is not among the crates that only compute"));
    }
    let std = dependency.features.iter().any(|feature| feature == "std");
    std.then(|| format!("`{name}` is used with its feature `std`"))
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;
    use crate::workspace::TextFile;

    const GOOD: &str =
        "//! x\n#![no_std]\n#![forbid(unsafe_code)]\n// std::fs\n#[cfg(test)]\nmod tests { use std::vec; }\n";

    fn planted(text: &str, member: Crate) -> usize {
        let files = vec![TextFile::new("crates/scsi/src/lib.rs", text)];
        plant::findings(&RULE, &Workspace { files, crates: vec![member], ..Workspace::default() }).len()
    }

    #[test]
    fn every_crate_of_the_layer_is_a_protocol_but_one() {
        for name in ["scsi", "iscsi", "nvme", "iwarp", "roce"] {
            assert!(is_protocol(name), "{name}");
        }
        for name in ["tls", "verbs", "engine", "utilities"] {
            assert!(!is_protocol(name), "{name}");
        }
    }

    #[test]
    fn a_pure_crate_passes() {
        assert_eq!(planted(GOOD, plant::member("scsi", &["wire"])), 0);
    }

    #[test]
    fn missing_attributes_and_std_are_found() {
        assert_eq!(planted("//! x\n", plant::member("scsi", &[])), 2);
        assert_eq!(planted(&format!("{GOOD}use std::fs;\n"), plant::member("scsi", &[])), 1);
        assert_eq!(planted(&format!("{GOOD}extern crate std;\n"), plant::member("scsi", &[])), 1);
    }

    #[test]
    fn a_crate_below_that_needs_std_is_found() {
        let below = |text: &str| {
            let files = [("scsi", GOOD), ("wire", text)];
            let files =
                files.map(|(name, text)| TextFile::new(format!("crates/{name}/src/lib.rs"), text)).into();
            let crates = vec![plant::member("scsi", &["wire"])];
            plant::findings(&RULE, &Workspace { files, crates, ..Workspace::default() }).len()
        };
        assert_eq!(below("//! x\nmod reader;\n"), 1);
        for line in WITHOUT_STD {
            assert_eq!(below(&format!("//! x\n{line}\n")), 0, "{line}");
        }
    }

    #[test]
    fn a_protocol_that_the_proof_leaves_out_is_found() {
        let with = |linked: &[&str]| {
            let files = vec![TextFile::new("crates/scsi/src/lib.rs", GOOD)];
            let crates = vec![plant::member("scsi", &[]), plant::member("purity", linked)];
            plant::findings(&RULE, &Workspace { files, crates, ..Workspace::default() }).len()
        };
        assert_eq!((with(&["scsi"]), with(&["nvme"])), (0, 1));
    }

    #[test]
    fn a_dependency_that_touches_the_world_is_found() {
        let mut member = plant::member("scsi", &[]);
        member.dependencies.push(plant::dependency("libc", false));
        let mut hash = plant::dependency("sha2", false);
        hash.features.push("std".to_owned());
        member.dependencies.push(hash);
        assert_eq!(planted(GOOD, member), 2);
    }
}
