//! A server of several connections over a file system in memory, driven by bytes: records in, records out.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use buf::Pool;
use filesystem::{
    CoreId, Credentials, FileSystem, FileSystemQueue, Memory, MemoryOptions, Operation, QueueContext,
    Request, Tag, Time,
};
use nfs::server::exports::{ClientRule, Export, Exports, FileKey, FileSystemId, Grant, Squash, Writes};
use nfs::server::{Action, Input, NfsServer, ServerConfig, ServerIdentity};
use nfs::state::Server;
use nfs::state::stable::{StableChange, StableRecord};
use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Stateid, StateidOther, Status};
use protocol::pair::Half;
use protocol::{Connection, Ended, Group, Instant};
use rpc::Config;
use rpc::message::AuthSysToSend;
use rpc::record::Fragment;
use rpc::tcp::TcpConnection;
use rpc::xdr::{Reader, Writer};

pub const FS: FileSystemId = FileSystemId(5);
pub const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A connection with its own queue of the file system.
struct Peer {
    half: Half<TcpConnection<NfsServer>>,
    queue: Box<dyn FileSystemQueue>,
    /// Requests that wait because the bench holds them.
    held: Vec<Request>,
    ended: bool,
    left: bool,
}

pub struct Bench {
    pub memory: Memory,
    pub exports: Arc<Exports>,
    pub group: Server<usize, FileKey>,
    peers: Vec<Peer>,
    release: Box<dyn FileSystemQueue>,
    pub now: Instant,
    pub stable: BTreeMap<ClientId, StableRecord>,
    pool: Pool,
    xid: u32,
    /// Requests to the file system stay where they are.
    pub holds: bool,
    /// How many requests went to the file system, by kind.
    pub requests: BTreeMap<&'static str, usize>,
    /// Messages between connections and the group.
    pub messages: usize,
    pub address: IpAddr,
}

pub fn rules(grant: Grant) -> Vec<ClientRule> {
    vec![ClientRule::everybody(grant)]
}

pub fn open_grant() -> Grant {
    Grant { squash: Squash::Nobody, ..Grant::new(Writes::Allowed) }
}

pub fn export_of(memory: &Memory, id: u32, path: &[&str], grant: Grant) -> Export {
    Export {
        id,
        path: path.iter().map(|name| name.as_bytes().to_vec()).collect(),
        filesystem: FS,
        root: memory.root(),
        limits: memory.limits(),
        features: memory.features(),
        rules: rules(grant),
    }
}

impl Bench {
    /// One file system, exported at `/data` to everybody, without squashing.
    pub fn new() -> Self {
        let memory = Memory::new(MemoryOptions { root_mode: 0o777, ..MemoryOptions::default() });
        let export = export_of(&memory, 1, &["data"], open_grant());
        Self::with(memory, vec![export], &[], 1)
    }

    pub fn with(memory: Memory, exports: Vec<Export>, records: &[StableRecord], boot: u32) -> Self {
        let exports = Arc::new(Exports::new(exports, Time { seconds: 1, nanos: 0 }).unwrap());
        let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
        let release = memory.open_queue(&context).unwrap();
        Self {
            memory,
            exports,
            group: Server::new(Instant::ZERO, boot, records),
            peers: Vec::new(),
            release,
            now: Instant::ZERO,
            stable: records.iter().map(|record| (record.client, record.clone())).collect(),
            pool: Pool::new(64 << 20),
            xid: 0,
            holds: false,
            requests: BTreeMap::new(),
            messages: 0,
            address: ADDRESS,
        }
    }

    pub fn connect(&mut self) -> usize {
        let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
        let config = ServerConfig { exports: Arc::clone(&self.exports), client: self.address, identity };
        let upper = NfsServer::new(config, &self.pool);
        let half = Half::new(TcpConnection::new(upper, Config::new(1)));
        let context = QueueContext::new(CoreId(0), Waker::noop().clone(), self.pool.clone());
        let queue = self.memory.open_queue(&context).unwrap();
        self.peers.push(Peer { half, queue, held: Vec::new(), ended: false, left: false });
        self.peers.len() - 1
    }

