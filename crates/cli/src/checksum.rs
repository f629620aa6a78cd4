//! `linerate checksum`: the sum of a volume's bytes, as `sha256sum` prints it.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use linerate::{Algorithm, ChecksumPlan};
use names::{ByteSize, VolumeUrl};
use serde::Serialize;

use crate::output;
use crate::watch::{EffortArgs, Watch};

/// Arguments of `checksum`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The volumes, such as iscsi://127.0.0.1/iqn.2026-11.org.linerate:disk/0
    #[arg(required = true, value_name = "URL")]
    urls: Vec<VolumeUrl>,
    /// How to sum
    #[arg(long, value_enum, default_value = "sha256")]
    algorithm: Name,
    /// The first byte to sum
    #[arg(long, default_value = "0", value_name = "BYTES")]
    offset: ByteSize,
    /// How many bytes to sum; to the end if not given
    #[arg(long, value_name = "BYTES")]
    length: Option<ByteSize>,
    /// Print one JSON array with an object for each volume
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    effort: EffortArgs,
}

/// A volume's sum. `docs/howto/data.md` has the keys, which stay.
#[derive(Debug, Serialize)]
struct Report {
    url: String,
    algorithm: Name,
    digits: String,
    offset: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
enum Name {
    Sha256,
    Sha512,
    Crc32c,
}

impl From<Name> for Algorithm {
    fn from(name: Name) -> Self {
        match name {
            Name::Sha256 => Self::Sha256,
            Name::Sha512 => Self::Sha512,
            Name::Crc32c => Self::Crc32c,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let plan = ChecksumPlan {
        algorithm: args.algorithm.into(),
        offset: args.offset.0,
        length: args.length.map(|length| length.0),
        effort: args.effort.effort(),
    };
    let watch = Watch::start()?;
    let mut reports = Vec::new();
    for url in &args.urls {
        let result = linerate::checksum(url, plan, watch.control()?)?;
        watch.clear();
        if result.stopped {
            bail!("{url}: stopped after {} bytes, which have no sum", result.bytes);
        }
        if args.json {
            let (url, offset) = (url.to_string(), args.offset.0);
            let (digits, bytes) = (result.digits, result.bytes);
            reports.push(Report { url, algorithm: args.algorithm, digits, offset, bytes });
        } else {
            output::line(&format!("{}  {url}", result.digits))?;
        }
    }
    if args.json {
        output::json(&reports)?;
    }
    Ok(ExitCode::SUCCESS)
}
