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
    /// What happens to what it sends.
    pub mishap: Option<Mishap>,
    sent: usize,
}

impl<C: Connection> Half<C> {
    /// Starts driving `connection`.
    pub fn new(connection: C) -> Self {
        let send = Transmit::new(1 << 20, 256);
        Self {
            connection,
            staged: VecDeque::new(),
            placement: None,
            send,
            ended: false,
            mishap: None,
            sent: 0,
        }
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
            let len = self.send.len();
            if let Some(Mishap::Flip(at)) = self.mishap
                && let Some(at) = at.checked_sub(self.sent).filter(|at| *at < len)
                && let Some(byte) = bytes.iter_mut().rev().nth(len.saturating_sub(at).saturating_sub(1))
            {
                *byte ^= 0x10;
            }
            for part in parts(self.mishap, self.sent, len).into_iter().filter(|part| *part > 0) {
                self.connection.handle_transmitted(now, part);
            }
            self.sent = self.sent.saturating_add(len);
        }
    }

    /// Bytes sent so far.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Tells the connection once that its transport is gone.
    pub fn end(&mut self, now: Instant, how: Ended) {
        if !core::mem::replace(&mut self.ended, true) {
            self.connection.handle_ended(now, how);
        }
    }
}

/// What happens once to the stream that one end sends, behind so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// It is cut: what comes before is told as sent, and arrives, apart from the rest.
    Cut(usize),
    /// The next byte arrives with one bit flipped.
    Flip(usize),
}

/// The lengths of the parts in which a send of `len` bytes crosses that follows `sent` bytes.
fn parts(mishap: Option<Mishap>, sent: usize, len: usize) -> [usize; 2] {
    let first = match mishap {
        Some(Mishap::Cut(at)) => at.checked_sub(sent).map_or(len, |first| first.min(len)),
        _ => len,
    };
    [first, len.saturating_sub(first)]
}

/// Bytes that depend on `seed` and on their place and repeat nowhere: of data that comes twice, late, or at another place, nothing fits.
pub fn aperiodic(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    while bytes.len() < len {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
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
        let (mishap, sent) = (self.near.mishap, self.near.sent);
        let out = self.near.transmit(self.now);
        let crossing = Crossing { bytes: &out, parts: parts(mishap, sent, out.len()), chunk: self.chunk };
        crossing.arrive(&mut self.far, self.now);
        let (mishap, sent) = (self.far.mishap, self.far.sent);
        let back = self.far.transmit(self.now);
        let crossing = Crossing { bytes: &back, parts: parts(mishap, sent, back.len()), chunk: self.chunk };
        crossing.arrive(&mut self.near, self.now);
        out.len().saturating_add(back.len())
    }
}

/// Bytes on their way: in parts that arrive apart, and in no larger chunks.
struct Crossing<'a> {
    bytes: &'a [u8],
    parts: [usize; 2],
    chunk: usize,
}

impl Crossing<'_> {
    fn arrive<C: Connection>(self, at: &mut Half<C>, now: Instant) {
        let mut bytes = self.bytes;
        for part in self.parts {
            let (first, rest) = bytes.split_at_checked(part).unwrap_or((bytes, &[]));
            for chunk in first.chunks(self.chunk.max(1)) {
                at.receive(now, chunk);
            }
            bytes = rest;
        }
    }
}
