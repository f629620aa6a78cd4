//! How to connect: the commands that users of the usual initiators type.

use std::net::SocketAddr;

use crate::config::Protocol;
use crate::identity::{IQN_PREFIX, NQN_PREFIX};

/// Lines that tell how to reach each volume at each portal.
pub(crate) fn lines(volumes: &[String], portals: &[(Protocol, SocketAddr)]) -> Vec<String> {
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

fn iscsi(lines: &mut Vec<String>, volume: &str, portal: SocketAddr) {
    let target = format!("{IQN_PREFIX}{volume}");
    lines.push(format!("  {target}"));
    lines.push(format!("    Linux:    iscsiadm -m discovery -t st -p {portal} && iscsiadm -m node -T {target} -p {portal} --login"));
    lines.push(format!(
        "    QEMU:     -drive driver=iscsi,transport=tcp,portal={portal},target={target},lun=0,if=virtio"
    ));
    lines.push(format!("    libiscsi: iscsi-inq iscsi://{portal}/{target}/0"));
}

fn nvme(lines: &mut Vec<String>, volume: &str, portal: SocketAddr) {
    let subsystem = format!("{NQN_PREFIX}{volume}");
    let (address, port) = (portal.ip(), portal.port());
    lines.push(format!("  {subsystem}"));
    lines.push(format!("    Linux:    nvme connect -t tcp -a {address} -s {port} -n {subsystem}"));
    lines.push(format!("    Linerate: linerate bench nvme+tcp://{portal}/{subsystem}/1"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_volume_at_each_portal() {
        let portals = [
            (Protocol::Iscsi, "127.0.0.1:3260".parse().unwrap()),
            (Protocol::Nvme, "[::1]:4420".parse().unwrap()),
        ];
        let text = lines(&["disk".to_owned()], &portals).join("\n");
        assert!(text.contains("iscsi-inq iscsi://127.0.0.1:3260/iqn.2026-11.org.linerate:disk/0"), "{text}");
        assert!(
            text.contains("nvme connect -t tcp -a ::1 -s 4420 -n nqn.2026-11.org.linerate:disk"),
            "{text}"
        );
    }
}
