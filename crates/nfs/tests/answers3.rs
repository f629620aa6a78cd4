//! What version 3 makes of whatever a file system answers: each failure, handles that are too long, and what is left out.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod v3;

use std::collections::VecDeque;
use std::sync::Arc;

use buf::{Account, BufList, Pool, SharedBuf};
use common::{ADDRESS, FS, export_of, open_grant};
use filesystem::{
    Attributes, Completion, Cookie, CookieVerifier, Created, DirectoryChange, Entry, EntryObject, Failure,
    FileErrorKind, FileHandle, FileSystem as _, FileType, Fsid, Name, Object, Outcome, Page, PreOperation,
    Request, SpecData, Stability, Time, WccData, WriteVerifier,
};
use nfs::server::exports::{Exports, FileKey};
use nfs::server::{Action, Input, NfsServer, ServerConfig, ServerIdentity};
use nfs::state::Server;
use nfs::v3::Status;
use nfs::v3::procedure::Number;
use protocol::pair::Half;
use protocol::{Connection, Group, Instant};
use rpc::Config;
use rpc::record::Fragment;
use rpc::tcp::TcpConnection;
use v3::{
    NFS, Reply, USER, Wanted, create, link, mkdir, object, place, read, readdir, record, rename, setattr,
    write,
};

/// A connection whose file system answers what the test says, one after the other.
struct Told {
    half: Half<TcpConnection<NfsServer>>,
    group: Server<usize, FileKey>,
    root: Vec<u8>,
    answers: VecDeque<Result<Outcome, FileErrorKind>>,
    asked: usize,
    pool: Pool,
    xid: u32,
}

impl Told {
    fn new() -> Self {
        let memory = v3::memory();
        let export = export_of(&memory, 1, &["data"], open_grant());
        let exports = Arc::new(Exports::new(vec![export], Time::default()).unwrap());
        let root = [&[1, 0, 0, 0, 1], memory.root().as_bytes()].concat();
        let identity = ServerIdentity { owner: b"owner".to_vec(), scope: b"scope".to_vec() };
        let pool = Pool::new(2 << 20);
        let upper = NfsServer::new(ServerConfig { exports, client: ADDRESS, identity }, &pool);
        let half = Half::new(TcpConnection::new(upper, Config::new(1)));
        let group = Server::new(Instant::ZERO, 1, &[]);
        Self { half, group, root, answers: VecDeque::new(), asked: 0, pool, xid: 0 }
    }

    fn call(
        &mut self,
        number: Number,
        arguments: &[u8],
        answers: impl IntoIterator<Item = Result<Outcome, FileErrorKind>>,
    ) -> Reply {
        self.answers = answers.into_iter().collect();
        self.asked = 0;
        self.xid += 1;
        let bytes = record(self.xid, NFS, number.0, USER, arguments);
        let header = Fragment { length: bytes.len().try_into().unwrap(), is_last: true };
        self.half.receive(Instant::ZERO, &[header.encode().as_slice(), &bytes].concat());
        self.run();
        assert_eq!(self.half.connection.upper().under_way(), 0);
        let sent = self.half.transmit(Instant::ZERO);
        Reply::new(&sent[4..])
    }

    fn run(&mut self) {
        while let Some(action) = self.half.connection.poll_action() {
            match action {
                Action::Submit(filesystem, request) => {
                    assert_eq!(filesystem, FS);
                    self.asked += 1;
                    let completion = self.complete(request);
                    self.half.connection.handle_input(Instant::ZERO, Input::File(completion));
                }
                Action::Group(request) => self.group.handle_message(Instant::ZERO, 0, request),
            }
            while let Some(message) = self.group.poll_message() {
                self.half.connection.handle_input(Instant::ZERO, Input::Group(message.message));
            }
        }
    }

    fn complete(&mut self, Request { tag, operation, .. }: Request) -> Completion {
        let answer = self.answers.pop_front().unwrap_or(Err(FileErrorKind::Stale));
        Completion { tag, result: answer.map_err(|kind| Failure::of(operation, kind)) }
    }
}

fn attributes(fileid: u64) -> Attributes {
    Attributes {
        file_type: FileType::Directory,
        mode: 0o755,
        numlinks: 2,
        owner: 1,
        owner_group: 2,
        size: 3,
        space_used: 4,
        rawdev: SpecData::default(),
        fsid: Fsid::default(),
        fileid,
        change: 5,
        time_access: Time::default(),
        time_modify: Time::default(),
        time_metadata: Time::default(),
        time_create: None,
    }
}

