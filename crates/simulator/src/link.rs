//! One direction of a simulated stream: chunks on their way, in order.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::Instant;

use crate::damage::{Damage, Framing};
use crate::dice::Dice;
use crate::network_conditions::NetworkConditions;

/// One direction of a stream.
#[derive(Default)]
pub(crate) struct Link {
    travelling: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes in them.
    bytes: usize,
    /// Cuts the stream into PDUs, where they are damaged.
    framing: Option<Framing>,
}

impl Link {
    /// Sends bytes on their way, in chunks.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        mut bytes: &[u8],
        (conditions, dice): (&NetworkConditions, &mut Dice),
    ) {
        while !bytes.is_empty() {
            let (chunk, rest) = bytes.split_at(dice.within(1..=conditions.longest).min(bytes.len()));
            let due = now + dice.span(&conditions.delay);
            let last = self.travelling.back().map_or(due, |(last, _)| *last);
            self.bytes += chunk.len();
            self.travelling.push_back((due.max(last), chunk.to_vec()));
            bytes = rest;
        }
    }

    /// What becomes of bytes on a network that damages them: PDUs that are whole go on, damaged or not.
    pub(crate) fn pass(&mut self, bytes: Vec<u8>, damage: Option<&mut Damage>) -> Vec<u8> {
        match damage {
            None => bytes,
            Some(damage) => self.framing.get_or_insert_default().pass(&bytes, damage),
        }
    }

    /// The next chunk that has arrived.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (due, _) = self.travelling.front()?;
        if *due > now {
            return None;
        }
        let (_, bytes) = self.travelling.pop_front()?;
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// When the next chunk arrives.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.travelling.front().map(|(due, _)| *due)
    }

    /// Bytes on their way.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What travels is lost.
    pub(crate) fn lose(&mut self) {
        self.travelling.clear();
        self.bytes = 0;
    }

    /// What travels takes so much longer.
    pub(crate) fn hold_up(&mut self, by: Duration) {
        self.travelling.iter_mut().for_each(|(due, _)| *due = *due + by);
    }
}
