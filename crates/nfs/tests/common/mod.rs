//! A server of several connections over a file system in memory, driven by bytes: records in, records out.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod client;
mod compound;
pub mod op;

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
use nfs::state::holdings::Release;
use nfs::state::stable::{StableChange, StableRecord};
use nfs::v4::ClientId;
use protocol::pair::Half;
use protocol::{Connection, Ended, Group, Instant};
use rpc::Config;
use rpc::record::Fragment;
use rpc::tcp::TcpConnection;

pub use client::Client;
pub use compound::{Caller, CompoundCall, Op, Results};

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
        while let Some(Release { file, open }) = self.group.poll_release() {
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

    /// Bytes of a client arrive.
    pub fn receive(&mut self, peer: usize, bytes: &[u8]) {
        self.peers[peer].half.receive(self.now, bytes);
        self.run();
    }

    /// What a connection has to send.
    pub fn transmit(&mut self, peer: usize) -> Vec<u8> {
        self.run();
        self.peers[peer].half.transmit(self.now)
    }

    /// Sends a COMPOUND as it is, and gives its number.
    pub fn send(&mut self, peer: usize, call: &CompoundCall, caller: Caller) -> u32 {
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
    pub fn call(&mut self, peer: usize, call: &CompoundCall, caller: Caller) -> Results {
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
