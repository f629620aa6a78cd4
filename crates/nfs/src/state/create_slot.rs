//! The slot of CREATE_SESSION: one for each client record, with a reply cache of one (RFC 8881 §18.36.4, "sequence ID processing").

use crate::v4::Status;

/// What a CREATE_SESSION is, by its sequence ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The next: execute it, and then [`CreateSlot::finish`].
    Execute,
    /// The last again.
    Replay(Result<T, Status>),
    /// Neither.
    Misordered,
}

/// The slot. `T` is what a session's creation answers.
#[derive(Debug, Clone)]
pub struct CreateSlot<T> {
    next: u32,
    last: Option<Result<T, Status>>,
}

impl<T: Clone> CreateSlot<T> {
    /// A slot whose first request has sequence ID one.
    pub fn new() -> Self {
        Self { next: 1, last: None }
    }

    /// The sequence ID of the next request (`eir_sequenceid`).
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Judges a request.
    pub fn judge(&self, sequence: u32) -> Verdict<T> {
        match &self.last {
            _ if sequence == self.next => Verdict::Execute,
            Some(last) if sequence == self.next.wrapping_sub(1) => Verdict::Replay(last.clone()),
            _ => Verdict::Misordered,
        }
    }

    /// The request was executed, or failed. After DELAY the client sends the same sequence ID again, as if nothing had happened.
    pub fn finish(&mut self, result: Result<T, Status>) {
        if result.as_ref().err() != Some(&Status::DELAY) {
            self.next = self.next.wrapping_add(1);
            self.last = Some(result);
        }
    }
}

impl<T: Clone> Default for CreateSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_is_replayed_and_nothing_else_is() {
        let mut slot = CreateSlot::new();
        assert_eq!((slot.judge(1), slot.judge(0)), (Verdict::Execute, Verdict::Misordered));
        slot.finish(Ok('a'));
        assert_eq!((slot.judge(1), slot.judge(2)), (Verdict::Replay(Ok('a')), Verdict::Execute));
        slot.finish(Err(Status::TOOSMALL));
        assert_eq!(
            (slot.judge(2), slot.judge(1)),
            (Verdict::Replay(Err(Status::TOOSMALL)), Verdict::Misordered)
        );
        slot.finish(Err(Status::DELAY));
        assert_eq!((slot.judge(3), slot.judge(4)), (Verdict::Execute, Verdict::Misordered));
    }
}
