//! Linerate's software adapter: `linerate attach` speaks the protocol in a process of its own and hands the volume to the load
//! tool, as an NBD export or a vhost-user device on a local socket, or as a file through FUSE.
//!
//! One process serves all volumes of a host, but for FUSE, where each has its own; together they are the side whose time is counted as the
//! adapter's.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::backing;
use super::served::{AdaptSpec, Endpoint, Handing, Served, Service, Side};
use super::service_start;
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::process::CommandLine;

/// Starts adapters on all volumes of a host.
pub(super) fn adapt(handing: Handing, spec: &AdaptSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    if spec.endpoints.is_empty() {
        return Ok(Served::default());
    }
    let linerate = text(spec.linerate)?;
    let version = service_start::version(linerate)?;
    let scratch = backing::scratch("attach", ledger)?;
    let mut served = Served::default();
    let volumes = spec.endpoints.iter().enumerate();
    let volumes: Vec<Volume> = volumes
        .map(|(number, endpoint)| Volume { place: scratch.join(number.to_string()), endpoint })
        .collect();
    let together = if handing == Handing::Fuse { 1 } else { volumes.len() };
    for group in volumes.chunks(together) {
        if handing == Handing::Fuse {
            for volume in group {
                ledger.add(Thing::Mount { path: volume.place.clone() })?;
            }
        }
        served.services.push(attach(handing, group, &version, spec, ledger)?);
        for Volume { place, endpoint } in group {
            served.endpoints.push(Endpoint { url: handed(handing, text(place)?).url, size: endpoint.size });
        }
    }
    Ok(served)
}

/// A volume, and the path at which it appears.
struct Volume<'a> {
    place: PathBuf,
    endpoint: &'a Endpoint,
}

/// How a volume appears at a path.
struct Handed {
    /// As the adapter has it.
    place: String,
    /// As the load tool has it.
    url: String,
}

fn handed(handing: Handing, path: &str) -> Handed {
    match handing {
        Handing::Nbd => Handed { place: format!("unix:{path}"), url: format!("nbd+unix:///?socket={path}") },
        Handing::Fuse => Handed { place: path.to_owned(), url: path.to_owned() },
        Handing::VhostUser => Handed { place: path.to_owned(), url: format!("vhost-user:{path}") },
    }
}

/// Starts an adapter, and waits until its volumes are there.
fn attach(
    handing: Handing,
    volumes: &[Volume<'_>],
    version: &str,
    spec: &AdaptSpec<'_>,
    ledger: &mut Ledger,
) -> Result<Service> {
    let first = volumes.first().context("an adapter needs a volume")?;
    let there = first.place.with_extension("ready");
    let mut argv = vec![text(spec.linerate)?.to_owned(), "attach".to_owned()];
    for Volume { place, endpoint } in volumes {
        argv.extend([endpoint.url.clone(), handed(handing, text(place)?).place]);
    }
    let kind = match handing {
        Handing::Nbd => "nbd",
        Handing::Fuse => "fuse",
        Handing::VhostUser => "vhost-user",
    };
    let cores = spec.placement.processors.as_ref().map_or(1, Vec::len).to_string();
    argv.extend(["--as", kind, "--cores", &cores, "--ready-file", text(&there)?].map(str::to_owned));
    let name = first.place.file_name().unwrap_or_default().display();
    let line = CommandLine::new(&format!("adapter-{name}"), argv, spec.folder);
    let who = service_start::Label { side: Side::Adapter, name: "linerate", version: version.to_owned() };
    let mut service = service_start::start(&line, spec.placement, who, ledger)?;
    service_start::wait(&mut service, "its volumes appear", || Ok(service_start::written(&there)))?;
    Ok(service)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: name it otherwise", path.display()))
}
