//! A host's queue over one queue pair: command capsules out, memory for the controller's RDMA Reads and Writes, response capsules in (NVMe RDMA Transport
//! §3.3, §3.6.1).
//!
//! The memory of a command belongs to the queue pair from before the command is sent until its key was invalidated: by the controller with its response,
//! where both sides can, and by this side in any case. Only then has the command ended.

use alloc::vec::Vec;

use buf::Buf;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use verbs::{
    ConnectedQueuePair, Consumer, EndReason, ManagedQueuePair, PrivateData, QueueLimits, QueuePairState,
    RegionMemory, STag, SetupEvent, WorkCompletion, WorkDone, WorkMemory, WorkRequest,
};
use zerocopy::FromBytes;

use super::host_transport::{HostTransport, Key, Place};
use super::private_data::{AcceptReply, ConnectRequest, RejectReply, RejectStatus};
use super::work::Work;
use crate::cqe::CompletionQueueEntry;
use crate::host::{Action, CommandCapsule, Config, Failure, HostQueue, Input, Queue};
use crate::limits::HOST_TRANSFER;
use crate::width::from_field;

/// Bytes of a response capsule (§3.3.1).
const RESPONSE: usize = size_of::<CompletionQueueEntry>();

/// Why a connection ends whose controller accepts with something else than the standard's private data.
const NO_ACCEPT: &str = "the controller accepts the connection without saying how";
/// Why a connection ends whose controller sends what is no response.
const NO_RESPONSE: &str = "a response capsule of other than 16 bytes";
/// Why a connection ends whose controller answers what was not asked, or twice.
const UNKNOWN_COMMAND: &str = "a response to no command";
/// Why a connection ends whose controller invalidates another command's key.
const FOREIGN_KEY: &str = "a response that invalidates a key which is not its command's";
/// Why digests do not go together with RDMA.
const NO_DIGESTS: &str = "header and data digests are NVMe/TCP's: leave header_digest= and data_digest= out";
/// Why a queue pair is of no use.
const NO_ROOM: &str = "the queue pair has fewer receives than the queue has entries";

/// The host's end of one queue pair, which is one queue.
#[derive(Debug)]
pub struct HostConnection<Q> {
    queue: HostQueue<HostTransport>,
    pair: Q,
    /// Completions that are looked at, the newest first.
    done: Vec<WorkCompletion>,
    /// The queue pair has ended, and its memory is back.
    is_over: bool,
}

impl<Q: ManagedQueuePair> HostConnection<Q> {
    /// The end of a connection that has just been made, whose queue pair is an initiator's and says [`private_data`](Self::private_data).
    pub fn new(pair: Q, config: Config, now: Instant) -> Self {
        let entries = config.entries();
        let in_capsule = config.in_capsule();
        let digests = config.header_digest || config.data_digest;
        let queue = HostQueue::new(HostTransport::new(entries, in_capsule), config, now);
        let mut connection = Self { queue, pair, done: Vec::new(), is_over: false };
        if digests {
            connection.queue.fail(Failure::Unusable(NO_DIGESTS), CloseReason::Refused(NO_DIGESTS));
        }
        for _ in 0..entries {
            connection.post_receive(Buf::zeroed(RESPONSE));
        }
        connection
    }

    /// What the queue pair is to say in its connection request.
    pub fn private_data(config: &Config) -> PrivateData {
        let (qid, cntlid) = match &config.queue {
            Queue::Discovery | Queue::Admin { .. } => (0, 0),
            Queue::Io { qid, remote } => (*qid, remote.cntlid),
        };
        ConnectRequest::new(qid, cntlid, config.entries()).encode()
    }

    /// What the queue pair must hold.
    pub fn needs(config: &Config) -> QueueLimits {
        let entries = usize::from(config.entries());
        QueueLimits {
            sends: entries.saturating_mul(4),
            receives: entries,
            regions: entries,
            longest: from_field(HOST_TRANSFER),
        }
    }

    /// The queue pair below.
    pub fn pair(&mut self) -> &mut Q {
        &mut self.pair
    }

    /// The controller broke a rule: the connection ends (§3.5.1).
    fn violate(&mut self, text: &'static str) {
        self.queue.transport.waiting.clear();
        self.end(Failure::Lost(text), CloseReason::Violation(text));
    }

    /// Takes all memory back, and answers every request.
    fn end(&mut self, failure: Failure, reason: CloseReason) {
        if !self.is_over {
            self.recover();
            self.queue.fail(failure, reason);
        }
    }

