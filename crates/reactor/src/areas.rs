//! Memory that connections use only while bytes move: staging areas and sends, last used first, so that it stays in cache.

use crate::config::Config;
use crate::limits::{HELD_AREAS, LEAST_SHARE, SEND_SEGMENTS};
use crate::sys::{Receive, Send};

/// A core's staging areas and sends. Sends are at most one per connection, so they have no limit of their own.
#[derive(Debug)]
pub(crate) struct Areas {
    receives: Vec<Box<Receive>>,
    sends: Vec<Box<Send>>,
    made: usize,
    limit: usize,
    staging: usize,
    turn: usize,
    budget: usize,
    share: usize,
}

impl Areas {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            receives: Vec::new(),
            sends: Vec::new(),
            made: 0,
            limit: config.staging_areas.max(1),
            staging: config.staging,
            turn: config.turn_budget.max(1),
            budget: config.send_budget,
            share: config.send_share.min(config.send_budget),
        }
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

    /// Bytes that a turn sends, about.
    pub(crate) fn turn(&self) -> usize {
        self.turn
    }

    /// Bytes that one receive may bring where so many connections receive at the same moment.
    pub(crate) fn receive_share(&self, receivers: usize) -> usize {
        if receivers > 1 { (self.turn / receivers).max(LEAST_SHARE) } else { usize::MAX }
    }

    /// Bytes of one send, about, of a connection that has the core for itself, or shares it.
    pub(crate) fn send_share(&self, shared: bool) -> usize {
        if shared { self.share } else { self.budget }
    }

    /// A send without content, to be filled with about `budget` bytes.
    pub(crate) fn take_send(&mut self, budget: usize) -> Box<Send> {
        let mut send = self.sends.pop().unwrap_or_else(|| Box::new(Send::new(budget, SEND_SEGMENTS)));
        send.set_budget(budget);
        send
    }

    /// Takes a send back.
    pub(crate) fn put_send(&mut self, mut send: Box<Send>) {
        send.clear();
        self.sends.push(send);
    }
}
