//! Ways out of an export, as bytes: names that lead up, links that lead away, handles that nobody has given, trees that are deep. What a folder does about links and
//! renames beneath a client's feet is tested where the folder is.

mod common;

use std::sync::Arc;

use common::{Bench, Caller, Client, CompoundCall, Op, export_of, op, open_grant};
use filesystem::{
    CoreId, Credentials, FileSystem, Memory, MemoryOptions, Name, NewObject, Operation, Outcome,
    QueueContext, Request, SetAttributes, Tag,
};
use nfs::limits::MESSAGE;
use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Status};
use protocol::Instant;

/// Levels of a deep tree, and how many one COMPOUND goes.
const DEPTH: usize = 3000;
const STRIDE: usize = 50;
const FILEID: u32 = 20;

fn ops(first: Op, rest: impl IntoIterator<Item = Op>) -> Vec<Op> {
    [first].into_iter().chain(rest).collect()
}

/// Names that mean a directory, or another's, are no names of anything (RFC 8881 §5.8.1.2 leaves them to servers; §15.1.1.2).
#[test]
fn names_that_lead_up_are_no_names() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    client.open(&mut bench, "file", 3, 0).unwrap();
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::create(2, "dir")]), Status::OK);
    let (inner, file) =
        (client.handle(&mut bench, &["data", "dir"]), client.handle(&mut bench, &["data", "file"]));
    let before = bench.requests.clone();
    for name in ["..", ".", "../file", "/", "dir/..", "a\0b"] {
        let open = |how| op::open(b"owner", 3, 0, how, op::Claim::Null(name));
        let all: [Vec<Op>; 10] = [
            vec![op::lookup(name)],
            vec![op::secinfo(name)],
            vec![op::remove(name)],
            vec![op::create(2, name)],
            vec![op::create(5, name)],
            vec![op::savefh(), op::rename(name, "x")],
            vec![op::savefh(), op::rename("file", name)],
            vec![op::putfh(&file), op::savefh(), op::putfh(&inner), op::link(name)],
            vec![open(op::How::Unchecked(None))],
            vec![open(op::How::NoCreate)],
        ];
        for (number, operations) in all.into_iter().enumerate() {
            let status = client.status(&mut bench, &ops(op::putfh(&inner), operations));
            assert!(matches!(status, Status::BADNAME | Status::BADCHAR), "{name:?}, {number}: {status}");
        }
    }
    assert_eq!(bench.requests, before, "the file system was asked for such a name");
}

/// No bit of a handle can be another and lead to another object, nor can one be shorter or longer.
#[test]
fn forged_handles_lead_nowhere() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    client.open(&mut bench, "file", 3, 0).unwrap();
    let handle = client.handle(&mut bench, &["data", "file"]);
    let root = client.handle(&mut bench, &[]);
    for handle in [handle, root] {
        let mut forged: Vec<Vec<u8>> = (0..handle.len() * 8)
            .map(|bit| {
                let mut forged = handle.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                forged
            })
            .collect();
        forged.extend((0..handle.len()).map(|length| handle[..length].to_vec()));
        forged.push([handle.as_slice(), &[0]].concat());
        forged.push(vec![0; 128]);
        for forged in forged {
            let status = client.status(&mut bench, &[op::putfh(&forged), op::getattr(&[FILEID])]);
            assert!(matches!(status, Status::BADHANDLE | Status::STALE), "{forged:02x?}: {status}");
        }
    }
    let long = vec![1; 129];
    assert_eq!(client.status(&mut bench, &[op::putfh(&long)]), Status::BADXDR);
}

/// Handles of what is removed, and of an export that is not served any more.
#[test]
fn handles_of_what_is_gone_are_stale() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::create(2, "dir")]), Status::OK);
    let gone = client.handle(&mut bench, &["data", "dir"]);
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::remove("dir")]), Status::OK);
    for operation in [op::getattr(&[FILEID]), op::lookup("x"), op::lookupp(), op::create(2, "x")] {
        assert_eq!(client.status(&mut bench, &[op::putfh(&gone), operation]), Status::STALE);
    }
    let export = export_of(&bench.memory, 2, &["elsewhere"], open_grant());
    let mut bench = Bench::with(bench.memory, vec![export], &[], 2);
    let mut client = Client::new(&mut bench, "one");
    assert_eq!(client.status(&mut bench, &[op::putfh(&root)]), Status::STALE);
}

