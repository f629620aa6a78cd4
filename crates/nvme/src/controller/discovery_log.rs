//! The discovery log page (NVMe Base §5.1.12.3.1). It may be long and is read in pieces: those are parts of one image.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use buf::SharedBuf;
use zerocopy::IntoBytes;

use super::subsystem::Subsystem;
use crate::DISCOVERY_NQN;
use crate::limits::ADMIN_QUEUE;
use crate::log::{DiscoveryEntry, DiscoveryHeader, SubsystemType, TransportType};

/// One image of a discovery log page, for all connections; empty until it is made.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryLog(Option<SharedBuf>);

impl DiscoveryLog {
    /// The image of what a portal serves.
    pub(super) fn of(discovery: Discovery<'_>) -> Self {
        Self(Some(discovery.page()))
    }

    /// The image, if it was made.
    pub(super) fn page(&self) -> Option<SharedBuf> {
        self.0.clone()
    }
}

/// What the log page says of a portal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Discovery<'a> {
    pub(super) transport: TransportType,
    pub(super) subsystems: &'a [Arc<Subsystem>],
    pub(super) advertised: &'a [SocketAddr],
    pub(super) referrals: &'a [SocketAddr],
    pub(super) generation: u64,
}

impl Discovery<'_> {
    /// True when the page has the same entries.
    pub(super) fn has_entries_of(self, other: Self) -> bool {
        let names = |discovery: Self| discovery.subsystems.iter().map(|subsystem| &*subsystem.nqn);
        names(self).eq(names(other))
            && self.advertised == other.advertised
            && self.referrals == other.referrals
    }

    /// The image, which names everything on the portal: a host's own portal has been masked for it.
    pub(super) fn page(self) -> SharedBuf {
        let names = self.subsystems.iter().map(|subsystem| (SubsystemType::Nvm, &*subsystem.nqn));
        let itself = core::iter::once((SubsystemType::CurrentDiscovery, DISCOVERY_NQN));
        let mut records = Vec::new();
        for (kind, subnqn) in itself.chain(names) {
            for (portid, &address) in (1_u16..).zip(self.advertised) {
                let (transport, subnqn) = (self.transport, subnqn.to_string());
                let entry = DiscoveryEntry { transport, kind, subnqn, address, portid };
                records.push(entry.encode(ADMIN_QUEUE));
            }
        }
        for &address in self.referrals {
            let (kind, subnqn) = (SubsystemType::Referral, DISCOVERY_NQN.to_string());
            let transport = self.transport;
            let entry = DiscoveryEntry { transport, kind, subnqn, address, portid: 0 };
            records.push(entry.encode(ADMIN_QUEUE));
        }
        let count = u64::try_from(records.len()).unwrap_or(0);
        let mut page = DiscoveryHeader::new(self.generation, count).as_bytes().to_vec();
        page.extend_from_slice(records.as_bytes());
        page.into()
    }
}
