//! A client's whole way, in bytes: session, names, data, directories, locks (RFC 8881, RFC 7862).

mod common;

use common::{Bench, Caller, Client, CompoundCall, op};
use nfs::v4::operation::OpNumber;
use nfs::v4::{Stateid, Status};

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;

#[test]
fn a_file_is_made_written_read_and_removed() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 0).unwrap();
    let mut results =
        client.call(&mut bench, &[op::putfh(&handle), op::write(stateid, 3, b"hello"), op::commit(0, 0)]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::WRITE);
    assert_eq!((results.get::<u32>(), results.get::<u32>()), (5, 2));
    let verifier = results.get::<[u8; 8]>();
    results.ok(OpNumber::COMMIT);
    assert_eq!(results.get::<[u8; 8]>(), verifier);
    results.end();
    let mut results = client.call(&mut bench, &[op::putfh(&handle), op::read(stateid, 0, 100)]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::READ);
    assert!(results.get::<bool>());
    assert_eq!(results.opaque(), b"\0\0\0hello");
    results.end();
    let root = client.handle(&mut bench, &["data"]);
    let mut results = client
        .call(&mut bench, &[op::putfh(&handle), op::close(stateid), op::putfh(&root), op::remove("file")]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::CLOSE);
    assert_eq!(results.stateid(), Stateid::INVALID);
    results.ok(OpNumber::PUTFH).ok(OpNumber::REMOVE);
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::lookup("file")]), Status::NOENT);
    assert_eq!(client.status(&mut bench, &[op::putfh(&handle), op::getattr(&[1])]), Status::STALE);
}

#[test]
fn the_pseudo_file_system_leads_to_exports() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let mut results = client.call(
        &mut bench,
        &[
            op::putrootfh(),
            op::getattr(&[1, 8, 55]),
            op::lookup("data"),
            op::getattr(&[1, 8, 20, 55]),
            op::lookupp(),
            op::getfh(),
        ],
    );
    results.sequence().ok(OpNumber::PUTROOTFH).ok(OpNumber::GETATTR);
    let bitmap = results.read(|reader| reader.array::<u32>(8));
    assert_eq!(bitmap, [1 << 1 | 1 << 8, 1 << 23]);
    let pseudo = results.opaque();
    results.ok(OpNumber::LOOKUP).ok(OpNumber::GETATTR);
    results.read(|reader| reader.array::<u32>(8));
    let data = results.opaque();
    assert_ne!(pseudo[4..20], data[4..20], "another file system");
    results.ok(OpNumber::LOOKUPP).ok(OpNumber::GETFH);
    let root = results.opaque();
    let mut results = client.call(&mut bench, &[op::putrootfh(), op::getfh()]);
    results.sequence().ok(OpNumber::PUTROOTFH).ok(OpNumber::GETFH);
    assert_eq!(results.opaque(), root);
    for refused in
        [op::create(2, "dir"), op::remove("data"), op::setattr(Stateid::ANONYMOUS, &op::Attributes::mode(0))]
    {
        assert_eq!(client.status(&mut bench, &[op::putrootfh(), refused]), Status::ROFS);
    }
    assert_eq!(client.status(&mut bench, &[op::putrootfh(), op::lookupp()]), Status::NOENT);
    assert_eq!(client.status(&mut bench, &[op::putrootfh(), op::lookup("other")]), Status::NOENT);
}

