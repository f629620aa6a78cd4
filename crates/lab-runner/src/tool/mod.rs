//! Tools that put load on, and what their output means.
//!
//! [`command`] says how a tool is started for an [`Assignment`], the runner starts it, [`outcome`] turns what it left in
//! its folder into [`Measured`]. The tools' own figures are taken over as they stand; where a tool has none (`dd` prints
//! three digits of a rate, pgbench no percentiles) its module says what is computed from which of its raw numbers.

mod assignment;
mod bareloop;
mod bench;
mod dd;
mod doubt;
mod fio;
pub mod first_io;
pub(crate) mod integrity;
mod iperf3;
mod iscsi_perf;
mod pgbench;
mod raw;
mod sample;
mod settings;
mod shell;
mod spread;
#[cfg(test)]
mod tests;
pub(crate) mod timing;

pub use assignment::{Assignment, Measured};
pub(crate) use fio::engine;
pub use fio::{LIBISCSI_ENGINE, LINERATE_ENGINE};
pub use sample::{Keeping, ask};
pub(crate) use settings::ADDED;

use std::process::ExitStatus;

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::arm::Endpoint;
use crate::machine::process::CommandLine;
use assignment::version_in;
use lab_model::result::Flag;
use lab_model::scenario::{Initiator, ToolKind};

/// The programs behind a scenario's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Fio,
    Bench,
    IscsiPerf,
    BareLoop,
    Iperf3,
    Dd,
    Pgbench,
    FirstIo,
}

impl Program {
    /// Which one does the work of `kind`.
    fn of(kind: ToolKind, assignment: &Assignment<'_>) -> Result<Self> {
        match (kind, assignment.initiator) {
            (ToolKind::Fio, Initiator::Linerate) => Ok(Self::Bench),
            (ToolKind::Fio, Initiator::Local)
                if assignment.endpoints.iter().all(is_volume_url) && !does_nothing(assignment) =>
            {
                Ok(Self::Bench)
            }
            (ToolKind::Fio, Initiator::LibiscsiPerf) => Ok(Self::IscsiPerf),
            (ToolKind::Fio, Initiator::BareLoop) => Ok(Self::BareLoop),
            (ToolKind::Fio, Initiator::Stream) | (ToolKind::Iperf3, _) => Ok(Self::Iperf3),
            (ToolKind::Fio, Initiator::Imported) => {
                bail!("initiator {:?} does no block I/O: give the arm another one", assignment.initiator)
            }
            (ToolKind::Fio, _) => Ok(Self::Fio),
            (ToolKind::Dd, _) => Ok(Self::Dd),
            (ToolKind::Pgbench, _) => Ok(Self::Pgbench),
            (ToolKind::FirstIo, _) => Ok(Self::FirstIo),
            (ToolKind::Diskspd | ToolKind::Vmfleet, _) => {
                bail!("{kind:?} runs on Windows: import its output with `linerate lab import`")
            }
            (ToolKind::Analysis, _) => {
                bail!("an analysis puts no load on: it is computed from other scenarios' results")
            }
        }
    }

    /// Its name in texts; scripts around it begin with the shell's.
    const fn name(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Bench => "linerate bench",
            Self::IscsiPerf => "iscsi-perf",
            Self::BareLoop => "bareloop",
            Self::Iperf3 => "iperf3",
            Self::Dd => "dd",
            Self::Pgbench => "pgbench",
            Self::FirstIo => "the first I/O",
        }
    }

    /// What to do when it fails.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Fio => {
                "run the command above in that folder by hand; a name that fio does not know is one of the scenario"
            }
            Self::Bench => "try the same volumes with `linerate bench URL`, or `linerate doctor`",
            Self::IscsiPerf => "see whether the target answers: iscsi-inq URL",
            Self::BareLoop => {
                "see whether the arm's `bareloop --serve` still runs; client and server must be of one build"
            }
            Self::Iperf3 => "see whether the arm's `iperf3 -s` still runs and listens at that address",
            Self::Dd => "see whether the file system is mounted, writable and has room",
            Self::Pgbench => "see whether the database answers: psql URL -c 'select 1'",
            Self::FirstIo => {
                "run the command above by hand: what it wrote did not come back, or there was nothing to write to"
            }
        }
    }
}

/// Whether it is fio's own null engine, which has no volume.
fn does_nothing(assignment: &Assignment<'_>) -> bool {
    assignment.settings.get("ioengine").is_some_and(|engine| engine == "null")
}

/// `null:1G` and `iscsi://…` are volumes; `/dev/sdb` is a path.
fn is_volume_url(endpoint: &Endpoint) -> bool {
    !endpoint.url.starts_with('/') && endpoint.url.contains(':')
}

