//! One end of a simulated stream: an endpoint driven as the reactor drives it.

use host::Endpoint;
use protocol::{Ended, Instant, Placement, Transmit};

/// Bytes that one send gathers, about, and its pieces at most: small, so that many sends are needed.
const BUDGET: usize = 16 << 10;
const PIECES: usize = 16;

/// An endpoint with what was received and not yet consumed.
pub(crate) struct End {
    pub(crate) endpoint: Box<dyn Endpoint>,
    staged: Vec<u8>,
    placement: Option<(Placement, usize)>,
    send: Transmit,
    /// What of the send did not fit into the window yet, and how long the send is.
    unsent: Vec<u8>,
    sending: usize,
    /// A send has gone out since that was last looked at.
    sent: bool,
    ended: bool,
}

impl End {
    pub(crate) fn new(endpoint: Box<dyn Endpoint>) -> Self {
        let send = Transmit::new(BUDGET, PIECES);
        Self {
            endpoint,
            staged: Vec::new(),
            placement: None,
            send,
            unsent: Vec::new(),
            sending: 0,
            sent: false,
            ended: false,
        }
    }

    /// Receives a chunk, and leaves what follows from it for the endpoint's turn.
    pub(crate) fn parse(&mut self, now: Instant, bytes: &[u8]) {
        self.staged.extend_from_slice(bytes);
        while self.advance(now) {}
    }

    /// Receives a chunk, and gives the endpoint its turn.
    pub(crate) fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.staged.extend_from_slice(bytes);
        while self.advance(now) {}
        self.endpoint.turn(now);
        // What could not be taken before the turn may be taken after it.
        while self.advance(now) {}
    }

    fn advance(&mut self, now: Instant) -> bool {
        if self.placement.is_none() {
            self.placement = self.endpoint.take_placement().map(|placement| (placement, 0));
        }
        if let Some((placement, filled)) = &mut self.placement {
            let count = (placement.len - *filled).min(self.staged.len());
            let from = placement.start + *filled;
            placement.buf[from..from + count].copy_from_slice(&self.staged[..count]);
            self.staged.drain(..count);
            *filled += count;
            if *filled < placement.len {
                return false;
            }
            if let Some((placement, _)) = self.placement.take() {
                self.endpoint.handle_placed(now, placement);
            }
            return true;
        }
        if self.staged.is_empty() || !self.endpoint.wants_bytes() {
            return false;
        }
        let consumed = self.endpoint.handle_bytes(now, &self.staged);
        self.staged.drain(..consumed);
        consumed > 0
    }

    /// Bytes of one send, at most `room`; the rest of the send follows once there is room for it.
    pub(crate) fn transmit(&mut self, now: Instant, room: usize) -> Vec<u8> {
        if self.sending == 0 {
            self.endpoint.poll_transmit(now, &mut self.send);
            for segment in self.send.segments() {
                self.unsent.extend_from_slice(self.send.bytes(segment));
            }
            self.sending = self.unsent.len();
        }
        if room == 0 {
            return Vec::new();
        }
        let rest = self.unsent.split_off(room.min(self.unsent.len()));
        let bytes = std::mem::replace(&mut self.unsent, rest);
        if self.unsent.is_empty() && self.sending > 0 {
            let sent = std::mem::take(&mut self.sending);
            self.endpoint.handle_transmitted(now, sent);
            self.send.clear();
            self.sent = true;
        }
        bytes
    }

    /// True if a send has gone out since the last look: as in the reactor, the endpoint is to have a turn then, which finds the send's memory free.
    pub(crate) fn take_sent(&mut self) -> bool {
        std::mem::take(&mut self.sent)
    }

    /// Bytes received and not consumed.
    pub(crate) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// True while a send waits for room.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending > 0
    }

    /// True once it was told that its stream is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends it, once.
    pub(crate) fn end(&mut self, now: Instant, how: Ended) {
        if !std::mem::replace(&mut self.ended, true) {
            self.placement = None;
            self.staged.clear();
            self.send.clear();
            (self.unsent, self.sending) = (Vec::new(), 0);
            self.endpoint.handle_ended(now, how);
        }
        self.endpoint.turn(now);
    }

    /// True once its stream is over and nothing is under way behind it.
    pub(crate) fn is_gone(&self) -> bool {
        self.ended && self.endpoint.is_idle()
    }
}
