//! Get Log Page (NVMe Base §5.1.12) and its pages, one file each.

use crate::opcode::admin;
use crate::sqe::SubmissionQueueEntry;

mod changed_namespaces;
mod discovery;
mod effects;
mod error;
mod firmware;
mod reservation;
mod smart;
mod supported;

pub use changed_namespaces::ChangedNamespaces;
pub use discovery::{DiscoveryEntry, DiscoveryHeader, RawEntry, SubsystemType, TransportType};
pub use effects::{IoCommand, effects};
pub use error::ErrorEntry;
pub use firmware::FirmwareSlots;
pub(crate) use reservation::kind as notification_kind;
pub use reservation::{Notifications, ReservationNotification};
pub use smart::SmartHealth;
pub use supported::supported;

/// Log page identifiers.
pub mod lid {
    /// Supported log pages.
    pub const SUPPORTED: u8 = 0x00;
    /// Error information.
    pub const ERROR: u8 = 0x01;
    /// SMART and health information.
    pub const SMART: u8 = 0x02;
    /// Firmware slots.
    pub const FIRMWARE: u8 = 0x03;
    /// Changed namespaces.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Commands supported and effects.
    pub const EFFECTS: u8 = 0x05;
    /// Discovery.
    pub const DISCOVERY: u8 = 0x70;
    /// Reservation notification.
    pub const RESERVATION: u8 = 0x80;
}

/// The command's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetLogPage {
    /// Which page.
    pub lid: u8,
    /// Log specific parameter.
    pub lsp: u8,
    /// Retain asynchronous event.
    pub retain: bool,
    /// Bytes asked for: NUMD in dwords, counted from zero, in two halves.
    pub length: u64,
    /// Offset of the first byte (or an index, if OT says so).
    pub offset: u64,
    /// OT: the offset is an index.
    pub indexed: bool,
    /// I/O command set.
    pub csi: u8,
}

impl GetLogPage {
    /// The fields of `entry`.
    pub fn decode(entry: &SubmissionQueueEntry) -> Self {
        let [lid, specific, low, high] = entry.dword(10).to_le_bytes();
        let [upper_low, upper_high, _, _] = entry.dword(11).to_le_bytes();
        let numd = u32::from_le_bytes([low, high, upper_low, upper_high]);
        let [_, _, control, csi] = entry.dword(14).to_le_bytes();
        Self {
            lid,
            lsp: specific & 0x7f,
            retain: specific & 0x80 != 0,
            length: u64::from(numd).saturating_add(1).saturating_mul(4),
            offset: entry.quad(12),
            indexed: control & 0x80 != 0,
            csi,
        }
    }

    /// The command that asks for `length` bytes (a multiple of four, above zero) of page `lid` from `offset`.
    pub fn entry(lid: u8, offset: u64, length: u32) -> SubmissionQueueEntry {
        let numd = (length / 4).saturating_sub(1).to_le_bytes();
        let [low, high, upper_low, upper_high] = numd;
        SubmissionQueueEntry::new(admin::GET_LOG_PAGE, crate::sqe::ALL_NAMESPACES)
            .with(10, u32::from_le_bytes([lid, 0, low, high]))
            .with(11, u32::from_le_bytes([upper_low, upper_high, 0, 0]))
            .with_quad(12, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    /// The vector that a well-known emulator gets wrong: NUMDL is the upper half of dword 10.
    #[test]
    fn golden_vector() {
        let entry = GetLogPage::entry(0x70, 0x1_0000_0400, 0x0004_0008);
        assert_eq!(&entry.as_bytes()[40..56], &[0x70, 0, 1, 0, 1, 0, 0, 0, 0, 4, 0, 0, 1, 0, 0, 0]);
        let fields = GetLogPage::decode(&entry);
        assert_eq!((fields.lid, fields.offset, fields.length), (0x70, 0x1_0000_0400, 0x0004_0008));
        let fields = GetLogPage::decode(&entry.with(10, 0x03ff_8f02).with(11, 0).with(14, 0x0080_0000));
        assert_eq!((fields.length, fields.lsp, fields.retain, fields.indexed), (4096, 0x0f, true, true));
    }
}
