//! A server of plain TCP streams: iperf3, which shows what the link and the kernel carry without a storage protocol.

use std::net::SocketAddr;

use anyhow::Result;

use super::ready;
use super::served::{Endpoint, ServeSpec, Served, Side};
use crate::machine::ledger::Ledger;
use crate::machine::process::CommandLine;

/// iperf3's usual port: for a namespace of its own, where nothing else can have it.
const USUAL_PORT: u16 = 5201;

pub(super) fn serve(spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let mut served = Served::default();
    for _ in 0..spec.volumes.targets {
        let base = USUAL_PORT + u16::try_from(served.services.len()).unwrap_or(0);
        let port = ready::free_port(spec.host.address).unwrap_or(base);
        let address = SocketAddr::new(spec.host.address, port);
        let (bind, number) = (address.ip().to_string(), port.to_string());
        // Unbuffered output: the line that it listens would otherwise stay in a buffer.
        let argv = ["iperf3", "-s", "--forceflush", "-B", &bind, "-p", &number].map(str::to_owned).to_vec();
        let line = CommandLine::new(&format!("target-{}", served.services.len()), argv, spec.folder);
        let version = ready::version_by("iperf3", "-v")?;
        let mut service = ready::start(&line, spec.placement, (Side::Target, "iperf3", version), ledger)?;
        ready::wait(&mut service, "it listens", || {
            Ok(ready::written(&line.stdout).filter(|text| text.contains("listening")))
        })?;
        served.services.push(service);
        served.endpoints.push(Endpoint { url: address.to_string(), size: 0 });
    }
    Ok(served)
}
