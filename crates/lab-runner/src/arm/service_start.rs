//! Starting a service of an arm and waiting until it can be used: by what it says or does, never by a guess at the time.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::served::{Service, Side};
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::process::{CommandLine, Placement, Running};
use crate::machine::program;

/// How long a service may take until it can be used.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks. The time to the first I/O is exact to this: services are ready within some ten milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// What a service is called in results and errors.
#[derive(Debug)]
pub(super) struct Label<'a> {
    /// The side of the arm that it belongs to.
    pub(super) side: Side,
    /// Its program.
    pub(super) name: &'a str,
    /// What the program says of its version.
    pub(super) version: String,
}

/// Starts a program, notes it in the ledger, and makes a service of it.
pub(super) fn start(
    line: &CommandLine,
    placement: &Placement,
    Label { side, name, version }: Label<'_>,
    ledger: &mut Ledger,
) -> Result<Service> {
    let running = Running::start(line, placement)?;
    ledger.add(Thing::Process { identity: running.identity(), argv0: name.to_owned() })?;
    Ok(Service { side, name: name.to_owned(), version, running, caches: None })
}

/// Looks until there is something to see. A service that ends meanwhile has failed, and its last words say why.
pub(super) fn wait<T>(
    service: &mut Service,
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        if !service.running.is_alive() {
            bail!("{} ended before {what}{}", service.name, service.running.last_words());
        }
        if Instant::now() > deadline {
            bail!("{what}: {} did not get there in {} s", service.name, START_TIMEOUT.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The text of a file that a service writes when it is ready.
pub(super) fn written(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().filter(|text| !text.is_empty())
}

/// A port of `address` that is free now. Somebody else may take it before the service does: the service then says so.
pub(super) fn free_port(address: std::net::IpAddr) -> Result<u16> {
    let socket = std::net::TcpListener::bind(SocketAddr::new(address, 0))?;
    Ok(socket.local_addr()?.port())
}

/// What a program says of its version, in its first line.
pub(super) fn version(program: &str) -> Result<String> {
    version_by(program, "--version")
}

/// The same of a program that is asked by another option.
pub(super) fn version_by(program: &str, option: &str) -> Result<String> {
    let said = program::output(&[program, option], Duration::from_secs(10))?;
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}
