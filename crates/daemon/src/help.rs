//! How to connect: the commands that users of the usual initiators type.

use std::net::SocketAddr;

use crate::config::Protocol;
use crate::exports::Opened;
use crate::identity::{IQN_PREFIX, NQN_PREFIX};

/// Lines that tell how to reach each volume at each portal.
pub(crate) fn lines(volumes: &[Opened], portals: &[(Protocol, SocketAddr)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (protocol, portal) in portals {
        lines.push(match protocol {
            Protocol::Iscsi => format!("iSCSI at {portal}"),
            Protocol::Nvme => format!("NVMe/TCP at {portal}"),
        });
        for volume in volumes {
            match protocol {
                Protocol::Iscsi => iscsi(&mut lines, volume, *portal),
                Protocol::Nvme => nvme(&mut lines, volume, *portal),
            }
        }
    }
    lines
}

fn iscsi(lines: &mut Vec<String>, volume: &Opened, portal: SocketAddr) {
    let (target, lun) = (format!("{IQN_PREFIX}{}", volume.target), volume.lun);
    lines.push(format!("  {target}"));
    lines.push(format!("    Linux:    iscsiadm -m discovery -t st -p {portal} && iscsiadm -m node -T {target} -p {portal} --login"));
    lines.push(format!(
        "    QEMU:     -drive driver=iscsi,transport=tcp,portal={portal},target={target},lun={lun},if=virtio"
    ));
    lines.push(format!("    libiscsi: iscsi-inq iscsi://{portal}/{target}/{lun}"));
}

fn nvme(lines: &mut Vec<String>, volume: &Opened, portal: SocketAddr) {
    let (subsystem, nsid) = (format!("{NQN_PREFIX}{}", volume.target), u32::from(volume.lun) + 1);
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
        let disk = Opened { name: "disk".to_owned(), target: "disk".to_owned(), lun: 0, volume };
        let text = lines(&[disk], &portals).join("\n");
        assert!(text.contains("iscsi-inq iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0"), "{text}");
        assert!(
            text.contains("nvme connect -t tcp -a ::1 -s 4420 -n nqn.2026-11.org.linerate:disk"),
            "{text}"
        );
    }
}
