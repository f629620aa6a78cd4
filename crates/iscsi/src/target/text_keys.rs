//! Answers the keys of a text request in the full feature phase: SendTargets and little else (RFC 7143 §11.10).
//!
//! An answer fills one data segment as long as the initiator declared before it is continued in the next: libiscsi, which
//! declares 256 KiB, knows no continued answers, and others ask once for each part.

use alloc::vec::Vec;

use super::context::Context;
use super::send_targets::SendTargets;
use crate::datamover::TargetDatamover;
use crate::keys::{self, Tuning};
use crate::text::Text;
use crate::violation::Violation;

/// What a question is answered from.
#[derive(Debug)]
pub(super) struct TextKeys<'a, D> {
    pub(super) context: &'a mut Context<D>,
    /// What this side wants.
    pub(super) tuning: &'a Tuning,
    pub(super) targets: SendTargets<'a>,
}

impl<D: TargetDatamover> TextKeys<'_, D> {
    /// Answers a whole question.
    ///
    /// # Errors
    /// What it violates.
    pub(super) fn answer(&mut self, question: &Text) -> Result<Text, Violation> {
        let mut answer = Text::new();
        let mut seen: Vec<&str> = Vec::new();
        for pair in question.pairs() {
            let (name, value) = pair?;
            if seen.contains(&name) {
                return Err(Violation::DuplicateKey);
            }
            seen.push(name);
            match (name, keys::find(name)) {
                ("SendTargets", _) => self.targets.answer(value, &mut answer),
                ("InitiatorAlias", _) => {}
                // The only key that changes within a session (RFC 7143 §13.12).
                ("MaxRecvDataSegmentLength", Some(key)) => {
                    let context = &mut *self.context;
                    if let Some(result) = context.parameters.respond(key, value, self.tuning) {
                        answer.put(name, &result);
                    }
                    context.mover.notice_key_values(&context.parameters);
                }
                (_, Some(_)) => answer.put(name, "Reject"),
                (_, None) => answer.put(name, "NotUnderstood"),
            }
        }
        Ok(answer)
    }
}
