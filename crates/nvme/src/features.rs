//! Get Features and Set Features (NVMe Base §5.1.11, §5.1.25).

use volume::reservation::Notice;

use crate::log::notification_kind;
use crate::opcode::admin;
use crate::sqe::SubmissionQueueEntry;

/// Feature identifiers.
pub mod fid {
    /// Arbitration.
    pub const ARBITRATION: u8 = 0x01;
    /// Power Management.
    pub const POWER: u8 = 0x02;
    /// Temperature Threshold.
    pub const TEMPERATURE: u8 = 0x04;
    /// Error Recovery.
    pub const ERROR_RECOVERY: u8 = 0x05;
    /// Volatile Write Cache.
    pub const WRITE_CACHE: u8 = 0x06;
    /// Number of Queues.
    pub const QUEUES: u8 = 0x07;
    /// Write Atomicity Normal.
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    /// Asynchronous Event Configuration.
    pub const ASYNC_EVENTS: u8 = 0x0b;
    /// Keep Alive Timer.
    pub const KEEP_ALIVE: u8 = 0x0f;
    /// Host Behavior Support.
    pub const HOST_BEHAVIOR: u8 = 0x16;
    /// I/O Command Set Profile.
    pub const COMMAND_SETS: u8 = 0x19;
    /// Host Identifier.
    pub const HOST_ID: u8 = 0x81;
    /// Reservation Notification Mask.
    pub const RESERVATION_MASK: u8 = 0x82;
    /// Reservation Persistence.
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
}

/// What Get Features asks for (SEL).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The current value.
    Current,
    /// The default value.
    Default,
    /// The saved value; without saving, the default.
    Saved,
    /// What can be done with the feature.
    Capabilities,
}

/// The fields that both commands share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureCommand {
    /// Which feature.
    pub fid: u8,
    /// What of it (Get Features); `None` for a reserved value.
    pub select: Option<Select>,
    /// Save the value (Set Features).
    pub save: bool,
    /// Dword 11: the value, or how to read it.
    pub value: u32,
}

impl FeatureCommand {
    /// The fields of `entry`.
    pub fn decode(entry: &SubmissionQueueEntry) -> Self {
        let [fid, select, _, save] = entry.dword(10).to_le_bytes();
        let select = match select & 7 {
            0 => Some(Select::Current),
            1 => Some(Select::Default),
            2 => Some(Select::Saved),
            3 => Some(Select::Capabilities),
            _ => None,
        };
        Self { fid, select, save: save & 0x80 != 0, value: entry.dword(11) }
    }
}

/// What can be done with a feature (NVMe Base §5.1.11, SEL 11b); none can be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureCapabilities {
    /// It can be changed.
    pub changeable: bool,
    /// Each namespace has it for itself.
    pub namespace_specific: bool,
}

impl FeatureCapabilities {
    const NAMESPACE_SPECIFIC: u32 = 1 << 1;
    const CHANGEABLE: u32 = 1 << 2;

    /// Of a feature that cannot be changed.
    pub const FIXED: Self = Self { changeable: false, namespace_specific: false };
    /// Of a feature that the host may change.
    pub const CONTROLLER: Self = Self { changeable: true, namespace_specific: false };

    /// Dword 0 of the completion.
    pub fn dword(self) -> u32 {
        (u32::from(self.changeable) * Self::CHANGEABLE)
            | (u32::from(self.namespace_specific) * Self::NAMESPACE_SPECIFIC)
    }
}

/// Host Identifier (NVMe Base §5.1.25.1.28): how a Get Features asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostIdentifierFormat(pub u32);

impl HostIdentifierFormat {
    /// EXHID: the identifier has 128 bits.
    pub const fn is_extended(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Power Management (NVMe Base §5.1.25.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerManagement(pub u32);

impl PowerManagement {
    /// PS: the power state.
    pub const fn power_state(self) -> u8 {
        self.0.to_le_bytes()[0] & 0x1f
    }
}

/// Reservation Notification Mask (NVMe Base §5.1.25.1.31): what a host does not want to hear of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReservationNotificationMask(pub u32);

impl ReservationNotificationMask {
    /// True when the host does not want to hear of this.
    pub fn masks(self, notice: Notice) -> bool {
        self.0.checked_shr(u32::from(notification_kind(notice))).unwrap_or(0) & 1 != 0
    }
}

/// A Set Features command without data.
pub fn set(fid: u8, value: u32) -> SubmissionQueueEntry {
    SubmissionQueueEntry::new(admin::SET_FEATURES, 0).with(10, u32::from(fid)).with(11, value)
}

/// Number of Queues: submission and completion queues, each counted from zero.
pub fn queues(count: u16) -> u32 {
    let [low, high] = count.saturating_sub(1).to_le_bytes();
    u32::from_le_bytes([low, high, low, high])
}

/// The submission queues, counted from one, that a value of Number of Queues says; `None` for the
/// reserved value in either half.
pub fn queue_count(value: u32) -> Option<u32> {
    let [a, b, c, d] = value.to_le_bytes();
    let (submission, completion) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    if submission == u16::MAX || completion == u16::MAX {
        return None;
    }
    Some(u32::from(submission.min(completion)).saturating_add(1))
}

/// I/O Command Set Profile: the index of the combination (IOCSCI) that a value names (NVMe Base §5.27.1.21).
pub const fn command_set_combination(value: u32) -> u32 {
    value & 0x1ff
}

/// A keep alive timeout in milliseconds, rounded up to a controller's granularity in units of 100 ms (KAS); 0 stays 0.
pub fn round_keep_alive(kato: u32, granularity: u16) -> u32 {
    let unit = u64::from(granularity.max(1)).saturating_mul(100);
    wire::saturate(u64::from(kato).next_multiple_of(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let fields =
            FeatureCommand::decode(&SubmissionQueueEntry::new(0x0a, 0).with(10, 0x8000_0307).with(11, 5));
        assert_eq!(
            fields,
            FeatureCommand { fid: 7, select: Some(Select::Capabilities), save: true, value: 5 }
        );
        assert_eq!(queues(4), 0x0003_0003);
        assert_eq!(queue_count(0x0003_0007), Some(4));
        assert_eq!(queue_count(0xffff_0000), None);
        assert_eq!((command_set_combination(0xffff_fe00), command_set_combination(0x1ff)), (0, 511));
        let capabilities = FeatureCapabilities { changeable: true, namespace_specific: true };
        assert_eq!([FeatureCapabilities::CONTROLLER.dword(), capabilities.dword()], [4, 6]);
        assert!(HostIdentifierFormat(1).is_extended() && !HostIdentifierFormat(0xfffe).is_extended());
        assert_eq!(PowerManagement(0xffff_ffe3).power_state(), 3);
        let mask = ReservationNotificationMask(0b0100);
        assert_eq!(
            [Notice::Preempted, Notice::Released, Notice::Cleared].map(|notice| mask.masks(notice)),
            [false, true, false]
        );
        let rounded = [0, 1, 1000, 1001, u32::MAX].map(|kato| round_keep_alive(kato, 10));
        assert_eq!(rounded, [0, 1000, 1000, 2000, u32::MAX]);
    }
}
