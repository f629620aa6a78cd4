//! SCSI Command (RFC 7143 §11.3) and its additional header segments (§11.2.2).

use scsi::TaskAttribute;
use wire::Reader;
use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, Opcode, U24, basic_header};

const READ: u8 = 0x40;
const WRITE: u8 = 0x20;

/// The header of a SCSI Command.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ScsiCommand {
    opcode: u8,
    flags: u8,
    reserved2: [u8; 2],
    total_ahs_length: u8,
    data_segment_length: U24,
    /// The logical unit.
    pub lun: [u8; 8],
    initiator_task_tag: U32,
    expected_data_transfer_length: U32,
    cmd_sn: U32,
    exp_stat_sn: U32,
    /// The first 16 bytes of the CDB.
    pub cdb: [u8; 16],
}

basic_header!(ScsiCommand);

impl ScsiCommand {
    /// A simple task without data; the F bit is set.
    pub fn new(lun: [u8; 8], task_tag: u32, cmd_sn: u32, cdb: [u8; 16]) -> Self {
        Self {
            opcode: Opcode::SCSI_COMMAND.0,
            flags: FINAL | 1,
            lun,
            initiator_task_tag: U32::new(task_tag),
            cmd_sn: U32::new(cmd_sn),
            cdb,
            ..Self::new_zeroed()
        }
    }

    /// The same, reading up to `length` bytes.
    #[must_use]
    pub fn reading(mut self, length: u32) -> Self {
        self.flags |= READ;
        self.expected_data_transfer_length = U32::new(length);
        self
    }

    /// The same, writing `length` bytes, of which `immediate` follow in this PDU.
    #[must_use]
    pub fn writing(mut self, length: u32, immediate: u32) -> Self {
        self.flags |= WRITE;
        self.expected_data_transfer_length = U32::new(length);
        self.data_segment_length = U24::new(immediate);
        self
    }

    /// The same, with unsolicited Data-Outs that follow: without the F bit.
    #[must_use]
    pub fn with_unsolicited(mut self) -> Self {
        self.flags &= !FINAL;
        self
    }

    /// The F bit: no unsolicited Data-Out follows.
    pub fn is_final(&self) -> bool {
        self.flags & FINAL != 0
    }

    /// The R bit.
    pub fn reads(&self) -> bool {
        self.flags & READ != 0
    }

    /// The W bit.
    pub fn writes(&self) -> bool {
        self.flags & WRITE != 0
    }

    /// The task attribute (RFC 7143 §11.3.1); what is reserved counts as simple.
    pub fn attribute(&self) -> TaskAttribute {
        match self.flags & 7 {
            2 => TaskAttribute::Ordered,
            3 => TaskAttribute::HeadOfQueue,
            4 => TaskAttribute::Aca,
            _ => TaskAttribute::Simple,
        }
    }

    /// The task.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// Bytes that the initiator expects to move.
    pub fn expected_length(&self) -> u32 {
        self.expected_data_transfer_length.get()
    }

    /// Bytes of immediate data.
    pub fn data_length(&self) -> u32 {
        self.data_segment_length.get()
    }

    /// CmdSN.
    pub fn cmd_sn(&self) -> u32 {
        self.cmd_sn.get()
    }
}

/// One additional header segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahs<'a> {
    /// The rest of a CDB that is longer than 16 bytes (RFC 7143 §11.2.2.3).
    ExtendedCdb(&'a [u8]),
    /// How much a bidirectional command reads (RFC 7143 §11.2.2.4).
    BidirectionalReadLength(u32),
    /// Another type, passed over.
    Unknown(u8),
}

impl<'a> Ahs<'a> {
    /// The next segment; `None` at the end, or when what follows is no whole segment.
    pub fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let length = usize::from(reader.u16_be().ok()?);
        let kind = reader.u8().ok()? & 0x3f;
        // The first byte of the specific part is reserved in both known types and counted in the length.
        let mut specific = reader.sub(length).ok()?;
        let _ = reader.skip(super::padding(length.saturating_add(3)));
        specific.skip(1).ok()?;
        Some(match kind {
            1 => Self::ExtendedCdb(specific.rest()),
            2 => Self::BidirectionalReadLength(specific.u32_be().ok()?),
            other => Self::Unknown(other),
        })
    }
}

/// The rest of the CDB, when one of the additional header segments has it.
pub fn extended_cdb(ahs: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(ahs);
    core::iter::from_fn(|| Ahs::read(&mut reader)).find_map(|segment| match segment {
        Ahs::ExtendedCdb(rest) => Some(rest),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    const LUN: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
    const CDB: [u8; 16] = [0x2a, 0, 0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn golden_vector() {
        let vector = golden::bytes(include_str!("scsi_command.hex"));
        let command = ScsiCommand::new(LUN, 0x1234, 0x0a, CDB).writing(4096, 512).with_unsolicited();
        assert_eq!(command.to_bytes(), vector);
        let command = ScsiCommand::from_bytes(&vector);
        assert_eq!(
            (command.task_tag(), command.expected_length(), command.data_length()),
            (0x1234, 4096, 512)
        );
        assert!(command.writes() && !command.reads() && !command.is_final());
        assert_eq!((command.cmd_sn(), command.attribute()), (0x0a, TaskAttribute::Simple));
    }

    #[test]
    fn additional_segments_are_walked_within_their_bounds() {
        let bytes = [0, 5, 2, 0, 0, 0, 0x10, 0, 0, 0, 0, 0];
        assert_eq!(Ahs::read(&mut Reader::new(&bytes)), Some(Ahs::BidirectionalReadLength(0x1000)));
        let bytes = [0, 17, 1, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
        assert_eq!(extended_cdb(&bytes), Some(&[9; 16][..]));
        assert_eq!(extended_cdb(&[0xff; 8]), None, "a length beyond the end");
        assert_eq!(extended_cdb(&[0; 8]), None, "no room for the reserved byte");
    }
}
