//! Who a connection associates (NVMe Base §1.5, association): the host, and the subsystem that it asked for, as far as they are known.

use alloc::sync::Arc;

use volume::reservation::Registrant;

use crate::fabrics::HostIdentity;

/// The two ends of a connection. Both names are known once a Connect was read, even if that is refused.
#[derive(Debug, Default)]
pub(super) struct Association {
    pub(super) host: Option<HostIdentity>,
    /// The name of the subsystem.
    pub(super) subnqn: Option<Arc<str>>,
}

impl Association {
    /// The host in the words of the reservations.
    pub(super) fn registrant(&self) -> Option<Registrant> {
        let host = self.host.as_ref()?;
        Some(Registrant::Host { identifier: host.identifier, nqn: Arc::clone(&host.nqn) })
    }

    /// True when the host has an identifier of its own.
    pub(super) fn is_identified(&self) -> bool {
        self.host.as_ref().is_some_and(HostIdentity::is_identified)
    }

    /// The host's name; empty if it has none.
    pub(super) fn hostnqn(&self) -> &str {
        self.host.as_ref().map_or("", |host| &*host.nqn)
    }
}