/// How the tool is started.
pub fn command(kind: ToolKind, assignment: &Assignment<'_>) -> Result<CommandLine> {
    match Program::of(kind, assignment)? {
        Program::Fio => fio::command(assignment),
        Program::Bench => bench::command(assignment),
        Program::IscsiPerf => iscsi_perf::command(assignment),
        Program::BareLoop => bareloop::command(assignment),
        Program::Iperf3 => iperf3::command(assignment),
        Program::Dd => dd::command(assignment),
        Program::Pgbench => pgbench::command(assignment),
        Program::FirstIo => first_io::command(assignment),
    }
}

/// What has to be run once before the first measurement of a point, such as `pgbench -i`; nothing for most tools.
pub fn prepare(kind: ToolKind, assignment: &Assignment<'_>) -> Result<Vec<CommandLine>> {
    match Program::of(kind, assignment)? {
        Program::Pgbench => pgbench::prepare(assignment),
        _ => Ok(Vec::new()),
    }
}

/// What the tool measured, from the raw files that it left in its folder.
pub fn read(kind: ToolKind, assignment: &Assignment<'_>) -> Result<Measured> {
    match Program::of(kind, assignment)? {
        Program::Fio => fio::read(assignment),
        Program::Bench => bench::read(assignment),
        Program::IscsiPerf => iscsi_perf::read(assignment),
        Program::BareLoop => bareloop::read(assignment),
        Program::Iperf3 => iperf3::read(assignment),
        Program::Dd => dd::read(assignment),
        Program::Pgbench => pgbench::read(assignment),
        Program::FirstIo => first_io::read(assignment, &version(kind, assignment)?),
    }
}

/// What came of a tool that ended with `status`. One that failed but still reported why (fio does, of I/Os with errors and of wrong data) gives an
/// invalid point with its figures; any other failure is an error with the end of what the tool said and what to do.
pub fn outcome(kind: ToolKind, assignment: &Assignment<'_>, status: ExitStatus) -> Result<Measured> {
    let program = Program::of(kind, assignment)?;
    let measured = read(kind, assignment);
    match measured {
        Ok(measured) if status.success() || measured.flags.iter().any(Flag::invalidates) => Ok(measured),
        Ok(_) => Err(failure(program, assignment, status, &command(kind, assignment)?)),
        Err(error) if status.success() => Err(error),
        Err(error) => Err(error.context(failure(program, assignment, status, &command(kind, assignment)?))),
    }
}

fn failure(
    program: Program,
    assignment: &Assignment<'_>,
    status: ExitStatus,
    command: &CommandLine,
) -> Error {
    let said = [&command.stderr, &command.stdout]
        .map(|path| raw::tail(path))
        .into_iter()
        .find(|said| !said.is_empty());
    anyhow!(
        "{} failed ({status}) in {}\n  command: {}\n  it said: {}\n  what to do: {}",
        program.name(),
        assignment.folder.display(),
        shell::join(&names::redact_all(command.argv.iter().map(String::as_str))),
        said.as_deref().unwrap_or("nothing"),
        program.remedy()
    )
}

/// The version of the tool, as it says itself.
pub fn version(kind: ToolKind, assignment: &Assignment<'_>) -> Result<String> {
    let (program, package) = match Program::of(kind, assignment)? {
        Program::Fio => ("fio".to_owned(), "fio"),
        Program::Bench => (assignment.linerate.display().to_string(), "linerate"),
        Program::FirstIo => match first_io::command(assignment)?.argv.first() {
            Some(program) if program == first_io::PROGRAM => (program.clone(), "qemu-utils"),
            Some(program) if program != "fio" => (program.clone(), "linerate"),
            _ => ("fio".to_owned(), "fio"),
        },
        Program::BareLoop => return Ok(env!("CARGO_PKG_VERSION").to_owned()),
        // It tells its version only beside a usage message.
        Program::IscsiPerf => ("iscsi-perf".to_owned(), "libiscsi-bin"),
        Program::Iperf3 => ("iperf3".to_owned(), "iperf3"),
        Program::Dd => ("dd".to_owned(), "coreutils"),
        Program::Pgbench => ("pgbench".to_owned(), "postgresql-contrib"),
    };
    let output = std::process::Command::new(&program)
        .arg("--version")
        .env("LC_ALL", "C")
        .output()
        .with_context(|| format!("{program} cannot be started: install the package {package}"))?;
    let both = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&both);
    said.lines().find_map(version_in).with_context(|| {
        format!("{program} --version names no version: {:?}", said.lines().next().unwrap_or_default())
    })
}
