//! Text Request and Text Response (RFC 7143 §11.10, §11.11).

use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, IMMEDIATE, Opcode, RESERVED_TAG, U24, basic_header};

const CONTINUE: u8 = 0x40;

/// The header of a Text Request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TextRequest {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    lun: [u8; 8],
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    cmd_sn: U32,
    exp_stat_sn: U32,
    reserved32: [u8; 16],
}

basic_header!(TextRequest);

impl TextRequest {
    /// An immediate request that says all it has to say; `transfer_tag` continues an exchange.
    pub fn new(task_tag: u32, transfer_tag: u32) -> Self {
        Self {
            opcode: Opcode::TEXT_REQUEST.0 | IMMEDIATE,
            flags: FINAL,
            initiator_task_tag: U32::new(task_tag),
            target_transfer_tag: U32::new(transfer_tag),
            ..Self::new_zeroed()
        }
    }

    /// The F bit: the initiator is done if the target is.
    pub fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// The C bit: more text follows in another request.
    pub fn continues(&self) -> bool {
        self.flags & CONTINUE != 0
    }

    /// The exchange's tag.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// Target Transfer Tag of an exchange that goes on; [`RESERVED_TAG`] starts anew.
    pub fn transfer_tag(&self) -> u32 {
        self.target_transfer_tag.get()
    }
}

/// The header of a Text Response.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TextResponse {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    lun: [u8; 8],
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    reserved36: [u8; 12],
}

basic_header!(TextResponse);

impl TextResponse {
    /// The last response of the exchange `task_tag`.
    pub fn last(task_tag: u32) -> Self {
        Self {
            opcode: Opcode::TEXT_RESPONSE.0,
            flags: FINAL,
            initiator_task_tag: U32::new(task_tag),
            target_transfer_tag: U32::new(RESERVED_TAG),
            ..Self::new_zeroed()
        }
    }

    /// A response after which the initiator goes on with `transfer_tag`.
    pub fn partial(task_tag: u32, transfer_tag: u32) -> Self {
        let mut response = Self::last(task_tag);
        response.flags = 0;
        response.target_transfer_tag = U32::new(transfer_tag);
        response
    }

    /// The same, with more text to come: keys may be cut off here.
    #[must_use]
    pub fn continuing(mut self) -> Self {
        self.flags |= CONTINUE;
        self
    }

    /// The F bit: the exchange is over.
    pub fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// The exchange's tag.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// Target Transfer Tag, to continue with.
    pub fn transfer_tag(&self) -> u32 {
        self.target_transfer_tag.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn request_golden_vector() {
        let vector = golden::bytes(include_str!("text_request.hex"));
        assert_eq!(TextRequest::new(0x31, RESERVED_TAG).to_bytes(), vector);
        let request = TextRequest::from_bytes(&vector);
        assert_eq!((request.task_tag(), request.transfer_tag()), (0x31, RESERVED_TAG));
        assert!(request.is_final() && !request.continues());
    }

    #[test]
    fn response_golden_vector() {
        let vector = golden::bytes(include_str!("text_response.hex"));
        assert_eq!(TextResponse::partial(0x31, 0x66).continuing().to_bytes(), vector);
        let response = TextResponse::from_bytes(&vector);
        assert_eq!((response.task_tag(), response.transfer_tag(), response.is_final()), (0x31, 0x66, false));
    }
}
