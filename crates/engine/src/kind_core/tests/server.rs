//! A server of two cores in one thread, on a clock that stands, which serves two kinds: file systems to clients that speak to it line by line, and volumes.
//!
//! Its cores are made of the parts that production has: for each kind a [`KindCore`], on core 0 the owner of the fences and the coordinator of catalogues.
//! Only what joins them is of this file.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use buf::Pool;
use host::{Accepted, CoreIndex, Endpoint, EndpointId, Journal, ListenerId, Postbox, Recording};
use protocol::{CloseReason, Ended, Instant, SeededEntropy, Transmit};
use volume::{CoreId, QueueContext};

use super::super::KindCore;
use super::connection::{FileConnection, FileServer};
use super::files::{FileKind, ServedFiles};
use crate::catalogue::coordinator::{self, Coordinator};
use crate::catalogue::{Catalogue, ControlEvent, Generation, ProposalError, ServedVolume};
use crate::config::EngineConfig;
use crate::driver::Driver;
use crate::fence::{self, Owner};
use crate::message::{Inbound, Message};
use crate::served_id::ServedId;
use crate::volume_kind::VolumeKind;

/// The mailboxes of both cores.
#[derive(Default)]
struct Mail([Mutex<VecDeque<Message>>; 2]);

impl Mail {
    fn take(&self, core: usize) -> Option<Message> {
        self.0[core].lock().unwrap().pop_front()
    }
}

impl Postbox<Message> for Mail {
    fn post(&self, core: CoreIndex, message: Message) {
        self.0[usize::from(core)].lock().unwrap().push_back(message);
    }

    fn cores(&self) -> CoreIndex {
        2
    }
}

/// What is served of both kinds.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<ServedFiles>,
    pub(super) volumes: Vec<ServedVolume>,
}

impl Listing {
    fn has_files(&self, id: ServedId) -> bool {
        self.files.iter().any(|served| served.id == id)
    }
}

/// What was proposed, by number. A catalogue lists volumes alone: of it these cores use the number.
type Listings = Mutex<BTreeMap<Generation, Listing>>;

/// A core that serves two kinds.
pub(super) struct TwoKinds {
    pub(super) files: KindCore<FileKind>,
    pub(super) volumes: KindCore<VolumeKind>,
    listings: Arc<Listings>,
    served: Listing,
    /// What is open and not shown, or what was served before the cores were told of the end.
    other: Listing,
    shared: Option<(Owner, Coordinator)>,
    closed: u16,
    is_stopping: bool,
    pub(super) is_finished: bool,
}

impl TwoKinds {
    fn prepare(&mut self, generation: Generation) -> Result<(), ProposalError> {
        let listing = self.listings.lock().unwrap()[&generation].clone();
        self.files.prepare(&listing.files)?;
        self.volumes.prepare(&listing.volumes).inspect_err(|_| self.files.abandon())?;
        self.other = listing;
        Ok(())
    }

    fn announce(&mut self, now: Instant) {
        let files = self.served.files.iter().map(|served| served.id);
        let ids = files.chain(self.served.volumes.iter().map(|served| served.id)).collect();
        self.files.withdraw(now, &ids);
        self.volumes.withdraw(now, &ids);
        self.other = Listing::default();
    }

    fn answer(&self, generation: Generation, result: Result<(), ProposalError>) {
        self.files.hub.post_owner(Message::Answered(generation, result));
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        match message {
            Message::Deliver(endpoint, answer) => self.files.hub.deliver(endpoint, answer.into()),
            // The slots of both kinds are one space: each fence is for one of them, which acknowledges it.
            Message::Fence(fence) => {
                if self.served.has_files(fence.served) || self.other.has_files(fence.served) {
                    self.files.handle_fence(&fence);
                    self.files.keep_for_newcomers(&fence);
                } else {
                    self.volumes.handle_fence(&fence);
                    self.volumes.keep_for_newcomers(&fence);
                }
            }
            Message::Prepare(catalogue) => {
                let result = self.prepare(catalogue.generation);
                self.answer(catalogue.generation, result);
            }
            Message::Commit(generation) => {
                std::mem::swap(&mut self.served, &mut self.other);
                self.files.commit();
                self.volumes.commit();
                self.answer(generation, Ok(()));
            }
            Message::Announce(generation) => {
                self.announce(now);
                self.answer(generation, Ok(()));
            }
            Message::Abandon(generation) => {
                self.files.abandon();
                self.volumes.abandon();
                self.answer(generation, Ok(()));
            }
            Message::Shutdown => {
                self.is_stopping = true;
                self.files.hub.deliver_all(None, || Inbound::Shutdown);
            }
            Message::Finish => self.is_finished = true,
            owned => self.handle_owned(owned),
        }
    }

