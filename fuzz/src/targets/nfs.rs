//! NFS: what a client says, as arguments of COMPOUND and as a whole connection to a server over a file system in memory.
#![expect(clippy::panic, reason = "what cannot happen is a finding")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::Waker;

use ::nfs::limits::{ARGUMENTS, CONNECTION_REPLIES, STATE_BYTES};
use ::nfs::server::exports::{ClientRule, Export, Exports, FileKey, FileSystemId, Grant, Squash, Writes};
use ::nfs::server::{Action, Input, NfsServer, ServerConfig, ServerIdentity};
use ::nfs::state::Server;
use ::nfs::state::holdings::Release;
use ::nfs::v4::Principal;
use ::nfs::v4::compound::Compound;
use ::rpc::Config;
use ::rpc::record::Fragment;
use ::rpc::tcp::TcpConnection;
use ::rpc::xdr::{Decoder as _, Reader, Step};
use buf::{Buf, Pool};
use filesystem::{
    CoreId, Credentials, FileSystem, FileSystemQueue, Memory, MemoryOptions, Operation, QueueContext,
    Request, Tag, Time,
};
use protocol::pair::Half;
use protocol::{Connection as _, Ended, Group as _, Instant};

/// The file system's name.
const FILES: FileSystemId = FileSystemId(3);
/// Bytes of all files, and how many there may be.
const MOST_BYTES: u64 = 16 << 20;
const MOST_OBJECTS: u64 = 256;

/// Arguments of COMPOUND, read item by item as a transport reads them.
///
/// # Panics
/// If more was read than was there: a finding.
pub fn arguments(bytes: &[u8]) {
    let mut compound = Compound::new(Principal::Nobody);
    let mut reader = Reader::new(bytes);
    for _ in 0..=bytes.len() {
        match compound.step(&mut reader) {
            Ok(Step::Next | Step::NoPayload) => {}
            Ok(Step::Payload(length)) => {
                let length = length.min(reader.remaining());
                let mut piece = Buf::zeroed(length);
                let (data, behind) = reader.rest().split_at(length);
                piece.copy_from_slice(data);
                reader = Reader::new(behind);
                compound.payload(piece);
            }
            Ok(Step::End) | Err(_) => break,
        }
    }
    compound.give_up();
    assert!(compound.len() <= bytes.len(), "what was read was there");
}

/// A server with one connection.
pub(super) struct Bench {
    half: Half<TcpConnection<NfsServer>>,
    queue: Box<dyn FileSystemQueue>,
    group: Server<u8, FileKey>,
    exports: Arc<Exports>,
}

/// A connection that has just been made.
fn connection(exports: &Arc<Exports>) -> Half<TcpConnection<NfsServer>> {
    let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let config = ServerConfig { exports: Arc::clone(exports), client, identity };
    Half::new(TcpConnection::new(NfsServer::new(config, &Pool::new(32 << 20)), Config::new(1)))
}

impl Bench {
    /// One with a file at `/data/file`.
    pub(super) fn with_file() -> Self {
        let mut bench = Self::new();
        // The fifth message opens the file, which is made by that.
        for message in conversation().iter().take(5) {
            bench.record(message);
        }
        bench
    }

    /// The connection ends, and another begins.
    pub(super) fn reconnect(&mut self) {
        self.leave();
        self.half = connection(&self.exports);
    }

    fn new() -> Self {
        let memory = Memory::new(MemoryOptions {
            root_mode: 0o777,
            bytes: MOST_BYTES,
            inodes: MOST_OBJECTS,
            ..MemoryOptions::default()
        });
        let grant = Grant { squash: Squash::Nobody, ..Grant::new(Writes::Allowed) };
        let export = Export {
            id: 1,
            path: vec![b"data".to_vec()],
            filesystem: FILES,
            root: memory.root(),
            limits: memory.limits(),
            features: memory.features(),
            rules: vec![ClientRule::everybody(grant)],
        };
        let exports = Exports::new(vec![export], Time { seconds: 1, nanos: 0 });
        let exports = Arc::new(exports.unwrap_or_else(|error| panic!("{error:?}")));
        let half = connection(&exports);
        let context = QueueContext::without_pool(CoreId(0), Waker::noop().clone());
        let queue = memory.open_queue(&context).unwrap_or_else(|error| panic!("{error}"));
        Self { half, queue, group: Server::new(Instant::ZERO, 1, &[]), exports }
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.half.receive(Instant::ZERO, bytes);
        self.run();
        let upper = self.half.connection.upper();
        assert!(upper.held() <= 2 * ARGUMENTS + CONNECTION_REPLIES, "{} bytes of one peer", upper.held());
        assert!(self.group.bytes() <= STATE_BYTES, "{} bytes of state", self.group.bytes());
        self.half.transmit(Instant::ZERO)
    }

    fn record(&mut self, message: &[u8]) -> Vec<u8> {
        let bytes = [&Fragment::whole(message.len()).encode()[..], message].concat();
        self.receive(&bytes)
    }

