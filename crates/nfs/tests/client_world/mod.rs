//! A client and a server in one world without a network: bytes cross when the test says so, connections are cut at any byte, and servers crash.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "each test uses a part"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use buf::{Buf, BufList};
use filesystem::{Memory, MemoryOptions};
use nfs::client::version3::{Export, MountAction, MountConfig, Nfs3Config, Nfs3Keep};
use nfs::client::{
    Access, Action, Config, Input, Keep, RemoteFile, TcpClient, TcpMount, TcpNfs3, Versions, connect,
};
use nfs::state::stable::StableRecord;
use nfs::v4::Verifier;
use protocol::pair::Half;
use protocol::{Connection, Ended, Entropy, Instant, SeededEntropy};
use rpc::message::AuthSysToSend;
use volume::{Completion, Durability, Extent, Failure, Operation, Outcome, Request, Tag, VolumeErrorKind};

use crate::common::{Bench, Client, export_of, open_grant};

pub const BLOCK: u32 = 512;
pub const FILE: &str = "disk.img";

/// The configuration of a client that opens `/data/disk.img`.
pub fn config(size: u64) -> Config {
    Config {
        path: ["data", FILE].map(|name| name.as_bytes().to_vec()).to_vec(),
        versions: Versions::Newest,
        access: Access::ReadWrite,
        block_size: BLOCK,
        size: Some(size),
        user: Arc::new(AuthSysToSend::new("host", 1000, 1000, &[])),
        owner: b"client under test".to_vec(),
        verifier: Verifier(*b"start 01"),
        command_time: Duration::from_secs(30),
        keep: Keep::default(),
    }
}

/// A file system with that file in it.
pub fn memory_with_file() -> Memory {
    let memory = Memory::new(MemoryOptions { root_mode: 0o777, ..MemoryOptions::default() });
    let export = export_of(&memory, 1, &["data"], open_grant());
    let mut bench = Bench::with(memory, vec![export], &[], 1);
    let mut maker = Client::new(&mut bench, "maker");
    maker.open(&mut bench, FILE, 3, 0).unwrap();
    bench.memory
}

/// A client of either version.
pub enum AnyClient {
    Four(Box<Half<TcpClient>>),
    Three(Box<Half<TcpNfs3>>),
}

/// The same words to a client of either version.
macro_rules! to_any {
    ($client:expr, $half:ident => $what:expr) => {
        match $client {
            AnyClient::Four($half) => $what,
            AnyClient::Three($half) => $what,
        }
    };
}

impl AnyClient {
    fn transmit(&mut self, now: Instant) -> Vec<u8> {
        to_any!(self, half => half.transmit(now))
    }

    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        to_any!(self, half => half.receive(now, bytes));
    }

    fn end(&mut self, now: Instant) {
        to_any!(self, half => half.end(now, Ended::ByPeer));
    }

    fn input(&mut self, now: Instant, input: Input) {
        to_any!(self, half => half.connection.handle_input(now, input));
    }

    fn poll_action(&mut self) -> Option<Action> {
        to_any!(self, half => half.connection.poll_action())
    }

    fn look_at_clock(&mut self, now: Instant) {
        let due = to_any!(self, half => half.connection.poll_timeout());
        if due.is_some_and(|due| due <= now) {
            to_any!(self, half => half.connection.handle_timeout(now));
        }
    }

    pub fn is_closing(&self) -> bool {
        to_any!(self, half => half.connection.poll_close()).is_some()
    }

    /// Bytes that it holds beside the requests' memory.
    pub fn held(&self) -> usize {
        to_any!(self, half => half.connection.held())
    }
}

/// What a client of version 3 has beside its configuration.
#[derive(Clone, Default)]
pub struct Three {
    pub export: Option<Arc<Export>>,
    pub keep: Nfs3Keep,
}

/// One connection.
struct Wire {
    client: AnyClient,
    peer: usize,
    /// Bytes that still cross to the server before the connection is cut; for ever if there is none.
    cut: Option<usize>,
    is_cut: bool,
    /// Bytes that were sent and have not arrived.
    late: Vec<u8>,
}

