//! A packet as a datagram of UDP carries it, without its invariant CRC (IBTA §9.2, §9.3, annex A17).

use wire::big_endian::U32;
use wire::{Full, Reader, Truncated, Writer};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::header::{Acknowledge, BaseTransportHeader, Datagram, Memory};
use crate::limits;
use crate::opcode::Extension;

/// The port of UDP that RoCEv2 is received on (IBTA annex A17).
pub const PORT: u16 = 4791;

/// A packet, with its payload where the datagram has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The first header. It names the headers that follow, and how many bytes fill the payload up.
    pub header: BaseTransportHeader,
    /// What follows the first header.
    pub extended: Extended,
    /// What is carried, without what fills it up.
    pub payload: &'a [u8],
}

/// The headers behind the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// None.
    None,
    /// The sender of a datagram.
    Datagram(Datagram),
    /// Memory of the receiver's.
    Memory(Memory),
    /// Memory of the receiver's, and a number for its consumer.
    MemoryImmediate(Memory, U32),
    /// What has come.
    Acknowledge(Acknowledge),
    /// A number for the receiver's consumer (`ImmDt`).
    Immediate(U32),
    /// The key that the message ends (IETH).
    Invalidate(U32),
}

/// Why a datagram is no packet of ours. It is dropped without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It ends inside of its headers or of what fills it up.
    Short,
    /// It is of another version of the transport.
    Version,
    /// Its operation is none that we speak.
    Opcode,
    /// Its payload is longer than a packet's may be, in [`limits::PAYLOAD`].
    Long,
    /// It is no multiple of four bytes long.
    Unaligned,
}

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Self {
        Self::Short
    }
}

impl<'a> Packet<'a> {
    /// The packet in these bytes, which [`check`](crate::icrc::check) gave.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let header: BaseTransportHeader = next(&mut reader)?;
        if !header.is_our_version() {
            return Err(Malformed::Version);
        }
        let extension = header.opcode().extension().ok_or(Malformed::Opcode)?;
        let extended = Extended::decode(extension, &mut reader)?;
        if !reader.remaining().is_multiple_of(4) {
            return Err(Malformed::Unaligned);
        }
        let length = reader.remaining().checked_sub(usize::from(header.pad())).ok_or(Malformed::Short)?;
        if length > limits::PAYLOAD {
            return Err(Malformed::Long);
        }
        Ok(Self { header, extended, payload: reader.take(length)? })
    }

    /// Writes the packet, with what fills its payload up.
    ///
    /// # Errors
    /// `into` has not enough room.
    pub fn encode(&self, into: &mut Writer<'_>) -> Result<(), Full> {
        let header = self.header.padded_for(self.payload.len());
        into.put(header.as_bytes())?;
        self.extended.encode(into)?;
        into.put(self.payload)?;
        into.zero(usize::from(header.pad()))
    }
}

impl Extended {
    fn decode(extension: Extension, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match extension {
            Extension::None => Self::None,
            Extension::Datagram => Self::Datagram(next(reader)?),
            Extension::Memory => Self::Memory(next(reader)?),
            Extension::MemoryImmediate => Self::MemoryImmediate(next(reader)?, next(reader)?),
            Extension::Acknowledge => Self::Acknowledge(next(reader)?),
            Extension::Immediate => Self::Immediate(next(reader)?),
            Extension::Invalidate => Self::Invalidate(next(reader)?),
        })
    }

    /// Bytes on the wire.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Datagram(_) => size_of::<Datagram>(),
            Self::Memory(_) => size_of::<Memory>(),
            Self::MemoryImmediate(..) => size_of::<Memory>() + size_of::<U32>(),
            Self::Acknowledge(_) => size_of::<Acknowledge>(),
            Self::Immediate(_) | Self::Invalidate(_) => size_of::<U32>(),
        }
    }

    pub(crate) fn encode(&self, into: &mut Writer<'_>) -> Result<(), Full> {
        match self {
            Self::None => Ok(()),
            Self::Datagram(datagram) => into.put(datagram.as_bytes()),
            Self::Memory(memory) => into.put(memory.as_bytes()),
            Self::MemoryImmediate(memory, immediate) => {
                into.put(memory.as_bytes())?;
                into.put(immediate.as_bytes())
            }
            Self::Acknowledge(acknowledge) => into.put(acknowledge.as_bytes()),
            Self::Immediate(number) | Self::Invalidate(number) => into.put(number.as_bytes()),
        }
    }
}

