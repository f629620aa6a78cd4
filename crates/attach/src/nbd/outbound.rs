//! Replies that wait to be sent, in order, and what they hold outside of the pool.

use std::collections::VecDeque;

use protocol::{Transmit, Unsent};

use super::limits::{UNSENT, UNSENT_BYTES};
use super::reply::Reply;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    queue: VecDeque<Reply>,
    unsent: Unsent,
}

impl Outbound {
    pub(crate) fn push(&mut self, reply: Reply) {
        self.unsent.add(reply.unpooled());
        self.queue.push_back(reply);
    }

    /// Adds the next reply to a send; false when there is none.
    pub(crate) fn send_one(&mut self, send: &mut Transmit) -> bool {
        let Some(reply) = self.queue.pop_front() else { return false };
        self.unsent.leave(reply.unpooled());
        reply.put(send);
        true
    }

    /// Everything that was given to the transport has gone out.
    pub(crate) fn sent(&mut self) {
        self.unsent.sent();
    }

    /// Drops whatever waits to be sent.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.unsent.drop_waiting();
    }

    /// True when the client, which may have so many requests under way, had better read first.
    pub(crate) fn is_full(&self, requests: usize) -> bool {
        self.queue.len() >= UNSENT + requests || self.bytes() >= UNSENT_BYTES
    }

    /// Bytes of what waits and is being sent, outside of pools.
    pub(crate) fn bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// Bytes of the queue itself.
    pub(crate) fn size(&self) -> usize {
        self.queue.capacity() * size_of::<Reply>()
    }
}
