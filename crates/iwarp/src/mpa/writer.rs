//! FPDUs as they go on the wire: length, ULPDU, padding, CRC, and markers among them (RFC 5044 §4).

use buf::BufList;
use protocol::Transmit;
use wire::Crc32c;
use zerocopy::IntoBytes;

use super::marker::Position;
use super::negotiation::Terms;

/// What a ULPDU carries behind its headers: a part of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) list: &'a BufList,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

/// Writes the FPDUs of one direction.
#[derive(Debug)]
pub(crate) struct FpduWriter {
    position: Position,
    /// Whether there are CRCs, and the one of this FPDU so far.
    crc: Option<Crc32c>,
}

impl FpduWriter {
    /// For a connection with these terms.
    pub(crate) fn new(terms: Terms) -> Self {
        Self { position: Position::new(terms.markers_out), crc: terms.crc.then(Crc32c::new) }
    }

    /// Adds an FPDU to a send. Header and payload are at most 65,535 bytes.
    pub(crate) fn write(&mut self, send: &mut Transmit, header: &[u8], payload: Option<Payload<'_>>) {
        let length = header.len().saturating_add(payload.map_or(0, |payload| payload.length));
        let field = wire::bounded::<u16>(length).to_be_bytes();
        if self.crc.is_some() {
            self.crc = Some(Crc32c::new());
        }
        self.put(send, &field);
        self.put(send, header);
        if let Some(payload) = payload {
            self.put_list(send, payload);
        }
        self.put(send, [0; 3].get(..padding(length)).unwrap_or_default());
        self.put_marker(send);
        let crc = self.crc.as_ref().map_or(0, Crc32c::finish);
        send.put(&crc.to_le_bytes());
        self.position.pass(size_of::<u32>());
        self.position.end();
    }

    /// The marker, if one is due here.
    fn put_marker(&mut self, send: &mut Transmit) {
        if self.position.gap() == 0 {
            let marker = self.position.marker();
            send.put(marker.as_bytes());
            self.add(marker.as_bytes());
            self.position.pass_marker();
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
    }

    /// Copies bytes.
    fn put(&mut self, send: &mut Transmit, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.put_marker(send);
            let (now, later) = bytes.split_at(bytes.len().min(self.position.gap()));
            send.put(now);
            self.add(now);
            self.position.pass(now.len());
            bytes = later;
        }
    }

    /// Shares a part of a list, in pieces that end where a marker is due.
    fn put_list(&mut self, send: &mut Transmit, payload: Payload<'_>) {
        let Payload { list, mut offset, length: mut left } = payload;
        for piece in list.pieces() {
            if offset >= piece.len() {
                offset = offset.saturating_sub(piece.len());
                continue;
            }
            while left > 0 && offset < piece.len() {
                self.put_marker(send);
                let count = left.min(piece.len().saturating_sub(offset)).min(self.position.gap());
                let part = piece.slice(offset..offset.saturating_add(count));
                self.add(&part);
                send.put_shared(part);
                self.position.pass(count);
                (offset, left) = (offset.saturating_add(count), left.saturating_sub(count));
            }
            offset = 0;
        }
    }
}

/// Bytes that bring length and ULPDU to a multiple of four.
pub(super) const fn padding(ulpdu: usize) -> usize {
    // Two for the length.
    match ulpdu % 4 {
        0 => 2,
        1 => 1,
        2 => 0,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use buf::SharedBuf;

    use super::super::marker::Markers;
    use super::*;

    const TERMS: Terms = Terms {
        markers_in: Markers::Without,
        markers_out: Markers::Without,
        crc: false,
        ird: 0,
        ord: 0,
        rtr: None,
    };

    fn written(terms: Terms, fpdus: &[(&[u8], usize)]) -> Vec<u8> {
        let mut writer = FpduWriter::new(terms);
        let mut send = Transmit::new(usize::MAX, 4096);
        for (header, length) in fpdus {
            let mut list = BufList::from(SharedBuf::from(vec![9; 7]));
            list.push(SharedBuf::from(vec![5; *length]));
            list.push(SharedBuf::from(vec![9; 7]));
            writer.write(&mut send, header, Some(Payload { list: &list, offset: 7, length: *length }));
        }
        send.segments().iter().flat_map(|segment| send.bytes(segment).to_vec()).collect()
    }

    /// With CRCs off the four bytes are there, and zero.
    #[test]
    fn golden_vectors_of_short_fpdus() {
        assert_eq!(written(TERMS, &[(b"", 0)]), [0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(written(TERMS, &[(b"abc", 0)]), [0, 3, b'a', b'b', b'c', 0, 0, 0, 0, 0, 0, 0]);
        let crc = Terms { crc: true, ..TERMS };
        let bytes = written(crc, &[(&[0x41, 0x43], 3)]);
        assert_eq!(bytes.get(..8), Some(&[0, 5, 0x41, 0x43, 5, 5, 5, 0][..]));
        let sum = wire::crc32c(bytes.get(..8).unwrap());
        assert_eq!(bytes.get(8..), Some(&sum.to_le_bytes()[..]));
    }

    #[test]
    fn markers_come_every_512_bytes_and_crcs_cover_them() {
        let terms = Terms { markers_out: Markers::With, crc: true, ..TERMS };
        // 4 of the marker, 2 and 18 and 480 of the FPDU, its CRC: the next marker lies between two FPDUs.
        let bytes = written(terms, &[(&[1; 18], 484), (&[2; 14], 600)]);
        assert_eq!(bytes.get(..6), Some(&[0, 0, 0, 0, 0x01, 0xf6][..]));
        assert_eq!(bytes.get(512..518), Some(&[0, 0, 0, 0, 0x02, 0x66][..]), "a marker leads the second");
        assert_eq!(bytes.get(1024..1028), Some(&[0, 0, 0x01, 0xfc][..]), "and lies within it");
        let first = wire::crc32c(bytes.get(..508).unwrap());
        assert_eq!(bytes.get(508..512), Some(&first.to_le_bytes()[..]));
        let second = bytes.get(512..).unwrap();
        let (body, sum) = second.split_at(second.len() - 4);
        assert_eq!(wire::crc32c(body).to_le_bytes(), sum);
    }

    /// A marker that is due behind the padding stands in front of the CRC, which covers it.
    #[test]
    fn a_marker_may_stand_between_padding_and_crc() {
        let terms = Terms { markers_out: Markers::With, crc: true, ..TERMS };
        let bytes = written(terms, &[(&[1; 18], 488)]);
        assert_eq!(bytes.get(512..516), Some(&[0, 0, 0x01, 0xfc][..]));
        assert_eq!(bytes.len(), 520);
        assert_eq!(wire::crc32c(bytes.get(..516).unwrap()).to_le_bytes()[..], bytes[516..]);
    }
}
