//! One connection: its set-up, what it receives and what it sends, joined into a [`protocol::Connection`] that is a [`verbs::QueuePair`].

mod queue_pair;
mod receive;
mod setup;
mod transmit;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use buf::Account;
use protocol::{CloseReason, Ended, Instant, Placement, Transmit};
use verbs::{
    EndReason, PrivateData, QueueLimits, QueuePairLimits, QueuePairState, ReceiveQueue, RegionTable,
    SetupAnswer, SetupEvent, WorkCompletion,
};

use crate::arrival::Arrival;
use crate::inbound_reads::InboundReads;
use crate::limits::{LONGEST, READS, STAGING};
use crate::mpa::{Frame, Markers, Offer, Receiver, Setup, Terms};
use crate::send_queue::{LentMemory, SendQueue};
use crate::sender::Sender;
use crate::untagged::UntaggedQueue;
use crate::violation::Violation;

/// Who begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// This side, with these words to the other.
    Initiator(PrivateData),
    /// The other side.
    Responder,
}

/// What a connection is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Who begins.
    pub role: Role,
    /// What it offers its peer.
    pub offer: Offer,
    /// What its queue pair holds. Requests have up to 4 GiB less one byte.
    pub queues: QueueLimits,
    /// Bytes of a TCP segment: FPDUs are made to fit.
    pub mss: usize,
    /// Sends ask for an event at the peer (RFC 5040 §4.3), for peers that wait for those alone.
    pub solicited: bool,
}

/// One connection, either role. See the crate's documentation.
///
/// What its peer can make it hold is counted by its account: the table of the peer's RDMA Reads, which is all there is of them, and private data until the consumer has
/// taken it. All other memory is what the consumer posts and registers.
///
/// While the transport has memory of a request or region ([`protocol::Connection::take_placement`]), that request or the region's end waits for it. A transport
/// that has ended may drop such memory, which then does not come back with the completion; all other memory does.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    account: Account,
    limits: QueuePairLimits,
    state: QueuePairState,
    close: Option<CloseReason>,
    setup: Setup,
    /// When the set-up came to be as it is.
    since: Instant,
    /// The frame that is to be sent, or the request that is to be answered.
    frame: Option<Frame>,
    terms: Terms,
    actions: VecDeque<SetupEvent>,
    /// What is received; none before the set-up.
    receiver: Option<Receiver>,
    /// What the FPDU that is coming is.
    arrival: Arrival,
    /// The transport has memory.
    lent: bool,
    /// There is no transport any more: memory that it had does not come back.
    is_gone: bool,
    send_messages: UntaggedQueue,
    read_requests: UntaggedQueue,
    sender: Sender,
    sends: SendQueue,
    receives: ReceiveQueue,
    reads: InboundReads,
    regions: RegionTable,
    done: Vec<WorkCompletion>,
}

impl Connection {
    /// A connection that begins now.
    pub fn new(now: Instant, config: Config, account: Account) -> Self {
        let queues = config.queues;
        let offer =
            Offer { ird: config.offer.ird.min(READS), ord: config.offer.ord.min(READS), ..config.offer };
        let mut connection = Self {
            account,
            limits: QueuePairLimits {
                sends: queues.sends,
                receives: queues.receives,
                reads: usize::from(offer.ord),
                regions: queues.regions.min(1 << 16),
                longest: queues.longest.min(LONGEST),
                remote_invalidation: true,
            },
            state: QueuePairState::Open,
            close: None,
            setup: Setup::AwaitRequest,
            since: now,
            frame: None,
            terms: Terms {
                markers_in: Markers::Without,
                markers_out: Markers::Without,
                crc: false,
                ird: 0,
                ord: 0,
                rtr: None,
            },
            actions: VecDeque::new(),
            receiver: None,
            arrival: Arrival::Empty,
            lent: false,
            is_gone: false,
            send_messages: UntaggedQueue::new(),
            read_requests: UntaggedQueue::new(),
            sender: Sender::new(),
            sends: SendQueue::new(queues.sends),
            receives: ReceiveQueue::new(queues.receives),
            reads: InboundReads::new(0),
            regions: RegionTable::new(queues.regions),
            done: Vec::new(),
            config: Config { offer, ..config },
        };
        if let Role::Initiator(private_data) = connection.config.role.clone() {
            connection.request(private_data);
        }
        connection
    }

    /// What was agreed with the peer; nothing before.
    pub fn terms(&self) -> Option<Terms> {
        self.receiver.is_some().then_some(self.terms)
    }

    fn is_open(&self) -> bool {
        self.state == QueuePairState::Open
    }

