//! A queue pair of an adapter: the verbs contract over libibverbs, and the set-up of its connection over librdmacm.
//!
//! ```text
//! initiator:  Resolving ─► Connecting ─┐
//! responder:      Asked ─► Accepting ──┴► Connected ─► Leaving ─► Gone
//! ```
//!
//! Whatever ends it, the adapter lets go of all memory at once: the queue pair at the device is destroyed, so that everything completes in the next
//! [`poll`](QueuePair::poll), and the identifier alone stays until the peer has heard of the end. Regions are their owner's until it invalidates them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

use buf::Account;
use host::{AdapterError, AdapterQueuePair, PairId, PairNeeds, PairWish};
use protocol::{CloseReason, Instant};
use verbs::{
    EndReason, ManagedQueuePair, PostError, PrivateData, QueuePair, QueuePairLimits, QueuePairState, Refusal,
    RegionMemory, SetupAnswer, SetupEvent, WorkCompletion, WorkDone, WorkError, WorkId, WorkMemory,
    WorkRequest,
};

use crate::hardware::{Exposed, Granted, Hardware, NotPosted, Refused, granted};
use crate::inbox::{Channels, Inbox};
use crate::limits::{LEAVE, REASON, RESOLVE};
use crate::sys::{CmEvent, CmEventKind, CmId, ConnectionOffer, Done, Outcome};
use crate::words;
use crate::work::{Progress, WorkList};

/// How far the connection is.
#[derive(Debug)]
enum Stage {
    /// The way to the peer is looked for.
    Resolving(CmId, Box<Asking>),
    /// The peer was asked.
    Connecting(Hardware),
    /// A peer asks, and the consumer has not answered.
    Asked(Hardware),
    /// The consumer has said yes.
    Accepting(Hardware),
    /// Messages go both ways.
    Connected(Hardware),
    /// The queue pair has ended; the peer has not said that it knows.
    Leaving(Rc<CmId>),
    /// Nothing is left.
    Gone,
}

/// What an initiator needs once its device is known.
#[derive(Debug)]
struct Asking {
    needs: PairNeeds,
    private_data: PrivateData,
    account: Account,
}

/// A queue pair of an adapter.
#[derive(Debug)]
pub(crate) struct Pair {
    id: PairId,
    channels: Rc<Channels>,
    inbox: Rc<Inbox>,
    stage: Stage,
    limits: QueuePairLimits,
    /// What either side reads at a time, as it will be said.
    granted: Granted,
    sends: WorkList,
    receives: WorkList,
    regions: BTreeMap<u32, Exposed>,
    /// Regions that are registered, or wait to be.
    promised: usize,
    events: VecDeque<SetupEvent>,
    done: Vec<Done>,
    ended: Option<EndReason>,
    close: Option<CloseReason>,
    /// A request was flushed, and nothing has said why: connection management is asked until `due`.
    is_broken: bool,
    due: Option<Instant>,
}

/// Whether a number is that of a receive, in the device's names of requests.
const RECEIVE: u64 = 1 << 63;

impl Pair {
    /// The queue pair of a connection that is to be made.
    pub(crate) fn connect(channels: &Rc<Channels>, wish: PairWish) -> Result<Self, AdapterError> {
        let PairWish { peer, needs, private_data, account } = wish;
        let failed = |error: io::Error| {
            AdapterError(format!("cannot connect to {peer} by an RDMA adapter: {error}; {}", words::NO_ROUTE))
        };
        let id = CmId::new(&channels.events).map_err(failed)?;
        id.resolve_address(peer, RESOLVE).map_err(failed)?;
        let granted = promised(needs);
        let asking = Box::new(Asking { needs, private_data, account });
        Ok(Self::new(channels, Stage::Resolving(id, asking), needs, granted))
    }

