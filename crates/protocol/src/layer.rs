//! What stands between a byte stream and a connection: TLS, for example.
//!
//! A [`Layer`] turns the bytes of the wire into plain ones and back. [`Layered`] joins it with any [`Connection`] into a connection again, so that neither
//! the protocol nor whoever drives it knows of the layer. The layer fills the memory that the connection names for a payload, so a payload is
//! decrypted or copied once, into its place.

use alloc::vec::Vec;

use crate::{CloseReason, Connection, Ended, Instant, Placement, Transmit};

/// A transformation of a byte stream, as a pure state machine.
pub trait Layer {
    /// The most contiguous bytes of the wire that it ever needs staged at once.
    const STAGING: usize;

    /// Offers bytes of the wire and says how many were consumed from the front. It consumes none while it [has plain bytes](Self::has_plain).
    fn handle_wire(&mut self, now: Instant, wire: &[u8]) -> usize;

    /// True while there are plain bytes to be taken.
    fn has_plain(&self) -> bool;

    /// Moves plain bytes to the front of `room` and says how many.
    fn take_plain(&mut self, room: &mut [u8]) -> usize;

    /// True once plain bytes may be sent: whatever the ends had to agree on is agreed.
    fn is_open(&self) -> bool;

    /// Adds the bytes of the wire that stand for a send to the end of `wire`. Called only while it [is open](Self::is_open).
    fn seal(&mut self, plain: &Transmit, wire: &mut Transmit);

    /// Adds what it wants to send itself.
    fn poll_wire(&mut self, now: Instant, wire: &mut Transmit);

    /// The deadline has passed.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Why the transport is to be closed, once everything is sent.
    fn poll_close(&self) -> Option<CloseReason>;
}

/// A send of the connection's on its way through the layer.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    /// Bytes of the wire that have not gone out.
    wire: usize,
    /// Bytes that the connection hears of then.
    plain: usize,
}

/// A connection behind a layer.
#[derive(Debug)]
pub struct Layered<L, C> {
    layer: L,
    connection: C,
    /// Plain bytes that the connection has not consumed; at most its own `STAGING`.
    staged: Vec<u8>,
    /// What the connection wants filled, and how far it is.
    placement: Option<(Placement, usize)>,
    plain: Transmit,
    in_flight: Option<InFlight>,
}

/// Pieces of a plain send, at most.
const SEGMENTS: usize = 256;

impl<L: Layer, C: Connection> Layered<L, C> {
    /// Puts a layer before a connection.
    pub fn new(layer: L, connection: C) -> Self {
        let plain = Transmit::new(0, SEGMENTS);
        Self { layer, connection, staged: Vec::new(), placement: None, plain, in_flight: None }
    }

    /// The connection itself.
    pub fn connection(&mut self) -> &mut C {
        &mut self.connection
    }

    /// Gives the connection plain bytes, as far as there are some and it wants them.
    fn deliver(&mut self, now: Instant) {
        loop {
            if self.placement.is_none() {
                self.placement = self.connection.take_placement().map(|placement| (placement, 0));
            }
            let went_on =
                if self.placement.is_some() { self.fill_placement(now) } else { self.offer_staged(now) };
            if !went_on {
                return;
            }
        }
    }

    /// Fills what the connection has named; false when nothing moved.
    fn fill_placement(&mut self, now: Instant) -> bool {
        let Some((placement, filled)) = &mut self.placement else { return false };
        let start = placement.start.saturating_add(*filled);
        let end = placement.start.saturating_add(placement.len);
        let room = placement.buf.get_mut(start..end).unwrap_or_default();
        let moved = if self.staged.is_empty() {
            self.layer.take_plain(room)
        } else {
            let count = room.len().min(self.staged.len());
            for (target, byte) in room.iter_mut().zip(self.staged.drain(..count)) {
                *target = byte;
            }
            count
        };
        *filled = filled.saturating_add(moved);
        if *filled == placement.len
            && let Some((placement, _)) = self.placement.take()
        {
            self.connection.handle_placed(now, placement);
            return true;
        }
        moved > 0
    }

    /// Offers staged bytes, with more behind them if there are some; false when nothing moved.
    fn offer_staged(&mut self, now: Instant) -> bool {
        if !self.connection.wants_bytes() {
            return false;
        }
        let held = self.staged.len();
        self.staged.resize(C::STAGING.max(held), 0);
        let more = self.layer.take_plain(self.staged.get_mut(held..).unwrap_or_default());
        self.staged.truncate(held.saturating_add(more));
        if self.staged.is_empty() {
            return false;
        }
        let consumed = self.connection.handle_bytes(now, &self.staged);
        self.staged.drain(..consumed);
        // It may have found memory just now.
        self.placement = self.connection.take_placement().map(|placement| (placement, 0));
        consumed > 0 || more > 0 || self.placement.is_some()
    }
}

impl<L: Layer, C: Connection> Connection for Layered<L, C> {
    type Input = C::Input;
    type Action = C::Action;

    const STAGING: usize = L::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut consumed = 0_usize;
        while !self.layer.has_plain()
            && let rest = bytes.get(consumed..).unwrap_or_default()
            && !rest.is_empty()
        {
            let count = self.layer.handle_wire(now, rest);
            if count == 0 {
                break;
            }
            consumed = consumed.saturating_add(count);
            self.deliver(now);
        }
        consumed
    }

    fn take_placement(&mut self) -> Option<Placement> {
        None
    }

    fn handle_placed(&mut self, _now: Instant, _placement: Placement) {}

    fn handle_input(&mut self, now: Instant, input: Self::Input) {
        self.connection.handle_input(now, input);
        self.deliver(now);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        let Some(InFlight { wire, plain }) = &mut self.in_flight else { return };
        *wire = wire.saturating_sub(bytes);
        if *wire == 0 {
            let plain = *plain;
            self.in_flight = None;
            if plain > 0 {
                self.connection.handle_transmitted(now, plain);
            }
            self.deliver(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.layer.handle_timeout(now);
        self.connection.handle_timeout(now);
        self.deliver(now);
    }

    fn handle_memory(&mut self, now: Instant) {
        self.connection.handle_memory(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.connection.handle_ended(now, how);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        // Memory may have come back for what the connection could not take.
        self.deliver(now);
        self.layer.poll_wire(now, send);
        let mut plain = 0;
        if self.layer.is_open() && !send.is_full() {
            self.plain.set_budget(send.room());
            self.connection.poll_transmit(now, &mut self.plain);
            plain = self.plain.len();
            if plain > 0 {
                self.layer.seal(&self.plain, send);
                self.plain.clear();
            }
        }
        if !send.is_empty() {
            self.in_flight = Some(InFlight { wire: send.len(), plain });
        }
    }

    fn poll_action(&mut self) -> Option<Self::Action> {
        self.connection.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.layer.poll_timeout(), self.connection.poll_timeout()].into_iter().flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        // What the layer says for itself is heard also while the connection takes nothing.
        self.connection.wants_bytes() || !self.layer.has_plain() && self.staged.is_empty()
    }

    fn is_established(&self) -> bool {
        self.layer.is_open() && self.connection.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.connection.awaits_memory()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.layer.poll_close().or_else(|| self.connection.poll_close())
    }
}
