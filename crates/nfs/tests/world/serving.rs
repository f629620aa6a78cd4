//! The server's process: connections, the group of its state, and what is on its way between them, to the file system and to stable storage.
//!
//! What is between two places stays there until the world takes it out. Between a connection and the group, order holds in each direction, as between
//! two cores; requests of the file system are begun and end in any order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use buf::Pool;
use filesystem::{Completion, FileSystemQueue, Memory, Request, Time};
use nfs::server::exports::{Exports, FileKey};
use nfs::server::{Action, Input, NfsServer, ServerConfig, ServerIdentity};
use nfs::state::Server;
use nfs::state::holdings::Release;
use nfs::state::messages::{Reply, Request as GroupRequest};
use nfs::state::stable::{StableChange, StableRecord};
use protocol::pair::Half;
use protocol::{Connection, Ended, Group, Instant};
use rpc::Config;
use rpc::record::Fragment;
use rpc::tcp::TcpConnection;

use super::disk;
use super::planted::Planted;
use crate::common::{ADDRESS, export_of, open_grant};

/// A connection, from its client's end to the server's.
pub struct Link {
    half: Half<TcpConnection<NfsServer>>,
    pub queue: Box<dyn FileSystemQueue>,
    /// Records of the client that have not arrived.
    pub calls: VecDeque<Vec<u8>>,
    /// Records for the client that have not arrived.
    pub replies: VecDeque<Vec<u8>>,
    pub to_group: VecDeque<(Instant, GroupRequest<FileKey>)>,
    pub from_group: VecDeque<(Instant, Reply<FileKey>)>,
    /// The client has cut it.
    pub is_cut: bool,
    /// The server has noticed.
    pub has_ended: bool,
}

/// A server that runs.
pub struct Serving {
    pub group: Server<usize, FileKey>,
    pub links: BTreeMap<usize, Link>,
    /// Requests that the file system has not begun.
    pub waiting: Vec<(Instant, usize, Request)>,
    /// Completions that their connections have not heard of.
    pub done: Vec<(Instant, usize, Completion)>,
    /// Changes that are not durable.
    pub changes: VecDeque<StableChange>,
    pub releases: Vec<Release<FileKey>>,
    pub releasing: Box<dyn FileSystemQueue>,
    exports: Arc<Exports>,
    pool: Pool,
}

impl Serving {
    /// Starts with what stable storage has.
    pub fn new(now: Instant, memory: &Memory, boot: u32, records: &[StableRecord]) -> Self {
        let pool = Pool::new(64 << 20);
        let exports = vec![export_of(memory, 1, &["data"], open_grant())];
        Self {
            group: Server::new(now, boot, records),
            links: BTreeMap::new(),
            waiting: Vec::new(),
            done: Vec::new(),
            changes: VecDeque::new(),
            releases: Vec::new(),
            releasing: disk::queue(memory, &pool),
            exports: Arc::new(Exports::new(exports, Time { seconds: 1, nanos: 0 }).unwrap()),
            pool,
        }
    }

    /// A client connects.
    pub fn connect(&mut self, link: usize, memory: &Memory) {
        let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
        let config = ServerConfig { exports: Arc::clone(&self.exports), client: ADDRESS, identity };
        let upper = NfsServer::new(config, &self.pool);
        self.links.insert(
            link,
            Link {
                half: Half::new(TcpConnection::new(upper, Config::new(1))),
                queue: disk::queue(memory, &self.pool),
                calls: VecDeque::new(),
                replies: VecDeque::new(),
                to_group: VecDeque::new(),
                from_group: VecDeque::new(),
                is_cut: false,
                has_ended: false,
            },
        );
    }

    /// The next record of a client arrives; what the connection answers at once.
    pub fn arrive(&mut self, now: Instant, link: usize, planted: &mut Planted) -> Vec<Vec<u8>> {
        let Some(at) = self.links.get_mut(&link) else { return Vec::new() };
        if let Some(record) = at.calls.pop_front() {
            let header = Fragment { length: record.len().try_into().unwrap(), is_last: true };
            at.half.receive(now, &[header.encode().to_vec(), record].concat());
        }
        self.drain(now, link, planted)
    }

    /// A connection gets something from inside; what it answers then.
    pub fn input(&mut self, now: Instant, link: usize, input: Input, planted: &mut Planted) -> Vec<Vec<u8>> {
        let Some(at) = self.links.get_mut(&link) else { return Vec::new() };
        at.half.connection.handle_input(now, input);
        self.drain(now, link, planted)
    }

    /// The server notices that a connection is cut.
    pub fn notice(&mut self, now: Instant, link: usize, planted: &mut Planted) {
        if let Some(at) = self.links.get_mut(&link) {
            at.has_ended = true;
            at.half.end(now, Ended::ByPeer);
        }
        self.drain(now, link, planted);
    }

    /// Whether a connection that has ended can leave the group: nothing is under way.
    pub fn may_leave(&self, link: usize) -> bool {
        self.links.get(&link).is_some_and(|at| {
            at.has_ended && at.to_group.is_empty() && at.half.connection.upper().under_way() == 0
        })
    }

    /// Takes out what a connection has for others.
    fn drain(&mut self, now: Instant, link: usize, planted: &mut Planted) -> Vec<Vec<u8>> {
        let Some(at) = self.links.get_mut(&link) else { return Vec::new() };
        let mut replies = Vec::new();
        loop {
            while let Some(action) = at.half.connection.poll_action() {
                match action {
                    Action::Submit(_, request) => {
                        self.done.extend(planted.submitted(link, &request).map(|done| (now, link, done)));
                        self.waiting.push((now, link, request));
                    }
                    Action::Group(request) => {
                        at.to_group.extend(planted.said(link, request).map(|request| (now, request)));
                    }
                }
            }
            let bytes = at.half.transmit(now);
            if bytes.is_empty() {
                return replies;
            }
            replies.extend(records(&bytes));
        }
    }

    /// The group has said and asked something: puts it on its way.
    pub fn drain_group(&mut self, now: Instant, planted: &mut Planted) {
        while let Some(message) = self.group.poll_message() {
            let Some(at) = self.links.get_mut(&message.to) else { continue };
            match planted.heard(message.to, message.message) {
                Ok(reply) => at.from_group.push_back((now, reply)),
                Err(instead) => at.to_group.push_back((now, instead)),
            }
        }
        while let Some(change) = self.group.poll_stable() {
            self.changes.push_back(change);
        }
        while let Some(release) = self.group.poll_release() {
            self.releases.push(release);
        }
    }
}

/// The records in bytes that were sent, each in one fragment.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut records) = (0, Vec::new());
    while at < bytes.len() {
        let word = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let len = (word & 0x7fff_ffff) as usize;
        records.push(bytes[at + 4..at + 4 + len].to_vec());
        at += 4 + len;
    }
    records
}