    /// The peer broke a rule of the FPDUs: it is told, and that is all.
    fn violate(&mut self, violation: Violation) {
        let header = self.receiver.as_ref().map(|receiver| (receiver.ulpdu(), receiver.header()));
        let (ulpdu, header) = header.unwrap_or_default();
        self.sender.terminate(violation, (ulpdu, header));
        self.end_by(violation);
    }

    fn end_by(&mut self, violation: Violation) {
        let words = violation.describe();
        self.end(EndReason::Violation(words), CloseReason::Violation(words));
    }

    /// Ends it, if it has not ended: everything that was posted completes.
    fn end(&mut self, why: EndReason, close: CloseReason) {
        if self.is_open() {
            self.state = QueuePairState::Ended(why);
            self.close = Some(close);
            self.setup.end();
            self.frame = None;
            self.reads.clear();
            self.flush();
        }
    }

    /// Completes what was posted, but what waits for memory that the transport has.
    fn flush(&mut self) {
        let lent = if self.is_gone { LentMemory::Lost } else { LentMemory::MayReturn };
        while let Some(done) = match lent {
            LentMemory::Lost => self.receives.flush_lost(),
            LentMemory::MayReturn => self.receives.flush(),
        } {
            self.done.push(done);
        }
        while let Some(done) = self.sends.flush(&mut self.regions, lent) {
            self.done.push(done);
        }
    }

    /// Goes on with what needs no sending, and collects completions.
    fn advance(&mut self) {
        if !self.is_open() {
            return;
        }
        self.sends.prepare(&mut self.regions, self.terms.ord);
        if self.receiver.is_some() && self.sends.is_stuck(self.terms.ord) {
            self.sends.refuse_next();
            let words = "the peer serves no RDMA Reads";
            return self.end(EndReason::Terminated(words), CloseReason::Limit(words));
        }
        while let Some(done) = self.sends.complete() {
            self.done.push(done);
        }
    }

    fn act(&mut self, action: SetupEvent) {
        self.account.count(action.private_data().len());
        self.actions.push_back(action);
    }
}

impl protocol::Connection for Connection {
    type Input = SetupAnswer;
    type Action = SetupEvent;

    const STAGING: usize = STAGING;

    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        if !self.is_open() {
            // What comes after the end is nobody's.
            return bytes.len();
        }
        let consumed = match self.setup {
            Setup::AwaitRequest | Setup::AwaitReply => self.take_frame(now, bytes),
            _ if self.setup.receives_fpdus() => self.take_fpdus(bytes),
            _ => 0,
        };
        self.advance();
        consumed
    }

    fn take_placement(&mut self) -> Option<Placement> {
        self.place()
    }

    fn handle_placed(&mut self, _now: Instant, placement: Placement) {
        self.placed(placement);
        self.advance();
    }

    fn handle_input(&mut self, _now: Instant, input: SetupAnswer) {
        match input {
            SetupAnswer::Accept(private_data) => self.accept(private_data),
            SetupAnswer::Reject(private_data) => self.reject(private_data),
        }
    }

    fn handle_transmitted(&mut self, _now: Instant, bytes: usize) {
        if self.sender.transmitted(bytes) {
            self.sends.transmitted();
        }
        self.advance();
    }

    fn handle_timeout(&mut self, now: Instant) {
        let is_due = self.poll_timeout().is_some_and(|deadline| deadline <= now);
        if is_due && let Some(awaited) = self.setup.time_out() {
            self.end(EndReason::Lost, CloseReason::TimedOut(awaited));
        }
    }

    fn handle_ended(&mut self, _now: Instant, how: Ended) {
        let between = self.receiver.as_ref().is_none_or(Receiver::is_between);
        let why = match how {
            Ended::ByUs => EndReason::ByUs,
            Ended::ByPeer if between => EndReason::ByPeer,
            Ended::ByPeer | Ended::Failed(_) => EndReason::Lost,
        };
        self.is_gone = true;
        self.end(why, CloseReason::Finished);
        self.sender.stop();
        self.flush();
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.transmit(now, send);
        self.advance();
    }

    fn poll_action(&mut self) -> Option<SetupEvent> {
        let action = self.actions.pop_front()?;
        self.account.uncount(action.private_data().len());
        Some(action)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.setup.patience().map(|patience| self.since + patience)
    }

    /// While a consumer decides, nothing of the peer's is taken.
    fn wants_bytes(&mut self) -> bool {
        !matches!(self.setup, Setup::Deciding | Setup::ReplyDue { .. } | Setup::RejectDue | Setup::RequestDue)
    }

    fn is_established(&self) -> bool {
        self.setup == Setup::Open
    }

    fn poll_close(&self) -> Option<CloseReason> {
        self.close
    }
}