    /// What is for core 0.
    fn handle_owned(&mut self, message: Message) {
        let (owner, coordinator) = self.shared.as_mut().unwrap();
        let cores = self.files.hub.cores();
        match message {
            Message::Reset(call) => owner.reset(call, cores),
            Message::Fenced(number) => owner.acknowledge(number),
            Message::Propose(catalogue) => coordinator.propose(catalogue),
            Message::Answered(generation, result) => coordinator.handle_answer(generation, result),
            Message::Retired(retired) => {
                coordinator.handle_retired(retired);
            }
            Message::Closed => {
                self.closed += 1;
                if self.closed == cores {
                    self.files.hub.post_all(|| Message::Finish);
                }
            }
            other => panic!("nobody here sends {other:?}"),
        }
    }

    fn turn(&mut self, now: Instant, ready: &mut Vec<EndpointId>, observed: &mut Vec<ControlEvent>) {
        if let Some((owner, coordinator)) = &mut self.shared {
            let hub = &self.files.hub;
            while let Some(outcome) = coordinator.poll() {
                match outcome {
                    coordinator::Outcome::Begin(round) => hub.post_all(|| round.message()),
                    coordinator::Outcome::Observe(event) => observed.push(event),
                }
            }
            while let Some(outcome) = owner.poll() {
                match outcome {
                    fence::Outcome::Broadcast(fence) => hub.post_all(|| Message::Fence(fence.clone())),
                    fence::Outcome::Answer(to, answer) => hub.post_member(to, answer),
                }
            }
        }
        self.files.turn(now, ready);
        self.volumes.turn(now, ready);
        if self.is_stopping && self.files.hub.members() + self.volumes.hub.members() == 0 {
            let are_empty = [self.files.retire(now), self.volumes.retire(now)];
            if are_empty == [true; 2] {
                self.is_stopping = false;
                self.files.hub.post_owner(Message::Closed);
            }
        }
    }
}

/// A client's stream, and what it has not looked at.
struct Stream {
    core: usize,
    name: EndpointId,
    endpoint: Driver<FileServer>,
    received: String,
}

impl Stream {
    /// The connection sees lines, and does nothing about them yet.
    fn parse(&mut self, now: Instant, lines: &str) {
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let consumed = self.endpoint.handle_bytes(now, rest);
            assert_ne!(consumed, 0, "{lines:?} is whole");
            rest = &rest[consumed..];
        }
    }

    fn run(&mut self, now: Instant) {
        self.endpoint.turn(now);
        let mut send = Transmit::new(1 << 20, 256);
        self.endpoint.poll_transmit(now, &mut send);
        for segment in send.segments() {
            self.received.push_str(std::str::from_utf8(send.bytes(segment)).unwrap());
        }
    }
}

/// Both cores, and the streams of clients.
pub(super) struct Server {
    pub(super) now: Instant,
    pub(super) cores: Vec<TwoKinds>,
    mail: Arc<Mail>,
    listings: Arc<Listings>,
    streams: Vec<Option<Stream>>,
    pub(super) journal: Arc<Recording>,
    observed: Vec<ControlEvent>,
}

impl Server {
    /// A server of this, as its first generation.
    pub(super) fn new(listing: &Listing) -> Self {
        let journal = Arc::new(Recording::default());
        let config = EngineConfig {
            pool_limit: 1 << 20,
            entropy: Arc::new(|| Box::new(SeededEntropy::new(1))),
            adapters: Arc::new(host::NoAdapters),
            journal: Arc::clone(&journal) as Arc<dyn Journal>,
            observer: Arc::new(host::Silent),
            roce: Arc::default(),
        };
        let (mail, listings) = (Arc::new(Mail::default()), Arc::<Listings>::default());
        let core = |core| {
            let postbox = Arc::clone(&mail) as Arc<dyn Postbox<Message>>;
            let pool = Pool::new(config.pool_limit);
            let context = QueueContext::new(CoreId(core), Waker::noop().clone(), pool);
            let first = Catalogue { generation: Generation(1), ..Catalogue::default() };
            let shared = (core == 0).then(|| (Owner::default(), Coordinator::new(2, &first)));
            TwoKinds {
                files: KindCore::new(&config, context.clone(), Arc::clone(&postbox), &listing.files).unwrap(),
                volumes: KindCore::new(&config, context, postbox, &listing.volumes).unwrap(),
                listings: Arc::clone(&listings),
                served: listing.clone(),
                other: Listing::default(),
                shared,
                closed: 0,
                is_stopping: false,
                is_finished: false,
            }
        };
        let cores = [0, 1].map(core).into();
        let (streams, observed) = (Vec::new(), Vec::new());
        Self { now: Instant::ZERO, cores, mail, listings, streams, journal, observed }
    }