    /// The queue pair of a request.
    pub(crate) fn accept(channels: &Rc<Channels>, asked: Incoming, account: Account) -> io::Result<Self> {
        let Incoming { id: name, identifier, needs, event } = asked;
        let mut granted = granted(&identifier, needs)?;
        let asked = offered(&identifier, event.offer);
        granted.offer.reads_sent = granted.offer.reads_sent.min(asked.reads_sent);
        granted.offer.reads_served = granted.offer.reads_served.min(asked.reads_served);
        let raw = identifier.name();
        let hardware = Hardware::new(identifier, channels, granted, name, account)?;
        let mut pair = Self::named(name, channels, Stage::Asked(hardware), needs, granted);
        pair.inbox = channels.join(name, raw);
        pair.events.push_back(SetupEvent::Requested(PrivateData::received(&event.private_data)));
        Ok(pair)
    }

    fn new(channels: &Rc<Channels>, stage: Stage, needs: PairNeeds, granted: Granted) -> Self {
        let id = channels.new_id();
        let mut pair = Self::named(id, channels, stage, needs, granted);
        if let Stage::Resolving(identifier, _) = &pair.stage {
            pair.inbox = channels.join(id, identifier.name());
        }
        pair
    }

    fn named(id: PairId, channels: &Rc<Channels>, stage: Stage, needs: PairNeeds, granted: Granted) -> Self {
        let limits = QueuePairLimits {
            sends: granted.sends,
            receives: granted.receives,
            reads: usize::from(granted.offer.reads_sent),
            regions: needs.regions,
            longest: needs.longest.min(i32::MAX as usize),
            remote_invalidation: granted.invalidates,
        };
        Self {
            id,
            channels: Rc::clone(channels),
            inbox: Rc::default(),
            stage,
            limits,
            granted,
            sends: WorkList::default(),
            receives: WorkList::default(),
            regions: BTreeMap::new(),
            promised: 0,
            events: VecDeque::new(),
            done: Vec::new(),
            ended: None,
            close: None,
            is_broken: false,
            due: None,
        }
    }

    fn hardware(&mut self) -> Option<&mut Hardware> {
        match &mut self.stage {
            Stage::Connecting(hardware)
            | Stage::Asked(hardware)
            | Stage::Accepting(hardware)
            | Stage::Connected(hardware) => Some(hardware),
            Stage::Resolving(..) | Stage::Leaving(_) | Stage::Gone => None,
        }
    }

