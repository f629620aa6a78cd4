//! What a connection does while it is set up: frames, the consumer's decision, and what follows from what was agreed (RFC 5044 §7.1, RFC 6581).

use protocol::{CloseReason, Instant};
use verbs::{EndReason, PrivateData, SetupEvent};

use super::{Connection, Role};
use crate::inbound_reads::InboundReads;
use crate::mpa::{Frame, FrameError, FrameKind, Receiver, Refusal, Rtr, Setup, Terms};
use crate::violation::Violation;

impl Connection {
    /// Begins as an initiator.
    pub(super) fn request(&mut self, private_data: PrivateData) {
        self.config.offer.ird = self.grant_reads(self.config.offer.ird);
        self.frame = Some(self.config.offer.request(private_data));
        self.setup = Setup::RequestDue;
    }

    /// Memory for the peer's RDMA Reads: for how many there is some, at least one if any are wanted.
    fn grant_reads(&mut self, wanted: u16) -> u16 {
        let mut granted = wanted;
        while granted > 1 && !self.account.charge_table(InboundReads::bytes(granted)) {
            granted /= 2;
        }
        if granted <= 1 {
            self.account.count(InboundReads::bytes(granted));
        }
        self.reads = InboundReads::new(granted);
        granted
    }

    /// Takes the peer's frame from the front of `bytes`, once it is there.
    pub(super) fn take_frame(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let kind = match self.config.role {
            Role::Initiator(_) => FrameKind::Reply,
            Role::Responder => FrameKind::Request,
        };
        let received = match Frame::decode(kind, bytes) {
            Ok(None) => return 0,
            Ok(Some(received)) => received,
            Err(error) => {
                self.fail(describe(error));
                return bytes.len();
            }
        };
        match kind {
            FrameKind::Request => self.requested(received.frame),
            FrameKind::Reply => self.replied(received.frame),
        }
        self.since = now;
        received.length
    }

    fn requested(&mut self, request: Frame) {
        match self.config.offer.answer(&request) {
            Ok(terms) => {
                self.terms = Terms { ird: self.grant_reads(terms.ird), ..terms };
                self.setup.requested();
                let private_data = request.private_data.clone();
                self.frame = Some(request);
                self.act(SetupEvent::Requested(private_data));
            }
            Err(_) => self.fail("an MPA request of another revision"),
        }
    }

    fn replied(&mut self, reply: Frame) {
        if reply.reject {
            self.act(SetupEvent::Rejected(reply.private_data));
            let refused = CloseReason::Refused("the responder rejects the connection");
            return self.end(EndReason::ByPeer, refused);
        }
        match self.config.offer.conclude(&reply) {
            Ok(terms) => {
                self.agree(terms);
                self.setup.replied();
                match terms.rtr {
                    Some(Rtr::Read) => self.sends.post_rtr_read(),
                    rtr => self.sender.show_readiness(rtr),
                }
                self.act(SetupEvent::Established(reply.private_data));
            }
            Err(Refusal::InsufficientIrd(terms)) => {
                self.agree(terms);
                self.violate(Violation::InsufficientIrd);
            }
            Err(Refusal::NoMatchingRtr(terms)) => {
                self.agree(terms);
                self.violate(Violation::NoMatchingRtr);
            }
            Err(Refusal::Revision) => self.fail("an MPA reply of another revision"),
            Err(Refusal::NotEnhanced) => self.fail("an MPA reply without the enhanced part"),
        }
    }

    /// FPDUs are received and sent on these terms from now on.
    fn agree(&mut self, terms: Terms) {
        self.terms = terms;
        self.receiver = Some(Receiver::new(terms));
        self.sender.open(terms, self.config.mss);
    }

    /// The consumer lets the connection be.
    pub(super) fn accept(&mut self, private_data: PrivateData) {
        if !self.setup.accept(self.terms.rtr) {
            return;
        }
        let reply = self.frame.take().map(|request| self.config.offer.reply(&request, self.terms));
        self.frame = reply.map(|reply| Frame { private_data, ..reply });
        self.agree(self.terms);
    }

    /// The consumer does not.
    pub(super) fn reject(&mut self, private_data: PrivateData) {
        if !self.setup.reject() {
            return;
        }
        let reply = self.frame.take().map(|request| self.config.offer.reply(&request, self.terms));
        let reply = reply.map(|reply| Frame { private_data, reject: true, ..reply });
        self.end(EndReason::ByUs, CloseReason::Refused("the connection is rejected"));
        (self.setup, self.frame) = (Setup::RejectDue, reply);
    }

    /// The first FPDU has come: this side may send.
    pub(super) fn first_fpdu(&mut self) {
        if self.setup.fpdu_received() {
            self.act(SetupEvent::Established(PrivateData::NONE));
        }
    }

    /// It comes to nothing, and there is no way to say why.
    fn fail(&mut self, words: &'static str) {
        self.end(EndReason::Violation(words), CloseReason::Violation(words));
    }
}

const fn describe(error: FrameError) -> &'static str {
    match error {
        FrameError::Key => "something else than an MPA request or reply",
        FrameError::PrivateDataLength => "an MPA frame with more than 512 bytes of private data",
        FrameError::Enhanced => "an enhanced MPA frame without its four bytes",
    }
}
