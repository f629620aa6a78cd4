//! What a target is to send, in order, and how it becomes PDUs.
//!
//! StatSN, ExpCmdSN and MaxCmdSN are written when a PDU is sent, so that they are always the newest.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::{BufList, SharedBuf};
use protocol::{Transmit, Unsent};
use scsi::Sense;

use crate::datamover::tcp::framing::{Digests, Payload, send};
use crate::keys::Parameters;
use crate::limits::{IMMEDIATE_DEPTH, OUTBOUND, OUTBOUND_BYTES, STAGED};
use crate::pdu::{
    BasicHeaderSegment, Bhs, DataIn, Opcode, Residual, ScsiResponse, stamp_length, stamp_response,
};
use crate::sequence::CommandWindow;

/// PDUs that may wait to be sent beside a window of this width.
pub(crate) fn unsent(width: u16) -> usize {
    usize::from(width.saturating_add(IMMEDIATE_DEPTH)).saturating_mul(OUTBOUND)
}

/// The end of a SCSI command: its data, then its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) slot: u16,
    pub(crate) tag: u32,
    pub(crate) status: u8,
    pub(crate) sense: Sense,
    pub(crate) residual: Residual,
    pub(crate) data: BufList,
    /// R2Ts sent so far; then Data-Ins.
    pub(crate) sequence: u32,
    pub(crate) sent: usize,
}

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A single PDU. `status` is true when it takes a StatSN, `numbered` when it ends a request that took a CmdSN.
    Pdu { header: Bhs, data: Vec<u8>, status: bool, numbered: bool },
    /// The end of a command.
    Answer(Answer),
}

/// What a call to [`SendQueue::send_one`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// There was nothing to send.
    Nothing,
    /// A PDU went out.
    Pdu,
    /// A PDU went out that ended the command in this slot.
    Command(u16),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct SendQueue {
    queue: VecDeque<Outgoing>,
    /// How many may wait before the peer had better read.
    pub(crate) room: usize,
    unsent: Unsent,
    pub(crate) digests: Digests,
    pub(crate) stat_sn: u32,
}

/// A SCSI response's data segment: the sense data behind its length (RFC 7143 §11.4.7).
struct SenseSegment {
    bytes: [u8; 2 + Sense::MAX],
    len: usize,
}

