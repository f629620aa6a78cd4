//! Write data in Data-Out PDUs (RFC 7143 §4.2.5.2, §11.7, §11.8).
//!
//! A target opens a sequence for the data that comes unsolicited, and one by an R2T for each part that it asks for; it checks that the PDUs
//! of each come in order. An initiator checks the R2Ts, and cuts what they ask for. DataPDUInOrder and DataSequenceInOrder are always Yes
//! here.

use crate::datamover::{DataArrival, GetData, TaskHandle};
use crate::keys::Parameters;
use crate::limits::MOST_R2T;
use crate::pdu::{DataOut, DataRange, R2t, RESERVED_TAG, TaskTags};
use crate::violation::Violation;

/// A sequence of Data-Outs that a target receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenSequence {
    transfer_tag: u32,
    data_sn: u32,
    next: u32,
    end: u32,
}

/// The sequences of one command that a target receives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DataOutSequences {
    unsolicited: Option<OpenSequence>,
    solicited: [Option<OpenSequence>; MOST_R2T as usize],
    /// Places of `solicited` are in use, or were when the task ended.
    used: bool,
    /// R2TSN of the next R2T (RFC 7143 §11.8.4), which is how many there were: zero once the command has been answered.
    r2t_sn: u32,
}

impl DataOutSequences {
    /// Begins with what comes by itself.
    #[inline]
    pub(crate) fn begin(&mut self, unsolicited: Option<DataRange>) {
        self.unsolicited = unsolicited.map(|DataRange { offset, length }| OpenSequence {
            transfer_tag: RESERVED_TAG,
            data_sn: 0,
            next: offset,
            end: offset.saturating_add(length),
        });
        if core::mem::take(&mut self.used) {
            self.solicited.fill(None);
        }
        self.r2t_sn = 0;
    }

    /// The command has ended: how many R2Ts there were for it. Another command may have its place from now on.
    #[inline]
    pub(crate) fn forget_r2ts(&mut self) -> u32 {
        core::mem::take(&mut self.r2t_sn)
    }

    /// Opens a sequence under this Target Transfer Tag: the R2T to send. No more are open than [`MOST_R2T`].
    #[inline]
    pub(crate) fn get_data(&mut self, get: &GetData, transfer_tag: u32) -> R2t {
        let GetData { task_tag, lun, range, .. } = *get;
        if let Some(place) = self.solicited.iter_mut().find(|place| place.is_none()) {
            let end = range.offset.saturating_add(range.length);
            *place = Some(OpenSequence { transfer_tag, data_sn: 0, next: range.offset, end });
            self.used = true;
        }
        let r2t_sn = self.r2t_sn;
        self.r2t_sn = r2t_sn.wrapping_add(1);
        R2t::new(lun, TaskTags { initiator: task_tag, target: transfer_tag }, r2t_sn, range)
    }

    /// Checks a Data-Out against its sequence, before its data is taken.
    #[inline]
    pub(crate) fn check(&self, data: &DataOut) -> Result<(), Violation> {
        let sequence = self.find(data.transfer_tag()).ok_or(Violation::UnknownTransferTag)?;
        if data.data_sn() != sequence.data_sn || data.buffer_offset() != sequence.next {
            return Err(Violation::DataOutOfOrder);
        }
        let end = data.range().end().ok_or(Violation::DataOverrun)?;
        if end > sequence.end {
            return Err(Violation::DataOverrun);
        }
        // Unsolicited data may stop early; what was asked for must come whole (RFC 7143 §11.7.1).
        if data.is_final() && data.transfer_tag() != RESERVED_TAG && end != sequence.end {
            return Err(Violation::DataUnderrun);
        }
        Ok(())
    }

    fn find(&self, transfer_tag: u32) -> Option<&OpenSequence> {
        let solicited = self.solicited.iter().flatten();
        self.unsolicited.iter().chain(solicited).find(|sequence| sequence.transfer_tag == transfer_tag)
    }

