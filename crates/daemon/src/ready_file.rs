//! The ready file: tells scripts that everything listens, and where.

use std::path::Path;

use anyhow::{Context, Result};

use crate::help::PortalPlace;

/// Writes a line `PROTOCOL ADDRESS:PORT` per portal, and one `udp ADDRESS:PORT` behind that of a portal over RoCE. The file appears whole: it is written beside its place and renamed.
pub(crate) fn write(path: &Path, portals: &[PortalPlace]) -> Result<()> {
    let line = |PortalPlace { kind, address, udp }: &PortalPlace| {
        let udp = udp.map(|udp| format!("udp {udp}\n")).unwrap_or_default();
        format!("{} {address}\n{udp}", kind.word())
    };
    let text: String = portals.iter().map(line).collect::<Vec<_>>().concat();
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("the ready file {} cannot be written", path.display()))
}

/// Takes away the file of an earlier server: while there is one, scripts believe that everything listens.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("the old ready file {} cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PortalKind, Protocol, Transport};

    fn place(protocol: Protocol, transport: Transport, address: &str, udp: Option<&str>) -> PortalPlace {
        let at = |text: &str| text.parse().unwrap();
        PortalPlace { kind: PortalKind { protocol, transport }, address: at(address), udp: udp.map(at) }
    }

    #[test]
    fn one_line_per_portal_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        let portals = [
            place(Protocol::Iscsi, Transport::Tcp, "127.0.0.1:3260", None),
            place(Protocol::Nvme, Transport::Iwarp, "[::1]:4420", None),
            place(Protocol::Nvme, Transport::Roce, "127.0.0.1:4421", Some("127.0.0.1:4791")),
        ];
        write(&path, &portals).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "iscsi 127.0.0.1:3260\nnvme-rdma [::1]:4420\nnvme-roce 127.0.0.1:4421\nudp 127.0.0.1:4791\n"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        assert!(!path.exists() && remove(&path).is_ok());
    }
}
