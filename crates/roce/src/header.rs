//! The headers of a packet (IBTA §9.2 and §9.3).

use wire::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::opcode::Opcode;
use crate::syndrome::Syndrome;

/// A number of 24 bits: queue pairs, packet and message sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct U24([u8; 3]);

impl U24 {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        let [_, high, middle, low] = value.to_be_bytes();
        Self([high, middle, low])
    }

    /// The number.
    pub const fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }
}

/// The first header of every packet (BTH, IBTA §9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BaseTransportHeader {
    opcode: u8,
    flags: u8,
    /// The partition key.
    pub partition: U16,
    congestion: u8,
    /// The queue pair that the packet is for.
    pub destination: U24,
    acknowledge: u8,
    /// The packet sequence number.
    pub sequence: U24,
}

const SOLICITED: u8 = 1 << 7;
const MIGRATED: u8 = 1 << 6;
const PAD: u8 = 0b11;
const PAD_SHIFT: u32 = 4;
const VERSION: u8 = 0b1111;
const ACKNOWLEDGE: u8 = 1 << 7;
/// The partition that every port is a full member of.
const DEFAULT_PARTITION: u16 = 0xffff;

impl BaseTransportHeader {
    /// For a packet to a queue pair, in the default partition, of a path that has not migrated, as Linux' rxe sends it.
    pub const fn new(opcode: Opcode, destination: U24, sequence: U24) -> Self {
        let partition = U16::new(DEFAULT_PARTITION);
        Self {
            opcode: opcode.0,
            flags: MIGRATED,
            partition,
            congestion: 0,
            destination,
            acknowledge: 0,
            sequence,
        }
    }

    /// The same, and its receiver is told of the message's completion.
    #[must_use]
    pub const fn soliciting(self) -> Self {
        Self { flags: self.flags | SOLICITED, ..self }
    }

    /// The same, and it asks for an acknowledgement.
    #[must_use]
    pub const fn asking(self) -> Self {
        Self { acknowledge: self.acknowledge | ACKNOWLEDGE, ..self }
    }

    /// The same for a payload of that many bytes, which is filled up to a multiple of four.
    #[must_use]
    pub const fn padded_for(self, payload: usize) -> Self {
        let pad = match payload % 4 {
            1 => 3,
            2 => 2,
            3 => 1,
            _ => 0,
        };
        Self { flags: (self.flags & !(PAD << PAD_SHIFT)) | (pad << PAD_SHIFT), ..self }
    }

    /// What the packet is.
    pub const fn opcode(self) -> Opcode {
        Opcode(self.opcode)
    }

    /// Bytes behind the payload that fill it up to a multiple of four.
    pub const fn pad(self) -> u8 {
        (self.flags >> PAD_SHIFT) & PAD
    }

    /// The version of the transport is ours, which is 0.
    pub const fn is_our_version(self) -> bool {
        self.flags & VERSION == 0
    }

    /// The receiver is to be told of the message's completion.
    pub const fn is_solicited(self) -> bool {
        self.flags & SOLICITED != 0
    }

    /// The packet asks for an acknowledgement.
    pub const fn asks(self) -> bool {
        self.acknowledge & ACKNOWLEDGE != 0
    }
}

/// Names memory of the receiver's (RETH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Memory {
    /// Where it begins.
    pub address: U64,
    /// The key that opens it.
    pub key: U32,
    /// Its bytes.
    pub length: U32,
}

/// Tells what has come (AETH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Acknowledge {
    syndrome: u8,
    /// The sequence number of the last message that was completed.
    pub message: U24,
}

impl Acknowledge {
    /// Says this of all messages up to that one.
    pub const fn new(syndrome: Syndrome, message: U24) -> Self {
        Self { syndrome: syndrome.encode(), message }
    }

    /// What it says; none for reserved values.
    pub const fn syndrome(self) -> Option<Syndrome> {
        Syndrome::decode(self.syndrome)
    }
}

/// Names the sender of a datagram (DETH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Datagram {
    /// The key that opens the receiving queue.
    pub queue_key: U32,
    reserved: u8,
    /// The queue pair that sent it.
    pub source: U24,
}

impl Datagram {
    /// From this queue pair, with that key.
    pub const fn new(queue_key: u32, source: U24) -> Self {
        Self { queue_key: U32::new(queue_key), reserved: 0, source }
    }
}

const _: () = assert!(size_of::<BaseTransportHeader>() == 12);
const _: () =
    assert!(size_of::<Memory>() == 16 && size_of::<Acknowledge>() == 4 && size_of::<Datagram>() == 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syndrome::Nak;

    #[test]
    fn golden_vector_of_a_base_transport_header() {
        let header = BaseTransportHeader::new(Opcode::SEND_ONLY, U24::new(0x11), U24::new(0x00cf_1710))
            .soliciting()
            .asking()
            .padded_for(18);
        assert_eq!(header.as_bytes(), [0x04, 0xe0, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0xcf, 0x17, 0x10]);
        assert!(header.is_solicited() && header.asks() && header.is_our_version());
        assert_eq!(header.pad(), 2);
    }

    #[test]
    fn a_payload_is_filled_up_to_four_bytes() {
        let header = BaseTransportHeader::new(Opcode::SEND_ONLY, U24::new(1), U24::new(0));
        let pads = [0, 1, 2, 3, 4, 4095].map(|payload| header.padded_for(payload).pad());
        assert_eq!(pads, [0, 3, 2, 1, 0, 1]);
    }

    #[test]
    fn golden_vectors_of_extended_headers() {
        let memory = Memory { address: U64::new(0x1230), key: U32::new(7), length: U32::new(16) };
        assert_eq!(memory.as_bytes(), [0, 0, 0, 0, 0, 0, 0x12, 0x30, 0, 0, 0, 7, 0, 0, 0, 16]);
        let refused = Acknowledge::new(Syndrome::Nak(Nak::RemoteAccess), U24::new(0x0001_0203));
        assert_eq!(refused.as_bytes(), [0x62, 1, 2, 3]);
        // The key of every queue pair 1.
        let datagram = Datagram::new(0x8001_0000, U24::new(1));
        assert_eq!(datagram.as_bytes(), [0x80, 1, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn numbers_have_24_bits() {
        assert_eq!(U24::new(0x0100_0000).get(), 0);
        assert_eq!(U24::new(u32::MAX).get(), 0x00ff_ffff);
    }
}
