//! Responses that wait until every aborted task has ended: those of task management and of a logout (RFC 7143 §4.2.3.3, §11.14).

use protocol::Instant;

use crate::pdu::Bhs;
use crate::sequence::Delivery;

/// What follows a response that waited for tasks to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The connection goes on.
    GoOn,
    /// The connection ends.
    Close,
}

/// A response that waits.
#[derive(Debug)]
pub(super) struct PendingResponse {
    pub(super) header: Bhs,
    pub(super) delivery: Delivery,
    pub(super) then: Then,
    /// The reset of other nexuses' tasks that it waits for.
    pub(super) reset: Option<u32>,
    /// Until when it waits, and what is answered then.
    pub(super) due: Option<(Instant, Bhs)>,
}

impl PendingResponse {
    /// A response to a request that was delivered so.
    pub(super) fn new(header: Bhs, delivery: Delivery) -> Self {
        Self { header, delivery, then: Then::GoOn, reset: None, due: None }
    }

    /// The same, with what follows it.
    pub(super) fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}
