//! `cargo xtask check`: formatting, lints, tidy, purity and the supply chain, in the order in which they are cheapest to mend.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{purity, tidy, workspace};

/// The release of cargo-deny that `deny.toml` is written for. `scripts/setup.sh` installs it into `target/tools`.
const CARGO_DENY: &str = "0.20.2";

/// Everything that must hold before a commit. Stops at the first step that fails.
pub(crate) fn all() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    tidy::run()?;
    purity::run()?;
    deny()
}

/// Licences, bans and sources of every dependency. Advisories need a database from the network, which a build must not depend on: they are
/// for `cargo deny check advisories`, by hand.
pub(crate) fn deny() -> Result<()> {
    let program = deny_program()?;
    // What no step before has built (the fuzz targets' dependencies, on a fresh machine) has to be there to be looked at.
    cargo(&["fetch", "--locked", "--quiet"])?;
    step("cargo deny check licenses bans sources");
    let mut command = Command::new(program);
    // A wrapper that no dependency needs yet is no finding: the rule stands before its first user.
    command.args(["--offline", "check", "--hide-inclusion-graph", "--allow", "unused-wrapper"]);
    command.args(["licenses", "bans", "sources"]);
    finish(&mut command)
}

/// cargo-deny from the project's own tools if it is there, else from the search path.
fn deny_program() -> Result<PathBuf> {
    let own = workspace::root()?.join("target/tools/bin/cargo-deny");
    if own.exists() {
        return Ok(own);
    }
    let version = Command::new("cargo-deny").arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return Ok(PathBuf::from("cargo-deny"));
    }
    bail!(
        "cargo-deny is not installed; `scripts/setup.sh tools` builds it into target/tools, \
         or install it yourself: cargo install cargo-deny@{CARGO_DENY} --locked"
    )
}

fn cargo(arguments: &[&str]) -> Result<()> {
    step(&format!("cargo {}", arguments.join(" ")));
    finish(Command::new(env!("CARGO")).args(arguments))
}

fn step(words: &str) {
    eprintln!("xtask: {words}");
}

fn finish(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status =
        command.current_dir(workspace::root()?).status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} {status}");
    }
    Ok(())
}
