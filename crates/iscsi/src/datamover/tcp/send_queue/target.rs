//! What a target is to send, in order, and how it becomes PDUs.
//!
//! StatSN, ExpCmdSN and MaxCmdSN are written when a PDU is sent, so that they are always the newest.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::SharedBuf;
use protocol::{Transmit, Unsent};

use crate::datamover::tcp::data_in::{DataInSequence, Sending};
use crate::datamover::tcp::framing::{Digests, Payload, send};
use crate::datamover::{PutData, TaskHandle};
use crate::keys::Parameters;
use crate::limits::{IMMEDIATE_DEPTH, OUTBOUND, OUTBOUND_BYTES, STAGED};
use crate::pdu::{BasicHeaderSegment, Bhs, Opcode, stamp_length, stamp_response};
use crate::sequence::{CommandWindow, Delivery};

/// PDUs that may wait to be sent beside a window of this width.
pub(crate) fn unsent(width: u16) -> usize {
    usize::from(width.saturating_add(IMMEDIATE_DEPTH)).saturating_mul(OUTBOUND)
}

/// Whether a PDU takes a StatSN (RFC 7143 §4.2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// It takes the next one.
    StatSn,
    /// It carries the next one, and does not take it.
    None,
}

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A single PDU; `answers` is how the request was delivered that it ends.
    Pdu { header: Bhs, data: Vec<u8>, numbering: Numbering, answers: Delivery },
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
    /// A PDU went out that ended this task.
    Command(TaskHandle),
}

/// What a target's PDUs are numbered and cut by.
#[derive(Debug)]
pub(crate) struct SendContext<'a> {
    pub(crate) window: &'a mut CommandWindow,
    pub(crate) parameters: &'a Parameters,
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
    fn push(&mut self, outgoing: Outgoing) {
        self.unsent.add(outgoing.unpooled());
        self.queue.push_back(outgoing);
    }

    /// Sends a command's data and its status; `r2ts` is how many R2Ts the command has had.
    #[inline]
    pub(crate) fn put_data(&mut self, put: PutData, r2ts: u32) {
        self.push(Outgoing::Data(DataInSequence::new(put, r2ts)));
    }

    /// A response, which takes a StatSN, to a request that was delivered so.
    pub(crate) fn respond(&mut self, header: Bhs, data: Vec<u8>, delivery: Delivery) {
        self.push(Outgoing::Pdu { header, data, numbering: Numbering::StatSn, answers: delivery });
    }

    /// A PDU that takes a StatSN and ends no numbered request: a Login Response, as Login Requests are immediate, a Reject or an
    /// Asynchronous Message.
    pub(crate) fn notify(&mut self, header: Bhs, data: Vec<u8>) {
        self.respond(header, data, Delivery::Immediate);
    }

    /// A PDU that takes no StatSN: an R2T or a ping.
    pub(crate) fn send_unnumbered(&mut self, header: Bhs) {
        let (numbering, answers) = (Numbering::None, Delivery::Immediate);
        self.push(Outgoing::Pdu { header, data: Vec::new(), numbering, answers });
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

    /// Sends one PDU, if there is one. `delivery` says how a task's command was delivered.
    #[inline]
    pub(crate) fn send_one(
        &mut self,
        out: &mut Transmit,
        context: SendContext<'_>,
        delivery: impl Fn(TaskHandle) -> Delivery,
    ) -> Sent {
        let window = context.window;
        let Some(front) = self.queue.front_mut() else { return Sent::Nothing };
        let unpooled = front.unpooled();
        let ended = match front {
            Outgoing::Pdu { header, data, numbering, answers } => {
                window.finish(*answers);
                stamp_length(header, data.len());
                stamp_response(header, window.numbers(self.stat_sn));
                if *numbering == Numbering::StatSn {
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
            Outgoing::Data(sequence) => {
                let task = sequence.task();
                let last = sequence.is_last(context.parameters);
                if last {
                    window.finish(delivery(task));
                }
                let numbers = window.numbers(self.stat_sn);
                let sending = Sending { digests: self.digests, parameters: context.parameters, numbers };
                sequence.send_next(out, &sending);
                if !last {
                    let left = front.unpooled();
                    self.unsent.leave(unpooled.saturating_sub(left));
                    return Sent::Pdu;
                }
                self.stat_sn = self.stat_sn.wrapping_add(1);
                Sent::Command(task)
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
            Self::Data(sequence) => sequence.unpooled(),
        }
    }
}
