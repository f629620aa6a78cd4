//! The errors of each procedure of version 3 and of MNT (RFC 1813 §3.3, appendix I §5.2.1), each provoked by bytes; the same table is in docs/protocols/nfs3.md.
//!
//! `UPDATE_TABLES=1 cargo test -p nfs --test errors3` writes it anew.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
mod v3;

use std::fmt::Write as _;

use common::Bench;
use filesystem::NFS3_HANDLE_BYTES;
use nfs::v3::Status;
use nfs::v3::procedure::{Number, PROCEDURES};
use v3::{
    Mounted, Wanted, by_export, create, link, mkdir, mknod, object, place, read, readdir, setattr, write,
};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../", "docs/protocols/nfs3.md");
const BEGIN: &str = "<!-- errors: begin -->\n";
const END: &str = "<!-- errors: end -->\n";
const ME: Option<u32> = v3::USER;
const OTHER: Option<u32> = Some(2000);

/// What there is: a directory with another in it, a file, a symbolic link, and a directory and a file that are their owner's alone.
struct World {
    bench: Bench,
    one: Mounted,
    root: Vec<u8>,
    dir: Vec<u8>,
    file: Vec<u8>,
    link: Vec<u8>,
    private: Vec<u8>,
    secret: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let mut bench = v3::bench();
        let mut one = Mounted::new(&mut bench, "/data");
        let root = one.root.clone();
        let dir = one.make(&mut bench, Number::MKDIR, &mkdir(&root, "dir"));
        one.ok(&mut bench, Number::MKDIR, &mkdir(&dir, "inner"));
        let file = one.file(&mut bench, "file", b"bytes");
        let link = one.make(&mut bench, Number::SYMLINK, &v3::symlink(&root, "link", "file"));
        let private = one.make(&mut bench, Number::MKDIR, &mkdir(&root, "private"));
        one.ok(&mut bench, Number::MKDIR, &mkdir(&private, "x"));
        one.ok(&mut bench, Number::SETATTR, &setattr(&private, Wanted::mode(0o700), None));
        let secret = one.file(&mut bench, "secret", b"bytes");
        one.ok(&mut bench, Number::SETATTR, &setattr(&secret, Wanted::mode(0o600), None));
        Self { bench, one, root, dir, file, link, private, secret }
    }

    /// The handle of what is not there any more.
    fn gone(&mut self) -> Vec<u8> {
        let handle = self.one.file(&mut self.bench, "gone", b"");
        let root = self.root.clone();
        self.one.ok(&mut self.bench, Number::REMOVE, &place(&root, "gone"));
        handle
    }

    /// The verifier of a listing.
    fn verifier(&mut self) -> [u8; 8] {
        let list = readdir(&self.root, 0, [0; 8], None, 4096);
        self.one.ok(&mut self.bench, Number::READDIR, &list).page(false).verifier
    }
}

/// One row: a procedure, what is wrong, and what it comes to.
struct Row {
    number: Number,
    what: &'static str,
    status: Status,
    user: Option<u32>,
    begin: fn(&mut World) -> Vec<u8>,
}

macro_rules! rows {
    ($($number:ident by $user:ident: $what:literal => $status:ident, $world:ident, $arguments:expr;)*) => {
        vec![$(Row {
            number: Number::$number,
            what: $what,
            status: Status::$status,
            user: $user,
            begin: |$world: &mut World| $arguments,
        }),*]
    };
}

fn long() -> String {
    "n".repeat(256)
}