    /// True when requests other than receives go to the device at once.
    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Connected(_))
    }

    /// Takes what connection management has said.
    fn take_events(&mut self) {
        loop {
            let event = self.inbox.events.borrow_mut().pop_front();
            let Some(event) = event else { return };
            self.handle_event(&event);
        }
    }

    fn handle_event(&mut self, event: &CmEvent) {
        match (&mut self.stage, event.kind) {
            (Stage::Resolving(id, _), CmEventKind::AddressResolved) => {
                let looks = id.resolve_route(RESOLVE);
                looks.unwrap_or_else(|_| self.end(EndReason::Lost, CloseReason::Refused(words::NO_ROUTE)));
            }
            (Stage::Resolving(..), CmEventKind::RouteResolved) => self.ask(),
            (Stage::Leaving(_), CmEventKind::Disconnected) => self.stage = Stage::Gone,
            (Stage::Leaving(_) | Stage::Gone, _) => {}
            (_, CmEventKind::NoRoute) => self.end(EndReason::Lost, CloseReason::Refused(words::NO_ROUTE)),
            (_, CmEventKind::NoAnswer) => {
                self.end(EndReason::Lost, CloseReason::TimedOut(words::NO_CONNECTION));
            }
            (_, CmEventKind::Rejected) => {
                self.events.push_back(SetupEvent::Rejected(PrivateData::received(&event.private_data)));
                self.end(EndReason::ByPeer, CloseReason::Refused(words::REJECTED));
            }
            (Stage::Connecting(_) | Stage::Accepting(_), CmEventKind::Established) => {
                self.establish(&event.private_data);
            }
            (_, CmEventKind::Disconnected) => self.handle_disconnected(),
            (_, CmEventKind::DeviceRemoved) => self.end(EndReason::Lost, CloseReason::Limit(words::FAILED)),
            _ => {}
        }
    }

    /// The way is known: makes the queue pair, and asks the peer.
    fn ask(&mut self) {
        let Stage::Resolving(id, asking) = std::mem::replace(&mut self.stage, Stage::Gone) else { return };
        let Asking { needs, private_data, account } = *asking;
        let made = granted(&id, needs).and_then(|granted| {
            // What a consumer was promised stays: more than the device holds is refused here.
            if granted.sends < self.granted.sends || granted.receives < self.granted.receives {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let hardware = Hardware::new(id, &self.channels, granted, self.id, account)?;
            Ok((hardware, granted))
        });
        let Ok((hardware, granted)) = made else {
            return self.end(EndReason::Lost, CloseReason::Limit(words::NO_QUEUE_PAIR));
        };
        self.granted.offer = granted.offer;
        self.stage = Stage::Connecting(hardware);
        self.post_waiting_receives();
        if let Stage::Connecting(hardware) = &self.stage
            && hardware.id().connect(granted.offer, private_data.bytes()).is_err()
        {
            let is_long = u8::try_from(private_data.bytes().len()).is_err();
            let words = if is_long { words::LONG_WORDS } else { words::FAILED };
            self.end(EndReason::Lost, CloseReason::Limit(words));
        }
    }

    /// The connection is there: what waits goes out.
    fn establish(&mut self, private_data: &[u8]) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Connecting(hardware) | Stage::Accepting(hardware) => Stage::Connected(hardware),
            other => other,
        };
        self.events.push_back(SetupEvent::Established(PrivateData::received(private_data)));
        let mut from = 0;
        while self.is_open()
            && let Some(waiting) = self.sends.take_waiting(from)
        {
            from = waiting.number;
            let progress = self.carry_out(waiting.number, waiting.request);
            self.sends.set(waiting.number, progress);
        }
    }

    /// Receives may be posted as soon as there is a queue pair.
    fn post_waiting_receives(&mut self) {
        let mut from = 0;
        while self.hardware().is_some()
            && let Some(waiting) = self.receives.take_waiting(from)
        {
            from = waiting.number;
            let progress = self.carry_out(waiting.number | RECEIVE, waiting.request);
            self.receives.set(waiting.number, progress);
        }
    }

    /// Does a request, and says how far it is then. One that the adapter does not take ends the queue pair.
    fn carry_out(&mut self, name: u64, request: WorkRequest) -> Progress {
        let flushed = |memory| Progress::Done(Err(WorkError::Flushed), memory);
        let (is_iwarp_empty, limits) = (request_length(&request) == 0, self.limits);
        let Some(hardware) = self.hardware() else { return flushed(request.into_memory()) };
        let taken = match request {
            WorkRequest::Receive { into } => hardware.receive(name, into),
            WorkRequest::Send { data, invalidate } => {
                hardware.send(name, data, invalidate.filter(|_| limits.remote_invalidation))
            }
            // Nothing moves, and no peer could tell.
            WorkRequest::Write { data, .. } if is_iwarp_empty => {
                return Progress::Done(Ok(WorkDone::Written), WorkMemory::List(data));
            }
            WorkRequest::Read { into, .. } if is_iwarp_empty => {
                return Progress::Done(Ok(WorkDone::Read), WorkMemory::Buf(into));
            }
            WorkRequest::Write { data, to } => hardware.write(name, data, to),
            WorkRequest::Read { into, from } => hardware.read(name, into, from),
            WorkRequest::Register { memory } => match hardware.register(memory) {
                Ok(exposed) => return self.expose(exposed),
                Err(memory) => {
                    self.promised -= 1;
                    Err(NotPosted { why: Refused::Memory, memory: WorkMemory::Region(memory) })
                }
            },
            WorkRequest::Invalidate { .. } => {
                return Progress::Done(Ok(WorkDone::Invalidated), WorkMemory::None);
            }
        };
        match taken {
            Ok(memory) => Progress::Posted(memory),
            Err(NotPosted { why, memory }) => {
                let words = match why {
                    Refused::Memory => words::NO_MEMORY,
                    Refused::ByDevice => words::FAILED,
                };
                self.end(EndReason::Violation(words), CloseReason::Limit(words));
                flushed(memory)
            }
        }
    }

    fn expose(&mut self, exposed: Exposed) -> Progress {
        let region = exposed.region();
        self.regions.insert(region.stag.0, exposed);
        Progress::Done(Ok(WorkDone::Registered(region)), WorkMemory::None)
    }

    /// Takes what the adapter has ended.
    fn collect(&mut self) {
        if self.inbox.is_told.take()
            && let Some(hardware) = self.hardware()
        {
            // What comes before the next look is found by that look, what comes later is told of.
            let _ = hardware.ask_for_event();
        }
        let mut done = std::mem::take(&mut self.done);
        if let Some(hardware) = self.hardware() {
            hardware.poll(&mut done);
        }
        for done in done.drain(..) {
            self.handle_done(done);
        }
        self.done = done;
    }

    fn handle_done(&mut self, done: Done) {
        let Done { name, outcome, length, invalidated, held } = done;
        let (number, is_receive) = (name & !RECEIVE, name & RECEIVE != 0);
        let list = if is_receive { &mut self.receives } else { &mut self.sends };
        let memory = list.take_memory(number);
        let Some(hardware) = self.hardware() else { return };
        let memory = hardware.recover(held, memory, length);
        let result = match outcome {
            Outcome::Success if is_receive => {
                Ok(WorkDone::Received { length, invalidated: invalidated.map(verbs::STag) })
            }
            Outcome::Success => Ok(match &memory {
                WorkMemory::Buf(_) => WorkDone::Read,
                _ => WorkDone::Sent,
            }),
            // Some devices call it what they tell the peer of it, and `rdma_rxe` calls it a failure of its own.
            Outcome::TooLong | Outcome::RemoteRefused | Outcome::FailedHere if is_receive => {
                Err(WorkError::MessageTooLong)
            }
            Outcome::RemoteAccess => Err(WorkError::RemoteAccess),
            _ => Err(WorkError::Flushed),
        };
        let list = if is_receive { &mut self.receives } else { &mut self.sends };
        list.set(number, Progress::Done(result, memory));
        self.follow(outcome, is_receive);
    }

    /// What an outcome means for the queue pair. What is flushed says that it has ended, and not why.
    fn follow(&mut self, outcome: Outcome, is_receive: bool) {
        let (reason, close) = match outcome {
            Outcome::Success => return,
            Outcome::Flushed => {
                self.is_broken = true;
                return;
            }
            Outcome::TooLong | Outcome::RemoteRefused | Outcome::FailedHere if is_receive => {
                (EndReason::Violation(words::TOO_LONG), CloseReason::Violation(words::TOO_LONG))
            }
            Outcome::RemoteAccess => {
                (EndReason::Terminated(words::REMOTE_ACCESS), CloseReason::Violation(words::REMOTE_ACCESS))
            }
            Outcome::RemoteRefused => {
                (EndReason::Terminated(words::REMOTE_REFUSED), CloseReason::Violation(words::REMOTE_REFUSED))
            }
            Outcome::NoAnswer => (EndReason::Lost, CloseReason::TimedOut(words::NO_ANSWER)),
            Outcome::TooLong | Outcome::FailedHere | Outcome::Failed(_) => {
                (EndReason::Lost, CloseReason::Limit(words::FAILED))
            }
        };
        self.pending_end(reason, close);
    }

    /// Ends it once all that has completed is taken: that is told first.
    fn pending_end(&mut self, reason: EndReason, close: CloseReason) {
        if self.ended.is_none() {
            self.ended = Some(reason);
            self.close = Some(close);
        }
    }

    /// Connection management says that the connection is over.
    fn handle_disconnected(&mut self) {
        self.collect();
        self.end(EndReason::ByPeer, CloseReason::Finished);
    }

    /// Ends it: the adapter lets go of everything, and everything completes.
    fn end(&mut self, reason: EndReason, close: CloseReason) {
        self.pending_end(reason, close);
        self.stop();
    }

    /// Has the adapter let go of everything, if it has not yet.
    fn stop(&mut self) {
        let hears = matches!(self.stage, Stage::Connected(_) | Stage::Accepting(_));
        match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Connecting(hardware)
            | Stage::Asked(hardware)
            | Stage::Accepting(hardware)
            | Stage::Connected(hardware) => {
                // A connection that the peer has ended already is told that this side knows.
                let _ = if hears { hardware.id().disconnect() } else { Ok(()) };
                let id = hardware.end();
                let is_told = self.ended == Some(EndReason::ByPeer) || !hears;
                self.stage = if is_told { Stage::Gone } else { Stage::Leaving(id) };
            }
            Stage::Leaving(id) => self.stage = Stage::Leaving(id),
            Stage::Resolving(..) | Stage::Gone => {}
        }
        self.due = None;
        self.sends.flush();
        self.receives.flush();
    }

    /// Stops what has to end; sees to a queue pair that is broken, for which no reason is known yet.
    fn settle(&mut self, now: Instant) {
        if self.ended.is_some() {
            if !matches!(self.stage, Stage::Leaving(_) | Stage::Gone) {
                self.stop();
            }
            return self.leave(now);
        }
        if self.is_broken {
            let due = *self.due.get_or_insert(now + REASON);
            if due <= now {
                self.end(EndReason::Lost, CloseReason::TimedOut(words::NO_ANSWER));
            }
        }
    }

    /// A peer that does not say that it knows of the end is not waited for for ever.
    fn leave(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Leaving(_)) && *self.due.get_or_insert(now + LEAVE) <= now {
            self.stage = Stage::Gone;
        }
    }

    /// Whether a request can be taken.
    fn check(&self, request: &WorkRequest) -> Result<(), Refusal> {
        let limits = &self.limits;
        if let WorkRequest::Invalidate { stag } = request {
            return if self.regions.contains_key(&stag.0) { Ok(()) } else { Err(Refusal::UnknownRegion) };
        }
        if self.ended.is_some() {
            return Err(Refusal::Ended);
        }
        let fits = match request {
            WorkRequest::Write { data, to } => data.len() <= to.length as usize,
            WorkRequest::Read { into, from } => from.length as usize <= into.len(),
            _ => true,
        };
        if !fits || request_length(request) > limits.longest {
            return Err(Refusal::TooLong);
        }
        match request {
            WorkRequest::Receive { .. } if self.receives.len() >= limits.receives => {
                Err(Refusal::ReceiveQueueFull)
            }
            WorkRequest::Receive { .. } => Ok(()),
            _ if self.sends.len() >= limits.sends => Err(Refusal::SendQueueFull),
            WorkRequest::Register { .. } if self.promised >= limits.regions => Err(Refusal::RegionsFull),
            _ => Ok(()),
        }
    }

    /// Ends a region: the peer can use it no more when this returns.
    fn invalidate(&mut self, stag: u32) -> Progress {
        let memory = self.regions.remove(&stag).and_then(Exposed::release);
        self.promised -= 1;
        Progress::Done(Ok(WorkDone::Invalidated), memory.map_or(WorkMemory::None, WorkMemory::Region))
    }
}

