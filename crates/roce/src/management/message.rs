//! The messages of connection management, as they are meant (IBTA §12.6).

use core::net::IpAddr;

use verbs::PrivateData;
use wire::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::mad::{BODY, Dreq, IpHeader, MAD, MadHeader, Mra, Named, Rej, Rep, Req, Small, attribute};
use crate::header::U24;
use crate::limits::{MANAGEMENT_ATTEMPTS, RETRIES};
use crate::mtu::Mtu;
use crate::psn::Psn;

/// Bytes of a message.
pub const MESSAGE: usize = MAD;

/// What both sides of a connection say of their queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The queue pair.
    pub queue_pair: U24,
    /// The number that it awaits of the first packet: where the other side begins (IBTA §12.7, Starting PSN).
    pub sequence: Psn,
    /// RDMA Reads that it serves at a time (responder resources).
    pub reads_served: u8,
    /// RDMA Reads that it has under way at a time (initiator depth).
    pub reads_sent: u8,
    /// How often it wants to be tried while it has no receive; 7 has no end.
    pub not_ready_retries: u8,
}

/// The names of a connection: the sender's, and the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// The sender's name for it.
    pub sender: u32,
    /// The receiver's name for it; zero in a request, which does not know it.
    pub receiver: u32,
}

/// Wants a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The port of TCP whose service is wanted (IBTA annex A11.3).
    pub port: u16,
    /// The sender's queue pair.
    pub terms: Terms,
    /// The path MTU.
    pub mtu: Mtu,
    /// The sender's address.
    pub source: IpAddr,
    /// The address that it connects to.
    pub destination: IpAddr,
    /// The sender's port.
    pub source_port: u16,
    /// The consumer's words, filled up with zeros.
    pub private_data: PrivateData,
}

/// Grants a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The sender's queue pair.
    pub terms: Terms,
    /// The sender's adapter: with its name for the connection it must be unique.
    pub adapter: u64,
    /// The consumer's words, filled up with zeros.
    pub private_data: PrivateData,
}

/// Why a connection is refused (IBTA §12.6.7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub u16);

impl Reason {
    /// There is no room for another connection.
    pub const NO_RESOURCES: Self = Self(3);
    /// The sender has waited too long.
    pub const TIMEOUT: Self = Self(4);
    /// What is asked for is not served.
    pub const UNSUPPORTED: Self = Self(5);
    /// The name of the connection is none of the sender's.
    pub const NAME: Self = Self(6);
    /// Nobody listens for the service.
    pub const SERVICE: Self = Self(8);
    /// The path MTU is not served.
    pub const MTU: Self = Self(26);
    /// The consumer says no.
    pub const CONSUMER: Self = Self(28);
}

/// What a rejection refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// A request.
    Request,
    /// A reply.
    Reply,
    /// Something else, or what did not come.
    Other,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A connection is wanted (REQ).
    Request(Request),
    /// It is granted (REP).
    Reply(Reply),
    /// The reply has come (RTU).
    Ready,
    /// It is refused (REJ).
    Reject(Rejected, Reason, PrivateData),
    /// The decision takes so long, as an exponent of two in units of 4.096 µs (MRA).
    Receipt(u8),
    /// The connection ends (DREQ).
    Disconnect(U24),
    /// It has ended (DREP).
    Disconnected,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Joins a request with what answers it.
    pub transaction: u64,
    /// Whose connection it speaks of.
    pub names: Names,
    /// What it says.
    pub content: Content,
}

/// Why bytes are no message of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// They are no message of connection management, or one that we do not speak: dropped.
    Foreign,
    /// A request for something that we do not speak; its sender is told.
    Unsupported {
        /// Its transaction.
        transaction: u64,
        /// Its sender's name for what it wants.
        names: Names,
    },
}

