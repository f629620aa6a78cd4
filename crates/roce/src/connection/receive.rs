//! What a connection receives: packets for its queue pair, and messages for its manager.

use protocol::{CloseReason, Instant};
use verbs::EndReason;

use super::Connection;
use crate::management::{Change, Content, Message};
use crate::opcode::Opcode;
use crate::packet::{Extended, Packet};
use crate::psn::Psn;
use crate::requester::{Outcome, Response};
use crate::violation::{Violation, describe_nak};

impl Connection {
    /// Takes a packet for its queue pair.
    pub(crate) fn handle_queue_pair(&mut self, now: Instant, packet: &Packet<'_>) {
        if self.responder.is_none() {
            return;
        }
        if self.is_open() {
            let change = self.manager.heard();
            self.changed(change);
        }
        match packet.header.opcode() {
            Opcode::ACKNOWLEDGE => self.handle_acknowledge(now, packet),
            Opcode::READ_RESPONSE_FIRST
            | Opcode::READ_RESPONSE_MIDDLE
            | Opcode::READ_RESPONSE_LAST
            | Opcode::READ_RESPONSE_ONLY => {
                let opcode = packet.header.opcode();
                let sequence = Psn::from(packet.header.sequence);
                let response = Response { sequence, opcode, payload: packet.payload };
                if self.is_open() {
                    self.counters.arrived(self.requester.order(sequence));
                    let outcome = self.requester.handle_response(now, &response);
                    self.conclude(outcome);
                }
            }
            _ => self.handle_request(packet),
        }
        self.advance();
    }

    fn handle_request(&mut self, packet: &Packet<'_>) {
        let Some(responder) = &mut self.responder else { return };
        if !self.manager.state().is_established() && self.close.is_none() {
            return;
        }
        if self.close.is_some() {
            return responder.repeat();
        }
        self.counters.arrived(responder.order(packet.header.sequence.into()));
        if let Err(violation) = responder.handle(packet, &mut self.consumer) {
            self.violate(violation);
        }
    }

    fn handle_acknowledge(&mut self, now: Instant, packet: &Packet<'_>) {
        let Extended::Acknowledge(acknowledge) = packet.extended else { return };
        let Some(syndrome) = acknowledge.syndrome() else { return };
        if self.is_open() {
            self.counters.answer_received(syndrome);
            let sequence = Psn::from(packet.header.sequence);
            let outcome = self.requester.handle_acknowledge(now, sequence, syndrome);
            self.conclude(outcome);
        }
    }

    fn conclude(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::GoOn => {}
            Outcome::Refused(nak) => {
                let words = describe_nak(nak);
                self.end(EndReason::Terminated(words), CloseReason::Violation(words));
            }
            Outcome::NeverReady => {
                self.end(EndReason::Lost, CloseReason::TimedOut("a receive of the peer's"));
            }
            Outcome::Violation(violation) => self.violate(violation),
        }
    }

    /// The peer broke a rule.
    pub(super) fn violate(&mut self, violation: Violation) {
        let words = violation.describe();
        self.end(EndReason::Violation(words), CloseReason::Violation(words));
    }

    /// Takes a message for its manager.
    pub(crate) fn handle_message(&mut self, now: Instant, message: Message) {
        let Message { transaction, names, content } = message;
        if !self.manager.is_peer(names.sender) && !matches!(content, Content::Request(_)) {
            return;
        }
        let change = match content {
            Content::Request(_) => {
                self.manager.requested_again();
                Change::None
            }
            Content::Reply(reply) => return self.replied(names.sender, reply),
            Content::Ready => self.manager.ready(),
            Content::Reject(_, _, private_data) => return self.rejected(private_data),
            Content::Receipt(exponent) => {
                self.manager.receipt(now, exponent);
                Change::None
            }
            Content::Disconnect(queue_pair) if queue_pair.get() == self.id.0 => {
                self.manager.disconnected_by_peer(transaction)
            }
            Content::Disconnect(_) => Change::None,
            Content::Disconnected => {
                self.manager.disconnected();
                Change::None
            }
        };
        self.changed(change);
        self.advance();
    }
}