impl SenseSegment {
    fn new(sense: &Sense) -> Self {
        let mut bytes = [0; 2 + Sense::MAX];
        let sense = sense.bytes();
        if sense.is_empty() {
            return Self { bytes, len: 0 };
        }
        let mut writer = wire::Writer::new(&mut bytes);
        let length = u16::try_from(sense.len()).unwrap_or(0);
        let written = writer.u16_be(length).and_then(|()| writer.put(sense));
        let len = if written.is_ok() { writer.written() } else { 0 };
        Self { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl SendQueue {
    pub(crate) fn new(room: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            room,
            unsent: Unsent::default(),
            digests: Digests::default(),
            stat_sn: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, outgoing: Outgoing) {
        self.unsent.add(outgoing.unpooled());
        self.queue.push_back(outgoing);
    }

    /// A response that takes a StatSN.
    pub(crate) fn respond(&mut self, header: Bhs, data: Vec<u8>, numbered: bool) {
        self.push(Outgoing::Pdu { header, data, status: true, numbered });
    }

    /// A PDU that takes no StatSN.
    pub(crate) fn tell(&mut self, header: Bhs) {
        self.push(Outgoing::Pdu { header, data: Vec::new(), status: false, numbered: false });
    }

    /// True when the peer had better read first.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.room || self.unsent.bytes() >= OUTBOUND_BYTES
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.unsent.drop_waiting();
    }

    /// Bytes of what waits and is being sent, outside of pools.
    pub(crate) fn bytes(&self) -> usize {
        self.unsent.bytes()
    }

    /// Bytes of the queue itself.
    pub(crate) fn size(&self) -> usize {
        // What is allocated cannot overflow.
        self.queue.capacity().wrapping_mul(size_of::<Outgoing>())
    }

    /// Everything that was given to the transport has gone out.
    pub(crate) fn sent(&mut self) {
        self.unsent.sent();
    }

    /// Sends one PDU, if there is one. `numbered` says whether the command in a slot took a CmdSN.
    #[inline]
    pub(crate) fn send_one(
        &mut self,
        out: &mut Transmit,
        (window, parameters): (&mut CommandWindow, &Parameters),
        numbered: impl Fn(u16) -> bool,
    ) -> Sent {
        let Some(front) = self.queue.front_mut() else { return Sent::Nothing };
        let unpooled = front.unpooled();
        let ended = match front {
            Outgoing::Pdu { header, data, status, numbered } => {
                if *numbered {
                    window.release();
                }
                stamp_length(header, data.len());
                stamp_response(header, self.stat_sn, window.expected(), window.most());
                if *status {
                    self.stat_sn = self.stat_sn.wrapping_add(1);
                }
                // Digests begin after the login's last response (RFC 7143 §13.1).
                let login = BasicHeaderSegment::from_bytes(header).opcode() == Opcode::LOGIN_RESPONSE;
                let digests = if login { Digests::default() } else { self.digests };
                // The names of many targets are not copied once more.
                let payload = if data.len() > STAGED {
                    Payload::Shared(SharedBuf::from(core::mem::take(data)).into())
                } else {
                    Payload::Bytes(data)
                };
                send(out, digests, header, payload);
                Sent::Pdu
            }
            Outgoing::Answer(answer) => {
                let last = answer.is_last(parameters);
                if last && numbered(answer.slot) {
                    window.release();
                }
                answer.send(out, (self.digests, parameters), (self.stat_sn, window));
                if !last {
                    let left = front.unpooled();
                    self.unsent.leave(unpooled.saturating_sub(left));
                    return Sent::Pdu;
                }
                self.stat_sn = self.stat_sn.wrapping_add(1);
                Sent::Command(answer.slot)
            }
        };
        self.queue.pop_front();
        self.unsent.leave(unpooled);
        ended
    }
}

impl Outgoing {
    /// Bytes of data outside of pools.
    fn unpooled(&self) -> usize {
        match self {
            Self::Pdu { data, .. } => data.len(),
            Self::Answer(answer) => answer.data.unpooled(),
        }
    }
}

impl Answer {
    /// How much data the next PDU carries: bounded by the peer's segment and the end of the burst.
    fn piece(&self, parameters: &Parameters) -> usize {
        let burst = parameters.max_burst as usize;
        let left = burst - self.sent % burst;
        (self.data.len() - self.sent).min(parameters.peer_segment as usize).min(left)
    }

    /// True when the status travels with the last data (phase collapse, RFC 7143 §11.7.5): only without sense data.
    fn collapses(&self) -> bool {
        !self.data.is_empty() && self.sense.bytes().is_empty()
    }

    fn is_last(&self, parameters: &Parameters) -> bool {
        let rest = self.data.len() - self.sent;
        rest == 0 || (self.collapses() && self.piece(parameters) == rest)
    }

    fn send(
        &mut self,
        out: &mut Transmit,
        (digests, parameters): (Digests, &Parameters),
        (stat_sn, window): (u32, &CommandWindow),
    ) {
        let rest = self.data.len() - self.sent;
        if rest == 0 {
            let sense = SenseSegment::new(&self.sense);
            let response = ScsiResponse::new(self.tag, self.status, self.residual, self.sequence);
            let mut header = response.to_bytes();
            stamp_length(&mut header, sense.len);
            stamp_response(&mut header, stat_sn, window.expected(), window.most());
            return send(out, digests, &header, Payload::Bytes(sense.bytes()));
        }
        let piece = self.piece(parameters);
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let mut data_in = DataIn::new(self.tag, self.sequence, (short(self.sent), short(piece)));
        let list = if piece == self.data.len() {
            core::mem::take(&mut self.data)
        } else {
            self.data.part(self.sent, piece)
        };
        let collapse = piece == rest && self.sense.bytes().is_empty();
        self.sent += piece;
        self.sequence = self.sequence.wrapping_add(1);
        if collapse {
            data_in = data_in.with_status(self.status, self.residual);
        } else if piece == rest || self.sent.is_multiple_of(parameters.max_burst as usize) {
            data_in = data_in.ending();
        }
        let mut header = data_in.to_bytes();
        // StatSN counts only with a status; elsewhere it is reserved (RFC 7143 §11.7.3).
        let stat_sn = if collapse { stat_sn } else { 0 };
        stamp_response(&mut header, stat_sn, window.expected(), window.most());
        send(out, digests, &header, Payload::Shared(list));
        if !collapse && self.data.is_empty() {
            // The data went in one piece and the status follows by itself.
            self.sent = 0;
        }
    }
}