    /// Counts a checked Data-Out whose data has arrived. Says what that completes.
    #[inline]
    pub(crate) fn take(&mut self, data: &DataOut) -> DataArrival {
        let mut places = core::iter::once(&mut self.unsolicited).chain(&mut self.solicited);
        let tag = data.transfer_tag();
        let place = places.find(|place| place.is_some_and(|sequence| sequence.transfer_tag == tag));
        let Some(place) = place else { return DataArrival::Part };
        let Some(sequence) = place.as_mut() else { return DataArrival::Part };
        sequence.data_sn = sequence.data_sn.wrapping_add(1);
        sequence.next = sequence.next.saturating_add(data.length());
        let end = sequence.next;
        if !data.is_final() {
            return DataArrival::Part;
        }
        *place = None;
        if tag == RESERVED_TAG { DataArrival::Unsolicited { end } } else { DataArrival::GetData }
    }
}

/// A sequence of Data-Outs that an initiator sends: what is left of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataOutSequence {
    pub(crate) task: TaskHandle,
    pub(crate) tags: TaskTags,
    data_sn: u32,
    next: u32,
    end: u32,
}

impl DataOutSequence {
    /// The whole of a sequence.
    pub(crate) fn new(task: TaskHandle, tags: TaskTags, range: DataRange) -> Self {
        let end = range.offset.saturating_add(range.length);
        Self { task, tags, data_sn: 0, next: range.offset, end }
    }

    /// What the next PDU carries, at most `segment` bytes.
    pub(crate) fn next_range(&self, segment: u32) -> DataRange {
        DataRange { offset: self.next, length: (self.end - self.next).min(segment) }
    }

    /// The next PDU, which carries `range`, and what is left behind it.
    pub(crate) fn next(self, lun: [u8; 8], range: DataRange) -> (DataOut, Option<Self>) {
        let next = self.next + range.length;
        let header = DataOut::new(lun, self.tags, self.data_sn, range);
        if next == self.end {
            return (header.ending(), None);
        }
        (header, Some(Self { data_sn: self.data_sn + 1, next, ..self }))
    }

    /// True when an R2T has asked for it.
    pub(crate) fn is_solicited(&self) -> bool {
        self.tags.target != RESERVED_TAG
    }
}

/// How far the write data of an initiator's command is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DataOutProgress {
    /// Where the data ends that goes unsolicited, or that R2Ts have asked for: they ask in order, and for nothing twice
    /// (DataSequenceInOrder, RFC 7143 §13.19).
    pub(crate) requested: u32,
    /// Bytes sent.
    pub(crate) sent: u32,
    /// R2TSN of the next R2T.
    r2t_sn: u32,
    /// R2Ts whose data is not sent whole yet.
    open_r2ts: u16,
}

impl DataOutProgress {
    /// A command goes out with `immediate` bytes; unsolicited data ends at `unsolicited`.
    pub(crate) fn begin(immediate: u32, unsolicited: u32) -> Self {
        Self { requested: unsolicited, sent: immediate, r2t_sn: 0, open_r2ts: 0 }
    }

    /// Checks and takes an R2T for a command that writes `length` bytes, or nothing. As no byte is asked for twice, and no more R2Ts are
    /// open than agreed, what a target can make this side hold is bounded by the requests.
    pub(crate) fn take_r2t(
        &mut self,
        r2t: &R2t,
        length: Option<u32>,
        parameters: &Parameters,
    ) -> Result<DataRange, Violation> {
        let range = r2t.range();
        let end = range.end().ok_or(Violation::DataOverrun)?;
        let fits = length.is_some_and(|length| end <= length);
        if !fits || range.length == 0 || range.length > parameters.max_burst {
            return Err(Violation::DataOverrun);
        }
        if r2t.r2t_sn() != self.r2t_sn || range.offset < self.requested {
            return Err(Violation::DataOutOfOrder);
        }
        if self.open_r2ts >= parameters.outstanding_r2t {
            return Err(Violation::TooManyR2ts);
        }
        self.open_r2ts += 1;
        self.r2t_sn = self.r2t_sn.wrapping_add(1);
        self.requested = end;
        Ok(range)
    }

    /// Counts data that has been sent.
    pub(crate) fn count(&mut self, length: u32) {
        self.sent = self.sent.saturating_add(length);
    }