pub struct World {
    pub bench: Bench,
    pub config: Config,
    wire: Option<Wire>,
    /// Old connections whose bytes the server has not read yet.
    old: Vec<(usize, Vec<u8>)>,
    pub boot: u32,
    pub ready: Vec<RemoteFile>,
    pub failures: Vec<String>,
    pub done: BTreeMap<Tag, Result<Outcome, VolumeErrorKind>>,
    pub resized: Vec<u64>,
    /// Requests without an end, to be made again.
    pub kept: BTreeMap<Tag, Kept>,
    pub chunk: usize,
    /// What happens to the server's bytes.
    pub tamper: Option<Tamper>,
    /// What the client has sent, from when it is asked for.
    pub sent: Option<Vec<u8>>,
    /// The buffers of reads that came back because a connection ended.
    pub returned: BTreeMap<Tag, Buf>,
    /// Version 3 is spoken.
    pub three: Option<Three>,
    xid: u32,
}

/// A request that can be made again.
#[derive(Clone)]
pub enum Kept {
    Read(Extent),
    Write(Extent, BufList, Durability),
    Flush,
    Discard(Extent),
    Zeroes(Extent, Durability),
    Verify(Extent),
}

impl Kept {
    pub fn operation(&self) -> Operation {
        match self {
            Self::Read(extent) => {
                let length = (extent.blocks * u64::from(BLOCK)).try_into().unwrap();
                Operation::Read { extent: *extent, into: Buf::zeroed(length) }
            }
            Self::Write(extent, data, durability) => {
                Operation::Write { extent: *extent, data: data.clone(), durability: *durability }
            }
            Self::Flush => Operation::Flush,
            Self::Discard(extent) => Operation::Discard { extent: *extent },
            Self::Zeroes(extent, durability) => {
                Operation::WriteZeroes { extent: *extent, durability: *durability, may_unmap: true }
            }
            Self::Verify(extent) => Operation::Verify { extent: *extent },
        }
    }
}

impl World {
    pub fn new(size: u64) -> Self {
        Self::with(config(size), memory_with_file())
    }

    /// The same, in version 3.
    pub fn version3(size: u64) -> Self {
        Self::version3_with(config(size), memory_with_file())
    }

    pub fn version3_with(config: Config, memory: Memory) -> Self {
        Self { three: Some(Three::default()), ..Self::with(config, memory) }
    }

    pub fn with(config: Config, memory: Memory) -> Self {
        let export = export_of(&memory, 1, &["data"], open_grant());
        let mut bench = Bench::with(memory, vec![export], &[], 2);
        bench.requests.clear();
        Self {
            bench,
            config,
            wire: None,
            old: Vec::new(),
            boot: 2,
            ready: Vec::new(),
            failures: Vec::new(),
            done: BTreeMap::new(),
            resized: Vec::new(),
            kept: BTreeMap::new(),
            chunk: usize::MAX,
            tamper: None,
            sent: None,
            returned: BTreeMap::new(),
            three: None,
            xid: 100,
        }
    }

    /// A new connection, over which so many bytes cross to the server before it is cut.
    pub fn connect(&mut self, cut: Option<usize>) {
        assert!(self.wire.is_none(), "one at a time");
        let three = match self.three.clone() {
            None => None,
            Some(Three { export: Some(export), keep }) => Some((export, keep)),
            Some(Three { export: None, keep }) => {
                let Some(export) = self.mount() else { return };
                self.three = Some(Three { export: Some(Arc::clone(&export)), keep: keep.clone() });
                Some((export, keep))
            }
        };
        let peer = self.bench.connect();
        self.xid += 1000;
        let now = self.bench.now;
        let client = match three {
            None => AnyClient::Four(Box::new(Half::new(connect(now, self.config.clone(), self.xid)))),
            Some((export, keep)) => {
                let Config { access, block_size, size, user, command_time, .. } = self.config.clone();
                let config = Nfs3Config { export, access, block_size, size, user, command_time, keep };
                AnyClient::Three(Box::new(Half::new(connect(now, config, self.xid))))
            }
        };
        self.wire = Some(Wire { client, peer, cut, is_cut: false, late: Vec::new() });
        self.run();
    }

