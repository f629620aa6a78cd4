//! A host that a hand-made peer talks to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, reason = "likewise")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of the bench")]

use std::net::{IpAddr, SocketAddr};

use protocol::Instant;
use roce::header::{Acknowledge, BaseTransportHeader, Datagram, Memory, U24};
use roce::icrc::{Addresses, ICRC, Path, check};
use roce::management::{Content, Message, Names, QUEUE_KEY, Reply, Request, Terms};
use roce::mtu::Mtu;
use roce::opcode::Opcode;
use roce::packet::{Extended, Packet};
use roce::psn::Psn;
use roce::syndrome::Syndrome;
use roce::{Config, Connection};
use verbs::PrivateData;
use wire::Writer;
use wire::big_endian::{U32, U64};
use zerocopy::IntoBytes as _;

use super::{CONFIG, Host, PORT, SERVICE, far_address, near_address};

/// The peer's queue pair, its name for the connection, and the number that the victim awaits first.
pub const PEER: u32 = 0x77;
pub const NAME: u32 = 0x4242;
pub const FIRST: u32 = 1000;
/// The number that the peer awaits first: where the victim begins.
pub const OWN_FIRST: u32 = 5000;

/// A packet as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub opcode: Opcode,
    pub sequence: u32,
    pub asks: bool,
    pub extended: Extended,
    pub payload: Vec<u8>,
}

impl Said {
    pub fn syndrome(&self) -> Option<Syndrome> {
        match self.extended {
            Extended::Acknowledge(acknowledge) => acknowledge.syndrome(),
            _ => None,
        }
    }
}

pub fn packet(opcode: Opcode, sequence: u32) -> Said {
    Said { opcode, sequence, asks: false, extended: Extended::None, payload: Vec::new() }
}

pub fn message(opcode: Opcode, sequence: u32, payload: &[u8]) -> Said {
    Said { payload: payload.to_vec(), ..packet(opcode, sequence) }
}

pub fn access(opcode: Opcode, sequence: u32, memory: [u32; 3]) -> Said {
    let [key, address, length] = memory;
    let memory =
        Memory { address: U64::new(u64::from(address)), key: U32::new(key), length: U32::new(length) };
    Said { extended: Extended::Memory(memory), ..packet(opcode, sequence) }
}

pub fn acknowledge(sequence: u32, syndrome: Syndrome) -> Said {
    let extended = Extended::Acknowledge(Acknowledge::new(syndrome, U24::new(0)));
    Said { extended, ..packet(Opcode::ACKNOWLEDGE, sequence) }
}

pub fn response(opcode: Opcode, sequence: u32, payload: &[u8]) -> Said {
    let all_well = Syndrome::Ack(roce::syndrome::Credits::UNLIMITED);
    let extended = match opcode {
        Opcode::READ_RESPONSE_MIDDLE => Extended::None,
        _ => Extended::Acknowledge(Acknowledge::new(all_well, U24::new(0))),
    };
    Said { extended, ..message(opcode, sequence, payload) }
}

pub struct Victim {
    pub host: Host,
    pub now: Instant,
    queue_pair: u32,
}

pub fn path(from: SocketAddr, to: SocketAddr) -> Path {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (from.ip(), to.ip()) else { panic!("IPv4") };
    let addresses = Addresses::V4 { source: source.octets(), destination: destination.octets() };
    Path { addresses, source_port: from.port(), destination_port: to.port() }
}

/// A datagram of a packet.
pub fn datagram(from: SocketAddr, to: SocketAddr, packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 12 + 28 + packet.payload.len().next_multiple_of(4) + ICRC];
    let mut writer = Writer::new(&mut bytes);
    packet.encode(&mut writer).unwrap();
    let used = writer.written();
    bytes.truncate(used);
    bytes.extend(path(from, to).icrc(0x1234, &bytes));
    bytes
}

pub fn management(from: SocketAddr, to: SocketAddr, message: &Message) -> Vec<u8> {
    let header = BaseTransportHeader::new(Opcode::DATAGRAM, U24::new(1), U24::new(0));
    let extended = Extended::Datagram(Datagram::new(QUEUE_KEY, U24::new(1)));
    datagram(from, to, &Packet { header, extended, payload: &message.encode() })
}

pub fn terms(reads: u8) -> Terms {
    Terms {
        queue_pair: U24::new(PEER),
        sequence: Psn::new(OWN_FIRST),
        reads_served: reads,
        reads_sent: reads,
        not_ready_retries: 7,
    }
}

pub fn granted(reads: u8) -> Content {
    Content::Reply(Reply { terms: terms(reads), adapter: 1, private_data: PrivateData::NONE })
}

pub fn request(mtu: Mtu) -> Message {
    let content = Content::Request(Request {
        port: SERVICE,
        terms: terms(4),
        mtu,
        source: far_address(false).ip(),
        destination: near_address(false).ip(),
        source_port: 50_000,
        private_data: PrivateData::NONE,
    });
    Message { transaction: 9, names: Names { sender: NAME, receiver: 0 }, content }
}