    /// Ends a connection's transport.
    pub fn end(&mut self, peer: usize) {
        self.peers[peer].half.end(self.now, Ended::ByPeer);
        self.peers[peer].ended = true;
        self.run();
    }

    pub fn upper(&self, peer: usize) -> &NfsServer {
        self.peers[peer].half.connection.upper()
    }

    /// Gives what was held to the file system.
    pub fn let_go(&mut self) {
        self.holds = false;
        for at in 0..self.peers.len() {
            for request in std::mem::take(&mut self.peers[at].held) {
                self.peers[at].queue.submit(self.now, request).unwrap();
            }
        }
        self.run();
    }

    pub fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.group.handle_timeout(self.now);
        self.run();
    }

    /// Runs until nothing moves.
    pub fn run(&mut self) {
        while self.turn() {}
    }

    fn turn(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.peers.len() {
            while let Some(action) = self.peers[at].half.connection.poll_action() {
                moved = true;
                self.act(at, action);
            }
            let mut done = Vec::new();
            self.peers[at].queue.poll(self.now, &mut done);
            for completion in done {
                moved = true;
                self.peers[at].half.connection.handle_input(self.now, Input::File(completion));
            }
            let peer = &self.peers[at];
            if peer.ended && !peer.left && peer.half.connection.upper().under_way() == 0 && !moved {
                self.peers[at].left = true;
                self.group.handle_leave(self.now, at);
                moved = true;
            }
        }
        while let Some(message) = self.group.poll_message() {
            moved = true;
            self.messages += 1;
            self.peers[message.to].half.connection.handle_input(self.now, Input::Group(message.message));
        }
        while let Some(change) = self.group.poll_stable() {
            moved = true;
            match &change {
                StableChange::Keep(record) => self.stable.insert(record.client, record.clone()),
                StableChange::Drop(client) => self.stable.remove(client),
            };
            self.group.handle_stable(self.now, change.client(), Ok(()));
        }
        while let Some((file, open)) = self.group.poll_release() {
            assert_eq!(file.filesystem, FS);
            let credentials = Arc::new(Credentials::of(0, 0));
            let request = Request { tag: Tag(0), credentials, operation: Operation::Close { open } };
            self.release.submit(self.now, request).unwrap();
            self.release.poll(self.now, &mut Vec::new());
        }
        moved
    }

    fn act(&mut self, at: usize, action: Action) {
        match action {
            Action::Submit(filesystem, request) => {
                assert_eq!(filesystem, FS);
                *self.requests.entry(kind(&request.operation)).or_default() += 1;
                if self.holds {
                    self.peers[at].held.push(request);
                } else {
                    self.peers[at].queue.submit(self.now, request).unwrap();
                }
            }
            Action::Group(request) => {
                self.messages += 1;
                self.group.handle_message(self.now, at, request);
            }
        }
    }

    /// Sends a COMPOUND as it is, and gives its number.
    pub fn send(&mut self, peer: usize, call: &CompoundCall, caller: &Caller) -> u32 {
        self.xid += 1;
        let record = call.record(self.xid, caller);
        self.send_record(peer, &record);
        self.xid
    }

    pub fn send_record(&mut self, peer: usize, record: &[u8]) {
        let header = Fragment { length: record.len().try_into().unwrap(), is_last: true };
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(record);
        self.peers[peer].half.receive(self.now, &bytes);
        self.run();
    }

    /// Everything that a connection has sent: by number of the call.
    pub fn replies(&mut self, peer: usize) -> BTreeMap<u32, Vec<u8>> {
        let bytes = self.peers[peer].half.transmit(self.now);
        let (mut at, mut replies) = (0, BTreeMap::new());
        while at < bytes.len() {
            let word = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            let len = (word & 0x7fff_ffff) as usize;
            let record = bytes[at + 4..at + 4 + len].to_vec();
            replies.insert(u32::from_be_bytes(record[..4].try_into().unwrap()), record);
            at += 4 + len;
        }
        replies
    }

    /// Sends a COMPOUND and reads its answer.
    pub fn call(&mut self, peer: usize, call: &CompoundCall, caller: &Caller) -> Results {
        let xid = self.send(peer, call, caller);
        let reply = self.replies(peer).remove(&xid).expect("an answer");
        Results::new(reply)
    }
}

fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Read { .. } => "read",
        Operation::Write { .. } => "write",
        Operation::Create { .. } => "create",
        Operation::Make { .. } => "make",
        Operation::Remove { .. } => "remove",
        _ => "other",
    }
}

/// Who calls.
#[derive(Clone, Copy)]
pub enum Caller {
    Nobody,
    User(u32),
}

/// A COMPOUND that is being written.
pub struct CompoundCall {
    pub tag: Vec<u8>,
    pub minor: u32,
    pub count: u32,
    pub operations: Vec<u8>,
}

impl CompoundCall {
    pub fn new() -> Self {
        Self { tag: b"tag".to_vec(), minor: 2, count: 0, operations: Vec::new() }
    }

    pub fn of(operations: &[Op]) -> Self {
        let mut call = Self::new();
        for Op(write) in operations {
            call.add(write);
        }
        call
    }

    pub fn add(&mut self, write: &dyn Fn(&mut Writer)) {
        let mut out = Writer::new();
        write(&mut out);
        self.operations.extend_from_slice(out.finish().bytes());
        self.count += 1;
    }

    /// The record, without its mark.
    pub fn record(&self, xid: u32, caller: &Caller) -> Vec<u8> {
        let mut out = Writer::new();
        for word in [xid, 0, 2, 100_003, 4, 1] {
            out.u32(word);
        }
        match caller {
            Caller::Nobody => {
                out.u32(0);
                out.u32(0);
            }
            Caller::User(uid) => out.put(&AuthSysToSend::new("host", *uid, *uid, &[]).as_auth()),
        }
        out.u32(0);
        out.u32(0);
        out.opaque(&self.tag);
        out.u32(self.minor);
        out.u32(self.count);
        let mut bytes = out.finish().bytes().to_vec();
        bytes.extend_from_slice(&self.operations);
        bytes
    }
}

/// One operation, as a function that writes it.
pub struct Op(pub Box<dyn Fn(&mut Writer)>);

/// An answer, read from the front.
pub struct Results {
    bytes: Vec<u8>,
    at: usize,
    pub status: Status,
    pub count: u32,
}

impl Results {
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut reader = Reader::new(&bytes[4..]);
        assert_eq!(reader.u32(), Ok(1), "a reply");
        assert_eq!(reader.u32(), Ok(0), "accepted");
        reader.u32().unwrap();
        reader.opaque(400).unwrap();
        assert_eq!(reader.u32(), Ok(0), "success");
        let status = Status(reader.u32().unwrap());
        assert_eq!(reader.opaque(1024).unwrap(), b"tag");
        let count = reader.u32().unwrap();
        let at = bytes.len() - reader.remaining();
        Self { bytes, at, status, count }
    }

    /// Reads with a function.
    pub fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> Result<T, rpc::xdr::Error>) -> T {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let value = read(&mut reader).unwrap();
        self.at = self.bytes.len() - reader.remaining();
        value
    }

    pub fn get<T: rpc::xdr::Decode>(&mut self) -> T {
        self.read(|reader| reader.get())
    }

    /// The next result, which is of this operation: its status.
    pub fn next(&mut self, number: OpNumber) -> Status {
        assert_eq!(OpNumber(self.get::<u32>()), number);
        Status(self.get::<u32>())
    }

    /// The next result, which is a success without a body or with one that is read next.
    pub fn ok(&mut self, number: OpNumber) -> &mut Self {
        assert_eq!(self.next(number), Status::OK, "{}", number.name());
        self
    }

    pub fn sequence(&mut self) -> &mut Self {
        self.ok(OpNumber::SEQUENCE);
        self.get::<[u8; 16]>();
        for _ in 0..5 {
            self.get::<u32>();
        }
        self
    }

    pub fn stateid(&mut self) -> Stateid {
        let seqid = self.get::<u32>();
        Stateid { seqid, other: StateidOther(self.get()) }
    }

    pub fn opaque(&mut self) -> Vec<u8> {
        self.read(|reader| reader.opaque(1 << 21).map(<[u8]>::to_vec))
    }

    pub fn end(&self) {
        assert_eq!(self.at, self.bytes.len(), "bytes behind the last result");
    }

    pub fn raw(&self) -> &[u8] {
        &self.bytes
    }
}

