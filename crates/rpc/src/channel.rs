//! What an upper layer says to its peer over one connection, and what it hears of it: calls, replies, and which belongs to which (RFC 5531 §9).
//!
//! The transport takes from here what is to be sent ([`Channel::next_reply`], [`Channel::next_call`]), and looks up here what a received message belongs to.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use protocol::{CloseReason, Instant, Unsent};

use crate::call::{Call, CallId, Memory};
use crate::limits::{self, SPARE_STREAM, SPARE_STREAMS};
use crate::message::ReplyStatus;
use crate::violation::{Answer, Violation};
use crate::xdr::{Error, Stream, Writer};

/// What one connection may hold and how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of the longest record or message that is received.
    pub longest_record: usize,
    /// Bytes of the longest item that is decoded at once ([`Arrival`](crate::xdr::Arrival)); no less than a message's header has.
    pub longest_item: usize,
    /// Calls of the peer under way, above zero.
    pub calls_received: usize,
    /// Calls to the peer under way; none for a server that never calls.
    pub calls_sent: usize,
    /// How long a call to the peer may be without a reply before the connection is closed.
    pub call_time: Duration,
    /// The number of the first call. Numbers of one connection should not be those of the one before, so it is random, or goes on.
    pub first_xid: u32,
}

impl Config {
    /// The usual values, with a number for the first call.
    pub const fn new(first_xid: u32) -> Self {
        Self {
            longest_record: limits::RECORD,
            longest_item: limits::ITEM,
            calls_received: limits::CALLS,
            calls_sent: limits::CALLS,
            call_time: limits::CALL_TIME,
            first_xid,
        }
    }
}

/// Why a call has no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The peer did not carry it out, and says why.
    #[error("the call was refused: {0:?}")]
    Refused(ReplyStatus),
    /// The reply cannot be decoded: it may have been carried out.
    #[error("the reply cannot be decoded: {0}")]
    Undecodable(#[from] Error),
    /// The peer could not send or receive it with the memory that was named for it (RFC 8166 §4.5): it may have been carried out.
    #[error("the call or its reply do not fit into the memory that was named for them")]
    Chunks,
}

/// The reply to a call.
#[derive(Debug)]
pub struct ReceivedReply<R> {
    /// The number of the call.
    pub xid: u32,
    /// The decoder of its results, which has read them all if the call succeeded.
    pub results: R,
    /// Memory that was named for payloads and has none.
    pub unused: Memory,
    /// What became of it.
    pub outcome: Result<(), CallError>,
}

/// A call that has no reply, with its number: over another connection it may be sent again, under the same number so that the server can tell.
#[derive(Debug)]
pub struct UnansweredCall<R> {
    /// Its number.
    pub xid: u32,
    /// The call. Its results may have been read in part, and some of its memory may be in them.
    pub call: Call<R>,
}

/// A reply that waits to be sent.
#[derive(Debug)]
pub(crate) struct QueuedReply {
    pub(crate) xid: u32,
    pub(crate) status: ReplyStatus,
    pub(crate) results: Stream,
}

impl QueuedReply {
    /// Bytes that it keeps in memory of no pool.
    fn unpooled(&self) -> usize {
        self.results.unpooled().saturating_add(size_of::<Self>())
    }
}

/// A call to the peer that is not answered.
#[derive(Debug)]
pub(crate) struct SentCall<R> {
    pub(crate) xid: u32,
    pub(crate) call: Call<R>,
    /// Memory for payloads that had none.
    passed: Memory,
    since: Instant,
}

impl<R> SentCall<R> {
    /// The next memory is not used.
    pub(crate) fn pass_memory(&mut self) {
        if let Some(memory) = self.call.memory.pop() {
            self.passed.push(memory);
        }
    }
}

/// One connection's calls and replies.
#[derive(Debug)]
pub struct Channel<R> {
    config: Config,
    /// Numbers of the peer's calls without a reply.
    received: Vec<u32>,
    /// Replies that wait to be sent.
    replies: VecDeque<QueuedReply>,
    /// Calls without a reply, each in the slot that its number says.
    sent: Vec<Option<SentCall<R>>>,
    /// How many there are.
    under_way: usize,
    /// Numbers of those that wait to be sent.
    calls: VecDeque<u32>,
    next_xid: u32,
    /// When the calls without a reply are looked at.
    look_at: Option<Instant>,
    spare: Vec<Stream>,
    unsent: Unsent,
    close: Option<CloseReason>,
    ended: bool,
}

