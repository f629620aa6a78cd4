//! The frames that set a connection up: MPA Request and MPA Reply (RFC 5044 §7.1.1), with what the enhanced set-up puts in front of the private data
//! (RFC 6581 §9).

use alloc::vec::Vec;

use wire::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use verbs::PrivateData;

use crate::limits::PRIVATE_DATA;

/// Which of the two frames it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// The initiator's.
    Request,
    /// The responder's.
    Reply,
}

impl FrameKind {
    /// The first 16 bytes.
    const fn key(self) -> [u8; 16] {
        match self {
            Self::Request => *b"MPA ID Req Frame",
            Self::Reply => *b"MPA ID Rep Frame",
        }
    }
}

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    key: [u8; 16],
    flags: u8,
    revision: u8,
    length: U16,
}

const _: () = assert!(size_of::<Header>() == 20);

/// The sender wants markers in what it receives.
const MARKERS: u8 = 1 << 7;
/// The sender wants CRCs, which both use then.
const CRC: u8 = 1 << 6;
/// The responder refuses the connection.
const REJECT: u8 = 1 << 5;
/// Enhanced set-up: four bytes of ours come before the private data.
const ENHANCED: u8 = 1 << 4;

/// What comes before the private data of an enhanced frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EnhancedData {
    ird: U16,
    ord: U16,
}

const _: () = assert!(size_of::<EnhancedData>() == 4);

/// Of the first word: flag A, peer to peer; flag B, an FPDU without a ULPDU shows readiness.
const PEER_TO_PEER: u16 = 1 << 15;
const ZERO_LENGTH: u16 = 1 << 14;
/// Of the second word: flag C, an RDMA Write of no bytes does; flag D, an RDMA Read of no bytes does.
const WRITE: u16 = 1 << 15;
const READ: u16 = 1 << 14;
/// The number beside two flags.
const DEPTH: u16 = (1 << 14) - 1;

/// How an initiator shows that it is ready to receive, where set-up is peer to peer (RFC 6581 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rtr {
    /// An RDMA Write of no bytes.
    Write,
    /// An RDMA Read of no bytes.
    Read,
    /// An FPDU without a ULPDU.
    ZeroLength,
}

/// Some of the ways to show readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RtrKinds {
    /// See [`Rtr::Write`].
    pub write: bool,
    /// See [`Rtr::Read`].
    pub read: bool,
    /// See [`Rtr::ZeroLength`].
    pub zero_length: bool,
}

impl RtrKinds {
    /// All of them.
    pub const ALL: Self = Self { write: true, read: true, zero_length: true };

    /// One of them.
    pub const fn only(one: Rtr) -> Self {
        Self {
            write: matches!(one, Rtr::Write),
            read: matches!(one, Rtr::Read),
            zero_length: matches!(one, Rtr::ZeroLength),
        }
    }

    /// What both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            write: self.write && other.write,
            read: self.read && other.read,
            zero_length: self.zero_length && other.zero_length,
        }
    }

    /// The one to use: a Write needs nothing of the peer, a Read takes a place in its queue, and an empty FPDU is known to the fewest peers.
    pub const fn preferred(self) -> Option<Rtr> {
        match self {
            Self { write: true, .. } => Some(Rtr::Write),
            Self { read: true, .. } => Some(Rtr::Read),
            Self { zero_length: true, .. } => Some(Rtr::ZeroLength),
            _ => None,
        }
    }
}

/// What the enhanced set-up says (RFC 6581 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enhanced {
    /// Both ends may send first.
    pub peer_to_peer: bool,
    /// How the initiator may show readiness.
    pub rtr: RtrKinds,
    /// RDMA Reads that the sender of the frame serves at a time; [`Enhanced::UNNEGOTIATED`] when it does not say.
    pub ird: u16,
    /// RDMA Reads that it wants to have under way at a time; likewise.
    pub ord: u16,
}

impl Enhanced {
    /// The depth of whoever leaves it to its consumer.
    pub const UNNEGOTIATED: u16 = DEPTH;

    fn encode(self) -> EnhancedData {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let ird = flag(self.peer_to_peer, PEER_TO_PEER) | flag(self.rtr.zero_length, ZERO_LENGTH);
        let ord = flag(self.rtr.write, WRITE) | flag(self.rtr.read, READ);
        EnhancedData { ird: U16::new(ird | self.ird.min(DEPTH)), ord: U16::new(ord | self.ord.min(DEPTH)) }
    }