/// Every entry of a directory once, whatever the size of the answers.
#[test]
fn directories_are_listed_in_parts() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    for number in 0..40 {
        let name = format!("entry-{number:02}");
        assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::create(2, &name)]), Status::OK);
    }
    for (max, numbers) in [(300, &[][..]), (600, &[1, 20, 33]), (4096, &[1, 19, 42]), (100_000, &[1, 4, 36])]
    {
        let (mut cookie, mut verifier, mut names) = (0, [0; 8], Vec::new());
        loop {
            let mut results =
                client.call(&mut bench, &[op::putfh(&root), op::readdir(cookie, verifier, max, numbers)]);
            assert_eq!(results.status, Status::OK, "{max} bytes");
            let len = results.raw().len();
            assert!(len <= max as usize + 200, "{len} bytes of {max}");
            results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::READDIR);
            verifier = results.get();
            while results.get::<bool>() {
                cookie = results.get::<u64>();
                names.push(String::from_utf8(results.opaque()).unwrap());
                results.read(|reader| reader.array::<u32>(8));
                results.opaque();
            }
            if results.get::<bool>() {
                results.end();
                break;
            }
        }
        names.sort();
        let expected: Vec<String> = (0..40).map(|number| format!("entry-{number:02}")).collect();
        assert_eq!(names, expected, "{max} bytes");
    }
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&root), op::readdir(0, [0; 8], 20, &[1])]),
        Status::TOOSMALL
    );
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&root), op::readdir(1, [0; 8], 4096, &[1])]),
        Status::BAD_COOKIE
    );
    let mut results = client.call(&mut bench, &[op::putrootfh(), op::readdir(0, [0; 8], 4096, &[1, 8, 19])]);
    results.sequence().ok(OpNumber::PUTROOTFH).ok(OpNumber::READDIR);
    results.get::<[u8; 8]>();
    assert!(results.get::<bool>());
    results.get::<u64>();
    assert_eq!(results.opaque(), b"data");
}

#[test]
fn an_unchecked_creation_cuts_only_what_nobody_protects() {
    let mut bench = Bench::new();
    let (mut one, mut two) = (Client::new(&mut bench, "one"), Client::new(&mut bench, "two"));
    let (stateid, handle) = one.open(&mut bench, "file", BOTH, WRITE).unwrap();
    assert_eq!(one.status(&mut bench, &[op::putfh(&handle), op::write(stateid, 0, b"kept")]), Status::OK);
    let root = two.handle(&mut bench, &["data"]);
    let cutting = || op::open(b"o", WRITE, 0, op::How::Unchecked(Some(0)), op::Claim::Null("file"));
    assert_eq!(two.status(&mut bench, &[op::putfh(&root), cutting()]), Status::SHARE_DENIED);
    let size = |bench: &mut Bench, client: &mut Client| {
        let mut results = client.call(bench, &[op::putfh(&handle), op::getattr(&[4])]);
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::GETATTR);
        results.read(|reader| reader.array::<u32>(8));
        results.opaque()
    };
    assert_eq!(size(&mut bench, &mut two), 4_u64.to_be_bytes());
    assert_eq!(one.status(&mut bench, &[op::putfh(&handle), op::close(stateid)]), Status::OK);
    assert_eq!(two.status(&mut bench, &[op::putfh(&root), cutting()]), Status::OK);
    assert_eq!(size(&mut bench, &mut two), 0_u64.to_be_bytes());
}

#[test]
fn the_stateid_of_a_compound_is_its_own() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    let open = || op::open(b"o", BOTH, 0, op::How::Unchecked(None), op::Claim::Null("file"));
    let current = Stateid::CURRENT;
    let operations = [
        op::putfh(&root),
        open(),
        op::write(current, 0, b"x"),
        op::read(current, 0, 9),
        op::close(current),
        op::read(current, 0, 1),
    ];
    let mut results = client.call(&mut bench, &operations);
    assert_eq!((results.status, results.count), (Status::BAD_STATEID, 7));
    results.sequence();
    // Another file has another, and what was saved comes back.
    let operations =
        [op::putfh(&root), open(), op::savefh(), op::putfh(&root), op::restorefh(), op::read(current, 0, 9)];
    assert_eq!(client.status(&mut bench, &operations), Status::OK);
    let operations = [op::putfh(&root), open(), op::putfh(&root), op::read(current, 0, 9)];
    assert_eq!(client.status(&mut bench, &operations), Status::BAD_STATEID);
}

