//! A packet that is about to be sent, with its payload where the request has it.

use buf::BufList;
use wire::{Full, Writer};
use zerocopy::IntoBytes;

use crate::header::BaseTransportHeader;
use crate::icrc::ICRC;
use crate::packet::Extended;

/// A packet, without its sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// The first header, without what fills the payload up.
    pub(crate) header: BaseTransportHeader,
    /// What follows it.
    pub(crate) extended: Extended,
    /// What is carried.
    pub(crate) payload: Payload<'a>,
}

/// A part of a list, or bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// Nothing.
    None,
    /// So many bytes of a list, which has them.
    Part { list: &'a BufList, offset: usize, length: usize },
    /// These.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Part { length, .. } => *length,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn write(&self, into: &mut Writer<'_>) -> Result<(), Full> {
        match self {
            Self::None => Ok(()),
            Self::Bytes(bytes) => into.put(bytes),
            Self::Part { list, offset, length } => {
                let (mut skipped, mut left) = (*offset, *length);
                for piece in list.pieces() {
                    let begin = skipped.min(piece.len());
                    let bytes = piece.get(begin..).unwrap_or_default();
                    let bytes = bytes.get(..left.min(bytes.len())).unwrap_or_default();
                    into.put(bytes)?;
                    (skipped, left) = (skipped.saturating_sub(begin), left.saturating_sub(bytes.len()));
                }
                into.zero(left)
            }
        }
    }
}

impl Outgoing<'_> {
    /// Bytes on the wire, with the sum.
    pub(crate) fn len(&self) -> usize {
        let headers = size_of::<BaseTransportHeader>().saturating_add(self.extended.len());
        headers.saturating_add(self.payload.len().next_multiple_of(4)).saturating_add(ICRC)
    }

    /// Writes it, without the sum.
    ///
    /// # Errors
    /// There is not room enough.
    pub(crate) fn write(&self, into: &mut Writer<'_>) -> Result<(), Full> {
        let header = self.header.padded_for(self.payload.len());
        into.put(header.as_bytes())?;
        self.extended.encode(into)?;
        self.payload.write(into)?;
        into.zero(usize::from(header.pad()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use buf::SharedBuf;

    use super::*;
    use crate::header::U24;
    use crate::opcode::Opcode;

    #[test]
    fn a_payload_crosses_the_pieces_of_its_list() {
        let mut list = BufList::new();
        for piece in [b"abc".as_slice(), b"defg", b"h"] {
            list.push(SharedBuf::from(piece.to_vec()));
        }
        for (offset, length) in [(0, 8), (2, 5), (3, 1), (7, 1), (8, 0)] {
            let header = BaseTransportHeader::new(Opcode::SEND_ONLY, U24::new(1), U24::new(2));
            let payload = Payload::Part { list: &list, offset, length };
            let packet = Outgoing { header, extended: Extended::None, payload };
            let mut bytes = vec![0xee; packet.len()];
            let mut writer = Writer::new(&mut bytes);
            packet.write(&mut writer).unwrap();
            assert_eq!(writer.remaining(), ICRC, "{length} bytes");
            assert_eq!(&bytes[12..12 + length], &b"abcdefgh"[offset..offset + length]);
        }
    }
}
