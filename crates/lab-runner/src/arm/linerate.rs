//! Linerate's own target: `linerate serve`, usually on one core, with a configuration file that puts the volumes under their targets, or as files into a share.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::backing;
use super::caches::Caches;
use super::nfs::Export;
use super::served::{Endpoint, ServeSpec, Served, Service, Side};
use super::service_start;
use crate::machine::ledger::Ledger;
use crate::machine::process::CommandLine;

/// The share in which the files of an NFS arm are.
const SHARE: &str = "volumes";

/// The protocol that is served, over TCP, or on software iWARP or RoCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Iscsi,
    Nvme,
    Iser,
    NvmeRdma,
    NvmeRoce,
    IserRoce,
}

impl Protocol {
    const ALL: [Self; 6] =
        [Self::Iscsi, Self::Nvme, Self::Iser, Self::NvmeRdma, Self::NvmeRoce, Self::IserRoce];

    /// The protocol and its transport in a configuration.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Iscsi => ("iscsi", "tcp"),
            Self::Nvme => ("nvme", "tcp"),
            Self::Iser => ("iscsi", "iwarp"),
            Self::NvmeRdma => ("nvme", "iwarp"),
            Self::NvmeRoce => ("nvme", "roce"),
            Self::IserRoce => ("iscsi", "roce"),
        }
    }

    /// The service that a RoCE portal is: its port is a name, which cannot be any free one.
    const fn service(self) -> Option<u16> {
        match self {
            Self::NvmeRoce => Some(4420),
            Self::IserRoce => Some(3260),
            Self::Iscsi | Self::Nvme | Self::Iser | Self::NvmeRdma => None,
        }
    }

    /// The word in a ready file.
    const fn ready(self) -> &'static str {
        match self {
            Self::Iscsi => "iscsi",
            Self::Nvme => "nvme",
            Self::Iser => "iser",
            Self::NvmeRdma => "nvme-rdma",
            Self::NvmeRoce => "nvme-roce",
            Self::IserRoce => "iser-roce",
        }
    }
}

pub(super) fn serve(protocol: Protocol, spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Served> {
    let Started { mut service, ready, stdout } = start(&configuration(spec), spec, ledger)?;
    let portal = portal(protocol, &ready).with_context(|| format!("{ready:?} names no portal"))?;
    let count = backing::numbers(spec.volumes).count();
    service.caches = Caches::of(&spec.volumes.url, count, &stdout);
    let size = backing::volume_size(&spec.volumes.url);
    Ok(Served { services: vec![service], endpoints: endpoints(protocol, &portal, spec, size) })
}

/// What a share is served over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShareTransport {
    Tcp,
    /// Software iWARP.
    Iwarp,
}

impl ShareTransport {
    /// The transport in a configuration, the word in a ready file and the scheme of URLs.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Tcp => ("tcp", "nfs", "nfs"),
            Self::Iwarp => ("iwarp", "nfs-rdma", "nfs+rdma"),
        }
    }
}

/// Serves a folder with a file for each volume over NFS.
pub(super) fn serve_share(
    transport: ShareTransport,
    spec: &ServeSpec<'_>,
    ledger: &mut Ledger,
) -> Result<Served> {
    let export = Export::make(spec, &backing::scratch("share", ledger)?)?;
    let folder = format!("dir:{}", path(&export.folder)?);
    let listen = std::net::SocketAddr::new(spec.host.address, 0);
    let (word, ready_word, scheme) = transport.words();
    // The load is root's, as the files are.
    let text = format!(
        "[[portal]]\nprotocol = \"nfs\"\ntransport = \"{word}\"\nlisten = \"{listen}\"\n\n[[share]]\nname = \"{SHARE}\"\nurl = {folder:?}\nsquash = \"none\"\n"
    );
    let Started { service, ready, .. } = start(&text, spec, ledger)?;
    let address = address(ready_word, &ready).with_context(|| format!("{ready:?} names no portal"))?;
    let url = |name| format!("{scheme}://{address}/{SHARE}/{name}?version=4.1");
    let endpoints = export.names.iter().map(|name| Endpoint { url: url(name), size: export.size }).collect();
    Ok(Served { services: vec![service], endpoints })
}

/// A target that listens.
struct Started {
    service: Service,
    /// What its ready file says.
    ready: String,
    /// Where its words go.
    stdout: PathBuf,
}

