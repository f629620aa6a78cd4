//! Ready To Transfer (RFC 7143 §11.8).

use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{DataRange, FINAL, Opcode, TaskTags, U24, basic_header};

/// The header of an R2T: the target asks for a piece of the write data.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[expect(clippy::struct_field_names, reason = "R2TSN is the standard's name")]
pub struct R2t {
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
    r2t_sn: U32,
    buffer_offset: U32,
    desired_data_transfer_length: U32,
}

basic_header!(R2t);

impl R2t {
    /// The `r2t_sn`-th R2T of a task, which asks for the data of `range`.
    pub fn new(lun: [u8; 8], tags: TaskTags, r2t_sn: u32, range: DataRange) -> Self {
        Self {
            opcode: Opcode::R2T.0,
            flags: FINAL,
            lun,
            initiator_task_tag: U32::new(tags.initiator),
            target_transfer_tag: U32::new(tags.target),
            r2t_sn: U32::new(r2t_sn),
            buffer_offset: U32::new(range.offset),
            desired_data_transfer_length: U32::new(range.length),
            ..Self::new_zeroed()
        }
    }

    /// The task.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// Target Transfer Tag, which the data must carry.
    pub fn transfer_tag(&self) -> u32 {
        self.target_transfer_tag.get()
    }

    /// Its number within the task.
    pub fn r2t_sn(&self) -> u32 {
        self.r2t_sn.get()
    }

    /// Where the piece begins.
    pub fn buffer_offset(&self) -> u32 {
        self.buffer_offset.get()
    }

    /// Bytes of the piece.
    pub fn length(&self) -> u32 {
        self.desired_data_transfer_length.get()
    }

    /// The piece.
    pub fn range(&self) -> DataRange {
        DataRange { offset: self.buffer_offset(), length: self.length() }
    }

    /// Whose data the piece is, and under which tag it is to come.
    pub fn tags(&self) -> TaskTags {
        TaskTags { initiator: self.task_tag(), target: self.transfer_tag() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn golden_vector() {
        let vector = golden::bytes(include_str!("r2t.hex"));
        let lun = [0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            R2t::new(
                lun,
                TaskTags { initiator: 0x1234, target: 0x55 },
                3,
                DataRange { offset: 0x10000, length: 0x40000 }
            )
            .to_bytes(),
            vector
        );
        let r2t = R2t::from_bytes(&vector);
        assert_eq!((r2t.task_tag(), r2t.transfer_tag(), r2t.r2t_sn()), (0x1234, 0x55, 3));
        assert_eq!((r2t.buffer_offset(), r2t.length()), (0x10000, 0x40000));
    }
}
