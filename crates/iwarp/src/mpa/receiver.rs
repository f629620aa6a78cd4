//! FPDUs as they come: what the next bytes of the stream are, with markers among them and a CRC behind them (RFC 5044 §4). `receiver.table` has every
//! transition.

use wire::Crc32c;
use zerocopy::FromBytes;

use super::marker::{MARKER, Marker, Position};
use super::negotiation::Terms;
use super::writer::padding;
use crate::ddp::UNTAGGED;
use crate::limits::TERMINATE;

/// Bytes of a ULPDU's length.
const LENGTH: usize = 2;
/// Length, and the control bytes that say how long the header is.
const CONTROL: usize = LENGTH + 2;
const CRC: usize = 4;
/// Length, the longest header, and the longest message that is collected with it.
const COLLECTED: usize = LENGTH + UNTAGGED + TERMINATE;

/// What the next bytes are, markers left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The length of a ULPDU.
    Length,
    /// The first two bytes of its header.
    Control,
    /// The rest of its header.
    Header { end: usize },
    /// Payload that has a place, of which so many bytes are left.
    Payload { left: usize },
    /// The same, and the transport has the memory for the first of them.
    Placing { left: usize, piece: usize },
    /// Padding, of which so many bytes are left.
    Padding { left: usize },
    /// The CRC.
    Crc,
}

impl Phase {
    /// The length has come. A ULPDU of no bytes has no header.
    fn length(&mut self, ulpdu: usize) {
        if *self == Self::Length {
            *self = if ulpdu == 0 { Self::trailer(ulpdu) } else { Self::Control };
        }
    }

    /// The header's length is known.
    fn header(&mut self, bytes: usize) {
        if *self == Self::Control {
            *self = Self::Header { end: LENGTH.saturating_add(bytes) };
        }
    }

    /// The header has come, and the rest of the ULPDU has a place.
    fn payload(&mut self, ulpdu: usize) {
        if let Self::Header { end } = *self {
            let left = LENGTH.saturating_add(ulpdu).saturating_sub(end);
            *self = if left == 0 { Self::trailer(ulpdu) } else { Self::Payload { left } };
        }
    }

    /// The transport gets memory for as many bytes as there are before `gap`: how many.
    fn lend(&mut self, gap: usize) -> Option<usize> {
        let Self::Payload { left } = *self else { return None };
        let piece = left.min(gap);
        (piece > 0).then(|| {
            *self = Self::Placing { left, piece };
            piece
        })
    }

    /// The memory is filled.
    fn placed(&mut self, ulpdu: usize) {
        if let Self::Placing { left, piece } = *self {
            let left = left.saturating_sub(piece);
            *self = if left == 0 { Self::trailer(ulpdu) } else { Self::Payload { left } };
        }
    }

    /// So many bytes of padding have come.
    fn pad(&mut self, bytes: usize) {
        if let Self::Padding { left } = *self {
            let left = left.saturating_sub(bytes);
            *self = if left == 0 { Self::Crc } else { Self::Padding { left } };
        }
    }

    /// The CRC has come.
    fn end(&mut self) {
        if *self == Self::Crc {
            *self = Self::Length;
        }
    }

    fn trailer(ulpdu: usize) -> Self {
        match padding(ulpdu) {
            0 => Self::Crc,
            left => Self::Padding { left },
        }
    }
}

/// What the bytes so far amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fpdu {
    /// More bytes are needed.
    Incomplete,
    /// The control bytes have come: [`Receiver::expect_header`] is next.
    Control,
    /// The header has come: [`Receiver::expect_payload`] is next.
    Header,
    /// Payload is next, for which [`Receiver::lend`] gives the transport memory.
    Payload,
    /// The FPDU has come, and its CRC is right if there are any.
    Whole,
    /// The ULPDU is too short for any header.
    Short,
    /// The CRC is wrong.
    CrcMismatch,
    /// A marker does not point to the FPDU's beginning.
    MarkerMismatch,
}