/// Arguments that would do if the handle did.
fn usual(number: Number, handle: &[u8]) -> Vec<u8> {
    match number {
        Number::GETATTR | Number::READLINK | Number::FSSTAT | Number::FSINFO | Number::PATHCONF => {
            object(handle)
        }
        Number::SETATTR => setattr(handle, Wanted::mode(0o600), None),
        Number::LOOKUP | Number::REMOVE | Number::RMDIR => place(handle, "x"),
        Number::ACCESS => v3::access(handle, 63),
        Number::READ | Number::COMMIT => read(handle, 0, 9),
        Number::WRITE => write(handle, 0, 2, b"x"),
        Number::CREATE => create(handle, "x", 0, Wanted::default()),
        Number::MKDIR => mkdir(handle, "x"),
        Number::SYMLINK => v3::symlink(handle, "x", "y"),
        Number::MKNOD => mknod(handle, "x", 7),
        Number::RENAME => v3::rename((handle, "x"), (handle, "y")),
        Number::LINK => link(handle, handle, "x"),
        Number::READDIR => readdir(handle, 0, [0; 8], None, 4096),
        Number::READDIRPLUS => readdir(handle, 0, [0; 8], Some(4096), 4096),
        other => panic!("{other:?}"),
    }
}

fn rows() -> Vec<Row> {
    let mut rows = objects();
    rows.extend(names());
    rows.extend(listings());
    rows
}

fn objects() -> Vec<Row> {
    rows! {
        SETATTR by ME: "the guard is not the time of the last change" => NOT_SYNC, w, setattr(&w.file, Wanted::mode(0o600), Some((1, 1)));
        SETATTR by OTHER: "the mode of another's file" => PERM, w, setattr(&w.file, Wanted::mode(0o600), None);
        SETATTR by ME: "the file is given away" => PERM, w, setattr(&w.file, Wanted { owner: Some(2000), ..Wanted::default() }, None);
        SETATTR by ME: "an owner that is none" => INVAL, w, setattr(&w.file, Wanted { owner: Some(u32::MAX), ..Wanted::default() }, None);
        SETATTR by OTHER: "the size of another's file" => ACCES, w, setattr(&w.file, Wanted::size(0), None);
        SETATTR by ME: "the size of a directory" => INVAL, w, setattr(&w.dir, Wanted::size(0), None);
        SETATTR by ME: "the size of a symbolic link" => INVAL, w, setattr(&w.link, Wanted::size(0), None);
        SETATTR by ME: "a size beyond what files can be" => INVAL, w, setattr(&w.file, Wanted::size(u64::MAX), None);
        SETATTR by ME: "a time with a billion nanoseconds" => INVAL, w, setattr(&w.file, Wanted { modified: Some((1, 1_000_000_000)), ..Wanted::default() }, None);
        SETATTR by OTHER: "a time of another's file" => PERM, w, setattr(&w.file, Wanted { modified: Some((1, 1)), ..Wanted::default() }, None);
        READLINK by ME: "a file" => INVAL, w, object(&w.file);
        READLINK by ME: "a directory" => INVAL, w, object(&w.dir);
        READ by ME: "a directory" => INVAL, w, read(&w.dir, 0, 1);
        READ by ME: "a symbolic link" => INVAL, w, read(&w.link, 0, 1);
        READ by ME: "an offset that is none" => INVAL, w, read(&w.file, u64::MAX, 1);
        READ by OTHER: "another's file" => ACCES, w, read(&w.secret, 0, 1);
        WRITE by ME: "a directory" => INVAL, w, write(&w.dir, 0, 0, b"x");
        WRITE by ME: "a symbolic link" => INVAL, w, write(&w.link, 0, 0, b"x");
        WRITE by ME: "fewer bytes than it says" => INVAL, w, v3::write_counted(&w.file, 0, 2, 0, b"x");
        WRITE by ME: "more bytes than it says" => INVAL, w, v3::write_counted(&w.file, 0, 0, 0, b"x");
        WRITE by ME: "beyond what files can be" => FBIG, w, write(&w.file, 1 << 62, 0, b"x");
        WRITE by OTHER: "another's file" => ACCES, w, write(&w.file, 0, 0, b"x");
        WRITE by ME: "no space is left" => NOSPC, w, {
            // As much of the 64 MiB as single writes get.
            let data = vec![1; 1 << 20];
            let mut at = 0;
            while w.one.status(&mut w.bench, Number::WRITE, &write(&w.file, at, 2, &data)) == Status::OK {
                at += 1 << 20;
            }
            write(&w.file, at, 2, &data)
        };
        COMMIT by ME: "a directory" => INVAL, w, v3::commit(&w.dir);
        COMMIT by OTHER: "another's file" => ACCES, w, v3::commit(&w.secret);
    }
}

