//! A message on its way in, whatever carries it: its header, and then arguments for the upper layer or results for a call of this side.
//!
//! A transport gives it the bytes in order. Where a payload begins it stops ([`Want::Payload`]): the transport finds memory for it, from
//! [`Intake::memory`], and brings the data there in its own way.

use buf::Buf;
use protocol::{Instant, Placement};

use crate::call::CallId;
use crate::channel::{CallError, Channel};
use crate::limits::HEADER;
use crate::message::{CallHeader, Opening, OpeningError, ReplyHeader, ReplyStatus};
use crate::upper::{Body, UpperLayer};
use crate::violation::Violation;
use crate::xdr::{Arrival, Decoder, Error, Reader, Step};

/// Whom a message is for.
pub(crate) struct Context<'a, U: UpperLayer> {
    pub(crate) now: Instant,
    pub(crate) upper: &'a mut U,
    pub(crate) channel: &'a mut Channel<U::Results>,
}

/// What comes next of a message.
#[derive(Debug)]
enum Part<A> {
    Header,
    Arguments {
        id: CallId,
        arguments: A,
    },
    Results {
        xid: u32,
    },
    /// Nothing that anybody wants.
    Rest,
}

/// What is needed before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// More bytes.
    Bytes,
    /// The data of a payload of so many bytes, above zero.
    Payload(usize),
    /// Nothing: everything that is wanted of the message was read, or it was refused.
    Nothing,
}

/// How far it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes that were consumed from the front.
    pub(crate) used: usize,
    /// What is needed next.
    pub(crate) want: Want,
}

/// Memory for a payload.
#[derive(Debug)]
pub(crate) enum Named {
    Memory(Buf),
    /// There is none now.
    Wait,
    /// The peer sends more than was asked for: the message was refused.
    Refused,
}

/// A message on its way in.
#[derive(Debug)]
pub(crate) struct Intake<A> {
    arrival: Arrival,
    part: Part<A>,
}

impl<A: Body> Intake<A> {
    pub(crate) fn new(longest_item: usize) -> Self {
        Self { arrival: Arrival::new(longest_item.max(HEADER)), part: Part::Header }
    }

    /// Begins the next message.
    pub(crate) fn restart(&mut self) {
        self.arrival.restart();
        self.part = Part::Header;
    }

    /// Bytes of the message that were read.
    pub(crate) fn position(&self) -> usize {
        self.arrival.position()
    }

    /// Bytes that it holds outside of payloads.
    pub(crate) fn held(&self) -> usize {
        self.arrival.held()
    }

    /// Takes the next bytes of the message.
    pub(crate) fn handle_bytes<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        bytes: &[u8],
    ) -> Taken {
        let mut used = 0_usize;
        loop {
            if matches!(self.part, Part::Rest) {
                return Taken { used: bytes.len(), want: Want::Nothing };
            }
            let rest = bytes.get(used..).unwrap_or_default();
            let mut reading = Reading { part: &mut self.part, context };
            match self.arrival.handle_bytes(rest, &mut reading) {
                Ok(count) => used = used.saturating_add(count),
                Err(error) => self.fail(context, error),
            }
            if self.arrival.is_ended() {
                self.complete(context);
            } else if self.arrival.take_unused() {
                self.pass_memory(context);
            } else {
                match self.arrival.wanted() {
                    Some(0) => {
                        self.pass_memory(context);
                        self.arrival.pass_over();
                    }
                    Some(length) => return Taken { used, want: Want::Payload(length) },
                    None if matches!(self.part, Part::Rest) => {}
                    None => return Taken { used, want: Want::Bytes },
                }
            }
        }
    }

    /// The message has ended, wherever it is.
    pub(crate) fn finish<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) {
        if !matches!(self.part, Part::Rest)
            && let Err(error) = self.arrival.finish()
        {
            self.fail(context, error);
        }
    }

    /// The message cannot be what it should be; nothing more of it is wanted.
    pub(crate) fn fail<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>, error: Error) {
        let Context { now, upper, channel } = context;
        match core::mem::replace(&mut self.part, Part::Rest) {
            Part::Header => channel.violated(Violation::HeaderTruncated, 0),
            Part::Arguments { id, arguments } => upper.undecodable(*now, channel, id, arguments),
            Part::Results { xid } => {
                if let Some(reply) = channel.answered(xid, Err(CallError::Undecodable(error))) {
                    upper.reply(*now, channel, reply);
                }
            }
            Part::Rest => {}
        }
    }

    /// Everything was read.
    fn complete<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) {
        let Context { now, upper, channel } = context;
        match core::mem::replace(&mut self.part, Part::Rest) {
            Part::Arguments { id, arguments } => upper.call(*now, channel, id, arguments),
            Part::Results { xid } => {
                if let Some(reply) = channel.answered(xid, Ok(())) {
                    upper.reply(*now, channel, reply);
                }
            }
            Part::Header | Part::Rest => {}
        }
    }

    /// Memory that a call has named is not used by the operation that it was for.
    fn pass_memory<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) {
        if let Part::Results { xid } = self.part
            && let Some(sent) = context.channel.find(xid)
        {
            sent.pass_memory();
        }
    }

    /// Memory for the payload that is wanted, of `length` bytes, with a length of as many.
    pub(crate) fn memory<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        length: usize,
    ) -> Named {
        if let Part::Results { xid } = self.part {
            let memory = context.channel.find(xid).and_then(|sent| sent.call.memory.pop());
            let (maximum, memory) = match memory {
                Some(memory) if memory.len() >= length => return Named::cut(memory, length),
                Some(memory) => (memory.len(), Some(memory)),
                None => (0, None),
            };
            if let (Some(sent), Some(memory)) = (context.channel.find(xid), memory) {
                sent.call.memory.put_back(memory);
            }
            self.fail(context, Error::TooLong { length: wire::saturate(length), maximum });
            return Named::Refused;
        }
        context.upper.memory(length).map_or(Named::Wait, |memory| Named::cut(memory, length))
    }

    /// Memory was found: the transport fills it by [`lend`](Self::lend).
    pub(crate) fn provide(&mut self, memory: Buf) {
        self.arrival.provide(memory);
    }

    /// Lends the memory of the payload for the next bytes, at most `available`.
    pub(crate) fn lend(&mut self, available: usize) -> Option<Placement> {
        self.arrival.lend(available)
    }

    /// Takes back what was lent: true once the payload is whole.
    pub(crate) fn take_back<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        placement: Placement,
    ) -> bool {
        let whole = self.arrival.take_back(placement);
        let is_whole = whole.is_some();
        if let Some(whole) = whole {
            self.deliver(context, whole);
        }
        is_whole
    }

    /// Copies as much of the payload as is in `bytes`, once it has memory: how many bytes it took.
    pub(crate) fn copy<U: UpperLayer<Arguments = A>>(
        &mut self,
        context: &mut Context<'_, U>,
        bytes: &[u8],
    ) -> usize {
        let Some(mut placement) = self.lend(bytes.len()) else { return 0 };
        let (start, count) = (placement.start, placement.len);
        let room = placement.buf.get_mut(start..start.saturating_add(count));
        if let (Some(room), Some(bytes)) = (room, bytes.get(..count)) {
            room.copy_from_slice(bytes);
        }
        self.take_back(context, placement);
        count
    }

    /// The payload that is wanted came otherwise, in pieces that are given to [`deliver`](Self::deliver).
    pub(crate) fn pass_over(&mut self) {
        self.arrival.pass_over();
    }

    /// A piece of a payload is there.
    pub(crate) fn deliver<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>, piece: Buf) {
        match &mut self.part {
            Part::Arguments { arguments, .. } => arguments.payload(piece),
            Part::Results { xid } => {
                if let Some(sent) = context.channel.find(*xid) {
                    sent.call.results.payload(piece);
                }
            }
            Part::Header | Part::Rest => {}
        }
    }

    /// The connection has ended: memory of a call goes back to it.
    pub(crate) fn abandon<U: UpperLayer<Arguments = A>>(&mut self, context: &mut Context<'_, U>) {
        if let (Part::Results { xid }, Some(memory)) = (&self.part, self.arrival.abandon())
            && let Some(sent) = context.channel.find(*xid)
        {
            sent.call.memory.put_back(memory);
        }
        self.restart();
    }
}