/// A client with a session, and one slot that it uses.
#[derive(Clone)]
pub struct Client {
    pub client: ClientId,
    pub session: SessionId,
    pub slot: u32,
    pub sequence: u32,
    pub cache: bool,
    pub caller: Caller,
    pub peer: usize,
    pub minor: u32,
}

impl Client {
    /// Establishes a client and a session, and says that it reclaims nothing.
    pub fn new(bench: &mut Bench, name: &str) -> Self {
        let peer = bench.connect();
        Self::on(bench, peer, name)
    }

    pub fn on(bench: &mut Bench, peer: usize, name: &str) -> Self {
        let mut client = Self::establish(bench, peer, name, 1);
        let mut results = client.call(bench, &[op::reclaim_complete(false)]);
        results.sequence().ok(OpNumber::RECLAIM_COMPLETE).end();
        client
    }

    pub fn establish(bench: &mut Bench, peer: usize, name: &str, verifier: u8) -> Self {
        let caller = Caller::User(1000);
        let call = CompoundCall::of(&[op::exchange_id(name.as_bytes(), verifier, 0)]);
        let mut results = bench.call(peer, &call, &caller);
        results.ok(OpNumber::EXCHANGE_ID);
        let (client, sequence) = (ClientId(results.get::<u64>()), results.get::<u32>());
        let call = CompoundCall::of(&[op::create_session(client, sequence, 8)]);
        let mut results = bench.call(peer, &call, &caller);
        results.ok(OpNumber::CREATE_SESSION);
        let session = SessionId(results.get());
        Self { client, session, slot: 0, sequence: 0, cache: false, caller, peer, minor: 2 }
    }

    /// A COMPOUND behind the next SEQUENCE.
    pub fn compound(&mut self, operations: &[Op]) -> CompoundCall {
        self.sequence += 1;
        self.compound_again(operations)
    }

    /// The same with the last sequence ID.
    pub fn compound_again(&self, operations: &[Op]) -> CompoundCall {
        let mut call = CompoundCall::new();
        call.minor = self.minor;
        let Op(sequence) = op::sequence(self.session, self.sequence, self.slot, 7, self.cache);
        call.add(&sequence);
        for Op(write) in operations {
            call.add(write);
        }
        call
    }

    pub fn call(&mut self, bench: &mut Bench, operations: &[Op]) -> Results {
        let call = self.compound(operations);
        bench.call(self.peer, &call, &self.caller)
    }

    /// Calls, and says only what it came to.
    pub fn status(&mut self, bench: &mut Bench, operations: &[Op]) -> Status {
        self.call(bench, operations).status
    }

    /// The handle of a path below the root.
    pub fn handle(&mut self, bench: &mut Bench, path: &[&str]) -> Vec<u8> {
        let mut operations = vec![op::putrootfh()];
        operations.extend(path.iter().map(|name| op::lookup(name)));
        operations.push(op::getfh());
        let mut results = self.call(bench, &operations);
        assert_eq!(results.status, Status::OK, "{path:?}");
        results.sequence().ok(OpNumber::PUTROOTFH);
        path.iter().for_each(|_| {
            results.ok(OpNumber::LOOKUP);
        });
        results.ok(OpNumber::GETFH).opaque()
    }

    /// Opens a file in `/data`, made if it is not there; its stateid and handle.
    pub fn open(
        &mut self,
        bench: &mut Bench,
        name: &str,
        access: u32,
        deny: u32,
    ) -> Result<(Stateid, Vec<u8>), Status> {
        let root = self.handle(bench, &["data"]);
        let mut results = self.call(
            bench,
            &[
                op::putfh(&root),
                op::open(b"owner", access, deny, op::How::Unchecked(None), op::Claim::Null(name)),
                op::getfh(),
            ],
        );
        if results.status != Status::OK {
            return Err(results.status);
        }
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::OPEN);
        let stateid = results.stateid();
        results.read(|reader| {
            reader.bool()?;
            reader.u64()?;
            reader.u64()?;
            reader.u32()?;
            reader.array::<u32>(8)?;
            reader.u32()
        });
        Ok((stateid, results.ok(OpNumber::GETFH).opaque()))
    }
}

