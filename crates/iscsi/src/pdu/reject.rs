//! Reject (RFC 7143 §11.17).

use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, Opcode, RESERVED_TAG, U24, basic_header};

/// Why a PDU was rejected (RFC 7143 §11.17.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u8);

impl Reason {
    /// The data digest does not match.
    pub const DATA_DIGEST: Self = Self(0x02);
    /// A SNACK was refused.
    pub const SNACK: Self = Self(0x03);
    /// The PDU breaks the protocol.
    pub const PROTOCOL_ERROR: Self = Self(0x04);
    /// The command is not supported.
    pub const COMMAND_NOT_SUPPORTED: Self = Self(0x05);
    /// Too many immediate commands.
    pub const IMMEDIATE: Self = Self(0x06);
    /// The task is in progress.
    pub const TASK_IN_PROGRESS: Self = Self(0x07);
    /// A field of the PDU is not legal here.
    pub const INVALID_FIELD: Self = Self(0x09);
    /// There is no room for a long operation.
    pub const LONG_OPERATION: Self = Self(0x0a);
    /// The negotiation is reset.
    pub const NEGOTIATION_RESET: Self = Self(0x0b);
    /// The target waits for a logout.
    pub const WAITING_FOR_LOGOUT: Self = Self(0x0c);
}

/// The header of a Reject; the rejected header is its data segment.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Reject {
    opcode: u8,
    flags: u8,
    reason: u8,
    reserved3: u8,
    total_ahs_length: u8,
    data_segment_length: U24,
    reserved8: [u8; 8],
    reserved16: U32,
    reserved20: [u8; 4],
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    data_sn: U32,
    reserved40: [u8; 8],
}

basic_header!(Reject);

impl Reject {
    /// A rejection of a PDU whose header, 48 bytes, follows as data.
    pub fn new(reason: Reason) -> Self {
        Self {
            opcode: Opcode::REJECT.0,
            flags: FINAL,
            reason: reason.0,
            data_segment_length: U24::new(48),
            reserved16: U32::new(RESERVED_TAG),
            ..Self::new_zeroed()
        }
    }

    /// Why.
    pub fn reason(&self) -> Reason {
        Reason(self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn golden_vector() {
        let vector = golden::bytes(include_str!("reject.hex"));
        assert_eq!(Reject::new(Reason::PROTOCOL_ERROR).to_bytes(), vector);
        assert_eq!(Reject::from_bytes(&vector).reason(), Reason::PROTOCOL_ERROR);
    }
}
