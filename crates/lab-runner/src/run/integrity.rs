//! The integrity pass: before an arm is measured, it must keep what it is given.
//!
//! Patterns are written through the arm's own path, flushed and read back, some overwritten, zeroed or discarded. A fast
//! arm that loses data gets no row. Endpoints up to 256 MiB are filled by it: a volume with holes would be measured as if
//! reading nothing were fast, and some initiators do not even ask for a hole. A `null` volume keeps nothing by definition and is passed over, by name.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::stage::Stage;
use crate::machine::process::{CommandLine, Running};
use crate::tool::integrity::{Integrity, checker, scheme};
use crate::tool::{self, Keeping};
use lab_model::scenario::Initiator;

/// How long the pass over one endpoint may take.
const LIMIT: Duration = Duration::from_mins(1);
/// The programs that check.
#[derive(Debug, Clone, Copy)]
pub struct Programs<'a> {
    /// The `linerate` program.
    pub linerate: &'a Path,
    /// The folder of fio's engines.
    pub engines: &'a Path,
}

/// Whether an arm's volumes keep what they are given.
pub fn keeping(stage: &Stage) -> Keeping {
    let nothing = scheme(&stage.topology.volume) == "null" && !stage.is_bound();
    if nothing { Keeping::Nothing } else { Keeping::Data }
}

/// Checks every endpoint of an arm. An error says which one lost data, and where.
pub fn check(
    stage: &Stage,
    initiator: Initiator,
    programs: Programs<'_>,
    folder: &Path,
) -> Result<Integrity> {
    if keeping(stage) == Keeping::Nothing {
        return Ok(Integrity::PassedOver(format!("{} keeps no data by definition", stage.topology.volume)));
    }
    if stage.afar.loads() {
        return stage.afar.check();
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut checked = 0;
    for (host, endpoints) in &stage.initiators {
        for endpoint in endpoints {
            let engine = tool::engine(initiator, programs.engines, &endpoint.url);
            let Some(argv) = checker(endpoint, programs.linerate, engine) else {
                return Ok(Integrity::PassedOver(format!("nothing here can check {}", endpoint.url)));
            };
            let line = CommandLine::new(&format!("check-{checked}"), argv, folder);
            let mut running = Running::start(&line, &stage.load_placement(host))?;
            running.finish(LIMIT).with_context(|| format!("{} fails the integrity pass", endpoint.url))?;
            checked += 1;
        }
    }
    Ok(Integrity::Kept(checked))
}
