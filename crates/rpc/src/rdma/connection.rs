//! One connection of an upper layer over a queue pair: a [`Consumer`] of any queue pair and, over one that is a byte stream of its own, a
//! [`protocol::Connection`].
//!
//! Receives are posted for as many calls as the peer may have under way, and for a reply to each call of this side; each is posted again as soon as its
//! message was read, which is before a call is answered. So a peer that keeps to its credits always finds one.

use alloc::collections::VecDeque;

use buf::{Account, Buf, Standing};
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use verbs::{
    ConnectedQueuePair, Consumer, EndReason, ManagedQueuePair, PrivateData, QueueLimits, QueuePairState,
    SetupAnswer, SetupEvent, WorkDone, WorkMemory,
};

use super::header::{Body, Header};
use super::private_data::PrivateMessage;
use super::requester::{Begun, Received, Requester, kind_of};
use super::responder::{Responder, refuse_header};
use super::send_memory::SendMemory;
use super::sending::{Sending, Terms};
use super::work_queue::{Completed, Work, WorkQueue};
use crate::channel::{Channel, Config};
use crate::intake::Context;
use crate::limits::{CHUNKS, INLINE, RDMA_RECEIVE, SEND_TIME};
use crate::upper::{Parts, UpperLayer};
use crate::xdr::Reader;

/// Who has connected: only its calls may name memory (RFC 8167).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This side.
    Client,
    /// The peer.
    Server,
}

/// Why a connection ends whose queue pair does.
const LOST: &str = "RPC: the connection to the peer was lost";
/// Why a connection is refused.
const NO_RECEIVES: &str = "RPC: there is no memory, or no room in the queue pair, for receives";
/// Why a connection ends whose queue pair is too small for it.
const TOO_MUCH: &str = "RPC: the queue pair does not take what is asked of it";
/// Why a connection ends whose peer stops.
const STALLED: &str = "RPC: the peer does not take what is sent to it, or does not let its memory be read";

/// An upper layer over a queue pair.
#[derive(Debug)]
pub struct RdmaConnection<U: UpperLayer, Q> {
    upper: U,
    channel: Channel<U::Results>,
    pair: Q,
    role: Role,
    sending: Sending,
    requester: Requester<U::Arguments>,
    responder: Responder<U::Arguments>,
    /// Messages that were not looked at, in order.
    arrived: VecDeque<Arrived>,
    account: Account,
    is_connected: bool,
    /// Something waits for memory.
    is_starved: bool,
    /// When something that is under way is to have completed.
    due: Option<Instant>,
}

/// A message in its receive.
#[derive(Debug)]
struct Arrived {
    receive: Buf,
    length: usize,
}

impl<U: UpperLayer, Q: ManagedQueuePair> RdmaConnection<U, Q> {
    /// A connection whose queue pair is being set up: an initiator's, which says [`private_data`](Self::private_data), for a client. Receives are charged to `account`.
    pub fn new(upper: U, pair: Q, config: Config, role: Role, account: Account) -> Self {
        let terms = Terms {
            send: INLINE,
            receive: INLINE,
            may_name_memory: role == Role::Client,
            regions: pair.limits().regions,
            asked: wire::saturate(config.calls_sent),
            granted: wire::saturate(config.calls_received.max(1)),
        };
        let sending = Sending { terms, work: WorkQueue::default(), memory: SendMemory::default() };
        let mut connection = Self {
            upper,
            channel: Channel::new(config),
            pair,
            role,
            sending,
            requester: Requester::new(config.longest_item),
            responder: Responder::new(config.longest_item, config.longest_record),
            arrived: VecDeque::new(),
            account,
            is_connected: false,
            is_starved: false,
            due: None,
        };
        if role == Role::Client && !connection.post_receives() {
            connection.channel.close(CloseReason::Limit(NO_RECEIVES));
        }
        connection
    }

    /// What a client says while it connects.
    pub fn private_data() -> PrivateData {
        Self::own_message().encode()
    }

    fn own_message() -> PrivateMessage {
        PrivateMessage { remote_invalidation: false, send: RDMA_RECEIVE, receive: RDMA_RECEIVE }
    }

