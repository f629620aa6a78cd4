//! The errors of each operation (RFC 8881 §15.2, RFC 7862 §11.2), each provoked by bytes; the same table is the middle of docs/protocols/nfs.md.
//!
//! `UPDATE_TABLES=1 cargo test -p nfs --test errors` writes it anew.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fmt::Write as _;

use common::{Bench, Caller, Client, CompoundCall, Op, op};
use nfs::v4::operation::OpNumber;
use nfs::v4::{Stateid, StateidOther, Status};

const BOTH: u32 = 3;
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../", "docs/protocols/nfs.md");
const BEGIN: &str = "<!-- errors: begin -->\n";
const END: &str = "<!-- errors: end -->\n";

/// What there is: a directory, a file that is open, a lock of it, a symbolic link, and another client.
struct World {
    bench: Bench,
    one: Client,
    two: Client,
    root: Vec<u8>,
    dir: Vec<u8>,
    file: Vec<u8>,
    link: Vec<u8>,
    open: Stateid,
    reading: Stateid,
    read_file: Vec<u8>,
    lock: Stateid,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::new();
        let (mut one, two) = (Client::new(&mut bench, "one"), Client::new(&mut bench, "two"));
        let root = one.handle(&mut bench, &["data"]);
        for (kind, name) in [(2, "dir"), (5, "link")] {
            assert_eq!(one.status(&mut bench, &[op::putfh(&root), op::create(kind, name)]), Status::OK);
        }
        let [dir, link] = ["dir", "link"].map(|name| one.handle(&mut bench, &["data", name]));
        assert_eq!(one.status(&mut bench, &[op::putfh(&dir), op::create(2, "inner")]), Status::OK);
        let (open, file) = one.open(&mut bench, "file", BOTH, 0).unwrap();
        let (reading, read_file) = one.open(&mut bench, "read", 1, 0).unwrap();
        let mut results = one.call(&mut bench, &[op::putfh(&file), op::lock_new(2, 0, 10, open, b"l")]);
        results.sequence().ok(OpNumber::PUTFH).ok(OpNumber::LOCK);
        let lock = results.stateid();
        Self { bench, one, two, root, dir, file, link, open, reading, read_file, lock }
    }
}

/// One row: an operation, what is wrong, and what it comes to.
struct Row {
    number: OpNumber,
    what: &'static str,
    status: Status,
    begin: fn(&World) -> Vec<Op>,
}

fn old(stateid: Stateid) -> Stateid {
    Stateid { seqid: stateid.seqid - 1, ..stateid }
}

fn newer(stateid: Stateid) -> Stateid {
    Stateid { seqid: stateid.seqid + 1, ..stateid }
}

const UNKNOWN: Stateid = Stateid { seqid: 1, other: StateidOther([9; 12]) };

fn long() -> String {
    "n".repeat(256)
}

fn open(how: op::How, claim: op::Claim<'_>) -> Op {
    op::open(b"o", BOTH, 0, how, claim)
}

macro_rules! rows {
    ($($number:ident: $what:literal => $status:ident, $world:ident, [$($operation:expr),* $(,)?];)*) => {
        vec![$(Row {
            number: OpNumber::$number,
            what: $what,
            status: Status::$status,
            begin: |$world: &World| { let _ = $world; vec![$($operation),*] },
        }),*]
    };
}

fn rows() -> Vec<Row> {
    let mut rows = names();
    rows.extend(data());
    rows.extend(states());
    rows
}

