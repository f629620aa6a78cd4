//! SCSI Response (RFC 7143 §11.4).

use scsi::Sense;
use wire::big_endian::U32;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FINAL, Opcode, U24, basic_header};

const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

/// How the bytes moved compare with the bytes expected (RFC 7143 §11.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// As expected.
    None,
    /// This many bytes did not move because the initiator did not expect them.
    Overflow(u32),
    /// This many expected bytes did not move.
    Underflow(u32),
}

impl Residual {
    /// What follows when `expected` bytes were announced and the command has `full` bytes.
    pub fn between(expected: u32, full: u64) -> Self {
        let expected = u64::from(expected);
        let count = wire::saturate::<u32>(full.abs_diff(expected));
        match full.cmp(&expected) {
            core::cmp::Ordering::Equal => Self::None,
            core::cmp::Ordering::Greater => Self::Overflow(count),
            core::cmp::Ordering::Less => Self::Underflow(count),
        }
    }

    pub(super) fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Overflow(_) => OVERFLOW,
            Self::Underflow(_) => UNDERFLOW,
        }
    }

    /// The count.
    pub fn count(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Overflow(count) | Self::Underflow(count) => count,
        }
    }

    pub(super) fn read(flags: u8, count: u32) -> Self {
        match (flags & OVERFLOW != 0, flags & UNDERFLOW != 0) {
            (true, false) => Self::Overflow(count),
            (false, true) => Self::Underflow(count),
            _ => Self::None,
        }
    }
}

/// The header of a SCSI Response; sense data, behind its length in two bytes, is its data segment.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ScsiResponse {
    opcode: u8,
    flags: u8,
    response: u8,
    status: u8,
    total_ahs_length: u8,
    data_segment_length: U24,
    reserved8: [u8; 8],
    initiator_task_tag: U32,
    snack_tag: U32,
    stat_sn: U32,
    exp_cmd_sn: U32,
    max_cmd_sn: U32,
    exp_data_sn: U32,
    bidirectional_residual: U32,
    residual_count: U32,
}

basic_header!(ScsiResponse);

impl ScsiResponse {
    /// The command completed at the target with `status`. `sequence` PDUs (Data-In or R2T) were sent for it.
    pub fn new(task_tag: u32, status: u8, residual: Residual, sequence: u32) -> Self {
        Self {
            opcode: Opcode::SCSI_RESPONSE.0,
            flags: FINAL | residual.flags(),
            response: 0,
            status,
            initiator_task_tag: U32::new(task_tag),
            exp_data_sn: U32::new(sequence),
            residual_count: U32::new(residual.count()),
            ..Self::new_zeroed()
        }
    }

    /// The task.
    pub fn task_tag(&self) -> u32 {
        self.initiator_task_tag.get()
    }

    /// The SCSI status; `None` when the target failed to deliver the command (RFC 7143 §11.4.3).
    pub fn status(&self) -> Option<u8> {
        (self.response == 0).then_some(self.status)
    }

    /// The residual.
    pub fn residual(&self) -> Residual {
        Residual::read(self.flags, self.residual_count.get())
    }
}

/// A SCSI Response's data segment: the sense data behind its length (RFC 7143 §11.4.7).
pub(crate) struct SenseSegment {
    bytes: [u8; 2 + Sense::MAX],
    len: usize,
}

impl SenseSegment {
    /// The segment of this sense data; empty without any.
    pub(crate) fn new(sense: &Sense) -> Self {
        let mut bytes = [0; 2 + Sense::MAX];
        let sense = sense.bytes();
        if sense.is_empty() {
            return Self { bytes, len: 0 };
        }
        let mut writer = wire::Writer::new(&mut bytes);
        let length = u16::try_from(sense.len()).unwrap_or(0);
        let written = writer.u16_be(length).and_then(|()| writer.put(sense));
        let len = if written.is_ok() { writer.written() } else { 0 };
        Self { bytes, len }
    }

    /// The segment's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::golden;

    #[test]
    fn golden_vector() {
        let vector = golden::bytes(include_str!("scsi_response.hex"));
        assert_eq!(ScsiResponse::new(0x1234, 2, Residual::Overflow(0x200), 3).to_bytes(), vector);
        let response = ScsiResponse::from_bytes(&vector);
        assert_eq!((response.task_tag(), response.status()), (0x1234, Some(2)));
        assert_eq!(response.residual(), Residual::Overflow(0x200));
    }

    #[test]
    fn residuals_follow_the_expected_length() {
        assert_eq!(Residual::between(512, 512), Residual::None);
        assert_eq!(Residual::between(512, 1024), Residual::Overflow(512));
        assert_eq!(Residual::between(1024, 512), Residual::Underflow(512));
        assert_eq!(Residual::between(0, u64::MAX), Residual::Overflow(u32::MAX));
    }
}
