//! How far the sending half of a connection is: what it writes FPDUs with, whose message is going on, and what is to be sent before and after all messages.

use alloc::vec::Vec;

use crate::limits::LEAST_MULPDU;
use crate::mpa::{FpduWriter, Rtr, Terms, mulpdu};
use crate::terminate::{self, Offender};
use crate::violation::Violation;

/// Whose message is going on, or was last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// One of the send queue.
    Request,
    /// A response to a read.
    Response,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    /// None before the set-up, and after the end.
    pub(crate) writer: Option<FpduWriter>,
    pub(crate) mulpdu: usize,
    /// What shows readiness and is to be sent.
    pub(crate) rtr: Option<Rtr>,
    pub(crate) turn: Turn,
    /// The last message has segments to come, and no other may begin.
    pub(crate) is_within: bool,
    /// The ULPDU of the Terminate that is to be sent.
    pub(crate) terminate: Option<Vec<u8>>,
    /// Bytes of the send under way.
    pub(crate) in_flight: usize,
}

impl Sender {
    pub(crate) const fn new() -> Self {
        Self {
            writer: None,
            mulpdu: LEAST_MULPDU,
            rtr: None,
            turn: Turn::Response,
            is_within: false,
            terminate: None,
            in_flight: 0,
        }
    }

    /// The terms are known.
    pub(crate) fn open(&mut self, terms: Terms, mss: usize) {
        self.writer = Some(FpduWriter::new(terms));
        self.mulpdu = mulpdu(mss, terms.markers_out);
    }

    /// Readiness is to be shown so.
    pub(crate) fn show_readiness(&mut self, rtr: Option<Rtr>) {
        self.rtr = rtr;
    }

    /// The peer is to hear why this is the end; the reason is a segment with this length and header.
    pub(crate) fn terminate(&mut self, violation: Violation, segment: (usize, &[u8])) {
        if self.writer.is_some() {
            let offender = Offender::new(segment.0, segment.1);
            self.terminate = Some(terminate::encode(violation.error_code(), Some(&offender)));
        }
    }

    /// Nothing is sent any more.
    pub(crate) fn stop(&mut self) {
        (self.writer, self.terminate) = (None, None);
    }

    /// Bytes of the send under way have gone out; true if all have.
    pub(crate) fn transmitted(&mut self, bytes: usize) -> bool {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.in_flight == 0
    }
}
