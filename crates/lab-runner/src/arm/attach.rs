//! Linerate's software adapter: `linerate attach` speaks the protocol in a process of its own and hands the volume to the load
//! tool, as an NBD export on a local socket or as a file through FUSE.
//!
//! One process serves one volume, so a host with eight of them has eight adapters, all on the adapter's processors; together
//! they are the side whose time is counted as the adapter's.

use std::path::Path;

use anyhow::{Context, Result};

use super::backing;
use super::served::{AdaptSpec, Endpoint, Handing, Served, Service, Side};
use super::service_start;
use crate::machine::ledger::{Ledger, Thing};
use crate::machine::process::CommandLine;

/// Starts an adapter on every volume of a host.
pub(super) fn adapt(handing: Handing, spec: &AdaptSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    if spec.endpoints.is_empty() {
        return Ok(Served::default());
    }
    let linerate = text(spec.linerate)?;
    let version = service_start::version(linerate)?;
    let scratch = backing::scratch("attach", ledger)?;
    let mut served = Served::default();
    for (number, endpoint) in spec.endpoints.iter().enumerate() {
        let place = scratch.join(number.to_string());
        if handing == Handing::Fuse {
            ledger.add(Thing::Mount { path: place.clone() })?;
        }
        let adapter = Adapter { handing, place: &place, endpoint, version: &version };
        let (service, url) = attach(adapter, spec, ledger)?;
        served.services.push(service);
        served.endpoints.push(Endpoint { url, size: endpoint.size });
    }
    Ok(served)
}

/// An adapter to start.
#[derive(Debug, Clone, Copy)]
struct Adapter<'a> {
    /// As what the volume appears.
    handing: Handing,
    /// The path at which it appears.
    place: &'a Path,
    /// The volume.
    endpoint: &'a Endpoint,
    /// What the program says of its version.
    version: &'a str,
}

/// Starts one, and waits until its volume is there.
fn attach(
    Adapter { handing, place, endpoint, version }: Adapter<'_>,
    spec: &AdaptSpec<'_>,
    ledger: &mut Ledger,
) -> Result<(Service, String)> {
    let path = text(place)?;
    let (kind, appears, url) = match handing {
        Handing::Nbd => ("nbd", format!("unix:{path}"), format!("nbd+unix:///?socket={path}")),
        Handing::Fuse => ("fuse", path.to_owned(), path.to_owned()),
    };
    let there = place.with_extension("ready");
    let cores = spec.placement.processors.as_ref().map_or(1, Vec::len).to_string();
    let words =
        ["attach", &endpoint.url, &appears, "--as", kind, "--cores", &cores, "--ready-file", text(&there)?];
    let argv = std::iter::once(text(spec.linerate)?).chain(words).map(str::to_owned).collect();
    let name = place.file_name().unwrap_or_default().display();
    let line = CommandLine::new(&format!("adapter-{name}"), argv, spec.folder);
    let who = service_start::Label { side: Side::Adapter, name: "linerate", version: version.to_owned() };
    let mut service = service_start::start(&line, spec.placement, who, ledger)?;
    service_start::wait(&mut service, "its volume appears", || Ok(service_start::written(&there)))?;
    Ok((service, url))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: name it otherwise", path.display()))
}
