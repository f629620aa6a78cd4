//! What a target is to send, in order, and how it becomes PDUs.
//!
//! StatSN, ExpCmdSN and MaxCmdSN are written when a PDU is sent, so that they are always the newest.

use alloc::collections::VecDeque;

use buf::SharedBuf;
use protocol::{Transmit, Unsent};

use crate::datamover::tcp::data_in::{DataInSequence, Sending};
use crate::datamover::tcp::framing::{Digests, Payload, send};
use crate::datamover::{ControlPdu, PutData, TaskHandle};
use crate::keys::Parameters;
use crate::limits::{OUTBOUND_BYTES, STAGED};
use crate::pdu::{BasicHeaderSegment, Opcode, stamp_length};
use crate::sequence::TargetNumbers;

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A single PDU.
    Pdu(ControlPdu),
    /// The end of a command.
    Data(DataInSequence),
}

/// What a call to [`SendQueue::send_one`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// There was nothing to send.
    Nothing,
    /// A PDU went out.
    Pdu,
    /// A PDU went out that had the status of this task.
    Status(TaskHandle),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct SendQueue {
    queue: VecDeque<Outgoing>,
    /// How many may wait before the peer had better read.
    pub(crate) room: usize,
    unsent: Unsent,
    pub(crate) digests: Digests,
}

impl SendQueue {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), room: 0, unsent: Unsent::default(), digests: Digests::default() }
    }

    #[inline]
    fn push(&mut self, outgoing: Outgoing) {
        self.unsent.add(outgoing.unpooled());
        self.queue.push_back(outgoing);
    }

    /// Sends a command's data and its status, after so many R2Ts for it.
    #[inline]
    pub(crate) fn put_data(&mut self, put: PutData, r2ts: u32) {
        self.push(Outgoing::Data(DataInSequence::new(put, r2ts)));
    }

    /// Sends a single PDU.
    pub(crate) fn send_control(&mut self, pdu: ControlPdu) {
        self.push(Outgoing::Pdu(pdu));
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

    /// Sends one PDU, if there is one.
    #[inline]
    pub(crate) fn send_one(
        &mut self,
        out: &mut Transmit,
        numbers: &mut TargetNumbers,
        parameters: &Parameters,
    ) -> Sent {
        let Some(front) = self.queue.front_mut() else { return Sent::Nothing };
        let unpooled = front.unpooled();
        let ended = match front {
            Outgoing::Pdu(ControlPdu { header, data, leaving }) => {
                stamp_length(header, data.len());
                numbers.stamp(header, *leaving);
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
            Outgoing::Data(sequence) => {
                let task = sequence.task();
                let mut sending = Sending { digests: self.digests, parameters, numbers };
                if !sequence.send_next(out, &mut sending) {
                    let left = front.unpooled();
                    self.unsent.leave(unpooled.saturating_sub(left));
                    return Sent::Pdu;
                }
                Sent::Status(task)
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
            Self::Pdu(pdu) => pdu.data.len(),
            Self::Data(sequence) => sequence.unpooled(),
        }
    }
}
