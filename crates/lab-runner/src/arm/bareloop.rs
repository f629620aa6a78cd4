//! The bare loop's server: requests and answers over TCP without any protocol, the measure for all arms that speak one.
//!
//! It is an example of the crate `reactor`, built beside the `linerate` program. It keeps no data and serves one stream at a time.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use names::Span;

use super::backing;
use super::served::{Endpoint, ServeSpec, Served, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::CommandLine;
use crate::machine::program;

/// Its name, and what it is built by.
const PROGRAM: &str = "bareloop";
const BUILD: &str = "cargo build --release -p reactor --example bareloop";
/// What it says before its address.
const LISTENING: &str = "listening ";

/// Where it is: among the examples built with `linerate`, beside it, or in `PATH`.
pub(crate) fn path(linerate: &Path) -> Option<PathBuf> {
    let beside =
        linerate.parent().map(|folder| [folder.join("examples").join(PROGRAM), folder.join(PROGRAM)]);
    let built = beside.into_iter().flatten().find(|path| path.is_file());
    built.or_else(|| program::find(PROGRAM))
}

/// What to do where it is not.
pub(super) fn missing() -> Option<String> {
    let own = std::env::current_exe().unwrap_or_default();
    path(&own).is_none().then(|| format!("{PROGRAM} is not built: {BUILD}"))
}

pub(super) fn serve(spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    ensure!(
        spec.volumes.targets * spec.volumes.luns == 1,
        "the bare loop serves one stream: give its arm one target with one volume"
    );
    let program = path(spec.linerate).with_context(|| format!("{PROGRAM} is not built: {BUILD}"))?;
    let listen = SocketAddr::new(spec.host.address, 0).to_string();
    let mut argv = vec![program.display().to_string(), "--serve".to_owned(), listen];
    if let Some(span) = spec.spin {
        argv.extend(["--spin".to_owned(), microseconds("target_spin", span)?]);
    }
    let line = CommandLine::new("target", argv, spec.folder);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut service = service_start::start(
        &line,
        spec.placement,
        service_start::Label { side: Side::Target, name: PROGRAM, version },
        ledger,
    )?;
    let address = service_start::wait(&mut service, "it listens", || {
        Ok(service_start::written(&line.stdout).and_then(|text| listening(&text)))
    });
    let address = address.with_context(|| {
        format!(
            "{} does not listen: if it is older than this program, build it again: {BUILD}",
            program.display()
        )
    })?;
    let size = backing::volume_size(&spec.volumes.url);
    Ok(Served { services: vec![service], endpoints: vec![Endpoint { url: address, size }] })
}

/// A duration as the bare loop is told it.
pub(crate) fn microseconds(setting: &str, span: &str) -> Result<String> {
    let Span(span) = span.parse().with_context(|| format!("{setting} = {span:?}"))?;
    Ok(span.as_micros().to_string())
}

/// The address in a whole line of its output.
fn listening(text: &str) -> Option<String> {
    let line = text.split_inclusive('\n').find(|line| line.ends_with('\n'))?;
    line.trim().strip_prefix(LISTENING).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_counts_once_its_line_is_whole() {
        assert_eq!(listening("listening 127.0.0.1:80"), None);
        assert_eq!(listening("listening 127.0.0.1:8080\n").as_deref(), Some("127.0.0.1:8080"));
    }

    #[test]
    fn it_is_found_beside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("examples/bareloop");
        std::fs::create_dir(built.parent().unwrap()).unwrap();
        std::fs::write(&built, "").unwrap();
        assert_eq!(path(&folder.path().join("linerate")), Some(built));
    }
}
