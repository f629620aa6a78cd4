//! The head of a submission queue, as completions report it (NVMe Base §3.3.1.2.1).

use crate::fabrics::Connect;

/// Submission queue flow control (NVMe Base §6.3, CATTR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SqFlowControl {
    /// Completions tell the host where the head is.
    #[default]
    On,
    /// The host has switched it off: it keeps to the queue's size by itself.
    Off,
}

impl SqFlowControl {
    /// What a Connect asks for.
    pub(super) fn of(command: &Connect) -> Self {
        if command.disables_sq_flow() { Self::Off } else { Self::On }
    }
}

/// The submission queue as its head moves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SubmissionHead {
    entries: u32,
    index: u32,
    flow_control: SqFlowControl,
}

impl SubmissionHead {
    /// The head of a queue that has just been created: its first entry is the Connect that created it.
    pub(super) fn after_connect(entries: u32, flow_control: SqFlowControl) -> Self {
        let mut head = Self { entries, index: 0, flow_control };
        head.advance();
        head
    }

    /// One more entry is consumed.
    pub(super) fn advance(&mut self) {
        self.index = self.index.saturating_add(1).checked_rem(self.entries).unwrap_or(0);
    }

    /// SQHD of a completion: all ones where flow control is off (NVMe Base §6.3).
    pub(super) fn report(self) -> u16 {
        if self.is_flow_off() { u16::MAX } else { u16::try_from(self.index).unwrap_or(0) }
    }

    /// True when flow control is off, so that a success may go without its completion.
    pub(super) fn is_flow_off(self) -> bool {
        self.flow_control == SqFlowControl::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_goes_round_and_says_nothing_without_flow_control() {
        let mut head = SubmissionHead::after_connect(3, SqFlowControl::On);
        let mut reported = alloc::vec::Vec::new();
        for _ in 0..4 {
            reported.push(head.report());
            head.advance();
        }
        assert_eq!(reported, [1, 2, 0, 1]);
        assert_eq!(SubmissionHead::after_connect(3, SqFlowControl::Off).report(), 0xffff);
        let mut none = SubmissionHead::default();
        none.advance();
        assert_eq!(none.report(), 0, "a queue that does not exist yet");
    }
}