/// Links are told, and never followed.
#[test]
fn links_are_not_followed() {
    let memory = Memory::new(MemoryOptions { root_mode: 0o777, ..MemoryOptions::default() });
    let context = QueueContext::without_pool(CoreId(0), std::task::Waker::noop().clone());
    let mut queue = memory.open_queue(&context).unwrap();
    for (name, target) in [("away", "/etc/passwd"), ("up", "../../.."), ("self", "self")] {
        let operation = Operation::Make {
            directory: memory.root(),
            name: Name::new(name.as_bytes()).unwrap(),
            object: Box::new(NewObject::SymbolicLink(target.as_bytes().to_vec())),
            attributes: Box::new(SetAttributes::default()),
        };
        let credentials = Arc::new(Credentials::of(0, 0));
        queue.submit(Instant::ZERO, Request { tag: Tag(0), credentials, operation }).unwrap();
        let mut done = Vec::new();
        queue.poll(Instant::ZERO, &mut done);
        assert!(matches!(done.pop().unwrap().outcome(), Ok(Outcome::Created(_))));
    }
    let export = export_of(&memory, 1, &["data"], open_grant());
    let mut bench = Bench::with(memory, vec![export], &[], 1);
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    for (name, target) in [("away", "/etc/passwd"), ("up", "../../.."), ("self", "self")] {
        let link = client.handle(&mut bench, &["data", name]);
        let mut results = client.call(&mut bench, &[op::putfh(&link), op::readlink()]);
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::READLINK);
        assert_eq!(results.opaque(), target.as_bytes());
        assert_eq!(client.status(&mut bench, &[op::putfh(&link), op::lookup("x")]), Status::SYMLINK);
        let open = op::open(b"owner", 1, 0, op::How::NoCreate, op::Claim::Null(name));
        assert_eq!(client.status(&mut bench, &[op::putfh(&root), open]), Status::SYMLINK);
        let create = op::open(b"owner", 3, 0, op::How::Unchecked(None), op::Claim::Null(name));
        let status = client.status(&mut bench, &[op::putfh(&root), create]);
        assert!(matches!(status, Status::EXIST | Status::SYMLINK), "{status}");
    }
}

/// A tree that is deep is walked down and up, never above its export, and no part of it is moved into itself.
#[test]
fn deep_trees_are_walked_to_the_end_and_back() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let mut at = client.handle(&mut bench, &["data"]);
    let (root, mut middle) = (at.clone(), at.clone());
    for level in (0..DEPTH).step_by(STRIDE) {
        let down = (0..STRIDE).map(|_| op::create(2, "down"));
        let mut results = client.call(&mut bench, &ops(op::putfh(&at), down.chain([op::getfh()])));
        assert_eq!(results.status, Status::OK, "level {level}");
        results.sequence().ok(OpNumber::PUTFH);
        for _ in 0..STRIDE {
            results.ok(OpNumber::CREATE);
            results.read(|reader| {
                reader.bool()?;
                reader.u64()?;
                reader.u64()?;
                reader.array::<u32>(8)
            });
        }
        at = results.ok(OpNumber::GETFH).opaque();
        if level == DEPTH / 2 {
            middle.clone_from(&at);
        }
    }
    let into = [op::putfh(&root), op::savefh(), op::putfh(&at), op::rename("down", "inside")];
    assert_eq!(client.status(&mut bench, &into), Status::INVAL);
    let into = [op::putfh(&middle), op::savefh(), op::putfh(&at), op::rename("down", "inside")];
    assert_eq!(client.status(&mut bench, &into), Status::INVAL);
    for _ in (0..DEPTH).step_by(STRIDE) {
        let up = (0..STRIDE).map(|_| op::lookupp());
        let mut results = client.call(&mut bench, &ops(op::putfh(&at), up.chain([op::getfh()])));
        results.sequence().ok(OpNumber::PUTFH);
        for _ in 0..STRIDE {
            results.ok(OpNumber::LOOKUPP);
        }
        at = results.ok(OpNumber::GETFH).opaque();
    }
    assert_eq!(at, root);
    let top = client.handle(&mut bench, &[]);
    let mut results = client.call(&mut bench, &[op::putfh(&at), op::lookupp(), op::getfh()]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::LOOKUPP);
    assert_eq!(results.ok(OpNumber::GETFH).opaque(), top);
    assert_eq!(client.status(&mut bench, &[op::putfh(&top), op::lookupp()]), Status::NOENT);
}

