//! Markers: four bytes every 512 bytes of the stream that say where their FPDU began (RFC 5044 §4.3).
//!
//! The first is the first byte after the set-up's frame. One between two FPDUs belongs to the second; one between padding and CRC to the first. An FPDU's
//! CRC covers its markers.

use wire::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes from marker to marker, one of them counted.
const INTERVAL: usize = 512;

/// A marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Marker {
    reserved: U16,
    /// FPDUPTR: bytes from the length of the FPDU to the marker; zero in front of it.
    pub(super) pointer: U16,
}

/// Bytes of a marker.
pub(super) const MARKER: usize = size_of::<Marker>();

const _: () = assert!(MARKER == 4);

/// Whether a stream has markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markers {
    /// It has none.
    Without,
    /// One every 512 bytes.
    With,
}

impl Markers {
    /// What the M flag of the receiving end's frame asks for (RFC 5044 §7.1).
    pub(super) const fn of_flag(asked: bool) -> Self {
        if asked { Self::With } else { Self::Without }
    }
}

/// Where a stream is among its markers, and in its FPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Bytes since the last marker, the marker counted; 512 where the next one is due.
    since_marker: Option<usize>,
    /// Bytes since the length of this FPDU, its first byte counted; none before it.
    in_fpdu: Option<usize>,
}

impl Position {
    /// The beginning of a stream, with or without markers.
    pub(super) const fn new(markers: Markers) -> Self {
        let since_marker = match markers {
            Markers::With => Some(INTERVAL),
            Markers::Without => None,
        };
        Self { since_marker, in_fpdu: None }
    }

    /// Bytes until the next marker; no limit without markers.
    pub(super) fn gap(self) -> usize {
        self.since_marker.map_or(usize::MAX, |since| INTERVAL.saturating_sub(since))
    }

    /// The marker that is due here.
    pub(super) fn marker(self) -> Marker {
        let pointer = wire::saturate::<u16>(self.in_fpdu.unwrap_or(0));
        Marker { reserved: U16::ZERO, pointer: U16::new(pointer) }
    }

    /// Passes over the marker that is due here.
    pub(super) fn pass_marker(&mut self) {
        self.since_marker = self.since_marker.map(|_| MARKER);
        self.in_fpdu = self.in_fpdu.map(|bytes| bytes.saturating_add(MARKER));
    }

    /// Passes over bytes of the FPDU, none of them beyond [`gap`](Self::gap).
    pub(super) fn pass(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.gap(), "a marker is due before");
        self.since_marker = self.since_marker.map(|since| since.saturating_add(bytes));
        self.in_fpdu = Some(self.in_fpdu.unwrap_or(0).saturating_add(bytes));
    }

    /// The FPDU is over.
    pub(super) fn end(&mut self) {
        self.in_fpdu = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector() {
        let mut position = Position::new(Markers::With);
        assert_eq!(position.marker().as_bytes(), [0, 0, 0, 0]);
        position.pass_marker();
        position.pass(508);
        assert_eq!(position.gap(), 0);
        assert_eq!(position.marker().as_bytes(), [0, 0, 0x01, 0xfc]);
    }

    #[test]
    fn markers_point_to_the_length_of_their_fpdu() {
        let mut position = Position::new(Markers::With);
        position.pass_marker();
        position.pass(100);
        position.end();
        position.pass(408);
        assert_eq!((position.gap(), position.marker().pointer.get()), (0, 408));
        position.pass_marker();
        position.pass(508);
        assert_eq!(position.marker().pointer.get(), 408 + 512);
        position.end();
        assert_eq!(position.marker().pointer.get(), 0, "between two FPDUs");
        assert_eq!(Position::new(Markers::Without).gap(), usize::MAX);
    }
}