/// What an initiator's queue pair is to hold, before its device is known. Its regions are registered by the user's verbs, and only those of the kernel's can be invalidated by a
/// peer: it says that none can.
fn promised(needs: PairNeeds) -> Granted {
    let byte = |count: u16| u8::try_from(count).unwrap_or(u8::MAX);
    let offer =
        ConnectionOffer { reads_served: byte(needs.reads_served), reads_sent: byte(needs.reads_sent) };
    Granted { sends: needs.sends, receives: needs.receives, offer, invalidates: false }
}

/// What a peer leaves this side to serve and to send. Over iWARP devices settle both with the peer themselves, and tell of neither before: there this side's wish counts.
fn offered(id: &CmId, offer: ConnectionOffer) -> ConnectionOffer {
    if id.device().is_some_and(|device| device.is_iwarp()) {
        return ConnectionOffer { reads_served: u8::MAX, reads_sent: u8::MAX };
    }
    offer
}

/// Bytes of a request's data.
fn request_length(request: &WorkRequest) -> usize {
    match request {
        WorkRequest::Send { data, .. } | WorkRequest::Write { data, .. } => data.len(),
        WorkRequest::Receive { into } => into.len(),
        WorkRequest::Read { from, .. } => from.length as usize,
        WorkRequest::Register { memory } => RegionMemory::len(memory),
        WorkRequest::Invalidate { .. } => 0,
    }
}