/// Operations as they are sent.
pub mod op {
    use super::{ClientId, Op, OpNumber, SessionId, Stateid, Writer};

    fn operation(number: OpNumber, write: impl Fn(&mut Writer) + 'static) -> Op {
        Op(Box::new(move |out| {
            out.u32(number.0);
            write(out);
        }))
    }

    pub fn bare(number: OpNumber) -> Op {
        operation(number, |_| {})
    }

    pub fn raw(number: u32, words: &'static [u32]) -> Op {
        operation(OpNumber(number), move |out| words.iter().for_each(|word| out.u32(*word)))
    }

    fn put_stateid(out: &mut Writer, stateid: Stateid) {
        out.u32(stateid.seqid);
        out.put(&stateid.other.0);
    }

    pub fn exchange_id(owner: &[u8], verifier: u8, flags: u32) -> Op {
        let owner = owner.to_vec();
        operation(OpNumber::EXCHANGE_ID, move |out| {
            out.put(&[verifier; 8]);
            out.opaque(&owner);
            out.u32(flags);
            out.u32(0);
            out.u32(0);
        })
    }

    pub fn create_session(client: ClientId, sequence: u32, slots: u32) -> Op {
        operation(OpNumber::CREATE_SESSION, move |out| {
            out.u64(client.0);
            out.u32(sequence);
            out.u32(0);
            for _ in 0..2 {
                for word in [0, 1 << 21, 1 << 21, 4096, 64, slots, 0] {
                    out.u32(word);
                }
            }
            out.u32(0);
            out.u32(1);
            out.u32(0);
        })
    }

    pub fn sequence(session: SessionId, sequence: u32, slot: u32, highest: u32, cache: bool) -> Op {
        operation(OpNumber::SEQUENCE, move |out| {
            out.put(&session.0);
            out.u32(sequence);
            out.u32(slot);
            out.u32(highest);
            out.put(&cache);
        })
    }

    pub fn bind(session: SessionId, direction: u32) -> Op {
        operation(OpNumber::BIND_CONN_TO_SESSION, move |out| {
            out.put(&session.0);
            out.u32(direction);
            out.put(&false);
        })
    }

    pub fn destroy_session(session: SessionId) -> Op {
        operation(OpNumber::DESTROY_SESSION, move |out| out.put(&session.0))
    }

    pub fn destroy_client(client: ClientId) -> Op {
        operation(OpNumber::DESTROY_CLIENTID, move |out| out.u64(client.0))
    }

    pub fn reclaim_complete(one: bool) -> Op {
        operation(OpNumber::RECLAIM_COMPLETE, move |out| out.put(&one))
    }

    pub fn putfh(handle: &[u8]) -> Op {
        let handle = handle.to_vec();
        operation(OpNumber::PUTFH, move |out| out.opaque(&handle))
    }

    pub fn putrootfh() -> Op {
        bare(OpNumber::PUTROOTFH)
    }

    pub fn getfh() -> Op {
        bare(OpNumber::GETFH)
    }

    pub fn savefh() -> Op {
        bare(OpNumber::SAVEFH)
    }

    pub fn restorefh() -> Op {
        bare(OpNumber::RESTOREFH)
    }

    fn named(number: OpNumber, name: &[u8]) -> Op {
        let name = name.to_vec();
        operation(number, move |out| out.opaque(&name))
    }

    pub fn lookup(name: &str) -> Op {
        named(OpNumber::LOOKUP, name.as_bytes())
    }

    pub fn lookup_bytes(name: &[u8]) -> Op {
        named(OpNumber::LOOKUP, name)
    }

    pub fn lookupp() -> Op {
        bare(OpNumber::LOOKUPP)
    }

    pub fn remove(name: &str) -> Op {
        named(OpNumber::REMOVE, name.as_bytes())
    }

    pub fn link(name: &str) -> Op {
        named(OpNumber::LINK, name.as_bytes())
    }

    pub fn secinfo(name: &str) -> Op {
        named(OpNumber::SECINFO, name.as_bytes())
    }

    pub fn secinfo_no_name(style: u32) -> Op {
        operation(OpNumber::SECINFO_NO_NAME, move |out| out.u32(style))
    }

