//! An Abort on one core ends a command whose queue lives on another: two cores in one thread, on a clock that stands.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use engine::{ConnectionLimits, Core, ListenerRole, Message, Setup};
use host::{
    Accepted, BlockFile, CoreIndex, Dialer, Endpoint, EndpointId, IoError, ListenerId, OpenOptions, Postbox,
    Service, Storage, World,
};
use nvme::controller::{Hosts, Namespace, Portal, QueueLimits, Subsystem};
use nvme::fabrics::{Connect, ConnectData, HostIdentity, Property};
use nvme::pdu::{CapsuleCmd, CapsuleResp, IcReq, R2t};
use nvme::sgl::SglDescriptor;
use nvme::sqe::SubmissionQueueEntry;
use nvme::status::Status;
use protocol::{Instant, Placement, SeededEntropy, Transmit};
use volume::filter::Delay;
use volume::{Ram, Volume, VolumeId};
use zerocopy::{FromBytes, IntoBytes};

const NQN: &str = "nqn.2026-11.org.linerate:disk";
/// What every request takes.
const DELAY: Duration = Duration::from_hours(1);
const LARGE: u32 = 65536;
const WRITE: u8 = 1;
const READ: u8 = 2;

/// Nothing is opened or dialled here.
#[derive(Debug)]
struct Nowhere;

impl Storage for Nowhere {
    fn open(&self, _path: &str, _options: OpenOptions) -> Result<Arc<dyn BlockFile>, IoError> {
        panic!("this world has no files")
    }
}

impl Dialer for Nowhere {
    fn dial(&self, _peer: SocketAddr, _endpoint: Box<dyn Endpoint>) -> EndpointId {
        panic!("this world has no network")
    }

    fn nudge(&self, _endpoint: EndpointId) {}
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

/// A server of two cores.
struct Server {
    now: Instant,
    cores: Vec<Core>,
    mail: Arc<Mail>,
    streams: Vec<Stream>,
}

impl Server {
    /// A server with an enabled controller: stream 0 is its admin queue, on core 0; 1 is I/O queue 1, on core 1.
    fn new(pool_limit: usize) -> Self {
        let ram = Ram::new(16 << 20, 512).unwrap();
        let volume: Arc<dyn Volume> = Arc::new(Delay::new(Arc::new(ram), DELAY));
        let setup = Arc::new(Setup {
            listeners: vec![ListenerRole::Nvme(Arc::new(portal(&*volume)))],
            volumes: vec![volume],
            limits: ConnectionLimits::default(),
            pool_limit,
            entropy: Arc::new(|| Box::new(SeededEntropy::new(1))),
        });
        let mail = Arc::new(Mail::default());
        let world = |core| World {
            core,
            storage: Arc::new(Nowhere),
            dialer: Arc::new(Nowhere),
            postbox: Arc::clone(&mail) as Arc<dyn Postbox<Message>>,
            waker: Waker::noop().clone(),
        };
        let cores = [0, 1].map(|core| Core::new(Arc::clone(&setup), world(core))).into();
        let mut server = Self { now: Instant::ZERO, cores, mail, streams: Vec::new() };
        server.connect(0);
        server.send(0, command(Property::set(0x14, 0x0046_0001), 1));
        server.connect(1);
        assert_eq!(server.completions(0), [(0, Status::SUCCESS, 1), (1, Status::SUCCESS, 0)]);
        assert_eq!(server.completions(1), [(0, Status::SUCCESS, 1)]);
        server
    }

