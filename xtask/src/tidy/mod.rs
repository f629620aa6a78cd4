//! `cargo xtask tidy`: the rules of the architecture that no compiler and no lint knows.
//!
//! Each rule is one file under `rules/`: its documentation says why it exists, its test plants a breach and sees it found. A rule reads the
//! [`Workspace`] and nothing else. `ARCHITECTURE.md` states the same invariants in prose. Some rules are hints: what they find is printed and breaks nothing.

mod functions;
mod imports;
mod rule;
mod rules;
pub(crate) mod source;

pub(crate) use rule::{Finding, Rule};

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// Runs every rule on the workspace; an error if there is any finding.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut count = 0;
    for rule in rules::ALL {
        let findings = findings(rule, &workspace);
        count += findings.len();
        for finding in findings {
            eprintln!("{finding} [{}]", rule.name);
        }
    }
    for rule in rules::HINTS {
        for finding in findings(rule, &workspace) {
            eprintln!("hint: {finding} [{}]", rule.name);
        }
    }
    if count > 0 {
        bail!("tidy: {count} findings");
    }
    eprintln!("tidy: {} rules hold over {} files", rules::ALL.len(), workspace.files.len());
    Ok(())
}

fn findings(rule: &Rule, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = (rule.check)(workspace);
    findings.sort();
    findings
}

/// Prints the rules, and then the hints.
pub(crate) fn list() {
    for rule in rules::ALL {
        eprintln!("{:<16}{}", rule.name, rule.demands);
    }
    for rule in rules::HINTS {
        eprintln!("{:<16}{} (a hint)", rule.name, rule.demands);
    }
}