    pub fn rename(from: &str, to: &str) -> Op {
        let (from, to) = (from.to_owned(), to.to_owned());
        operation(OpNumber::RENAME, move |out| {
            out.opaque(from.as_bytes());
            out.opaque(to.as_bytes());
        })
    }

    /// Words of a bitmap of these numbers.
    pub fn bitmap(numbers: &[u32]) -> nfs::v4::Bitmap {
        nfs::v4::Bitmap::of(numbers)
    }

    /// Attributes with their values.
    #[derive(Clone, Default)]
    pub struct Attributes {
        pub numbers: Vec<u32>,
        pub values: Vec<u8>,
    }

    impl Attributes {
        pub fn mode(mode: u32) -> Self {
            Self { numbers: vec![33], values: mode.to_be_bytes().to_vec() }
        }

        pub fn size(size: u64) -> Self {
            Self { numbers: vec![4], values: size.to_be_bytes().to_vec() }
        }

        fn put(&self, out: &mut Writer) {
            out.put(&bitmap(&self.numbers));
            out.opaque(&self.values);
        }
    }

    pub fn create(kind: u32, name: &str) -> Op {
        let name = name.to_owned();
        operation(OpNumber::CREATE, move |out| {
            out.u32(kind);
            match kind {
                5 => out.opaque(b"target"),
                3 | 4 => out.u64(0),
                _ => {}
            }
            out.opaque(name.as_bytes());
            Attributes::mode(0o755).put(out);
        })
    }

    pub fn getattr(numbers: &[u32]) -> Op {
        let bitmap = bitmap(numbers);
        operation(OpNumber::GETATTR, move |out| out.put(&bitmap))
    }

    pub fn setattr(stateid: Stateid, attributes: &Attributes) -> Op {
        let attributes = attributes.clone();
        operation(OpNumber::SETATTR, move |out| {
            put_stateid(out, stateid);
            attributes.put(out);
        })
    }

    pub fn verify(attributes: &Attributes) -> Op {
        let attributes = attributes.clone();
        operation(OpNumber::VERIFY, move |out| attributes.put(out))
    }

    pub fn nverify(attributes: &Attributes) -> Op {
        let attributes = attributes.clone();
        operation(OpNumber::NVERIFY, move |out| attributes.put(out))
    }

    pub fn access(rights: u32) -> Op {
        operation(OpNumber::ACCESS, move |out| out.u32(rights))
    }

    pub fn read(stateid: Stateid, offset: u64, count: u32) -> Op {
        operation(OpNumber::READ, move |out| {
            put_stateid(out, stateid);
            out.u64(offset);
            out.u32(count);
        })
    }

    pub fn write(stateid: Stateid, offset: u64, data: &[u8]) -> Op {
        let data = data.to_vec();
        operation(OpNumber::WRITE, move |out| {
            put_stateid(out, stateid);
            out.u64(offset);
            out.u32(2);
            out.opaque(&data);
        })
    }

    pub fn commit(offset: u64, count: u32) -> Op {
        operation(OpNumber::COMMIT, move |out| {
            out.u64(offset);
            out.u32(count);
        })
    }

    pub fn ranged(number: OpNumber, stateid: Stateid, offset: u64, count: u64) -> Op {
        operation(number, move |out| {
            put_stateid(out, stateid);
            out.u64(offset);
            out.u64(count);
        })
    }

    pub fn seek(stateid: Stateid, offset: u64, what: u32) -> Op {
        operation(OpNumber::SEEK, move |out| {
            put_stateid(out, stateid);
            out.u64(offset);
            out.u32(what);
        })
    }

    pub fn copy(from: Stateid, to: Stateid, count: u64) -> Op {
        operation(OpNumber::COPY, move |out| {
            put_stateid(out, from);
            put_stateid(out, to);
            out.u64(0);
            out.u64(0);
            out.u64(count);
            out.put(&true);
            out.put(&true);
            out.u32(0);
        })
    }

    pub fn readdir(cookie: u64, verifier: [u8; 8], max: u32, numbers: &[u32]) -> Op {
        let bitmap = bitmap(numbers);
        operation(OpNumber::READDIR, move |out| {
            out.u64(cookie);
            out.put(&verifier);
            out.u32(max);
            out.u32(max);
            out.put(&bitmap);
        })
    }

