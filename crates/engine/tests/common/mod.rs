//! A server of two cores in one thread, on a clock that stands, and hosts that speak to it byte by byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of the server")]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use engine::{
    Catalogue, ControlEvent, ControlObserver, Core, Departure, EngineConfig, ListenerRole, Message,
    NamedVolume,
};
use host::{
    Accepted, BlockFile, CoreIndex, Dialer, Endpoint, EndpointId, IoError, Journal, ListenerId, OpenOptions,
    Postbox, Recording, Service, Storage, World,
};
use nvme::controller::{Hosts, Namespace, Portal, QueueLimits, Subsystem};
use nvme::fabrics::{Connect, ConnectData, HostIdentity, Property};
use nvme::pdu::{CapsuleCmd, CapsuleResp, Digests, IcReq};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::{CloseReason, Ended, Instant, Placement, SeededEntropy, Transmit};
use volume::filter::Delay;
use volume::{Ram, Volume, VolumeId};
use zerocopy::{FromBytes, IntoBytes};

pub(crate) const NQN: &str = "nqn.2026-11.org.linerate:disk";
/// What every request takes.
pub(crate) const DELAY: Duration = Duration::from_hours(1);
pub(crate) const LARGE: u32 = 65536;
pub(crate) const WRITE: u8 = 1;
pub(crate) const READ: u8 = 2;

/// Nothing is opened or dialled here.
#[derive(Debug)]
struct NoNetwork;

impl Storage for NoNetwork {
    fn open(&self, _path: &str, _options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        panic!("this world has no files")
    }
}

impl Dialer for NoNetwork {
    fn dial(&self, _peer: SocketAddr, _endpoint: Box<dyn Endpoint>) -> EndpointId {
        panic!("this world has no network")
    }

    fn wake(&self, _endpoint: EndpointId) {}

    fn waker(&self, _endpoint: EndpointId) -> std::task::Waker {
        std::task::Waker::noop().clone()
    }
}

/// The mailboxes of both cores.
#[derive(Default)]
struct Mail([Mutex<VecDeque<Message>>; 2]);

impl Postbox<Message> for Mail {
    fn post(&self, core: CoreIndex, message: Message) {
        self.0[usize::from(core)].lock().unwrap().push_back(message);
    }

    fn cores(&self) -> CoreIndex {
        2
    }
}

/// A served stream, and what its host has received and not looked at.
struct Stream {
    core: usize,
    name: EndpointId,
    endpoint: Box<dyn Endpoint>,
    staged: Vec<u8>,
    placement: Option<Placement>,
    received: Vec<u8>,
}

impl Stream {
    /// One step of receiving; false when nothing moved. A placement is filled at once: hosts here send PDUs whole.
    fn advance(&mut self, now: Instant) -> bool {
        if let Some(mut placement) = self.placement.take().or_else(|| self.endpoint.take_placement()) {
            let bytes: Vec<u8> = self.staged.drain(..placement.len).collect();
            placement.buf[placement.start..placement.start + placement.len].copy_from_slice(&bytes);
            self.endpoint.handle_placed(now, placement);
            return true;
        }
        if self.staged.is_empty() || !self.endpoint.wants_bytes() {
            return false;
        }
        let consumed = self.endpoint.handle_bytes(now, &self.staged);
        self.staged.drain(..consumed);
        consumed > 0
    }

    /// Receives, takes a turn, and sends.
    fn run(&mut self, now: Instant) {
        while self.advance(now) {}
        self.endpoint.turn(now);
        while self.advance(now) {}
        let mut send = Transmit::new(1 << 20, 256);
        self.endpoint.poll_transmit(now, &mut send);
        for segment in send.segments() {
            self.received.extend_from_slice(send.bytes(segment));
        }
        let length = send.len();
        drop(send);
        if length != 0 {
            self.endpoint.handle_transmitted(now, length);
        }
    }
}

/// A volume in memory.
pub(crate) fn ram() -> Arc<dyn Volume> {
    Arc::new(Ram::new(16 << 20, 512).unwrap())
}

/// A queue as Connect names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControllerQueue {
    /// QID: 0 for the admin queue.
    pub(crate) qid: u16,
    /// CNTLID: which controller an I/O queue belongs to.
    pub(crate) cntlid: u16,
}

impl ControllerQueue {
    /// The admin queue of any controller.
    pub(crate) const ADMIN: Self = Self { qid: 0, cntlid: 0xffff };
}