    /// Asks MOUNT for the export of the file; what is wrong is among the failures.
    pub fn mount(&mut self) -> Option<Arc<Export>> {
        let peer = self.bench.connect();
        self.xid += 1000;
        let Config { path, user, command_time, .. } = self.config.clone();
        let config = MountConfig { path, user, command_time };
        let mut half: Half<TcpMount> = Half::new(connect(self.bench.now, config, self.xid));
        loop {
            let now = self.bench.now;
            let out = half.transmit(now);
            self.bench.receive(peer, &out);
            let mut back = self.bench.transmit(peer);
            if let Some(tamper) = &mut self.tamper {
                tamper(&mut back);
            }
            half.receive(now, &back);
            match half.connection.poll_action() {
                Some(MountAction::Mounted(export)) => return Some(export),
                Some(MountAction::Failed { reason }) => {
                    self.failures.push(reason);
                    return None;
                }
                None if out.is_empty() && back.is_empty() => {
                    self.bench.pass(Duration::from_secs(1));
                    half.connection.handle_timeout(self.bench.now);
                }
                None => {}
            }
        }
    }

    pub fn is_connected(&self) -> bool {
        self.wire.is_some()
    }

    pub fn client(&self) -> Option<&AnyClient> {
        self.wire.as_ref().map(|wire| &wire.client)
    }

    /// A request, which is kept until it ends.
    pub fn submit(&mut self, tag: u64, request: Kept) {
        let operation = request.operation();
        self.kept.insert(Tag(tag), request);
        self.send(Tag(tag), operation);
        self.run();
    }

    fn send(&mut self, tag: Tag, operation: Operation) {
        if let Some(wire) = &mut self.wire {
            let request = Request { tag, operation };
            wire.client.input(self.bench.now, Input::Submit(request));
        }
    }

    /// Makes everything again that has no end, as a volume does after each connection is ready.
    pub fn resubmit(&mut self) {
        for (tag, request) in self.kept.clone() {
            self.send(tag, request.operation());
        }
        self.run();
    }

    pub fn input(&mut self, input: Input) {
        if let Some(wire) = &mut self.wire {
            wire.client.input(self.bench.now, input);
        }
        self.run();
    }

    /// Lets time pass, in steps in which everybody looks at the clock.
    pub fn pass(&mut self, span: Duration) {
        let end = self.bench.now + span;
        while self.bench.now < end {
            let step = Duration::from_millis(250).min(end.since(self.bench.now));
            self.bench.pass(step);
            if let Some(wire) = &mut self.wire {
                wire.client.look_at_clock(self.bench.now);
            }
            self.run();
        }
    }

    /// Moves bytes until nothing moves.
    pub fn run(&mut self) {
        while self.cross() {}
        self.collect();
    }

    /// The connection is cut behind so many bytes more of the client's.
    pub fn cut_after(&mut self, bytes: usize) {
        if let Some(wire) = &mut self.wire {
            wire.cut = Some(bytes);
        }
    }

    fn cross(&mut self) -> bool {
        let Some(wire) = &mut self.wire else { return false };
        let now = self.bench.now;
        let mut out = wire.client.transmit(now);
        if let Some(sent) = &mut self.sent {
            sent.extend(&out);
        }
        let mut moved = !out.is_empty();
        if let Some(left) = &mut wire.cut {
            if out.len() > *left {
                wire.late.extend(out.split_off(*left));
                wire.is_cut = true;
            }
            *left -= out.len();
        }
        let (peer, is_cut) = (wire.peer, wire.is_cut);
        for chunk in out.chunks(self.chunk) {
            self.bench.receive(peer, chunk);
        }
        if is_cut {
            return false;
        }
        let mut back = self.bench.transmit(peer);
        if let Some(tamper) = &mut self.tamper {
            tamper(&mut back);
        }
        moved |= !back.is_empty();
        if let Some(wire) = &mut self.wire {
            for chunk in back.chunks(self.chunk) {
                wire.client.receive(now, chunk);
            }
        }
        self.collect();
        moved
    }

