//! Which bytes of a command's write data the target asks its datamover for, and when (Get_Data of RFC 5047 §6).
//!
//! Unsolicited data comes first. Then the rest is asked for in order, in parts of MaxBurstLength, as many at a time as MaxOutstandingR2T
//! allows (RFC 7143 §13.13, §13.17).

use crate::keys::Parameters;
use crate::limits::MOST_R2T;
use crate::pdu::DataRange;
use crate::violation::Violation;

/// What a command says about the write data that comes by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announced {
    /// Expected Data Transfer Length, in bytes.
    pub(super) expected: u32,
    /// Bytes in the command itself.
    pub(super) immediate: u32,
    /// More comes by itself behind the command: the F bit is clear.
    pub(super) more: bool,
}

/// How much of a command's write data has come by itself or was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GetDataProgress {
    /// Bytes that the command needs.
    needed: u32,
    /// Everything before this has come unsolicited, or was asked for.
    requested: u32,
    /// Where the data ends at most that still comes by itself; `None` once it is all there.
    unsolicited_end: Option<u32>,
    /// Parts that were asked for and have not come.
    open: u16,
}

impl GetDataProgress {
    /// Begins with a command that writes; the data that it announces must be what was negotiated.
    #[inline]
    pub(super) fn begin(&mut self, announced: Announced, parameters: &Parameters) -> Result<(), Violation> {
        let Announced { expected, immediate, more } = announced;
        let limit = parameters.unsolicited().min(expected);
        if immediate > 0 && !parameters.immediate_data || more && parameters.initial_r2t {
            return Err(Violation::UnexpectedData);
        }
        if immediate > limit {
            return Err(Violation::DataOverrun);
        }
        *self = Self { requested: immediate, unsolicited_end: more.then_some(limit), ..Self::default() };
        Ok(())
    }

    /// The command turns out to need `needed` bytes; what does not come by itself is asked for.
    pub(super) fn need(&mut self, needed: u32) {
        self.needed = needed;
    }

    /// What is still to come by itself.
    pub(super) fn unsolicited(&self) -> Option<DataRange> {
        let range =
            |end: u32| DataRange { offset: self.requested, length: end.saturating_sub(self.requested) };
        self.unsolicited_end.map(range)
    }

    /// The unsolicited data is there, and ends here.
    pub(super) fn unsolicited_ended(&mut self, end: u32) {
        (self.requested, self.unsolicited_end) = (end, None);
    }

    /// A part that was asked for is there.
    pub(super) fn completed(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// What to ask for next, if something is missing and another part may be open.
    #[inline]
    pub(super) fn next(&mut self, parameters: &Parameters) -> Option<DataRange> {
        if self.unsolicited_end.is_some() || self.requested >= self.needed {
            return None;
        }
        if self.open >= parameters.outstanding_r2t.clamp(1, MOST_R2T) {
            return None;
        }
        let offset = self.requested;
        let length = (self.needed - offset).min(parameters.max_burst);
        self.requested += length;
        self.open += 1;
        Some(DataRange { offset, length })
    }

    /// True once everything that is needed, and everything that comes unsolicited, is there.
    pub(super) fn is_complete(&self) -> bool {
        self.unsolicited_end.is_none() && self.open == 0 && self.requested >= self.needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> Parameters {
        Parameters {
            max_burst: 1024,
            first_burst: 1024,
            initial_r2t: false,
            outstanding_r2t: 2,
            ..Parameters::default()
        }
    }

    fn range(offset: u32, length: u32) -> DataRange {
        DataRange { offset, length }
    }

    #[test]
    fn a_command_announces_no_more_than_was_negotiated() {
        let parameters = parameters();
        let begin = |expected, immediate, more, parameters: &Parameters| {
            GetDataProgress::default().begin(Announced { expected, immediate, more }, parameters)
        };
        assert_eq!(begin(4096, 1025, false, &parameters), Err(Violation::DataOverrun));
        assert_eq!(begin(512, 513, false, &parameters), Err(Violation::DataOverrun));
        let strict = Parameters { immediate_data: false, initial_r2t: true, ..parameters };
        assert_eq!(begin(512, 512, false, &strict), Err(Violation::UnexpectedData));
        assert_eq!(begin(512, 0, true, &strict), Err(Violation::UnexpectedData));
    }

    #[test]
    fn immediate_then_unsolicited_then_asked_for() {
        let parameters = parameters();
        let mut progress = GetDataProgress::default();
        progress.begin(Announced { expected: 4096, immediate: 512, more: true }, &parameters).unwrap();
        progress.need(4096);
        assert_eq!(progress.unsolicited(), Some(range(512, 512)));
        assert_eq!(progress.next(&parameters), None, "unsolicited data comes first");
        progress.unsolicited_ended(1024);
        assert_eq!(progress.next(&parameters), Some(range(1024, 1024)));
        assert_eq!(progress.next(&parameters), Some(range(2048, 1024)));
        assert_eq!(progress.next(&parameters), None, "two may be open");
        progress.completed();
        assert_eq!(progress.next(&parameters), Some(range(3072, 1024)));
        progress.completed();
        assert!(!progress.is_complete(), "one part is missing");
        progress.completed();
        assert!(progress.is_complete());
    }

    #[test]
    fn unsolicited_data_that_ends_early_is_asked_for_from_there() {
        let parameters = parameters();
        let mut progress = GetDataProgress::default();
        progress.begin(Announced { expected: 2048, immediate: 0, more: true }, &parameters).unwrap();
        progress.need(1024);
        progress.unsolicited_ended(512);
        assert_eq!(progress.next(&parameters), Some(range(512, 512)));
    }
}