/// A server of two cores.
pub(crate) struct Server {
    now: Instant,
    cores: Vec<Core>,
    mail: Arc<Mail>,
    streams: Vec<Stream>,
    pub(crate) journal: Arc<Recording>,
    observed: Arc<Observed>,
}

/// What core 0 says of catalogues and volumes.
#[derive(Default)]
struct Observed(Mutex<Vec<ControlEvent>>, Mutex<Vec<Departure>>);

impl ControlObserver for Observed {
    fn observe(&self, event: ControlEvent) {
        self.0.lock().unwrap().push(event);
    }

    fn observe_departure(&self, departure: Departure) {
        self.1.lock().unwrap().push(departure);
    }
}

impl Server {
    /// A server with a host: stream 0 is its admin queue, on core 0; 1 is its I/O queue, on core 1.
    pub(crate) fn new(pool_limit: usize) -> Self {
        Self::of(Arc::new(Delay::new(ram(), DELAY)), pool_limit)
    }

    /// The same, of that volume.
    pub(crate) fn of(volume: Arc<dyn Volume>, pool_limit: usize) -> Self {
        let roles = vec![ListenerRole::Nvme(Arc::new(portal(&*volume)))];
        Self::begin(&Catalogue::first([NamedVolume { name: "disk".into(), volume }], roles), pool_limit)
    }

    /// The same, with this catalogue.
    pub(crate) fn serving(catalogue: &Catalogue) -> Self {
        Self::begin(catalogue, 64 << 20)
    }

    fn begin(catalogue: &Catalogue, pool_limit: usize) -> Self {
        let journal = Arc::new(Recording::default());
        let observed = Arc::new(Observed::default());
        let config = Arc::new(EngineConfig {
            pool_limit,
            entropy: Arc::new(|| Box::new(SeededEntropy::new(1))),
            adapters: Arc::new(host::NoAdapters),
            journal: Arc::clone(&journal) as Arc<dyn Journal>,
            observer: Arc::clone(&observed) as Arc<dyn ControlObserver>,
            roce: Arc::default(),
        });
        let mail = Arc::new(Mail::default());
        let world = |core| World {
            core,
            storage: Arc::new(NoNetwork),
            dialer: Arc::new(NoNetwork),
            postbox: Arc::clone(&mail) as Arc<dyn Postbox<Message>>,
            waker: Waker::noop().clone(),
        };
        let cores =
            [0, 1].map(|core| Core::new(Arc::clone(&config), catalogue.clone(), world(core)).unwrap()).into();
        let mut server = Self { now: Instant::ZERO, cores, mail, streams: Vec::new(), journal, observed };
        assert_eq!(server.join(1, 5), 0);
        server
    }

    /// Wants a catalogue served, and says what came of it.
    pub(crate) fn propose(&mut self, catalogue: Catalogue) -> Vec<ControlEvent> {
        self.mail.post(0, Message::Propose(Arc::new(catalogue)));
        self.run();
        self.observed()
    }

    /// Asks the server to stop.
    pub(crate) fn stop(&mut self) {
        for core in 0..2 {
            self.mail.post(core, Message::Shutdown);
        }
        self.run();
    }

    /// What core 0 has said of catalogues and volumes since the last time.
    pub(crate) fn observed(&self) -> Vec<ControlEvent> {
        std::mem::take(&mut *self.observed.0.lock().unwrap())
    }

    /// What has become of connections that have to leave since the last time.
    pub(crate) fn departures(&self) -> Vec<Departure> {
        std::mem::take(&mut *self.observed.1.lock().unwrap())
    }

    /// Lets a stream end, as its host has closed it.
    pub(crate) fn hang_up(&mut self, stream: usize) {
        let stream = self.streams.remove(stream);
        self.cores[stream.core].handle_gone(self.now, stream.name);
        drop(stream);
        self.run();
    }

    /// Ends a stream that the server wants to end, as the reactor does: its connection stays until no request of it is under way.
    pub(crate) fn close(&mut self, stream: usize) {
        let endpoint = &mut self.streams[stream].endpoint;
        endpoint.handle_ended(self.now, Ended::ByUs);
        endpoint.turn(self.now);
        self.run();
        assert!(self.streams[stream].endpoint.is_idle());
        self.hang_up(stream);
    }

    /// True when a stream that has ended need not be kept.
    pub(crate) fn is_idle(&self, stream: usize) -> bool {
        self.streams[stream].endpoint.is_idle()
    }

