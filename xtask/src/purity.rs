//! `cargo xtask purity`: the protocols and what they import, linked without the standard library.
//!
//! The tidy rule `purity` reads what protocol crates say; this sees what comes with what they import. The crate `purity` has a panic handler of its
//! own, so that it builds only if nothing brings in the standard library. It is built twice: as it is, which must succeed, and with a planted use of
//! the standard library, which must fail, or the first build would prove nothing.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// What rustc says of a second panic handler.
const CLASH: &str = "duplicate lang item `panic_impl`";

/// What to do about it.
const ADVICE: &str = "something that layer 2 imports needs the standard library. Take the name from `core` or `alloc`; what protocols do not use goes \
    behind the feature `std` of its crate of layer 0 or 1; a foreign crate is imported without its feature `std`";

/// Builds the proof, and sees the planted offence found.
pub(crate) fn run() -> Result<()> {
    judge(&build(&[])?, &build(&["--features", "planted"])?)?;
    eprintln!("purity: the protocols link without the standard library");
    Ok(())
}

/// How a build ended.
struct Build {
    succeeded: bool,
    messages: String,
}

fn build(more: &[&str]) -> Result<Build> {
    let arguments = ["build", "--quiet", "--locked", "--package", "purity", "--profile", "purity"];
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(arguments).args(more).current_dir(workspace::root()?).output();
    let Output { status, stderr, .. } = output.context("cannot start cargo")?;
    Ok(Build { succeeded: status.success(), messages: String::from_utf8_lossy(&stderr).into_owned() })
}

fn judge(proof: &Build, planted: &Build) -> Result<()> {
    if !proof.succeeded {
        let advice =
            if proof.messages.contains(CLASH) { ADVICE } else { "the crate `purity` does not build" };
        bail!("purity: {advice}\n{}", proof.messages);
    }
    if planted.succeeded || !planted.messages.contains(CLASH) {
        bail!("purity: a planted use of the standard library was not found\n{}", planted.messages);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(succeeded: bool, messages: &str) -> Build {
        Build { succeeded, messages: messages.to_owned() }
    }

    #[test]
    fn only_a_proof_that_links_beside_a_plant_that_does_not_counts() {
        let clash = format!("error[E0152]: found {CLASH}");
        let words = |proof: &Build, planted: &Build| judge(proof, planted).unwrap_err().to_string();
        assert!(judge(&ended(true, ""), &ended(false, &clash)).is_ok());
        assert!(words(&ended(false, &clash), &ended(false, &clash)).contains("behind the feature `std`"));
        assert!(words(&ended(false, "no disk"), &ended(false, &clash)).contains("no disk"));
        assert!(words(&ended(true, ""), &ended(true, "")).contains("planted"));
        assert!(words(&ended(true, ""), &ended(false, "no disk")).contains("planted"));
    }
}