    /// Ends the queue pair, and takes back the memory of commands that have not ended.
    fn recover(&mut self) {
        if core::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.pair.disconnect();
        let keys: Vec<Key> = self.queue.transport.keys().collect();
        for key in keys {
            self.queue.transport.take_memory(&mut self.pair, key);
        }
        let mut done = core::mem::take(&mut self.done);
        self.pair.poll(Instant::ZERO, &mut done);
        for WorkCompletion { id, memory, .. } in done.drain(..) {
            if let (Work::Register(cid) | Work::Invalidate(cid), WorkMemory::Region(memory)) =
                (Work::of(id), memory)
            {
                self.give_back(cid, memory);
            }
        }
    }

    fn advance(&mut self, now: Instant) {
        while self.step(now) {}
        self.settle();
    }

    /// One round of what can be done; false when there was nothing.
    fn step(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(event) = self.pair.poll_event() {
            moved = true;
            self.handle_setup(now, event);
        }
        if self.is_over {
            return moved;
        }
        self.pair.poll(now, &mut self.done);
        self.done.reverse();
        let mut handled = Ok(());
        while let Some(completion) = self.done.pop() {
            moved = true;
            // Behind a violation memory still comes back, but no response is looked at.
            if handled.is_ok() || Work::of(completion.id) != Work::Receive {
                handled = handled.and(self.handle_work(now, completion));
            }
        }
        if let Err(violation) = handled {
            self.violate(violation);
        }
        self.start() || moved
    }

    /// Follows the end of the queue in the queue pair, and the other way round.
    fn settle(&mut self) {
        match self.pair.state() {
            QueuePairState::Open if self.queue.poll_close().is_some() => self.pair.disconnect(),
            QueuePairState::Open => {}
            QueuePairState::Ended(why) => {
                let text = match why {
                    EndReason::Terminated(text) | EndReason::Violation(text) => text,
                    EndReason::ByUs | EndReason::ByPeer | EndReason::Lost => {
                        "the connection to the controller was lost"
                    }
                };
                let reason = self.pair.close_reason().unwrap_or(CloseReason::Finished);
                self.end(Failure::Lost(text), reason);
            }
        }
    }

    fn handle_setup(&mut self, now: Instant, event: SetupEvent) {
        match event {
            SetupEvent::Requested(_) => {}
            SetupEvent::Established(private_data) => match AcceptReply::decode(private_data.bytes()) {
                Some(reply) => {
                    self.queue.transport.limit(reply.crqsize.get());
                    self.queue.handle_ready(now);
                }
                None => self.violate(NO_ACCEPT),
            },
            SetupEvent::Rejected(private_data) => {
                let status = RejectReply::decode(private_data.bytes()).unwrap_or(RejectStatus(0));
                let text = status.describe();
                let failure = match status {
                    RejectStatus::NO_RESOURCES => Failure::Lost(text),
                    _ => Failure::Unusable(text),
                };
                self.end(failure, CloseReason::Refused(text));
            }
        }
    }

