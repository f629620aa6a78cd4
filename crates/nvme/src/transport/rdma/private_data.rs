//! What hosts and controllers tell each other while a queue pair is set up (NVMe RDMA Transport §3.1, figures 5 to 7 and 11).

use verbs::PrivateData;
use wire::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The only record format that there is (RECFMT).
const FORMAT: u16 = 0;

/// The private data of a host's connection request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectRequest {
    recfmt: U16,
    /// Which queue; 0 is the admin queue.
    pub qid: U16,
    /// Receives that the host has posted for response capsules.
    pub hrqsize: U16,
    /// Entries of the submission queue, counted from zero.
    pub hsqsize: U16,
    /// The controller of an I/O queue; 0 for an admin queue.
    pub cntlid: U16,
    reserved10: [u8; 22],
}

const _: () = assert!(size_of::<ConnectRequest>() == 32);

impl ConnectRequest {
    /// The request for queue `qid` with `entries` entries, 1 or above, and as many receives.
    pub fn new(qid: u16, cntlid: u16, entries: u16) -> Self {
        Self {
            recfmt: U16::new(FORMAT),
            qid: U16::new(qid),
            hrqsize: U16::new(entries),
            hsqsize: U16::new(entries.saturating_sub(1)),
            cntlid: U16::new(cntlid),
            reserved10: [0; 22],
        }
    }

    /// What a host has sent. A set-up may pad it.
    ///
    /// # Errors
    /// The status that refuses it.
    pub fn decode(bytes: &[u8]) -> Result<Self, RejectStatus> {
        let (request, _) =
            Self::read_from_prefix(bytes).map_err(|_| RejectStatus::INVALID_PRIVATE_DATA_LENGTH)?;
        if request.recfmt.get() != FORMAT {
            return Err(RejectStatus::INVALID_RECFMT);
        }
        Ok(request)
    }

    /// The private data.
    pub fn encode(&self) -> PrivateData {
        PrivateData::received(self.as_bytes())
    }
}

/// The private data of a controller that accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AcceptReply {
    recfmt: U16,
    /// Receives that the controller has posted for command capsules.
    pub crqsize: U16,
    reserved4: [u8; 28],
}

const _: () = assert!(size_of::<AcceptReply>() == 32);

impl AcceptReply {
    /// The reply of a controller with so many receives.
    pub fn new(crqsize: u16) -> Self {
        Self { recfmt: U16::new(FORMAT), crqsize: U16::new(crqsize), reserved4: [0; 28] }
    }

    /// What a controller has sent; `None` if it is no such reply, or one without a receive.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (reply, _) = Self::read_from_prefix(bytes).ok()?;
        (reply.recfmt.get() == FORMAT && reply.crqsize.get() != 0).then_some(reply)
    }

    /// The private data.
    pub fn encode(&self) -> PrivateData {
        PrivateData::received(self.as_bytes())
    }
}

/// The private data of a controller that rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RejectReply {
    recfmt: U16,
    status: U16,
}

const _: () = assert!(size_of::<RejectReply>() == 4);

impl RejectReply {
    /// The reply with this status.
    pub fn new(status: RejectStatus) -> Self {
        Self { recfmt: U16::new(FORMAT), status: U16::new(status.0) }
    }

    /// Why a controller rejects; `None` when it does not say.
    pub fn decode(bytes: &[u8]) -> Option<RejectStatus> {
        let (reply, _) = Self::read_from_prefix(bytes).ok()?;
        (reply.recfmt.get() == FORMAT).then(|| RejectStatus(reply.status.get()))
    }

    /// The private data.
    pub fn encode(&self) -> PrivateData {
        PrivateData::received(self.as_bytes())
    }
}

/// Why a controller rejects a connection request (figure 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectStatus(
    /// As it is on the wire.
    pub u16,
);

