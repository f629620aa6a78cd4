//! Read data: how a target cuts it into Data-In PDUs, and how an initiator checks that they come in order (RFC 7143 §11.7).
//!
//! Both sides number the Data-Ins of a command from zero, and send them in the order of their offsets: DataPDUInOrder and
//! DataSequenceInOrder are always Yes here.

use protocol::Transmit;

use super::framing::{Digests, Payload, send};
use crate::datamover::{PutData, TaskHandle};
use crate::keys::Parameters;
use crate::pdu::{DataIn, DataRange, ScsiResponse, SenseSegment, stamp_length};
use crate::sequence::{Delivery, Leaving, Numbering, TargetNumbers};
use crate::violation::Violation;

/// The end of a command on its way out: Data-Ins, then a SCSI Response, unless the status travels with the last Data-In.
#[derive(Debug)]
pub(crate) struct DataInSequence {
    put: PutData,
    /// DataSN of the next Data-In; behind the last one it is ExpDataSN, which counts the R2Ts of a command without read data (RFC 7143
    /// §11.4.8).
    data_sn: u32,
    /// Bytes of the data that have gone out.
    sent: usize,
}

/// What every PDU of a sequence is sent with.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    pub(crate) digests: Digests,
    pub(crate) parameters: &'a Parameters,
    pub(crate) numbers: &'a mut TargetNumbers,
}

impl DataInSequence {
    /// Begins with the first byte of the data of a command for which so many R2Ts were sent.
    #[inline]
    pub(crate) fn new(put: PutData, r2ts: u32) -> Self {
        Self { data_sn: if put.data.is_empty() { r2ts } else { 0 }, put, sent: 0 }
    }

    /// Whose end it is.
    #[inline]
    pub(crate) fn task(&self) -> TaskHandle {
        self.put.task
    }

    /// Bytes of data outside of pools.
    #[inline]
    pub(crate) fn unpooled(&self) -> usize {
        self.put.data.unpooled()
    }

    /// How much data the next PDU carries: bounded by the peer's MaxRecvDataSegmentLength and the end of the burst.
    fn next_length(&self, parameters: &Parameters) -> usize {
        let burst = parameters.max_burst as usize;
        let left = burst - self.sent % burst;
        (self.put.data.len() - self.sent).min(parameters.peer_segment as usize).min(left)
    }

    /// Sends the next PDU; true when it had the status. That travels with the last data (phase collapse, RFC 7143 §11.7.5) if there is no
    /// sense data.
    #[inline]
    pub(crate) fn send_next(&mut self, out: &mut Transmit, sending: &mut Sending<'_>) -> bool {
        let rest = self.put.data.len() - self.sent;
        if rest == 0 {
            self.send_response(out, sending);
            return true;
        }
        let length = self.next_length(sending.parameters);
        let short = |number: usize| wire::bounded::<u32>(number);
        let mut data_in = DataIn::new(
            self.put.task_tag,
            self.data_sn,
            DataRange { offset: short(self.sent), length: short(length) },
        );
        let data = &mut self.put.data;
        let list = if length == data.len() { core::mem::take(data) } else { data.part(self.sent, length) };
        let collapse = length == rest && self.put.sense.bytes().is_empty();
        self.sent += length;
        self.data_sn = self.data_sn.wrapping_add(1);
        if collapse {
            data_in = data_in.with_status(self.put.status, self.put.residual);
        } else if length == rest || self.sent.is_multiple_of(sending.parameters.max_burst as usize) {
            data_in = data_in.ending();
        }
        let mut header = data_in.to_bytes();
        // StatSN counts only with a status; elsewhere it is reserved (RFC 7143 §11.7.3).
        let leaving = if collapse {
            self.ending()
        } else {
            Leaving { numbering: Numbering::Unnumbered, answers: Delivery::Immediate }
        };
        sending.numbers.stamp(&mut header, leaving);
        send(out, sending.digests, &header, Payload::Shared(list));
        if !collapse && self.put.data.is_empty() {
            // The data went in one piece and the status follows by itself.
            self.sent = 0;
        }
        collapse
    }

    fn ending(&self) -> Leaving {
        Leaving { numbering: Numbering::StatSn, answers: self.put.delivery }
    }

    fn send_response(&self, out: &mut Transmit, sending: &mut Sending<'_>) {
        let PutData { task_tag, status, residual, .. } = self.put;
        let sense = SenseSegment::new(&self.put.sense);
        let response = ScsiResponse::new(task_tag, status, residual, self.data_sn);
        let mut header = response.to_bytes();
        stamp_length(&mut header, sense.bytes().len());
        sending.numbers.stamp(&mut header, self.ending());
        send(out, sending.digests, &header, Payload::Bytes(sense.bytes()));
    }
}

/// How far the Data-Ins of a command have come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DataInProgress {
    /// Bytes received; the next Data-In begins there.
    pub(crate) received: u32,
    /// DataSN of the next Data-In.
    data_sn: u32,
}

impl DataInProgress {
    /// Checks a Data-In before its data is taken. The command reads `length` bytes, or nothing.
    #[inline]
    pub(crate) fn check(self, data: &DataIn, length: Option<u32>) -> Result<(), Violation> {
        if data.buffer_offset() != self.received || data.data_sn() != self.data_sn {
            return Err(Violation::DataOutOfOrder);
        }
        let end = data.buffer_offset().checked_add(data.length());
        if length.zip(end).is_none_or(|(length, end)| end > length) {
            return Err(Violation::DataOverrun);
        }
        Ok(())
    }

    /// Counts a checked Data-In whose data has arrived.
    #[inline]
    pub(crate) fn take(&mut self, data: &DataIn) {
        self.received = self.received.saturating_add(data.length());
        self.data_sn = self.data_sn.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(data_sn: u32, offset: u32, length: u32) -> DataIn {
        DataIn::new(1, data_sn, DataRange { offset, length })
    }

    #[test]
    fn data_comes_in_order_and_no_more_than_is_read() {
        let mut progress = DataInProgress::default();
        assert_eq!(progress.check(&data(0, 0, 512), None), Err(Violation::DataOverrun), "it does not read");
        progress.check(&data(0, 0, 512), Some(1024)).unwrap();
        progress.take(&data(0, 0, 512));
        for (pdu, violation) in [
            (data(0, 512, 512), Violation::DataOutOfOrder),
            (data(1, 0, 512), Violation::DataOutOfOrder),
            (data(1, 1024, 512), Violation::DataOutOfOrder),
            (data(1, 512, 513), Violation::DataOverrun),
        ] {
            assert_eq!(progress.check(&pdu, Some(1024)), Err(violation), "{pdu:?}");
        }
        progress.check(&data(1, 512, 512), Some(1024)).unwrap();
        progress.take(&data(1, 512, 512));
        assert_eq!(progress.received, 1024);
    }
}