/// The prefix of the service identifiers of TCP's ports (IBTA annex A11.3).
const TCP_SERVICES: u64 = 0x0106_0000;
/// About a second, in what a request says of times.
const RESPONSE_TIME: u8 = 18;
/// What a peer waits for an acknowledgement, in what a request says of times: 134 ms, more than a busy process takes for one.
const ACKNOWLEDGE_TIME: u8 = 15;
/// The delay of our acknowledgements, in what a reply says of times: 4 ms.
const ACKNOWLEDGE_DELAY: u8 = 10;

impl Message {
    /// The bytes.
    pub fn encode(&self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        let (header, body) = bytes.split_at_mut(MAD.saturating_sub(BODY));
        header.copy_from_slice(MadHeader::new(self.content.attribute(), self.transaction).as_bytes());
        let Names { sender, receiver } = self.names;
        match &self.content {
            Content::Request(request) => body.copy_from_slice(request.encode(sender).as_bytes()),
            Content::Reply(reply) => body.copy_from_slice(reply.encode(self.names).as_bytes()),
            Content::Reject(rejected, reason, private_data) => {
                let mut rej = Rej::new(rejected.code());
                (rej.local_id, rej.remote_id) = (U32::new(sender), U32::new(receiver));
                rej.reason = U16::new(reason.0);
                put(&mut rej.private_data, private_data);
                body.copy_from_slice(rej.as_bytes());
            }
            Content::Disconnect(queue_pair) => {
                let mut dreq = Dreq::new(sender, receiver);
                dreq.queue_pair = *queue_pair;
                body.copy_from_slice(dreq.as_bytes());
            }
            Content::Ready | Content::Disconnected | Content::Receipt(_) => {
                body.copy_from_slice(Named::new(sender, receiver).as_bytes());
            }
        }
        bytes
    }

    /// The message in these bytes.
    ///
    /// # Errors
    /// They are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (header, body) = MadHeader::read_from_prefix(bytes).map_err(|_| Unreadable::Foreign)?;
        let body = body.first_chunk::<BODY>().ok_or(Unreadable::Foreign)?;
        if !header.is_management() {
            return Err(Unreadable::Foreign);
        }
        let transaction = header.transaction.get();
        let decoded = decode_body(header.attribute.get(), body).map_err(|unreadable| match unreadable {
            Unreadable::Unsupported { names, .. } => Unreadable::Unsupported { transaction, names },
            Unreadable::Foreign => Unreadable::Foreign,
        });
        let Body { names, content } = decoded?;
        Ok(Self { transaction, names, content })
    }
}

fn read<T: FromBytes>(body: &[u8; BODY]) -> Result<T, Unreadable> {
    T::read_from_bytes(body).map_err(|_| Unreadable::Foreign)
}

/// What stands behind the common header.
struct Body {
    names: Names,
    content: Content,
}

fn decode_body(kind: u16, body: &[u8; BODY]) -> Result<Body, Unreadable> {
    Ok(match kind {
        attribute::REQUEST => decode_request(&read(body)?)?,
        attribute::REPLY => decode_reply(&read(body)?),
        attribute::REJECT => {
            let rej: Rej = read(body)?;
            let private_data = PrivateData::received(&rej.private_data);
            let rejected = Rejected::from_code(rej.message());
            let content = Content::Reject(rejected, Reason(rej.reason.get()), private_data);
            Body { names: names(rej.local_id, rej.remote_id), content }
        }
        attribute::RECEIPT => {
            let mra: Mra = read(body)?;
            Body { names: names(mra.local_id, mra.remote_id), content: Content::Receipt(mra.time()) }
        }
        attribute::DISCONNECT => {
            let dreq: Dreq = read(body)?;
            let content = Content::Disconnect(dreq.queue_pair);
            Body { names: names(dreq.local_id, dreq.remote_id), content }
        }
        attribute::READY | attribute::DISCONNECTED => {
            let named: Named = read(body)?;
            let content = if kind == attribute::READY { Content::Ready } else { Content::Disconnected };
            Body { names: names(named.local_id, named.remote_id), content }
        }
        _ => return Err(Unreadable::Foreign),
    })
}

