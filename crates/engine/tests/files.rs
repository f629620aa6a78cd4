//! A file system that is served by NFS beside a volume: over both cores, with records that are kept, a withdrawal, and the end of all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use common::{LARGE, READ, Server, portal, ram, transfer};
use engine::{
    Catalogue, ClientRecords, ControlEvent, Generation, ListenerRole, Message, NamedVolume, NfsPortal,
    NfsStart, ServedFiles,
};
use filesystem::{FileSystem, Memory, MemoryOptions, Time};
use host::ListenerId;
use nfs::server::ServerIdentity;
use nfs::server::exports::{ClientRule, Export, Exports, FileSystemId, Grant, Squash, Writes};
use nfs::state::stable::StableChange;
use nfs::v4::Status;
use protocol::CloseReason;
use volume::VolumeId;

const FILES: VolumeId = VolumeId::new(1, 0);
const NFS: ListenerId = ListenerId(1);

/// Notes what is to be kept; the test says when it is.
#[derive(Debug, Default)]
struct Records(Mutex<Vec<StableChange>>);

impl ClientRecords for Records {
    fn change(&self, change: StableChange) {
        self.0.lock().unwrap().push(change);
    }
}

/// A server of a volume and a file system, and a client of the latter.
struct Bench {
    server: Server,
    catalogue: Catalogue,
    memory: Arc<Memory>,
    records: Arc<Records>,
    xid: u32,
}