fn names() -> Vec<Row> {
    use op::How::{Guarded, NoCreate, Unchecked};
    rows! {
        ACCESS: "no current handle" => NOFILEHANDLE, w, [op::access(1)];
        ACCESS: "the object is gone" => STALE, w, [op::putfh(&w.root), op::create(2, "x"), op::savefh(), op::getfh(), op::putfh(&w.root), op::remove("x"), op::restorefh(), op::access(1)];
        CREATE: "no current handle" => NOFILEHANDLE, w, [op::create(2, "x")];
        CREATE: "in a file" => NOTDIR, w, [op::putfh(&w.file), op::create(2, "x")];
        CREATE: "the name is taken" => EXIST, w, [op::putfh(&w.root), op::create(2, "dir")];
        CREATE: "a regular file" => BADTYPE, w, [op::putfh(&w.root), op::create(1, "x")];
        CREATE: "no name" => INVAL, w, [op::putfh(&w.root), op::create(2, "")];
        CREATE: "a name of 256 bytes" => NAMETOOLONG, w, [op::putfh(&w.root), op::create(2, &long())];
        CREATE: "the name .." => BADNAME, w, [op::putfh(&w.root), op::create(2, "..")];
        CREATE: "in the pseudo file system" => ROFS, w, [op::putrootfh(), op::create(2, "x")];
        GETATTR: "no current handle" => NOFILEHANDLE, w, [op::getattr(&[1])];
        GETATTR: "an attribute that can only be set" => INVAL, w, [op::putfh(&w.file), op::getattr(&[48])];
        GETFH: "no current handle" => NOFILEHANDLE, w, [op::getfh()];
        LINK: "no saved handle" => NOFILEHANDLE, w, [op::putfh(&w.root), op::link("x")];
        LINK: "the object is a directory" => ISDIR, w, [op::putfh(&w.dir), op::savefh(), op::putfh(&w.root), op::link("x")];
        LINK: "in a file" => NOTDIR, w, [op::putfh(&w.file), op::savefh(), op::putfh(&w.file), op::link("x")];
        LINK: "the name is taken" => EXIST, w, [op::putfh(&w.file), op::savefh(), op::putfh(&w.root), op::link("dir")];
        LOOKUP: "no current handle" => NOFILEHANDLE, w, [op::lookup("x")];
        LOOKUP: "no such name" => NOENT, w, [op::putfh(&w.root), op::lookup("x")];
        LOOKUP: "in a file" => NOTDIR, w, [op::putfh(&w.file), op::lookup("x")];
        LOOKUP: "in a symbolic link" => SYMLINK, w, [op::putfh(&w.link), op::lookup("x")];
        LOOKUP: "no name" => INVAL, w, [op::putfh(&w.root), op::lookup("")];
        LOOKUP: "a name of 256 bytes" => NAMETOOLONG, w, [op::putfh(&w.root), op::lookup(&long())];
        LOOKUP: "a name with a slash" => BADNAME, w, [op::putfh(&w.root), op::lookup("a/b")];
        LOOKUPP: "no current handle" => NOFILEHANDLE, w, [op::lookupp()];
        LOOKUPP: "of the root of everything" => NOENT, w, [op::putrootfh(), op::lookupp()];
        LOOKUPP: "of a file" => NOTDIR, w, [op::putfh(&w.file), op::lookupp()];
        LOOKUPP: "of a symbolic link" => SYMLINK, w, [op::putfh(&w.link), op::lookupp()];
        PUTFH: "a handle of nobody" => BADHANDLE, w, [op::putfh(&[9, 9])];
        PUTFH: "a handle of an export that is not there" => STALE, w, [op::putfh(&[1, 0, 0, 0, 9, 1])];
        READDIR: "no current handle" => NOFILEHANDLE, w, [op::readdir(0, [0; 8], 4096, &[])];
        READDIR: "of a file" => NOTDIR, w, [op::putfh(&w.file), op::readdir(0, [0; 8], 4096, &[])];
        READDIR: "a cookie that is reserved" => BAD_COOKIE, w, [op::putfh(&w.dir), op::readdir(2, [0; 8], 4096, &[])];
        READDIR: "room for no entry" => TOOSMALL, w, [op::putfh(&w.dir), op::readdir(0, [0; 8], 16, &[])];
        READDIR: "an attribute that can only be set" => INVAL, w, [op::putfh(&w.dir), op::readdir(0, [0; 8], 4096, &[54])];
        READLINK: "no current handle" => NOFILEHANDLE, w, [op::readlink()];
        READLINK: "of a directory of the pseudo file system" => WRONG_TYPE, w, [op::putrootfh(), op::readlink()];
        REMOVE: "no current handle" => NOFILEHANDLE, w, [op::remove("x")];
        REMOVE: "no such name" => NOENT, w, [op::putfh(&w.root), op::remove("x")];
        REMOVE: "a directory that is not empty" => NOTEMPTY, w, [op::putfh(&w.root), op::remove("dir")];
        REMOVE: "in a file" => NOTDIR, w, [op::putfh(&w.file), op::remove("x")];
        RENAME: "no saved handle" => NOFILEHANDLE, w, [op::putfh(&w.root), op::rename("a", "b")];
        RENAME: "no such name" => NOENT, w, [op::putfh(&w.root), op::savefh(), op::rename("a", "b")];
        RENAME: "a directory into itself" => INVAL, w, [op::putfh(&w.root), op::savefh(), op::putfh(&w.dir), op::rename("dir", "b")];
        RENAME: "from the pseudo file system" => ROFS, w, [op::putrootfh(), op::savefh(), op::putfh(&w.root), op::rename("data", "b")];
        RESTOREFH: "nothing was saved" => NOFILEHANDLE, w, [op::restorefh()];
        SAVEFH: "no current handle" => NOFILEHANDLE, w, [op::savefh()];
        SECINFO: "no such name" => NOENT, w, [op::putfh(&w.root), op::secinfo("x")];
        SECINFO: "in a file" => NOTDIR, w, [op::putfh(&w.file), op::secinfo("x")];
        SECINFO_NO_NAME: "no current handle" => NOFILEHANDLE, w, [op::secinfo_no_name(0)];
        SECINFO_NO_NAME: "the parent of the root" => NOENT, w, [op::putrootfh(), op::secinfo_no_name(1)];
        OPEN: "no current handle" => NOFILEHANDLE, w, [open(NoCreate, op::Claim::Fh)];
        OPEN: "no such name" => NOENT, w, [op::putfh(&w.root), open(NoCreate, op::Claim::Null("x"))];
        OPEN: "in a file" => NOTDIR, w, [op::putfh(&w.file), open(NoCreate, op::Claim::Null("x"))];
        OPEN: "a directory" => ISDIR, w, [op::putfh(&w.root), open(NoCreate, op::Claim::Null("dir"))];
        OPEN: "an export" => ISDIR, w, [op::putrootfh(), open(NoCreate, op::Claim::Null("data"))];
        OPEN: "a symbolic link" => SYMLINK, w, [op::putfh(&w.root), open(NoCreate, op::Claim::Null("link"))];
        OPEN: "GUARDED4, and the name is taken" => EXIST, w, [op::putfh(&w.root), open(Guarded, op::Claim::Null("file"))];
        OPEN: "nothing to access" => INVAL, w, [op::putfh(&w.root), op::open(b"o", 0, 0, NoCreate, op::Claim::Null("file"))];
        OPEN: "an unknown deny mode" => INVAL, w, [op::putfh(&w.root), op::open(b"o", 1, 4, NoCreate, op::Claim::Null("file"))];
        OPEN: "CLAIM_FH that makes a file" => INVAL, w, [op::putfh(&w.file), open(Unchecked(None), op::Claim::Fh)];
        OPEN: "another has what is denied" => SHARE_DENIED, w, [op::putfh(&w.file), op::open(b"other", 1, 2, NoCreate, op::Claim::Fh)];
        OPEN: "a reclaim without grace" => NO_GRACE, w, [op::putfh(&w.file), open(NoCreate, op::Claim::Previous)];
        OPEN: "a claim that needs a delegation" => NOTSUPP, w, [op::putfh(&w.root), open(NoCreate, op::Claim::DelegateCurrent("file"))];
        OPEN: "made in the pseudo file system" => ROFS, w, [op::putrootfh(), open(Unchecked(None), op::Claim::Null("x"))];
    }
}