fn names(sender: U32, receiver: U32) -> Names {
    Names { sender: sender.get(), receiver: receiver.get() }
}

fn decode_request(req: &Req) -> Result<Body, Unreadable> {
    let names = Names { sender: req.local_id.get(), receiver: 0 };
    let request = Request::decode(req).ok_or(Unreadable::Unsupported { transaction: 0, names })?;
    Ok(Body { names, content: Content::Request(request) })
}

fn decode_reply(rep: &Rep) -> Body {
    let terms = Terms {
        queue_pair: rep.queue_pair,
        sequence: rep.sequence.into(),
        reads_served: rep.responder_resources,
        reads_sent: rep.initiator_depth,
        not_ready_retries: rep.not_ready_retries(),
    };
    let private_data = PrivateData::received(&rep.private_data);
    let content = Content::Reply(Reply { terms, adapter: rep.guid.get(), private_data });
    Body { names: names(rep.local_id, rep.remote_id), content }
}

impl Content {
    const fn attribute(&self) -> u16 {
        match self {
            Self::Request(_) => attribute::REQUEST,
            Self::Reply(_) => attribute::REPLY,
            Self::Ready => attribute::READY,
            Self::Reject(..) => attribute::REJECT,
            Self::Receipt(_) => attribute::RECEIPT,
            Self::Disconnect(_) => attribute::DISCONNECT,
            Self::Disconnected => attribute::DISCONNECTED,
        }
    }
}

impl Rejected {
    const fn code(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Reply => 1,
            Self::Other => 2,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Request,
            1 => Self::Reply,
            _ => Self::Other,
        }
    }
}

impl Request {
    fn encode(&self, name: u32) -> Req {
        let mut req = Req::new(Small {
            mtu: self.mtu.code(),
            retries: RETRIES,
            not_ready_retries: self.terms.not_ready_retries.min(7),
            response_time: RESPONSE_TIME,
            acknowledge_time: ACKNOWLEDGE_TIME,
            management_retries: MANAGEMENT_ATTEMPTS.min(15),
        });
        req.local_id = U32::new(name);
        req.service = U64::new(TCP_SERVICES | u64::from(self.port));
        req.guid = U64::new(adapter(self.source));
        req.queue_pair = self.terms.queue_pair;
        req.sequence = self.terms.sequence.into();
        req.responder_resources = self.terms.reads_served;
        req.initiator_depth = self.terms.reads_sent;
        req.primary.local_gid = gid(self.source);
        req.primary.remote_gid = gid(self.destination);
        let mut header = IpHeader::new(if self.source.is_ipv4() { 4 } else { 6 });
        header.source_port = U16::new(self.source_port);
        header.source = padded(self.source);
        header.destination = padded(self.destination);
        let (front, rest) = req.private_data.split_at_mut(size_of::<IpHeader>());
        front.copy_from_slice(header.as_bytes());
        put(rest, &self.private_data);
        req
    }

    /// Nothing of a request for what we do not speak.
    fn decode(req: &Req) -> Option<Self> {
        let (header, private_data) = IpHeader::read_from_prefix(&req.private_data).ok()?;
        let service = req.service.get();
        let port = u16::try_from(service.checked_sub(TCP_SERVICES)?).ok()?;
        let small = req.small();
        let mtu = Mtu::from_code(small.mtu).filter(|_| req.is_reliable())?;
        let version = header.ip_version()?;
        let terms = Terms {
            queue_pair: req.queue_pair,
            sequence: req.sequence.into(),
            reads_served: req.responder_resources,
            reads_sent: req.initiator_depth,
            not_ready_retries: small.not_ready_retries,
        };
        Some(Self {
            port,
            terms,
            mtu,
            source: unpadded(version, header.source)?,
            destination: unpadded(version, header.destination)?,
            source_port: header.source_port.get(),
            private_data: PrivateData::received(private_data),
        })
    }
}