/// A request that came to a listener.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: PairId,
    pub(crate) identifier: CmId,
    pub(crate) needs: PairNeeds,
    pub(crate) event: CmEvent,
}

impl QueuePair for Pair {
    fn limits(&self) -> QueuePairLimits {
        self.limits
    }

    fn post(&mut self, id: WorkId, request: WorkRequest) -> Result<(), PostError> {
        if let Err(reason) = self.check(&request) {
            return Err(PostError { reason, request });
        }
        if let WorkRequest::Receive { .. } = request {
            let number = self.receives.push(id, Progress::Waiting(request));
            if self.hardware().is_some()
                && let Some(waiting) = self.receives.take_waiting(number)
            {
                let progress = self.carry_out(number | RECEIVE, waiting.request);
                self.receives.set(number, progress);
            }
            return Ok(());
        }
        match request {
            WorkRequest::Invalidate { stag } => {
                let progress = self.invalidate(stag.0);
                self.sends.push(id, progress);
                return Ok(());
            }
            WorkRequest::Register { .. } => self.promised += 1,
            _ => {}
        }
        let number = self.sends.push(id, Progress::Waiting(request));
        if self.is_open()
            && let Some(waiting) = self.sends.take_waiting(number)
        {
            let progress = self.carry_out(number, waiting.request);
            self.sends.set(number, progress);
        }
        Ok(())
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<WorkCompletion>) {
        self.collect();
        self.take_events();
        self.settle(now);
        self.sends.take_done(done);
        self.receives.take_done(done);
    }

