//! Replies that wait to be sent, in order, and what they hold outside of the pool.

use std::collections::VecDeque;

use protocol::Transmit;

use super::limits::{UNSENT, UNSENT_BYTES};
use super::reply::Reply;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    queue: VecDeque<Reply>,
    /// Bytes in memory of no pool that wait to be sent, and those that are being sent.
    waiting: usize,
    leaving: usize,
}

impl Outbound {
    pub(crate) fn push(&mut self, reply: Reply) {
        self.waiting += reply.unpooled();
        self.queue.push_back(reply);
    }

    /// Adds the next reply to a send; false when there is none.
    pub(crate) fn send_one(&mut self, send: &mut Transmit) -> bool {
        let Some(reply) = self.queue.pop_front() else { return false };
        let bytes = reply.unpooled();
        self.waiting = self.waiting.saturating_sub(bytes);
        self.leaving += bytes;
        reply.put(send);
        true
    }

    /// Everything that was given to the transport has gone out.
    pub(crate) fn sent(&mut self) {
        self.leaving = 0;
    }

    /// Nothing of what waits is sent any more.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.waiting = 0;
    }

    /// True when the client, which may have so many requests under way, had better read first.
    pub(crate) fn is_full(&self, requests: usize) -> bool {
        self.queue.len() >= UNSENT + requests || self.bytes() >= UNSENT_BYTES
    }

    /// Bytes of what waits and is being sent, outside of pools.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting + self.leaving
    }

    /// Bytes of the queue itself.
    pub(crate) fn size(&self) -> usize {
        self.queue.capacity() * size_of::<Reply>()
    }
}