    fn decode(data: EnhancedData) -> Self {
        let (ird, ord) = (data.ird.get(), data.ord.get());
        let rtr =
            RtrKinds { write: ord & WRITE != 0, read: ord & READ != 0, zero_length: ird & ZERO_LENGTH != 0 };
        Self { peer_to_peer: ird & PEER_TO_PEER != 0, rtr, ird: ird & DEPTH, ord: ord & DEPTH }
    }
}

/// A frame that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// It does not begin with its key.
    Key,
    /// Its private data is longer than 512 bytes.
    PrivateDataLength,
    /// It is an enhanced one, without the four bytes of it.
    Enhanced,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Which of the two it is.
    pub kind: FrameKind,
    /// The sender wants markers in what it receives.
    pub markers: bool,
    /// The sender wants CRCs, which both use then.
    pub crc: bool,
    /// The responder refuses the connection.
    pub reject: bool,
    /// The revision of MPA, 1 or 2; a peer may say anything.
    pub revision: u8,
    /// What the enhanced set-up says; from revision 2 on.
    pub enhanced: Option<Enhanced>,
    /// What the consumer says.
    pub private_data: PrivateData,
}

/// A frame that has come whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The frame.
    pub frame: Frame,
    /// Its bytes.
    pub length: usize,
}