    /// A client of a file system on a core; its number.
    pub(super) fn connect(&mut self, core: usize, served: &ServedFiles) -> usize {
        let stream = self.streams.len();
        let name = EndpointId(stream as u64);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 2049));
        let accepted = Accepted { listener: ListenerId(0), endpoint: name, local: peer, peer };
        let part = &self.cores[core].files;
        let connection = FileConnection::new(served.clone());
        let endpoint = Driver::new(part.hub.clone(), accepted, connection);
        part.welcome(name);
        self.streams.push(Some(Stream { core, name, endpoint, received: String::new() }));
        stream
    }

    fn stream(&mut self, stream: usize) -> &mut Stream {
        self.streams[stream].as_mut().unwrap()
    }

    /// What a client says, and what it hears without time passing.
    pub(super) fn say(&mut self, stream: usize, line: &str) -> String {
        self.parse(stream, line);
        let now = self.now;
        self.stream(stream).run(now);
        self.run();
        self.hear(stream)
    }

    /// A client says something, and its connection does nothing about it yet.
    pub(super) fn parse(&mut self, stream: usize, line: &str) {
        let now = self.now;
        self.stream(stream).parse(now, &format!("{line}\n"));
    }

    /// What a client has heard since the last time: its lines, joined by commas.
    pub(super) fn hear(&mut self, stream: usize) -> String {
        std::mem::take(&mut self.stream(stream).received).trim_end().replace('\n', ", ")
    }

    /// Why the server wants to end a stream.
    pub(super) fn close_reason(&mut self, stream: usize) -> Option<CloseReason> {
        self.stream(stream).endpoint.poll_close()
    }

    /// Ends a stream, as the reactor does: its connection stays until no request of it is under way.
    pub(super) fn hang_up(&mut self, stream: usize) {
        let now = self.now;
        self.stream(stream).endpoint.handle_ended(now, Ended::ByPeer);
        self.run();
        let ended = self.streams[stream].take_if(|stream| stream.endpoint.is_idle()).unwrap();
        self.cores[ended.core].files.hub.leave(now, ended.name);
        self.run();
    }

    /// Wants something else served, and says what came of it without time passing.
    pub(super) fn propose(&mut self, generation: u64, listing: Listing) -> Vec<ControlEvent> {
        let generation = Generation(generation);
        self.listings.lock().unwrap().insert(generation, listing);
        let catalogue = Catalogue { generation, ..Catalogue::default() };
        self.mail.post(0, Message::Propose(Arc::new(catalogue)));
        self.run();
        self.observed()
    }

    /// What core 0 has said of catalogues and of what is served since the last time.
    pub(super) fn observed(&mut self) -> Vec<ControlEvent> {
        std::mem::take(&mut self.observed)
    }

    /// Sends a message to a core.
    pub(super) fn post(&self, core: CoreIndex, message: Message) {
        self.mail.post(core, message);
    }

    /// Lets both cores do what they can without time passing.
    pub(super) fn run(&mut self) {
        let mut ready = Vec::new();
        loop {
            let mut is_quiet = true;
            for (index, core) in self.cores.iter_mut().enumerate() {
                while let Some(message) = self.mail.take(index) {
                    core.handle_message(self.now, message);
                    is_quiet = false;
                }
                core.turn(self.now, &mut ready, &mut self.observed);
                for name in ready.drain(..) {
                    let mut streams = self.streams.iter_mut().flatten();
                    if let Some(stream) = streams.find(|stream| stream.name == name) {
                        stream.run(self.now);
                    }
                    is_quiet = false;
                }
            }
            if is_quiet && self.mail.0.iter().all(|mail| mail.lock().unwrap().is_empty()) {
                return;
            }
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.run();
    }
}
