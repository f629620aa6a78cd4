//! How to connect: the commands that users of the usual initiators type.

use std::net::SocketAddr;

use anyhow::Result;

use crate::config::{Daemon, PortalKind, Protocol, Transport};
use crate::exports::Opened;

/// Lines that tell how to reach each volume at each portal.
pub(crate) fn lines(
    daemon: &Daemon,
    volumes: &[Opened],
    portals: &[(PortalKind, SocketAddr)],
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (kind, portal) in portals {
        lines.push(match (kind.protocol, kind.transport) {
            (Protocol::Iscsi, Transport::Tcp) => format!("iSCSI at {portal}"),
            (Protocol::Iscsi, Transport::Iwarp) => format!("iSER over iWARP at {portal}"),
            (Protocol::Nvme, Transport::Tcp) => format!("NVMe/TCP at {portal}"),
            (Protocol::Nvme, Transport::Iwarp) => format!("NVMe/RDMA over iWARP at {portal}"),
        });
        for volume in volumes {
            match kind.protocol {
                Protocol::Iscsi => {
                    let target = daemon.iqn(&volume.target)?;
                    let unit = Unit { target: target.as_str(), lun: volume.lun };
                    iscsi(&mut lines, unit, kind.transport, *portal);
                }
                Protocol::Nvme => {
                    let subsystem = daemon.nqn(&volume.target)?;
                    let unit = Unit { target: subsystem.as_str(), lun: volume.lun };
                    nvme(&mut lines, unit, kind.transport, *portal);
                }
            }
        }
    }
    Ok(lines)
}

/// A volume as its clients find it.
#[derive(Clone, Copy)]
struct Unit<'a> {
    /// The target's or subsystem's name.
    target: &'a str,
    lun: u16,
}

fn iscsi(lines: &mut Vec<String>, Unit { target, lun }: Unit<'_>, transport: Transport, portal: SocketAddr) {
    lines.push(format!("  {target}"));
    if transport == Transport::Iwarp {
        lines.push(format!("    Linux:    iscsiadm -m discovery -t st -I iser -p {portal} && iscsiadm -m node -T {target} -p {portal} -I iser --login"));
        lines.push(format!("    Linerate: linerate bench iser://{portal}/{target}/{lun}"));
        return;
    }
    lines.push(format!("    Linux:    iscsiadm -m discovery -t st -p {portal} && iscsiadm -m node -T {target} -p {portal} --login"));
    lines.push(format!(
        "    QEMU:     -drive driver=iscsi,transport=tcp,portal={portal},target={target},lun={lun},if=virtio"
    ));
    lines.push(format!("    libiscsi: iscsi-inq iscsi://{portal}/{target}/{lun}"));
}

fn nvme(lines: &mut Vec<String>, unit: Unit<'_>, transport: Transport, portal: SocketAddr) {
    let Unit { target: subsystem, lun } = unit;
    let transport = match transport {
        Transport::Tcp => "tcp",
        Transport::Iwarp => "rdma",
    };
    let nsid = u32::from(lun) + 1;
    let (address, port) = (portal.ip(), portal.port());
    lines.push(format!("  {subsystem}"));
    lines.push(format!("    Linux:    nvme connect -t {transport} -a {address} -s {port} -n {subsystem}"));
    lines.push(format!("    Linerate: linerate bench nvme+{transport}://{portal}/{subsystem}/{nsid}"));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_volume_at_each_portal() {
        let iwarp = |protocol| PortalKind { protocol, transport: Transport::Iwarp };
        let portals = [
            (Protocol::Iscsi.into(), "127.0.0.1:3260".parse().unwrap()),
            (Protocol::Nvme.into(), "[::1]:4420".parse().unwrap()),
            (iwarp(Protocol::Iscsi), "127.0.0.1:3261".parse().unwrap()),
            (iwarp(Protocol::Nvme), "[::1]:4421".parse().unwrap()),
        ];
        let volume = Arc::new(volume::Null::new(1 << 20, 512).unwrap());
        let disk = Opened::plain("disk", volume);
        let text = lines(&Daemon::default(), &[disk], &portals).unwrap().join("\n");
        assert!(text.contains("iscsi-inq iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0"), "{text}");
        assert!(
            text.contains("linerate bench iser://127.0.0.1:3261/iqn.2026-11.org.linerate:disk/0"),
            "{text}"
        );
        assert!(text.contains("nvme connect -t rdma -a ::1 -s 4421"), "{text}");
        assert!(text.contains("nvme+rdma://[::1]:4421/nqn.2026-11.org.linerate:disk/1"), "{text}");
        assert!(
            text.contains("nvme connect -t tcp -a ::1 -s 4420 -n nqn.2026-11.org.linerate:disk"),
            "{text}"
        );
    }
}
