//! Text requests in the full feature phase: SendTargets and little else (RFC 7143 §11.10, Appendix C).
//!
//! An answer fills one data segment as long as the initiator declared before it is continued in the next: libiscsi, which
//! declares 256 KiB, knows no continued answers, and others ask once for each part.

use alloc::format;
use alloc::vec::Vec;

use super::connection::Target;
use super::portal::Node;
use super::text_exchange::TextExchange;
use crate::datamover::TargetDatamover;
use crate::keys;
use crate::pdu::{Bhs, RESERVED_TAG, TextRequest, TextResponse};
use crate::sequence::Delivery;
use crate::text::Text;
use crate::violation::Violation;

impl<D: TargetDatamover> Target<D> {
    pub(super) fn handle_text(&mut self, header: &Bhs, data: &[u8], delivery: Delivery) {
        match self.negotiate(&TextRequest::from_bytes(header), data) {
            Ok((response, text)) => self.respond(response.to_bytes(), text, delivery),
            Err(violation) => {
                self.exchange = None;
                self.numbers.window.finish(delivery);
                self.violate(violation, Some(header));
            }
        }
    }

    fn negotiate(
        &mut self,
        request: &TextRequest,
        data: &[u8],
    ) -> Result<(TextResponse, Vec<u8>), Violation> {
        let fresh = request.transfer_tag() == RESERVED_TAG;
        let mut exchange = match self.exchange.take() {
            // A request without the target's tag starts anew and resets what went on (RFC 7143 §11.10.4).
            _ if fresh => TextExchange::new(request.task_tag(), self.tags.next()),
            Some(open) if open.is_continued_by(request) => open,
            _ => return Err(Violation::UnknownTransferTag),
        };
        exchange.question.collect(data)?;
        if request.continues() {
            let response = TextResponse::partial(exchange.task_tag, exchange.transfer_tag);
            self.exchange = Some(exchange);
            return Ok((response, Vec::new()));
        }
        if !exchange.is_answered() {
            exchange.answer(self.answer_text(&exchange.question)?.into_bytes());
        }
        exchange.question.clear();
        let part = exchange.next_part(self.parameters.peer_segment as usize);
        let more = exchange.has_more();
        if !more && request.is_final() {
            return Ok((TextResponse::last(exchange.task_tag), part));
        }
        if !more {
            exchange.clear_answer();
        }
        let response = TextResponse::partial(exchange.task_tag, exchange.transfer_tag);
        self.exchange = Some(exchange);
        Ok((if more { response.continuing() } else { response }, part))
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
                ("SendTargets", _) => self.send_targets(value, &mut answer),
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

    /// RFC 7143 Appendix C: all targets only in a discovery session; an empty value is the session's own target.
    fn send_targets(&self, value: &str, answer: &mut Text) {
        let own = self.node();
        match (value, own) {
            ("All", None) => self.portal.nodes.iter().for_each(|node| self.describe(node, answer)),
            ("All", Some(_)) | ("", None) => answer.put("SendTargets", "Reject"),
            ("", Some(node)) => self.describe(node, answer),
            _ => {
                if let Some(node) = value.parse().ok().and_then(|name| self.portal.find(&name)) {
                    self.describe(node, answer);
                }
            }
        }
    }

    /// One target's record, unless this initiator may not know of it.
    fn describe(&self, node: &Node, answer: &mut Text) {
        let initiator = self.login.as_ref().and_then(|login| login.initiator.as_ref());
        if !initiator.is_some_and(|initiator| node.access.allows(initiator)) {
            return;
        }
        answer.put("TargetName", node.name.as_str());
        let came_to = [self.resources.local];
        let addresses =
            if self.portal.addresses.is_empty() { &came_to } else { self.portal.addresses.as_slice() };
        for address in addresses {
            answer.put("TargetAddress", &format!("{address},{}", node.portal_group));
        }
    }
}