fn handle(bytes: usize) -> FileHandle {
    FileHandle::new(&vec![7; bytes]).unwrap()
}

fn found(bytes: usize) -> Outcome {
    Outcome::Found(Box::new(Object { handle: handle(bytes), attributes: attributes(9) }))
}

fn known(fileid: u64) -> Outcome {
    Outcome::Attributes(Box::new(attributes(fileid)))
}

fn change(atomic: bool) -> DirectoryChange {
    DirectoryChange { atomic, before: PreOperation::from(&attributes(8)), after: attributes(8) }
}

fn created(bytes: usize, atomic: bool) -> Outcome {
    let object = Object { handle: handle(bytes), attributes: attributes(9) };
    Outcome::Created(Box::new(Created { object, is_new: true, directory: change(atomic), open: None }))
}

/// Calls of every procedure that asks the file system first.
fn calls(root: &[u8]) -> Vec<(Number, Vec<u8>)> {
    vec![
        (Number::GETATTR, object(root)),
        (Number::SETATTR, setattr(root, Wanted::mode(0o700), None)),
        (Number::SETATTR, setattr(root, Wanted::size(1), None)),
        (Number::LOOKUP, place(root, "x")),
        (Number::ACCESS, v3::access(root, 63)),
        (Number::READLINK, object(root)),
        (Number::READ, read(root, 0, 9)),
        (Number::WRITE, write(root, 0, 0, b"x")),
        (Number::CREATE, create(root, "x", 0, Wanted::default())),
        (Number::MKDIR, mkdir(root, "x")),
        (Number::SYMLINK, v3::symlink(root, "x", "y")),
        (Number::MKNOD, v3::mknod(root, "x", 7)),
        (Number::REMOVE, place(root, "x")),
        (Number::RMDIR, place(root, "x")),
        (Number::RENAME, rename((root, "x"), (root, "y"))),
        (Number::LINK, link(root, root, "x")),
        (Number::READDIR, readdir(root, 0, [0; 8], None, 4096)),
        (Number::READDIRPLUS, readdir(root, 0, [0; 8], Some(4096), 4096)),
        (Number::FSSTAT, object(root)),
        (Number::FSINFO, object(root)),
        (Number::PATHCONF, object(root)),
        (Number::COMMIT, v3::commit(root)),
    ]
}

#[test]
fn each_failure_of_the_file_system_has_its_status() {
    for kind in FileErrorKind::ALL {
        let mut told = Told::new();
        for (number, arguments) in calls(&told.root.clone()) {
            let reply = told.call(number, &arguments, [Err(kind), Ok(known(5))]);
            let expected = match number {
                Number::READDIR | Number::READDIRPLUS if kind == FileErrorKind::Invalid => Status::TOOSMALL,
                _ => Status::of(kind).within(number),
            };
            assert_eq!(reply.status, expected, "{}: {kind:?}", number.name());
            let asks = number != Number::GETATTR && !expected.concerns_the_handle();
            assert_eq!(told.asked, 1 + usize::from(asks));
            assert_eq!(reply.failure(number).map(|attributes| attributes.fileid), asks.then_some(5));
        }
    }
}

#[test]
fn answers_to_something_else_are_a_fault_of_the_server() {
    let mut told = Told::new();
    for (number, arguments) in calls(&told.root.clone()) {
        let reply = told.call(number, &arguments, [Ok(Outcome::Done), Ok(Outcome::Done)]);
        assert_eq!(reply.status, Status::SERVERFAULT, "{}", number.name());
        assert_eq!(reply.failure(number), None);
    }
}

