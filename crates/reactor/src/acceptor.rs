//! What the accepting core keeps: its listeners, and whose turn it is to get a stream.

use std::sync::atomic::Ordering;

use protocol::Instant;

use crate::listeners::Listeners;
use crate::shared::Inbox;

/// What a core needs to accept streams, for itself and for the others.
#[derive(Debug, Default)]
pub(crate) struct Acceptor {
    pub(crate) listeners: Listeners,
    /// The core that is asked first for the next stream, so that equals take turns.
    next_core: usize,
}

impl Acceptor {
    /// The running core that has the fewest streams.
    pub(crate) fn least_loaded<M>(&mut self, inboxes: &[Inbox<M>]) -> Option<usize> {
        let cores = inboxes.len();
        let load = |core: usize| {
            let inbox = inboxes.get(core % cores).filter(|inbox| !inbox.is_stopped());
            inbox.map_or(usize::MAX, |inbox| inbox.load.load(Ordering::Relaxed))
        };
        let order = self.next_core..self.next_core + cores;
        let core = order.min_by_key(|core| load(*core)).map(|core| core % cores)?;
        self.next_core = (core + 1) % cores;
        Some(core)
    }

    /// When listeners that have backed off try again.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.listeners.poll_timeout()
    }
}
