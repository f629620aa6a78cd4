//! Sense data: why a command did not succeed (SPC-4 §4.5).

use crate::reply::{Reply, Sense, Status};
use buf::BufList;

/// A sense key (SPC-4 table 48).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing to say.
    NoSense = 0x0,
    /// Cannot be used now.
    NotReady = 0x2,
    /// The medium failed.
    MediumError = 0x3,
    /// The device failed.
    HardwareError = 0x4,
    /// The command or its parameters are wrong.
    IllegalRequest = 0x5,
    /// Something changed.
    UnitAttention = 0x6,
    /// The medium is write-protected.
    DataProtect = 0x7,
    /// The device ended the command.
    AbortedCommand = 0xb,
    /// Data differs.
    Miscompare = 0xe,
}

impl SenseKey {
    /// The key of a number from the wire, as far as this crate knows it.
    pub fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0x0 => Self::NoSense,
            0x2 => Self::NotReady,
            0x3 => Self::MediumError,
            0x4 => Self::HardwareError,
            0x5 => Self::IllegalRequest,
            0x6 => Self::UnitAttention,
            0x7 => Self::DataProtect,
            0xb => Self::AbortedCommand,
            0xe => Self::Miscompare,
            _ => return None,
        })
    }
}

/// An additional sense code and its qualifier (SPC-4 annex F).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Additional(pub u8, pub u8);

impl Additional {
    /// Nothing more to say.
    pub const NONE: Self = Self(0x00, 0x00);
    /// LOGICAL UNIT COMMUNICATION FAILURE.
    pub const COMMUNICATION_FAILURE: Self = Self(0x08, 0x00);
    /// WRITE ERROR.
    pub const WRITE_ERROR: Self = Self(0x0c, 0x00);
    /// INVALID FIELD IN COMMAND INFORMATION UNIT.
    pub const INVALID_INFORMATION_UNIT: Self = Self(0x0e, 0x03);
    /// LOGICAL BLOCK GUARD CHECK FAILED.
    pub const GUARD_CHECK: Self = Self(0x10, 0x01);
    /// UNRECOVERED READ ERROR.
    pub const READ_ERROR: Self = Self(0x11, 0x00);
    /// PARAMETER LIST LENGTH ERROR.
    pub const PARAMETER_LIST_LENGTH: Self = Self(0x1a, 0x00);
    /// MISCOMPARE DURING VERIFY OPERATION.
    pub const MISCOMPARE: Self = Self(0x1d, 0x00);
    /// INVALID COMMAND OPERATION CODE.
    pub const INVALID_OPCODE: Self = Self(0x20, 0x00);
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub const OUT_OF_RANGE: Self = Self(0x21, 0x00);
    /// INVALID FIELD IN CDB.
    pub const INVALID_CDB_FIELD: Self = Self(0x24, 0x00);
    /// LOGICAL UNIT NOT SUPPORTED.
    pub const UNIT_NOT_SUPPORTED: Self = Self(0x25, 0x00);
    /// INVALID FIELD IN PARAMETER LIST.
    pub const INVALID_PARAMETER: Self = Self(0x26, 0x00);
    /// INVALID RELEASE OF PERSISTENT RESERVATION.
    pub const INVALID_RELEASE: Self = Self(0x26, 0x04);
    /// WRITE PROTECTED.
    pub const WRITE_PROTECTED: Self = Self(0x27, 0x00);
    /// SPACE ALLOCATION FAILED WRITE PROTECT.
    pub const NO_SPACE: Self = Self(0x27, 0x07);
    /// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED.
    pub const POWER_ON: Self = Self(0x29, 0x00);
    /// BUS DEVICE RESET FUNCTION OCCURRED: a logical unit reset.
    pub const DEVICE_RESET: Self = Self(0x29, 0x03);
    /// MODE PARAMETERS CHANGED.
    pub const MODE_CHANGED: Self = Self(0x2a, 0x01);
    /// RESERVATIONS PREEMPTED.
    pub const RESERVATIONS_PREEMPTED: Self = Self(0x2a, 0x03);
    /// RESERVATIONS RELEASED.
    pub const RESERVATIONS_RELEASED: Self = Self(0x2a, 0x04);
    /// REGISTRATIONS PREEMPTED.
    pub const REGISTRATIONS_PREEMPTED: Self = Self(0x2a, 0x05);
    /// CAPACITY DATA HAS CHANGED.
    pub const CAPACITY_CHANGED: Self = Self(0x2a, 0x09);
    /// COMMANDS CLEARED BY ANOTHER INITIATOR.
    pub const COMMANDS_CLEARED: Self = Self(0x2f, 0x00);
    /// REPORTED LUNS DATA HAS CHANGED.
    pub const REPORTED_LUNS_CHANGED: Self = Self(0x3f, 0x0e);
    /// INTERNAL TARGET FAILURE.
    pub const INTERNAL_FAILURE: Self = Self(0x44, 0x00);
    /// INITIATOR RESPONSE TIMEOUT.
    pub const INITIATOR_TIMEOUT: Self = Self(0x4b, 0x06);
    /// INSUFFICIENT REGISTRATION RESOURCES.
    pub const NO_REGISTRATIONS: Self = Self(0x55, 0x04);
}