impl Named {
    fn cut(mut memory: Buf, length: usize) -> Self {
        debug_assert!(memory.len() >= length, "an upper layer gives as much memory as it is asked for");
        memory.set_len(length.min(memory.len()));
        Self::Memory(memory)
    }
}

/// The decoder of a message: of its header here, of what follows elsewhere.
struct Reading<'a, 'b, U: UpperLayer> {
    part: &'a mut Part<U::Arguments>,
    context: &'a mut Context<'b, U>,
}

impl<U: UpperLayer> Decoder for Reading<'_, '_, U> {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        match self.part {
            Part::Header => self.header(reader),
            Part::Arguments { arguments, .. } => arguments.step(reader),
            Part::Results { xid } => match self.context.channel.find(*xid) {
                Some(sent) => sent.call.results.step(reader),
                None => Ok(Step::End),
            },
            Part::Rest => Ok(Step::End),
        }
    }
}

impl<U: UpperLayer> Reading<'_, '_, U> {
    /// Reads a header whole.
    fn header(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        match Opening::decode(reader) {
            Ok(Opening::Call { xid }) => match CallHeader::decode(xid, reader)? {
                Ok(header) => Ok(self.call(&header)),
                Err(violation) => Ok(self.refuse(xid, violation)),
            },
            Ok(Opening::Reply { xid }) => match ReplyHeader::decode(reader) {
                Ok(header) => Ok(self.reply(xid, header.status)),
                Err(Error::Truncated { missing }) => Err(Error::Truncated { missing }),
                Err(_) => Ok(self.refuse(xid, Violation::ReplyStatus)),
            },
            Err(OpeningError::Truncated { missing }) => Err(Error::Truncated { missing }),
            Err(OpeningError::Violation { xid, violation }) => Ok(self.refuse(xid, violation)),
        }
    }

    fn refuse(&mut self, xid: u32, violation: Violation) -> Step {
        self.context.channel.violated(violation, xid);
        *self.part = Part::Rest;
        Step::End
    }

    fn call(&mut self, header: &CallHeader<'_>) -> Step {
        let id = match self.context.channel.admit(header.xid) {
            Ok(id) => id,
            Err(violation) => return self.refuse(header.xid, violation),
        };
        match self.context.upper.begin_call(header) {
            Ok(arguments) => {
                *self.part = Part::Arguments { id, arguments };
                Step::Next
            }
            Err(status) => {
                self.context.channel.refuse(id, status);
                *self.part = Part::Rest;
                Step::End
            }
        }
    }

    fn reply(&mut self, xid: u32, status: ReplyStatus) -> Step {
        let Context { now, upper, channel } = self.context;
        if !channel.awaits(xid) {
            return self.refuse(xid, Violation::UnknownReply);
        }
        if status == ReplyStatus::SUCCESS {
            *self.part = Part::Results { xid };
            return Step::Next;
        }
        if let Some(reply) = channel.answered(xid, Err(CallError::Refused(status))) {
            upper.reply(*now, channel, reply);
        }
        *self.part = Part::Rest;
        Step::End
    }
}