impl Reply {
    fn encode(&self, names: Names) -> Rep {
        let mut rep = Rep::new(self.terms.not_ready_retries.min(7), ACKNOWLEDGE_DELAY);
        (rep.local_id, rep.remote_id) = (U32::new(names.sender), U32::new(names.receiver));
        rep.queue_pair = self.terms.queue_pair;
        rep.sequence = self.terms.sequence.into();
        rep.responder_resources = self.terms.reads_served;
        rep.initiator_depth = self.terms.reads_sent;
        rep.guid = U64::new(self.adapter);
        put(&mut rep.private_data, &self.private_data);
        rep
    }
}

/// A GID: an address of IPv6, or one of IPv4 mapped into it (IBTA annex A17.4).
fn gid(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The name of the adapter that software is not: the end of its GID.
pub(super) fn adapter(address: IpAddr) -> u64 {
    let gid = gid(address);
    let end = gid.last_chunk::<8>().copied().unwrap_or_default();
    u64::from_be_bytes(end)
}

/// An address in 16 bytes, one of IPv4 behind zeros.
fn padded(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V6(address) => bytes = address.octets(),
        IpAddr::V4(address) => {
            if let Some(end) = bytes.last_chunk_mut::<4>() {
                *end = address.octets();
            }
        }
    }
    bytes
}

fn unpadded(version: u8, bytes: [u8; 16]) -> Option<IpAddr> {
    match version {
        4 => bytes.last_chunk::<4>().map(|end| IpAddr::from(*end)),
        6 => Some(IpAddr::from(bytes)),
        _ => None,
    }
}

