//! Which bytes of a command's write data the target asks its datamover for, and when (Get_Data of RFC 5047 §6).
//!
//! Unsolicited data comes first. Then the rest is asked for in order, in parts of MaxBurstLength, as many at a time as MaxOutstandingR2T
//! allows (RFC 7143 §13.13, §13.17).

use crate::datamover::tcp::data_out::DataOutSequences;
use crate::keys::Parameters;
use crate::limits::MOST_R2T;
use crate::pdu::DataRange;

/// How much of a command's write data has come by itself or was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GetDataProgress {
    /// Bytes that the command needs.
    needed: u32,
    /// Everything before this has come unsolicited, or was asked for.
    requested: u32,
}

impl GetDataProgress {
    /// Begins with a command that brings `immediate` bytes.
    pub(super) fn begin(&mut self, immediate: u32) {
        (self.needed, self.requested) = (0, immediate);
    }

    /// The command turns out to need `needed` bytes; what does not come by itself is asked for.
    pub(super) fn need(&mut self, needed: u32) {
        self.needed = needed;
    }

    /// The unsolicited data ends here.
    pub(super) fn unsolicited_ended(&mut self, end: u32) {
        self.requested = end;
    }

    /// What to ask for next, if something is missing and another R2T may be open.
    #[inline]
    pub(super) fn next(
        &mut self,
        sequences: &DataOutSequences,
        parameters: &Parameters,
    ) -> Option<DataRange> {
        if sequences.awaits_unsolicited() || self.requested >= self.needed {
            return None;
        }
        if !sequences.has_room(parameters.outstanding_r2t.clamp(1, MOST_R2T)) {
            return None;
        }
        let offset = self.requested;
        let length = (self.needed - offset).min(parameters.max_burst);
        self.requested += length;
        Some(DataRange { offset, length })
    }

    /// True once everything that is needed, and everything that comes unsolicited, is there.
    pub(super) fn is_complete(self, sequences: &DataOutSequences) -> bool {
        sequences.are_complete() && self.requested >= self.needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datamover::GetData;
    use crate::datamover::tcp::data_out::Announced;
    use crate::pdu::{DataOut, RESERVED_TAG, TaskTags};

    /// A command's write data, as a connection moves it.
    #[derive(Default)]
    struct Write {
        sequences: DataOutSequences,
        progress: GetDataProgress,
    }

    impl Write {
        fn ask(&mut self, transfer_tag: u32, parameters: &Parameters) -> Option<(u32, DataRange)> {
            let range = self.progress.next(&self.sequences, parameters)?;
            let get = GetData { task_tag: 1, lun: [0; 8], range };
            let r2t = self.sequences.get_data(&get, transfer_tag);
            assert_eq!((r2t.transfer_tag(), r2t.range()), (transfer_tag, range));
            Some((r2t.r2t_sn(), range))
        }

        fn take(&mut self, pdu: &DataOut) {
            self.sequences.check(pdu).unwrap();
            if let Some(end) = self.sequences.take(pdu) {
                self.progress.unsolicited_ended(end);
            }
        }
    }

    fn out(transfer_tag: u32, data_sn: u32, range: DataRange) -> DataOut {
        DataOut::new([0; 8], TaskTags { initiator: 1, target: transfer_tag }, data_sn, range)
    }

    fn range(offset: u32, length: u32) -> DataRange {
        DataRange { offset, length }
    }

    #[test]
    fn immediate_then_unsolicited_then_asked_for() {
        let parameters = Parameters {
            max_burst: 1024,
            first_burst: 1024,
            initial_r2t: false,
            outstanding_r2t: 2,
            ..Parameters::default()
        };
        let mut write = Write::default();
        let announced = Announced { expected: 4096, immediate: 512, more: true };
        write.sequences.begin(announced, &parameters).unwrap();
        write.progress.begin(512);
        write.progress.need(4096);
        assert_eq!(write.ask(7, &parameters), None, "unsolicited data comes first");
        write.take(&out(RESERVED_TAG, 0, range(512, 512)).ending());
        assert_eq!(write.ask(7, &parameters), Some((0, range(1024, 1024))));
        assert_eq!(write.ask(8, &parameters), Some((1, range(2048, 1024))));
        assert_eq!(write.ask(9, &parameters), None, "two may be open");
        write.take(&out(8, 0, range(2048, 1024)).ending());
        write.take(&out(7, 0, range(1024, 512)));
        write.take(&out(7, 1, range(1536, 512)).ending());
        let (_, third) = write.ask(9, &parameters).unwrap();
        assert!(!write.progress.is_complete(&write.sequences));
        write.take(&out(9, 0, third).ending());
        assert!(write.progress.is_complete(&write.sequences));
    }
}