#[test]
fn whoever_made_a_file_may_write_it_whatever_its_mode() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 0).unwrap();
    let operations = [
        op::putfh(&handle),
        op::setattr(Stateid::ANONYMOUS, &op::Attributes::mode(0)),
        op::write(stateid, 0, b"x"),
    ];
    assert_eq!(client.status(&mut bench, &operations), Status::OK);
    client.caller = Caller::User(7);
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&handle), op::write(Stateid::ANONYMOUS, 0, b"x")]),
        Status::ACCESS
    );
}

#[test]
fn exclusive_creation_can_be_repeated_by_its_verifier_only() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    let open = |verifier| op::open(b"o", BOTH, 0, op::How::Exclusive([verifier; 8]), op::Claim::Null("file"));
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), open(1)]), Status::OK);
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), open(1)]), Status::OK);
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), open(2)]), Status::EXIST);
    let guarded = op::open(b"o", BOTH, 0, op::How::Guarded, op::Claim::Null("file"));
    assert_eq!(client.status(&mut bench, &[op::putfh(&root), guarded]), Status::EXIST);
}

#[test]
fn locks_are_granted_denied_and_given_up() {
    let mut bench = Bench::new();
    let (mut one, mut two) = (Client::new(&mut bench, "one"), Client::new(&mut bench, "two"));
    let (first, handle) = one.open(&mut bench, "file", BOTH, 0).unwrap();
    let (second, _) = two.open(&mut bench, "file", BOTH, 0).unwrap();
    let mut results = one.call(&mut bench, &[op::putfh(&handle), op::lock_new(2, 10, 10, first, b"l")]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::LOCK);
    let lock = results.stateid();
    let mut results = two.call(&mut bench, &[op::putfh(&handle), op::lock_new(1, 0, u64::MAX, second, b"m")]);
    results.sequence().ok(OpNumber::PUTFH);
    assert_eq!(results.next(OpNumber::LOCK), Status::DENIED);
    assert_eq!((results.get::<u64>(), results.get::<u64>(), results.get::<u32>()), (10, 10, 2));
    assert_eq!((results.get::<u64>(), results.opaque()), (one.id.0, b"l".to_vec()));
    results.end();
    assert_eq!(two.status(&mut bench, &[op::putfh(&handle), op::lockt(1, 19, 1, b"m")]), Status::DENIED);
    assert_eq!(two.status(&mut bench, &[op::putfh(&handle), op::lockt(1, 20, 1, b"m")]), Status::OK);
    assert_eq!(one.status(&mut bench, &[op::putfh(&handle), op::locku(lock, 0, u64::MAX)]), Status::OK);
    assert_eq!(
        two.status(&mut bench, &[op::putfh(&handle), op::lock_new(1, 0, u64::MAX, second, b"m")]),
        Status::OK
    );
    assert_eq!(one.status(&mut bench, &[op::putfh(&handle), op::lock(1, 0, 1, lock)]), Status::OLD_STATEID);
}

#[test]
fn space_is_allocated_found_released_and_copied() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 0).unwrap();
    let (other, target) = client.open(&mut bench, "copy", BOTH, 0).unwrap();
    let data = vec![7; 8192];
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&handle), op::write(stateid, 65_536, &data)]),
        Status::OK
    );
    let mut results = client.call(&mut bench, &[op::putfh(&handle), op::seek(stateid, 0, 0)]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::SEEK);
    assert_eq!((results.get::<bool>(), results.get::<u64>()), (false, 65_536));
    let mut results = client.call(
        &mut bench,
        &[op::putfh(&handle), op::savefh(), op::putfh(&target), op::copy(stateid, other, 0)],
    );
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::SAVEFH).ok(OpNumber::PUTFH).ok(OpNumber::COPY);
    assert_eq!((results.get::<u32>(), results.get::<u64>()), (0, 73_728));
    let hole = op::ranged(OpNumber::DEALLOCATE, stateid, 65_536, 8192);
    let mut results = client.call(&mut bench, &[op::putfh(&handle), hole, op::seek(stateid, 0, 0)]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::DEALLOCATE).ok(OpNumber::SEEK);
    assert_eq!((results.get::<bool>(), results.get::<u64>()), (true, 73_728));
    assert_eq!(client.status(&mut bench, &[op::putfh(&handle), op::seek(stateid, 73_728, 0)]), Status::NXIO);
    let mut results = client.call(&mut bench, &[op::putfh(&target), op::read(other, 65_536, 8192)]);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::READ);
    results.get::<bool>();
    assert_eq!(results.opaque(), data);
}

