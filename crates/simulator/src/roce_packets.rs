//! Packets of software RoCEv2 as hostile ends change and make them.

use std::net::{IpAddr, SocketAddr};

use roce::header::{Acknowledge, BaseTransportHeader, Datagram, Memory, U24};
use roce::icrc::{Addresses, Path, check};
use roce::management::{Message, QUEUE_KEY, QUEUE_PAIR};
use roce::opcode::Opcode;
use roce::packet::{Extended, Packet};
use roce::syndrome::Syndrome;
use wire::Writer;

/// Bytes of all headers of a packet, at most.
const HEADERS: usize = 12 + 28;

/// A packet.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) header: BaseTransportHeader,
    pub(crate) extended: Extended,
    pub(crate) payload: Vec<u8>,
}

/// What a packet is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Connection management.
    Management,
    /// A message, or a part of one.
    Send,
    /// An access to memory, or a part of one.
    Access,
    /// What was read.
    Response,
    /// An acknowledgement.
    Answer,
}

impl Said {
    /// The packet in a datagram; none if it is damaged or is none.
    pub(crate) fn decode(path: &Path, datagram: &[u8]) -> Option<Self> {
        let Packet { header, extended, payload } = Packet::decode(check(path, datagram).ok()?).ok()?;
        Some(Self { header, extended, payload: payload.to_vec() })
    }

    /// The datagram of it, with its sum.
    pub(crate) fn encode(&self, path: &Path) -> Vec<u8> {
        let Self { header, extended, ref payload } = *self;
        let mut bytes = vec![0; HEADERS + payload.len().next_multiple_of(4)];
        let mut writer = Writer::new(&mut bytes);
        let used = match (Packet { header, extended, payload }).encode(&mut writer) {
            Ok(()) => writer.written(),
            Err(_) => 0,
        };
        bytes.truncate(used);
        signed(path, bytes)
    }

    /// A message of connection management.
    pub(crate) fn management(message: &Message) -> Self {
        let header = BaseTransportHeader::new(Opcode::DATAGRAM, U24::new(QUEUE_PAIR), U24::new(0));
        let extended = Extended::Datagram(Datagram::new(QUEUE_KEY, U24::new(QUEUE_PAIR)));
        Self { header, extended, payload: message.encode().to_vec() }
    }

    /// The message of connection management that it is, if it is one.
    pub(crate) fn message(&self) -> Option<Message> {
        let is_one = matches!(self.extended, Extended::Datagram(_));
        is_one.then(|| Message::decode(&self.payload).ok()).flatten()
    }

    /// Another packet with its numbers.
    pub(crate) fn instead(&self, opcode: Opcode, extended: Extended, payload: Vec<u8>) -> Self {
        let header = BaseTransportHeader::new(opcode, self.header.destination, self.header.sequence).asking();
        Self { header, extended, payload }
    }

    /// The same as another packet of its message.
    pub(crate) fn renamed(&self, opcode: Opcode) -> Self {
        self.instead(opcode, self.extended, self.payload.clone())
    }

    /// An acknowledgement in its place.
    pub(crate) fn answered(&self, syndrome: Syndrome) -> Self {
        let extended = Extended::Acknowledge(Acknowledge::new(syndrome, U24::new(0)));
        self.instead(Opcode::ACKNOWLEDGE, extended, Vec::new())
    }

    /// The same, so many numbers later.
    pub(crate) fn later(mut self, by: u32) -> Self {
        self.header.sequence = U24::new(self.header.sequence.get().wrapping_add(by));
        self
    }

    /// An access to memory in its place: a read, or a write of as many bytes as the memory has.
    pub(crate) fn reading(&self, memory: Memory) -> Self {
        self.instead(Opcode::READ_REQUEST, Extended::Memory(memory), Vec::new())
    }

    /// Likewise, a write of these bytes.
    pub(crate) fn writing(&self, memory: Memory, bytes: Vec<u8>) -> Self {
        self.instead(Opcode::WRITE_ONLY, Extended::Memory(memory), bytes)
    }

    /// What it is part of.
    pub(crate) fn part(&self) -> Part {
        match self.header.opcode() {
            Opcode::DATAGRAM => Part::Management,
            Opcode::ACKNOWLEDGE => Part::Answer,
            Opcode::READ_RESPONSE_FIRST
            | Opcode::READ_RESPONSE_MIDDLE
            | Opcode::READ_RESPONSE_LAST
            | Opcode::READ_RESPONSE_ONLY => Part::Response,
            Opcode::READ_REQUEST
            | Opcode::WRITE_FIRST
            | Opcode::WRITE_MIDDLE
            | Opcode::WRITE_LAST
            | Opcode::WRITE_ONLY => Part::Access,
            _ => Part::Send,
        }
    }

    /// The memory that it names.
    pub(crate) fn memory(&self) -> Option<Memory> {
        match self.extended {
            Extended::Memory(memory) => Some(memory),
            _ => None,
        }
    }
}

/// A packet's bytes with the sum that fits them.
pub(crate) fn signed(path: &Path, mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = path.icrc(0, &bytes);
    bytes.extend(sum);
    bytes
}

/// The way between two sockets; the simulator's addresses are of IPv4.
pub(crate) fn path(from: SocketAddr, to: SocketAddr) -> Option<Path> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.ip(), to.ip()) else { return None };
    let addresses = Addresses::V4 { source: source.octets(), destination: destination.octets() };
    Some(Path { addresses, source_port: from.port(), destination_port: to.port() })
}
