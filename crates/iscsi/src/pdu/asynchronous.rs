//! Asynchronous Message (RFC 7143 §11.9).

use wire::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, Opcode, RESERVED_TAG, U24, basic_header};

/// What happened (RFC 7143 §11.9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent(pub u8);

impl AsyncEvent {
    /// A SCSI asynchronous event, with sense data.
    pub const SCSI: Self = Self(0);
    /// The target asks for a logout within Parameter3 seconds.
    pub const LOGOUT_REQUESTED: Self = Self(1);
    /// The target will drop this connection.
    pub const CONNECTION_DROPPED: Self = Self(2);
    /// The target will drop the session.
    pub const SESSION_DROPPED: Self = Self(3);
    /// The target asks for a negotiation.
    pub const NEGOTIATION_REQUESTED: Self = Self(4);
}

/// The header of an Asynchronous Message.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AsyncMessage {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    lun: [u8; 8],
    reserved16: U32,
    reserved20: [u8; 4],
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    async_event: u8,
    async_vcode: u8,
    parameter1: U16,
    parameter2: U16,
    parameter3: U16,
    reserved44: [u8; 4],
}

basic_header!(AsyncMessage);

impl AsyncMessage {
    /// The target asks for a logout within `seconds`.
    pub fn logout_requested(seconds: u16) -> Self {
        Self {
            opcode: Opcode::ASYNC_MESSAGE.0,
            flags: FINAL,
            reserved16: U32::new(RESERVED_TAG),
            async_event: AsyncEvent::LOGOUT_REQUESTED.0,
            parameter3: U16::new(seconds),
            ..Self::new_zeroed()
        }
    }

    /// What happened.
    pub fn event(&self) -> AsyncEvent {
        AsyncEvent(self.async_event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn golden_vector() {
        let vector = golden::bytes(include_str!("asynchronous.hex"));
        assert_eq!(AsyncMessage::logout_requested(3).to_bytes(), vector);
        assert_eq!(AsyncMessage::from_bytes(&vector).event(), AsyncEvent::LOGOUT_REQUESTED);
    }
}
