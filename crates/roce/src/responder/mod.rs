//! The responder: takes the peer's requests in the order of their numbers, and answers them (IBTA §9.7.4, §9.7.5).
//!
//! A packet is carried out when its number is the one that is due, and only then. What comes again is acknowledged again and changes nothing: its region or receive may have
//! another use by now. Only a read is served again, from memory that is still registered.

mod answer;
mod incoming;
mod reads;

use buf::{Account, BufList};
use verbs::{ReceivePlace, RemoteRegion, STag, WorkDone, WorkError};

use self::answer::Answer;
use self::incoming::{Incoming, Kind, Step};
use self::reads::{InboundRead, InboundReads, ResponsePart};
use crate::consumer::Consumer;
use crate::counters::Order;
use crate::header::{Acknowledge, BaseTransportHeader, Memory, U24};
use crate::limits::LONGEST;
use crate::mtu::Mtu;
use crate::opcode::Opcode;
use crate::outgoing::{Outgoing, Payload};
use crate::packet::{Extended, Packet};
use crate::psn::Psn;
use crate::syndrome::{Credits, Syndrome};
use crate::violation::Violation;

/// What is to be sent next.
#[derive(Debug)]
enum Due {
    /// A packet of a response, and what it carries.
    Response(ResponsePart, BufList),
    /// An acknowledgement or a refusal.
    Answer(Syndrome),
}

/// The responder of a connection.
#[derive(Debug)]
pub(crate) struct Responder {
    /// The number of the packet that is due.
    expected: Psn,
    /// Messages that have come whole.
    messages: u32,
    incoming: Incoming,
    answer: Answer,
    reads: InboundReads,
    mtu: Mtu,
    due: Option<Due>,
}

impl Responder {
    /// Serves `reads` RDMA Reads at a time; the peer's first packet has the number `first`.
    pub(crate) fn new(first: Psn, mtu: Mtu, reads: u8) -> Self {
        Self {
            expected: first,
            messages: 0,
            incoming: Incoming::Between,
            answer: Answer::Silent,
            reads: InboundReads::new(reads),
            mtu,
            due: None,
        }
    }

    /// Memory for that many RDMA Reads of the peer's: for how many there is some, at least one if any are wanted.
    pub(crate) fn grant_reads(account: &mut Account, wanted: u8) -> u8 {
        let mut granted = wanted;
        while granted > 1 && !account.charge_table(InboundReads::bytes(granted)) {
            granted /= 2;
        }
        if granted <= 1 {
            account.count(InboundReads::bytes(granted));
        }
        granted
    }

