//! The load on a volume of the cluster: reads and writes that are compared with what was written, and what came of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::nodes::{Cluster, Job, name};

/// Reads and writes a second on each volume: an open loop, so that whatever waits behind a stall counts with the time that it waited.
const RATE: u32 = 400;
/// Requests under way at a time.
const DEPTH: u32 = 16;
/// Seconds that a load may take beyond its own.
const GRACE: Duration = Duration::from_mins(2);

/// A load on one volume.
#[derive(Debug)]
pub(super) struct Load {
    job: Job,
    volume: usize,
    seconds: u64,
}

/// The name under which `bench` counts a request that was fenced.
const FENCED: &str = "reservation-conflict";

/// What came of a load.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) volume: usize,
    pub(super) ios: u64,
    pub(super) errors: u64,
    pub(super) longest: Duration,
}

impl Load {
    /// Begins on the node that owns the volume.
    pub(super) fn start(cluster: &mut Cluster, node: usize, volume: usize, seconds: u64) -> Result<Self> {
        Self::run(cluster, node, volume, seconds, &["--verify"])
    }

    /// Begins a load that is to outlive the right to write: requests that fail are counted.
    pub(super) fn start_preempted(
        cluster: &mut Cluster,
        node: usize,
        volume: usize,
        seconds: u64,
    ) -> Result<Self> {
        Self::run(cluster, node, volume, seconds, &["--continue-on-error"])
    }

    fn run(cluster: &mut Cluster, node: usize, volume: usize, seconds: u64, more: &[&str]) -> Result<Self> {
        let (url, runtime, seed) =
            (Cluster::local_url(volume)?, seconds.to_string(), (volume + 1).to_string());
        let (rate, depth) = (RATE.to_string(), DEPTH.to_string());
        let load =
            ["bench", &url, "--rw", "randrw", "--overwrite", "--json", "--rate", &rate, "--qd", &depth];
        let rest = ["--runtime", &runtime, "--seed", &seed];
        let job =
            cluster.spawn(node, &format!("load-{}", name(volume)), &[&load[..], &rest, more].concat())?;
        Ok(Self { job, volume, seconds })
    }

    /// Waits for the end of a load that was to fail; how many of its requests a reservation stopped.
    pub(super) fn finish_fenced(self) -> Result<u64> {
        let named = || format!("the load on {}, of the old owner", name(self.volume));
        let text =
            self.job.output_of_failure(Duration::from_secs(self.seconds) + GRACE).with_context(named)?;
        let result: Value = serde_json::from_str(&text).with_context(named)?;
        let kinds = &result["errors_by_kind"];
        let fenced = kinds[FENCED].as_u64().unwrap_or_default();
        ensure!(fenced > 0, "{}: no request was stopped by a reservation, but {kinds}", named());
        Ok(fenced)
    }

    /// Waits for the end of a load of which nothing must succeed; how many requests a reservation stopped.
    pub(super) fn finish_refused(self) -> Result<u64> {
        let named = || format!("the later load on {}, of the old owner", name(self.volume));
        let text =
            self.job.output_of_failure(Duration::from_secs(self.seconds) + GRACE).with_context(named)?;
        let result: Value = serde_json::from_str(&text).with_context(named)?;
        let served: u64 =
            [&result["read"], &result["write"]].iter().filter_map(|of| of["ios"].as_u64()).sum();
        let refused = result["errors_by_kind"][FENCED].as_u64().unwrap_or_default();
        ensure!(served == 0 && refused > 0, "{}: {served} requests were served, {refused} refused", named());
        Ok(refused)
    }

    /// Waits for its end. A request that failed, or data that was not what had been written, is an error.
    pub(super) fn finish(self) -> Result<Outcome> {
        let named = || format!("the load on {}", name(self.volume));
        let text = self.job.output(Duration::from_secs(self.seconds) + GRACE).with_context(named)?;
        let result: Value = serde_json::from_str(&text).with_context(named)?;
        let errors = result["errors"].as_u64().unwrap_or(u64::MAX);
        ensure!(errors == 0, "{}: {errors} requests failed: {}", named(), result["first_error"]);
        let directions = [&result["read"], &result["write"]];
        let number = |key: &str| directions.iter().filter_map(|of| of[key].as_u64()).sum();
        let longest = directions.iter().filter_map(|of| of["latency_ns"]["max"].as_u64()).max();
        let longest = Duration::from_nanos(longest.with_context(|| format!("{}: no I/O ended", named()))?);
        Ok(Outcome { volume: self.volume, ios: number("ios"), errors, longest })
    }
}
