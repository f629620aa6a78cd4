//! Collecting a command's write data: immediate, unsolicited, and asked for by R2T (RFC 7143 §4.2.5.2, §11.7, §11.8).

use crate::keys::Parameters;
use crate::limits::MOST_R2T;
use crate::pdu::{DataOut, RESERVED_TAG};
use crate::violation::Violation;

/// A sequence of Data-Out PDUs that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Burst {
    transfer_tag: u32,
    data_sn: u32,
    next: u32,
    end: u32,
}

/// What to ask the initiator for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) transfer_tag: u32,
    pub(super) r2t_sn: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// Where a command's data stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Collection {
    /// Bytes that the command needs.
    needed: u32,
    /// Everything before this was sent or asked for.
    asked: u32,
    unsolicited: Option<Burst>,
    open: [Option<Burst>; MOST_R2T as usize],
    r2ts: u32,
}

impl Collection {
    /// Begins with a command that announces `expected` bytes, `immediate` of them in the command itself; with `more`,
    /// unsolicited Data-Out PDUs follow.
    pub(super) fn begin(
        &mut self,
        expected: u32,
        (immediate, more): (u32, bool),
        parameters: &Parameters,
    ) -> Result<(), Violation> {
        self.clear();
        let limit = parameters.unsolicited().min(expected);
        if immediate > 0 && !parameters.immediate_data || more && parameters.initial_r2t {
            return Err(Violation::UnexpectedData);
        }
        if immediate > limit {
            return Err(Violation::DataOverrun);
        }
        let burst = Burst { transfer_tag: RESERVED_TAG, data_sn: 0, next: immediate, end: limit };
        (self.asked, self.unsolicited) = (immediate, more.then_some(burst));
        Ok(())
    }

    /// Begins with a command that has no data.
    pub(super) fn clear(&mut self) {
        (self.needed, self.asked, self.r2ts) = (0, 0, 0);
        self.unsolicited = None;
        self.open.fill(None);
    }

    /// The command turns out to need `needed` bytes, of which R2Ts ask for what does not come by itself.
    pub(super) fn need(&mut self, needed: u32) {
        self.needed = needed;
    }

    /// R2Ts sent.
    pub(super) fn r2ts(&self) -> u32 {
        self.r2ts
    }

    /// Checks a Data-Out against its sequence, before its data is taken: DataPDUInOrder and DataSequenceInOrder are always
    /// Yes here.
    pub(super) fn check(&self, data: &DataOut) -> Result<(), Violation> {
        let burst = self.burst(data.transfer_tag()).ok_or(Violation::UnknownTransferTag)?;
        if data.data_sn() != burst.data_sn || data.buffer_offset() != burst.next {
            return Err(Violation::DataOutOfOrder);
        }
        let end = burst.next.checked_add(data.length()).ok_or(Violation::DataOverrun)?;
        if end > burst.end {
            return Err(Violation::DataOverrun);
        }
        // Unsolicited data may stop early; what was asked for must come whole (RFC 7143 §11.7.1).
        if data.is_final() && data.transfer_tag() != RESERVED_TAG && end != burst.end {
            return Err(Violation::DataUnderrun);
        }
        Ok(())
    }

    fn burst(&self, transfer_tag: u32) -> Option<&Burst> {
        let open = self.open.iter().flatten();
        self.unsolicited.iter().chain(open).find(|burst| burst.transfer_tag == transfer_tag)
    }

    /// Counts a checked Data-Out whose data has arrived.
    pub(super) fn take(&mut self, data: &DataOut) {
        let place = core::iter::once(&mut self.unsolicited).chain(&mut self.open);
        let mut found =
            place.filter(|place| place.is_some_and(|burst| burst.transfer_tag == data.transfer_tag()));
        let Some(place) = found.next() else { return };
        let Some(burst) = place else { return };
        burst.data_sn = burst.data_sn.wrapping_add(1);
        burst.next = burst.next.saturating_add(data.length());
        let next = burst.next;
        if data.is_final() {
            *place = None;
            if data.transfer_tag() == RESERVED_TAG {
                self.asked = next;
            }
        }
    }

