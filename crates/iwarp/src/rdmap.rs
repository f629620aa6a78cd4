//! RDMAP's messages: what kinds there are, and the header of an RDMA Read Request (RFC 5040 §4).

use wire::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The queue of Sends (§4.1).
pub const SEND_QUEUE: u32 = 0;
/// The queue of RDMA Read Requests.
pub const READ_QUEUE: u32 = 1;
/// The queue of Terminates.
pub const TERMINATE_QUEUE: u32 = 2;

/// The kind of a message; unknown values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode(pub u8);

/// What a Send does beside carrying a message (RFC 5040 §5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendKind {
    /// It invalidates a region of the receiver's.
    pub invalidates: bool,
    /// It raises an event at the receiver.
    pub solicited: bool,
}

impl Opcode {
    /// RDMA Write.
    pub const WRITE: Self = Self(0x0);
    /// RDMA Read Request.
    pub const READ_REQUEST: Self = Self(0x1);
    /// RDMA Read Response.
    pub const READ_RESPONSE: Self = Self(0x2);
    /// Send.
    pub const SEND: Self = Self(0x3);
    /// Send with Invalidate.
    pub const SEND_INVALIDATE: Self = Self(0x4);
    /// Send with Solicited Event.
    pub const SEND_SOLICITED: Self = Self(0x5);
    /// Send with Solicited Event and Invalidate.
    pub const SEND_SOLICITED_INVALIDATE: Self = Self(0x6);
    /// Terminate.
    pub const TERMINATE: Self = Self(0x7);

    /// The Send of a kind.
    pub const fn send(kind: SendKind) -> Self {
        match (kind.invalidates, kind.solicited) {
            (false, false) => Self::SEND,
            (true, false) => Self::SEND_INVALIDATE,
            (false, true) => Self::SEND_SOLICITED,
            (true, true) => Self::SEND_SOLICITED_INVALIDATE,
        }
    }

    /// Its segments go to memory that is named by its tag.
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::WRITE | Self::READ_RESPONSE)
    }

    /// It is a Send of some kind.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Self::SEND | Self::SEND_INVALIDATE | Self::SEND_SOLICITED | Self::SEND_SOLICITED_INVALIDATE
        )
    }

    /// It invalidates a steering tag.
    pub const fn invalidates(self) -> bool {
        matches!(self, Self::SEND_INVALIDATE | Self::SEND_SOLICITED_INVALIDATE)
    }

    /// The queue of untagged messages of this kind.
    pub const fn queue(self) -> Option<u32> {
        match self {
            _ if self.is_send() => Some(SEND_QUEUE),
            Self::READ_REQUEST => Some(READ_QUEUE),
            Self::TERMINATE => Some(TERMINATE_QUEUE),
            _ => None,
        }
    }
}

/// The header of an RDMA Read Request, behind DDP's (§4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReadRequest {
    /// Where the response goes at the requester.
    pub sink_stag: U32,
    /// Likewise.
    pub sink_offset: U64,
    /// Bytes.
    pub length: U32,
    /// What is read.
    pub source_stag: U32,
    /// Likewise.
    pub source_offset: U64,
}

/// Bytes of a Read Request's header.
pub const READ_REQUEST: usize = size_of::<ReadRequest>();

const _: () = assert!(READ_REQUEST == 28);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vector_of_a_read_request() {
        let request = ReadRequest {
            sink_stag: U32::new(0x0102_0304),
            sink_offset: U64::new(5),
            length: U32::new(1024),
            source_stag: U32::new(0x0a0b_0c0d),
            source_offset: U64::new(0x1_0000_0000),
        };
        let expected =
            [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 4, 0, 10, 11, 12, 13, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(request.as_bytes(), expected);
    }

    #[test]
    fn every_kind_has_its_place() {
        let kinds = (0..16).map(Opcode);
        let places: alloc::vec::Vec<_> = kinds.map(|kind| (kind.is_tagged(), kind.queue())).collect();
        let [write, read, response, rest @ ..] = &places[..] else { panic!("sixteen") };
        assert_eq!((write, read, response), (&(true, None), &(false, Some(1)), &(true, None)));
        assert!(rest[..4].iter().all(|place| *place == (false, Some(0))));
        assert_eq!(rest[4], (false, Some(2)));
        assert!(rest[5..].iter().all(|place| *place == (false, None)), "RFC 7306's are not served");
        for bits in 0..4 {
            let kind = SendKind { invalidates: bits & 1 != 0, solicited: bits & 2 != 0 };
            let opcode = Opcode::send(kind);
            assert!(opcode.is_send() && opcode.invalidates() == kind.invalidates);
        }
    }
}
