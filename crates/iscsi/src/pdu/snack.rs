//! SNACK Request (RFC 7143 §11.16). At ErrorRecoveryLevel 0 it is always rejected; the initiator never sends it.

use wire::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{U24, basic_header};

/// The header of a SNACK.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Snack {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    lun: [u8; 8],
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    reserved24: [u8; 4],
    exp_stat_sn: U32,
    reserved32: [u8; 8],
    beg_run: U32,
    run_length: U32,
}

basic_header!(Snack);

impl Snack {
    /// What is asked for: 0 data or R2T, 1 status, 2 acknowledges data, 3 R-Data.
    pub fn kind(&self) -> u8 {
        self.flags & 0x0f
    }

    /// The first number asked for (BegRun).
    pub fn beg_run(&self) -> u32 {
        self.beg_run.get()
    }

    /// How many numbers are asked for (RunLength).
    pub fn run_length(&self) -> u32 {
        self.run_length.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn golden_vector() {
        let snack = Snack::from_bytes(&golden::bytes(include_str!("snack.hex")));
        assert_eq!((snack.kind(), snack.beg_run(), snack.run_length()), (1, 5, 2));
    }
}