/// The next header.
fn next<T: FromBytes + Immutable>(reader: &mut Reader<'_>) -> Result<T, Malformed> {
    T::read_from_bytes(reader.take(size_of::<T>())?).map_err(|_| Malformed::Short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::U24;
    use crate::opcode::Opcode;

    fn header(opcode: Opcode) -> BaseTransportHeader {
        BaseTransportHeader::new(opcode, U24::new(0x11), U24::new(7))
    }

    /// A message with a key to end, of five bytes.
    const SEND_INVALIDATE: [u8; 24] = [
        0x17, 0x70, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 7, 0, 0, 0x12, 0x34, b'h', b'e', b'l', b'l', b'o', 0,
        0, 0,
    ];

    #[test]
    fn golden_vector_of_a_send_with_invalidate() {
        let extended = Extended::Invalidate(U32::new(0x1234));
        let packet = Packet { header: header(Opcode::SEND_ONLY_INVALIDATE), extended, payload: b"hello" };
        let mut bytes = [0xee; 24];
        packet.encode(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(bytes, SEND_INVALIDATE);
        let header = packet.header.padded_for(5);
        assert_eq!(Packet::decode(&bytes), Ok(Packet { header, ..packet }));
    }

    #[test]
    fn every_operation_has_its_headers() {
        let lengths = (0..=u8::MAX).filter_map(|opcode| {
            let mut bytes = [0; 12 + 20];
            bytes[0] = opcode;
            Packet::decode(&bytes).ok().map(|packet| bytes.len() - packet.payload.len() - 12)
        });
        // 0x00 to 0x11, 0x13 to 0x1f, 0x64.
        let served = [0, 0, 0, 4, 0, 4, 16, 0, 0, 4, 16, 20, 16, 4, 0, 4, 4, 4];
        let expected = served.into_iter().chain([0, 0, 0, 4, 4]).chain([0; 8]).chain([8]);
        assert!(lengths.eq(expected));
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for len in [0, 11, 12, 15] {
            assert_eq!(Packet::decode(&SEND_INVALIDATE[..len]), Err(Malformed::Short), "{len} bytes");
        }
        assert_eq!(Packet::decode(&SEND_INVALIDATE[..16]), Err(Malformed::Short), "only what fills up");
        assert_eq!(Packet::decode(&SEND_INVALIDATE[..21]), Err(Malformed::Unaligned));
        let with = |at: usize, value: u8| {
            let mut bytes = SEND_INVALIDATE;
            bytes[at] = value;
            bytes
        };
        assert_eq!(Packet::decode(&with(1, 0x01)), Err(Malformed::Version));
        // The answer to an atomic operation, other services, a congestion notice.
        for opcode in [0x12, 0x24, 0x44, 0x81] {
            assert_eq!(Packet::decode(&with(0, opcode)), Err(Malformed::Opcode), "{opcode:#x}");
        }
    }

    #[test]
    fn a_payload_is_as_long_as_the_limit() {
        let mut bytes = [0; 12 + limits::PAYLOAD + 4];
        bytes[0] = Opcode::SEND_ONLY.0;
        let most = &bytes[..12 + limits::PAYLOAD];
        assert_eq!(Packet::decode(most).map(|packet| packet.payload.len()), Ok(limits::PAYLOAD));
        assert_eq!(Packet::decode(&bytes), Err(Malformed::Long));
    }
}
