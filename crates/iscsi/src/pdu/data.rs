//! SCSI Data-Out and Data-In (RFC 7143 §11.7).

use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::scsi_response::Residual;
use super::{FINAL, Opcode, RESERVED_TAG, U24, basic_header};

/// A part of a command's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataRange {
    /// Where it begins: Buffer Offset, in bytes from the command's first.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl DataRange {
    /// Where it ends; `None` beyond what an offset can say.
    pub fn end(self) -> Option<u32> {
        self.offset.checked_add(self.length)
    }
}

/// What names a transfer of write data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskTags {
    /// The task: Initiator Task Tag.
    pub initiator: u32,
    /// The R2T: Target Transfer Tag; [`RESERVED_TAG`] for unsolicited data.
    pub target: u32,
}

/// The header of a Data-Out: write data.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DataOut {
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
    reserved32: [u8; 4],
    data_sn: U32,
    buffer_offset: U32,
    reserved44: [u8; 4],
}

basic_header!(DataOut);

impl DataOut {
    /// One piece of a task's write data: the `data_sn`-th PDU of its sequence, which belongs at `range`.
    pub fn new(lun: [u8; 8], tags: TaskTags, data_sn: u32, range: DataRange) -> Self {
        Self {
            opcode: Opcode::DATA_OUT.0,
            flags: 0,
            data_segment_length: U24::new(range.length),
            lun,
            initiator_task_tag: U32::new(tags.initiator),
            target_transfer_tag: U32::new(tags.target),
            data_sn: U32::new(data_sn),
            buffer_offset: U32::new(range.offset),
            ..Self::new_zeroed()
        }
    }

    /// The same, as the last PDU of its sequence.
    #[must_use]
    pub fn ending(mut self) -> Self {
        self.flags = FINAL;
        self
    }

    /// The task.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// The R2T that this answers; [`RESERVED_TAG`] for unsolicited data.
    pub fn transfer_tag(&self) -> u32 {
        self.target_transfer_tag.get()
    }

    /// The task and the R2T.
    pub fn tags(&self) -> TaskTags {
        TaskTags { initiator: self.task_tag(), target: self.transfer_tag() }
    }

    /// Its number within its sequence.
    pub fn data_sn(&self) -> u32 {
        self.data_sn.get()
    }

    /// Where the data belongs.
    pub fn buffer_offset(&self) -> u32 {
        self.buffer_offset.get()
    }

    /// Bytes of data.
    pub fn length(&self) -> u32 {
        self.data_segment_length.get()
    }

    /// Where the data belongs, and how much it is.
    pub fn range(&self) -> DataRange {
        DataRange { offset: self.buffer_offset(), length: self.length() }
    }

    /// True for the last PDU of a sequence.
    pub fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }
}

/// The S bit of a Data-In: it carries the status too.
const STATUS: u8 = 0x01;

/// The header of a Data-In: read data, and perhaps the status.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DataIn {
    opcode: u8,
    flags: u8,
    reserved2: u8,
    status: u8,
    total_ahs_length: u8,
    data_segment_length: U24,
    lun: [u8; 8],
    initiator_task_tag: U32,
    target_transfer_tag: U32,
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    data_sn: U32,
    buffer_offset: U32,
    residual_count: U32,
}

basic_header!(DataIn);

/// What a Data-In PDU says that ends its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataStatus {
    /// The SCSI status.
    pub status: u8,
    /// What was not moved, or found no room.
    pub residual: Residual,
}

impl DataIn {
    /// One piece of a task's read data: its `data_sn`-th PDU, which belongs at `range`.
    pub fn new(task_tag: u32, data_sn: u32, range: DataRange) -> Self {
        Self {
            opcode: Opcode::DATA_IN.0,
            flags: 0,
            data_segment_length: U24::new(range.length),
            initiator_task_tag: U32::new(task_tag),
            target_transfer_tag: U32::new(RESERVED_TAG),
            data_sn: U32::new(data_sn),
            buffer_offset: U32::new(range.offset),
            ..Self::new_zeroed()
        }
    }

    /// The same, as the last PDU of its sequence.
    #[must_use]
    pub fn ending(mut self) -> Self {
        self.flags |= FINAL;
        self
    }

    /// The same, as the last PDU of the command, with its status (phase collapse).
    #[must_use]
    pub fn with_status(mut self, status: u8, residual: Residual) -> Self {
        self.flags |= FINAL | STATUS | residual.flags();
        self.status = status;
        self.residual_count = U32::new(residual.count());
        self
    }

    /// The task.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// Its number within the command.
    pub fn data_sn(&self) -> u32 {
        self.data_sn.get()
    }

    /// Where the data belongs.
    pub fn buffer_offset(&self) -> u32 {
        self.buffer_offset.get()
    }

    /// Bytes of data.
    pub fn length(&self) -> u32 {
        self.data_segment_length.get()
    }

    /// Where the data belongs, and how much it is.
    pub fn range(&self) -> DataRange {
        DataRange { offset: self.buffer_offset(), length: self.length() }
    }

    /// True for the last PDU of a sequence.
    pub fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// The status, if this PDU ends the command.
    pub fn status(&self) -> Option<DataStatus> {
        (self.flags & STATUS != 0).then(|| DataStatus {
            status: self.status,
            residual: Residual::read(self.flags, self.residual_count.get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn data_out_golden_vector() {
        let vector = golden::bytes(include_str!("data_out.hex"));
        let lun = [0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            DataOut::new(
                lun,
                TaskTags { initiator: 0x1234, target: 0x55 },
                2,
                DataRange { offset: 0x4000, length: 0x2000 }
            )
            .ending()
            .to_bytes(),
            vector
        );
        let header = DataOut::from_bytes(&vector);
        assert_eq!((header.task_tag(), header.transfer_tag(), header.data_sn()), (0x1234, 0x55, 2));
        assert_eq!((header.buffer_offset(), header.length(), header.is_final()), (0x4000, 0x2000, true));
    }

    #[test]
    fn data_in_golden_vector() {
        let vector = golden::bytes(include_str!("data_in.hex"));
        let header = DataIn::new(0x1234, 1, DataRange { offset: 0x2000, length: 0x200 })
            .with_status(0, Residual::Underflow(0x600));
        assert_eq!(header.to_bytes(), vector);
        let header = DataIn::from_bytes(&vector);
        assert_eq!((header.task_tag(), header.data_sn(), header.buffer_offset()), (0x1234, 1, 0x2000));
        assert_eq!((header.length(), header.is_final()), (0x200, true));
        assert_eq!(header.status(), Some(DataStatus { status: 0, residual: Residual::Underflow(0x600) }));
        assert_eq!(DataIn::new(1, 0, DataRange { offset: 0, length: 512 }).ending().status(), None);
    }
}