/// Starts the target with this configuration, and waits until it listens.
fn start(text: &str, spec: &ServeSpec<'_>, ledger: &mut Ledger) -> Result<Started> {
    let config = spec.folder.join("linerate.toml");
    std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    let listening = spec.folder.join("listening");
    // A file of an earlier target would be taken for this one's.
    let _absent = std::fs::remove_file(&listening);
    let program = path(spec.linerate)?;
    let cores = spec.cores.to_string();
    let state = spec.folder.join("state");
    let argv = [
        "serve",
        "--state",
        path(&state)?,
        "--cores",
        &cores,
        "--allow-any",
        "--config",
        path(&config)?,
        "--ready-file",
        path(&listening)?,
    ];
    let spin = spec.spin.into_iter().flat_map(|span| ["--spin", span]);
    let argv: Vec<String> = std::iter::once(program).chain(argv).chain(spin).map(str::to_owned).collect();
    let line = CommandLine::new("target", argv, spec.folder);
    let version = service_start::version(program)?;
    let mut service = service_start::start(
        &line,
        spec.placement,
        service_start::Label { side: Side::Target, name: "linerate", version },
        ledger,
    )?;
    let ready = service_start::wait(&mut service, "it listens", || Ok(service_start::written(&listening)))?;
    Ok(Started { service, ready, stdout: line.stdout })
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: name it otherwise", path.display()))
}

/// A portal of each protocol (one that is not named would be opened at its usual port) and every volume, a target's volumes
/// under its name.
fn configuration(spec: &ServeSpec<'_>) -> String {
    let mut text = String::new();
    for portal in Protocol::ALL {
        let (protocol, transport) = portal.words();
        // A client on the same address has RoCEv2's usual port of UDP for itself.
        let udp_port = if portal.service().is_some() { "udp_port = 0\n" } else { "" };
        let listen = std::net::SocketAddr::new(spec.host.address, portal.service().unwrap_or_default());
        let _infallible = writeln!(
            text,
            "[[portal]]\nprotocol = \"{protocol}\"\ntransport = \"{transport}\"\nlisten = \"{listen}\"\n{udp_port}"
        );
    }
    for (target, lun, number) in backing::numbers(spec.volumes) {
        let url = backing::volume_url(&spec.volumes.url, number, spec.folder);
        let _infallible = writeln!(
            text,
            "[[volume]]\nname = \"v{number}\"\nurl = {url:?}\ntarget = \"t{target}\"\nlun = {lun}\n"
        );
    }
    text
}

/// Where a protocol is served.
#[derive(Debug, PartialEq, Eq)]
struct Portal {
    /// `ADDR:PORT`; over RoCE the port is the name of a service.
    address: String,
    /// The port of UDP that RoCE's packets go to.
    udp_port: Option<u16>,
}

/// The protocol's portal, from the lines of the ready file.
fn portal(protocol: Protocol, text: &str) -> Option<Portal> {
    let udp_port = match protocol {
        Protocol::NvmeRoce | Protocol::IserRoce => {
            Some(address("udp", text)?.parse::<std::net::SocketAddr>().ok()?.port())
        }
        _ => None,
    };
    Some(Portal { address: address(protocol.ready(), text)?, udp_port })
}

/// What stands behind a word of the ready file.
fn address(wanted: &str, text: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    lines.find(|(word, _)| *word == wanted).map(|(_, address)| address.trim().to_owned())
}

fn endpoints(protocol: Protocol, portal: &Portal, spec: &ServeSpec<'_>, size: u64) -> Vec<Endpoint> {
    let Portal { address: portal, udp_port } = portal;
    let url = |(target, lun, _): (u32, u32, u32)| match protocol {
        Protocol::Iscsi => format!("iscsi://{portal}/iqn.2026-11.org.linerate:t{target}/{lun}"),
        Protocol::Nvme => format!("nvme+tcp://{portal}/nqn.2026-11.org.linerate:t{target}/{}", lun + 1),
        Protocol::Iser => format!("iser://{portal}/iqn.2026-11.org.linerate:t{target}/{lun}"),
        Protocol::IserRoce => format!(
            "iser://{portal}/iqn.2026-11.org.linerate:t{target}/{lun}?transport=roce&udp_port={}",
            udp_port.unwrap_or_default()
        ),
        Protocol::NvmeRdma => {
            format!("nvme+rdma://{portal}/nqn.2026-11.org.linerate:t{target}/{}", lun + 1)
        }
        Protocol::NvmeRoce => format!(
            "nvme+rdma://{portal}/nqn.2026-11.org.linerate:t{target}/{}?transport=roce&udp_port={}",
            lun + 1,
            udp_port.unwrap_or_default()
        ),
    };
    backing::numbers(spec.volumes).map(|place| Endpoint { url: url(place), size }).collect()
}