fn names() -> Vec<Row> {
    rows! {
        LOOKUP by ME: "no such name" => NOENT, w, place(&w.root, "x");
        LOOKUP by ME: "in a file" => NOTDIR, w, place(&w.file, "x");
        LOOKUP by ME: "in a symbolic link" => NOTDIR, w, place(&w.link, "x");
        LOOKUP by ME: "the name . in a file" => NOTDIR, w, place(&w.file, ".");
        LOOKUP by ME: "the name .. in a file" => NOTDIR, w, place(&w.file, "..");
        LOOKUP by ME: "no name" => ACCES, w, place(&w.root, "");
        LOOKUP by ME: "a name of 256 bytes" => NAMETOOLONG, w, place(&w.root, &long());
        LOOKUP by ME: "a name with a slash" => INVAL, w, place(&w.root, "a/b");
        LOOKUP by ME: "a name with a zero byte" => INVAL, w, place(&w.root, "a\0b");
        LOOKUP by OTHER: "in another's directory" => ACCES, w, place(&w.private, "x");
        CREATE by ME: "GUARDED, and the name is taken" => EXIST, w, create(&w.root, "file", 1, Wanted::default());
        CREATE by ME: "EXCLUSIVE, and the name is taken" => EXIST, w, v3::exclusive(&w.root, "file", 1);
        CREATE by ME: "UNCHECKED, and a directory has the name" => EXIST, w, create(&w.root, "dir", 0, Wanted::default());
        CREATE by ME: "the name .." => EXIST, w, create(&w.root, "..", 0, Wanted::default());
        CREATE by ME: "no name" => ACCES, w, create(&w.root, "", 0, Wanted::default());
        CREATE by ME: "a name of 256 bytes" => NAMETOOLONG, w, create(&w.root, &long(), 0, Wanted::default());
        CREATE by ME: "in a file" => NOTDIR, w, create(&w.file, "x", 0, Wanted::default());
        CREATE by OTHER: "in another's directory" => ACCES, w, create(&w.private, "y", 0, Wanted::default());
        CREATE by OTHER: "UNCHECKED cuts another's file" => ACCES, w, create(&w.root, "file", 0, Wanted::size(0));
        MKDIR by ME: "the name is taken" => EXIST, w, mkdir(&w.root, "file");
        MKDIR by ME: "the name ." => EXIST, w, mkdir(&w.root, ".");
        MKDIR by ME: "in a file" => NOTDIR, w, mkdir(&w.file, "x");
        MKDIR by ME: "a name of 256 bytes" => NAMETOOLONG, w, mkdir(&w.root, &long());
        MKDIR by OTHER: "in another's directory" => ACCES, w, mkdir(&w.private, "y");
        SYMLINK by ME: "the name is taken" => EXIST, w, v3::symlink(&w.root, "file", "x");
        SYMLINK by ME: "in a file" => NOTDIR, w, v3::symlink(&w.file, "x", "x");
        SYMLINK by ME: "no name" => ACCES, w, v3::symlink(&w.root, "", "x");
        SYMLINK by ME: "a target of 4,096 bytes" => NAMETOOLONG, w, v3::symlink(&w.root, "x", &"t".repeat(4096));
        SYMLINK by OTHER: "in another's directory" => ACCES, w, v3::symlink(&w.private, "y", "x");
        MKNOD by ME: "the name is taken" => EXIST, w, mknod(&w.root, "file", 7);
        MKNOD by ME: "a regular file" => BADTYPE, w, mknod(&w.root, "x", 1);
        MKNOD by ME: "a directory" => BADTYPE, w, mknod(&w.root, "x", 2);
        MKNOD by ME: "a device, by somebody else than user 0" => PERM, w, mknod(&w.root, "x", 3);
        MKNOD by ME: "in a file" => NOTDIR, w, mknod(&w.file, "x", 7);
        MKNOD by OTHER: "in another's directory" => ACCES, w, mknod(&w.private, "y", 7);
        REMOVE by ME: "no such name" => NOENT, w, place(&w.root, "x");
        REMOVE by ME: "a directory" => ISDIR, w, place(&w.root, "dir");
        REMOVE by ME: "in a file" => NOTDIR, w, place(&w.file, "x");
        REMOVE by ME: "the name ." => INVAL, w, place(&w.root, ".");
        REMOVE by ME: "a name of 256 bytes" => NAMETOOLONG, w, place(&w.root, &long());
        REMOVE by OTHER: "in another's directory" => ACCES, w, place(&w.private, "x");
        RMDIR by ME: "no such name" => NOENT, w, place(&w.root, "x");
        RMDIR by ME: "a file" => NOTDIR, w, place(&w.root, "file");
        RMDIR by ME: "a directory that is not empty" => NOTEMPTY, w, place(&w.root, "dir");
        RMDIR by ME: "the name ." => INVAL, w, place(&w.root, ".");
        RMDIR by ME: "the name .." => EXIST, w, place(&w.root, "..");
        RMDIR by OTHER: "in another's directory" => ACCES, w, place(&w.private, "x");
        RENAME by ME: "no such name" => NOENT, w, v3::rename((&w.root, "x"), (&w.root, "y"));
        RENAME by ME: "a directory into itself" => INVAL, w, v3::rename((&w.root, "dir"), (&w.dir, "x"));
        RENAME by ME: "a file in the place of a directory" => ISDIR, w, v3::rename((&w.root, "file"), (&w.dir, "inner"));
        RENAME by ME: "a directory in the place of a file" => NOTDIR, w, v3::rename((&w.root, "dir"), (&w.root, "file"));
        RENAME by ME: "in the place of a directory that is not empty" => NOTEMPTY, w, v3::rename((&w.root, "private"), (&w.root, "dir"));
        RENAME by ME: "no name" => ACCES, w, v3::rename((&w.root, "file"), (&w.root, ""));
        RENAME by ME: "a name of 256 bytes" => NAMETOOLONG, w, v3::rename((&w.root, "file"), (&w.root, &long()));
        RENAME by ME: "into a file" => NOTDIR, w, v3::rename((&w.root, "file"), (&w.secret, "x"));
        RENAME by ME: "into a directory that is gone" => STALE, w, { let gone = w.gone(); v3::rename((&w.root, "file"), (&gone, "x")) };
        RENAME by ME: "into a read-only export" => ROFS, w, v3::rename((&w.root, "file"), (&by_export(&w.root, 2), "x"));
        RENAME by OTHER: "into another's directory" => ACCES, w, v3::rename((&w.root, "link"), (&w.private, "y"));
        LINK by ME: "a directory" => INVAL, w, link(&w.dir, &w.root, "x");
        LINK by ME: "the name is taken" => EXIST, w, link(&w.file, &w.root, "dir");
        LINK by ME: "in a file" => NOTDIR, w, link(&w.file, &w.secret, "x");
        LINK by ME: "no name" => ACCES, w, link(&w.file, &w.root, "");
        LINK by ME: "a name of 256 bytes" => NAMETOOLONG, w, link(&w.file, &w.root, &long());
        LINK by ME: "in a read-only export" => ROFS, w, link(&w.file, &by_export(&w.root, 2), "x");
        LINK by ME: "in a directory of nobody" => BADHANDLE, w, link(&w.file, &[9, 9], "x");
        LINK by OTHER: "in another's directory" => ACCES, w, link(&w.file, &w.private, "y");
    }
}

