//! Packets to one peer that go out in one call: all of one size but the last, which may be shorter, as UDP segmentation offload wants them.

use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use wire::Writer;

use crate::icrc::{ICRC, Path};
use crate::limits::{TRAIN_BYTES, TRAIN_PACKETS};
use crate::outgoing::Outgoing;

/// A train of packets. It is made once and filled again and again.
#[derive(Debug)]
pub struct Train {
    bytes: Vec<u8>,
    used: usize,
    segment: usize,
    packets: usize,
    most_packets: usize,
    destination: Option<SocketAddr>,
}

impl Default for Train {
    fn default() -> Self {
        Self::new(TRAIN_PACKETS)
    }
}

impl Train {
    /// An empty one, which takes at most so many packets, up to [`TRAIN_PACKETS`]: one without segmentation offload.
    pub fn new(most_packets: usize) -> Self {
        let most_packets = most_packets.clamp(1, TRAIN_PACKETS);
        Self { bytes: vec![0; TRAIN_BYTES], used: 0, segment: 0, packets: 0, most_packets, destination: None }
    }

    /// Lets go of its packets.
    pub fn clear(&mut self) {
        (self.used, self.segment, self.packets, self.destination) = (0, 0, 0, None);
    }

    /// Where it goes; nowhere while it is empty.
    pub fn destination(&self) -> Option<SocketAddr> {
        self.destination
    }

    /// The packets, one after the other.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// Bytes of each packet, but for the last, which may have less.
    pub fn segment(&self) -> usize {
        self.segment
    }

    /// Each packet.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().chunks(self.segment.max(1))
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// A packet of so many bytes can go behind the others.
    pub(crate) fn accepts(&self, length: usize) -> bool {
        if self.is_empty() {
            return length <= TRAIN_BYTES;
        }
        let is_open = self.used == self.segment.saturating_mul(self.packets);
        is_open
            && length <= self.segment
            && self.packets < self.most_packets
            && self.used.saturating_add(length) <= TRAIN_BYTES
    }

    /// Adds a packet that it accepts, with its sum. In a train over IPv4 the kernel counts identifications up from zero.
    pub(crate) fn push(&mut self, path: &Route, packet: &Outgoing<'_>) {
        let length = packet.len();
        debug_assert!(self.accepts(length), "{length} bytes do not fit behind the others");
        let Some(place) = self.bytes.get_mut(self.used..self.used.saturating_add(length)) else { return };
        let (body, sum) = place.split_at_mut(length.saturating_sub(ICRC));
        if packet.write(&mut Writer::new(body)).is_err() {
            return;
        }
        let identification = u16::try_from(self.packets).unwrap_or_default();
        sum.copy_from_slice(&path.path.icrc(identification, body));
        if self.is_empty() {
            (self.segment, self.destination) = (length, Some(path.destination));
        }
        self.used = self.used.saturating_add(length);
        self.packets = self.packets.saturating_add(1);
    }
}

/// Where packets go, and what their sums count of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) destination: SocketAddr,
    pub(crate) path: Path,
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::header::{BaseTransportHeader, U24};
    use crate::icrc::{Addresses, check};
    use crate::opcode::Opcode;
    use crate::outgoing::Payload;
    use crate::packet::Extended;

    fn route() -> Route {
        let addresses = Addresses::V4 { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] };
        let path = Path { addresses, source_port: 4791, destination_port: 4791 };
        Route { destination: SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), 4791), path }
    }

    fn packet(payload: &[u8]) -> Outgoing<'_> {
        let header = BaseTransportHeader::new(Opcode::SEND_ONLY, U24::new(1), U24::new(2));
        Outgoing { header, extended: Extended::None, payload: Payload::Bytes(payload) }
    }

    #[test]
    fn all_packets_have_one_size_but_the_last() {
        let (mut train, long, short) = (Train::default(), [7; 1024], [8; 5]);
        for _ in 0..2 {
            for _ in 0..3 {
                assert!(train.accepts(packet(&long).len()));
                train.push(&route(), &packet(&long));
            }
            assert!(!train.accepts(packet(&long).len() + 4), "a longer one");
            train.push(&route(), &packet(&short));
            assert!(!train.accepts(packet(&short).len()), "nothing goes behind a shorter one");
            let lengths: Vec<usize> = train.packets().map(<[u8]>::len).collect();
            assert_eq!((lengths.as_slice(), train.segment()), ([1040, 1040, 1040, 24].as_slice(), 1040));
            for packet in train.packets() {
                assert!(check(&route().path, packet).is_ok());
            }
            assert_eq!(train.destination(), Some(route().destination));
            train.clear();
            assert!(train.is_empty() && train.destination().is_none());
        }
    }

    #[test]
    fn a_train_takes_as_many_packets_and_bytes_as_the_limits_say() {
        for (most, payload, expected) in [(1, 8, 1), (64, 8, 64), (200, 8, 64), (64, 4096, 15)] {
            let (mut train, payload) = (Train::new(most), vec![0; payload]);
            while train.accepts(packet(&payload).len()) {
                train.push(&route(), &packet(&payload));
            }
            assert_eq!(train.packets().count(), expected);
        }
    }
}
