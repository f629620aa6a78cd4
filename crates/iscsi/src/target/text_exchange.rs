//! A text negotiation under way: a question that may come in parts, and an answer that may go out in parts (RFC 7143 §6.2, §11.10, §11.11).

use alloc::vec::Vec;

use crate::pdu::TextRequest;
use crate::text::Text;

/// One exchange of text requests and responses.
#[derive(Debug)]
pub(super) struct TextExchange {
    pub(super) task_tag: u32,
    pub(super) transfer_tag: u32,
    pub(super) question: Text,
    answer: Vec<u8>,
    /// Bytes of the answer that have gone out.
    sent: usize,
}

impl TextExchange {
    /// An exchange that begins.
    pub(super) fn new(task_tag: u32, transfer_tag: u32) -> Self {
        Self { task_tag, transfer_tag, question: Text::new(), answer: Vec::new(), sent: 0 }
    }

    /// True when a request goes on with this exchange.
    pub(super) fn is_continued_by(&self, request: &TextRequest) -> bool {
        self.task_tag == request.task_tag() && self.transfer_tag == request.transfer_tag()
    }

    /// True while a part of the answer has still to go out.
    pub(super) fn is_answered(&self) -> bool {
        !self.answer.is_empty()
    }

    /// The whole question has this answer.
    pub(super) fn answer(&mut self, answer: Vec<u8>) {
        self.answer = answer;
    }

    /// The next part of the answer, at most `segment` bytes.
    pub(super) fn next_part(&mut self, segment: usize) -> Vec<u8> {
        let rest = self.answer.get(self.sent..).unwrap_or_default();
        let part = rest.get(..segment).unwrap_or(rest).to_vec();
        self.sent += part.len();
        part
    }

    /// True when more parts of the answer follow.
    pub(super) fn has_more(&self) -> bool {
        self.sent < self.answer.len()
    }

    /// Makes room for another question, as the answer has gone out.
    pub(super) fn clear_answer(&mut self) {
        (self.answer, self.sent) = (Vec::new(), 0);
    }

    /// Bytes of its text.
    pub(super) fn size(&self) -> usize {
        self.question.bytes().len().saturating_add(self.answer.len())
    }
}