fn listings() -> Vec<Row> {
    rows! {
        READDIR by ME: "of a file" => NOTDIR, w, readdir(&w.file, 0, [0; 8], None, 4096);
        READDIR by ME: "of a symbolic link" => NOTDIR, w, readdir(&w.link, 0, [0; 8], None, 4096);
        READDIR by OTHER: "of another's directory" => ACCES, w, readdir(&w.private, 0, [0; 8], None, 4096);
        READDIR by ME: "no bytes" => TOOSMALL, w, readdir(&w.root, 0, [0; 8], None, 0);
        READDIR by ME: "room for . and .. alone" => TOOSMALL, w, readdir(&w.root, 0, [0; 8], None, 104 + 56);
        READDIR by ME: "a cookie that was never given" => BAD_COOKIE, w, { let verifier = w.verifier(); readdir(&w.root, 1 << 40, verifier, None, 4096) };
        READDIR by ME: "another's verifier" => BAD_COOKIE, w, readdir(&w.root, 3, [7; 8], None, 4096);
        READDIR by ME: "the cookie of . with another's verifier" => BAD_COOKIE, w, readdir(&w.root, 1, [7; 8], None, 4096);
        READDIR by ME: "the cookie of .. with another's verifier" => BAD_COOKIE, w, readdir(&w.root, 2, [7; 8], None, 4096);
        READDIRPLUS by ME: "of a file" => NOTDIR, w, readdir(&w.file, 0, [0; 8], Some(4096), 4096);
        READDIRPLUS by OTHER: "of another's directory" => ACCES, w, readdir(&w.private, 0, [0; 8], Some(4096), 4096);
        READDIRPLUS by ME: "no bytes" => TOOSMALL, w, readdir(&w.root, 0, [0; 8], Some(4096), 0);
        READDIRPLUS by ME: "room for . and .. alone" => TOOSMALL, w, readdir(&w.root, 0, [0; 8], Some(4096), 104 + 2 * 188);
        READDIRPLUS by ME: "another's verifier" => BAD_COOKIE, w, readdir(&w.root, 3, [7; 8], Some(4096), 4096);
    }
}