impl<R> Channel<R> {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            received: Vec::new(),
            replies: VecDeque::new(),
            sent: Vec::new(),
            under_way: 0,
            calls: VecDeque::new(),
            next_xid: config.first_xid,
            look_at: None,
            spare: Vec::new(),
            unsent: Unsent::default(),
            close: None,
            ended: false,
        }
    }

    /// A writer for results or arguments, in memory that was used before.
    pub fn writer(&mut self) -> Writer {
        self.spare.pop().map_or_else(Writer::new, Writer::reuse)
    }

    /// Answers a call of the peer with results. Nothing happens if it was answered, or if the connection has ended.
    pub fn reply(&mut self, id: CallId, results: Stream) {
        self.queue_reply(id.0, ReplyStatus::SUCCESS, results);
    }

    /// Answers a call of the peer without results.
    pub fn refuse(&mut self, id: CallId, status: ReplyStatus) {
        debug_assert_ne!(status, ReplyStatus::SUCCESS, "a call that was carried out has results");
        self.queue_reply(id.0, status, Stream::default());
    }

    fn queue_reply(&mut self, xid: u32, status: ReplyStatus, results: Stream) {
        let Some(at) = self.received.iter().position(|received| *received == xid) else { return };
        self.received.swap_remove(at);
        let reply = QueuedReply { xid, status, results };
        self.unsent.add(reply.unpooled());
        self.replies.push_back(reply);
    }

    /// Calls the peer. The call is sent as soon as the transport can, and its reply comes by [`UpperLayer::reply`](crate::UpperLayer::reply). Gives its number.
    ///
    /// # Errors
    /// The call itself: as many are under way as there may be, or the connection has ended.
    pub fn call(&mut self, now: Instant, call: Call<R>) -> Result<u32, Call<R>> {
        if !self.has_room() {
            return Err(call);
        }
        let mut xid = self.next_xid;
        while self.slot(xid).is_some_and(|slot| slot.is_some()) {
            xid = xid.wrapping_add(1);
        }
        self.next_xid = xid.wrapping_add(1);
        self.insert(now, xid, call);
        Ok(xid)
    }

    /// Sends a call again that had no reply on a connection before, with its number. To be done before any new call.
    ///
    /// # Errors
    /// The call itself: as many are under way as there may be, its number is taken, or the connection has ended.
    pub fn call_again(
        &mut self,
        now: Instant,
        unanswered: UnansweredCall<R>,
    ) -> Result<(), UnansweredCall<R>> {
        let taken = !self.has_room() || self.slot(unanswered.xid).is_some_and(|slot| slot.is_some());
        if taken {
            return Err(unanswered);
        }
        self.insert(now, unanswered.xid, unanswered.call);
        Ok(())
    }

    fn insert(&mut self, now: Instant, xid: u32, call: Call<R>) {
        if self.sent.is_empty() {
            self.sent.resize_with(self.config.calls_sent, || None);
        }
        if let Some(slot) = self.slot(xid) {
            *slot = Some(SentCall { xid, call, passed: Memory::new(), since: now });
            self.under_way = self.under_way.saturating_add(1);
            self.calls.push_back(xid);
            self.look_at.get_or_insert(now + self.config.call_time);
        }
    }

    /// The slot that a number belongs to; none before the first call.
    fn slot(&mut self, xid: u32) -> Option<&mut Option<SentCall<R>>> {
        let slots = self.sent.len().max(1);
        let number = usize::try_from(xid).unwrap_or_default();
        self.sent.get_mut(number.checked_rem(slots).unwrap_or_default())
    }

    /// True while a further call may be sent.
    pub fn has_room(&self) -> bool {
        self.under_way < self.config.calls_sent && !self.ended && self.close.is_none()
    }

    /// Calls to the peer without a reply.
    pub fn calls_under_way(&self) -> usize {
        self.under_way
    }

    /// Calls of the peer without a reply.
    pub fn calls_received(&self) -> usize {
        self.received.len()
    }

    /// All calls without a reply, in no particular order; for when the connection has ended.
    pub fn take_unanswered(&mut self) -> impl Iterator<Item = UnansweredCall<R>> + '_ {
        self.under_way = 0;
        self.calls.clear();
        self.look_at = None;
        let slots = self.sent.iter_mut().filter_map(Option::take);
        slots.map(|SentCall { xid, mut call, passed, .. }| {
            call.memory.put_back_all(passed);
            UnansweredCall { xid, call }
        })
    }

    /// Closes the connection, once what waits was sent.
    pub fn close(&mut self, reason: CloseReason) {
        self.close.get_or_insert(reason);
    }

    /// Why it is to be closed.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.close
    }

    /// Bytes in memory of no pool that wait to be sent or are being sent, and of tables.
    pub fn held(&self) -> usize {
        let spare: usize = self.spare.iter().map(Stream::capacity).sum();
        let tables = self.received.capacity().saturating_mul(size_of::<u32>());
        let slots = self.sent.capacity().saturating_mul(size_of::<Option<SentCall<R>>>());
        let numbers = self.calls.capacity().saturating_mul(size_of::<u32>());
        [self.unsent.bytes(), spare, tables, slots, numbers].into_iter().fold(0, usize::saturating_add)
    }
}

