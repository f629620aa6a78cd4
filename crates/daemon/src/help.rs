//! How to connect: the commands that users of the usual initiators type.

use std::net::SocketAddr;

use anyhow::Result;
use names::ROCE_PORT;

use crate::config::{Daemon, PortalKind, Protocol, Transport};
use crate::exports::Opened;
use crate::shares::OpenedShare;

/// Where a portal is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortalPlace {
    pub(crate) kind: PortalKind,
    pub(crate) address: SocketAddr,
    /// The socket of a portal over RoCE.
    pub(crate) udp: Option<SocketAddr>,
}

/// What is served.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) volumes: &'a [Opened],
    pub(crate) shares: &'a [OpenedShare],
}

/// Lines that tell how to reach what is served at each portal.
pub(crate) fn lines(daemon: &Daemon, served: Served<'_>, portals: &[PortalPlace]) -> Result<Vec<String>> {
    let Served { volumes, shares } = served;
    let mut lines = Vec::new();
    for place in portals {
        let PortalPlace { kind, address: portal, .. } = place;
        lines.push(match (kind.protocol, kind.transport) {
            (Protocol::Iscsi, Transport::Tcp) => format!("iSCSI at {portal}"),
            (Protocol::Iscsi, Transport::Iwarp) => format!("iSER over iWARP at {portal}"),
            (Protocol::Iscsi, Transport::Rdma) => format!("iSER on an RDMA adapter at {portal}"),
            (Protocol::Nvme, Transport::Rdma) => format!("NVMe/RDMA on an RDMA adapter at {portal}"),
            (Protocol::Nvme, Transport::Tcp) => format!("NVMe/TCP at {portal}"),
            (Protocol::Nvme, Transport::Iwarp) => format!("NVMe/RDMA over iWARP at {portal}"),
            (Protocol::Nfs, Transport::Tcp) => format!("NFS at {portal}"),
            (Protocol::Nfs, Transport::Iwarp) => format!("NFS/RDMA over iWARP at {portal}"),
            (Protocol::Nfs, Transport::Rdma) => format!("NFS/RDMA on an RDMA adapter at {portal}"),
            (protocol, Transport::Roce) => {
                let name = match protocol {
                    Protocol::Iscsi => "iSER",
                    Protocol::Nvme => "NVMe/RDMA",
                    Protocol::Nfs => "NFS/RDMA",
                };
                format!(
                    "{name} over RoCE at {portal}{}",
                    udp_port(*place).map_or_else(String::new, |port| format!(", UDP port {port}"))
                )
            }
        });
        if kind.protocol == Protocol::Nfs {
            for share in shares {
                nfs(&mut lines, &share.entry.name, *place);
            }
            continue;
        }
        for volume in volumes {
            match kind.protocol {
                Protocol::Nfs => {}
                Protocol::Iscsi => {
                    let target = daemon.iqn(&volume.target)?;
                    let unit = Unit { target: target.as_str(), lun: volume.lun };
                    iscsi(&mut lines, unit, *place);
                }
                Protocol::Nvme => {
                    let subsystem = daemon.nqn(&volume.target)?;
                    let unit = Unit { target: subsystem.as_str(), lun: volume.lun };
                    nvme(&mut lines, unit, *place);
                }
            }
        }
    }
    Ok(lines)
}

fn nfs(lines: &mut Vec<String>, share: &str, place: PortalPlace) {
    let (address, port) = (place.address.ip(), place.address.port());
    let host = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
    lines.push(format!("  /{share}"));
    if place.kind.transport != Transport::Tcp {
        lines.push(format!(
            "    Linux:    mount -t nfs -o vers=4.2,proto=rdma,port={port} {host}:/{share} /mnt"
        ));
        lines.push(format!(
            "    Linerate: linerate bench nfs+rdma://{}/{share}/FILE{}",
            place.address,
            rdma_options(place)
        ));
        return;
    }
    lines.push(format!("    Linux:    mount -t nfs -o vers=4.2,port={port} {host}:/{share} /mnt"));
    lines.push(format!(
        "    libnfs:   nfs-ls 'nfs://{host}/{share}/?version=3&nfsport={port}&mountport={port}'"
    ));
}

/// A volume as its clients find it.
#[derive(Clone, Copy)]
struct Unit<'a> {
    /// The target's or subsystem's name.
    target: &'a str,
    lun: u16,
}