    /// Connects queue `qid` on the core of the same number.
    fn connect(&mut self, qid: u16) {
        let core = usize::from(qid);
        let name = EndpointId(u64::from(qid) + 10);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4420));
        let accepted = Accepted { listener: ListenerId(0), endpoint: name, local: address, peer: address };
        let endpoint = self.cores[core].accept(self.now, accepted).unwrap();
        let (staged, received) = (Vec::new(), Vec::new());
        self.streams.push(Stream { core, name, endpoint, staged, placement: None, received });
        let host = HostIdentity { identifier: [5; 16], nqn: "nqn.2014-08.org.nvmexpress:uuid:host".into() };
        let data = ConnectData::new(&host, if qid == 0 { 0xffff } else { 1 }, NQN);
        let mut pdu = CapsuleCmd::new(Connect::entry(qid, 31, 0));
        pdu.header.pdo = 72;
        pdu.header.plen.set(72 + 1024);
        self.bytes(core, &[IcReq::new(false, false, 0).as_bytes(), pdu.as_bytes(), data.as_bytes()].concat());
        self.streams[core].received.drain(..128);
    }

    fn send(&mut self, stream: usize, entry: SubmissionQueueEntry) {
        self.bytes(stream, CapsuleCmd::new(entry).as_bytes());
    }

    fn bytes(&mut self, stream: usize, bytes: &[u8]) {
        self.streams[stream].staged.extend_from_slice(bytes);
        self.streams[stream].run(self.now);
        self.run();
    }

    /// Aborts command `cid` of I/O queue 1, by command `own`.
    fn abort(&mut self, own: u16, cid: u16) {
        self.send(0, command(SubmissionQueueEntry::new(8, 0).with(10, u32::from(cid) << 16 | 1), own));
    }

    /// Lets both cores do what they can without time passing.
    fn run(&mut self) {
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
            if quiet {
                return;
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.run();
    }

    fn received(&mut self, stream: usize) -> Vec<u8> {
        std::mem::take(&mut self.streams[stream].received)
    }

    /// Command, status and result of each completion that came; nothing else may have come.
    fn completions(&mut self, stream: usize) -> Vec<(u16, Status, u64)> {
        let entry = |pdu: &[u8]| CapsuleResp::read_from_bytes(pdu).unwrap().entry;
        let bytes = self.received(stream);
        let entries = bytes.chunks(24).map(entry);
        entries.map(|entry| (entry.cid.get(), entry.status(), entry.result())).collect()
    }
}

fn portal(volume: &dyn Volume) -> Portal {
    let namespace = Namespace {
        nsid: 1,
        volume: VolumeId(0),
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
        subsystems: vec![subsystem],
        advertised: Vec::new(),
        referrals: Vec::new(),
        generation: 1,
        incarnation: None,
    }
}

fn command(mut entry: SubmissionQueueEntry, cid: u16) -> SubmissionQueueEntry {
    entry.cid.set(cid);
    entry
}

fn transfer(opcode: u8, cid: u16) -> SubmissionQueueEntry {
    let mut entry = SubmissionQueueEntry::new(opcode, 1).with(12, LARGE / 512 - 1);
    entry.dptr = SglDescriptor::transport(LARGE);
    command(entry, cid)
}

#[test]
fn a_command_on_another_core_ends_before_its_time() {
    let mut server = Server::new(16 << 20);
    server.send(1, transfer(READ, 70));
    server.send(1, transfer(READ, 71));
    server.abort(5, 70);
    assert_eq!(server.completions(1), [(70, Status::ABORT_REQUESTED, 0)]);
    assert_eq!(server.completions(0), [(5, Status::SUCCESS, 0)]);
    server.wait(DELAY);
    let read = server.received(1);
    assert_eq!((read.len(), read[0]), (24 + LARGE as usize, 7), "the other command's data");
    server.wait(DELAY);
    assert_eq!(server.received(1), [], "nothing more comes of the aborted one");
}

#[test]
fn a_command_that_is_over_or_unknown_is_not_aborted() {
    let mut server = Server::new(16 << 20);
    server.send(1, transfer(READ, 70));
    server.abort(5, 71);
    assert_eq!(server.completions(0), [(5, Status::SUCCESS, 1)], "unknown");
    assert_eq!(server.received(1), []);
    server.wait(DELAY);
    assert_eq!(server.received(1).len(), 24 + LARGE as usize);
    server.abort(6, 70);
    assert_eq!(server.completions(0), [(6, Status::SUCCESS, 1)], "over");
}

#[test]
fn the_memory_of_aborted_commands_serves_the_next() {
    // One large buffer, beside the little that Connect needs.
    let mut server = Server::new(LARGE as usize + 2048);
    for round in 0..3 {
        server.send(1, transfer(READ, 70));
        server.send(1, transfer(WRITE, 71));
        assert_eq!(server.received(1), [], "the read has the buffer");
        server.abort(5, 70);
        let bytes = server.received(1);
        let (ended, asked) = bytes.split_at(24);
        let ended = CapsuleResp::read_from_bytes(ended).unwrap().entry;
        assert_eq!((ended.cid.get(), ended.status()), (70, Status::ABORT_REQUESTED), "round {round}");
        let asked = R2t::read_from_bytes(asked).unwrap();
        assert_eq!((asked.cccid.get(), asked.r2tl.get()), (71, LARGE), "the write has the buffer");
        server.abort(6, 71);
        assert_eq!(server.completions(1), [(71, Status::ABORT_REQUESTED, 0)]);
        assert_eq!(server.completions(0), [(5, Status::SUCCESS, 0), (6, Status::SUCCESS, 0)]);
    }
}
