//! Every violation of a peer's, and the refusal that answers it (IBTA §9.7.4.1.6, §9.7.5.2 and §9.9.3).

use verbs::RegionError;

use crate::syndrome::Nak;

/// What a peer did that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A packet in the middle of a message that has not begun, or the beginning of one while another has not ended.
    MessageOrder,
    /// A packet whose payload is not as long as its place in its message demands.
    PacketLength,
    /// A message that is longer than its receive.
    MessageTooLong,
    /// An access to more memory than a request may name.
    AccessTooLong,
    /// Immediate data, which nobody asked for.
    Immediate,
    /// More RDMA Reads under way than were agreed.
    TooManyReads,
    /// An access to a key that names no region.
    Key,
    /// An access outside of its region.
    Bounds,
    /// An access that its region does not allow.
    Rights,
    /// A key to be invalidated that names no region.
    Invalidate,
    /// A response that is not the one that is due.
    Response,
}

impl Violation {
    /// An access that the table of regions refuses.
    pub const fn of_access(error: RegionError) -> Self {
        match error {
            RegionError::InvalidStag => Self::Key,
            RegionError::Bounds => Self::Bounds,
            RegionError::AccessRights => Self::Rights,
        }
    }

    /// What the peer is answered; nothing for a response, which has no answer.
    pub const fn nak(self) -> Option<Nak> {
        Some(match self {
            Self::MessageOrder
            | Self::PacketLength
            | Self::MessageTooLong
            | Self::AccessTooLong
            | Self::Immediate
            | Self::TooManyReads => Nak::InvalidRequest,
            Self::Key | Self::Bounds | Self::Rights | Self::Invalidate => Nak::RemoteAccess,
            Self::Response => return None,
        })
    }

    /// It in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::MessageOrder => "a packet that does not continue its message",
            Self::PacketLength => "a packet of another length than its place in its message demands",
            Self::MessageTooLong => "a message that is longer than its receive buffer",
            Self::AccessTooLong => "an access to more memory than a request may name",
            Self::Immediate => "immediate data",
            Self::TooManyReads => "more RDMA Reads under way than were agreed",
            Self::Key => "an access by a key that is not valid",
            Self::Bounds => "an access outside of the bounds of its region",
            Self::Rights => "an access that its region does not allow",
            Self::Invalidate => "a key that cannot be invalidated",
            Self::Response => "a response that is not the one that is due",
        }
    }
}

/// What a refusal of the peer's says.
pub(crate) const fn describe_nak(nak: Nak) -> &'static str {
    match nak {
        Nak::Sequence => "the peer says: packet sequence error",
        Nak::InvalidRequest => "the peer says: invalid request",
        Nak::RemoteAccess => "the peer says: remote access error",
        Nak::RemoteOperational => "the peer says: remote operational error",
    }
}