    /// What the queue pair must hold.
    pub fn needs(config: &Config, role: Role) -> QueueLimits {
        let calls = config.calls_sent.saturating_add(config.calls_received);
        let regions = if role == Role::Client { config.calls_sent.saturating_mul(2) } else { 0 };
        QueueLimits {
            sends: calls.saturating_mul(2),
            receives: calls,
            // As many as a call may have, and two for each.
            regions: if regions == 0 { 0 } else { regions.saturating_add(2 * CHUNKS + 2) },
            longest: config.longest_record,
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

    /// Bytes that the connection holds in memory of no pool and that its account does not answer for.
    pub fn held(&self) -> usize {
        let own = [self.channel.held(), self.sending.held(), self.requester.held(), self.responder.held()];
        own.into_iter().fold(0, usize::saturating_add)
    }

    /// Posts all receives; false if there is no memory for them, or no room.
    fn post_receives(&mut self) -> bool {
        let config = self.channel.config();
        let count = config.calls_received.saturating_add(config.calls_sent);
        let receives = count.saturating_mul(RDMA_RECEIVE);
        self.account.charge_standing(Standing { tables: 0, receives })
            && (0..count).all(|_| WorkQueue::receive(&mut self.pair, Buf::zeroed(RDMA_RECEIVE)))
    }

    fn agree(&mut self, said: &[u8]) {
        let (own, peer) = (Self::own_message(), PrivateMessage::decode(said));
        self.sending.terms.send = own.send.min(peer.receive);
        self.sending.terms.receive = own.receive.min(peer.send);
        self.sending.memory.set_size(self.sending.terms.send);
    }

    fn handle_setup(&mut self, now: Instant, event: SetupEvent) {
        match event {
            SetupEvent::Requested(said) => {
                self.agree(said.bytes());
                let answer = if self.post_receives() {
                    SetupAnswer::Accept(Self::own_message().encode())
                } else {
                    self.channel.close(CloseReason::Limit(NO_RECEIVES));
                    SetupAnswer::Reject(PrivateData::NONE)
                };
                self.pair.handle_answer(now, answer);
            }
            SetupEvent::Established(said) => {
                if self.role == Role::Client {
                    self.agree(said.bytes());
                }
                self.is_connected = true;
            }
            SetupEvent::Rejected(_) => {
                self.channel.close(CloseReason::Refused("RPC: the peer rejects the connection"));
            }
        }
    }

    /// Does what can be done now.
    fn advance(&mut self, now: Instant) {
        while self.step(now) {}
        if self.sending.work.is_idle() {
            self.due = None;
        } else {
            self.due.get_or_insert(now + SEND_TIME);
        }
        self.settle();
    }

    /// One round; false when there was nothing to do.
    fn step(&mut self, now: Instant) -> bool {
        let mut moved = false;
        self.is_starved = false;
        while let Some(event) = self.pair.poll_event() {
            moved = true;
            self.handle_setup(now, event);
        }
        while let Some(completed) = self.sending.work.poll(now, &mut self.pair) {
            moved = true;
            self.due = None;
            self.handle_completed(now, completed);
        }
        moved |= self.take_messages(now);
        moved |= self.deliver(now);
        moved |= self.send(now);
        self.sending.work.post(&mut self.pair) || moved
    }

    fn handle_completed(&mut self, now: Instant, completed: Completed) {
        if let Completed::Work(_, completion) = &completed
            && completion.result.is_err()
            && self.pair.state() == QueuePairState::Open
        {
            self.channel.close(CloseReason::Limit(TOO_MUCH));
        }
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        match completed {
            Completed::Receive(completion) => {
                if let (Ok(WorkDone::Received { length, .. }), WorkMemory::Buf(receive)) =
                    (completion.result, completion.memory)
                {
                    self.arrived.push_back(Arrived { receive, length });
                }
            }
            Completed::Work(Work::Send, completion) => {
                if let WorkMemory::List(message) = completion.memory {
                    self.sending.memory.take_back(message);
                }
                self.channel.transmitted();
            }
            Completed::Work(Work::Read { task }, completion) => {
                if let (Ok(_), WorkMemory::Buf(memory)) = (completion.result, completion.memory) {
                    self.responder.read(&mut context, task, memory);
                }
            }
            Completed::Work(Work::Register { xid, index }, completion) => match completion.result {
                Ok(WorkDone::Registered(named)) => {
                    self.requester.registered(context.channel, (xid, index), named, &mut self.sending);
                }
                _ => self.requester.returned(xid, index, completion.memory),
            },
            // What failed with its queue pair is asked for again.
            Completed::Work(Work::Invalidate { xid, index }, completion) if completion.result.is_ok() => {
                self.requester.returned(xid, index, completion.memory);
            }
            Completed::Work(Work::Invalidate { .. } | Work::Write, _) => {}
        }
    }

    /// Looks at the messages that have come, as far as calls are taken.
    fn take_messages(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while self.channel.close_reason().is_none()
            && let Some(arrived) = self.arrived.pop_front()
        {
            if let Some(stays) = self.take_message(now, arrived) {
                self.arrived.push_front(stays);
                break;
            }
            moved = true;
        }
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        self.is_starved |= self.responder.advance(&mut context, &mut self.sending);
        while let Some(receive) = self.responder.take_free() {
            moved = true;
            WorkQueue::receive(&mut self.pair, receive);
        }
        moved
    }

    /// Looks at a message; gives it back if it stays where it is.
    fn take_message(&mut self, now: Instant, arrived: Arrived) -> Option<Arrived> {
        let Arrived { receive, length } = arrived;
        let bytes = receive.get(..length).unwrap_or_default();
        let mut reader = Reader::new(bytes);
        let header = Header::decode(&mut reader);
        let start = length.saturating_sub(reader.remaining());
        let is_call = match &header {
            Ok(Header { body: Body::Message(_), .. }) => {
                kind_of(bytes.get(start..).unwrap_or_default()).is_some_and(|kind| kind.is_call)
            }
            Ok(Header { body: Body::NoMessage(chunks), .. }) => !chunks.reads.is_empty(),
            _ => false,
        };
        if is_call && !(self.channel.takes_calls() && self.upper.takes_calls()) {
            return Some(Arrived { receive, length });
        }
        let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
        let free = match header {
            Err(error) => {
                refuse_header(error, &mut self.sending);
                Some(receive)
            }
            Ok(header) if is_call => {
                let message = Received { receive, start, end: length };
                self.responder.begin(&mut context, header, message, &mut self.sending)
            }
            Ok(header) => {
                let message = Received { receive, start, end: length };
                self.requester.reply(&mut context, header, message, &mut self.sending.work)
            }
        };
        if let Some(receive) = free {
            WorkQueue::receive(&mut self.pair, receive);
        }
        None
    }

    /// Hands on replies whose memory is back.
    fn deliver(&mut self, now: Instant) -> bool {
        let mut moved = false;
        loop {
            let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
            let Some(delivered) = self.requester.deliver(&mut context) else { return moved };
            moved = true;
            if let Some(receive) = delivered.receive {
                WorkQueue::receive(&mut self.pair, receive);
            }
        }
    }

    /// Sends replies, and begins calls.
    fn send(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(reply) = self.channel.next_reply() {
            moved = true;
            self.responder.reply(&reply, &mut self.sending);
            self.channel.recycle(reply.results);
        }
        while self.is_connected && self.channel.close_reason().is_none() {
            let mut context = Context { now, upper: &mut self.upper, channel: &mut self.channel };
            match self.requester.begin(&mut context, &mut self.sending) {
                Begun::Yes => moved = true,
                Begun::No => break,
                Begun::Starved => {
                    self.is_starved = true;
                    break;
                }
            }
        }
        moved
    }

    /// Follows the end of the queue pair, and the other way round.
    fn settle(&mut self) {
        match self.pair.state() {
            QueuePairState::Ended(reason) => {
                let close = self.pair.close_reason().unwrap_or(match reason {
                    EndReason::ByUs | EndReason::ByPeer => CloseReason::Finished,
                    EndReason::Violation(text) | EndReason::Terminated(text) => CloseReason::Violation(text),
                    EndReason::Lost => CloseReason::TimedOut(LOST),
                });
                self.channel.close(close);
            }
            QueuePairState::Open if self.channel.close_reason().is_some() && self.sending.work.is_idle() => {
                self.pair.disconnect();
            }
            QueuePairState::Open => {}
        }
    }

    /// Nothing is received or sent any more: all memory comes back.
    fn end(&mut self, now: Instant) {
        self.pair.disconnect();
        self.drain(now);
        self.requester.end(&mut self.sending.work);
        self.drain(now);
        self.deliver(now);
        self.requester.restore_all(&mut self.channel);
        self.responder.end();
        self.arrived.clear();
        (self.is_starved, self.due) = (false, None);
        self.channel.end();
        self.upper.handle_ended(now, &mut self.channel);
    }

    /// Posts to a queue pair that has ended, and takes what completes, until nothing is left.
    fn drain(&mut self, now: Instant) {
        loop {
            let posted = self.sending.work.post(&mut self.pair);
            while let Some(completed) = self.sending.work.poll(now, &mut self.pair) {
                if !matches!(completed, Completed::Receive(_)) {
                    self.handle_completed(now, completed);
                }
            }
            if !posted {
                return;
            }
        }
    }
}

impl<U: UpperLayer, Q: ManagedQueuePair> Consumer for RdmaConnection<U, Q> {
    type QueuePair = Q;
    type Input = U::Input;
    type Action = U::Action;

    fn queue_pair(&mut self) -> &mut Q {
        &mut self.pair
    }

    fn queue_pair_ref(&self) -> &Q {
        &self.pair
    }

    fn handle_progress(&mut self, now: Instant) {
        self.advance(now);
    }

    fn handle_input(&mut self, now: Instant, input: U::Input) {
        self.upper.handle_input(now, &mut self.channel, input);
        self.advance(now);
    }

    fn handle_memory(&mut self, now: Instant) {
        self.upper.handle_memory(now, &mut self.channel);
        self.advance(now);
    }

    fn handle_deadline(&mut self, now: Instant) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.channel.close(CloseReason::TimedOut(STALLED));
            self.pair.disconnect();
        }
        self.pair.handle_deadline(now);
        self.channel.handle_timeout(now);
        self.upper.handle_timeout(now, &mut self.channel);
        self.advance(now);
    }

