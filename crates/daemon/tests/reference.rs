//! `docs/reference/configuration.md` has every key of the configuration file, and none that there is not.
//!
//! The code is asked by a key that does not exist: the refusal lists those that do.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;

use daemon::Config;
use tempfile::tempdir;

const PAGE: &str = include_str!("../../../docs/reference/configuration.md");
/// A key that no table has.
const NO_KEY: &str = "no_such_key = 1\n";

/// What every table is called in the page, its key in the one above it, and a file whose last table it is.
const TABLES: [(&str, &str, &str); 8] = [
    ("[daemon]", "daemon", "[daemon]\n"),
    ("[limits]", "limits", "[limits]\n"),
    ("[[portal]]", "portal", "[[portal]]\n"),
    ("[[volume]]", "volume", "[[volume]]\n"),
    ("[[share]]", "share", "[[share]]\n"),
    ("[[access]]", "access", "[[access]]\n"),
    ("[discovery]", "discovery", "[discovery]\n"),
    ("access.chap", "", "[[access]]\n[access.chap]\n"),
];

/// The keys that a table may hold, by the refusal of one that it may not.
fn allowed(file: &str) -> BTreeSet<String> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("linerate.toml");
    fs::write(&path, format!("{file}{NO_KEY}")).unwrap();
    let refusal = format!("{:#}", Config::read(&path).unwrap_err());
    let (_, list) = refusal.split_once("expected ").unwrap_or_else(|| panic!("no keys in: {refusal}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The first cells of the table under a heading of the page.
fn described(table: &str) -> BTreeSet<String> {
    let heading = format!("\n### `{table}`\n");
    let (_, section) = PAGE.split_once(&heading).unwrap_or_else(|| panic!("the page has no {table}"));
    let lines = section.lines().take_while(|line| !line.starts_with('#'));
    let rows = lines.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(key, _)| key.to_owned()).collect()
}

#[test]
fn every_key_is_described() {
    for (table, _, file) in TABLES {
        assert_eq!(described(table), allowed(file), "docs/reference/configuration.md, {table}");
    }
    let tables: BTreeSet<String> =
        TABLES.iter().map(|(_, key, _)| (*key).to_owned()).filter(|key| !key.is_empty()).collect();
    assert_eq!(tables, allowed(""), "docs/reference/configuration.md must have every table");
}

#[test]
fn the_example_is_a_configuration() {
    let (_, block) = PAGE.split_once("```toml\n").unwrap();
    let folder = tempdir().unwrap();
    let path = folder.path().join("linerate.toml");
    fs::write(&path, block.split_once("```").unwrap().0).unwrap();
    Config::read(&path).unwrap().check().unwrap();
}