    /// The host closes a stream, which stays until nothing of it is under way.
    pub(crate) fn end(&mut self, stream: usize) {
        let endpoint = &mut self.streams[stream].endpoint;
        endpoint.handle_ended(self.now, Ended::ByPeer);
        endpoint.turn(self.now);
        self.run();
    }

    /// Why the server wants to end a stream.
    pub(crate) fn close_reason(&self, stream: usize) -> Option<CloseReason> {
        self.streams[stream].endpoint.poll_close()
    }

    /// Lets one core do what has come to it, once.
    pub(crate) fn step(&mut self, core: usize) {
        while let Some(message) = { self.mail.0[core].lock().unwrap().pop_front() } {
            self.cores[core].handle_message(self.now, message);
        }
        self.cores[core].turn(self.now, &mut Vec::new());
    }

    /// Lets one core and its streams do what they can, while the other stands still.
    pub(crate) fn run_core(&mut self, core: usize) {
        let mut ready = Vec::new();
        loop {
            while let Some(message) = { self.mail.0[core].lock().unwrap().pop_front() } {
                self.cores[core].handle_message(self.now, message);
            }
            self.cores[core].turn(self.now, &mut ready);
            if ready.is_empty() && self.mail.0[core].lock().unwrap().is_empty() {
                return;
            }
            let turns =
                self.streams.iter_mut().filter(|stream| stream.core == core && ready.contains(&stream.name));
            turns.for_each(|stream| stream.run(self.now));
            ready.clear();
        }
    }

    /// Sends core 0 a message.
    pub(crate) fn post(&self, message: Message) {
        self.mail.post(0, message);
    }

    pub(crate) fn are_finished(&self) -> bool {
        self.cores.iter().all(Service::is_finished)
    }

    /// A host with an enabled controller: its admin queue, on core 0, and I/O queue 1, on `core`, are the next two streams. Gives
    /// the first one's number.
    pub(crate) fn join(&mut self, core: usize, host: u8) -> usize {
        let admin = self.connect(0, ControllerQueue::ADMIN, host);
        self.send(admin, command(Property::set(0x14, 0x0046_0001), 1));
        let cntlid = match self.completions(admin)[..] {
            [(0, Status::SUCCESS, cntlid), (1, Status::SUCCESS, 0)] => cntlid,
            ref other => panic!("{other:?}"),
        };
        let queue =
            self.connect(core, ControllerQueue { qid: 1, cntlid: u16::try_from(cntlid).unwrap() }, host);
        assert_eq!(self.completions(queue), [(0, Status::SUCCESS, cntlid)]);
        admin
    }

    /// Accepts a stream on a core that has said nothing yet; its number.
    pub(crate) fn knock(&mut self, core: usize) -> usize {
        self.knock_at(core, ListenerId(0))
    }

