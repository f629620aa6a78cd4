//! Every violation of a peer's, and the refusal that answers it (IBTA §9.7.4.1.6, §9.7.5.2 and §9.9.3).
//!
//! What a peer can do wrong, what follows, and the test of it. A refusal (NAK) ends the connection at both ends, and is said again while packets come.
//!
//! | what comes | what follows | test |
//! |---|---|---|
//! | a damaged datagram, a torn packet, another version or service, a notice of congestion | dropped | `packet`, `setup`: `what_is_damaged_or_foreign_is_nobodys` |
//! | a packet of another address, or for a queue pair that there is none of | dropped | `setup`: `others_can_neither_end_nor_feed_a_connection` |
//! | an atomic operation, or a reserved one | NAK, invalid request | `responder`: `every_violation_has_its_refusal_and_touches_nothing` |
//! | a packet out of the order of its message | NAK, invalid request | likewise |
//! | a payload of another length than its place demands, or than its access says | NAK, invalid request | likewise |
//! | a message longer than its receive; immediate data; an access longer than any | NAK, invalid request | likewise |
//! | more reads than agreed, or any where none is | NAK, invalid request | `responder`: `more_reads_than_agreed_are_refused`, `where_no_reads_are_agreed_the_first_is_refused` |
//! | a key that names nothing; bounds, rights; a key that cannot be invalidated | NAK, remote access error | `every_violation_has_its_refusal_and_touches_nothing`, and held against a model in `accesses` |
//! | a region that ends while it is read | NAK, remote access error | `responder`: `a_region_that_ends_while_it_is_read_is_told` |
//! | a packet before the one that is due, whatever it is | NAK, sequence error, once; the connection goes on | `responder`: `a_packet_that_is_missing_is_told_once`, `nothing_that_comes_early_is_looked_at` |
//! | a packet again | acknowledged, or read again if that is allowed still | `responder`: `what_comes_again_is_acknowledged_again_and_changes_nothing`, `an_old_write_does_not_touch_a_region_that_has_its_key` |
//! | a message without a receive | RNR NAK; the connection goes on | `responder`: `a_message_without_a_receive_waits_for_one` |
//! | a response that is not due, too long, too short, or over too early or late | the connection ends with a disconnect, as nothing answers a response | `requester`: `responses_that_are_not_due_end_the_connection`, `a_part_that_ends_early_breaks_a_rule` |
//! | an acknowledgement of what was not sent, or a reserved one | dropped | `responder`: `acknowledgements_of_what_was_never_sent_are_passed_over`, `requester`: `answers_that_say_nothing_known_are_passed_over` |
//! | a refusal | the connection ends | `requester`: `refusals_end_the_connection` |
//! | no acknowledgement; no receive, as often as the peer wants to be tried | the connection is lost | `requester`: `it_sends_again_when_nothing_comes_and_gives_up`, `it_waits_for_a_receive_as_often_as_its_peer_wants` |
//! | a request for a connection that cannot be granted | REJ with the reason | `setup`: `requests_that_cannot_be_granted_are_rejected` |
//! | a reply for a connection that was given up | REJ | `setup`: `a_reply_for_a_connection_that_was_given_up_is_rejected` |
//! | a disconnect of an unknown connection | DREP, up to a limit | `setup`: `a_wish_to_end_is_answered_as_often_as_it_comes`, `answers_to_strangers_are_bounded` |
//! | a delay without end (MRA) | as long as the limit says | `setup`: `a_peer_may_ask_for_patience_within_a_limit` |

use verbs::RegionError;

use crate::syndrome::Nak;

/// What a peer did that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// An operation that is not served: an atomic one, or one that is reserved.
    Operation,
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
            Self::Operation
            | Self::MessageOrder
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
            Self::Operation => "an operation that is not served",
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
