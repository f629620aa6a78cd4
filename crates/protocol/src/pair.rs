//! Two connections joined by a wire without a network: the test bench of every protocol crate.
//!
//! Time is whatever the test says. Bytes cross whole or in chunks of a size that the test picks, so that
//! every boundary of every PDU is met. [`Half`] is the driving of one connection and also serves fuzz
//! targets, which have only one end.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::{Connection, Ended, Instant, Placement, Transmit};

/// One connection with its staging area, driven as a reactor would.
#[derive(Debug)]
pub struct Half<C> {
    /// The machine itself, for the test to look at and to give inputs to.
    pub connection: C,
    staged: VecDeque<u8>,
    placement: Option<(Placement, usize)>,
    send: Transmit,
    ended: bool,
}

impl<C: Connection> Half<C> {
    /// Starts driving `connection`.
    pub fn new(connection: C) -> Self {
        let send = Transmit::new(1 << 20, 256);
        Self { connection, staged: VecDeque::new(), placement: None, send, ended: false }
    }

    /// Receives `bytes`, as far as the connection wants them; the rest stays staged.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.staged.extend(bytes);
        while self.advance(now) {}
    }

    /// Bytes received and not yet consumed.
    pub fn staged(&self) -> usize {
        self.staged.len()
    }

    /// One step of consuming; false when nothing moved.
    fn advance(&mut self, now: Instant) -> bool {
        if self.placement.is_none() {
            self.placement = self.connection.take_placement().map(|placement| (placement, 0));
        }
        if self.placement.is_some() {
            return self.place(now);
        }
        if self.staged.is_empty() || !self.connection.wants_bytes() {
            return false;
        }
        let consumed = self.connection.handle_bytes(now, self.staged.make_contiguous());
        self.staged.drain(..consumed);
        consumed > 0
    }

    fn place(&mut self, now: Instant) -> bool {
        let Some((placement, filled)) = self.placement.as_mut() else { return false };
        let count = placement.len.saturating_sub(*filled).min(self.staged.len());
        let from = placement.start.saturating_add(*filled);
        let room = placement.buf.get_mut(from..from.saturating_add(count)).unwrap_or_default();
        for (target, byte) in room.iter_mut().zip(self.staged.drain(..count)) {
            *target = byte;
        }
        *filled = filled.saturating_add(count);
        let whole = *filled == placement.len;
        if whole && let Some((placement, _)) = self.placement.take() {
            self.connection.handle_placed(now, placement);
        }
        whole
    }

    /// Everything that the connection wants sent now.
    pub fn transmit(&mut self, now: Instant) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            self.send.clear();
            self.connection.poll_transmit(now, &mut self.send);
            if self.send.is_empty() {
                return bytes;
            }
            for segment in self.send.segments() {
                bytes.extend_from_slice(self.send.bytes(segment));
            }
            self.connection.handle_transmitted(now, self.send.len());
        }
    }

    /// Tells the connection once that its transport is gone.
    pub fn end(&mut self, now: Instant, how: Ended) {
        if !core::mem::replace(&mut self.ended, true) {
            self.connection.handle_ended(now, how);
        }
    }
}

/// Two connections, each the other's peer.
#[derive(Debug)]
pub struct Pair<A, B> {
    /// One end, by custom the initiator or host.
    pub near: Half<A>,
    /// The other end, by custom the target or controller.
    pub far: Half<B>,
    /// What both ends are told the time is.
    pub now: Instant,
    /// Bytes cross in chunks of at most this many.
    pub chunk: usize,
}

impl<A: Connection, B: Connection> Pair<A, B> {
    /// Joins two connections at time zero; bytes cross whole.
    pub fn new(near: A, far: B) -> Self {
        Self { near: Half::new(near), far: Half::new(far), now: Instant::ZERO, chunk: usize::MAX }
    }

    /// Moves bytes both ways until neither end has any to send, and says how many moved. Actions are the
    /// test's business: drain them between calls.
    pub fn exchange(&mut self) -> usize {
        let mut moved = 0_usize;
        loop {
            match self.exchange_once() {
                0 => return moved,
                step => moved = moved.saturating_add(step),
            }
        }
    }

    /// Moves what the near end has to send, and then what the far end has; says how many bytes moved.
    pub fn exchange_once(&mut self) -> usize {
        let out = self.near.transmit(self.now);
        for chunk in out.chunks(self.chunk.max(1)) {
            self.far.receive(self.now, chunk);
        }
        let back = self.far.transmit(self.now);
        for chunk in back.chunks(self.chunk.max(1)) {
            self.near.receive(self.now, chunk);
        }
        out.len().saturating_add(back.len())
    }
}
