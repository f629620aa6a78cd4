//! An upper layer over a byte stream, as its driver sees it: received bytes become notices, what waits becomes bytes.

use buf::Buf;
use protocol::{Ended, Instant, Placement, Transmit};

use super::framing::{Next, Receiver};
use crate::datamover::{ReceivedPdu, UpperLayer};
use crate::limits::STAGING;
use crate::pdu::Bhs;

/// A role's datamover of a byte stream, for an upper layer that owns it.
pub(crate) trait StreamMover<U> {
    /// The receiving side.
    fn receiver(&mut self) -> &mut Receiver;

    /// True when the peer had better read first.
    fn is_full(&self) -> bool;

    /// Handles a PDU. False when it is to stay where it is.
    fn handle_pdu(upper: &mut U, pdu: ReceivedPdu<'_>) -> bool;

    /// The data of a long PDU has arrived in memory.
    fn handle_data(upper: &mut U, header: &Bhs, buf: Buf);

    /// Sends one PDU; false if there is none.
    fn send_one(upper: &mut U, out: &mut Transmit) -> bool;

    /// Everything that was given to the transport has gone out.
    fn sent(&mut self) {}

    /// The transport is gone.
    fn end(&mut self);
}

/// One connection over a byte stream.
#[derive(Debug)]
pub struct TcpConnection<U> {
    upper: U,
}

impl<U> TcpConnection<U> {
    /// Drives this upper layer.
    pub(super) fn over(upper: U) -> Self {
        Self { upper }
    }

    pub(super) fn upper(&self) -> &U {
        &self.upper
    }

    pub(super) fn upper_mut(&mut self) -> &mut U {
        &mut self.upper
    }
}

impl<U: UpperLayer> protocol::Connection for TcpConnection<U>
where
    U::Mover: StreamMover<U>,
{
    type Input = U::Input;
    type Action = U::Action;
    const STAGING: usize = STAGING;

    #[inline]
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        self.upper.begin_turn(now);
        let used = receive(&mut self.upper, bytes);
        if used > 0 {
            self.upper.hear();
        }
        self.upper.end_turn();
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.upper.mover().receiver().take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.upper.begin_turn(now);
        self.upper.hear();
        self.upper.mover().receiver().placed(placement);
        receive(&mut self.upper, &[]);
        self.upper.end_turn();
    }

    #[inline]
    fn handle_input(&mut self, now: Instant, input: Self::Input) {
        self.upper.begin_turn(now);
        self.upper.handle_input(input);
        self.upper.end_turn();
    }

    #[inline]
    fn handle_transmitted(&mut self, now: Instant, _bytes: usize) {
        self.upper.begin_turn(now);
        self.upper.mover().sent();
        self.upper.send_done_notify();
        self.upper.end_turn();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.upper.begin_turn(now);
        self.upper.handle_timeout();
        self.upper.end_turn();
    }

    fn handle_memory(&mut self, now: Instant) {
        self.upper.begin_turn(now);
        self.upper.handle_memory();
        self.upper.end_turn();
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.upper.begin_turn(now);
        self.upper.mover().end();
        self.upper.handle_ended(how);
        self.upper.end_turn();
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.upper.begin_turn(now);
        while !send.is_full() && U::Mover::send_one(&mut self.upper, send) {}
        if !send.is_empty() {
            self.upper.send_begun_notify();
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Self::Action> {
        self.upper.poll_action()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        self.upper.poll_timeout()
    }

    #[inline]
    fn wants_bytes(&mut self) -> bool {
        self.upper.is_over() || !is_blocked(&mut self.upper)
    }

    fn is_established(&self) -> bool {
        self.upper.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.upper.awaits_memory()
    }

    fn poll_close(&self) -> Option<protocol::CloseReason> {
        self.upper.poll_close()
    }
}

/// True while nothing more can be taken from the stream.
#[inline]
fn is_blocked<U: UpperLayer>(upper: &mut U) -> bool
where
    U::Mover: StreamMover<U>,
{
    upper.mover().is_full() || upper.is_withheld()
}

/// Takes what can be taken from the front of the staged bytes.
#[inline]
fn receive<U: UpperLayer>(upper: &mut U, bytes: &[u8]) -> usize
where
    U::Mover: StreamMover<U>,
{
    let mut used = 0;
    while !upper.is_over() && !is_blocked(upper) {
        let rest = bytes.get(used..).unwrap_or_default();
        used += match upper.mover().receiver().next(rest) {
            Next::Short => break,
            Next::Moved { size } => size,
            Next::Pdu { pdu, size } => {
                if !U::Mover::handle_pdu(upper, pdu) {
                    break;
                }
                size
            }
            Next::Ended { header, buf, size } => {
                if let Some(buf) = buf {
                    U::Mover::handle_data(upper, &header, buf);
                }
                size
            }
            Next::Fault { violation, header } => {
                upper.violation_notify(violation, header.as_ref());
                break;
            }
        };
    }
    if upper.is_over() { bytes.len() } else { used }
}