/// Reads the FPDUs of one direction.
#[derive(Debug)]
pub(crate) struct Receiver {
    phase: Phase,
    position: Position,
    /// Whether there are CRCs, and the one of this FPDU so far.
    crc: Option<Crc32c>,
    /// Length and header of this FPDU; once it is whole, until the next begins.
    collected: [u8; COLLECTED],
    filled: usize,
}

impl Receiver {
    /// For a connection with these terms.
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            phase: Phase::Length,
            position: Position::new(terms.markers_in),
            crc: terms.crc.then(Crc32c::new),
            collected: [0; COLLECTED],
            filled: 0,
        }
    }

    /// Takes bytes from the front of `bytes`, as far as it can go by itself.
    pub(crate) fn advance(&mut self, bytes: &mut &[u8]) -> Fpdu {
        loop {
            if self.position.gap() == 0 {
                match self.take_marker(bytes) {
                    None => return Fpdu::Incomplete,
                    Some(false) => return Fpdu::MarkerMismatch,
                    Some(true) => {}
                }
            }
            let found = match self.phase {
                Phase::Length => self.take_length(bytes),
                Phase::Control => self.collect(bytes, CONTROL).then_some(Fpdu::Control),
                Phase::Header { end } => self.collect(bytes, end).then_some(Fpdu::Header),
                Phase::Payload { .. } | Phase::Placing { .. } => Some(Fpdu::Payload),
                Phase::Padding { left } => self.take_padding(bytes, left),
                Phase::Crc => self.take_crc(bytes),
            };
            match found {
                Some(found) => return found,
                None if bytes.is_empty() => return Fpdu::Incomplete,
                None if self.phase == Phase::Crc && self.position.gap() > 0 && bytes.len() < CRC => {
                    return Fpdu::Incomplete;
                }
                None => {}
            }
        }
    }

    /// Takes the marker that is due: whether it is right, if it is there.
    fn take_marker(&mut self, bytes: &mut &[u8]) -> Option<bool> {
        let (marker, rest) = bytes.split_at_checked(MARKER)?;
        *bytes = rest;
        let is_right = Marker::read_from_bytes(marker)
            .is_ok_and(|marker| marker.pointer == self.position.marker().pointer);
        self.add(marker);
        self.position.pass_marker();
        Some(is_right)
    }

    /// Collects bytes until so many are there; true once they are.
    fn collect(&mut self, bytes: &mut &[u8], end: usize) -> bool {
        let count = end.saturating_sub(self.filled).min(self.position.gap()).min(bytes.len());
        let (now, later) = bytes.split_at(count);
        *bytes = later;
        let filled = self.filled.saturating_add(count);
        if let Some(room) = self.collected.get_mut(self.filled..filled) {
            room.copy_from_slice(now);
        }
        self.filled = filled;
        self.add(now);
        self.position.pass(count);
        filled >= end
    }

    fn take_length(&mut self, bytes: &mut &[u8]) -> Option<Fpdu> {
        if bytes.is_empty() {
            return Some(Fpdu::Incomplete);
        }
        if self.collect(bytes, LENGTH) {
            self.phase.length(self.ulpdu());
        }
        (self.filled == LENGTH && self.ulpdu() == 1).then_some(Fpdu::Short)
    }

    fn take_padding(&mut self, bytes: &mut &[u8], left: usize) -> Option<Fpdu> {
        let count = left.min(self.position.gap()).min(bytes.len());
        let (now, later) = bytes.split_at(count);
        *bytes = later;
        self.add(now);
        self.position.pass(count);
        self.phase.pad(count);
        None
    }

    fn take_crc(&mut self, bytes: &mut &[u8]) -> Option<Fpdu> {
        let (received, rest) = bytes.split_first_chunk::<CRC>()?;
        *bytes = rest;
        let is_right = self.crc.as_ref().is_none_or(|crc| crc.finish() == u32::from_le_bytes(*received));
        self.position.pass(CRC);
        self.position.end();
        self.phase.end();
        self.filled = 0;
        if self.crc.is_some() {
            self.crc = Some(Crc32c::new());
        }
        Some(if is_right { Fpdu::Whole } else { Fpdu::CrcMismatch })
    }

    /// The header has so many bytes.
    pub(crate) fn expect_header(&mut self, bytes: usize) {
        debug_assert!(LENGTH.saturating_add(bytes) <= COLLECTED, "a header has room");
        self.phase.header(bytes.min(COLLECTED.saturating_sub(LENGTH)));
    }

    /// What follows the header has a place, or is nothing.
    pub(crate) fn expect_payload(&mut self) {
        self.phase.payload(self.ulpdu());
    }

    /// Bytes of the payload that is next, up to a marker, while nobody has memory for them.
    pub(crate) fn piece(&self) -> Option<usize> {
        match self.phase {
            Phase::Payload { left } => Some(left.min(self.position.gap())),
            _ => None,
        }
    }

    /// Gives the transport memory for the payload that is next: how many bytes of it.
    pub(crate) fn lend(&mut self) -> Option<usize> {
        self.phase.lend(self.position.gap())
    }

    /// The memory is filled with these bytes.
    pub(crate) fn placed(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.position.pass(bytes.len());
        self.phase.placed(self.ulpdu());
    }

    fn add(&mut self, bytes: &[u8]) {
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
    }

    /// Bytes of the ULPDU.
    pub(crate) fn ulpdu(&self) -> usize {
        let [high, low, ..] = self.collected;
        usize::from(u16::from_be_bytes([high, low]))
    }

    /// The header, as far as it has come; of an FPDU that is whole, until the next begins.
    pub(crate) fn header(&self) -> &[u8] {
        self.collected.get(LENGTH..).unwrap_or_default()
    }

    /// True between two FPDUs.
    pub(crate) fn is_between(&self) -> bool {
        self.phase == Phase::Length && self.filled == 0
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::fmt::Write;

    use buf::{BufList, SharedBuf};
    use protocol::{Transmit, pair};

    use super::super::marker::Markers;
    use super::super::writer::{FpduWriter, Payload};
    use super::*;

    #[test]
    fn table_of_all_transitions() {
        type Event = fn(&mut Phase);
        let events: [(&str, Event); 10] = [
            ("length 0", |phase| phase.length(0)),
            ("length 46", |phase| phase.length(46)),
            ("header of 14", |phase| phase.header(14)),
            ("payload of 46", |phase| phase.payload(46)),
            ("payload of 14", |phase| phase.payload(14)),
            ("lend up to 20", |phase| assert_ne!(phase.lend(20), Some(0))),
            ("lend at a marker", |phase| assert_eq!(phase.lend(0), None)),
            ("placed", |phase| phase.placed(46)),
            ("1 byte of padding", |phase| phase.pad(1)),
            ("CRC", Phase::end),
        ];
        let phases = [
            Phase::Length,
            Phase::Control,
            Phase::Header { end: 16 },
            Phase::Payload { left: 32 },
            Phase::Payload { left: 12 },
            Phase::Placing { left: 32, piece: 20 },
            Phase::Placing { left: 12, piece: 12 },
            Phase::Padding { left: 2 },
            Phase::Padding { left: 1 },
            Phase::Crc,
        ];
        let mut table = String::new();
        for phase in phases {
            for (name, event) in &events {
                let mut next = phase;
                event(&mut next);
                if next != phase {
                    writeln!(table, "{phase:?} --{name}--> {next:?}").unwrap();
                }
            }
        }
        assert_eq!(table, include_str!("receiver.table"));
    }

    const LENGTHS: [usize; 7] = [14, 18, 15, 484, 506, 1450, 3001];

    /// What a writer makes of ULPDUs of these lengths, whose headers have 14 bytes.
    fn stream(terms: Terms) -> Vec<u8> {
        let mut writer = FpduWriter::new(terms);
        let mut send = Transmit::new(usize::MAX, 4096);
        for (seed, length) in (0..).zip(LENGTHS) {
            let bytes = pair::aperiodic(length, seed);
            let list = BufList::from(SharedBuf::from(bytes[14..].to_vec()));
            let payload = Payload { list: &list, offset: 0, length: length - 14 };
            writer.write(&mut send, &bytes[..14], Some(payload));
            writer.write(&mut send, &[], None);
        }
        send.segments().iter().flat_map(|segment| send.bytes(segment).to_vec()).collect()
    }

    /// Reads a stream in chunks: the ULPDUs, and how it ended.
    fn read(terms: Terms, stream: &[u8], chunk: usize) -> (Vec<Vec<u8>>, Fpdu) {
        let (mut receiver, mut ulpdus, mut ulpdu) = (Receiver::new(terms), Vec::new(), Vec::new());
        let mut staged: Vec<u8> = Vec::new();
        let mut last = Fpdu::Incomplete;
        for part in stream.chunks(chunk) {
            staged.extend_from_slice(part);
            let mut bytes = &staged[..];
            loop {
                last = receiver.advance(&mut bytes);
                match last {
                    Fpdu::Control => receiver.expect_header(14),
                    Fpdu::Header => {
                        ulpdu = receiver.header()[..14].to_vec();
                        receiver.expect_payload();
                    }
                    Fpdu::Payload => {
                        // Memory that is lent is filled whole, if the bytes are there.
                        let before = (receiver.phase, receiver.position);
                        let piece = receiver.lend().unwrap();
                        let Some((now, later)) = bytes.split_at_checked(piece) else {
                            (receiver.phase, receiver.position) = before;
                            break;
                        };
                        receiver.placed(now);
                        ulpdu.extend_from_slice(now);
                        bytes = later;
                    }
                    Fpdu::Whole => ulpdus.push(core::mem::take(&mut ulpdu)),
                    Fpdu::Incomplete => break,
                    _ => return (ulpdus, last),
                }
            }
            staged = bytes.to_vec();
        }
        (ulpdus, last)
    }

    fn all_terms() -> Vec<Terms> {
        let flags = [(false, false), (false, true), (true, false), (true, true)];
        let terms = |(markers, crc)| Terms {
            markers_in: Markers::of_flag(markers),
            markers_out: Markers::of_flag(markers),
            crc,
            ird: 0,
            ord: 0,
            rtr: None,
        };
        flags.map(terms).to_vec()
    }

    #[test]
    fn what_is_written_is_read_in_any_chunks() {
        for terms in all_terms() {
            let stream = stream(terms);
            for chunk in [1, 2, 3, 5, 511, 512, 513, 1460, usize::MAX] {
                let (ulpdus, last) = read(terms, &stream, chunk);
                assert_eq!(last, Fpdu::Incomplete, "{terms:?} {chunk}");
                for (seed, (ulpdu, length)) in (0..).zip(ulpdus.chunks(2).zip(LENGTHS)) {
                    assert_eq!(ulpdu[0], pair::aperiodic(length, seed), "{terms:?} {chunk}");
                    assert!(ulpdu[1].is_empty());
                }
                assert_eq!(ulpdus.len(), 2 * LENGTHS.len());
            }
        }
    }

    /// With CRCs, no byte of the stream can change unseen.
    #[test]
    fn every_byte_is_covered() {
        for terms in all_terms().into_iter().filter(|terms| terms.crc) {
            let stream = stream(terms);
            let (whole, _) = read(terms, &stream, usize::MAX);
            for at in (0..stream.len()).step_by(7) {
                let mut other = stream.clone();
                other[at] ^= 0x10;
                let (ulpdus, last) = read(terms, &other, usize::MAX);
                assert!(ulpdus.len() < whole.len(), "{terms:?}: byte {at}, {last:?}");
                assert_eq!(ulpdus, whole[..ulpdus.len()]);
            }
        }
    }

    #[test]
    fn a_marker_that_points_elsewhere_is_found() {
        let terms = Terms { crc: false, ..all_terms()[3] };
        let mut stream = stream(terms);
        stream[515] ^= 4;
        assert_eq!(read(terms, &stream, usize::MAX).1, Fpdu::MarkerMismatch);
        stream[515] ^= 4;
        stream[3] = 4;
        assert_eq!(read(terms, &stream, usize::MAX).1, Fpdu::MarkerMismatch);
    }

    #[test]
    fn a_ulpdu_of_one_byte_has_no_header() {
        assert_eq!(read(all_terms()[0], &[0, 1, 2], 1).1, Fpdu::Short);
        assert_eq!(read(all_terms()[0], &[0; 8], 8).0, [vec![]]);
    }
}
