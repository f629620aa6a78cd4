//! `unsafe` stands only in a few small modules at the edge.
//!
//! Why: whoever reviews memory safety must know where to look. Each of these places talks to the kernel, to C, or hands out memory; nothing
//! else needs it. Clippy sees to it that each block says why it is sound.

use super::super::source::has_word;
use super::super::{Finding, Rule};
use crate::workspace::Workspace;

pub(super) const RULE: Rule =
    Rule { name: "unsafe", demands: "unsafe code only in the modules named for it", check };

/// Where `unsafe` may stand: a folder with its slash, or a module as file or folder without its ending.
const ALLOWED: &[&str] = &[
    "crates/buf/src/",
    "crates/reactor/src/sys",
    "crates/backends/src/ioctl",
    "crates/backends/src/rbd",
    "crates/attach/src/sys",
    "crates/ibverbs/src/sys",
    "crates/vhost-user/src/sys",
    "crates/tls/src/ffi",
    "crates/linerate/src/capi",
    "fio-engine/",
    "xtask/purity/src/world",
];

/// The one thing that tests need it for: an allocator that counts, in a file of that name.
const COUNTING_ALLOCATOR: &str = "counting_allocator.rs";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.rust_under("").filter(|(file, _)| !allowed(&file.path, file.is_test())) {
        let hits = source.code_lines().filter(|(_, line)| has_word(line, "unsafe"));
        findings.extend(
            hits.map(|(number, _)| {
                Finding::at(&file.path, number, "unsafe outside the modules named for it")
            }),
        );
    }
    findings
}

fn allowed(path: &str, is_test: bool) -> bool {
    let inside = |place: &&str| match path.strip_prefix(*place) {
        Some(rest) => place.ends_with('/') || rest == ".rs" || rest.starts_with('/'),
        None => false,
    };
    ALLOWED.iter().any(inside) || (is_test && path.ends_with(COUNTING_ALLOCATOR))
}

#[cfg(test)]
mod tests {
    use super::super::plant;
    use super::*;

    const PLANTED: &str = "//! x\n#![deny(unsafe_code)]\n// unsafe\nfn f() { unsafe { g() } }\n";

    #[test]
    fn named_modules_pass() {
        for path in ["crates/buf/src/pool.rs", "crates/reactor/src/sys.rs", "crates/reactor/src/sys/ring.rs"]
        {
            assert!(plant::lines(&RULE, path, PLANTED).is_empty(), "{path}");
        }
        assert!(plant::lines(&RULE, "crates/engine/tests/counting_allocator.rs", PLANTED).is_empty());
    }

    #[test]
    fn others_are_found_at_their_line() {
        for path in [
            "crates/engine/src/driver.rs",
            "crates/reactor/src/system.rs",
            "crates/engine/src/counting_allocator.rs",
        ] {
            assert_eq!(plant::lines(&RULE, path, PLANTED), [4], "{path}");
        }
    }
}