/// Asks for header and data digests, or over software iWARP for CRCs, wherever an endpoint is opened.
pub(super) fn with_digests(endpoint: &mut Endpoint) {
    let options = match endpoint.url.split(':').next() {
        Some("iscsi") => "header_digest=crc32c&data_digest=crc32c",
        Some("iser" | "nvme+rdma" | "nfs+rdma") => "crc=1",
        _ => "header_digest=1&data_digest=1",
    };
    let first = if endpoint.url.contains('?') { '&' } else { '?' };
    endpoint.url.push(first);
    endpoint.url.push_str(options);
}

#[cfg(test)]
mod tests {
    use super::super::served::Volumes;
    use super::*;
    use crate::machine::process::Placement;
    use crate::machine::topology::Host;

    #[test]
    fn every_volume_is_under_its_target_and_has_its_url() {
        let volumes = Volumes { targets: 2, luns: 2, url: "file:{folder}/{n}.img?size=1M".to_owned() };
        let host = Host { namespace: None, address: [127, 0, 0, 1].into(), link: None };
        let (folder, placement) = (Path::new("/run/lab"), Placement::default());
        let spec = ServeSpec {
            volumes: &volumes,
            host: &host,
            folder,
            placement: &placement,
            linerate: folder,
            cores: 1,
            spin: None,
        };
        let text = configuration(&spec);
        let last = "[[volume]]\nname = \"v3\"\nurl = \"file:/run/lab/volumes/3.img?size=1M\"\ntarget = \"t1\"\nlun = 1";
        assert!(text.contains("listen = \"127.0.0.1:0\"") && text.trim_end().ends_with(last), "{text}");
        let at = Portal { address: "h:1".to_owned(), udp_port: None };
        let mut protected = endpoints(Protocol::Iscsi, &at, &spec, 0);
        protected.iter_mut().chain(&mut endpoints(Protocol::Nvme, &at, &spec, 0)).for_each(|endpoint| {
            with_digests(endpoint);
            endpoint.url.parse::<names::VolumeUrl>().unwrap();
        });
        assert!(protected[0].url.ends_with("/0?header_digest=crc32c&data_digest=crc32c"));
        let urls: Vec<String> =
            endpoints(Protocol::Nvme, &at, &spec, 0).into_iter().map(|endpoint| endpoint.url).collect();
        assert_eq!(urls[1], "nvme+tcp://h:1/nqn.2026-11.org.linerate:t0/2");
        assert_eq!(urls[2], "nvme+tcp://h:1/nqn.2026-11.org.linerate:t1/1");
        for protocol in [Protocol::Iser, Protocol::NvmeRdma] {
            let mut with_crc = endpoints(protocol, &at, &spec, 0).swap_remove(0);
            with_digests(&mut with_crc);
            assert!(with_crc.url.ends_with("?crc=1"), "{}", with_crc.url);
            with_crc.url.parse::<names::VolumeUrl>().unwrap();
        }
        let ready = "nvme-rdma 1.2.3.4:8\niser 1.2.3.4:7\niscsi 1.2.3.4:5\nnvme 1.2.3.4:6\nnvme-roce 1.2.3.4:9\niser-roce 1.2.3.4:10\nudp 1.2.3.4:77\n";
        let found = Protocol::ALL.map(|protocol| portal(protocol, ready).unwrap());
        let addresses = found.iter().map(|portal| portal.address.as_str()).collect::<Vec<_>>();
        assert_eq!(
            addresses,
            ["1.2.3.4:5", "1.2.3.4:6", "1.2.3.4:7", "1.2.3.4:8", "1.2.3.4:9", "1.2.3.4:10"]
        );
        assert_eq!(found.map(|portal| portal.udp_port), [None, None, None, None, Some(77), Some(77)]);
        let roce =
            &endpoints(Protocol::NvmeRoce, &portal(Protocol::NvmeRoce, ready).unwrap(), &spec, 0)[1].url;
        assert!(roce.ends_with("t0/2?transport=roce&udp_port=77"), "{roce}");
        roce.parse::<names::VolumeUrl>().unwrap();
    }
}