    /// An R2T has all of its data.
    pub(crate) fn close_r2t(&mut self) {
        self.open_r2ts = self.open_r2ts.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: u32 = 1;

    fn parameters() -> Parameters {
        Parameters {
            max_burst: 1024,
            first_burst: 1024,
            initial_r2t: false,
            outstanding_r2t: 2,
            ..Parameters::default()
        }
    }

    fn out(transfer_tag: u32, data_sn: u32, offset: u32, length: u32) -> DataOut {
        let tags = TaskTags { initiator: TASK, target: transfer_tag };
        DataOut::new([0; 8], tags, data_sn, DataRange { offset, length })
    }

    #[test]
    fn a_target_names_each_violation() {
        let mut sequences = DataOutSequences::default();
        sequences.begin(None);
        let range = DataRange { offset: 0, length: 1024 };
        let get = GetData { task: TaskHandle(3), task_tag: TASK, lun: [0; 8], range };
        sequences.get_data(&get, 7);
        for (pdu, violation) in [
            (out(6, 0, 0, 512), Violation::UnknownTransferTag),
            (out(RESERVED_TAG, 0, 0, 512), Violation::UnknownTransferTag),
            (out(7, 1, 0, 512), Violation::DataOutOfOrder),
            (out(7, 0, 512, 512), Violation::DataOutOfOrder),
            (out(7, 0, 0, 1025), Violation::DataOverrun),
            (out(7, 0, 0, 512).ending(), Violation::DataUnderrun),
        ] {
            assert_eq!(sequences.check(&pdu), Err(violation), "{pdu:?}");
        }
    }

    #[test]
    fn a_target_numbers_the_r2ts_of_each_command_from_zero() {
        let mut sequences = DataOutSequences::default();
        let range = DataRange { offset: 0, length: 512 };
        let get = GetData { task: TaskHandle(3), task_tag: TASK, lun: [0; 8], range };
        for r2ts in [2, 3, 0] {
            sequences.begin(None);
            let numbers: alloc::vec::Vec<u32> =
                (0..r2ts).map(|tag| sequences.get_data(&get, tag).r2t_sn()).collect();
            assert_eq!(numbers, (0..r2ts).collect::<alloc::vec::Vec<u32>>());
            assert_eq!([sequences.forget_r2ts(), sequences.forget_r2ts()], [r2ts, 0]);
        }
    }

    #[test]
    fn an_initiator_cuts_a_sequence_by_segments() {
        let tags = TaskTags { initiator: TASK, target: 9 };
        let mut left =
            Some(DataOutSequence::new(TaskHandle(3), tags, DataRange { offset: 512, length: 1200 }));
        let mut pdus = alloc::vec::Vec::new();
        while let Some(sequence) = left {
            let (pdu, rest) = sequence.next([0; 8], sequence.next_range(512));
            pdus.push((pdu.data_sn(), pdu.buffer_offset(), pdu.length(), pdu.is_final()));
            left = rest;
        }
        assert_eq!(pdus, [(0, 512, 512, false), (1, 1024, 512, false), (2, 1536, 176, true)]);
    }

    #[test]
    fn an_initiator_names_each_violation() {
        let parameters = parameters();
        let r2t = |number, offset, length| {
            R2t::new([0; 8], TaskTags { initiator: TASK, target: 9 }, number, DataRange { offset, length })
        };
        let mut progress = DataOutProgress::begin(512, 1024);
        for (r2t, violation) in [
            (r2t(0, u32::MAX, 1), Violation::DataOverrun),
            (r2t(0, 4000, 97), Violation::DataOverrun),
            (r2t(0, 1024, 0), Violation::DataOverrun),
            (r2t(0, 1024, 1025), Violation::DataOverrun),
            (r2t(1, 1024, 512), Violation::DataOutOfOrder),
            (r2t(0, 1023, 512), Violation::DataOutOfOrder),
        ] {
            assert_eq!(progress.take_r2t(&r2t, Some(4096), &parameters), Err(violation), "{r2t:?}");
        }
        assert_eq!(progress.take_r2t(&r2t(0, 1024, 512), None, &parameters), Err(Violation::DataOverrun));
        progress.take_r2t(&r2t(0, 1024, 512), Some(4096), &parameters).unwrap();
        progress.take_r2t(&r2t(1, 1536, 512), Some(4096), &parameters).unwrap();
        let third = r2t(2, 2048, 512);
        assert_eq!(progress.take_r2t(&third, Some(4096), &parameters), Err(Violation::TooManyR2ts));
        progress.close_r2t();
        assert_eq!(progress.take_r2t(&third, Some(4096), &parameters), Ok(third.range()));
    }
}