impl Victim {
    pub fn host(config: Config) -> Self {
        let host = Host::new(near_address(false), config, vec![0x100, FIRST]);
        Self { host, now: Instant::ZERO, queue_pair: 0 }
    }

    /// One that has accepted a connection of 256 bytes a packet.
    pub fn responder() -> Self {
        Self::responder_with(CONFIG.reads_served)
    }

    /// The same, which serves so many reads.
    pub fn responder_with(reads_served: u8) -> Self {
        let mut victim = Self::host(Config { reads_served, ..CONFIG });
        let [reply] = &victim.tell_manager(&request(Mtu::Bytes256))[..] else { panic!("a reply") };
        let Content::Reply(Reply { terms, .. }) = &reply.content else { panic!("{reply:?}") };
        (victim.queue_pair, victim.host.events) = (terms.queue_pair.get(), Vec::new());
        let names = Names { sender: NAME, receiver: reply.names.sender };
        let ready = Message { transaction: 9, names, content: Content::Ready };
        assert_eq!(victim.tell_manager(&ready), []);
        victim
    }

    /// One that has a connection granted.
    pub fn initiator(reads: u8) -> Self {
        Self::initiator_on(terms(reads))
    }

    /// The same, on these terms of its peer's.
    pub fn initiator_on(terms: Terms) -> Self {
        let mut victim = Self::host(Config { mtu: Mtu::Bytes256, ..CONFIG });
        victim.host.connect(victim.now, far_address(false).ip(), b"");
        let [request] = &victim.hear_manager()[..] else { panic!("a request") };
        let Content::Request(wanted) = &request.content else { panic!("{request:?}") };
        victim.queue_pair = wanted.terms.queue_pair.get();
        let names = Names { sender: NAME, receiver: request.names.sender };
        let content = Content::Reply(Reply { terms, adapter: 1, private_data: PrivateData::NONE });
        let answer = victim.tell_manager(&Message { transaction: request.transaction, names, content });
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].content, Content::Ready);
        victim
    }

    pub fn connection(&mut self) -> &mut Connection {
        self.host.one()
    }

    pub fn set_queue_pair(&mut self, queue_pair: u32) {
        self.queue_pair = queue_pair;
    }

    /// What it says to this packet.
    pub fn tell(&mut self, said: &Said) -> Vec<Said> {
        self.tell_silently(said);
        self.hear()
    }

    pub fn tell_silently(&mut self, said: &Said) {
        self.tell_from(far_address(false), said);
    }

    pub fn tell_from(&mut self, from: SocketAddr, said: &Said) {
        let header =
            BaseTransportHeader::new(said.opcode, U24::new(self.queue_pair), U24::new(said.sequence));
        let header = if said.asks { header.asking() } else { header };
        let packet = Packet { header, extended: said.extended, payload: &said.payload };
        let bytes = datagram(from, near_address(false), &packet);
        self.host.receive(self.now, from, &bytes);
    }

    /// Any bytes behind a first header, under the right sum.
    pub fn tell_bytes(&mut self, opcode: Opcode, sequence: u32, rest: &[u8]) {
        let header = BaseTransportHeader::new(opcode, U24::new(self.queue_pair), U24::new(sequence));
        let mut bytes = [header.as_bytes(), rest].concat();
        bytes.extend(path(far_address(false), near_address(false)).icrc(0, &bytes));
        self.host.receive(self.now, far_address(false), &bytes);
    }

    pub fn tell_manager(&mut self, message: &Message) -> Vec<Message> {
        let bytes = management(far_address(false), near_address(false), message);
        self.host.receive(self.now, far_address(false), &bytes);
        self.hear_manager()
    }

    fn packets(&mut self) -> Vec<Vec<u8>> {
        self.host.transmit(self.now).into_iter().map(|(_, bytes)| bytes).collect()
    }

    /// The packets that it sends of its own.
    pub fn hear(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        for bytes in self.packets() {
            let path = path(near_address(false), SocketAddr::new(far_address(false).ip(), PORT));
            let packet = Packet::decode(check(&path, &bytes).unwrap()).unwrap();
            if packet.header.opcode() != Opcode::DATAGRAM {
                assert_eq!(packet.header.destination.get(), PEER);
                said.push(Said {
                    opcode: packet.header.opcode(),
                    sequence: packet.header.sequence.get(),
                    asks: packet.header.asks(),
                    extended: packet.extended,
                    payload: packet.payload.to_vec(),
                });
            }
        }
        said
    }

    pub fn hear_manager(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        for bytes in self.packets() {
            let path = path(near_address(false), SocketAddr::new(far_address(false).ip(), PORT));
            let packet = Packet::decode(check(&path, &bytes).unwrap()).unwrap();
            if packet.header.opcode() == Opcode::DATAGRAM {
                messages.push(Message::decode(packet.payload).unwrap());
            }
        }
        messages
    }

    /// Time goes on to its next deadline.
    pub fn wait(&mut self) {
        self.now = self.host.deadline().unwrap();
        self.host.handle_deadlines(self.now);
    }
}

/// Opcodes and numbers alone.
pub fn brief(said: &[Said]) -> Vec<(Opcode, u32)> {
    said.iter().map(|said| (said.opcode, said.sequence)).collect()
}