    /// Takes what the client says.
    fn collect(&mut self) {
        while let Some(action) = self.wire.as_mut().and_then(|wire| wire.client.poll_action()) {
            self.take(action);
        }
        if self.wire.as_ref().is_some_and(|wire| wire.is_cut || wire.client.is_closing()) {
            self.end();
        }
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Ready(file) => self.ready.push(*file),
            Action::Resized(geometry) => self.resized.push(geometry.blocks),
            Action::Failed { reason } => self.failures.push(reason),
            Action::Complete(Completion { tag, result }) => self.complete(tag, result),
        }
    }

    fn complete(&mut self, tag: Tag, result: Result<Outcome, Failure>) {
        let result = result.map_err(|Failure { kind, memory }| {
            self.returned.extend(memory.map(|memory| (tag, memory)));
            kind
        });
        if !matches!(result, Err(VolumeErrorKind::Unreachable | VolumeErrorKind::Busy)) {
            self.kept.remove(&tag);
            assert!(self.done.insert(tag, result).is_none(), "{tag:?} ends once");
        }
    }

    /// The connection ends; what the server has not read of it may still arrive ([`World::deliver_late`]).
    pub fn end(&mut self) {
        let Some(mut wire) = self.wire.take() else { return };
        wire.client.end(self.bench.now);
        while let Some(action) = wire.client.poll_action() {
            self.take(action);
        }
        self.old.push((wire.peer, wire.late));
    }

    /// The server reads what old connections had sent, and only now sees that they have ended.
    pub fn deliver_late(&mut self) {
        for (peer, bytes) in std::mem::take(&mut self.old) {
            self.bench.receive(peer, &bytes);
            self.bench.end(peer);
        }
        self.run();
    }

    /// Forgets what old connections had sent.
    pub fn drop_late(&mut self) {
        for (peer, _) in std::mem::take(&mut self.old) {
            self.bench.end(peer);
        }
    }

    /// The server's machine loses its power, and what was not committed; a new process begins, which knows the clients of before.
    pub fn crash(&mut self, entropy: &mut SeededEntropy) {
        self.end();
        self.old.clear();
        let records: Vec<StableRecord> = self.bench.stable.values().cloned().collect();
        let old = std::mem::replace(&mut self.bench, Bench::new());
        old.memory.crash(entropy);
        self.boot += 1;
        let export = export_of(&old.memory, 1, &["data"], open_grant());
        let (now, requests) = (old.now, old.requests.clone());
        self.bench = Bench::with(old.memory, vec![export], &records, self.boot);
        self.bench.now = now;
        self.bench.requests = requests;
    }

    pub fn writes(&self) -> usize {
        self.bench.requests.get("write").copied().unwrap_or_default()
    }

    pub fn outcome(&mut self, tag: u64) -> Result<Outcome, VolumeErrorKind> {
        self.done.remove(&Tag(tag)).expect("it has ended")
    }

    pub fn data(&mut self, tag: u64) -> Vec<u8> {
        let Ok(Outcome::Data(data)) = self.outcome(tag) else { panic!("{tag} has read nothing") };
        data.into_one().to_vec()
    }
}

/// Blocks that are all of one byte.
pub fn filled(blocks: u64, byte: u8) -> BufList {
    let length = usize::try_from(blocks * u64::from(BLOCK)).unwrap();
    BufList::from(buf::SharedBuf::from(vec![byte; length]))
}

