//! What a host's connection has to send, in order, and its way into PDUs.

use buf::BufList;
use protocol::{Instant, Transmit};
use zerocopy::{FromBytes, IntoBytes};

use super::connection::Connection;
use super::work::Work;
use crate::pdu::{CapsuleCmd, H2cData, IcReq, R2t, flags};
use crate::sqe::SubmissionQueueEntry;
use crate::transport::{Agreement, Framed, put_bare, put_with_data};
use crate::violation::Violation;

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    IcReq {
        header_digest: bool,
        data_digest: bool,
    },
    /// A command with its in-capsule data, which may be none.
    Command {
        entry: SubmissionQueueEntry,
        data: BufList,
    },
    /// What an R2T asked for, from `next` to `end`.
    Burst {
        cid: u16,
        ttag: u16,
        next: usize,
        end: usize,
    },
}

impl Outgoing {
    #[inline]
    pub(crate) fn put(self, agreed: Agreement, send: &mut Transmit) {
        match self {
            Self::IcReq { header_digest, data_digest } => {
                send.put(IcReq::new(header_digest, data_digest, 0).as_bytes());
            }
            Self::Command { entry, data } if data.is_empty() => {
                put_bare(send, agreed, CapsuleCmd::new(entry).as_mut_bytes());
            }
            Self::Command { entry, data } => {
                let length = data.len();
                let pieces = data.into_pieces();
                put_with_data(send, agreed, CapsuleCmd::new(entry).as_mut_bytes(), (length, pieces));
            }
            // Cut into PDUs by `send_burst`, which knows the data.
            Self::Burst { .. } => {}
        }
    }
}

impl Connection {
    /// The controller asks for a command's data: in order, nothing twice, and only once it has what it asked for before, as
    /// MAXR2T is 0 (NVMe TCP Transport §3.6.2.2, §3.6.2.9). What it can make the host hold is so bounded by the queue.
    pub(super) fn handle_r2t(&mut self, framed: &Framed<'_>) -> Result<(), Violation> {
        let (pdu, _) = R2t::read_from_prefix(framed.header).map_err(|_| Violation::HeaderLength)?;
        let cid = pdu.cccid.get();
        let sending = self.works.get(cid).and_then(Work::sending).ok_or(Violation::UnknownCommand)?;
        if sending.early.is_some() {
            return Err(Violation::UnknownCommand);
        }
        if sending.is_open() {
            return Err(Violation::DataLimit);
        }
        let start = usize::try_from(pdu.r2to.get()).unwrap_or(usize::MAX);
        let length = usize::try_from(pdu.r2tl.get()).unwrap_or(usize::MAX);
        let end = start.saturating_add(length);
        if start != sending.asked || length == 0 || end > sending.data.len() {
            return Err(Violation::DataRange);
        }
        sending.asked = end;
        self.outgoing.push_back(Outgoing::Burst { cid, ttag: pdu.ttag.get(), next: start, end });
        Ok(())
    }

    /// Sends the next piece of what an R2T asked for.
    fn send_burst(&mut self, (cid, ttag): (u16, u16), range: core::ops::Range<usize>, send: &mut Transmit) {
        let Some(sending) = self.works.get(cid).and_then(Work::sending) else { return };
        let length = range.len().min(self.max_data);
        let next = range.start.saturating_add(length);
        let data = sending.data.part(range.start, length);
        sending.sent = next;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let mut pdu = H2cData::new(cid, ttag, number(range.start), number(length));
        pdu.header.flags = u8::from(next == range.end) * flags::LAST;
        put_with_data(send, self.agreed, pdu.as_mut_bytes(), (length, data.into_pieces()));
        if next < range.end {
            self.outgoing.push_front(Outgoing::Burst { cid, ttag, next, end: range.end });
        }
    }

    /// Sends the oldest thing that waits; false if there is none.
    pub(super) fn send_one(&mut self, send: &mut Transmit) -> bool {
        match self.outgoing.pop_front() {
            None => return false,
            Some(Outgoing::Burst { cid, ttag, next, end }) => self.send_burst((cid, ttag), next..end, send),
            Some(outgoing) => {
                if let Outgoing::Command { entry, .. } = &outgoing {
                    self.works.mark_sent(entry.cid.get());
                }
                outgoing.put(self.agreed, send);
            }
        }
        true
    }

    /// Ends the commands whose end waited for the data that the controller had asked for.
    pub(super) fn end_early(&mut self, now: Instant) {
        while let Some((work, status)) = self.works.take_early() {
            if let Some(tag) = work.tag() {
                self.complete(tag, status);
            }
            self.start_pending(now);
        }
    }
}
