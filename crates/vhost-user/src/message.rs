//! Messages as they are on the socket (vhost-user, *Message Specification*): a header, a payload, and descriptors beside them. Numbers are the machine's own.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the front end asks for. The numbers are the standard's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    GetFeatures = 1,
    SetFeatures = 2,
    SetOwner = 3,
    SetVringNum = 8,
    SetVringAddr = 9,
    SetVringBase = 10,
    GetVringBase = 11,
    SetVringKick = 12,
    SetVringCall = 13,
    GetProtocolFeatures = 15,
    SetProtocolFeatures = 16,
    GetQueueNum = 17,
    SetVringEnable = 18,
    GetConfig = 24,
    GetInflightFd = 31,
    SetInflightFd = 32,
    GetMaxMemSlots = 36,
    AddMemReg = 37,
    RemMemReg = 38,
}

/// Features of the protocol itself.
pub(crate) mod protocol {
    /// Several queues.
    pub(crate) const MQ: u64 = 1 << 0;
    /// Each request can be answered.
    pub(crate) const REPLY_ACK: u64 = 1 << 3;
    /// The configuration can be read.
    pub(crate) const CONFIG: u64 = 1 << 9;
    /// What is under way outlives the device.
    pub(crate) const INFLIGHT_SHMFD: u64 = 1 << 12;
    /// Memory comes and goes region by region.
    pub(crate) const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
}

/// In the header's flags: version 1.
const VERSION: u32 = 1;
/// The bits of the version.
const VERSION_BITS: u32 = 3;
/// It is an answer.
const REPLY: u32 = 1 << 2;
/// An answer is wanted.
const NEED_REPLY: u32 = 1 << 3;

/// What every message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    request: u32,
    flags: u32,
    pub(crate) size: u32,
}

/// Bytes of a [`Header`].
pub(crate) const HEADER: usize = 12;
const _: () = assert!(size_of::<Header>() == HEADER);

impl Header {
    pub(crate) fn new(request: Request, size: u32, needs_reply: bool) -> Self {
        let needs = if needs_reply { NEED_REPLY } else { 0 };
        Self { request: request as u32, flags: VERSION | needs, size }
    }

    /// Whether it heads the answer to a request.
    pub(crate) fn answers(&self, request: Request) -> bool {
        self.request == request as u32 && self.flags & REPLY != 0 && self.flags & VERSION_BITS == VERSION
    }
}

/// A number for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct VringState {
    pub(crate) index: u32,
    pub(crate) number: u32,
}

/// Where a queue's areas are, in this process' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct VringAddress {
    pub(crate) index: u32,
    pub(crate) flags: u32,
    pub(crate) table: u64,
    pub(crate) used: u64,
    pub(crate) available: u64,
    pub(crate) log: u64,
}

/// A region of memory, whose file comes beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Region {
    pub(crate) padding: u64,
    /// Where descriptors say that it is. This side has it there, too.
    pub(crate) guest: u64,
    pub(crate) size: u64,
    /// Where this process has it.
    pub(crate) user: u64,
    /// Where it begins in its file.
    pub(crate) offset: u64,
}

/// The head of a configuration's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ConfigHead {
    pub(crate) offset: u32,
    pub(crate) size: u32,
    pub(crate) flags: u32,
}

/// Memory for what is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Inflight {
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) queues: u16,
    pub(crate) queue_size: u16,
    pub(crate) padding: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_as_long_as_the_standard_has_them() {
        assert_eq!((size_of::<VringState>(), size_of::<VringAddress>(), size_of::<Region>()), (8, 40, 40));
        assert_eq!((size_of::<ConfigHead>(), size_of::<Inflight>()), (12, 24));
    }

    #[test]
    fn an_answer_is_told_from_a_question() {
        let asked = Header::new(Request::GetFeatures, 0, true);
        assert_eq!((asked.flags, asked.answers(Request::GetFeatures)), (9, false));
        let answered = Header { flags: 5, ..asked };
        assert!(answered.answers(Request::GetFeatures) && !answered.answers(Request::SetOwner));
        assert!(!Header { flags: 6, ..asked }.answers(Request::GetFeatures), "another version");
    }
}
