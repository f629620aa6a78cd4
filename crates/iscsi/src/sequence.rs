//! Sequence numbers: serial arithmetic (RFC 1982), the target's command window, the status numbers (RFC 7143 §4.2.2).

use alloc::vec::Vec;

use crate::pdu::{BasicHeaderSegment, Bhs, RESERVED_TAG, ResponseNumbers, stamp_request, stamp_response};

/// True when `a` comes before `b` in serial arithmetic.
pub fn before(a: u32, b: u32) -> bool {
    let distance = b.wrapping_sub(a);
    distance != 0 && distance < 1 << 31
}

/// Tags that a target makes: none is used again before all others were, and none is the reserved one.
#[derive(Debug, Clone, Default)]
pub(crate) struct TransferTags {
    last: u32,
}

impl TransferTags {
    /// The next one.
    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        if self.last == RESERVED_TAG {
            self.last = 0;
        }
        self.last
    }
}

/// How a request is delivered (RFC 7143 §4.2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// In the order of its CmdSN: it uses a place of the window until it is done.
    Numbered,
    /// At once, by the I bit: it takes no CmdSN.
    Immediate,
}

/// What a target does with a numbered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is the next one: deliver it.
    Next,
    /// It lies outside the window: ignore it without a word (RFC 7143 §4.2.2.1).
    Outside,
    /// It lies within the window, but an earlier one is missing.
    Gap,
}

/// The target's side of CmdSN: which number is expected, and how far an initiator may run ahead.
#[derive(Debug, Clone)]
pub struct CommandWindow {
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    /// Numbers within the window that count as received although nothing has come with them; no more than the window is wide.
    skipped: Vec<u32>,
}

impl CommandWindow {
    /// A window of `depth` commands that begins with `first`.
    pub fn new(first: u32, depth: u16) -> Self {
        Self {
            exp_cmd_sn: first,
            max_cmd_sn: first.wrapping_add(u32::from(depth)).wrapping_sub(1),
            skipped: Vec::new(),
        }
    }

    /// Judges a request's CmdSN without taking it.
    #[inline]
    pub fn judge(&self, cmd_sn: u32) -> Verdict {
        if !self.skipped.is_empty() && self.skipped.contains(&cmd_sn) {
            return Verdict::Outside;
        }
        if cmd_sn == self.exp_cmd_sn && !before(self.max_cmd_sn, cmd_sn) {
            Verdict::Next
        } else if before(cmd_sn, self.exp_cmd_sn) || before(self.max_cmd_sn, cmd_sn) {
            Verdict::Outside
        } else {
            Verdict::Gap
        }
    }

    /// Takes the expected request.
    pub fn take(&mut self) {
        self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
        if !self.skipped.is_empty() {
            self.pass_skipped();
        }
    }

    /// The request with this number, which has not come, counts as received and done (RFC 7143 §11.6.1): it is ignored when it comes.
    /// False when the number lies outside the window, or counts so already.
    pub fn skip(&mut self, cmd_sn: u32) -> bool {
        if self.judge(cmd_sn) == Verdict::Outside {
            return false;
        }
        self.skipped.push(cmd_sn);
        self.pass_skipped();
        true
    }

    fn pass_skipped(&mut self) {
        while let Some(at) = self.skipped.iter().position(|skipped| *skipped == self.exp_cmd_sn) {
            self.skipped.swap_remove(at);
            self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
            self.release();
        }
    }

    /// A numbered request is done: the window moves on by one.
    pub fn release(&mut self) {
        self.max_cmd_sn = self.max_cmd_sn.wrapping_add(1);
    }

    /// A request is done that was delivered so.
    #[inline]
    pub fn finish(&mut self, delivery: Delivery) {
        if delivery == Delivery::Numbered {
            self.release();
        }
    }

    /// True when an initiator may send nothing more before a request is done.
    pub fn is_used_up(&self) -> bool {
        self.exp_cmd_sn == self.max_cmd_sn.wrapping_add(1)
    }