fn data() -> Vec<Row> {
    use op::Attributes as A;
    rows! {
        READ: "no current handle" => NOFILEHANDLE, w, [op::read(w.open, 0, 1)];
        READ: "a directory" => ISDIR, w, [op::putfh(&w.dir), op::read(Stateid::ANONYMOUS, 0, 1)];
        READ: "a stateid of nobody" => BAD_STATEID, w, [op::putfh(&w.file), op::read(UNKNOWN, 0, 1)];
        READ: "a stateid of another file" => BAD_STATEID, w, [op::putfh(&w.read_file), op::read(w.open, 0, 1)];
        READ: "a stateid that is not the newest" => OLD_STATEID, w, [op::putfh(&w.file), op::lock(2, 20, 1, w.lock), op::read(w.lock, 0, 1)];
        READ: "a stateid of the future" => BAD_STATEID, w, [op::putfh(&w.file), op::read(newer(w.open), 0, 1)];
        READ: "no stateid of this COMPOUND" => BAD_STATEID, w, [op::putfh(&w.file), op::read(Stateid::CURRENT, 0, 1)];
        WRITE: "no current handle" => NOFILEHANDLE, w, [op::write(w.open, 0, b"x")];
        WRITE: "the open is for reading" => OPENMODE, w, [op::putfh(&w.read_file), op::write(w.reading, 0, b"x")];
        WRITE: "a directory" => ISDIR, w, [op::putfh(&w.dir), op::write(Stateid::ANONYMOUS, 0, b"x")];
        WRITE: "beyond what files can be" => FBIG, w, [op::putfh(&w.file), op::write(w.open, 1 << 62, b"x")];
        WRITE: "the pseudo file system" => ROFS, w, [op::putrootfh(), op::write(Stateid::ANONYMOUS, 0, b"x")];
        COMMIT: "no current handle" => NOFILEHANDLE, w, [op::commit(0, 0)];
        COMMIT: "a directory" => ISDIR, w, [op::putfh(&w.dir), op::commit(0, 0)];
        SETATTR: "no current handle" => NOFILEHANDLE, w, [op::setattr(w.open, &A::mode(0))];
        SETATTR: "the size, and the open is for reading" => OPENMODE, w, [op::putfh(&w.read_file), op::setattr(w.reading, &A::size(0))];
        SETATTR: "an attribute that nobody knows" => ATTRNOTSUPP, w, [op::putfh(&w.file), op::setattr(w.open, &A { numbers: vec![90], values: vec![] })];
        SETATTR: "an attribute that cannot be set" => INVAL, w, [op::putfh(&w.file), op::setattr(w.open, &A { numbers: vec![20], values: vec![0; 8] })];
        SETATTR: "an owner that is no number" => BADOWNER, w, [op::putfh(&w.file), op::setattr(w.open, &A { numbers: vec![36], values: vec![0, 0, 0, 1, b'x', 0, 0, 0] })];
        SETATTR: "values that are too short" => BADXDR, w, [op::putfh(&w.file), op::setattr(w.open, &A { numbers: vec![33], values: vec![0, 0] })];
        SETATTR: "another user's file" => PERM, w, [op::putrootfh(), op::lookup("data"), op::setattr(w.open, &A::mode(0))];
        VERIFY: "other attributes" => NOT_SAME, w, [op::putfh(&w.file), op::verify(&A::size(9))];
        NVERIFY: "the same attributes" => SAME, w, [op::putfh(&w.file), op::nverify(&A::size(0))];
        VERIFY: "an attribute that nobody knows" => ATTRNOTSUPP, w, [op::putfh(&w.file), op::verify(&A { numbers: vec![90], values: vec![] })];
        SEEK: "at the end" => NXIO, w, [op::putfh(&w.file), op::seek(w.open, 0, 0)];
        SEEK: "a directory" => ISDIR, w, [op::putfh(&w.dir), op::seek(Stateid::ANONYMOUS, 0, 0)];
        ALLOCATE: "nothing" => INVAL, w, [op::putfh(&w.file), op::ranged(OpNumber::ALLOCATE, w.open, 0, 0)];
        ALLOCATE: "the open is for reading" => OPENMODE, w, [op::putfh(&w.read_file), op::ranged(OpNumber::ALLOCATE, w.reading, 0, 1)];
        DEALLOCATE: "a stateid of nobody" => BAD_STATEID, w, [op::putfh(&w.file), op::ranged(OpNumber::DEALLOCATE, UNKNOWN, 0, 1)];
        COPY: "no saved handle" => NOFILEHANDLE, w, [op::putfh(&w.file), op::copy(w.open, w.open, 1)];
        COPY: "onto itself" => INVAL, w, [op::putfh(&w.file), op::write(w.open, 0, b"xyz"), op::savefh(), op::copy(w.open, w.open, 2)];
        COPY: "the source's stateid is of nobody" => BAD_STATEID, w, [op::putfh(&w.read_file), op::savefh(), op::putfh(&w.file), op::copy(UNKNOWN, w.open, 1)];
    }
}

