//! NOP-Out and NOP-In (RFC 7143 §11.18, §11.19): pings both ways.

use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, IMMEDIATE, Opcode, RESERVED_TAG, U24, basic_header};

/// The header of a NOP-Out.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NopOut {
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

basic_header!(NopOut);

impl NopOut {
    /// An immediate ping that asks for an answer.
    pub fn ping(task_tag: u32) -> Self {
        Self {
            opcode: Opcode::NOP_OUT.0 | IMMEDIATE,
            flags: FINAL,
            initiator_task_tag: U32::new(task_tag),
            target_transfer_tag: U32::new(RESERVED_TAG),
            ..Self::new_zeroed()
        }
    }

    /// The answer to the target's ping.
    pub fn answer(ping: &NopIn) -> Self {
        let mut answer = Self::ping(RESERVED_TAG);
        answer.lun = ping.lun;
        answer.target_transfer_tag = ping.target_transfer_tag;
        answer
    }

    /// Initiator Task Tag; [`RESERVED_TAG`] when no answer is wanted.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// The ping that this answers; [`RESERVED_TAG`] for none.
    pub fn transfer_tag(&self) -> u32 {
        self.target_transfer_tag.get()
    }

    /// The I bit.
    pub fn immediate(&self) -> bool {
        self.opcode & IMMEDIATE != 0
    }
}

/// The header of a NOP-In.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NopIn {
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

basic_header!(NopIn);

impl NopIn {
    fn new(task_tag: u32, transfer_tag: u32) -> Self {
        Self {
            opcode: Opcode::NOP_IN.0,
            flags: FINAL,
            initiator_task_tag: U32::new(task_tag),
            target_transfer_tag: U32::new(transfer_tag),
            ..Self::new_zeroed()
        }
    }

    /// A ping that asks for an answer with `transfer_tag`.
    pub fn ping(transfer_tag: u32) -> Self {
        Self::new(RESERVED_TAG, transfer_tag)
    }

    /// The answer to the initiator's ping `task_tag`, with `length` bytes of its data.
    pub fn answer(task_tag: u32, length: u32) -> Self {
        let mut answer = Self::new(task_tag, RESERVED_TAG);
        answer.data_segment_length = U24::new(length);
        answer
    }

    /// Initiator Task Tag; [`RESERVED_TAG`] when this is the target's ping.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// Target Transfer Tag; [`RESERVED_TAG`] when no answer is wanted.
    pub fn transfer_tag(&self) -> u32 {
        self.target_transfer_tag.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn out_golden_vector() {
        let vector = golden::bytes(include_str!("nop_out.hex"));
        assert_eq!(NopOut::answer(&NopIn::ping(0x77)).to_bytes(), vector);
        let nop = NopOut::from_bytes(&vector);
        assert_eq!((nop.task_tag(), nop.transfer_tag(), nop.immediate()), (RESERVED_TAG, 0x77, true));
    }

    #[test]
    fn in_golden_vector() {
        let vector = golden::bytes(include_str!("nop_in.hex"));
        assert_eq!(NopIn::answer(0x42, 5).to_bytes(), vector);
        let nop = NopIn::from_bytes(&vector);
        assert_eq!((nop.task_tag(), nop.transfer_tag()), (0x42, RESERVED_TAG));
    }
}