#[test]
fn handles_that_are_too_long_are_not_told() {
    let mut told = Told::new();
    let root = told.root.clone();
    for (bytes, fits) in [(59, true), (60, false), (64, false)] {
        let reply = told.call(Number::LOOKUP, &place(&root, "x"), [Ok(found(bytes)), Ok(known(1))]);
        assert_eq!(reply.status, if fits { Status::OK } else { Status::SERVERFAULT });
        for (number, arguments) in
            [(Number::CREATE, create(&root, "x", 0, Wanted::default())), (Number::MKDIR, mkdir(&root, "x"))]
        {
            let mut reply = told.call(number, &arguments, [Ok(created(bytes, true))]).ok();
            assert_eq!((reply.handle().is_some(), reply.post().unwrap().fileid), (fits, 9));
            assert!(reply.wcc().before.is_some());
            reply.end();
        }
        let name = Name::new(b"x").unwrap();
        let object = Some(EntryObject { handle: handle(bytes), attributes: attributes(9) });
        let entries = vec![
            Entry { cookie: Cookie(3), fileid: 9, name: name.clone(), object },
            Entry { cookie: Cookie(4), fileid: 10, name, object: None },
        ];
        let page =
            Page { entries, verifier: CookieVerifier([1; 8]), eof: true, directory: Some(attributes(1)) };
        let list = readdir(&root, 2, [1; 8], Some(4096), 4096);
        let page = told.call(Number::READDIRPLUS, &list, [Ok(Outcome::Page(Box::new(page)))]).page(true);
        assert_eq!((page.entries[0].handle.is_some(), page.entries[0].attributes.unwrap().fileid), (fits, 9));
        assert_eq!(
            (&page.entries[1].handle, page.entries[1].attributes),
            (&None, None),
            "it was removed meanwhile"
        );
    }
}

#[test]
fn what_is_not_known_is_left_out() {
    let mut told = Told::new();
    let root = told.root.clone();
    // A change of which nobody knows whether it was the only one.
    let mut reply = told.call(Number::MKDIR, &mkdir(&root, "x"), [Ok(created(16, false))]).ok();
    reply.handle();
    reply.post();
    let wcc = reply.wcc();
    assert_eq!((wcc.before, wcc.after.unwrap().fileid), (None, 8));
    let mut reply =
        told.call(Number::REMOVE, &place(&root, "x"), [Ok(Outcome::Removed(Box::new(change(false))))]).ok();
    assert_eq!(reply.wcc().before, None);
    // The directory went after its name was found.
    let mut reply =
        told.call(Number::LOOKUP, &place(&root, "x"), [Ok(found(16)), Err(FileErrorKind::Stale)]).ok();
    assert_eq!(reply.opaque().len(), 21);
    assert_eq!((reply.post().unwrap().fileid, reply.post()), (9, None));
    reply.end();
    let data: BufList = SharedBuf::from(b"abc".to_vec()).into();
    let mut reply = told
        .call(Number::READ, &read(&root, 0, 9), [Ok(Outcome::Data { data, eof: false, attributes: None })])
        .ok();
    assert_eq!((reply.post(), reply.u32(), reply.bool(), reply.opaque()), (None, 3, false, b"abc".to_vec()));
    reply.end();
    let written = Outcome::Written {
        stability: Stability::DataSync,
        verifier: WriteVerifier([3; 8]),
        file: WccData::default(),
    };
    let mut reply = told.call(Number::WRITE, &write(&root, 0, 0, b"x"), [Ok(written)]).ok();
    let wcc = reply.wcc();
    assert_eq!((wcc.before, wcc.after), (None, None));
    assert_eq!((reply.u32(), reply.u32(), reply.verifier()), (1, 1, [3; 8]));
    reply.end();
}

/// A READ that finds no memory waits for it, and asks the file system only then.
#[test]
fn a_read_waits_for_memory() {
    let mut told = Told::new();
    let root = told.root.clone();
    let mut other = Account::new(&told.pool);
    let taken: Vec<_> = std::iter::from_fn(|| other.take(64 << 10)).collect();
    assert!(!taken.is_empty());
    let bytes = record(7, NFS, Number::READ.0, USER, &read(&root, 0, u32::MAX));
    let header = Fragment { length: bytes.len().try_into().unwrap(), is_last: true };
    let data: BufList = SharedBuf::from(b"abc".to_vec()).into();
    told.answers.push_back(Ok(Outcome::Data { data, eof: true, attributes: None }));
    told.half.receive(Instant::ZERO, &[header.encode().as_slice(), &bytes].concat());
    told.run();
    assert_eq!((told.asked, told.half.connection.upper().under_way()), (0, 1));
    assert!(told.half.connection.awaits_memory());
    drop(taken);
    told.half.connection.handle_memory(Instant::ZERO);
    told.run();
    assert_eq!((told.asked, told.half.connection.upper().under_way()), (1, 0));
    let sent = told.half.transmit(Instant::ZERO);
    assert_eq!(Reply::new(&sent[4..]).status, Status::OK);
}