    /// The window takes so many more from now on. It never becomes narrower, as MaxCmdSN must not go back (RFC 7143 §4.2.2.1).
    pub fn widen(&mut self, more: u16) {
        self.max_cmd_sn = self.max_cmd_sn.wrapping_add(u32::from(more));
    }

    /// ExpCmdSN.
    pub fn exp_cmd_sn(&self) -> u32 {
        self.exp_cmd_sn
    }

    /// MaxCmdSN.
    pub fn max_cmd_sn(&self) -> u32 {
        self.max_cmd_sn
    }

    /// The numbers of a response that is sent now, with this StatSN.
    #[inline]
    fn numbers(&self, stat_sn: u32) -> ResponseNumbers {
        ResponseNumbers { stat_sn, exp_cmd_sn: self.exp_cmd_sn, max_cmd_sn: self.max_cmd_sn }
    }
}

/// Whether a target's PDU takes a StatSN (RFC 7143 §4.2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// It takes the next one.
    StatSn,
    /// It carries the next one, and does not take it.
    Next,
    /// It carries none: the field is reserved.
    Unnumbered,
}

/// What a target's PDU does to the numbers when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Whether it takes a StatSN.
    pub numbering: Numbering,
    /// How the request was delivered that it ends; [`Delivery::Immediate`] if it ends none.
    pub answers: Delivery,
}

/// All numbers of a target's connection.
#[derive(Debug, Clone)]
pub struct TargetNumbers {
    pub(crate) window: CommandWindow,
    stat_sn: u32,
}

impl TargetNumbers {
    /// A connection that begins with this window.
    pub(crate) fn new(window: CommandWindow) -> Self {
        Self { window, stat_sn: 0 }
    }

    /// Writes the newest numbers into the header of a PDU that leaves now, and counts what it does to them.
    #[inline]
    pub fn stamp(&mut self, header: &mut Bhs, leaving: Leaving) {
        let Leaving { numbering, answers } = leaving;
        self.window.finish(answers);
        let stat_sn = if numbering == Numbering::Unnumbered { 0 } else { self.stat_sn };
        stamp_response(header, self.window.numbers(stat_sn));
        if numbering == Numbering::StatSn {
            self.stat_sn = self.stat_sn.wrapping_add(1);
        }
    }
}

/// The initiator's side of CmdSN: the next number, and what the target allows.
#[derive(Debug, Clone)]
pub struct CommandNumbers {
    next: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
}

impl CommandNumbers {
    /// Starts with `first`; only that one may be sent until the target says more.
    pub fn new(first: u32) -> Self {
        Self { next: first, exp_cmd_sn: first, max_cmd_sn: first }
    }

    /// Takes a response's ExpCmdSN and MaxCmdSN; older ones than are known are ignored (RFC 7143 §4.2.2.1).
    pub fn update(&mut self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        if before(max_cmd_sn, exp_cmd_sn.wrapping_sub(1)) {
            return;
        }
        if before(self.max_cmd_sn, max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
        if before(self.exp_cmd_sn, exp_cmd_sn) {
            self.exp_cmd_sn = exp_cmd_sn;
        }
    }

    /// True when another numbered request may be sent.
    pub fn open(&self) -> bool {
        !before(self.max_cmd_sn, self.next)
    }

    /// The number of the next request, which immediate ones carry too.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Takes the next number.
    pub fn take(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }
}

/// The CmdSN of a request that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CmdSn {
    /// The next one, which an immediate request carries and does not take.
    Next,
    /// As it stands in the header: a command has its own already, a Data-Out none.
    Kept,
}

/// Whether a response has taken a StatSN, which is then to be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatSn {
    /// It has.
    Taken,
    /// It carries the next one, or none.
    Unused,
}

/// All numbers of an initiator's connection.
#[derive(Debug, Clone)]
pub struct InitiatorNumbers {
    pub(crate) commands: CommandNumbers,
    exp_stat_sn: u32,
}

impl InitiatorNumbers {
    /// A session whose first CmdSN this is.
    pub(crate) fn new(first: u32) -> Self {
        Self { commands: CommandNumbers::new(first), exp_stat_sn: 0 }
    }

