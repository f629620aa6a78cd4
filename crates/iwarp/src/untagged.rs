//! The receiving end of an untagged queue: messages come in order, and the segments of each from its beginning on (RFC 5041 §5.3 and §7.2).
//! `untagged.table` has every transition.
//!
//! DDP allows segments in any order. Over MPA they come in that of sending, so that another order can only be a mistake; what is left out would be told as
//! received.

use crate::ddp::Untagged;
use crate::rdmap::Opcode;
use crate::violation::Violation;

/// Where the next segment of a queue belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UntaggedQueue {
    /// The number of the message that comes next, or is coming.
    sequence: u32,
    /// The message that is coming.
    partial: Option<Partial>,
}

/// A message of which segments have come, and not the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partial {
    opcode: Opcode,
    /// Bytes so far.
    length: u32,
}

impl UntaggedQueue {
    /// A queue of which nothing has come.
    pub(crate) const fn new() -> Self {
        Self { sequence: 1, partial: None }
    }

    /// Checks whether a segment is the next: where in its message it begins.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn check(&self, header: &Untagged) -> Result<usize, Violation> {
        if header.sequence.get() != self.sequence {
            return Err(Violation::MessageSequence);
        }
        let opcode = header.control.opcode();
        if self.partial.is_some_and(|partial| partial.opcode != opcode) {
            return Err(Violation::Opcode);
        }
        let begins = self.partial.map_or(0, |partial| partial.length);
        if header.offset.get() != begins {
            return Err(Violation::MessageOffset);
        }
        usize::try_from(begins).map_err(|_| Violation::MessageTooLong)
    }

    /// A segment of `length` bytes that was checked has come whole: the message's length, if it was its last.
    pub(crate) fn receive(&mut self, header: &Untagged, length: usize) -> Option<usize> {
        let begins = self.partial.map_or(0, |partial| partial.length);
        let length = begins.saturating_add(wire::bounded::<u32>(length));
        if header.control.is_last() {
            *self = Self { sequence: self.sequence.wrapping_add(1), partial: None };
            return usize::try_from(length).ok();
        }
        self.partial = Some(Partial { opcode: header.control.opcode(), length });
        None
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use core::fmt::Write;

    use wire::big_endian::U32;

    use super::*;
    use crate::ddp::{Control, Segment};

    fn segment(sequence: u32, offset: u32, control: Control) -> Untagged {
        let (sequence, offset) = (U32::new(sequence), U32::new(offset));
        Untagged { control, invalidate: U32::ZERO, queue: U32::ZERO, sequence, offset }
    }

    #[test]
    fn table_of_all_transitions() {
        let (last, more) =
            (Control::new(Opcode::SEND, Segment::Last), Control::new(Opcode::SEND, Segment::Intermediate));
        let segments = [
            ("the whole message 1", segment(1, 0, last)),
            ("the first segment of message 1", segment(1, 0, more)),
            ("the last segment of message 1", segment(1, 100, last)),
            ("a further segment of message 1", segment(1, 100, more)),
            ("a segment that overlaps", segment(1, 99, last)),
            ("a segment that leaves some out", segment(1, 101, last)),
            ("the whole message 2", segment(2, 0, last)),
            ("a segment of message 0", segment(0, 0, last)),
            (
                "a segment of another kind",
                segment(1, 100, Control::new(Opcode::SEND_SOLICITED, Segment::Last)),
            ),
        ];
        let partial = |length| Some(Partial { opcode: Opcode::SEND, length });
        let queues = [
            UntaggedQueue::new(),
            UntaggedQueue { sequence: 1, partial: partial(100) },
            UntaggedQueue { sequence: 2, partial: None },
        ];
        let named = |queue: UntaggedQueue| {
            let length = queue.partial.map_or(0, |partial| partial.length);
            format!("message {} at {length}", queue.sequence)
        };
        let mut table = String::new();
        for queue in queues {
            for (name, header) in &segments {
                let mut next = queue;
                let result = match queue.check(header) {
                    Ok(_) => match next.receive(header, 100) {
                        Some(length) => format!("{}, {length} bytes have come", named(next)),
                        None => named(next),
                    },
                    Err(violation) => format!("{violation:?}"),
                };
                writeln!(table, "{} --{name}--> {result}", named(queue)).unwrap();
            }
        }
        assert_eq!(table, include_str!("untagged.table"));
    }

    #[test]
    fn numbers_wrap() {
        let mut queue = UntaggedQueue { sequence: u32::MAX, partial: None };
        let header = segment(u32::MAX, 0, Control::new(Opcode::SEND, Segment::Last));
        assert_eq!(queue.check(&header), Ok(0));
        assert_eq!(queue.receive(&header, 5), Some(5));
        assert_eq!(queue.sequence, 0);
    }
}