/// Where a wrong field stands (SPC-4 §4.5.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldPointer {
    /// In the CDB, or else in the parameter list.
    pub(crate) in_cdb: bool,
    /// Its first byte.
    pub(crate) byte: u16,
}

/// A CHECK CONDITION to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) key: SenseKey,
    pub(crate) code: Additional,
    /// The INFORMATION field.
    pub(crate) information: Option<u64>,
    pub(crate) field: Option<FieldPointer>,
}

/// The two formats of sense data (SPC-4 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenseFormat {
    /// Fixed format.
    Fixed,
    /// Descriptor format.
    Descriptor,
}

impl SenseFormat {
    /// The format that a bit selects: D_SENSE of the control mode page, DESC of REQUEST SENSE.
    pub(crate) const fn selected(bit: bool) -> Self {
        if bit { Self::Descriptor } else { Self::Fixed }
    }
}

impl Check {
    pub(crate) const fn new(key: SenseKey, code: Additional) -> Self {
        Self { key, code, information: None, field: None }
    }

    /// The command is wrong, in a way that the code says.
    pub(crate) const fn illegal(code: Additional) -> Self {
        Self::new(SenseKey::IllegalRequest, code)
    }

    /// The CDB's byte `byte` is wrong.
    pub(crate) const fn cdb_field(byte: u16) -> Self {
        let field = Some(FieldPointer { in_cdb: true, byte });
        Self { field, ..Self::illegal(Additional::INVALID_CDB_FIELD) }
    }

    /// The parameter list's byte `byte` is wrong.
    pub(crate) const fn parameter(byte: u16) -> Self {
        let field = Some(FieldPointer { in_cdb: false, byte });
        Self { field, ..Self::illegal(Additional::INVALID_PARAMETER) }
    }

    /// A unit attention.
    pub(crate) const fn attention(code: Additional) -> Self {
        Self::new(SenseKey::UnitAttention, code)
    }

    /// The sense data in a format.
    pub(crate) fn sense(&self, format: SenseFormat) -> Sense {
        match format {
            SenseFormat::Descriptor => self.descriptor_format(),
            SenseFormat::Fixed => self.fixed_format(),
        }
    }

    /// The reply that ends a command with this.
    pub(crate) fn reply(&self, format: SenseFormat) -> Reply {
        let sense = self.sense(format);
        Reply { status: Status::CheckCondition, sense, data: BufList::new(), full_length: 0 }
    }

    fn key_specific(&self) -> [u8; 3] {
        let Some(field) = self.field else { return [0; 3] };
        let [high, low] = field.byte.to_be_bytes();
        [if field.in_cdb { 0xc0 } else { 0x80 }, high, low]
    }

    /// SPC-4 §4.5.3.
    fn fixed_format(&self) -> Sense {
        let mut bytes = [0; 18];
        let information = self.information.and_then(|number| u32::try_from(number).ok());
        bytes[0] = if information.is_some() { 0xf0 } else { 0x70 };
        bytes[2] = self.key as u8;
        bytes[3..7].copy_from_slice(&information.unwrap_or(0).to_be_bytes());
        bytes[7] = 10;
        bytes[12] = self.code.0;
        bytes[13] = self.code.1;
        bytes[15..18].copy_from_slice(&self.key_specific());
        Sense::of(&bytes)
    }

    /// SPC-4 §4.5.2.
    fn descriptor_format(&self) -> Sense {
        let mut bytes = [0; 28];
        let mut length = 8_usize;
        bytes[0] = 0x72;
        bytes[1] = self.key as u8;
        bytes[2] = self.code.0;
        bytes[3] = self.code.1;
        if let Some(information) = self.information {
            bytes[8..12].copy_from_slice(&[0x00, 0x0a, 0x80, 0]);
            bytes[12..20].copy_from_slice(&information.to_be_bytes());
            length = 20;
        }
        if self.field.is_some() {
            let [a, b, c] = self.key_specific();
            if let Some(place) = bytes.get_mut(length..length.saturating_add(8)) {
                place.copy_from_slice(&[0x02, 0x06, 0, 0, a, b, c, 0]);
                length = length.saturating_add(8);
            }
        }
        bytes[7] = u8::try_from(length.saturating_sub(8)).unwrap_or(0);
        Sense::of(bytes.get(..length).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let check = Check::cdb_field(2);
        assert_eq!(
            check.sense(SenseFormat::Fixed).bytes(),
            [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xc0, 0, 2]
        );
        assert_eq!(
            check.sense(SenseFormat::Descriptor).bytes(),
            [0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xc0, 0, 2, 0]
        );
        let miscompare =
            Check { information: Some(513), ..Check::new(SenseKey::Miscompare, Additional::MISCOMPARE) };
        assert_eq!(
            miscompare.sense(SenseFormat::Fixed).bytes(),
            [0xf0, 0, 0xe, 0, 0, 2, 1, 10, 0, 0, 0, 0, 0x1d, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            miscompare.sense(SenseFormat::Descriptor).bytes(),
            [0x72, 0xe, 0x1d, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 1]
        );
    }
}
