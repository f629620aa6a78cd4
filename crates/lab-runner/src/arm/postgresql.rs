//! PostgreSQL on a file system of its own: what `pgbench` puts its load on.
//!
//! The server listens on a local socket only. It refuses to run as root, so root starts it as the user that the Debian
//! package makes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::backing;
use super::served::{Endpoint, Served, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::{CommandLine, Placement, Running};

/// The user whom Debian's package makes.
pub const USER: &str = "postgres";
/// How long `initdb` may take.
const LIMIT: Duration = Duration::from_mins(2);
/// Where its data is below the file system's root, which holds `lost+found` too.
const DATA: &str = "data";

/// Whom the server runs as: nobody else when the lab is not root.
pub fn user() -> Option<String> {
    rustix::process::geteuid().is_root().then(|| USER.to_owned())
}

/// A database server to start.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseSpec<'a> {
    /// The root of the file system that its data goes to.
    pub root: &'a Path,
    /// The server's own settings, such as `shared_buffers`.
    pub settings: &'a BTreeMap<String, String>,
    /// Where its output goes.
    pub folder: &'a Path,
    /// Where it runs.
    pub placement: &'a Placement,
}

/// Makes a database cluster and starts a server on it, which listens on no network address.
pub fn serve(spec: &DatabaseSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let DatabaseSpec { root, settings, folder, placement } = *spec;
    let scratch = backing::scratch("postgresql", ledger)?;
    let data = root.join(DATA);
    let path = data.display().to_string();
    let line = |name: &str, argv: &[&str]| CommandLine {
        user: user(),
        // Its folder must be one that the server's user may enter.
        folder: root.to_owned(),
        ..CommandLine::new(name, argv.iter().map(|word| (*word).to_owned()).collect(), folder)
    };
    let init =
        ["initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", USER, "-D", &path];
    Running::start(&line("initdb", &init), placement)?.finish(LIMIT).context("no database can be made")?;
    if let Some(user) = user() {
        crate::machine::program::output(&["chown", &user, &scratch.display().to_string()], LIMIT)?;
    }
    let socket = scratch.display().to_string();
    let mut argv = vec!["postgres", "-D", &path, "-k", &socket, "-c", "listen_addresses="];
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    argv.extend(settings.iter().flat_map(|setting| ["-c", setting]));
    let line = line("postgres", &argv);
    let version = service_start::version("postgres")?;
    let mut service = service_start::start(
        &line,
        placement,
        service_start::Label { side: Side::Target, name: "postgres", version },
        ledger,
    )?;
    service_start::wait(&mut service, "it accepts connections", || {
        Ok(service_start::written(&line.stderr).filter(|text| text.contains("ready to accept connections")))
    })?;
    let url = format!("postgresql://{USER}@/postgres?host={socket}");
    Ok(Served { services: vec![service], endpoints: vec![Endpoint { url, size: 0 }] })
}