/// What a procedure answers to a handle, and whether it tells attributes when it fails.
fn check(table: &mut String, wrong: &mut Vec<String>, row: &Row) {
    let mut world = World::new();
    let arguments = (row.begin)(&mut world);
    world.one.user = row.user;
    let reply = world.one.call(&mut world.bench, row.number, &arguments);
    let name = row.number.name();
    if reply.status == row.status {
        let told = reply.failure(row.number).is_some();
        let expected = row.number != Number::GETATTR && !row.status.concerns_the_handle();
        let elsewhere = matches!(row.number, Number::RENAME) && row.status == Status::STALE;
        if told != expected && !elsewhere {
            wrong.push(format!("{name}, {}: attributes told: {told}", row.what));
        }
    } else {
        wrong.push(format!("{name}, {}: {}", row.what, reply.status));
    }
    writeln!(table, "| {name} | {} | {} |", row.what, row.status).unwrap();
}

#[test]
fn each_procedure_fails_as_the_standard_says() {
    let mut table = String::from("| procedure | what is wrong | answer |\n|---|---|---|\n");
    let mut wrong = Vec::new();
    for (what, status) in [
        ("a handle of nobody", "NFS3ERR_BADHANDLE"),
        ("a handle with a bit that is another", "NFS3ERR_BADHANDLE"),
        ("a handle of an export that is not there, or closed to the client", "NFS3ERR_STALE"),
        ("a directory that leads to exports", "NFS3ERR_STALE"),
        ("the object is gone", "NFS3ERR_STALE"),
        ("an export that is read-only, and the procedure changes something", "NFS3ERR_ROFS"),
    ] {
        writeln!(table, "| each | {what} | {status} |").unwrap();
    }
    let mut rows = rows();
    rows.sort_by_key(|row| row.number);
    for row in &rows {
        check(&mut table, &mut wrong, row);
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

/// Every procedure with an argument that is a handle.
fn procedures() -> impl Iterator<Item = Number> {
    (1..PROCEDURES).map(Number)
}

fn changes(number: Number) -> bool {
    number.is_once() || matches!(number, Number::WRITE | Number::COMMIT)
}

#[test]
fn handles_of_nobody_and_of_what_is_gone_are_refused() {
    let mut world = World::new();
    let gone = world.gone();
    let mut forged = world.file.clone();
    *forged.last_mut().unwrap() ^= 1;
    let handles = [
        (vec![9, 9], Status::BADHANDLE),
        (vec![1], Status::BADHANDLE),
        (vec![], Status::BADHANDLE),
        (vec![1; 64], Status::STALE),
        (forged, Status::BADHANDLE),
        (by_export(&world.file, 9), Status::STALE),
        (by_export(&world.file, 5), Status::STALE),
        (by_export(&gone, 1), Status::STALE),
    ];
    for number in procedures() {
        for (handle, status) in &handles {
            // Nobody looks at the handle of FSINFO's and PATHCONF's object but for its attributes, and FSSTAT's.
            let reply = world.one.call(&mut world.bench, number, &usual(number, handle));
            assert_eq!(reply.status, *status, "{}: {handle:?}", number.name());
            assert_eq!(reply.failure(number), None, "{}", number.name());
        }
    }
}

#[test]
fn what_is_read_only_is_not_changed() {
    let mut world = World::new();
    for number in procedures() {
        let what = if matches!(number, Number::WRITE | Number::COMMIT | Number::SETATTR) {
            &world.file
        } else {
            &world.root
        };
        let handle = by_export(what, 2);
        let before = world.bench.requests.clone();
        let reply = world.one.call(&mut world.bench, number, &usual(number, &handle));
        assert_eq!(reply.status == Status::ROFS, changes(number), "{}: {}", number.name(), reply.status);
        if changes(number) {
            assert!(reply.failure(number).is_some(), "{}", number.name());
            for kind in ["write", "create", "make", "remove"] {
                assert_eq!(world.bench.requests.get(kind), before.get(kind));
            }
        }
    }
    let mut rights = |handle: &[u8]| {
        let mut reply = world.one.ok(&mut world.bench, Number::ACCESS, &v3::access(handle, 63));
        assert!(reply.post().is_some());
        reply.u32()
    };
    assert_eq!((rights(&by_export(&world.root, 2)), rights(&world.root)), (3, 31));
}

/// MNT's statuses (RFC 1813 appendix I §5.1.5).
#[test]
fn what_cannot_be_mounted_is_refused() {
    let mut world = World::new();
    let peer = world.bench.connect();
    let long = format!("/data/{}", long());
    for (path, status) in [
        ("data", 22),
        ("/data/../data", 22),
        ("/../data", 22),
        ("/data/a\0b", 22),
        (&long, 63),
        ("/x", 2),
        ("/data/x", 2),
        ("/data/file", 20),
        ("/data/file/x", 20),
        ("/data/link", 20),
        ("/", 13),
        ("", 13),
        ("/deep", 13),
        ("/closed", 13),
        ("/closed/dir", 13),
    ] {
        assert_eq!(v3::mount(&mut world.bench, peer, path.as_bytes()), Err(status), "{path}");
    }
    for (path, handle) in [
        ("/data", world.root.clone()),
        ("//data/./", world.root.clone()),
        ("/data/dir", world.dir.clone()),
        ("/data/private", world.private.clone()),
        ("/deep/ro/dir", by_export(&world.dir, 2)),
    ] {
        assert_eq!(v3::mount(&mut world.bench, peer, path.as_bytes()), Ok(handle), "{path}");
    }
    // By another user: MNT is carried out as the caller is.
    let path = v3::written(|out| out.opaque(b"/data/private/x"));
    assert_eq!(
        v3::send(&mut world.bench, peer, 7, &v3::record(7, v3::MOUNT, 1, OTHER, &path)).status,
        Status::ACCES
    );
}

#[test]
fn handles_that_are_too_long_for_version_3_are_not_told() {
    for (bytes, answer) in [(NFS3_HANDLE_BYTES, Ok(64)), (NFS3_HANDLE_BYTES + 1, Err(10_004))] {
        let mut bench = v3::bench_with_root(bytes);
        let peer = bench.connect();
        assert_eq!(v3::mount(&mut bench, peer, b"/data").map(|handle| handle.len()), answer);
    }
}
