//! A controller's queue over one queue pair: command capsules in, data by RDMA Read and RDMA Write, response capsules out (NVMe RDMA Transport §3.3).
//!
//! The host says in its connection request how many commands it may send at a time. As many receives are posted before it is accepted, if there is memory for
//! them, so that a capsule always finds one: a receive is posted again as soon as its command was taken, which is before the command is
//! answered. A command that is withheld keeps its receive.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use buf::{Buf, Pool};
use protocol::{CloseReason, Ended, Instant, Notice, Parties, Placement, Transmit};
use verbs::{
    ConnectedQueuePair, Consumer, ManagedQueuePair, QueueLimits, QueuePairState, SetupAnswer, SetupEvent,
    WorkCompletion, WorkDone, WorkMemory, WorkRequest,
};
use volume::VolumeId;
use zerocopy::FromBytes;

use super::controller_transport::ControllerTransport;
use super::private_data::{AcceptReply, ConnectRequest, RejectReply, RejectStatus};
use super::work::Work;
use crate::controller::{Action, Admission, ControllerQueue, Input, Integrity, Portal};
use crate::limits::{ADMIN_QUEUE, RDMA_IN_CAPSULE};
use crate::sqe::SubmissionQueueEntry;
use crate::transport::send_watch::{Allowance, Delivery, SendWatch};
use crate::width::from_field;

/// Bytes of a command capsule without data (§3.3.1).
const COMMAND: usize = size_of::<SubmissionQueueEntry>();

/// Why a connection ends whose host sends what is no capsule.
pub(super) const SHORT_CAPSULE: &str = "a command capsule of fewer than 64 bytes";
/// Why a connection ends whose host does not wait for its Connect.
pub(super) const EARLY_COMMAND: &str = "a command before the queue was connected";

/// A command capsule in the buffer of its receive.
#[derive(Debug)]
struct Capsule {
    buf: Buf,
    length: usize,
}

/// The controller's end of one queue pair, which is one queue.
#[derive(Debug)]
pub struct ControllerConnection<Q> {
    queue: ControllerQueue<ControllerTransport>,
    pair: Q,
    /// Command capsules that were not taken yet, in order.
    arrived: VecDeque<Capsule>,
    /// Completions that are looked at, the newest first.
    done: Vec<WorkCompletion>,
    /// The time as it was told last.
    now: Instant,
    sending: SendWatch,
    /// The host has taken a response since that was looked at.
    has_sent: bool,
}

impl<Q: ManagedQueuePair> ControllerConnection<Q> {
    /// The end of a connection that was accepted on `portal`'s address, whose queue pair is a responder's.
    pub fn new(pair: Q, portal: Arc<Portal>, pool: Pool, now: Instant) -> Self {
        Self {
            queue: ControllerQueue::new(ControllerTransport::default(), portal, pool, now),
            pair,
            arrived: VecDeque::new(),
            done: Vec::new(),
            now,
            sending: SendWatch::Idle,
            has_sent: false,
        }
    }

    /// What the queue pair must hold for any queue that hosts may have on `portal`.
    pub fn needs(portal: &Portal) -> QueueLimits {
        let depth = portal.subsystems.iter().map(|subsystem| subsystem.limits.depth).max();
        let entries = usize::from(depth.unwrap_or(0).max(ADMIN_QUEUE));
        let transfer = portal.subsystems.iter().map(|subsystem| subsystem.limits.max_transfer).max();
        let longest = from_field(transfer.unwrap_or(0)).max(1 << 20);
        // A command's data, and its end.
        QueueLimits { sends: entries.saturating_mul(2), receives: entries, regions: 0, longest }
    }

    /// The queue pair below.
    pub fn pair(&mut self) -> &mut Q {
        &mut self.pair
    }