/// What the transports do with it.
impl<R> Channel<R> {
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// True while another call may be received: not too many wait for an answer, or for their answer to be read.
    pub(crate) fn takes_calls(&self) -> bool {
        let waiting = self.received.len().saturating_add(self.replies.len());
        waiting < self.config.calls_received && self.unsent.bytes() <= limits::UNSENT
    }

    /// A call of the peer begins.
    pub(crate) fn admit(&mut self, xid: u32) -> Result<CallId, Violation> {
        if self.received.contains(&xid) {
            return Err(Violation::DuplicateCall);
        }
        self.received.push(xid);
        Ok(CallId(xid))
    }

    /// Does what a violation of the message `xid` calls for.
    pub(crate) fn violated(&mut self, violation: Violation, xid: u32) {
        match violation.answer() {
            Answer::Reply(status) => {
                if !self.received.contains(&xid) {
                    self.received.push(xid);
                }
                self.refuse(CallId(xid), status);
            }
            Answer::Drop => {}
            Answer::Close => self.close(CloseReason::Violation(violation.describe())),
        }
    }

    /// The next reply to send.
    pub(crate) fn next_reply(&mut self) -> Option<QueuedReply> {
        let reply = self.replies.pop_front()?;
        self.unsent.leave(reply.unpooled());
        Some(reply)
    }

    /// The next call to send, which stays here until its reply has come.
    pub(crate) fn next_call(&mut self) -> Option<&mut SentCall<R>> {
        let xid = self.calls.pop_front()?;
        self.find(xid)
    }

    /// The next call to send, which stays the next.
    pub(crate) fn peek_call(&mut self) -> Option<&mut SentCall<R>> {
        let xid = *self.calls.front()?;
        self.find(xid)
    }

    /// The next call is being sent.
    pub(crate) fn drop_call(&mut self) {
        self.calls.pop_front();
    }

    /// True while a call of the peer is without a reply that was sent.
    pub(crate) fn knows(&self, xid: u32) -> bool {
        self.received.contains(&xid) || self.replies.iter().any(|reply| reply.xid == xid)
    }

    /// A call without a reply.
    pub(crate) fn find(&mut self, xid: u32) -> Option<&mut SentCall<R>> {
        self.slot(xid)?.as_mut().filter(|sent| sent.xid == xid)
    }

    /// True when a reply to `xid` makes sense: the call has been sent.
    pub(crate) fn awaits(&mut self, xid: u32) -> bool {
        !self.calls.contains(&xid) && self.find(xid).is_some()
    }

    /// A call is answered.
    pub(crate) fn answered(&mut self, xid: u32, outcome: Result<(), CallError>) -> Option<ReceivedReply<R>> {
        let slot = self.slot(xid)?;
        let SentCall { call, mut passed, .. } = slot.take_if(|sent| sent.xid == xid)?;
        self.under_way = self.under_way.saturating_sub(1);
        let Call { arguments, results, memory, .. } = call;
        self.recycle(arguments);
        passed.append(memory);
        Some(ReceivedReply { xid, results, unused: passed, outcome })
    }

    /// Keeps the memory of a stream that was sent.
    pub(crate) fn recycle(&mut self, mut stream: Stream) {
        stream.clear();
        if self.spare.len() < SPARE_STREAMS && stream.capacity() <= SPARE_STREAM {
            self.spare.push(stream);
        }
    }

    /// What was taken to be sent has gone out.
    pub(crate) fn transmitted(&mut self) {
        self.unsent.sent();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.look_at
    }

    /// Closes the connection when a call has waited for too long. A call is not sent again over the same connection, as the stream loses nothing
    /// (RFC 5531 §4; RFC 8881 §2.9.2 forbids it).
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.look_at.is_none_or(|look_at| now < look_at) {
            return;
        }
        let oldest = self.sent.iter().flatten().map(|sent| sent.since).min();
        self.look_at = oldest.map(|since| since + self.config.call_time);
        if self.look_at.is_some_and(|due| due <= now) {
            self.look_at = None;
            self.close(CloseReason::TimedOut("RPC: a call was not answered"));
        }
    }

    /// The connection has ended: nothing is sent any more. Calls without a reply stay until somebody takes them.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.look_at = None;
        self.received.clear();
        self.replies.clear();
        self.unsent.drop_waiting();
        self.unsent.sent();
    }
}
