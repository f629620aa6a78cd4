//! `linerate discover`: what a portal offers, by the protocol's own discovery.

use anyhow::Result;
use clap::Parser;
use names::DiscoveryUrl;

use crate::output;

/// Arguments of `discover`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The portal, such as iscsi://127.0.0.1 or nvme+tcp://127.0.0.1
    url: DiscoveryUrl,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let found = linerate::discover(&args.url)?;
    if args.json {
        let rows: Vec<_> = found
            .iter()
            .map(|entry| serde_json::json!({ "name": entry.name, "address": entry.address }))
            .collect();
        return output::line(&serde_json::to_string(&rows)?);
    }
    found.iter().try_for_each(|entry| output::line(&format!("{}\t{}", entry.address, entry.name)))
}