    /// What the operator is to be told, the oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.queue.poll_notice()
    }

    /// The host, and the subsystem that it asked for, as far as they are known.
    pub fn parties(&self) -> Parties {
        self.queue.parties()
    }

    /// True while a namespace that it shows, or a request that it has made, is on the volume. Looks at everything: not to be asked often.
    pub fn uses(&self, volume: VolumeId) -> bool {
        self.queue.uses(volume)
    }

    /// True when its subsystem is withdrawn from the host: the connection ends soon.
    pub fn is_withdrawn(&self) -> bool {
        self.queue.is_withdrawn()
    }

    /// True when the host hears over this connection what has changed, and may ask for it over another at once.
    pub fn reports_changes(&self) -> bool {
        self.queue.reports_changes()
    }

    /// The host broke a rule: nothing more is done for it.
    fn violate(&mut self, text: &'static str) {
        self.queue.transport().clear();
        self.queue.end(CloseReason::Violation(text));
    }

    /// Does what can be done now.
    fn advance(&mut self, now: Instant) {
        self.now = now;
        while self.step(now) {}
        self.settle();
        self.queue.end_turn();
    }

    /// One round of what can be done; false when there was nothing.
    fn step(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(event) = self.pair.poll_event() {
            moved = true;
            self.handle_setup(event);
        }
        self.pair.poll(now, &mut self.done);
        self.done.reverse();
        while let Some(completion) = self.done.pop() {
            moved = true;
            self.handle_work(now, completion);
        }
        moved |= self.take_capsules(now);
        self.post() || moved
    }

    /// Follows the end of the queue in the queue pair, and the other way round.
    fn settle(&mut self) {
        if self.pair.state() != QueuePairState::Open {
            if self.queue.poll_close().is_none() {
                self.queue.end(self.pair.close_reason().unwrap_or(CloseReason::Finished));
            }
            self.queue.transport().clear();
        } else if self.queue.poll_close().is_some() && self.queue.transport().is_idle() {
            self.pair.disconnect();
        }
    }

    fn handle_setup(&mut self, event: SetupEvent) {
        let SetupEvent::Requested(private_data) = event else { return };
        let answer = match ConnectRequest::decode(private_data.bytes()).and_then(|asked| self.prepare(&asked))
        {
            Ok(receives) => SetupAnswer::Accept(AcceptReply::new(receives).encode()),
            Err(status) => {
                self.queue.end(CloseReason::Refused(status.describe()));
                SetupAnswer::Reject(RejectReply::new(status).encode())
            }
        };
        self.pair.handle_answer(self.now, answer);
    }

    /// Posts receives for all commands that the host may send at a time, and says how many.
    fn prepare(&mut self, asked: &ConnectRequest) -> Result<u16, RejectStatus> {
        let (qid, hsqsize) = (asked.qid.get(), asked.hsqsize.get());
        let limits = self.queue.portal().subsystems.iter().map(|subsystem| subsystem.limits);
        let most =
            if qid == 0 { ADMIN_QUEUE } else { limits.clone().map(|limits| limits.depth).max().unwrap_or(0) };
        if qid > limits.map(|limits| limits.queues).max().unwrap_or(0) {
            return Err(RejectStatus::INVALID_QID);
        }
        if hsqsize == 0 || hsqsize >= most {
            return Err(RejectStatus::INVALID_HSQSIZE);
        }
        if asked.hrqsize.get() < hsqsize {
            return Err(RejectStatus::INVALID_HRQSIZE);
        }
        let receives = hsqsize.saturating_add(1);
        // In-capsule data is not supported for the admin queue (§3.3.1).
        let data = if qid == 0 { 0 } else { from_field(RDMA_IN_CAPSULE) };
        let size = COMMAND.saturating_add(data);
        if !self.queue.charge_receives(usize::from(receives).saturating_mul(size)) {
            return Err(RejectStatus::NO_RESOURCES);
        }
        for _ in 0..receives {
            let into = Buf::zeroed(size);
            let posted = self.pair.post(Work::Receive.id(), WorkRequest::Receive { into });
            posted.map_err(|_| RejectStatus::NO_RESOURCES)?;
        }
        Ok(receives)
    }

    /// A work request has ended.
    #[inline]
    fn handle_work(&mut self, now: Instant, completion: WorkCompletion) {
        let transport = self.queue.transport();
        match (Work::of(completion.id), completion.memory) {
            (Work::Receive, WorkMemory::Buf(buf)) => {
                if let Ok(WorkDone::Received { length, .. }) = completion.result {
                    self.arrived.push_back(Capsule { buf, length });
                }
            }
            (Work::Send, WorkMemory::List(data)) => {
                transport.sent(data);
                self.has_sent = true;
                self.queue.handle_sent(now);
            }
            (Work::Write, WorkMemory::List(data)) => transport.written(&data),
            (Work::Read(slot), WorkMemory::Buf(buf)) => {
                transport.read_done(slot);
                if completion.result.is_ok() {
                    let end = self.queue.transfer(slot).map_or(0, |transfer| transfer.length);
                    self.queue.return_buffer(slot, buf, end);
                    self.queue.handle_data(now, slot, Integrity::Intact);
                }
            }
            // Memory that a transport which has ended has dropped.
            _ => {}
        }
    }

    /// Gives the queue the commands that have come, as far as it takes them.
    #[inline]
    fn take_capsules(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while self.queue.poll_close().is_none()
            && self.queue.takes_submissions()
            && self.queue.has_room()
            && let Some(capsule) = self.arrived.pop_front()
        {
            match self.handle_capsule(now, &capsule) {
                Ok(true) => moved = self.post_receive(capsule.buf) || moved,
                Ok(false) => {
                    self.arrived.push_front(capsule);
                    break;
                }
                Err(violation) => self.violate(violation),
            }
        }
        moved
    }

    /// The receive of a command that was taken is free for another one.
    fn post_receive(&mut self, buf: Buf) -> bool {
        // It is refused when the queue pair has ended.
        self.pair.post(Work::Receive.id(), WorkRequest::Receive { into: buf }).is_ok()
    }

    /// A command with what is in its capsule; false when it is withheld.
    #[inline]
    fn handle_capsule(&mut self, now: Instant, capsule: &Capsule) -> Result<bool, &'static str> {
        let bytes = capsule.buf.get(..capsule.length).unwrap_or_default();
        let (entry, data) = SubmissionQueueEntry::ref_from_prefix(bytes).map_err(|_| SHORT_CAPSULE)?;
        if self.queue.is_connecting() {
            return Err(EARLY_COMMAND);
        }
        match self.queue.handle_submission(now, entry, data.len()) {
            Admission::Withheld => return Ok(false),
            Admission::Taken => {}
            Admission::Receives { slot, offset } => {
                self.place(now, slot, data.get(offset..).unwrap_or_default());
            }
        }
        Ok(true)
    }

    /// The data of a slot's command has come in its capsule.
    fn place(&mut self, now: Instant, slot: u16, data: &[u8]) {
        let Some(mut buf) = self.queue.take_buffer(slot) else { return };
        let length = buf.len();
        if let Some(data) = data.get(..length) {
            buf.copy_from_slice(data);
        }
        self.queue.return_buffer(slot, buf, length);
        self.queue.handle_data(now, slot, Integrity::Intact);
    }

    /// Posts what waits, as far as there is room; true if something was posted.
    #[inline]
    fn post(&mut self) -> bool {
        let mut moved = false;
        while let Some(pull) = self.queue.transport().next_pull(&self.pair) {
            moved = true;
            if let Some(into) = self.queue.take_buffer(pull.slot) {
                self.queue.transport().read(&mut self.pair, pull, into);
            }
        }
        while self.queue.transport().send_next(&mut self.pair) {
            moved = true;
        }
        moved
    }

    /// Begins to watch what is under way once something is: over datagrams only an acknowledgement says that the host has taken it.
    fn watch_acknowledgements(&mut self, now: Instant) {
        let has_sent = core::mem::take(&mut self.has_sent);
        if self.queue.transport().is_idle() {
            self.sending.on_sent();
        } else if has_sent || self.sending == SendWatch::Idle {
            self.sending.on_send(now);
        }
    }

    /// Closes the connection when nothing of what is sent to it is read.
    fn watch_sending(&mut self, now: Instant) {
        let allowance = if self.queue.is_memory_wanted() { Allowance::Scarce } else { Allowance::Usual };
        if self.sending.on_time(now, allowance) == Delivery::Stalled {
            self.queue.transport().clear();
            self.queue.end(CloseReason::TimedOut("the host does not read what is sent to it"));
        }
    }
}

