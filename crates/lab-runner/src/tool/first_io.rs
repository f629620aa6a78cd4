//! The first I/O of a volume: one block, written, flushed, read back and compared.
//!
//! The tool does no more than that. How long it took until the arm could be used, the runner knows that built it ([`Built`]), and
//! [`clocked`] puts the parts together: from programs that are installed, and nothing else, to the end of the tool.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::assignment::{Assignment, Measured, command_line, tool};
use super::integrity::{Reach, own};
use crate::machine::process::CommandLine;
use lab_model::result::Load;
use lab_model::scenario::ToolKind;
use lab_model::statistics::metric::{FIRST_IO, READY_INITIATOR, READY_TARGET};

/// Bytes of the block.
const BLOCK: u64 = 4096;

/// How long it took until an arm could be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Built {
    /// From nothing to a target that serves.
    pub target: Duration,
    /// From then on to an initiator that has the volume.
    pub initiator: Duration,
}

pub(super) fn command(assignment: &Assignment<'_>) -> Result<CommandLine> {
    let [endpoint] = assignment.endpoints else {
        bail!("the first I/O is that of one volume, and the arm has {}", assignment.endpoints.len())
    };
    let engine = super::engine(assignment.initiator, assignment.engines, &endpoint.url);
    let argv = match Reach::of(endpoint, engine) {
        Some(Reach::Own(url)) => own(&url, BLOCK, assignment.linerate),
        Some(Reach::Fio(words)) => fio(words),
        None => bail!("nothing here can write to {} and read it back", names::redact(&endpoint.url)),
    };
    Ok(command_line(assignment, argv, "first-io.txt"))
}

fn fio(words: Vec<String>) -> Vec<String> {
    let load = ["fio", "--name=first-io", "--rw=write", "--bs=4k", "--iodepth=1", "--end_fsync=1", "--randseed=1"];
    let verified = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
    let size = format!("--size={BLOCK}");
    load.into_iter().chain(verified).map(str::to_owned).chain([size]).chain(words).collect()
}

/// The tool prints nothing that is measured: that it ended well says that the block came back as it was written.
pub(super) fn read(assignment: &Assignment<'_>) -> Result<Measured> {
    let line = command(assignment)?;
    let version = super::version(ToolKind::FirstIo, assignment)?;
    let name = if line.argv.first().is_some_and(|program| program == "fio") { "fio" } else { "linerate check" };
    Ok(Measured {
        tool: tool(name, &version, &line),
        load: Load::default(),
        intervals: Vec::new(),
        extra: BTreeMap::new(),
        seconds: 0.0,
        window_start: None,
        flags: Vec::new(),
    })
}

/// The whole time, of an arm that was built so fast and a tool that took so many seconds.
pub(crate) fn clocked(measured: &mut Measured, built: Built, seconds: f64) {
    let nanoseconds = |seconds: f64| seconds * 1e9;
    let (target, initiator) = (built.target.as_secs_f64(), built.initiator.as_secs_f64());
    let parts = [
        (READY_TARGET, target),
        (READY_INITIATOR, initiator),
        (FIRST_IO, target + initiator + seconds),
    ];
    measured.seconds = seconds;
    measured.extra.extend(parts.map(|(name, seconds)| (name.to_owned(), nanoseconds(seconds))));
}
