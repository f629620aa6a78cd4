//! nbdkit, the peer target over NBD, and on a local socket the peer of Linerate's software adapter: a process for each volume, since one
//! process exports one.

use std::net::SocketAddr;

use anyhow::{Result, bail};

use super::backing;
use super::served::{AdaptSpec, Endpoint, ServeSpec, Served, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::CommandLine;

pub(super) const PROGRAM: &str = "nbdkit";
/// The registered port of NBD: for a namespace of its own, where nothing else can have it.
const USUAL_PORT: u16 = 10_809;

pub(super) fn serve(spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let size = backing::volume_size(&spec.volumes.url);
    let version = service_start::version(PROGRAM)?;
    let mut served = Served::default();
    for (_, _, number) in backing::numbers(spec.volumes) {
        let usual = USUAL_PORT + u16::try_from(number)?;
        let portal =
            SocketAddr::new(spec.host.address, service_start::free_port(spec.host.address).unwrap_or(usual));
        let listening = spec.folder.join(format!("listening-{number}"));
        // A file of an earlier target would be taken for this one's.
        let _absent = std::fs::remove_file(&listening);
        let (address, port) = (portal.ip().to_string(), portal.port().to_string());
        let flags = ["--foreground", "--ipaddr", &address, "--port", &port, "--pidfile"];
        let mut argv: Vec<String> = std::iter::once(PROGRAM).chain(flags).map(str::to_owned).collect();
        argv.push(listening.display().to_string());
        argv.extend(plugin(&backing::volume_url(&spec.volumes.url, number, spec.folder), size)?);
        let line = CommandLine::new(&format!("target-{number}"), argv, spec.folder);
        let named = service_start::Label { side: Side::Target, name: PROGRAM, version: version.clone() };
        let mut service = service_start::start(&line, spec.placement, named, ledger)?;
        // nbdkit writes the file when it accepts connections.
        service_start::wait(&mut service, "it listens", || Ok(service_start::written(&listening)))?;
        served.services.push(service);
        served.endpoints.push(Endpoint { url: format!("nbd://{portal}"), size });
    }
    Ok(served)
}

/// Starts it on every local volume of a host, each on a socket of its own.
pub(super) fn adapt(spec: &AdaptSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let version = service_start::version(PROGRAM)?;
    let scratch = backing::scratch("nbdkit", ledger)?;
    let mut served = Served::default();
    for (number, endpoint) in spec.endpoints.iter().enumerate() {
        let (socket, there) = (scratch.join(number.to_string()), scratch.join(format!("{number}.ready")));
        let (socket, pidfile) = (socket.display().to_string(), there.display().to_string());
        let flags = ["--foreground", "--unix", &socket, "--pidfile", &pidfile];
        let mut argv: Vec<String> = std::iter::once(PROGRAM).chain(flags).map(str::to_owned).collect();
        argv.extend(plugin(&endpoint.url, endpoint.size)?);
        let line = CommandLine::new(&format!("adapter-{number}"), argv, spec.folder);
        let named = service_start::Label { side: Side::Adapter, name: PROGRAM, version: version.clone() };
        let mut service = service_start::start(&line, spec.placement, named, ledger)?;
        service_start::wait(&mut service, "its volume appears", || Ok(service_start::written(&there)))?;
        served.services.push(service);
        served.endpoints.push(Endpoint { url: format!("nbd+unix:///?socket={socket}"), size: endpoint.size });
    }
    Ok(served)
}

/// The plugin that does what the volume's URL says, with its words.
fn plugin(url: &str, size: u64) -> Result<Vec<String>> {
    let words = match url.split_once(':') {
        Some(("null", _)) => ["null".to_owned(), format!("size={size}")],
        Some(("ram", _)) => ["memory".to_owned(), format!("size={size}")],
        Some(("file", _)) => ["file".to_owned(), format!("file={}", backing::file(url, size)?.display())],
        _ => bail!("nbdkit cannot serve {url}: it serves null:, ram: and file: volumes"),
    };
    Ok(words.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_volume_has_its_plugin() {
        assert_eq!(plugin("null:1M", 1 << 20).unwrap(), ["null", "size=1048576"]);
        assert_eq!(plugin("ram:1M", 1 << 20).unwrap(), ["memory", "size=1048576"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.img");
        let words = plugin(&format!("file:{}?size=4K", path.display()), 4096).unwrap();
        assert_eq!(words, ["file".to_owned(), format!("file={}", path.display())]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
        assert!(plugin("device:/dev/x", 0).unwrap_err().to_string().contains("ram:"));
    }
}
