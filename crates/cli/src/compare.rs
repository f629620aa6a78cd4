//! `linerate compare`: do two volumes hold the same? Exit code 0 says yes, 1 no, 2 that it could not be found out.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use linerate::CompareResult;
use names::VolumeUrl;
use serde::Serialize;

use crate::output;
use crate::watch::{EffortArgs, Watch, exit_code};

/// The exit code of a difference.
const DIFFERENT: u8 = 1;
/// The exit code of an error.
const FAILED: u8 = 2;

/// Arguments of `compare`.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit codes: 0 when both hold the same, 1 when they differ, 2 when an error prevented the comparison."
)]
pub(crate) struct Args {
    /// The one volume
    one: VolumeUrl,
    /// The other volume
    two: VolumeUrl,
    /// Also require the same size; otherwise the end of the longer one must be zeros
    #[arg(long)]
    strict: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    effort: EffortArgs,
}

/// What was found. `docs/howto/data.md` has the keys, which stay.
#[derive(Debug, Serialize)]
struct Report {
    one: String,
    two: String,
    one_bytes: u64,
    two_bytes: u64,
    equal: bool,
    compared_bytes: u64,
    first_difference: Option<u64>,
    differing_bytes: u64,
    differing_runs: u64,
    stopped: bool,
    seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> ExitCode {
    match compare(args) {
        Ok(code) => code,
        Err(error) => output::failed(&error, FAILED),
    }
}

fn compare(args: &Args) -> Result<ExitCode> {
    let watch = Watch::start()?;
    let result = linerate::compare(&args.one, &args.two, args.effort.effort(), watch.control()?)?;
    watch.clear();
    let differ = args.strict && result.sizes.0 != result.sizes.1;
    let sizes = if differ { Sizes::Differ } else { Sizes::Pass };
    let different = result.first.is_some() || sizes == Sizes::Differ;
    if args.json {
        output::json(&Report {
            one: args.one.to_string(),
            two: args.two.to_string(),
            one_bytes: result.sizes.0,
            two_bytes: result.sizes.1,
            equal: !different && !result.stopped,
            compared_bytes: result.bytes,
            first_difference: result.first,
            differing_bytes: result.differing,
            differing_runs: result.runs,
            stopped: result.stopped,
            seconds: watch.seconds(),
        })?;
    } else {
        output::line(&words(&result, sizes))?;
    }
    if different {
        return Ok(ExitCode::from(DIFFERENT));
    }
    Ok(exit_code(result.stopped))
}

/// What the volumes' sizes come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sizes {
    /// They are equal, or may differ.
    Pass,
    /// They differ, and must not.
    Differ,
}

fn words(result: &CompareResult, verdict: Sizes) -> String {
    let CompareResult { sizes, bytes, first, differing, runs, stopped } = *result;
    let found = match first {
        Some(first) => {
            format!("different from byte {first} on: {differing} of {bytes} bytes differ, in {runs} runs")
        }
        None if verdict == Sizes::Differ => format!("different sizes: {} and {} bytes", sizes.0, sizes.1),
        None => format!("equal: {bytes} bytes"),
    };
    let tail = if sizes.0 != sizes.1 && verdict == Sizes::Pass {
        format!(" (one has {} bytes, the other {}: what is missing counts as zeros)", sizes.0, sizes.1)
    } else {
        String::new()
    };
    let end = if stopped { "; stopped before the end" } else { "" };
    format!("{found}{tail}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUAL: CompareResult = CompareResult {
        sizes: (1024, 1024),
        bytes: 1024,
        first: None,
        differing: 0,
        runs: 0,
        stopped: false,
    };

    #[test]
    fn the_words_say_what_was_found() {
        assert_eq!(words(&EQUAL, Sizes::Pass), "equal: 1024 bytes");
        let sizes = CompareResult { sizes: (512, 1024), ..EQUAL };
        assert_eq!(words(&sizes, Sizes::Differ), "different sizes: 512 and 1024 bytes");
        assert!(words(&sizes, Sizes::Pass).starts_with("equal: 1024 bytes (one has 512 bytes"));
        let different = CompareResult { first: Some(7), differing: 3, runs: 2, stopped: true, ..EQUAL };
        assert_eq!(
            words(&different, Sizes::Pass),
            "different from byte 7 on: 3 of 1024 bytes differ, in 2 runs; stopped before the end"
        );
    }
}