/// A world whose file is open, with four blocks of their own bytes, and where each answer is changed from now on; how many were.
pub fn misled(
    mut world: World,
    mut change: impl FnMut(&mut Record) -> bool + 'static,
) -> (World, Rc<Cell<usize>>) {
    world.connect(None);
    assert_eq!((world.ready.len(), &world.failures), (1, &Vec::new()));
    for block in 0..4 {
        let byte = u8::try_from(block + 1).unwrap();
        world.submit(block, Kept::Write(Extent::new(block, 1), filled(1, byte), Durability::Cached));
        assert!(world.outcome(block).is_ok());
    }
    let count = Rc::new(Cell::new(0));
    let counter = Rc::clone(&count);
    world.tamper = Some(Box::new(move |bytes| {
        each_record(bytes, |record| {
            if change(record) {
                counter.set(counter.get() + 1);
            }
        });
    }));
    (world, count)
}

/// Reads those blocks.
pub fn read_four(world: &mut World) {
    world.submit(10, Kept::Read(Extent::new(0, 4)));
}

/// The connection is ended for `why`, and the request waits for the next one.
pub fn ends(world: &World, why: &str) {
    assert!(!world.is_connected(), "{why}");
    let reason = world.failures.last().unwrap();
    assert!(reason.contains(why), "{reason}");
    assert!(world.done.is_empty(), "nothing has succeeded");
}

/// A number below `below`.
pub fn below(entropy: &mut SeededEntropy, below: u64) -> u64 {
    entropy.number() % below
}

/// Changes what a server says.
pub type Tamper = Box<dyn FnMut(&mut Vec<u8>)>;

/// Replaces each `from` by `to`, of the same length; how often.
pub fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) -> usize {
    assert_eq!(from.len(), to.len());
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    for at in &places {
        bytes[*at..at + to.len()].copy_from_slice(to);
    }
    places.len()
}

/// A reply in a stream: everything behind its record's mark.
pub type Record = Vec<u8>;

/// Changes the records of a stream of whole ones.
pub fn each_record(bytes: &mut Vec<u8>, mut change: impl FnMut(&mut Record)) {
    let (mut rest, mut changed) = (bytes.as_slice(), Vec::new());
    while let Some((mark, behind)) = rest.split_first_chunk::<4>() {
        let length = (u32::from_be_bytes(*mark) & 0x7fff_ffff) as usize;
        let (record, behind) = behind.split_at(length);
        let mut record = record.to_vec();
        change(&mut record);
        changed.extend((u32::try_from(record.len()).unwrap() | 1 << 31).to_be_bytes());
        changed.extend(record);
        rest = behind;
    }
    *bytes = changed;
}

/// Where the words of a reply are whose COMPOUND is SEQUENCE, PUTFH and one operation: behind six words of RPC.
pub mod at {
    pub const STATUS: usize = 24;
    pub const COUNT: usize = 32;
    /// Of the first operation, which is not SEQUENCE while a client or a session is made.
    pub const FIRST_OPERATION: usize = 36;
    pub const SEQUENCE_STATUS: usize = 40;
    pub const SESSION: usize = 44;
    pub const SEQUENCE: usize = 60;
    pub const SLOT: usize = 64;
    pub const TARGET: usize = 72;
    pub const FLAGS: usize = 76;
    /// Of a COMPOUND without a file handle, the operation behind SEQUENCE.
    pub const SECOND_OPERATION: usize = 80;
    pub const OPERATION: usize = 88;
    pub const OPERATION_STATUS: usize = 92;
    /// Of READ: the end of the file, the length, the data. Of WRITE: the count, how durable.
    pub const FIRST: usize = 96;
    pub const SECOND: usize = 100;
    pub const DATA: usize = 104;
}

pub fn word(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*record.get(at..)?.first_chunk()?))
}

pub fn set_word(record: &mut [u8], at: usize, value: u32) {
    record[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// True for the answer to a successful READ (25) or WRITE (38).
pub fn is_answer(record: &[u8], operation: u32) -> bool {
    word(record, at::OPERATION) == Some(operation) && word(record, at::OPERATION_STATUS) == Some(0)
}

/// Makes an answer end with a status at the operation whose status stands there.
pub fn fail_at(record: &mut Vec<u8>, place: usize, operations: u32, status: u32) {
    set_word(record, place, status);
    set_word(record, at::STATUS, status);
    set_word(record, at::COUNT, operations);
    record.truncate(place + 4);
}
