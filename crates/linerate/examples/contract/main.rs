//! Runs the volume contract's suite on any volume: `contract URL [FAULT...]`. **Overwrites** the volume.
//!
//! For volumes that need event loops, remote ones above all: the suite waits, the loops do not, and `bridge` joins them. The
//! exit code is 0 when every promise of docs/volume-contract.md was kept. A foreign peer's known faults are named one by one:
//! `no-difference` for one that does not tell where a comparison failed, `torn` for one that mixes requests that overlap, `compare=N` for one
//! that compares and writes at most N blocks. With `bad=FIRST-LAST`, blocks whose reads fail with a medium error, only the check that needs such is run.

mod bridge;

use std::process::ExitCode;
use std::sync::Arc;

use bridge::Bridge;
use linerate::{Volume, VolumeUrl};
use volume::Extent;
use volume::contract::{self, Options, RealWorld};

/// Rounds of a millisecond or so without an answer after which a request counts as lost: two minutes, as peers and machines may
/// be slow. Never a measure of speed.
const PATIENCE: u32 = 120_000;

/// Blocks in SCSI's compare-and-write at most: its length has one byte (SBC-4 §5.3).
const SCSI_COMPARE: u64 = 255;

/// Reads `FIRST-LAST`.
fn extent(blocks: &str) -> Option<Extent> {
    let (first, last) = blocks.split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    Some(Extent::new(first, last.checked_sub(first)?.checked_add(1)?))
}

fn run(url: &str, faults: &[String]) -> Result<String, String> {
    let url: VolumeUrl = url.parse().map_err(|error| format!("{error}"))?;
    let scsi = matches!(url.source, names::Source::Iscsi(_));
    let longest_compare_and_write = if scsi { SCSI_COMPARE } else { u64::MAX };
    let mut options = Options { patience: PATIENCE, longest_compare_and_write, ..Options::default() };
    let mut bad = None;
    for fault in faults {
        match fault.split_once('=') {
            None if fault == "no-difference" => options.names_difference = false,
            None if fault == "torn" => options.threads = 0,
            Some(("compare", blocks)) => {
                options.longest_compare_and_write =
                    blocks.parse().map_err(|_| format!("{fault}: {blocks:?} is not a number of blocks"))?;
            }
            Some(("bad", blocks)) => {
                bad = Some(extent(blocks).ok_or(format!("{fault}: {blocks:?} is not FIRST-LAST"))?);
            }
            _ => {
                return Err(format!(
                    "there is no fault {fault:?} to name; there are no-difference, torn, compare=N and bad=FIRST-LAST"
                ));
            }
        }
    }
    let volume: Arc<dyn Volume> = Arc::new(Bridge::open(&url)?);
    let verdict = match bad {
        Some(bad) => contract::check_medium_errors(&volume, bad, &options, &|| Box::new(RealWorld::new())),
        None => contract::check(&volume, &options, &|| Box::new(RealWorld::new())),
    };
    let last_error = volume.last_error().map(|text| format!(" (last error: {text})")).unwrap_or_default();
    verdict.map_err(|violation| format!("{url} breaks the contract: {violation}{last_error}"))?;
    Ok(format!("{url} keeps the contract, with {:?}", volume.features()))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(url) = arguments.next() else {
        eprintln!("usage: contract URL [FAULT...]   (overwrites the volume)");
        return ExitCode::from(2);
    };
    match run(&url, &arguments.collect::<Vec<_>>()) {
        Ok(words) => {
            eprintln!("{words}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("{words}");
            ExitCode::FAILURE
        }
    }
}