#[test]
fn names_are_changed_and_linked_across_directories() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let root = client.handle(&mut bench, &["data"]);
    for name in ["a", "b"] {
        assert_eq!(client.status(&mut bench, &[op::putfh(&root), op::create(2, name)]), Status::OK);
    }
    let [a, b] = ["a", "b"].map(|name| client.handle(&mut bench, &["data", name]));
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&a), op::create(5, "link"), op::readlink()]),
        Status::OK
    );
    let rename =
        [op::putfh(&a), op::savefh(), op::putfh(&b), op::rename("link", "moved"), op::lookup("moved")];
    assert_eq!(client.status(&mut bench, &rename), Status::OK);
    let (_, file) = client.open(&mut bench, "file", READ, 0).unwrap();
    let link = [
        op::putfh(&file),
        op::savefh(),
        op::putfh(&b),
        op::link("second"),
        op::lookup("second"),
        op::getfh(),
    ];
    let mut results = client.call(&mut bench, &link);
    assert_eq!(results.status, Status::OK);
    results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::SAVEFH).ok(OpNumber::PUTFH).ok(OpNumber::LINK);
    results.get::<[u8; 20]>();
    assert_eq!(results.ok(OpNumber::LOOKUP).ok(OpNumber::GETFH).opaque(), file);
    assert_eq!(
        client.status(&mut bench, &[op::putfh(&b), op::secinfo("second"), op::getfh()]),
        Status::NOFILEHANDLE
    );
}

#[test]
fn verify_compares_what_the_server_would_tell() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (_, handle) = client.open(&mut bench, "file", READ, 0).unwrap();
    let empty = op::Attributes::size(0);
    let full = op::Attributes::size(9);
    let cases = [
        (op::verify(&empty), Status::OK),
        (op::verify(&full), Status::NOT_SAME),
        (op::nverify(&empty), Status::SAME),
        (op::nverify(&full), Status::OK),
        (op::verify(&op::Attributes { numbers: vec![48], values: vec![0; 4] }), Status::INVAL),
        (op::verify(&op::Attributes { numbers: vec![12], values: vec![] }), Status::ATTRNOTSUPP),
    ];
    for (operation, status) in cases {
        assert_eq!(client.status(&mut bench, &[op::putfh(&handle), operation]), status);
    }
}

/// In the steady state nothing but the file system is asked.
#[test]
fn reads_and_writes_need_no_message() {
    let mut bench = Bench::new();
    let mut client = Client::new(&mut bench, "one");
    let (stateid, handle) = client.open(&mut bench, "file", BOTH, 0).unwrap();
    let before = bench.messages;
    for _ in 0..100 {
        let operations =
            [op::putfh(&handle), op::write(stateid, 0, b"x"), op::read(stateid, 0, 1), op::getattr(&[4])];
        assert_eq!(client.status(&mut bench, &operations), Status::OK);
    }
    assert_eq!(bench.messages, before);
}

#[test]
fn version_4_0_and_3_are_told_what_there_is() {
    let mut bench = Bench::new();
    let peer = bench.connect();
    let mut call = CompoundCall::of(&[op::putrootfh()]);
    call.minor = 0;
    let results = bench.call(peer, &call, Caller::Nobody);
    assert_eq!((results.status, results.count), (Status::MINOR_VERS_MISMATCH, 0));
    let mut call = CompoundCall::new();
    call.minor = 1;
    let results = bench.call(peer, &call, Caller::Nobody);
    assert_eq!((results.status, results.count), (Status::OK, 0));
}
