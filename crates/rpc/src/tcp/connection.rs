//! One TCP connection of an upper layer, for both roles: who connects calls, and where a protocol has a backchannel, so does the other.

use protocol::{CloseReason, Connection, Ended, Instant, Placement, Transmit};

use super::send_watch::{Delivery, SendWatch};
use crate::channel::{Channel, Config, QueuedReply, SentCall};
use crate::intake::{Context, Intake, Named, Taken, Want};
use crate::limits::PAYLOAD_TIME;
use crate::message::{CallHeader, OpaqueAuth, write_reply};
use crate::record::{Fragment, HEADER, Records};
use crate::upper::{Parts, UpperLayer};
use crate::xdr::{Error, Piece, Stream, Writer};

/// An upper layer over a byte stream.
#[derive(Debug)]
pub struct TcpConnection<U: UpperLayer> {
    upper: U,
    channel: Channel<U::Results>,
    records: Records,
    intake: Intake<U::Arguments>,
    /// The length of a payload for which there is no memory.
    starved: Option<usize>,
    sending: SendWatch,
    /// When a payload that has memory is to be whole.
    payload_due: Option<Instant>,
    /// Where headers are written.
    header: Stream,
}

impl<U: UpperLayer> TcpConnection<U> {
    /// A connection that has just been made.
    pub fn new(upper: U, config: Config) -> Self {
        Self {
            upper,
            channel: Channel::new(config),
            records: Records::new(config.longest_record),
            intake: Intake::new(config.longest_item),
            starved: None,
            sending: SendWatch::Idle,
            payload_due: None,
            header: Stream::default(),
        }
    }

    /// The upper layer.
    pub fn upper(&self) -> &U {
        &self.upper
    }

    /// The upper layer and its channel, for what does not come as an input.
    pub fn parts(&mut self) -> Parts<'_, U> {
        Parts { upper: &mut self.upper, channel: &mut self.channel }
    }

    /// The upper layer, once the connection has ended.
    pub fn into_upper(self) -> U {
        self.upper
    }

    /// Bytes that the connection holds in memory of no pool, whatever its upper layer holds.
    pub fn held(&self) -> usize {
        self.channel.held().saturating_add(self.intake.held()).saturating_add(self.header.capacity())
    }

    /// One step through received bytes: how many were consumed. Nothing means that no more can be done with them now.
    fn step(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if self.records.left() == 0 {
            return self.begin_fragment(bytes);
        }
        let part = bytes.get(..self.records.left()).unwrap_or(bytes);
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        let Taken { used, want } = self.intake.handle_bytes(&mut context, part);
        self.records.consume(used);
        if let Want::Payload(length) = want {
            return used.saturating_add(self.name_memory(now, length, part.len().saturating_sub(used)));
        }
        used
    }

    fn begin_fragment(&mut self, bytes: &[u8]) -> usize {
        if self.records.is_between() && !self.takes_records() {
            return 0;
        }
        self.records.handle_header(bytes).unwrap_or_else(|violation| {
            self.channel.violated(violation, 0);
            0
        })
    }

    /// A record that begins may be a call, which must be taken.
    fn takes_records(&self) -> bool {
        self.channel.takes_calls() && self.upper.takes_calls()
    }

    /// Finds memory for a payload; if its message is refused instead, passes over `rest` bytes.
    fn name_memory(&mut self, now: Instant, length: usize, rest: usize) -> usize {
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        if length > self.records.most_left() {
            let missing = length.saturating_sub(self.records.most_left());
            self.intake.fail(&mut context, Error::Truncated { missing });
        } else {
            match self.intake.memory(&mut context, length) {
                Named::Memory(memory) => {
                    self.intake.provide(memory);
                    self.payload_due = Some(now + PAYLOAD_TIME);
                    return 0;
                }
                Named::Wait => {
                    self.starved = Some(length);
                    return 0;
                }
                Named::Refused => {}
            }
        }
        self.records.consume(rest);
        rest
    }

    /// Ends records that were consumed whole.
    fn end_record(&mut self, now: Instant) {
        if self.records.is_whole() {
            let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
            self.intake.finish(&mut context);
            self.intake.restart();
            self.records.restart();
        }
    }

    fn put(send: &mut Transmit, header: &Stream, body: &Stream) {
        let length = header.len().saturating_add(body.len());
        send.put(&Fragment::whole(length).encode());
        for piece in header.pieces().chain(body.pieces()) {
            match piece {
                Piece::Bytes(bytes) => send.put(bytes),
                Piece::Shared(shared) => send.put_shared(shared.clone()),
            }
        }
    }

    fn send_reply(&mut self, send: &mut Transmit, reply: QueuedReply) {
        let mut writer = Writer::reuse(core::mem::take(&mut self.header));
        write_reply(&mut writer, reply.xid, reply.status);
        self.header = writer.finish();
        Self::put(send, &self.header, &reply.results);
        self.channel.recycle(reply.results);
    }

    /// Sends the next call, if there is one.
    fn send_call(&mut self, send: &mut Transmit) -> bool {
        let Some(SentCall { xid, call, .. }) = self.channel.next_call() else { return false };
        let mut writer = Writer::reuse(core::mem::take(&mut self.header));
        let header = CallHeader {
            xid: *xid,
            procedure: call.procedure,
            credential: call.credential.as_auth(),
            verifier: OpaqueAuth::NONE,
        };
        header.write(&mut writer);
        self.header = writer.finish();
        Self::put(send, &self.header, &call.arguments);
        true
    }
}

