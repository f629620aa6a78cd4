//! A server of plain TCP streams: iperf3, which shows what the link and the kernel carry without a storage protocol.

use std::net::SocketAddr;

use anyhow::Result;

use super::served::{Endpoint, ServeSpec, Served, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::CommandLine;

/// iperf3's usual port: for a namespace of its own, where nothing else can have it.
const USUAL_PORT: u16 = 5201;

pub(super) fn serve(spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let mut served = Served::default();
    for _ in 0..spec.volumes.targets {
        let base = USUAL_PORT + u16::try_from(served.services.len()).unwrap_or(0);
        let port = service_start::free_port(spec.host.address).unwrap_or(base);
        let address = SocketAddr::new(spec.host.address, port);
        let (bind, number) = (address.ip().to_string(), port.to_string());
        // Unbuffered output: the line that it listens would otherwise stay in a buffer.
        let argv = ["iperf3", "-s", "--forceflush", "-B", &bind, "-p", &number].map(str::to_owned).to_vec();
        let line = CommandLine::new(&format!("target-{}", served.services.len()), argv, spec.folder);
        let version = service_start::version_by("iperf3", "-v")?;
        let mut service = service_start::start(
            &line,
            spec.placement,
            service_start::Label { side: Side::Target, name: "iperf3", version },
            ledger,
        )?;
        service_start::wait(&mut service, "it listens", || {
            Ok(service_start::written(&line.stdout).filter(|text| text.contains("listening")))
        })?;
        served.services.push(service);
        served.endpoints.push(Endpoint { url: address.to_string(), size: 0 });
    }
    Ok(served)
}