fn iscsi(lines: &mut Vec<String>, Unit { target, lun }: Unit<'_>, place: PortalPlace) {
    let portal = place.address;
    lines.push(format!("  {target}"));
    if place.kind.transport != Transport::Tcp {
        let options = rdma_options(place);
        lines.push(format!("    Linux:    iscsiadm -m discovery -t st -I iser -p {portal} && iscsiadm -m node -T {target} -p {portal} -I iser --login"));
        lines.push(format!("    Linerate: linerate bench iser://{portal}/{target}/{lun}{options}"));
        return;
    }
    lines.push(format!("    Linux:    iscsiadm -m discovery -t st -p {portal} && iscsiadm -m node -T {target} -p {portal} --login"));
    lines.push(format!(
        "    QEMU:     -drive driver=iscsi,transport=tcp,portal={portal},target={target},lun={lun},if=virtio"
    ));
    lines.push(format!("    libiscsi: iscsi-inq iscsi://{portal}/{target}/{lun}"));
}

fn nvme(lines: &mut Vec<String>, unit: Unit<'_>, place: PortalPlace) {
    let Unit { target: subsystem, lun } = unit;
    let portal = place.address;
    let transport = if place.kind.transport == Transport::Tcp { "tcp" } else { "rdma" };
    let options = rdma_options(place);
    let nsid = u32::from(lun) + 1;
    let (address, port) = (portal.ip(), portal.port());
    lines.push(format!("  {subsystem}"));
    lines.push(format!("    Linux:    nvme connect -t {transport} -a {address} -s {port} -n {subsystem}"));
    lines.push(format!(
        "    Linerate: linerate bench nvme+{transport}://{portal}/{subsystem}/{nsid}{options}"
    ));
}

/// What a URL says of RDMA's own transport, where that is not iWARP.
fn rdma_options(place: PortalPlace) -> String {
    match place.kind.transport {
        Transport::Tcp | Transport::Iwarp => String::new(),
        Transport::Roce => {
            let port = udp_port(place).map_or_else(String::new, |port| format!("&udp_port={port}"));
            format!("?transport=roce{port}")
        }
        Transport::Rdma => "?transport=rdma".to_owned(),
    }
}

/// RoCE's port, where it is not the usual one.
fn udp_port(place: PortalPlace) -> Option<u16> {
    place.udp.map(|udp| udp.port()).filter(|port| *port != ROCE_PORT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_volume_at_each_portal() {
        let iwarp = |protocol| PortalKind { protocol, transport: Transport::Iwarp };
        let roce = |protocol| PortalKind { protocol, transport: Transport::Roce };
        let place = |kind: PortalKind, address: &str| PortalPlace {
            kind,
            address: address.parse().unwrap(),
            udp: (kind.transport == Transport::Roce).then(|| "127.0.0.1:7000".parse().unwrap()),
        };
        let portals = [
            place(Protocol::Iscsi.into(), "127.0.0.1:3260"),
            place(Protocol::Nvme.into(), "[::1]:4420"),
            place(iwarp(Protocol::Iscsi), "127.0.0.1:3261"),
            place(iwarp(Protocol::Nvme), "[::1]:4421"),
            place(roce(Protocol::Nvme), "127.0.0.1:4422"),
            place(roce(Protocol::Iscsi), "127.0.0.1:3262"),
        ];
        let volume = Arc::new(volume::Null::new(1 << 20, 512).unwrap());
        let disk = Opened::plain("disk", volume);
        let text =
            lines(&Daemon::default(), Served { volumes: &[disk], shares: &[] }, &portals).unwrap().join("\n");
        assert!(text.contains("iscsi-inq iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0"), "{text}");
        assert!(
            text.contains("linerate bench iser://127.0.0.1:3261/iqn.2026-11.org.linerate:disk/0"),
            "{text}"
        );
        assert!(text.contains("nvme connect -t rdma -a ::1 -s 4421"), "{text}");
        assert!(text.contains("nvme+rdma://[::1]:4421/nqn.2026-11.org.linerate:disk/1"), "{text}");
        let roce = "nvme+rdma://127.0.0.1:4422/nqn.2026-11.org.linerate:disk/1?transport=roce&udp_port=7000";
        assert!(text.contains(roce), "{text}");
        let roce = "iser://127.0.0.1:3262/iqn.2026-11.org.linerate:disk/0?transport=roce&udp_port=7000";
        assert!(text.contains(roce), "{text}");
        assert!(
            text.contains("nvme connect -t tcp -a ::1 -s 4420 -n nqn.2026-11.org.linerate:disk"),
            "{text}"
        );
    }
}