    /// The next R2T to send, if one may be open and something is missing. `transfer_tag` becomes its mark.
    pub(super) fn ask(&mut self, transfer_tag: u32, parameters: &Parameters) -> Option<Ask> {
        let most = usize::from(parameters.outstanding_r2t.clamp(1, MOST_R2T));
        if self.unsolicited.is_some() || self.asked >= self.needed {
            return None;
        }
        let place = self.open.iter_mut().take(most).find(|place| place.is_none())?;
        let length = (self.needed - self.asked).min(parameters.max_burst);
        let ask = Ask { transfer_tag, r2t_sn: self.r2ts, offset: self.asked, length };
        *place = Some(Burst { transfer_tag, data_sn: 0, next: self.asked, end: self.asked + length });
        self.asked += length;
        self.r2ts += 1;
        Some(ask)
    }

    /// True once everything that is needed, and everything that comes unasked, is there.
    pub(super) fn is_complete(&self) -> bool {
        self.unsolicited.is_none() && self.open.iter().all(Option::is_none) && self.asked >= self.needed
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

    fn out(transfer_tag: u32, data_sn: u32, place: (u32, u32)) -> DataOut {
        DataOut::new([0; 8], (1, transfer_tag), data_sn, place)
    }

    #[test]
    fn immediate_then_unsolicited_then_asked() {
        let parameters = parameters();
        let mut data = Collection::default();
        data.begin(4096, (512, true), &parameters).unwrap();
        data.need(4096);
        assert_eq!(data.ask(7, &parameters), None, "unsolicited data comes first");
        let pdu = out(RESERVED_TAG, 0, (512, 512)).ending();
        data.check(&pdu).unwrap();
        data.take(&pdu);
        let first = data.ask(7, &parameters).unwrap();
        let second = data.ask(8, &parameters).unwrap();
        assert_eq!((first.offset, first.length, second.offset, second.r2t_sn), (1024, 1024, 2048, 1));
        assert_eq!(data.ask(9, &parameters), None, "two may be open");
        for (tag, sn, place, last) in
            [(8, 0, (2048, 1024), true), (7, 0, (1024, 512), false), (7, 1, (1536, 512), true)]
        {
            let pdu = out(tag, sn, place);
            let pdu = if last { pdu.ending() } else { pdu };
            data.check(&pdu).unwrap();
            data.take(&pdu);
        }
        let third = data.ask(9, &parameters).unwrap();
        assert!(!data.is_complete());
        let pdu = out(9, 0, (third.offset, third.length)).ending();
        data.take(&pdu);
        assert!(data.is_complete());
    }

    #[test]
    fn misdeeds() {
        let parameters = parameters();
        let begin = |expected, immediate, more, parameters: &Parameters| {
            Collection::default().begin(expected, (immediate, more), parameters)
        };
        assert_eq!(begin(4096, 1025, false, &parameters), Err(Violation::DataOverrun));
        assert_eq!(begin(512, 513, false, &parameters), Err(Violation::DataOverrun));
        let strict = Parameters { immediate_data: false, initial_r2t: true, ..parameters };
        assert_eq!(begin(512, 512, false, &strict), Err(Violation::UnexpectedData));
        assert_eq!(begin(512, 0, true, &strict), Err(Violation::UnexpectedData));
        let mut data = Collection::default();
        data.begin(4096, (0, false), &parameters).unwrap();
        data.need(4096);
        data.ask(7, &parameters).unwrap();
        for (pdu, violation) in [
            (out(6, 0, (0, 512)), Violation::UnknownTransferTag),
            (out(RESERVED_TAG, 0, (0, 512)), Violation::UnknownTransferTag),
            (out(7, 1, (0, 512)), Violation::DataOutOfOrder),
            (out(7, 0, (512, 512)), Violation::DataOutOfOrder),
            (out(7, 0, (0, 1025)), Violation::DataOverrun),
            (out(7, 0, (0, 512)).ending(), Violation::DataUnderrun),
        ] {
            assert_eq!(data.check(&pdu), Err(violation));
        }
    }
}
