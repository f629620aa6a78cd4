//! Memory that connections use only while bytes move: staging areas and sends, last used first, so that it stays in cache.

use std::time::Duration;

use crate::budget::Budget;
use crate::config::Config;
use crate::contention::Sharing;
use crate::limits::{HELD_AREAS, LEAST_SHARE, SEND_SEGMENTS, SPARE_STAGING};
use crate::sys::{Receive, Send};

/// A core's staging areas and sends. There are few large areas; a connection that finds none gets a small one, so that a peer that keeps its own
/// busy, or stops in the middle of a message, delays no other. A connection has at most one area and one send, so small areas and sends are as
/// many as connections at most: [`SPARE_STAGING`] each, and what a send copies, which has a limit.
#[derive(Debug)]
pub(crate) struct Areas {
    receives: Vec<Box<Receive>>,
    spares: Vec<Box<Receive>>,
    sends: Vec<Box<Send>>,
    made: usize,
    limit: usize,
    staging: usize,
    spare: usize,
    turn: Budget,
    budget: usize,
    share: usize,
}

impl Areas {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            receives: Vec::new(),
            spares: Vec::new(),
            sends: Vec::new(),
            made: 0,
            limit: config.staging_areas.max(1),
            staging: config.staging,
            spare: config.staging.min(SPARE_STAGING),
            turn: Budget::new(config.turn_budget),
            budget: config.send_budget,
            share: config.send_share.min(config.send_budget),
        }
    }

    /// Bytes of a staging area, at least.
    pub(crate) fn least_staging(&self) -> usize {
        self.spare
    }

    /// How many areas connections may hold while they wait for bytes. The others are for those whose bytes have come.
    pub(crate) fn held(&self) -> usize {
        (self.limit * HELD_AREAS / 100).max(1)
    }

    /// An empty staging area, of full size unless those are all in use.
    pub(crate) fn take_receive(&mut self) -> Box<Receive> {
        if let Some(receive) = self.receives.pop() {
            return receive;
        }
        if self.made < self.limit {
            self.made += 1;
            return Box::new(Receive::new(self.staging));
        }
        self.spares.pop().unwrap_or_else(|| Box::new(Receive::new(self.spare)))
    }

    /// Takes a staging area back.
    pub(crate) fn put_receive(&mut self, mut receive: Box<Receive>) {
        receive.clear();
        let full_size = receive.capacity() == self.staging && self.receives.len() < self.made;
        if full_size { &mut self.receives } else { &mut self.spares }.push(receive);
    }

    /// Frees spare areas and sends that were not needed lately, but for as many as there are large areas.
    pub(crate) fn trim(&mut self) {
        self.spares.truncate(self.limit);
        self.sends.truncate(self.limit);
    }

    /// Bytes that a turn moves in each direction, about.
    pub(crate) fn turn(&self) -> usize {
        self.turn.bytes()
    }

    /// Learns from a turn that has ended; see [`Budget::learn`].
    pub(crate) fn learn(&mut self, moved: usize, took: Option<Duration>) {
        self.turn.learn(moved, took);
    }

    /// Bytes that one receive may bring where so many connections receive at the same moment.
    pub(crate) fn receive_share(&self, receivers: usize) -> usize {
        if receivers > 1 { (self.turn.bytes() / receivers).max(LEAST_SHARE) } else { usize::MAX }
    }

    /// Bytes of one send, about.
    pub(crate) fn send_share(&self, sharing: Sharing) -> usize {
        match sharing {
            Sharing::Alone => self.budget,
            Sharing::Shared => self.share,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A crowd that is gone leaves no more behind than a core keeps anyway.
    #[test]
    fn what_many_connections_needed_is_freed_after_them() {
        let config = Config { staging_areas: 4, ..Config::default() };
        let mut areas = Areas::new(&config);
        let crowd: Vec<_> = (0..100).map(|_| (areas.take_receive(), areas.take_send(1 << 20))).collect();
        let (large, small): (Vec<_>, Vec<_>) =
            crowd.iter().map(|(receive, _)| receive.capacity()).partition(|bytes| *bytes == config.staging);
        assert_eq!((large.len(), small), (4, vec![SPARE_STAGING; 96]));
        for (receive, send) in crowd {
            areas.put_receive(receive);
            areas.put_send(send);
        }
        areas.trim();
        assert_eq!((areas.receives.len(), areas.spares.len(), areas.sends.len()), (4, 4, 4));
    }
}