    /// When a packet of a request comes.
    pub(crate) fn order(&self, sequence: Psn) -> Order {
        match sequence {
            sequence if sequence == self.expected => Order::Due,
            sequence if sequence.is_before(self.expected) => Order::Again,
            _ => Order::Early,
        }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// The peer broke a rule; it is told.
    pub(crate) fn handle(&mut self, packet: &Packet<'_>, consumer: &mut Consumer) -> Result<(), Violation> {
        let sequence = Psn::from(packet.header.sequence);
        let Some(step) = Step::of(packet.header.opcode()) else { return Ok(()) };
        if sequence.is_before(self.expected) {
            self.handle_again(packet, consumer);
            return Ok(());
        }
        if sequence != self.expected {
            self.answer.gap();
            return Ok(());
        }
        let taken = step.and_then(|step| self.take(step, packet, consumer));
        if let Err(violation) = taken {
            self.refuse(violation);
        }
        taken
    }

    /// The packet that is due breaks a rule, or a response cannot be given: nothing more is taken.
    fn refuse(&mut self, violation: Violation) {
        if let Some(nak) = violation.nak() {
            self.answer.refuse(nak);
        }
    }

    /// A request that was carried out before.
    fn handle_again(&mut self, packet: &Packet<'_>, consumer: &Consumer) {
        let (Opcode::READ_REQUEST, Extended::Memory(memory)) = (packet.header.opcode(), packet.extended)
        else {
            return self.answer.duplicate();
        };
        let read = InboundRead::new(packet.header.sequence.into(), region(memory), self.mtu);
        let is_past = !self.expected.is_before(read.end()) && is_allowed(memory);
        if is_past && (memory.length.get() == 0 || consumer.regions.read(read.rest).is_ok()) {
            self.reads.replay(read);
        }
    }

    /// Takes the packet that is due.
    fn take(&mut self, step: Step, packet: &Packet<'_>, consumer: &mut Consumer) -> Result<(), Violation> {
        self.incoming.check(step)?;
        if !step.takes(packet.payload.len(), self.mtu.bytes()) {
            return Err(Violation::PacketLength);
        }
        let is_taken = match step.kind {
            Kind::Send => self.take_send(step, packet, consumer)?,
            Kind::Write => self.take_write(step, packet, consumer)?,
            Kind::Read => self.take_read(packet, consumer)?,
        };
        if is_taken {
            self.messages = self.messages.wrapping_add(u32::from(step.last));
            self.answer.received(packet.header.asks());
        } else {
            self.answer.not_ready();
        }
        Ok(())
    }

    /// False if no receive is posted.
    fn take_send(
        &mut self,
        step: Step,
        packet: &Packet<'_>,
        consumer: &mut Consumer,
    ) -> Result<bool, Violation> {
        let (offset, payload) = (self.incoming.length(), packet.payload);
        match consumer.receives.place(offset, payload.len()) {
            ReceivePlace::Here(place) => place.copy_from_slice(payload),
            ReceivePlace::NotReady => return Ok(false),
            ReceivePlace::TooLong => {
                consumer.received(Err(WorkError::MessageTooLong));
                return Err(Violation::MessageTooLong);
            }
        }
        if step.last {
            let invalidated = match packet.extended {
                Extended::Invalidate(key) => Some(STag(key.get())),
                _ => None,
            };
            if let Some(stag) = invalidated {
                consumer.regions.invalidate(stag).map_err(|_| Violation::Invalidate)?;
            }
            let length = offset.saturating_add(payload.len());
            consumer.received(Ok(WorkDone::Received { length, invalidated }));
        }
        self.incoming.send(step, payload.len());
        self.expected = self.expected.plus(1);
        Ok(true)
    }

    fn take_write(
        &mut self,
        step: Step,
        packet: &Packet<'_>,
        consumer: &mut Consumer,
    ) -> Result<bool, Violation> {
        let to = match (self.incoming, packet.extended) {
            (Incoming::Write { rest }, _) => rest,
            (_, Extended::Memory(memory)) if is_allowed(memory) => region(memory),
            (_, Extended::Memory(_)) => return Err(Violation::AccessTooLong),
            _ => return Err(Violation::MessageOrder),
        };
        let bytes = u32::try_from(packet.payload.len()).unwrap_or(u32::MAX);
        let is_due = if step.last { bytes == to.length } else { bytes < to.length };
        if !is_due {
            return Err(Violation::PacketLength);
        }
        place(to, packet.payload, consumer)?;
        let rest = RemoteRegion {
            offset: to.offset.wrapping_add(u64::from(bytes)),
            length: to.length.saturating_sub(bytes),
            ..to
        };
        self.incoming.write(step, rest);
        self.expected = self.expected.plus(1);
        Ok(true)
    }

    fn take_read(&mut self, packet: &Packet<'_>, consumer: &Consumer) -> Result<bool, Violation> {
        let Extended::Memory(memory) = packet.extended else { return Err(Violation::MessageOrder) };
        if !is_allowed(memory) {
            return Err(Violation::AccessTooLong);
        }
        // IBTA §9.7.4.1.5: of an access without bytes nothing is looked at.
        if memory.length.get() > 0 {
            consumer.regions.read(region(memory)).map_err(Violation::of_access)?;
        }
        let read = InboundRead::new(self.expected, region(memory), self.mtu);
        if !self.reads.push(read) {
            return Err(Violation::TooManyReads);
        }
        self.expected = read.end();
        Ok(true)
    }

    /// Finds what is to be sent next, and says whether there is something. Answers wait for the responses before them: they would say that these are over.
    ///
    /// # Errors
    /// A region ended while it was being read.
    pub(crate) fn prepare(&mut self, consumer: &Consumer) -> Result<bool, Violation> {
        self.due = None;
        while let Some(next) = self.reads.next(self.mtu) {
            let data =
                if next.source.length == 0 { Ok(BufList::new()) } else { consumer.regions.read(next.source) };
            match data {
                Ok(data) => {
                    self.due = Some(Due::Response(next, data));
                    return Ok(true);
                }
                Err(_) if self.reads.skip_replay() => {}
                Err(error) => {
                    let violation = Violation::of_access(error);
                    self.reads.clear();
                    self.expected = next.sequence;
                    self.refuse(violation);
                    return Err(violation);
                }
            }
        }
        self.due = self.answer.due().map(Due::Answer);
        Ok(self.due.is_some())
    }

    /// The packet that is next, after [`Responder::prepare`] found it.
    pub(crate) fn outgoing(&self, destination: U24) -> Option<Outgoing<'_>> {
        let message = U24::new(self.messages);
        let (opcode, sequence, extended, payload) = match self.due.as_ref()? {
            Due::Answer(syndrome) => {
                let sequence = match syndrome {
                    Syndrome::Ack(_) => self.expected.previous(),
                    _ => self.expected,
                };
                let extended = Extended::Acknowledge(Acknowledge::new(*syndrome, message));
                (Opcode::ACKNOWLEDGE, sequence, extended, Payload::None)
            }
            Due::Response(next, data) => {
                let acknowledge = Acknowledge::new(Syndrome::Ack(Credits::UNLIMITED), message);
                let (opcode, extended) = match (next.part.first, next.part.last) {
                    (true, true) => (Opcode::READ_RESPONSE_ONLY, Extended::Acknowledge(acknowledge)),
                    (true, false) => (Opcode::READ_RESPONSE_FIRST, Extended::Acknowledge(acknowledge)),
                    (false, true) => (Opcode::READ_RESPONSE_LAST, Extended::Acknowledge(acknowledge)),
                    (false, false) => (Opcode::READ_RESPONSE_MIDDLE, Extended::None),
                };
                let payload = Payload::Part { list: data, offset: 0, length: next.part.length };
                (opcode, next.sequence, extended, payload)
            }
        };
        let header = BaseTransportHeader::new(opcode, destination, sequence.into());
        Some(Outgoing { header, extended, payload })
    }

