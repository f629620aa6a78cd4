//! What a host's connection has to send, in order, and its way into PDUs.

use alloc::collections::VecDeque;
use core::ops::Range;

use buf::BufList;
use protocol::Transmit;
use zerocopy::{FromBytes, IntoBytes};

use super::command_table::{CommandTable, HostCommand};
use crate::pdu::{CapsuleCmd, H2cData, IcReq, R2t, flags};
use crate::sqe::SubmissionQueueEntry;
use crate::transport::{Agreement, Framed, PduData, put_bare, put_with_data};
use crate::violation::Violation;
use crate::width::{from_field, to_field};

/// One thing to send.
#[derive(Debug)]
pub(super) enum Outgoing {
    IcReq {
        header_digest: bool,
        data_digest: bool,
    },
    /// A command with its in-capsule data, which may be none.
    Command {
        entry: SubmissionQueueEntry,
        data: BufList,
    },
    /// What an R2T asked for.
    Burst(Burst),
}

impl Outgoing {
    #[inline]
    fn put(self, agreed: Agreement, send: &mut Transmit) {
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
                put_with_data(
                    send,
                    agreed,
                    CapsuleCmd::new(entry).as_mut_bytes(),
                    PduData { length, pieces },
                );
            }
            // Cut into PDUs by `send_burst`, which knows the data.
            Self::Burst(_) => {}
        }
    }
}

/// What waits to be sent.
#[derive(Debug)]
pub(super) struct SendQueue {
    waiting: VecDeque<Outgoing>,
    agreed: Agreement,
    /// The most bytes of data in one PDU, as the controller says in ICResp (MAXH2CDATA).
    max_data: usize,
}

/// What is left of the data that an R2T asked for.
#[derive(Debug)]
pub(super) struct Burst {
    cid: u16,
    ttag: u16,
    range: Range<usize>,
}

impl SendQueue {
    /// A queue that begins with `first`.
    pub(super) fn new(first: Outgoing) -> Self {
        Self { waiting: VecDeque::from([first]), agreed: Agreement::default(), max_data: 0 }
    }

    /// Both sides have agreed how PDUs look from now on, and the controller takes `max_data` bytes of data in one.
    pub(super) fn agree(&mut self, agreed: Agreement, max_data: usize) {
        (self.agreed, self.max_data) = (agreed, max_data);
    }

    /// Sends a command with its in-capsule data once all that waits was sent.
    pub(super) fn push(&mut self, entry: SubmissionQueueEntry, data: BufList) {
        self.waiting.push_back(Outgoing::Command { entry, data });
    }

    /// Nothing of what waits is sent any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The controller asks for a command's data: in order, nothing twice, and only once it has what it asked for before, as
    /// MAXR2T is 0 (NVMe TCP Transport §3.6.2.2, §3.6.2.9). What it can make the host hold is so bounded by the queue.
    pub(super) fn handle_r2t(
        &mut self,
        framed: &Framed<'_>,
        commands: &mut CommandTable,
    ) -> Result<(), Violation> {
        let (pdu, _) = R2t::read_from_prefix(framed.header).map_err(|_| Violation::HeaderLength)?;
        let cid = pdu.cccid.get();
        let source = commands.get(cid).and_then(HostCommand::source).ok_or(Violation::UnknownCommand)?;
        if source.early.is_some() {
            return Err(Violation::UnknownCommand);
        }
        if source.is_open() {
            return Err(Violation::DataLimit);
        }
        let start = from_field(pdu.r2to.get());
        let length = from_field(pdu.r2tl.get());
        let end = start.saturating_add(length);
        if start != source.asked || length == 0 || end > source.data.len() {
            return Err(Violation::DataRange);
        }
        source.asked = end;
        self.waiting.push_back(Outgoing::Burst(Burst { cid, ttag: pdu.ttag.get(), range: start..end }));
        Ok(())
    }

    /// Sends the oldest thing that waits; false if there is none.
    pub(super) fn send_one(&mut self, commands: &mut CommandTable, send: &mut Transmit) -> bool {
        match self.waiting.pop_front() {
            None => return false,
            Some(Outgoing::Burst(burst)) => self.send_burst(burst, commands, send),
            Some(outgoing) => {
                if let Outgoing::Command { entry, .. } = &outgoing {
                    commands.mark_sent(entry.cid.get());
                }
                outgoing.put(self.agreed, send);
            }
        }
        true
    }

    /// Sends the next piece of what an R2T asked for.
    fn send_burst(&mut self, burst: Burst, commands: &mut CommandTable, send: &mut Transmit) {
        let Burst { cid, ttag, range } = burst;
        let Some(source) = commands.get(cid).and_then(HostCommand::source) else { return };
        let length = range.len().min(self.max_data);
        let next = range.start.saturating_add(length);
        let data = source.data.part(range.start, length);
        source.sent = next;
        let mut pdu = H2cData::new(cid, ttag, to_field(range.start), to_field(length));
        pdu.header.flags = u8::from(next == range.end) * flags::LAST;
        put_with_data(send, self.agreed, pdu.as_mut_bytes(), PduData { length, pieces: data.into_pieces() });
        if next < range.end {
            self.waiting.push_front(Outgoing::Burst(Burst { cid, ttag, range: next..range.end }));
        }
    }
}