fn exports(memory: &Memory) -> Exports {
    let export = Export {
        id: 1,
        path: vec![b"data".to_vec()],
        filesystem: FileSystemId(1),
        root: memory.root(),
        limits: memory.limits(),
        features: memory.features(),
        rules: vec![ClientRule::everybody(Grant { squash: Squash::Nobody, ..Grant::new(Writes::Allowed) })],
    };
    Exports::new(vec![export], Time { seconds: 1, nanos: 0 }).unwrap()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const ROOT: [u32; 1] = [24];
const DATA: [u32; 3] = [15, 4, 0x6461_7461];

impl Bench {
    fn new() -> Self {
        let memory = Arc::new(Memory::new(MemoryOptions { root_mode: 0o777, ..MemoryOptions::default() }));
        let volume = ram();
        let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
        let roles = vec![
            ListenerRole::Nvme(Arc::new(portal(&*volume))),
            ListenerRole::Nfs(Arc::new(NfsPortal { exports: Arc::new(exports(&memory)), identity })),
        ];
        let records = Arc::new(Records::default());
        let keeper = Arc::clone(&records) as Arc<dyn ClientRecords>;
        let catalogue = Catalogue {
            files: vec![ServedFiles {
                id: FILES,
                name: "data".into(),
                filesystem: Arc::clone(&memory) as Arc<dyn FileSystem>,
            }],
            nfs: Some(Arc::new(NfsStart { boot: 7, records: Vec::new(), keeper })),
            ..Catalogue::first([NamedVolume { name: "disk".into(), volume }], roles)
        };
        let server = Server::serving(&catalogue);
        Self { server, catalogue, memory, records, xid: 0 }
    }

    fn send(&mut self, stream: usize, operations: &[Vec<u8>]) {
        self.xid += 1;
        let count = u32::try_from(operations.len()).unwrap();
        let call = words(&[self.xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 0, 2, count]);
        let call = [call, operations.concat()].concat();
        let mark = 0x8000_0000 | u32::try_from(call.len()).unwrap();
        self.server.bytes(stream, &[words(&[mark]), call].concat());
    }

    /// What came of the last call: its status, and the reply from there on.
    fn reply(&mut self, stream: usize) -> Option<(Status, Vec<u8>)> {
        let bytes = self.server.received(stream);
        let status = bytes.get(28..32)?;
        assert_eq!(bytes[4..8], words(&[self.xid]), "the reply to this call");
        Some((Status(u32::from_be_bytes(status.try_into().unwrap())), bytes[32..].to_vec()))
    }

    fn call(&mut self, stream: usize, operations: &[Vec<u8>]) -> (Status, Vec<u8>) {
        self.send(stream, operations);
        self.reply(stream).expect("an answer")
    }

    /// All changes that are wanted are durable.
    fn keep(&mut self) {
        for change in std::mem::take(&mut *self.records.0.lock().unwrap()) {
            self.server.post(Message::NfsRecord(change.client(), Ok(())));
        }
        self.server.run();
    }

    /// A client with a session over a stream on that core.
    fn client(&mut self, core: usize) -> Client {
        let stream = self.server.knock_at(core, NFS);
        let owner = if core == 0 { 0x6300_0000 } else { 0x6500_0000 };
        let (status, reply) = self.call(stream, &[words(&[42, 1, 2, 1, owner, 0, 0, 0])]);
        assert_eq!(status, Status::OK);
        let id = reply[16..24].to_vec();
        let channel = words(&[0, 1 << 20, 1 << 20, 4096, 16, 8, 0]);
        let create = [words(&[43]), id, words(&[1, 0]), channel.clone(), channel, words(&[0, 1, 0])].concat();
        let (status, reply) = self.call(stream, &[create]);
        assert_eq!(status, Status::OK);
        let mut client = Client { stream, session: reply[16..32].to_vec(), sequence: 0 };
        let complete = client.compound(&[words(&[58, 0])]);
        self.send(stream, &complete);
        assert_eq!(self.reply(stream), None, "its record is not durable yet");
        self.keep();
        assert_eq!(self.reply(stream).unwrap().0, Status::OK);
        client
    }

    fn status(&mut self, client: &mut Client, operations: &[Vec<u8>]) -> Status {
        let operations = client.compound(operations);
        self.call(client.stream, &operations).0
    }
}

struct Client {
    stream: usize,
    session: Vec<u8>,
    sequence: u32,
}

impl Client {
    fn compound(&mut self, operations: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.sequence += 1;
        let sequence = [words(&[53]), self.session.clone(), words(&[self.sequence, 0, 0, 0])].concat();
        [vec![sequence], operations.to_vec()].concat()
    }
}

fn make(name: u32) -> Vec<u8> {
    // CREATE of a directory with no attributes.
    words(&[6, 2, 4, name, 0, 0])
}

#[test]
fn files_and_blocks_are_served_side_by_side_on_both_cores() {
    let mut bench = Bench::new();
    for core in [0, 1] {
        let mut client = bench.client(core);
        let name = 0x6162_6330 + u32::try_from(core).unwrap();
        let into = [words(&ROOT), words(&DATA), make(name)];
        assert_eq!(bench.status(&mut client, &into), Status::OK);
        assert_eq!(bench.status(&mut client, &into), Status::EXIST);
        let found = [words(&ROOT), words(&DATA), words(&[15, 4, name])];
        assert_eq!(bench.status(&mut client, &found), Status::OK);
    }
    bench.server.send(1, transfer(READ, 7));
    assert_eq!(bench.server.received(1).len(), 24 + LARGE as usize, "data, whose end is its completion");
    assert!(bench.memory.statistics().requests > 0);
}

#[test]
fn a_file_system_less_is_gone_for_its_clients_and_retires() {
    let mut bench = Bench::new();
    let mut client = bench.client(1);
    let look = [words(&ROOT), words(&DATA)];
    assert_eq!(bench.status(&mut client, &look), Status::OK);
    let mut next = Catalogue { generation: Generation(2), files: Vec::new(), ..bench.catalogue.clone() };
    let ListenerRole::Nfs(now) = &bench.catalogue.listeners[1].role else { panic!("the second is NFS'") };
    let emptied = NfsPortal { exports: Arc::new(now.exports.emptied()), ..(**now).clone() };
    next.listeners[1].role = ListenerRole::Nfs(Arc::new(emptied));
    let observed = bench.server.propose(next);
    let retired = ControlEvent::Retired { id: FILES, secured: true, forced: 0 };
    assert_eq!(observed[0], ControlEvent::Applied(Generation(2)));
    bench.server.wait(std::time::Duration::from_secs(6));
    let later = bench.server.observed();
    assert!(observed.contains(&retired) || later.contains(&retired), "{observed:?} {later:?}");
    assert_eq!(bench.status(&mut client, &look), Status::NOENT);
}

#[test]
fn a_server_that_stops_ends_connections_of_files_too() {
    let mut bench = Bench::new();
    let stream = bench.server.knock_at(1, NFS);
    bench.call(stream, &[words(&[42, 1, 2, 1, 0x6300_0000, 0, 0, 0])]);
    let client = bench.client(1);
    assert_ne!(client.stream, stream);
    bench.server.stop();
    assert_eq!(bench.server.close_reason(client.stream), Some(CloseReason::ShuttingDown));
    bench.server.end(client.stream);
    assert!(bench.server.is_idle(client.stream));
}

#[test]
fn a_stream_that_ends_leaves_its_call_to_the_owner_of_the_state() {
    let mut bench = Bench::new();
    let mut client = bench.client(0);
    // A second client's record: its call is under way until that is durable.
    let stream = bench.server.knock_at(1, NFS);
    let (_, reply) = bench.call(stream, &[words(&[42, 1, 2, 1, 0x6400_0000, 0, 0, 0])]);
    let channel = words(&[0, 1 << 20, 1 << 20, 4096, 16, 8, 0]);
    let create =
        [words(&[43]), reply[16..24].to_vec(), words(&[1, 0]), channel.clone(), channel, words(&[0, 1, 0])];
    let (_, reply) = bench.call(stream, &[create.concat()]);
    let mut second = Client { stream, session: reply[16..32].to_vec(), sequence: 0 };
    let complete = second.compound(&[words(&[58, 0])]);
    bench.send(stream, &complete);
    bench.server.end(stream);
    assert!(!bench.server.is_idle(stream), "its call is under way");
    bench.keep();
    assert!(bench.server.is_idle(stream));
    assert_eq!(bench.status(&mut client, &[words(&ROOT)]), Status::OK);
}
