//! How to connect: the commands that users of the usual initiators type.

use std::net::SocketAddr;

use anyhow::Result;

use crate::config::{Daemon, Protocol};
use crate::exports::Opened;

/// Lines that tell how to reach each volume at each portal.
pub(crate) fn lines(
    daemon: &Daemon,
    volumes: &[Opened],
    portals: &[(Protocol, SocketAddr)],
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (protocol, portal) in portals {
        lines.push(match protocol {
            Protocol::Iscsi => format!("iSCSI at {portal}"),
            Protocol::Nvme => format!("NVMe/TCP at {portal}"),
        });
        for volume in volumes {
            match protocol {
                Protocol::Iscsi => {
                    iscsi(&mut lines, (daemon.iqn(&volume.target)?.as_str(), volume.lun), *portal);
                }
                Protocol::Nvme => {
                    nvme(&mut lines, (daemon.nqn(&volume.target)?.as_str(), volume.lun), *portal);
                }
            }
        }
    }
    Ok(lines)
}

fn iscsi(lines: &mut Vec<String>, (target, lun): (&str, u16), portal: SocketAddr) {
    lines.push(format!("  {target}"));
    lines.push(format!("    Linux:    iscsiadm -m discovery -t st -p {portal} && iscsiadm -m node -T {target} -p {portal} --login"));
    lines.push(format!(
        "    QEMU:     -drive driver=iscsi,transport=tcp,portal={portal},target={target},lun={lun},if=virtio"
    ));
    lines.push(format!("    libiscsi: iscsi-inq iscsi://{portal}/{target}/{lun}"));
}

fn nvme(lines: &mut Vec<String>, (subsystem, lun): (&str, u16), portal: SocketAddr) {
    let nsid = u32::from(lun) + 1;
    let (address, port) = (portal.ip(), portal.port());
    lines.push(format!("  {subsystem}"));
    lines.push(format!("    Linux:    nvme connect -t tcp -a {address} -s {port} -n {subsystem}"));
    lines.push(format!("    Linerate: linerate bench nvme+tcp://{portal}/{subsystem}/{nsid}"));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_volume_at_each_portal() {
        let portals = [
            (Protocol::Iscsi, "127.0.0.1:3260".parse().unwrap()),
            (Protocol::Nvme, "[::1]:4420".parse().unwrap()),
        ];
        let volume = Arc::new(volume::Null::new(1 << 20, 512).unwrap());
        let disk = Opened::plain("disk", volume);
        let text = lines(&Daemon::default(), &[disk], &portals).unwrap().join("\n");
        assert!(text.contains("iscsi-inq iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0"), "{text}");
        assert!(
            text.contains("nvme connect -t tcp -a ::1 -s 4420 -n nqn.2026-11.org.linerate:disk"),
            "{text}"
        );
    }
}
