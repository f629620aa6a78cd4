//! Command statuses (NVMe Base §4.2.3), and the two mappings between them and a volume's errors.

use core::fmt;

use volume::VolumeErrorKind;

use crate::opcode::CommandGroup;

/// Status code, status code type, retry delay, More and Do Not Retry: the status field without the phase tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

const DO_NOT_RETRY: u16 = 1 << 14;
const CODE_MASK: u16 = 0x07ff;

macro_rules! statuses {
    ($($name:ident = $value:literal: $text:literal;)*) => {
        impl Status {
            $(#[doc = concat!("The ", $text, " status.")] pub const $name: Self = Self($value);)*

            /// The status's name, if the standards have one.
            pub const fn name(self) -> Option<&'static str> {
                match self.code() {
                    $($value => Some($text),)*
                    other => further(other),
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0x000: "Successful Completion";
    INVALID_OPCODE = 0x001: "Invalid Command Opcode";
    INVALID_FIELD = 0x002: "Invalid Field in Command";
    COMMAND_ID_CONFLICT = 0x003: "Command ID Conflict";
    DATA_TRANSFER_ERROR = 0x004: "Data Transfer Error";
    INTERNAL_ERROR = 0x006: "Internal Error";
    ABORT_REQUESTED = 0x007: "Command Abort Requested";
    INVALID_NAMESPACE = 0x00b: "Invalid Namespace or Format";
    COMMAND_SEQUENCE = 0x00c: "Command Sequence Error";
    DATA_SGL_LENGTH_INVALID = 0x00f: "Data SGL Length Invalid";
    SGL_TYPE_INVALID = 0x011: "SGL Descriptor Type Invalid";
    SGL_OFFSET_INVALID = 0x016: "SGL Offset Invalid";
    HOST_ID_INCONSISTENT = 0x018: "Host Identifier Inconsistent Format";
    WRITE_PROTECTED = 0x020: "Namespace is Write Protected";
    COMMAND_INTERRUPTED = 0x021: "Command Interrupted";
    TRANSIENT_TRANSPORT = 0x022: "Transient Transport Error";
    LBA_OUT_OF_RANGE = 0x080: "LBA Out of Range";
    CAPACITY_EXCEEDED = 0x081: "Capacity Exceeded";
    NAMESPACE_NOT_READY = 0x082: "Namespace Not Ready";
    RESERVATION_CONFLICT = 0x083: "Reservation Conflict";
    INVALID_QUEUE = 0x101: "Invalid Queue Identifier";
    ABORT_LIMIT = 0x103: "Abort Command Limit Exceeded";
    ASYNC_EVENT_LIMIT = 0x105: "Asynchronous Event Request Limit Exceeded";
    INVALID_LOG_PAGE = 0x109: "Invalid Log Page";
    NOT_SAVEABLE = 0x10d: "Feature Identifier Not Saveable";
    NOT_CHANGEABLE = 0x10e: "Feature Not Changeable";
    CONNECT_FORMAT = 0x180: "Connect Incompatible Format";
    CONNECT_BUSY = 0x181: "Connect Controller Busy";
    CONNECT_INVALID = 0x182: "Connect Invalid Parameters";
    COMMAND_SET_COMBINATION = 0x12b: "I/O Command Set Combination Rejected";
    INVALID_COMMAND_SET = 0x12c: "Invalid I/O Command Set";
    COMMAND_SIZE_LIMIT = 0x183: "Command Size Limit Exceeded";
    CONNECT_HOST = 0x184: "Connect Invalid Host";
    WRITE_FAULT = 0x280: "Write Fault";
    UNRECOVERED_READ = 0x281: "Unrecovered Read Error";
    GUARD_CHECK = 0x282: "End-to-end Guard Check Error";
    COMPARE_FAILURE = 0x285: "Compare Failure";
}

/// Names of statuses that this crate never gives, for operators who read one in a log (NVMe Base §4.2.3, NVM Command Set §3.3).
const fn further(code: u16) -> Option<&'static str> {
    Some(match code {
        0x005 => "Commands Aborted due to Power Loss Notification",
        0x008 => "Command Aborted due to SQ Deletion",
        0x009 => "Command Aborted due to Failed Fused Command",
        0x00a => "Command Aborted due to Missing Fused Command",
        0x00d => "Invalid SGL Segment Descriptor",
        0x00e => "Invalid Number of SGL Descriptors",
        0x010 => "Metadata SGL Length Invalid",
        0x012 => "Invalid Use of Controller Memory Buffer",
        0x013 => "PRP Offset Invalid",
        0x014 => "Atomic Write Unit Exceeded",
        0x015 => "Operation Denied",
        0x019 => "Keep Alive Timer Expired",
        0x01a => "Keep Alive Timeout Invalid",
        0x01b => "Command Aborted due to Preempt and Abort",
        0x01c => "Sanitize Failed",
        0x01d => "Sanitize In Progress",
        0x01e => "SGL Data Block Granularity Invalid",
        0x01f => "Command Not Supported for Queue in CMB",
        0x023 => "Command Prohibited by Command and Feature Lockdown",
        0x024 => "Admin Command Media Not Ready",
        0x084 => "Format In Progress",
        0x100 => "Completion Queue Invalid",
        0x102 => "Invalid Queue Size",
        0x106 => "Invalid Firmware Slot",
        0x107 => "Invalid Firmware Image",
        0x108 => "Invalid Interrupt Vector",
        0x10a => "Invalid Format",
        0x10c => "Invalid Queue Deletion",
        0x10f => "Feature Not Namespace Specific",
        0x115 => "Namespace Insufficient Capacity",
        0x116 => "Namespace Identifier Unavailable",
        0x118 => "Namespace Already Attached",
        0x119 => "Namespace Is Private",
        0x11a => "Namespace Not Attached",
        0x11b => "Thin Provisioning Not Supported",
        0x11c => "Controller List Invalid",
        0x11d => "Device Self-test In Progress",
        0x11f => "Invalid Controller Identifier",
        0x122 => "Invalid Resource Identifier",
        0x185 => "Discovery Restart",
        0x186 => "Authentication Required",
        0x283 => "End-to-end Application Tag Check Error",
        0x284 => "End-to-end Reference Tag Check Error",
        0x286 => "Access Denied",
        0x287 => "Deallocated or Unwritten Logical Block",
        0x300 => "Internal Path Error",
        0x301 => "Asymmetric Access Persistent Loss",
        0x302 => "Asymmetric Access Inaccessible",
        0x303 => "Asymmetric Access Transition",
        0x360 => "Controller Pathing Error",
        0x370 => "Host Pathing Error",
        0x371 => "Command Aborted By Host",
        0x700..=0x7ff => "Vendor Specific",
        _ => return None,
    })
}

impl Status {
    /// The same status with Do Not Retry.
    #[must_use]
    pub const fn dnr(self) -> Self {
        Self(self.0 | DO_NOT_RETRY)
    }

    /// True when the command succeeded.
    pub const fn is_success(self) -> bool {
        self.code() == 0
    }

    /// True when retrying is pointless.
    pub const fn is_final(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// True when the command says nothing of the namespace: its data or answer did not come through, or the controller had no time for it. It
    /// is worth making again.
    pub(crate) fn is_transient(self) -> bool {
        let passing = [Self::COMMAND_INTERRUPTED, Self::TRANSIENT_TRANSPORT, Self::DATA_TRANSFER_ERROR];
        !self.is_final() && passing.contains(&Self(self.code()))
    }

    /// A status of this code alone.
    pub(crate) const fn from_code(code: u16) -> Self {
        Self(code)
    }

    /// Status code type and status code, as `0xTCC`.
    pub const fn code(self) -> u16 {
        self.0 & CODE_MASK
    }

    pub(crate) const fn to_wire(self) -> u16 {
        self.0 << 1
    }

    pub(crate) const fn from_wire(field: u16) -> Self {
        Self(field >> 1)
    }

    /// What a controller answers when a volume failed in a command of this group.
    pub const fn from_volume(kind: VolumeErrorKind, group: CommandGroup) -> Self {
        match kind {
            VolumeErrorKind::OutOfRange => Self::LBA_OUT_OF_RANGE.dnr(),
            VolumeErrorKind::Media if matches!(group, CommandGroup::Write) => Self::WRITE_FAULT,
            VolumeErrorKind::Media => Self::UNRECOVERED_READ,
            VolumeErrorKind::Protection => Self::GUARD_CHECK,
            VolumeErrorKind::NoSpace => Self::CAPACITY_EXCEEDED,
            VolumeErrorKind::ReadOnly => Self::WRITE_PROTECTED.dnr(),
            VolumeErrorKind::Misaligned => Self::INVALID_FIELD.dnr(),
            VolumeErrorKind::Unsupported => Self::INVALID_OPCODE.dnr(),
            VolumeErrorKind::Miscompare { .. } => Self::COMPARE_FAILURE.dnr(),
            VolumeErrorKind::Cancelled => Self::ABORT_REQUESTED,
            VolumeErrorKind::Busy => Self::COMMAND_INTERRUPTED,
            // It may still take effect: a host that made it again would not know which copy is the last.
            VolumeErrorKind::TimedOut => Self::COMMAND_INTERRUPTED.dnr(),
            VolumeErrorKind::Unreachable | VolumeErrorKind::ShuttingDown => Self::NAMESPACE_NOT_READY,
            VolumeErrorKind::ReservationConflict => Self::RESERVATION_CONFLICT.dnr(),
            _ => Self::INTERNAL_ERROR,
        }
    }

    /// What a host's volume answers when a command ended in this status. NVMe does not say where a
    /// comparison failed, so a miscompare names the first byte.
    pub fn to_volume(self) -> VolumeErrorKind {
        match Self(self.code()) {
            Self::LBA_OUT_OF_RANGE => VolumeErrorKind::OutOfRange,
            Self::CAPACITY_EXCEEDED => VolumeErrorKind::NoSpace,
            Self::WRITE_PROTECTED => VolumeErrorKind::ReadOnly,
            // Older Linux targets use the second for what their namespace's file cannot do (`NVME_SC_ONCS_NOT_SUPPORTED`).
            Self::INVALID_OPCODE | Self::COMMAND_SIZE_LIMIT => VolumeErrorKind::Unsupported,
            Self::INVALID_FIELD | Self::DATA_SGL_LENGTH_INVALID => VolumeErrorKind::Misaligned,
            Self::COMPARE_FAILURE => VolumeErrorKind::Miscompare { offset: 0 },
            Self::ABORT_REQUESTED => VolumeErrorKind::Cancelled,
            // Otherwise the host is asked to make the command again (NVM Express Base 2.0 §4.2.3.1).
            Self::COMMAND_INTERRUPTED if self.is_final() => VolumeErrorKind::TimedOut,
            _ if self.is_transient() => VolumeErrorKind::Busy,
            Self::NAMESPACE_NOT_READY | Self::INVALID_NAMESPACE => VolumeErrorKind::Unreachable,
            Self::RESERVATION_CONFLICT => VolumeErrorKind::ReservationConflict,
            Self::GUARD_CHECK => VolumeErrorKind::Protection,
            _ => VolumeErrorKind::Media,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:03x}h)", self.code()),
            None => write!(f, "a status without a name ({:03x}h)", self.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_the_standards_name() {
        use alloc::string::ToString;

        for (code, text) in [
            (0x182, "Connect Invalid Parameters (182h)"),
            (0x186, "Authentication Required (186h)"),
            (0x302, "Asymmetric Access Inaccessible (302h)"),
            (0x03f, "a status without a name (03fh)"),
        ] {
            assert_eq!(Status(code).dnr().to_string(), text);
        }
    }

    #[test]
    fn what_did_not_come_through_says_nothing_of_the_medium() {
        for status in [Status::TRANSIENT_TRANSPORT, Status::DATA_TRANSFER_ERROR, Status::COMMAND_INTERRUPTED]
        {
            assert_eq!(status.to_volume(), VolumeErrorKind::Busy, "{status}: it is made again");
        }
        assert_eq!(Status::DATA_TRANSFER_ERROR.dnr().to_volume(), VolumeErrorKind::Media);
    }

    #[test]
    fn volume_errors_survive_the_way_over_the_wire() {
        use VolumeErrorKind as Kind;
        let kept = [
            Kind::OutOfRange,
            Kind::Media,
            Kind::Protection,
            Kind::NoSpace,
            Kind::ReadOnly,
            Kind::Misaligned,
            Kind::Unsupported,
            Kind::Miscompare { offset: 0 },
            Kind::Cancelled,
            Kind::Busy,
            Kind::TimedOut,
            Kind::Unreachable,
            Kind::ReservationConflict,
        ];
        for kind in kept {
            for group in [CommandGroup::Read, CommandGroup::Write] {
                let status = Status::from_volume(kind, group);
                assert_eq!(Status::from_wire(status.to_wire()).to_volume(), kind, "{status}");
            }
        }
        let again = |kind| !Status::from_volume(kind, CommandGroup::Write).is_final();
        assert!(again(Kind::Busy) && !again(Kind::TimedOut), "only what was not carried out is made again");
    }
}