    /// Writes the newest numbers into the header of a PDU that leaves now.
    #[inline]
    pub fn stamp(&self, header: &mut Bhs, cmd_sn: CmdSn) {
        let next = (cmd_sn == CmdSn::Next).then(|| self.commands.next());
        stamp_request(header, next, self.exp_stat_sn);
    }

    /// Takes the numbers of a PDU that has come.
    #[inline]
    pub fn take(&mut self, header: &Bhs, stat_sn: StatSn) {
        let view = BasicHeaderSegment::from_bytes(header);
        self.commands.update(view.exp_cmd_sn(), view.max_cmd_sn());
        if stat_sn == StatSn::Taken {
            self.exp_stat_sn = view.stat_sn().wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_tag_is_never_the_reserved_one() {
        let mut tags = TransferTags::default();
        assert_eq!((tags.next(), tags.next()), (1, 2));
        let mut tags = TransferTags { last: RESERVED_TAG - 2 };
        assert_eq!([(); 3].map(|()| tags.next()), [RESERVED_TAG - 1, 0, 1]);
    }

    #[test]
    fn the_window_wraps() {
        let mut window = CommandWindow::new(u32::MAX, 2);
        assert_eq!(
            [u32::MAX - 1, u32::MAX, 0, 1].map(|sn| window.judge(sn)),
            [Verdict::Outside, Verdict::Next, Verdict::Gap, Verdict::Outside]
        );
        window.take();
        window.take();
        assert_eq!((window.exp_cmd_sn(), window.max_cmd_sn()), (1, 0));
        assert_eq!(window.judge(1), Verdict::Outside, "the window is closed");
        window.release();
        assert_eq!(window.judge(1), Verdict::Next);
    }

    #[test]
    fn a_window_that_is_used_up_becomes_wider() {
        let mut window = CommandWindow::new(u32::MAX, 1);
        assert!(!window.is_used_up());
        window.take();
        assert!(window.is_used_up());
        window.widen(2);
        assert_eq!((window.is_used_up(), window.max_cmd_sn()), (false, 1));
        assert_eq!([0, 1, 2].map(|sn| window.judge(sn)), [Verdict::Next, Verdict::Gap, Verdict::Outside]);
    }

    #[test]
    fn a_skipped_number_counts_as_received_and_is_ignored_when_it_comes() {
        let mut window = CommandWindow::new(u32::MAX, 4);
        assert!(!window.skip(u32::MAX - 1) && !window.skip(3), "outside");
        assert!(window.skip(1), "one of those behind");
        assert!(!window.skip(1), "once is enough");
        assert_eq!(
            (window.exp_cmd_sn(), window.max_cmd_sn()),
            (u32::MAX, 2),
            "the window waits for what lies before"
        );
        assert!(window.skip(u32::MAX), "the next one");
        assert_eq!((window.exp_cmd_sn(), window.max_cmd_sn()), (0, 3));
        let outside = [u32::MAX, 1].map(|sn| window.judge(sn));
        assert_eq!(outside, [Verdict::Outside; 2], "both were sent after all");
        assert_eq!(window.judge(0), Verdict::Next);
        window.take();
        assert_eq!(
            (window.exp_cmd_sn(), window.max_cmd_sn()),
            (2, 4),
            "past the one that counts as received"
        );
        assert_eq!(window.judge(2), Verdict::Next);
    }

    #[test]
    fn the_initiator_stays_within_what_it_was_given() {
        let mut numbers = CommandNumbers::new(5);
        assert_eq!(numbers.take(), 5);
        assert!(!numbers.open());
        numbers.update(6, 7);
        assert!(numbers.open());
        numbers.update(6, 3);
        assert_eq!(
            (numbers.take(), numbers.take(), numbers.open()),
            (6, 7, false),
            "an old MaxCmdSN changes nothing"
        );
        numbers.update(9, 7);
        assert!(!numbers.open(), "MaxCmdSN = ExpCmdSN - 2 is nonsense and ignored");
    }
}