/// Puts private data to the front of its place; the rest stays zero.
fn put(place: &mut [u8], private_data: &PrivateData) {
    for (byte, value) in place.iter_mut().zip(private_data.bytes()) {
        *byte = *value;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A message that holds these bytes, each at its place behind the common header, and zeros.
    fn by_hand(attribute: u8, parts: &[(usize, &[u8])]) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[8..16].copy_from_slice(&[0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44]);
        bytes[17] = attribute;
        for (at, part) in parts {
            bytes[24 + at..24 + at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    fn message(sender: u32, receiver: u32, content: Content) -> Message {
        Message { transaction: 0x1122_3344, names: Names { sender, receiver }, content }
    }

    fn terms() -> Terms {
        Terms {
            queue_pair: U24::new(0x0012_3456),
            sequence: Psn::new(0x00ab_cdef),
            reads_served: 128,
            reads_sent: 3,
            not_ready_retries: 7,
        }
    }

    fn words(bytes: &[u8], length: usize) -> PrivateData {
        let mut padded: Vec<u8> = bytes.to_vec();
        padded.resize(length, 0);
        PrivateData::received(&padded)
    }

    const GID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    const OTHER_GID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2];

    fn both_ways(message: &Message, bytes: [u8; MESSAGE]) {
        assert_eq!(message.encode(), bytes);
        assert_eq!(Message::decode(&bytes).as_ref(), Ok(message));
    }

    /// Field by field from the tables of IBTA §12.6.5 and annex A11; Wireshark's dissector reads the same.
    #[test]
    fn golden_vector_of_a_request() {
        let request = Request {
            port: 4420,
            terms: terms(),
            mtu: Mtu::Bytes1024,
            source: IpAddr::from([10, 0, 0, 1]),
            destination: IpAddr::from([10, 0, 0, 2]),
            source_port: 0xc001,
            private_data: words(b"hello", 56),
        };
        let parts: [(usize, &[u8]); 17] = [
            (0, &[0, 0, 0, 5]),
            (8, &[0, 0, 0, 0, 1, 6, 0x11, 0x44]),
            (16, &GID[8..]),
            (32, &[0x12, 0x34, 0x56, 128]),
            (39, &[3]),
            (43, &[18 << 3]),
            (44, &[0xab, 0xcd, 0xef, (18 << 3) | 7]),
            (48, &[0xff, 0xff, (3 << 4) | 7, 10 << 4]),
            (52, &[0xff, 0xff, 0xff, 0xff]),
            (56, &GID),
            (72, &OTHER_GID),
            (91, &[3, 0, 64, 0, 15 << 3]),
            (140, &[0, 0x40, 0xc0, 0x01]),
            (156, &[10, 0, 0, 1]),
            (172, &[10, 0, 0, 2]),
            (176, b"hello"),
            (231, &[0]),
        ];
        both_ways(&message(5, 0, Content::Request(request)), by_hand(0x10, &parts));
    }

    #[test]
    fn golden_vector_of_a_reply() {
        let adapter = adapter(IpAddr::from([10, 0, 0, 1]));
        let reply = Reply { terms: terms(), adapter, private_data: words(b"welcome", 196) };
        let parts: [(usize, &[u8]); 7] = [
            (0, &[0, 0, 0, 6, 0, 0, 0, 5]),
            (12, &[0x12, 0x34, 0x56]),
            (20, &[0xab, 0xcd, 0xef]),
            (24, &[128, 3, 10 << 3, 7 << 5]),
            (28, &GID[8..]),
            (36, b"welcome"),
            (231, &[0]),
        ];
        both_ways(&message(6, 5, Content::Reply(reply)), by_hand(0x13, &parts));
    }

    #[test]
    fn golden_vectors_of_the_other_messages() {
        let named: (usize, &[u8]) = (0, &[0, 0, 0, 6, 0, 0, 0, 5]);
        both_ways(&message(6, 5, Content::Ready), by_hand(0x14, &[named]));
        both_ways(&message(6, 5, Content::Disconnected), by_hand(0x16, &[named]));
        let wish = Content::Disconnect(U24::new(0x0012_3456));
        both_ways(&message(6, 5, wish), by_hand(0x15, &[named, (8, &[0x12, 0x34, 0x56])]));
        for (code, rejected) in [(0, Rejected::Request), (0x40, Rejected::Reply), (0x80, Rejected::Other)] {
            let refusal = Content::Reject(rejected, Reason::CONSUMER, words(b"no", 148));
            let parts: [(usize, &[u8]); 3] = [named, (8, &[code, 0, 0, 28]), (84, b"no")];
            both_ways(&message(6, 5, refusal), by_hand(0x12, &parts));
        }
        let receipt = by_hand(0x11, &[named, (8, &[0, 24 << 3])]);
        assert_eq!(Message::decode(&receipt), Ok(message(6, 5, Content::Receipt(24))));
    }

    #[test]
    fn what_is_not_spoken_is_told_or_dropped() {
        let good = by_hand(0x10, &[(8, &[0, 0, 0, 0, 1, 6, 0x11, 0x44]), (50, &[3 << 4]), (141, &[0x40])]);
        assert!(Message::decode(&good).is_ok());
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            Message::decode(&bytes).map(|_| ())
        };
        let names = Names { sender: 0, receiver: 0 };
        let unsupported = Err(Unreadable::Unsupported { transaction: 0x1122_3344, names });
        // Another service, another transport, no path MTU, another version of IP or of its header.
        for (at, value) in
            [(13, 0x11), (12, 2), (43, 2), (50, 0), (50, 6 << 4), (51, 1), (141, 0x50), (140, 0x10)]
        {
            assert_eq!(with(24 + at, value), unsupported, "{value:#x} at {at}");
        }
        // Another version, class, class version, method or message.
        for (at, value) in [(0, 2), (1, 4), (2, 1), (3, 1), (17, 0x17), (16, 1)] {
            assert_eq!(with(at, value), Err(Unreadable::Foreign), "{value:#x} at {at}");
        }
        assert_eq!(Message::decode(&good[..255]), Err(Unreadable::Foreign));
    }
}