    pub fn readlink() -> Op {
        bare(OpNumber::READLINK)
    }

    #[derive(Clone)]
    pub enum How {
        NoCreate,
        Unchecked(Option<u64>),
        Guarded,
        Exclusive([u8; 8]),
    }

    #[derive(Clone, Copy)]
    pub enum Claim<'a> {
        Null(&'a str),
        Previous,
        Fh,
        DelegateCurrent(&'a str),
    }

    pub fn open(owner: &[u8], access: u32, deny: u32, how: How, claim: Claim<'_>) -> Op {
        let owner = owner.to_vec();
        let (kind, name) = match claim {
            Claim::Null(name) => (0, Some(name.to_owned())),
            Claim::Previous => (1, None),
            Claim::Fh => (4, None),
            Claim::DelegateCurrent(name) => (2, Some(name.to_owned())),
        };
        operation(OpNumber::OPEN, move |out| {
            out.u32(0);
            out.u32(access);
            out.u32(deny);
            out.u64(0);
            out.opaque(&owner);
            match &how {
                How::NoCreate => out.u32(0),
                How::Unchecked(size) => {
                    out.u32(1);
                    out.u32(0);
                    size.map_or_else(|| Attributes::mode(0o644), Attributes::size).put(out);
                }
                How::Guarded => {
                    out.u32(1);
                    out.u32(1);
                    Attributes::mode(0o644).put(out);
                }
                How::Exclusive(verifier) => {
                    out.u32(1);
                    out.u32(3);
                    out.put(verifier);
                    Attributes::mode(0o644).put(out);
                }
            }
            out.u32(kind);
            match kind {
                1 => out.u32(0),
                2 => put_stateid(out, Stateid::ANONYMOUS),
                _ => {}
            }
            if let Some(name) = &name {
                out.opaque(name.as_bytes());
            }
        })
    }

    pub fn close(stateid: Stateid) -> Op {
        operation(OpNumber::CLOSE, move |out| {
            out.u32(0);
            put_stateid(out, stateid);
        })
    }

    pub fn downgrade(stateid: Stateid, access: u32, deny: u32) -> Op {
        operation(OpNumber::OPEN_DOWNGRADE, move |out| {
            put_stateid(out, stateid);
            out.u32(0);
            out.u32(access);
            out.u32(deny);
        })
    }

    pub fn lock_new(kind: u32, offset: u64, length: u64, open: Stateid, owner: &[u8]) -> Op {
        let owner = owner.to_vec();
        operation(OpNumber::LOCK, move |out| {
            out.u32(kind);
            out.put(&false);
            out.u64(offset);
            out.u64(length);
            out.put(&true);
            out.u32(0);
            put_stateid(out, open);
            out.u32(0);
            out.u64(0);
            out.opaque(&owner);
        })
    }

    pub fn lock(kind: u32, offset: u64, length: u64, lock: Stateid) -> Op {
        operation(OpNumber::LOCK, move |out| {
            out.u32(kind);
            out.put(&false);
            out.u64(offset);
            out.u64(length);
            out.put(&false);
            put_stateid(out, lock);
            out.u32(0);
        })
    }

    pub fn lockt(kind: u32, offset: u64, length: u64, owner: &[u8]) -> Op {
        let owner = owner.to_vec();
        operation(OpNumber::LOCKT, move |out| {
            out.u32(kind);
            out.u64(offset);
            out.u64(length);
            out.u64(0);
            out.opaque(&owner);
        })
    }

    pub fn locku(stateid: Stateid, offset: u64, length: u64) -> Op {
        operation(OpNumber::LOCKU, move |out| {
            out.u32(1);
            out.u32(0);
            put_stateid(out, stateid);
            out.u64(offset);
            out.u64(length);
        })
    }

    pub fn free_stateid(stateid: Stateid) -> Op {
        operation(OpNumber::FREE_STATEID, move |out| put_stateid(out, stateid))
    }

    pub fn test_stateid(stateids: &[Stateid]) -> Op {
        let stateids = stateids.to_vec();
        operation(OpNumber::TEST_STATEID, move |out| {
            out.length(stateids.len());
            stateids.iter().for_each(|stateid| put_stateid(out, *stateid));
        })
    }
}