impl<Q: ManagedQueuePair> Consumer for ControllerConnection<Q> {
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
        if self.queue.begin_turn(now) {
            self.advance(now);
        } else {
            self.settle();
        }
        self.watch_acknowledgements(now);
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        self.queue.handle_input(now, input);
        self.advance(now);
    }

    fn handle_memory(&mut self, now: Instant) {
        self.queue.handle_memory(now);
        self.advance(now);
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.watch_sending(now);
        self.pair.handle_deadline(now);
        self.queue.handle_timeout(now);
        self.advance(now);
    }

    fn handle_ended(&mut self, now: Instant) {
        self.sending.on_sent();
        self.advance(now);
        self.arrived.clear();
        self.queue.transport().clear();
        self.queue.handle_ended(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.queue.poll_action()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let sending = self.sending.due();
        [self.queue.poll_timeout(), self.pair.next_deadline(), sending].into_iter().flatten().min()
    }

    fn is_established(&self) -> bool {
        self.queue.is_established()
    }

    fn awaits_memory(&self) -> bool {
        self.queue.awaits_memory() || !self.arrived.is_empty()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}

impl<Q: ConnectedQueuePair> protocol::Connection for ControllerConnection<Q> {
    type Input = Input;
    type Action = Action;

    const STAGING: usize = Q::STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if !self.queue.begin_turn(now) {
            self.settle();
            return bytes.len();
        }
        let used = self.pair.handle_bytes(now, bytes);
        self.advance(now);
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.pair.take_placement()
    }

    fn handle_placed(&mut self, now: Instant, placement: Placement) {
        self.pair.handle_placed(now, placement);
        if self.queue.begin_turn(now) {
            self.advance(now);
        } else {
            self.settle();
        }
    }

    fn handle_input(&mut self, now: Instant, input: Input) {
        Consumer::handle_input(self, now, input);
    }

    fn handle_transmitted(&mut self, now: Instant, bytes: usize) {
        self.sending.on_sent();
        self.pair.handle_transmitted(now, bytes);
        self.queue.handle_sent(now);
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
        self.post();
        self.pair.poll_transmit(now, send);
        if !send.is_empty() {
            self.sending.on_send(now);
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        Consumer::poll_action(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn wants_bytes(&mut self) -> bool {
        self.pair.wants_bytes()
    }

    fn is_established(&self) -> bool {
        self.queue.is_established()
    }

    fn awaits_memory(&self) -> bool {
        Consumer::awaits_memory(self)
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.queue.poll_close()
    }
}
