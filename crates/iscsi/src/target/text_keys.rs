//! Text requests in the full feature phase: SendTargets and little else (RFC 7143 §11.10).
//!
//! An answer fills one data segment as long as the initiator declared before it is continued in the next: libiscsi, which
//! declares 256 KiB, knows no continued answers, and others ask once for each part.

use alloc::vec::Vec;

use super::connection::Target;
use super::send_targets::SendTargets;
use super::text_exchange::{Asked, TextReply};
use crate::datamover::TargetDatamover;
use crate::keys;
use crate::pdu::{Bhs, TextRequest};
use crate::sequence::Delivery;
use crate::text::Text;
use crate::violation::Violation;

impl<D: TargetDatamover> Target<D> {
    pub(super) fn handle_text(&mut self, header: &Bhs, data: &[u8], delivery: Delivery) {
        match self.negotiate(&TextRequest::from_bytes(header), data) {
            Ok(TextReply { response, text }) => self.respond(response.to_bytes(), text, delivery),
            Err(violation) => {
                self.numbers.window.finish(delivery);
                self.violate(violation, Some(header));
            }
        }
    }

    fn negotiate(&mut self, request: &TextRequest, data: &[u8]) -> Result<TextReply, Violation> {
        let mut exchange = match self.text.take(request, data, &mut self.tags)? {
            Asked::Part(response) => return Ok(TextReply { response, text: Vec::new() }),
            Asked::Whole(exchange) => exchange,
        };
        if let Some(question) = exchange.unanswered() {
            let answer = self.answer_text(question)?;
            exchange.answer(answer);
        }
        Ok(self.text.reply(exchange, request, self.parameters.peer_segment as usize))
    }

    fn answer_text(&mut self, question: &Text) -> Result<Text, Violation> {
        let mut answer = Text::new();
        let mut seen: Vec<&str> = Vec::new();
        for pair in question.pairs() {
            let (name, value) = pair?;
            if seen.contains(&name) {
                return Err(Violation::DuplicateKey);
            }
            seen.push(name);
            match (name, keys::find(name)) {
                ("SendTargets", _) => self.send_targets().answer(value, &mut answer),
                ("InitiatorAlias", _) => {}
                // The only key that changes within a session (RFC 7143 §13.12).
                ("MaxRecvDataSegmentLength", Some(key)) => {
                    if let Some(result) = self.parameters.respond(key, value, &self.portal.tuning) {
                        answer.put(name, &result);
                    }
                    self.mover.notice_key_values(&self.parameters);
                }
                (_, Some(_)) => answer.put(name, "Reject"),
                (_, None) => answer.put(name, "NotUnderstood"),
            }
        }
        Ok(answer)
    }

    /// What SendTargets shows over this connection.
    fn send_targets(&self) -> SendTargets<'_> {
        SendTargets {
            portal: &self.portal,
            own: self.node(),
            initiator: self.login.as_ref().and_then(|login| login.initiator.as_ref()),
            came_to: self.resources.local,
        }
    }
}
