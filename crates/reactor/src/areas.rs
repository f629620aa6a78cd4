//! Memory that connections use only while bytes move: staging areas and sends, last used first, so that it stays in cache.

use crate::config::Config;
use crate::limits::{HELD_AREAS, SEND_SEGMENTS};
use crate::sys::{Receive, Send};

/// A core's staging areas and sends. Sends are at most one per connection, so they have no limit of their own.
#[derive(Debug)]
pub(crate) struct Areas {
    receives: Vec<Box<Receive>>,
    sends: Vec<Box<Send>>,
    made: usize,
    limit: usize,
    staging: usize,
    budget: usize,
}

impl Areas {
    pub(crate) fn new(config: &Config) -> Self {
        let (limit, staging, budget) = (config.staging_areas.max(1), config.staging, config.send_budget);
        Self { receives: Vec::new(), sends: Vec::new(), made: 0, limit, staging, budget }
    }

    /// Bytes of a staging area.
    pub(crate) fn staging(&self) -> usize {
        self.staging
    }

    /// How many areas connections may hold while they wait for bytes. The others are for those whose bytes have come.
    pub(crate) fn held(&self) -> usize {
        (self.limit * HELD_AREAS / 100).max(1)
    }

    /// An empty staging area, unless all are in use.
    pub(crate) fn take_receive(&mut self) -> Option<Box<Receive>> {
        if let Some(receive) = self.receives.pop() {
            return Some(receive);
        }
        if self.made >= self.limit {
            return None;
        }
        self.made += 1;
        Some(Box::new(Receive::new(self.staging)))
    }

    /// Takes a staging area back.
    pub(crate) fn put_receive(&mut self, mut receive: Box<Receive>) {
        receive.clear();
        self.receives.push(receive);
    }

    /// A send without content.
    pub(crate) fn take_send(&mut self) -> Box<Send> {
        self.sends.pop().unwrap_or_else(|| Box::new(Send::new(self.budget, SEND_SEGMENTS)))
    }

    /// Takes a send back.
    pub(crate) fn put_send(&mut self, mut send: Box<Send>) {
        send.clear();
        self.sends.push(send);
    }
}
