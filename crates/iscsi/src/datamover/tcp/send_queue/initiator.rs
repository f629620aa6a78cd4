//! What an initiator is to send beside the commands that wait for the window.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::datamover::tcp::data_out::DataOutSequence;
use crate::limits::ANSWERS;
use crate::pdu::{BasicHeaderSegment, Bhs, NopOut, Opcode, RESERVED_TAG};

/// One thing to send.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A PDU that is not numbered.
    Pdu { header: Bhs, data: Vec<u8> },
    /// The answer to a ping, which has the tag of the ping.
    Answer(Bhs),
    /// A sequence of write data.
    Data(DataOutSequence),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct SendQueue {
    queue: VecDeque<Outgoing>,
    /// Bytes that the answers to the target's pings take here until they are sent.
    answers: usize,
}

impl SendQueue {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), answers: 0 }
    }

    /// A PDU that is not numbered.
    pub(crate) fn send(&mut self, header: Bhs, data: Vec<u8>) {
        let is_nop = BasicHeaderSegment::from_bytes(&header).opcode() == Opcode::NOP_OUT;
        if is_nop && NopOut::from_bytes(&header).transfer_tag() != RESERVED_TAG {
            self.answers = self.answers.saturating_add(size_of::<Outgoing>());
            return self.queue.push_back(Outgoing::Answer(header));
        }
        self.queue.push_back(Outgoing::Pdu { header, data });
    }

    /// A sequence of write data, behind everything else.
    pub(crate) fn send_data(&mut self, sequence: DataOutSequence) {
        self.queue.push_back(Outgoing::Data(sequence));
    }

    /// A sequence of write data, before everything else: it has begun.
    pub(crate) fn continue_data(&mut self, sequence: DataOutSequence) {
        self.queue.push_front(Outgoing::Data(sequence));
    }

    /// The oldest thing that waits.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        let front = self.queue.pop_front();
        if let Some(Outgoing::Answer(_)) = front {
            self.answers = self.answers.saturating_sub(size_of::<Outgoing>());
        }
        front
    }

    /// True while the target does not read the answers that it asks for.
    pub(crate) fn is_full(&self) -> bool {
        self.answers >= ANSWERS
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.answers = 0;
    }
}