    fn disconnect(&mut self) {
        if self.ended.is_none() {
            self.collect();
            self.end(EndReason::ByUs, CloseReason::Finished);
        }
    }

    fn state(&self) -> QueuePairState {
        self.ended.map_or(QueuePairState::Open, QueuePairState::Ended)
    }
}

impl ManagedQueuePair for Pair {
    fn handle_answer(&mut self, _now: Instant, answer: SetupAnswer) {
        let Stage::Asked(hardware) = &self.stage else { return };
        match answer {
            SetupAnswer::Accept(private_data) => {
                if hardware.id().accept(self.granted.offer, private_data.bytes()).is_err() {
                    let _ = hardware.id().reject(&[]);
                    return self.end(EndReason::ByUs, CloseReason::Limit(words::FAILED));
                }
                self.stage = match std::mem::replace(&mut self.stage, Stage::Gone) {
                    Stage::Asked(hardware) => Stage::Accepting(hardware),
                    other => other,
                };
            }
            SetupAnswer::Reject(private_data) => {
                let _ = hardware.id().reject(private_data.bytes());
                self.end(EndReason::ByUs, CloseReason::Refused(words::REJECTED_HERE));
            }
        }
    }

    fn poll_event(&mut self) -> Option<SetupEvent> {
        self.take_events();
        self.events.pop_front()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.settle(now);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waits = self.is_broken && self.ended.is_none() || matches!(self.stage, Stage::Leaving(_));
        waits.then(|| self.due.unwrap_or(Instant::ZERO))
    }

    fn is_connected(&self) -> bool {
        self.is_open()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.close
    }
}

impl AdapterQueuePair for Pair {
    fn id(&self) -> PairId {
        self.id
    }

    fn is_finished(&self) -> bool {
        self.ended.is_some() && matches!(self.stage, Stage::Gone)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.channels.leave(self.id);
    }
}