fn states() -> Vec<Row> {
    rows! {
        CLOSE: "no current handle" => NOFILEHANDLE, w, [op::close(w.open)];
        CLOSE: "a stateid of another file" => BAD_STATEID, w, [op::putfh(&w.read_file), op::close(w.open)];
        CLOSE: "a lock's stateid" => BAD_STATEID, w, [op::putfh(&w.file), op::close(w.lock)];
        CLOSE: "a special stateid" => BAD_STATEID, w, [op::putfh(&w.file), op::close(Stateid::ANONYMOUS)];
        OPEN_DOWNGRADE: "to what was never asked for" => INVAL, w, [op::putfh(&w.file), op::downgrade(w.open, 1, 0)];
        OPEN_DOWNGRADE: "to nothing" => INVAL, w, [op::putfh(&w.file), op::downgrade(w.open, 0, 0)];
        OPEN_DOWNGRADE: "a stateid of nobody" => BAD_STATEID, w, [op::putfh(&w.file), op::downgrade(UNKNOWN, 3, 0)];
        LOCK: "no current handle" => NOFILEHANDLE, w, [op::lock_new(1, 0, 1, w.open, b"m")];
        LOCK: "no bytes" => INVAL, w, [op::putfh(&w.file), op::lock_new(1, 0, 0, w.open, b"m")];
        LOCK: "bytes past the largest offset" => INVAL, w, [op::putfh(&w.file), op::lock_new(1, u64::MAX, 2, w.open, b"m")];
        LOCK: "another owner has it" => DENIED, w, [op::putfh(&w.file), op::lock_new(1, 5, 1, w.open, b"m")];
        LOCK: "exclusively, and the open is for reading" => OPENMODE, w, [op::putfh(&w.read_file), op::lock_new(2, 0, 1, w.reading, b"m")];
        LOCK: "a stateid of nobody" => BAD_STATEID, w, [op::putfh(&w.file), op::lock(2, 0, 1, UNKNOWN)];
        LOCK: "a stateid that is not the newest" => OLD_STATEID, w, [op::putfh(&w.file), op::lock(2, 0, 1, w.lock), op::lock(2, 0, 1, w.lock)];
        LOCK: "a directory" => BAD_STATEID, w, [op::putfh(&w.dir), op::lock_new(1, 0, 1, w.open, b"m")];
        LOCKT: "a directory" => ISDIR, w, [op::putfh(&w.dir), op::lockt(1, 0, 1, b"m")];
        LOCKT: "a symbolic link" => SYMLINK, w, [op::putfh(&w.link), op::lockt(1, 0, 1, b"m")];
        LOCKT: "another owner has it" => DENIED, w, [op::putfh(&w.file), op::lockt(1, 5, 1, b"m")];
        LOCKT: "no bytes" => INVAL, w, [op::putfh(&w.file), op::lockt(1, 0, 0, b"m")];
        LOCKU: "no bytes" => INVAL, w, [op::putfh(&w.file), op::locku(w.lock, 0, 0)];
        LOCKU: "an open's stateid" => BAD_STATEID, w, [op::putfh(&w.file), op::locku(w.open, 0, 1)];
        FREE_STATEID: "of nobody" => BAD_STATEID, w, [op::free_stateid(UNKNOWN)];
        FREE_STATEID: "a lock's, with locks" => LOCKS_HELD, w, [op::free_stateid(w.lock)];
        FREE_STATEID: "an open's" => LOCKS_HELD, w, [op::free_stateid(w.open)];
        RECLAIM_COMPLETE: "for the second time" => COMPLETE_ALREADY, w, [op::reclaim_complete(false)];
        RECLAIM_COMPLETE: "of one file system, without a handle" => NOFILEHANDLE, w, [op::reclaim_complete(true)];
        DESTROY_CLIENTID: "in use" => CLIENTID_BUSY, w, [op::destroy_client(w.two.id)];
        DESTROY_SESSION: "that is not there" => BADSESSION, w, [op::destroy_session(nfs::v4::SessionId([7; 16]))];
        CREATE_SESSION: "of an unknown client" => STALE_CLIENTID, w, [op::create_session(nfs::v4::ClientId(7), 1, 1)];
        CREATE_SESSION: "with a wrong sequence ID" => SEQ_MISORDERED, w, [op::create_session(w.one.id, 9, 1)];
        EXCHANGE_ID: "an update of nobody's record" => NOENT, w, [op::exchange_id(b"nobody", 1, 0x4000_0000)];
        EXCHANGE_ID: "an update with another verifier" => NOT_SAME, w, [op::exchange_id(b"one", 9, 0x4000_0000)];
        EXCHANGE_ID: "an unknown flag" => INVAL, w, [op::exchange_id(b"x", 1, 8)];
        SEQUENCE: "not in front" => SEQUENCE_POS, w, [op::sequence(w.one.session, 1, 0, 0, false)];
        BIND_CONN_TO_SESSION: "not alone" => NOT_ONLY_OP, w, [op::bind(w.one.session, 1)];
        WANT_DELEGATION: "not served" => NOTSUPP, w, [op::raw(56, &[])];
        LAYOUTGET: "not served" => NOTSUPP, w, [op::raw(50, &[])];
        OPENATTR: "not served" => NOTSUPP, w, [op::raw(19, &[0])];
        SETCLIENTID: "of version 4.0" => NOTSUPP, w, [op::raw(35, &[])];
        READ_PLUS: "not served" => NOTSUPP, w, [op::raw(68, &[])];
        CLONE: "not served" => NOTSUPP, w, [op::raw(71, &[])];
    }
}