    /// The same, at this listener.
    pub(crate) fn knock_at(&mut self, core: usize, listener: ListenerId) -> usize {
        let stream = self.streams.len();
        let name = EndpointId(stream as u64 + 10);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4420));
        let accepted = Accepted { listener, endpoint: name, local: address, peer: address };
        let endpoint = self.cores[core].accept(self.now, accepted).unwrap();
        let (staged, received) = (Vec::new(), Vec::new());
        self.streams.push(Stream { core, name, endpoint, staged, placement: None, received });
        self.run();
        stream
    }

    /// True when the server wants to end a stream.
    pub(crate) fn is_closed(&self, stream: usize) -> bool {
        self.streams[stream].endpoint.poll_close().is_some()
    }

    /// Connects a queue of a controller on a core, for a host; the stream's number.
    pub(crate) fn connect(&mut self, core: usize, queue: ControllerQueue, host: u8) -> usize {
        let stream = self.knock(core);
        self.introduce(stream, queue, host);
        stream
    }

    /// Connects a queue of a controller over a stream that has said nothing yet.
    pub(crate) fn introduce(&mut self, stream: usize, queue: ControllerQueue, host: u8) {
        let ControllerQueue { qid, cntlid } = queue;
        let nqn = format!("nqn.2014-08.org.example:{host}").into();
        let data = ConnectData::new(&HostIdentity { identifier: [host; 16], nqn }, cntlid, NQN);
        self.bytes(stream, IcReq::new(Digests::NONE, 0).as_bytes());
        self.send_with(stream, Connect::entry(qid, 31, 0), data.as_bytes());
        self.streams[stream].received.drain(..128);
    }

    /// Sends a command with its data in the capsule.
    pub(crate) fn send_with(&mut self, stream: usize, mut entry: SubmissionQueueEntry, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        entry.dptr = SglDescriptor::in_capsule(length);
        let mut pdu = CapsuleCmd::new(entry);
        pdu.header.pdo = 72;
        pdu.header.plen.set(72 + length);
        self.bytes(stream, &[pdu.as_bytes(), data].concat());
    }

    pub(crate) fn send(&mut self, stream: usize, entry: SubmissionQueueEntry) {
        self.bytes(stream, CapsuleCmd::new(entry).as_bytes());
    }

    pub(crate) fn bytes(&mut self, stream: usize, bytes: &[u8]) {
        self.streams[stream].staged.extend_from_slice(bytes);
        self.streams[stream].run(self.now);
        self.run();
    }

    /// Lets a stream's connection see a command with its data, and do nothing about it yet.
    pub(crate) fn parse(&mut self, stream: usize, mut entry: SubmissionQueueEntry, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        if length != 0 {
            entry.dptr = SglDescriptor::in_capsule(length);
        }
        let mut pdu = CapsuleCmd::new(entry);
        pdu.header.pdo = if length == 0 { 0 } else { 72 };
        pdu.header.plen.set(72 + length);
        let stream = &mut self.streams[stream];
        stream.staged.extend_from_slice(&[pdu.as_bytes(), data].concat());
        while stream.advance(self.now) {}
    }

    /// Aborts command `cid` of I/O queue 1, by command `own`.
    pub(crate) fn abort(&mut self, own: u16, cid: u16) {
        self.send(0, command(SubmissionQueueEntry::new(8, 0).with(10, u32::from(cid) << 16 | 1), own));
    }

    /// Lets both cores do what they can without time passing.
    pub(crate) fn run(&mut self) {
        let mut ready = Vec::new();
        loop {
            let mut quiet = true;
            for index in 0..self.cores.len() {
                while let Some(message) = { self.mail.0[index].lock().unwrap().pop_front() } {
                    self.cores[index].handle_message(self.now, message);
                    quiet = false;
                }
                self.cores[index].turn(self.now, &mut ready);
                for name in ready.drain(..) {
                    let mut streams = self.streams.iter_mut();
                    let stream = streams.find(|stream| stream.core == index && stream.name == name).unwrap();
                    stream.run(self.now);
                    quiet = false;
                }
            }
            if quiet && self.mail.0.iter().all(|mail| mail.lock().unwrap().is_empty()) {
                return;
            }
        }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.run();
    }

    pub(crate) fn received(&mut self, stream: usize) -> Vec<u8> {
        std::mem::take(&mut self.streams[stream].received)
    }

    /// Command, status and result of each completion that came; nothing else may have come.
    pub(crate) fn completions(&mut self, stream: usize) -> Vec<(u16, Status, u64)> {
        let entry = |pdu: &[u8]| CapsuleResp::read_from_bytes(pdu).unwrap().entry;
        let bytes = self.received(stream);
        let entries = bytes.chunks(24).map(entry);
        entries.map(|entry| (entry.cid.get(), entry.status(), entry.result())).collect()
    }
}

pub(crate) fn portal(volume: &dyn Volume) -> Portal {
    let namespace = Namespace {
        incarnation: None,
        nsid: 1,
        volume: VolumeId::new(0, 0),
        geometry: volume.geometry(),
        limits: volume.limits(),
        features: volume.features(),
        nguid: [1; 16],
        eui64: None,
        uuid: [7; 16],
    };
    let subsystem = Subsystem {
        nqn: NQN.into(),
        serial: "1".to_owned(),
        model: "Linerate".to_owned(),
        firmware: "0".to_owned(),
        hosts: Hosts::Any,
        namespaces: vec![namespace],
        limits: QueueLimits::default(),
    };
    Portal {
        subsystems: vec![Arc::new(subsystem)],
        advertised: Vec::new(),
        referrals: Vec::new(),
        generation: 1,
        log: nvme::controller::DiscoveryLog::default(),
        require_digests: false,
    }
}

pub(crate) fn command(mut entry: SubmissionQueueEntry, cid: u16) -> SubmissionQueueEntry {
    entry.cid.set(cid);
    entry
}

pub(crate) fn transfer(opcode: u8, cid: u16) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(opcode, 1).with(12, LARGE / 512 - 1);
    entry.dptr = SglDescriptor::transport(LARGE);
    command(entry, cid)
}
