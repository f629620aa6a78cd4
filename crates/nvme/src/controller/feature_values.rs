//! Values of features that a host may change and read back (NVMe Base §5.1.25).

use alloc::vec::Vec;

use volume::reservation::Notice;

use super::subsystem::NamespaceKey;
use crate::async_event::AsyncEventConfiguration;
use crate::features::ReservationNotificationMask;

/// Reservation notifications that the host does not want on a namespace.
#[derive(Debug, Clone, Copy)]
struct ReservationMask {
    nsid: u32,
    value: ReservationNotificationMask,
}

/// Values that a host may change and read back.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) arbitration: u32,
    pub(super) temperature: u32,
    pub(super) error_recovery: u32,
    pub(super) async_events: AsyncEventConfiguration,
    pub(super) queues: Option<u16>,
    masks: Vec<ReservationMask>,
}

impl Values {
    /// The reservation notifications that the host does not want on a namespace.
    pub(super) fn mask(&self, nsid: u32) -> ReservationNotificationMask {
        self.masks.iter().find(|mask| mask.nsid == nsid).map(|mask| mask.value).unwrap_or_default()
    }

    /// Sets what reservation notifications the host does not want on these namespaces.
    pub(super) fn set_mask(&mut self, namespaces: &[u32], value: ReservationNotificationMask) {
        self.masks.retain(|mask| !namespaces.contains(&mask.nsid));
        self.masks.extend(namespaces.iter().map(|&nsid| ReservationMask { nsid, value }));
    }

    /// Forgets what was set of namespaces that are gone.
    pub(super) fn forget(&mut self, gone: &[NamespaceKey]) {
        self.masks.retain(|mask| gone.iter().all(|key| key.nsid != mask.nsid));
    }

    /// True when the host does not want to hear of this on a namespace.
    pub(super) fn masks(&self, nsid: u32, notice: Notice) -> bool {
        self.mask(nsid).masks(notice)
    }
}
