//! The contract on the file system in memory, and on ones that break it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod planted;

use std::sync::Arc;

use filesystem::contract::{self, Options};
use filesystem::{FileSystem, Memory, MemoryOptions};
use planted::{Bug, Planted};

fn memory() -> Arc<dyn FileSystem> {
    Arc::new(Memory::new(MemoryOptions { bytes: 1 << 30, ..MemoryOptions::default() }))
}

#[test]
fn memory_keeps_the_contract() {
    for seed in 1..4 {
        if let Err(violation) = contract::check(&memory(), &Options { seed, ..Options::default() }) {
            panic!("{violation}");
        }
    }
}

#[test]
fn every_planted_bug_is_found() {
    let options = Options { patience: 300, ..Options::default() };
    for (bug, expected) in Bug::ALL {
        let system: Arc<dyn FileSystem> = Arc::new(Planted::new(memory(), *bug));
        let violation = contract::check(&system, &options).expect_err(&format!("{bug:?}"));
        assert!(expected.contains(&violation.check), "{bug:?} was found by {violation}");
    }
}

#[test]
fn the_document_names_every_check() {
    let text = include_str!("../../../docs/filesystem-contract.md");
    for name in contract::names() {
        assert!(text.contains(&format!("`{name}`")), "docs/filesystem-contract.md lacks {name}");
    }
}