impl<U: UpperLayer> Connection for TcpConnection<U> {
    type Input = U::Input;
    type Action = U::Action;

    /// A fragment's header: everything else is taken as it comes.
    const STAGING: usize = HEADER;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0_usize;
        loop {
            if self.channel.close_reason().is_some() {
                return bytes.len();
            }
            let step = self.step(now, bytes.get(used..).unwrap_or_default());
            used = used.saturating_add(step);
            self.end_record(now);
            if step == 0 && self.channel.close_reason().is_none() {
                return used;
            }
        }
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.intake.lend(self.records.left())
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.records.consume(placement.len);
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        if self.intake.take_back(&mut context, placement) {
            self.payload_due = None;
        }
        // What follows may be of no bytes.
        self.intake.handle_bytes(&mut context, &[]);
        self.end_record(now);
    }

    fn handle_input(&mut self, now: Instant, input: U::Input) {
        self.upper.handle_input(now, &mut self.channel, input);
    }

    fn handle_transmitted(&mut self, _now: Instant, _bytes: usize) {
        self.sending.on_sent();
        self.channel.transmitted();
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.sending.on_time(now) == Delivery::Stalled {
            self.channel.close(CloseReason::TimedOut("RPC: the peer does not read what is sent to it"));
        }
        if self.payload_due.take_if(|due| *due <= now).is_some() {
            self.channel.close(CloseReason::TimedOut("RPC: the peer stops in the middle of a payload"));
        }
        self.channel.handle_timeout(now);
        self.upper.handle_timeout(now, &mut self.channel);
    }

    fn handle_memory(&mut self, now: Instant) {
        if let Some(length) = self.starved.take() {
            self.name_memory(now, length, 0);
        }
        self.upper.handle_memory(now, &mut self.channel);
    }

    fn handle_ended(&mut self, now: Instant, _how: Ended) {
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        self.intake.abandon(&mut context);
        (self.starved, self.payload_due) = (None, None);
        self.sending.on_sent();
        self.channel.end();
        self.upper.handle_ended(now, &mut self.channel);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        while !send.is_full() {
            if let Some(reply) = self.channel.next_reply() {
                self.send_reply(send, reply);
            } else if !self.send_call(send) {
                break;
            }
        }
        if !send.is_empty() {
            self.sending.on_send(now);
        }
    }

    fn poll_action(&mut self) -> Option<U::Action> {
        self.upper.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = [self.sending.due(), self.payload_due, self.channel.poll_timeout()];
        own.into_iter().chain([self.upper.poll_timeout()]).flatten().min()
    }

    fn wants_bytes(&mut self) -> bool {
        self.starved.is_none() && (!self.records.is_between() || self.takes_records())
    }

    fn is_established(&self) -> bool {
        self.upper.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.starved.is_some() || self.upper.awaits_memory()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.channel.close_reason()
    }
}
