//! A text negotiation under way: a question that may come in parts, and an answer that may go out in parts (RFC 7143 §6.2, §11.10, §11.11).
//!
//! | state | a request | and then |
//! |---|---|---|
//! | none open | with the reserved tag opens an exchange; another is a violation | the question's parts come |
//! | the question comes | with C goes on; without it the question is whole | it is answered |
//! | the answer goes out | asks for the next part | with the last part, and F, the exchange is over |
//! | all of it has gone out | asks the next question | it is answered |
//!
//! In each, a request with the reserved tag begins anew.

use alloc::vec::Vec;

use crate::pdu::{RESERVED_TAG, TextRequest, TextResponse};
use crate::sequence::TransferTags;
use crate::text::Text;
use crate::violation::Violation;

/// A connection's text negotiation: at most one exchange is open.
#[derive(Debug, Default)]
pub(super) struct TextNegotiation {
    open: Option<TextExchange>,
}

/// What a text request has come to.
#[derive(Debug)]
pub(super) enum Asked {
    /// More of the question is to come: it is asked for by this.
    Part(TextResponse),
    /// The question is whole, and may be answered already. [`TextNegotiation::reply`] is to follow.
    Whole(TextExchange),
}

/// A response, and its text.
#[derive(Debug)]
pub(super) struct TextReply {
    pub(super) response: TextResponse,
    pub(super) text: Vec<u8>,
}

impl TextNegotiation {
    /// Takes a request. An exchange that it violates is over.
    pub(super) fn take(
        &mut self,
        request: &TextRequest,
        data: &[u8],
        tags: &mut TransferTags,
    ) -> Result<Asked, Violation> {
        let is_fresh = request.transfer_tag() == RESERVED_TAG;
        let mut exchange = match self.open.take() {
            // A request without the target's tag starts anew and resets what went on (RFC 7143 §11.10.4).
            _ if is_fresh => TextExchange::new(request.task_tag(), tags.next()),
            Some(open) if open.is_continued_by(request) => open,
            _ => return Err(Violation::UnknownTransferTag),
        };
        exchange.question.collect(data)?;
        if request.continues() {
            let response = exchange.partial();
            self.open = Some(exchange);
            return Ok(Asked::Part(response));
        }
        Ok(Asked::Whole(exchange))
    }

    /// The next part of an exchange's answer, at most `segment` bytes, for a request.
    pub(super) fn reply(
        &mut self,
        mut exchange: TextExchange,
        request: &TextRequest,
        segment: usize,
    ) -> TextReply {
        exchange.question.clear();
        let text = exchange.next_part(segment);
        let more = exchange.has_more();
        if !more && request.is_final() {
            return TextReply { response: TextResponse::last(exchange.task_tag), text };
        }
        if !more {
            exchange.clear_answer();
        }
        let response = exchange.partial();
        self.open = Some(exchange);
        TextReply { response: if more { response.continuing() } else { response }, text }
    }

    /// Nobody goes on with it.
    pub(super) fn end(&mut self) {
        self.open = None;
    }

    /// Bytes of its text.
    pub(super) fn size(&self) -> usize {
        self.open.as_ref().map_or(0, TextExchange::size)
    }
}

/// One exchange of text requests and responses.
#[derive(Debug)]
pub(super) struct TextExchange {
    task_tag: u32,
    transfer_tag: u32,
    question: Text,
    answer: Vec<u8>,
    /// Bytes of the answer that have gone out.
    sent: usize,
}

impl TextExchange {
    /// An exchange that begins.
    fn new(task_tag: u32, transfer_tag: u32) -> Self {
        Self { task_tag, transfer_tag, question: Text::new(), answer: Vec::new(), sent: 0 }
    }

    /// True when a request goes on with this exchange.
    fn is_continued_by(&self, request: &TextRequest) -> bool {
        self.task_tag == request.task_tag() && self.transfer_tag == request.transfer_tag()
    }

    /// The question, unless it has been answered and parts of that are still to go out.
    pub(super) fn unanswered(&self) -> Option<&Text> {
        self.answer.is_empty().then_some(&self.question)
    }

    /// The whole question has this answer.
    pub(super) fn answer(&mut self, answer: Text) {
        self.answer = answer.into_bytes();
    }

    /// A response that asks for the next request.
    fn partial(&self) -> TextResponse {
        TextResponse::partial(self.task_tag, self.transfer_tag)
    }

    /// The next part of the answer, at most `segment` bytes.
    fn next_part(&mut self, segment: usize) -> Vec<u8> {
        let rest = self.answer.get(self.sent..).unwrap_or_default();
        let part = rest.get(..segment).unwrap_or(rest).to_vec();
        self.sent += part.len();
        part
    }

    /// True when more parts of the answer follow.
    fn has_more(&self) -> bool {
        self.sent < self.answer.len()
    }

    /// Makes room for another question, as the answer has gone out.
    fn clear_answer(&mut self) {
        (self.answer, self.sent) = (Vec::new(), 0);
    }

    /// Bytes of its text.
    fn size(&self) -> usize {
        self.question.bytes().len().saturating_add(self.answer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: u32 = 7;

    /// What comes of a whole question: the text of the response, once it is answered by `answer` if it has to be.
    fn ask(
        negotiation: &mut TextNegotiation,
        request: &TextRequest,
        answer: &str,
    ) -> Result<TextReply, Violation> {
        let mut tags = TransferTags::default();
        match negotiation.take(request, b"Key=Value\0", &mut tags)? {
            Asked::Part(response) => Ok(TextReply { response, text: Vec::new() }),
            Asked::Whole(mut exchange) => {
                if exchange.unanswered().is_some() {
                    let mut text = Text::new();
                    text.put("Key", answer);
                    exchange.answer(text);
                }
                Ok(negotiation.reply(exchange, request, 8))
            }
        }
    }

    #[test]
    fn an_answer_goes_out_in_parts_each_for_a_request() {
        let mut negotiation = TextNegotiation::default();
        let first = ask(&mut negotiation, &TextRequest::new(TASK, RESERVED_TAG), "12345678").unwrap();
        assert_eq!((first.text.as_slice(), first.response.is_final()), (&b"Key=1234"[..], false));
        assert!(negotiation.size() > 0);
        let next = TextRequest::new(TASK, first.response.transfer_tag());
        let last = ask(&mut negotiation, &next, "it is answered already").unwrap();
        assert_eq!((last.text.as_slice(), last.response.is_final()), (&b"5678\0"[..], true));
        assert_eq!(negotiation.size(), 0, "the exchange is over");
    }

    #[test]
    fn only_the_open_exchange_goes_on_and_a_fresh_one_takes_its_place() {
        let mut negotiation = TextNegotiation::default();
        let stray = ask(&mut negotiation, &TextRequest::new(TASK, 1), "");
        assert_eq!(stray.unwrap_err(), Violation::UnknownTransferTag, "none is open");
        let fresh = TextRequest::new(TASK, RESERVED_TAG);
        let first = ask(&mut negotiation, &fresh, "12345678").unwrap();
        let anew = ask(&mut negotiation, &fresh, "abcdefgh").unwrap();
        assert_eq!((first.text.as_slice(), anew.text.as_slice()), (&b"Key=1234"[..], &b"Key=abcd"[..]));
        let other = TextRequest::new(TASK + 1, anew.response.transfer_tag());
        assert_eq!(ask(&mut negotiation, &other, "").unwrap_err(), Violation::UnknownTransferTag);
        assert_eq!(negotiation.size(), 0, "an exchange that was violated is over");
    }
}
