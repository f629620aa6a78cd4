//! One stream with its endpoint, as the loop keeps it.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use host::{Endpoint, EndpointId};
use protocol::{Ended, Instant};

use crate::sys::{Receive, Send};

/// Where a stream is in its life.
///
/// | phase | receives | sends | ends by |
/// |---|---|---|---|
/// | `Connecting` | no | no | the attempt's outcome, or its time limit |
/// | `Open` | yes | yes | the peer's end, a failure, or `poll_close` |
/// | `Flushing` | no | what is ready | everything sent, a failure, or its time limit |
/// | `Lingering` | and discards | no | the peer's end, a failure, or its time limit |
/// | `Ended` | no | no | nothing under way any more, and the endpoint idle |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The attempt is under way.
    Connecting,
    /// Bytes flow.
    Open,
    /// The peer has closed its side; what is ready to be sent still goes out.
    Flushing,
    /// This side has closed; the peer's last bytes are read, so that it gets ours and no reset.
    Lingering,
    /// Over.
    Ended,
}

/// A stream, its endpoint, and what is under way for it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is under way is independent of each other and of the phase"
)]
pub(crate) struct Connection {
    pub(crate) id: EndpointId,
    pub(crate) descriptor: Option<Rc<OwnedFd>>,
    pub(crate) endpoint: Box<dyn Endpoint>,
    pub(crate) phase: Phase,
    /// The staging area, while neither the kernel nor another connection has it.
    pub(crate) receive: Option<Box<Receive>>,
    /// Its place among those that have a staging area.
    pub(crate) held_at: Option<usize>,
    /// What is left of a send, until the connection's next turn.
    pub(crate) unsent: Option<Box<Send>>,
    pub(crate) receiving: bool,
    pub(crate) polling: bool,
    pub(crate) sending: bool,
    /// There are bytes to receive.
    pub(crate) readable: bool,
    /// Bytes came lately: more are likely, so a receive may wait with its memory.
    pub(crate) warm: bool,
    /// The receive under way has bytes in it, so it cannot be taken back.
    pub(crate) committed: bool,
    pub(crate) active_at: Instant,
    /// The earliest entry among the timers.
    pub(crate) scheduled: Option<Instant>,
    /// The loop's own deadline in this phase.
    pub(crate) deadline: Option<Instant>,
    pub(crate) touched: bool,
    /// Its turn was begun in a turn of the core's that had no time left to end it.
    pub(crate) late: bool,
    pub(crate) awaiting_buffer: bool,
    pub(crate) expects: bool,
    /// Counted against the core's limit of accepted streams.
    pub(crate) accepted: bool,
    end_reported: bool,
}

impl Connection {
    /// A stream in `phase`.
    pub(crate) fn new(
        id: EndpointId,
        descriptor: Option<Rc<OwnedFd>>,
        endpoint: Box<dyn Endpoint>,
        phase: Phase,
    ) -> Self {
        Self {
            id,
            descriptor,
            endpoint,
            phase,
            receive: None,
            held_at: None,
            unsent: None,
            receiving: false,
            polling: false,
            sending: false,
            readable: false,
            warm: false,
            committed: false,
            active_at: Instant::ZERO,
            scheduled: None,
            deadline: None,
            touched: false,
            late: false,
            awaiting_buffer: false,
            expects: false,
            accepted: false,
            end_reported: false,
        }
    }

    /// Gives the endpoint what is staged, as far as it takes it; true when anything moved.
    pub(crate) fn feed(&mut self, now: Instant) -> bool {
        let mut moved = false;
        let Some(receive) = self.receive.as_mut().filter(|_| self.phase == Phase::Open) else { return false };
        loop {
            if let Some(placement) = receive.take_full() {
                self.endpoint.handle_placed(now, placement);
                moved = true;
            }
            if receive.is_placing() {
                return moved;
            }
            if let Some(placement) = self.endpoint.take_placement() {
                receive.place(placement);
                moved = true;
                continue;
            }
            if receive.staged().is_empty() || !self.endpoint.wants_bytes() {
                return moved;
            }
            let consumed = self.endpoint.handle_bytes(now, receive.staged());
            receive.consume(consumed);
            moved |= consumed > 0;
            if consumed == 0 {
                let Some(placement) = self.endpoint.take_placement() else { return moved };
                receive.place(placement);
                moved = true;
            }
        }
    }

    /// True when the endpoint takes bytes now, or a payload is only half there.
    pub(crate) fn wants_bytes(&mut self) -> bool {
        match self.phase {
            Phase::Open => {
                self.receive.as_ref().is_some_and(|receive| receive.is_placing())
                    || self.endpoint.wants_bytes()
            }
            Phase::Lingering => true,
            Phase::Connecting | Phase::Flushing | Phase::Ended => false,
        }
    }

    /// Reports to the endpoint, once, that its stream has ended.
    pub(crate) fn report_end(&mut self, now: Instant, how: Ended) {
        if !std::mem::replace(&mut self.end_reported, true) {
            self.endpoint.handle_ended(now, how);
        }
    }

    /// When the endpoint or the loop wants to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let endpoint = if self.end_reported { None } else { self.endpoint.poll_timeout() };
        match (endpoint, self.deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// True when the end was reported to the endpoint.
    pub(crate) fn is_end_reported(&self) -> bool {
        self.end_reported
    }

    /// True when it can be dropped.
    pub(crate) fn is_gone(&self) -> bool {
        let under_way = self.receiving || self.polling || self.sending;
        self.phase == Phase::Ended && !under_way && self.endpoint.is_idle()
    }
}
