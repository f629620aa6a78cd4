//! Every crate takes the workspace's lints, version and licence, and none is published by accident.
//!
//! Why: a crate that forgets `[lints] workspace = true` is silently outside every lint that the others keep.

use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule = Rule {
    name: "manifests",
    demands: "every crate inherits lints, version, licence and publish = false",
    check,
};

/// What every manifest inherits, by table and key.
const INHERITED: &[(&str, &str)] = &[
    ("package", "version"),
    ("package", "edition"),
    ("package", "rust-version"),
    ("package", "license"),
    ("package", "publish"),
];

/// The one crate with a licence of its own: it is compiled against fio's headers.
const FOREIGN_LICENCE: (&str, &str) = ("fio-engine/Cargo.toml", "license");

fn check(workspace: &Workspace) -> Vec<Finding> {
    let manifests = workspace.crates.iter().filter_map(|member| workspace.file(&member.manifest));
    manifests.flat_map(|file| check_manifest(&file.path, &file.text)).collect()
}

fn check_manifest(path: &str, text: &str) -> Vec<Finding> {
    let Ok(manifest) = text.parse::<toml::Table>() else {
        return vec![Finding::whole(path, "is no TOML")];
    };
    let inherits = |value: Option<&toml::Value>| {
        value.and_then(|value| value.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    let mut findings = Vec::new();
    if !inherits(manifest.get("lints")) {
        findings.push(Finding::whole(path, "has no `[lints] workspace = true`"));
    }
    for (table, key) in INHERITED {
        if (path, *key) == FOREIGN_LICENCE {
            continue;
        }
        if !inherits(manifest.get(*table).and_then(|table| table.get(*key))) {
            findings.push(Finding::whole(path, format!("does not inherit {table}.{key} from the workspace")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                        license.workspace = true\npublish.workspace = true\n[lints]\nworkspace = true\n";

    #[test]
    fn a_whole_manifest_passes_and_gaps_are_found() {
        assert_eq!(check_manifest("x", GOOD), []);
        assert_eq!(check_manifest("x", &GOOD.replace("[lints]\nworkspace = true", "")).len(), 1);
        assert_eq!(check_manifest("x", &GOOD.replace("publish.workspace = true", "publish = true")).len(), 1);
    }
}
