//! Developer tools, run as `cargo xtask COMMAND`.
//!
//! They live in a crate of the workspace so that a fresh clone needs nothing but cargo. The commands are few; each is one module here.

mod check;
mod limits;
mod purity;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// What `cargo xtask` prints when it is asked for nothing, or for something unknown.
const USAGE: &str = "\
usage: cargo xtask COMMAND

  check   fmt, clippy, tidy, purity and deny: all that must hold before a commit
  tidy    the rules that no compiler knows: layers, purity, unsafe, headers, names, …
  purity  links the protocols without the standard library
  limits  writes docs/limits.md from every crate's limits.rs
  deny    licences, bans and sources of the dependencies (cargo-deny)
  rules   the rules of tidy, one line each";

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Option<&str>) -> Result<()> {
    match command {
        Some("check") => check::all(),
        Some("tidy") => tidy::run(),
        Some("purity") => purity::run(),
        Some("limits") => limits::write(),
        Some("deny") => check::deny(),
        Some("rules") => {
            tidy::list();
            Ok(())
        }
        Some(unknown) => bail!("there is no command {unknown:?}\n\n{USAGE}"),
        None => bail!("a command is needed\n\n{USAGE}"),
    }
}
