//! `linerate discover`: what a portal offers, by the protocol's own discovery.

use anyhow::Result;
use clap::Parser;
use names::DiscoveryUrl;

use crate::output;

/// Arguments of `discover`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The portal, such as iscsi://127.0.0.1, nvme+tcp://127.0.0.1 or, over RDMA, nvme+rdma://127.0.0.1
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
            .map(|entry| match &entry.error {
                None => serde_json::json!({ "name": entry.name, "address": entry.address }),
                Some(why) => {
                    serde_json::json!({ "name": entry.name, "address": entry.address, "error": why })
                }
            })
            .collect();
        return output::json(&rows);
    }
    found.iter().try_for_each(|entry| {
        let why = entry.error.as_ref().map(|why| format!("\tnot known what is behind it: {why}"));
        output::line(&format!("{}\t{}{}", entry.address, entry.name, why.unwrap_or_default()))
    })
}
