//! The Terminate message: why a stream ends, and the header that was the reason (RFC 5040 §4.8).

use alloc::vec::Vec;

use wire::Reader;
use wire::big_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use crate::ddp::{Control, Segment, TAGGED, UNTAGGED, Untagged};
use crate::rdmap::{Opcode, READ_REQUEST, TERMINATE_QUEUE};
use crate::violation::ErrorCode;

/// The segment that was the reason: its length, and as much of its headers as had come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offender {
    length: u16,
    ddp: Vec<u8>,
    rdmap: Vec<u8>,
}

impl Offender {
    /// The segment of `length` bytes that begins with `header`.
    pub(crate) fn new(length: usize, header: &[u8]) -> Self {
        let header = header.get(..length).unwrap_or(header);
        let control = Control::read_from_prefix(header).map(|(control, _)| control).ok();
        let ddp = if control.is_some_and(Control::is_tagged) { TAGGED } else { UNTAGGED };
        let (ddp, rest) = header.split_at_checked(ddp).unwrap_or((&[], &[]));
        let is_request = control.is_some_and(|control| control.opcode() == Opcode::READ_REQUEST);
        let rdmap = rest.get(..READ_REQUEST).filter(|_| is_request && ddp.len() == UNTAGGED);
        let length = wire::bounded::<u16>(length);
        Self { length, ddp: ddp.to_vec(), rdmap: rdmap.unwrap_or_default().to_vec() }
    }
}

/// The parts that a Terminate has behind its error (HdrCt).
const HAS_LENGTH: u8 = 1 << 7;
const HAS_DDP: u8 = 1 << 6;
const HAS_RDMAP: u8 = 1 << 5;

/// The ULPDU of the Terminate, of which a stream has at most one in each direction.
pub(crate) fn encode(error: ErrorCode, offender: Option<&Offender>) -> Vec<u8> {
    let header = Untagged {
        control: Control::new(Opcode::TERMINATE, Segment::Last),
        invalidate: U32::ZERO,
        queue: U32::new(TERMINATE_QUEUE),
        sequence: U32::new(1),
        offset: U32::ZERO,
    };
    let mut bytes = header.as_bytes().to_vec();
    let offender = offender.filter(|offender| !error.is_of_stream() && !offender.ddp.is_empty());
    let parts = match offender {
        None => 0,
        Some(offender) if offender.rdmap.is_empty() => HAS_LENGTH | HAS_DDP,
        Some(_) => HAS_LENGTH | HAS_DDP | HAS_RDMAP,
    };
    bytes.extend([(error.layer << 4) | error.kind, error.code, parts, 0]);
    if let Some(Offender { length, ddp, rdmap }) = offender {
        bytes.extend(length.to_be_bytes());
        bytes.extend(ddp);
        bytes.extend(rdmap);
    }
    bytes
}

/// A Terminate that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminate {
    /// Why.
    pub error: ErrorCode,
    /// The number of the RDMA Read Request that was the reason, if one was and the peer says which.
    pub read: Option<u32>,
}

/// What a message behind its DDP header says; nothing if it is too short for that.
pub fn decode(message: &[u8]) -> Option<Terminate> {
    let mut reader = Reader::new(message);
    let [layer_kind, code, parts, _] = reader.array().ok()?;
    let error = ErrorCode { layer: layer_kind >> 4, kind: layer_kind & 0b1111, code };
    let mut read = None;
    if parts & HAS_LENGTH != 0 && parts & HAS_DDP != 0 && reader.skip(2).is_ok() {
        let header = Untagged::read_from_prefix(reader.rest()).map(|(header, _)| header);
        let header = header.ok().filter(|header| !header.control.is_tagged());
        read = header
            .filter(|header| header.control.opcode() == Opcode::READ_REQUEST)
            .map(|header| header.sequence.get());
    }
    Some(Terminate { error, read })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use crate::violation::Violation;

    const HEADER: [u8; 18] = [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0];

    #[test]
    fn golden_vector_with_a_read_request() {
        let request = [[0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0].as_slice(), &[9; 28]];
        let request = request.concat();
        let offender = Offender::new(46, &request);
        let bytes = encode(Violation::ReadRights.error_code(), Some(&offender));
        let expected = [&HEADER[..], &[0x01, 0x02, 0xe0, 0, 0, 46], &request].concat();
        assert_eq!(bytes, expected);
        assert_eq!(bytes.len(), 18 + limits::TERMINATE);
        let error = Violation::ReadRights.error_code();
        assert_eq!(decode(&bytes[18..]), Some(Terminate { error, read: Some(7) }));
    }

    #[test]
    fn golden_vector_with_a_tagged_segment() {
        let segment = [0xc1, 0x40, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff];
        let bytes = encode(Violation::WriteBounds.error_code(), Some(&Offender::new(1014, &segment)));
        assert_eq!(bytes, [&HEADER[..], &[0x11, 0x01, 0xc0, 0, 0x03, 0xf6], &segment[..14]].concat());
        assert_eq!(decode(&bytes[18..]).and_then(|terminate| terminate.read), None);
    }

    #[test]
    fn golden_vector_of_an_error_of_the_stream() {
        let bytes = encode(Violation::Crc.error_code(), Some(&Offender::new(18, &HEADER)));
        assert_eq!(bytes, [&HEADER[..], &[0x20, 0x02, 0, 0]].concat());
    }

    #[test]
    fn a_header_that_has_not_come_is_left_out_and_short_messages_are_none() {
        assert_eq!(encode(Violation::Length.error_code(), Some(&Offender::new(3, &HEADER))).len(), 22);
        for end in 0..4 {
            assert_eq!(decode(&[0, 1, 0xe0, 0][..end]), None);
        }
        let bytes = [0x01, 0, 0xe0, 0, 0, 46, 0x41, 0x41];
        assert_eq!(decode(&bytes).and_then(|terminate| terminate.read), None);
    }
}