#[test]
fn each_operation_fails_as_the_standard_says() {
    let mut table = String::from("| operation | what is wrong | answer |\n|---|---|---|\n");
    let mut wrong = Vec::new();
    let mut rows = rows();
    rows.sort_by_key(|row| row.number.name());
    for row in &rows {
        let mut world = World::new();
        let operations = (row.begin)(&world);
        let results = world.one.call(&mut world.bench, &operations);
        if results.status != row.status || results.count as usize != operations.len() + 1 {
            let (got, count) = (results.status, results.count);
            wrong.push(format!("{}, {}: {got} after {count} results", row.number.name(), row.what));
        }
        writeln!(table, "| {} | {} | {} |", row.number.name(), row.what, row.status).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (front, rest) = document.split_once(BEGIN).unwrap();
    let (middle, back) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(DOCUMENT, format!("{front}{BEGIN}{table}{END}{back}")).unwrap();
    } else {
        assert_eq!(middle, table, "UPDATE_TABLES=1 writes the document's table anew");
    }
}

/// What stands first, alone, and without a session.
#[test]
fn the_first_operation_decides() {
    let mut world = World::new();
    let peer = world.one.peer;
    for (operation, status) in [
        (op::putrootfh(), Status::OP_NOT_IN_SESSION),
        (op::raw(2, &[]), Status::OP_ILLEGAL),
        (op::raw(53, &[1]), Status::BADXDR),
        (op::raw(30, &[0, 0]), Status::OP_NOT_IN_SESSION),
    ] {
        let call = CompoundCall::of(&[operation]);
        assert_eq!(world.bench.call(peer, &call, Caller::User(1)).status, status);
    }
    assert_eq!(old(newer(world.open)), world.open);
    assert_eq!(
        world.two.status(&mut world.bench, &[op::putfh(&world.file), op::read(world.open, 0, 1)]),
        Status::BAD_STATEID
    );
}
