//! Safe by default: a portal that others can reach must know whom it serves.

use std::net::SocketAddr;

use anyhow::{Result, bail};

use crate::config::Protocol;

/// What lets a portal be reached by others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard {
    /// What is spoken there.
    pub(crate) protocol: Protocol,
    /// Every volume has access rules for the portal's protocol.
    pub(crate) restricted: bool,
    /// The user has said that anybody may use the volumes.
    pub(crate) allow_any: bool,
}

/// Refuses a portal beyond loopback that would serve anybody.
pub(crate) fn check_bind(address: SocketAddr, guard: Guard) -> Result<()> {
    if address.ip().to_canonical().is_loopback() || guard.restricted || guard.allow_any {
        return Ok(());
    }
    if guard.protocol == Protocol::Nfs {
        bail!(
            "{address} can be reached from other machines, and nothing says which of them may use the shares: give every [[share]] of the \
             configuration file clients = [\"NETWORK\"], or say --allow-any to serve anybody who can reach it"
        )
    }
    bail!(
        "{address} can be reached from other machines, and nothing says who may use the volumes: add [[access]] entries \
         with initiators, hosts or chap for every volume to the configuration file, or say --allow-any to serve \
         anybody who can reach it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_open_by_itself() {
        for (address, restricted, allow_any, fine) in [
            ("127.0.0.1:3260", false, false, true),
            ("127.9.9.9:3260", false, false, true),
            ("[::1]:3260", false, false, true),
            ("[::ffff:127.0.0.1]:3260", false, false, true),
            ("0.0.0.0:3260", false, false, false),
            ("[::]:3260", false, false, false),
            ("192.0.2.1:3260", false, false, false),
            ("192.0.2.1:3260", true, false, true),
            ("192.0.2.1:3260", false, true, true),
        ] {
            for protocol in [Protocol::Iscsi, Protocol::Nvme, Protocol::Nfs] {
                let guard = Guard { protocol, restricted, allow_any };
                let result = check_bind(address.parse().unwrap(), guard);
                assert_eq!(result.is_ok(), fine, "{address} {guard:?}");
            }
        }
    }
}
