//! The ready file: tells scripts that everything listens, and where.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};

use crate::config::PortalKind;

/// Writes a line `PROTOCOL ADDRESS:PORT` per portal. The file appears whole: it is written beside its place and renamed.
pub(crate) fn write(path: &Path, portals: &[(PortalKind, SocketAddr)]) -> Result<()> {
    let line = |(kind, address): &(PortalKind, SocketAddr)| format!("{} {address}\n", kind.word());
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
    use crate::config::{Protocol, Transport};

    #[test]
    fn one_line_per_portal_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        let portals = [
            (Protocol::Iscsi.into(), "127.0.0.1:3260".parse().unwrap()),
            (
                PortalKind { protocol: Protocol::Nvme, transport: Transport::Iwarp },
                "[::1]:4420".parse().unwrap(),
            ),
        ];
        write(&path, &portals).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "iscsi 127.0.0.1:3260\nnvme-rdma [::1]:4420\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        assert!(!path.exists() && remove(&path).is_ok());
    }
}