impl RejectStatus {
    /// The private data is too short.
    pub const INVALID_PRIVATE_DATA_LENGTH: Self = Self(1);
    /// The record format is not known.
    pub const INVALID_RECFMT: Self = Self(2);
    /// There is no such queue.
    pub const INVALID_QID: Self = Self(3);
    /// The submission queue is too long, or has no room for a command.
    pub const INVALID_HSQSIZE: Self = Self(4);
    /// The host has fewer receives than commands.
    pub const INVALID_HRQSIZE: Self = Self(5);
    /// There is no memory for the queue, or no room in the queue pair.
    pub const NO_RESOURCES: Self = Self(6);
    /// An IRD that cannot be.
    pub const INVALID_IRD: Self = Self(7);
    /// An ORD that cannot be.
    pub const INVALID_ORD: Self = Self(8);
    /// There is no such controller.
    pub const INVALID_CNTLID: Self = Self(9);

    /// In words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::INVALID_PRIVATE_DATA_LENGTH => "NVMe/RDMA: private data of an invalid length",
            Self::INVALID_RECFMT => "NVMe/RDMA: an invalid record format (RECFMT)",
            Self::INVALID_QID => "NVMe/RDMA: an invalid queue identifier (QID)",
            Self::INVALID_HSQSIZE => "NVMe/RDMA: an invalid send queue size (HSQSIZE)",
            Self::INVALID_HRQSIZE => "NVMe/RDMA: an invalid receive queue size (HRQSIZE)",
            Self::NO_RESOURCES => "NVMe/RDMA: the controller has no memory for the queue",
            Self::INVALID_IRD => "NVMe/RDMA: an invalid inbound read queue depth (IRD)",
            Self::INVALID_ORD => "NVMe/RDMA: an invalid outbound read queue depth (ORD)",
            Self::INVALID_CNTLID => "NVMe/RDMA: an invalid controller identifier (CNTLID)",
            _ => "NVMe/RDMA: the controller rejects the connection",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let request = ConnectRequest::new(3, 0x0102, 128);
        let mut expected = [0; 32];
        expected[..10].copy_from_slice(&[0, 0, 3, 0, 128, 0, 127, 0, 2, 1]);
        assert_eq!(request.encode().bytes(), expected);
        assert_eq!(ConnectRequest::decode(&expected), Ok(request));
        // InfiniBand's set-up pads it.
        let mut padded = expected.to_vec();
        padded.resize(56, 0);
        assert_eq!(ConnectRequest::decode(&padded), Ok(request));
        let reply = AcceptReply::new(128);
        let mut expected = [0; 32];
        expected[2] = 128;
        assert_eq!(reply.encode().bytes(), expected);
        assert_eq!(AcceptReply::decode(&expected), Some(reply));
        let reply = RejectReply::new(RejectStatus::NO_RESOURCES);
        assert_eq!(reply.encode().bytes(), [0, 0, 6, 0]);
        assert_eq!(RejectReply::decode(&[0, 0, 6, 0, 0]), Some(RejectStatus::NO_RESOURCES));
    }

    #[test]
    fn what_is_none_is_refused() {
        let whole = ConnectRequest::new(0, 0, 32).encode();
        let short = ConnectRequest::decode(&whole.bytes()[..31]);
        assert_eq!(short, Err(RejectStatus::INVALID_PRIVATE_DATA_LENGTH));
        assert_eq!(ConnectRequest::decode(&[]), Err(RejectStatus::INVALID_PRIVATE_DATA_LENGTH));
        let mut other = whole.bytes().to_vec();
        other[0] = 1;
        assert_eq!(ConnectRequest::decode(&other), Err(RejectStatus::INVALID_RECFMT));
        assert_eq!(AcceptReply::decode(&[0; 31]), None);
        assert_eq!(AcceptReply::decode(&[0; 32]), None, "no receive");
        assert_eq!(AcceptReply::decode(&[1; 32]), None);
        assert_eq!(RejectReply::decode(&[0, 0, 6]), None);
        assert_eq!(RejectReply::decode(&[1, 0, 6, 0]), None);
    }

    proptest::proptest! {
        /// Any bytes are decoded or refused, and what is decoded is encoded as it came.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            if let Ok(request) = ConnectRequest::decode(&bytes) {
                assert_eq!(request.encode().bytes(), &bytes[..32]);
            }
            if let Some(reply) = AcceptReply::decode(&bytes) {
                assert_eq!(reply.encode().bytes(), &bytes[..32]);
            }
            if let Some(status) = RejectReply::decode(&bytes) {
                assert_eq!(RejectReply::new(status).encode().bytes(), &bytes[..4]);
            }
        }
    }
}