    /// Runs until nothing moves.
    fn run(&mut self) {
        let now = Instant::ZERO;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            while let Some(action) = self.half.connection.poll_action() {
                moved = true;
                match action {
                    Action::Submit(filesystem, request) => {
                        assert_eq!(filesystem, FILES);
                        self.queue.submit(now, request).unwrap_or_else(|full| panic!("{full:?}"));
                    }
                    Action::Group(request) => self.group.handle_message(now, 0, request),
                }
            }
            let mut done = Vec::new();
            self.queue.poll(now, &mut done);
            for completion in done {
                moved = true;
                self.half.connection.handle_input(now, Input::File(completion));
            }
            while let Some(message) = self.group.poll_message() {
                moved = true;
                self.half.connection.handle_input(now, Input::Group(message.message));
            }
            while let Some(change) = self.group.poll_stable() {
                moved = true;
                self.group.handle_stable(now, change.client(), Ok(()));
            }
            self.release(now);
        }
    }

    fn release(&mut self, now: Instant) {
        while let Some(Release { open, .. }) = self.group.poll_release() {
            let credentials = Arc::new(Credentials::of(0, 0));
            let request = Request { tag: Tag(u64::MAX), credentials, operation: Operation::Close { open } };
            self.queue.submit(now, request).unwrap_or_else(|full| panic!("{full:?}"));
            self.queue.poll(now, &mut Vec::new());
        }
    }

    /// The client goes: nothing of it stays under way.
    fn end(mut self) {
        self.leave();
    }

    fn leave(&mut self) {
        self.half.end(Instant::ZERO, Ended::ByPeer);
        self.run();
        assert_eq!(self.half.connection.upper().under_way(), 0, "a COMPOUND waits for nobody");
        self.group.handle_leave(Instant::ZERO, 0);
        self.run();
    }
}

/// What a client says, as its bytes come.
pub fn stream(bytes: &[u8]) {
    let mut bench = Bench::new();
    for chunk in super::chunks(bytes) {
        bench.receive(chunk);
    }
    bench.end();
}

/// Calls, each behind two bytes of length: the fuzzer need not find out how records are marked.
pub fn calls(bytes: &[u8]) {
    let mut bench = Bench::new();
    let mut reader = wire::Reader::new(bytes);
    while let Ok(length) = reader.u16_le() {
        let message = reader.take(usize::from(length).min(reader.remaining())).unwrap_or_default();
        bench.record(message);
    }
    bench.end();
}

/// One COMPOUND as a call.
fn call(xid: u32, count: u32, operations: &[u8]) -> Vec<u8> {
    let front = [xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 0, 2, count];
    [words(&front), operations.to_vec()].concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Calls that are worth beginning from: a client that establishes itself, and does everything once.
pub fn conversation() -> Vec<Vec<u8>> {
    let mut bench = Bench::new();
    let exchange = call(1, 1, &words(&[42, 1, 2, 1, 0x6300_0000, 0, 0, 0]));
    let reply = bench.record(&exchange);
    // Behind the record's mark: 6 words of RPC, 3 of COMPOUND, 2 of the result.
    let client = reply.get(48..56).unwrap_or_default();
    let channel = [0, 1 << 20, 1 << 20, 4096, 16, 8, 0];
    let create =
        [&words(&[43])[..], client, &words(&[1, 0]), &words(&channel), &words(&channel), &words(&[0, 1, 0])]
            .concat();
    let create = call(2, 1, &create);
    let reply = bench.record(&create);
    let session = reply.get(48..64).unwrap_or_default();
    let mut all = vec![exchange, create];
    let name = |text: [u8; 4]| [4, u32::from_be_bytes(text)];
    let [n1, n2] = name(*b"data");
    let [f1, f2] = name(*b"file");
    let stateid = [0; 4];
    let current = [1, 0, 0, 0];
    let owner: Vec<u32> = [&[18, 0, 3, 0][..], &client_words(client), &[1, 0x6f00_0000]].concat();
    let open = [&owner[..], &[1, 0, 1, 0, 0, 0, f1, f2]].concat();
    let write = [&[38][..], &current, &[0, 0, 2, 5, 0x0102_0304, 0x0500_0000]].concat();
    let lock = [&[12, 2, 0, 0, 0, 0, 9, 1, 0][..], &current, &[0], &client_words(client), &[1, 0x6c00_0000]]
        .concat();
    let read = [&[25][..], &current, &[0, 0, 100]].concat();
    let anonymous = [&[25][..], &stateid, &[0, 0, 100]].concat();
    let read_dir = [26, 0, 0, 0, 0, 4096, 4096, 2, 0x0010_011a, 0x0030_a23a];
    let close = [&[4, 0][..], &current].concat();
    let compounds: [(u32, Vec<u32>); 8] = [
        (1, vec![58, 0]),
        (2, vec![24, 15, n1, n2]),
        (4, [&[24, 15, n1, n2][..], &open, &write].concat()),
        (5, [&[24, 15, n1, n2][..], &open, &lock, &read].concat()),
        (3, [&[24, 15, n1, n2][..], &read_dir].concat()),
        (4, [&[24, 15, n1, n2, 15, f1, f2][..], &anonymous].concat()),
        (4, [&[24, 15, n1, n2][..], &open, &close].concat()),
        (3, vec![24, 15, n1, n2, 28, f1, f2]),
    ];
    for ((count, operations), number) in compounds.into_iter().zip(1..) {
        let sequence = [&words(&[53])[..], session, &words(&[number, 0, 7, 0])].concat();
        all.push(call(number + 2, count + 1, &[sequence, words(&operations)].concat()));
    }
    all
}

fn client_words(client: &[u8]) -> Vec<u32> {
    client.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_be_bytes)).collect()
}