    /// A work request has ended.
    #[inline]
    fn handle_work(&mut self, now: Instant, completion: WorkCompletion) -> Result<(), &'static str> {
        let WorkCompletion { id, result, memory } = completion;
        match (Work::of(id), memory) {
            (Work::Receive, WorkMemory::Buf(buf)) => {
                if let Ok(WorkDone::Received { length, invalidated }) = result {
                    let response = buf.get(..length).unwrap_or_default();
                    self.handle_response(now, response, invalidated)?;
                    self.post_receive(buf);
                }
            }
            (Work::Send, WorkMemory::List(capsule)) => self.queue.transport.sent(capsule),
            (Work::Register(cid), memory) => match (result, memory) {
                (Ok(WorkDone::Registered(region)), _) => {
                    self.queue.transport.registered(&mut self.pair, cid, region);
                }
                (_, WorkMemory::Region(memory)) => {
                    self.queue.transport.not_registered();
                    self.give_back(cid, memory);
                }
                _ => {}
            },
            (Work::Invalidate(cid), memory) => {
                self.queue.transport.invalidated();
                if let WorkMemory::Region(memory) = memory {
                    self.give_back(cid, memory);
                }
                if let Place::Ending(completion) = self.queue.transport.place(cid) {
                    return self.complete(now, completion);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The memory of a command is its queue's again.
    fn give_back(&mut self, cid: u16, memory: RegionMemory) {
        if let RegionMemory::Sink(buf) = memory
            && let Some(target) = self.queue.target(cid)
        {
            target.buf = Some(buf);
        }
    }

    fn post_receive(&mut self, into: Buf) {
        let refused = self.pair.post(Work::Receive.id(), WorkRequest::Receive { into }).is_err();
        if refused && self.pair.state() == QueuePairState::Open {
            self.queue.fail(Failure::Unusable(NO_ROOM), CloseReason::Limit(NO_ROOM));
        }
    }

    /// A response has come.
    fn handle_response(
        &mut self,
        now: Instant,
        response: &[u8],
        invalidated: Option<STag>,
    ) -> Result<(), &'static str> {
        let completion = CompletionQueueEntry::read_from_bytes(response).map_err(|_| NO_RESPONSE)?;
        let cid = completion.cid.get();
        match self.queue.transport.place(cid) {
            Place::Sent(key) if invalidated.is_some() && invalidated != key => Err(FOREIGN_KEY),
            Place::Sent(None) => self.complete(now, completion),
            Place::Sent(Some(stag)) => {
                self.queue.transport.begin_ending(&mut self.pair, Key { cid, stag }, completion);
                Ok(())
            }
            Place::Free | Place::Registering(_) | Place::Ending(_) => Err(UNKNOWN_COMMAND),
        }
    }

    /// A command has ended, and its memory is back.
    #[inline]
    fn complete(&mut self, now: Instant, completion: CompletionQueueEntry) -> Result<(), &'static str> {
        let cid = completion.cid.get();
        self.queue.transport.end(cid);
        if completion.status().is_success() {
            // What the controller moved is there before its response: all, as it says.
            if let Some(target) = self.queue.target(cid) {
                target.received = target.length;
            } else if let Some(source) = self.queue.source(cid) {
                (source.asked, source.sent) = (source.data.len(), source.data.len());
            }
        }
        self.queue.handle_completion(now, completion).map_err(|_| UNKNOWN_COMMAND)
    }

    /// Sends the commands that wait, as far as there is room; true if there was one.
    #[inline]
    fn start(&mut self) -> bool {
        let mut moved = false;
        while self.queue.poll_close().is_none()
            && let Some(capsule) = self.queue.transport.next_command(&self.pair)
        {
            moved = true;
            self.start_one(capsule);
        }
        moved
    }

    fn start_one(&mut self, capsule: CommandCapsule) {
        let cid = capsule.entry.cid.get();
        self.queue.mark_sent(cid);
        let Some(memory) = self.memory(&capsule) else {
            return self.queue.transport.send_bare(&mut self.pair, capsule);
        };
        match self.pair.post(Work::Register(cid).id(), WorkRequest::Register { memory }) {
            Ok(()) => self.queue.transport.begin_registering(capsule.entry),
            // The queue pair has ended, or the memory is longer than it takes: which no command's is.
            Err(refused) => {
                if let WorkMemory::Region(memory) = refused.request.into_memory() {
                    self.give_back(cid, memory);
                }
            }
        }
    }

    /// The memory that a command needs a key for.
    fn memory(&mut self, capsule: &CommandCapsule) -> Option<RegionMemory> {
        let cid = capsule.entry.cid.get();
        if !capsule.data.is_empty() {
            let in_capsule = self.queue.transport.is_in_capsule(capsule);
            return (!in_capsule).then(|| RegionMemory::Source(capsule.data.clone()));
        }
        if let Some(target) = self.queue.target(cid) {
            return target.buf.take().map(RegionMemory::Sink);
        }
        let source = self.queue.source(cid).filter(|source| !source.data.is_empty())?;
        Some(RegionMemory::Source(source.data.clone()))
    }
}

impl<Q: ManagedQueuePair> Consumer for HostConnection<Q> {
    type QueuePair = Q;
    type Input = Input;
    type Action = Action;

    fn queue_pair(&mut self) -> &mut Q {
        &mut self.pair
    }

    fn queue_pair_ref(&self) -> &Q {
        &self.pair
    }

    fn handle_progress(&mut self, now: Instant) {
        self.queue.handle_sent(now);
        self.advance(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        if matches!(input, Input::Abandon) {
            self.recover();
        }
        self.queue.handle_input(now, input);
        self.advance(now);
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.pair.handle_deadline(now);
        if self.queue.is_overdue(now) {
            self.recover();
        }
        self.queue.handle_timeout(now);
        self.advance(now);
    }

    fn handle_ended(&mut self, now: Instant) {
        self.advance(now);
        self.queue.handle_ended();
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.queue.poll_timeout(), self.pair.next_deadline()].into_iter().flatten().min()
    }

    fn is_established(&self) -> bool {
        true
    }

    fn awaits_memory(&self) -> bool {
        false
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}

impl<Q: ConnectedQueuePair> protocol::Connection for HostConnection<Q> {
    type Input = Input;
    type Action = Action;

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

    fn handle_input(&mut self, now: Instant, input: Input) {
        Consumer::handle_input(self, now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.pair.handle_transmitted(now, bytes);
        self.handle_progress(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_deadline(now);
    }

    fn handle_ended(&mut self, now: Instant, how: Ended) {
        self.pair.handle_ended(now, how);
        Consumer::handle_ended(self, now);
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.pair.poll_transmit(now, send);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn wants_bytes(&mut self) -> bool {
        self.pair.wants_bytes()
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}