/// Whatever READDIR, GETATTR and READ are asked for, a reply is no longer than the session's.
#[test]
fn replies_are_no_longer_than_a_session_of_any_size() {
    let mut bench = Bench::new();
    let mut maker = Client::new(&mut bench, "maker");
    let root = maker.handle(&mut bench, &["data"]);
    for number in 0..2000 {
        let name = format!("{number:0>200}");
        assert_eq!(maker.status(&mut bench, &[op::putfh(&root), op::create(2, &name)]), Status::OK);
    }
    let (stateid, file) = maker.open(&mut bench, "file", 3, 0).unwrap();
    let data = vec![1; 1 << 20];
    assert_eq!(maker.status(&mut bench, &[op::putfh(&file), op::write(stateid, 0, &data)]), Status::OK);
    let small = (512..1024).step_by(4);
    for response in small.chain([1024, 4096, 65_536, 1 << 21]) {
        let mut client = client_of(&mut bench, &format!("client of {response}"), response);
        let most = usize::try_from(response.min(MESSAGE)).unwrap();
        let (stateid, _) = client.open(&mut bench, "file", 1, 0).unwrap();
        let lists = [16, 512, 8192, 1 << 20, u32::MAX]
            .map(|max| vec![op::putfh(&root), op::readdir(0, [0; 8], max, &[1, 3, 4, 20, 33])]);
        let attributes = || op::getattr(&[0, 1, 3, 4, 19, 20, 33, 36, 37, 47, 52, 53]);
        let attributes = ops(op::putfh(&root), (0..40).map(|_| attributes()));
        let reads = ops(op::putfh(&file), (0..3).map(|_| op::read(stateid, 0, u32::MAX)));
        let one = client.status(&mut bench, &[op::putfh(&file), op::read(stateid, 0, u32::MAX)]);
        assert_eq!(one, Status::OK, "a READ is cut to what fits into {response} bytes");
        for operations in lists.into_iter().chain([attributes, reads]) {
            let results = client.call(&mut bench, &operations);
            assert!(results.raw().len() <= most, "{} bytes of {most}", results.raw().len());
            let allowed = [Status::OK, Status::TOOSMALL, Status::REP_TOO_BIG];
            assert!(allowed.contains(&results.status), "{response}: {}", results.status);
        }
    }
}

fn client_of(bench: &mut Bench, name: &str, response: u32) -> Client {
    let (peer, caller) = (bench.connect(), Caller::User(1000));
    let call = CompoundCall::of(&[op::exchange_id(name.as_bytes(), 1, 0)]);
    let mut results = bench.call(peer, &call, caller);
    results.ok(OpNumber::EXCHANGE_ID);
    let (id, sequence) = (ClientId(results.get::<u64>()), results.get::<u32>());
    let call = CompoundCall::of(&[op::create_session_of(id, sequence, 8, response)]);
    let mut results = bench.call(peer, &call, caller);
    results.ok(OpNumber::CREATE_SESSION);
    let session = SessionId(results.get());
    let mut client = Client { id, session, slot: 0, sequence: 0, cache: false, caller, peer, minor: 2 };
    assert_eq!(client.status(bench, &[op::reclaim_complete(false)]), Status::OK);
    client
}