    fn handle_ended(&mut self, now: Instant) {
        self.end(now);
    }

    fn poll_action(&mut self) -> Option<U::Action> {
        self.upper.poll_action()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let own = [self.due, self.pair.next_deadline(), self.channel.poll_timeout()];
        own.into_iter().chain([self.upper.poll_timeout()]).flatten().min()
    }

    fn is_established(&self) -> bool {
        self.is_connected && self.upper.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.is_starved || self.upper.awaits_memory()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.channel.close_reason()
    }
}

impl<U: UpperLayer, Q: ConnectedQueuePair> protocol::Connection for RdmaConnection<U, Q> {
    type Input = U::Input;
    type Action = U::Action;

    const STAGING: usize = Q::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let used = self.pair.handle_bytes(now, bytes);
        self.advance(now);
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.pair.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.pair.handle_placed(now, placement);
        self.advance(now);
    }

    fn handle_input(&mut self, now: Instant, input: U::Input) {
        Consumer::handle_input(self, now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.pair.handle_transmitted(now, bytes);
        self.advance(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_deadline(now);
    }

    fn handle_memory(&mut self, now: Instant) {
        Consumer::handle_memory(self, now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.pair.handle_ended(now, how);
        Consumer::handle_ended(self, now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.advance(now);
        self.pair.poll_transmit(now, send);
    }

    fn poll_action(&mut self) -> Option<U::Action> {
        Consumer::poll_action(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn wants_bytes(&mut self) -> bool {
        self.pair.wants_bytes()
    }

    fn is_established(&self) -> bool {
        Consumer::is_established(self)
    }

    fn awaits_memory(&self) -> bool {
        Consumer::awaits_memory(self)
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.channel.close_reason()
    }
}