impl Frame {
    /// The frame at the front of `bytes`, or nothing as long as it has not come whole.
    ///
    /// # Errors
    /// It is none; found as early as its bytes show it.
    pub fn decode(kind: FrameKind, bytes: &[u8]) -> Result<Option<Received>, FrameError> {
        let key = kind.key();
        if key.iter().zip(bytes).any(|(key, byte)| key != byte) {
            return Err(FrameError::Key);
        }
        let Ok((header, rest)) = Header::read_from_prefix(bytes) else { return Ok(None) };
        let length = usize::from(header.length.get());
        if length > PRIVATE_DATA {
            return Err(FrameError::PrivateDataLength);
        }
        let Some(data) = rest.get(..length) else { return Ok(None) };
        let is_enhanced = header.revision >= 2 && header.flags & ENHANCED != 0;
        let (enhanced, private) = if is_enhanced {
            let (enhanced, private) =
                EnhancedData::read_from_prefix(data).map_err(|_| FrameError::Enhanced)?;
            (Some(Enhanced::decode(enhanced)), private)
        } else {
            (None, data)
        };
        let frame = Self {
            kind,
            markers: header.flags & MARKERS != 0,
            crc: header.flags & CRC != 0,
            reject: header.flags & REJECT != 0,
            revision: header.revision,
            enhanced,
            private_data: PrivateData::received(private),
        };
        Ok(Some(Received { frame, length: size_of::<Header>().saturating_add(length) }))
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(self.markers, MARKERS)
            | flag(self.crc, CRC)
            | flag(self.reject, REJECT)
            | flag(self.enhanced.is_some(), ENHANCED);
        let enhanced = self.enhanced.map(Enhanced::encode);
        let enhanced = enhanced.as_ref().map_or(&[][..], IntoBytes::as_bytes);
        let length = enhanced.len().saturating_add(self.private_data.bytes().len());
        let length = U16::new(wire::bounded::<u16>(length));
        let header = Header { key: self.kind.key(), flags, revision: self.revision, length };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(enhanced);
        bytes.extend_from_slice(self.private_data.bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux' siw says for NVMe/RDMA's admin queue: no markers, no CRC, revision 2, enhanced; 128 reads served, none wanted.
    fn admin_queue() -> Vec<u8> {
        let mut bytes = b"MPA ID Req Frame".to_vec();
        bytes.extend([0x10, 0x02, 0x00, 0x24, 0x00, 0x80, 0x00, 0x00, 0, 0, 0, 0, 0x20, 0, 0x1f, 0]);
        bytes.extend([0; 24]);
        bytes
    }

    fn whole(kind: FrameKind, bytes: &[u8]) -> Frame {
        let received = Frame::decode(kind, bytes).unwrap().unwrap();
        assert_eq!(received.length, bytes.len());
        assert_eq!(received.frame.encode(), bytes, "what is read is written alike");
        received.frame
    }

    #[test]
    fn golden_vector_of_a_request_for_an_admin_queue() {
        let frame = whole(FrameKind::Request, &admin_queue());
        assert_eq!((frame.markers, frame.crc, frame.reject, frame.revision), (false, false, false, 2));
        let expected = Enhanced { peer_to_peer: false, rtr: RtrKinds::default(), ird: 128, ord: 0 };
        assert_eq!(frame.enhanced, Some(expected));
        assert_eq!(frame.private_data.bytes().get(..8), Some(&[0, 0, 0, 0, 0x20, 0, 0x1f, 0][..]));
        assert_eq!(frame.private_data.bytes().len(), 32);
    }

    #[test]
    fn golden_vectors_of_other_requests() {
        let iser = [b"MPA ID Req Frame".as_slice(), &[0x10, 2, 0, 8, 0, 0x80, 0, 1, 0x80, 0, 0, 0]].concat();
        let frame = whole(FrameKind::Request, &iser);
        assert_eq!(frame.enhanced.map(|enhanced| (enhanced.ird, enhanced.ord)), Some((128, 1)));
        assert_eq!(frame.private_data.bytes(), [0x80, 0, 0, 0]);
        let queue =
            [b"MPA ID Req Frame".as_slice(), &[0x10, 2, 0, 12, 0, 0x80, 0, 0, 0, 0, 1, 0, 0x80, 0, 0x7f, 0]];
        assert_eq!(whole(FrameKind::Request, &queue.concat()).private_data.bytes().len(), 8);
        let rpc = [
            b"MPA ID Req Frame".as_slice(),
            &[0x10, 2, 0, 12, 0, 0x80, 0, 0, 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3],
        ];
        assert_eq!(
            whole(FrameKind::Request, &rpc.concat()).private_data.bytes().get(..4),
            Some(&[0xf6, 0xab, 0x0e, 0x18][..])
        );
    }

    #[test]
    fn golden_vectors_with_crc_and_peer_to_peer() {
        let request = [b"MPA ID Req Frame".as_slice(), &[0x50, 2, 0, 4, 0x80, 0x80, 0xc0, 0x01]].concat();
        let frame = whole(FrameKind::Request, &request);
        let rtr = RtrKinds { write: true, read: true, zero_length: false };
        assert!(frame.crc);
        assert_eq!(frame.enhanced, Some(Enhanced { peer_to_peer: true, rtr, ird: 128, ord: 1 }));
        let reply = [b"MPA ID Rep Frame".as_slice(), &[0x50, 2, 0, 4, 0x80, 0x01, 0x80, 0x80]].concat();
        let frame = whole(FrameKind::Reply, &reply);
        let rtr = RtrKinds::only(Rtr::Write);
        assert_eq!(frame.enhanced, Some(Enhanced { peer_to_peer: true, rtr, ird: 1, ord: 128 }));
        let plain = [b"MPA ID Rep Frame".as_slice(), &[0x10, 2, 0, 4, 0, 0, 0, 0x80]].concat();
        let enhanced = whole(FrameKind::Reply, &plain).enhanced;
        assert_eq!(enhanced.map(|enhanced| (enhanced.ird, enhanced.ord)), Some((0, 128)));
    }

    #[test]
    fn golden_vector_of_revision_1() {
        let bytes = [b"MPA ID Rep Frame".as_slice(), &[0xe0, 1, 0, 2, 7, 8]].concat();
        let frame = whole(FrameKind::Reply, &bytes);
        assert_eq!((frame.markers, frame.crc, frame.reject, frame.enhanced), (true, true, true, None));
        assert_eq!(frame.private_data.bytes(), [7, 8]);
    }

    #[test]
    fn what_is_no_frame_is_found_by_its_first_wrong_byte() {
        let bytes = admin_queue();
        for end in 0..bytes.len() {
            assert_eq!(Frame::decode(FrameKind::Request, bytes.get(..end).unwrap()), Ok(None), "{end}");
        }
        assert_eq!(Frame::decode(FrameKind::Reply, b"MPA ID Req"), Err(FrameError::Key));
        assert_eq!(Frame::decode(FrameKind::Request, b"GET / HTTP"), Err(FrameError::Key));
        let long = [b"MPA ID Req Frame".as_slice(), &[0, 1, 2, 1]].concat();
        assert_eq!(Frame::decode(FrameKind::Request, &long), Err(FrameError::PrivateDataLength));
        let short = [b"MPA ID Req Frame".as_slice(), &[0x10, 2, 0, 3, 0, 0, 0]].concat();
        assert_eq!(Frame::decode(FrameKind::Request, &short), Err(FrameError::Enhanced));
    }

    #[test]
    fn private_data_has_a_limit() {
        assert!(PrivateData::new(&[0; 508]).is_some() && PrivateData::new(&[0; 509]).is_none());
    }
}