    /// That packet is sent.
    pub(crate) fn sent(&mut self) {
        match self.due.take() {
            Some(Due::Response(next, _)) => self.reads.sent(next),
            Some(Due::Answer(_)) => self.answer.sent(),
            None => {}
        }
    }

    /// A packet has come after the end.
    pub(crate) fn repeat(&mut self) {
        self.answer.repeat();
    }

    /// The connection has ended: nothing is given any more, but the refusal that ended it.
    pub(crate) fn stop(&mut self) {
        self.reads.clear();
        self.due = None;
        if !self.answer.is_refused() {
            self.answer = Answer::Silent;
        }
    }
}

fn region(memory: Memory) -> RemoteRegion {
    RemoteRegion { stag: STag(memory.key.get()), offset: memory.address.get(), length: memory.length.get() }
}

/// Not more memory than a request may name.
fn is_allowed(memory: Memory) -> bool {
    usize::try_from(memory.length.get()).is_ok_and(|length| length <= LONGEST)
}

/// Puts bytes to the front of a part of a region, all of which must be open to the peer.
fn place(to: RemoteRegion, payload: &[u8], consumer: &mut Consumer) -> Result<(), Violation> {
    if to.length == 0 {
        return Ok(());
    }
    let mut buf = consumer.regions.lend(to).map_err(Violation::of_access)?;
    let start = usize::try_from(to.offset).unwrap_or(usize::MAX);
    if let Some(place) = buf.get_mut(start..start.saturating_add(payload.len())) {
        place.copy_from_slice(payload);
    }
    consumer.regions.give_back(to.stag, buf);
    Ok(())
}
