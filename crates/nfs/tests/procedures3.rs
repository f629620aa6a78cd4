//! What the procedures of version 3 and MOUNT do when they succeed (RFC 1813 §3.3, appendix I), and what version 4 forbids them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;
mod v3;

use std::time::Duration;

use common::{Bench, Client, export_of, op, open_grant};
use filesystem::FileSystem as _;
use nfs::limits::{ADDRESS_ANSWERS, ANSWER_TIME};
use nfs::v3::Status;
use nfs::v3::procedure::Number;
use nfs::v4::Stateid;
use protocol::Entropy;
use v3::{
    MOUNT, Mounted, NFS, USER, Wanted, by_export, create, link, mkdir, mknod, object, place, read, readdir,
    setattr, write,
};

/// Power that comes back with nothing of what was not durable.
struct Nothing;

impl Entropy for Nothing {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0xff);
    }
}

fn begin() -> (Bench, Mounted) {
    let mut bench = v3::bench();
    let one = Mounted::new(&mut bench, "/data");
    (bench, one)
}

#[test]
fn nothing_is_done_by_null() {
    let (mut bench, one) = begin();
    for program in [NFS, MOUNT] {
        let reply = v3::send(&mut bench, one.peer, 9, &v3::record(9, program, 0, USER, &[]));
        assert!(reply.bytes.is_empty());
    }
}

#[test]
fn exports_are_told_to_whom_they_are_open() {
    let (mut bench, one) = begin();
    let mut reply = v3::send(&mut bench, one.peer, 9, &v3::record(9, MOUNT, 5, None, &[]));
    let mut paths = Vec::new();
    // The first word is no status: the list begins at once.
    let mut more = reply.status.0 == 1;
    while more {
        paths.push(String::from_utf8(reply.opaque()).unwrap());
        assert!(!reply.bool(), "no groups");
        more = reply.bool();
    }
    reply.end();
    assert_eq!(paths, ["/data", "/deep/ro", "/root", "/all"]);
    for (procedure, path, answer) in [(2, false, 4), (3, true, 0), (4, false, 0)] {
        let arguments = if path { v3::written(|out| out.opaque(b"/data")) } else { Vec::new() };
        let reply = v3::send(&mut bench, one.peer, 9, &v3::record(9, MOUNT, procedure, USER, &arguments));
        assert_eq!(reply.bytes, vec![0; answer], "{procedure}");
    }
}

#[test]
fn attributes_are_told_and_set() {
    let (mut bench, mut one) = begin();
    let file = one.file(&mut bench, "file", b"hello");
    let before = one.attributes(&mut bench, &file);
    assert_eq!((before.kind, before.mode, before.links, before.size), (1, 0o644, 1, 5));
    assert_eq!((before.owner, before.group, before.device), (1000, 1000, (0, 0)));
    bench.pass(Duration::from_secs(3));
    let wanted = Wanted {
        mode: Some(0o100_600),
        size: Some(2),
        accessed: Some((7, 8)),
        modified: Some((9, 10)),
        ..Wanted::default()
    };
    let mut reply = one.ok(&mut bench, Number::SETATTR, &setattr(&file, wanted, Some(before.changed)));
    let wcc = reply.wcc();
    reply.end();
    assert_eq!(wcc.before, Some((5, before.modified, before.changed)));
    let after = one.attributes(&mut bench, &file);
    assert_eq!(wcc.after, Some(after));
    assert_eq!((after.mode, after.size, after.accessed, after.modified), (0o600, 2, (7, 8), (9, 10)));
    assert_eq!(after.changed.0, before.changed.0 + 3);
    // The guard of before is too old, and nothing is set.
    let reply = one.call(&mut bench, Number::SETATTR, &setattr(&file, Wanted::size(0), Some(before.changed)));
    assert_eq!(reply.status, Status::NOT_SYNC);
    assert_eq!(reply.failure(Number::SETATTR), Some(after));
    // A size that grows is zeros.
    one.ok(&mut bench, Number::SETATTR, &setattr(&file, Wanted::size(4), None));
    assert_eq!(one.content(&mut bench, &file), b"he\0\0");
    // Nothing to set is no failure.
    assert_eq!(
        one.ok(&mut bench, Number::SETATTR, &setattr(&file, Wanted::default(), None))
            .wcc()
            .after
            .unwrap()
            .size,
        4
    );
}

#[test]
fn names_lead_to_objects_and_back() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let dir = one.make(&mut bench, Number::MKDIR, &mkdir(&root, "dir"));
    let inner = one.make(&mut bench, Number::MKDIR, &mkdir(&dir, "inner"));
    for (directory, name, found) in [
        (&root, "dir", &dir),
        (&dir, "inner", &inner),
        (&inner, "..", &dir),
        (&dir, "..", &root),
        (&root, "..", &root),
        (&root, ".", &root),
        (&dir, ".", &dir),
    ] {
        let mut reply = one.ok(&mut bench, Number::LOOKUP, &place(directory, name));
        assert_eq!(&reply.opaque(), found, "{name}");
        let (attributes, within) = (reply.post().unwrap(), reply.post().unwrap());
        reply.end();
        assert_eq!(attributes, one.attributes(&mut bench, found));
        assert_eq!(within, one.attributes(&mut bench, directory));
    }
    // In another export the same directory has another handle.
    let other = by_export(&dir, 3);
    assert_eq!(one.lookup(&mut bench, &other, "inner"), by_export(&inner, 3));
}

#[test]
fn rights_are_what_can_be_done() {
    let (mut bench, mut one) = begin();
    let file = one.file(&mut bench, "file", b"");
    for (user, rights) in [(USER, 1 | 4 | 8), (Some(2000), 1), (Some(0), 1 | 4 | 8), (None, 1)] {
        one.user = user;
        let mut reply = one.ok(&mut bench, Number::ACCESS, &v3::access(&file, 63));
        let after = reply.post().unwrap();
        assert_eq!((reply.u32(), after.size), (rights, 0), "{user:?}");
        reply.end();
    }
    let mut reply = one.ok(&mut bench, Number::ACCESS, &v3::access(&file, 0x1000));
    reply.post();
    assert_eq!(reply.u32(), 0);
}

#[test]
fn users_are_squashed() {
    let (mut bench, mut one) = begin();
    for (id, user, owner) in [
        (1, Some(0), 0),
        (1, None, 65_534),
        (3, Some(0), 65_534),
        (3, Some(7), 7),
        (4, Some(7), 65_534),
        (4, Some(0), 65_534),
    ] {
        one.user = user;
        let name = format!("{id} {user:?}");
        let root = by_export(&one.root, id);
        let mut reply = one.ok(&mut bench, Number::MKDIR, &mkdir(&root, &name));
        let handle = reply.handle().unwrap();
        let attributes = reply.post().unwrap();
        assert_eq!((attributes.owner, attributes.group), (owner, owner), "{name}");
        assert_eq!(handle[1..5], [0, 0, 0, u8::try_from(id).unwrap()], "the export stays the same");
    }
}

#[test]
fn links_of_all_kinds() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let file = one.file(&mut bench, "file", b"x");
    let mut reply = one.ok(&mut bench, Number::SYMLINK, &v3::symlink(&root, "soft", "a/../b\u{e9}"));
    let soft = reply.handle().unwrap();
    assert_eq!(reply.post().unwrap().kind, 5);
    let wcc = reply.wcc();
    reply.end();
    assert!(wcc.before.is_some());
    let mut reply = one.ok(&mut bench, Number::READLINK, &object(&soft));
    assert_eq!(reply.post(), Some(one.attributes(&mut bench, &soft)));
    assert_eq!(reply.opaque(), "a/../b\u{e9}".as_bytes());
    reply.end();
    bench.pass(Duration::from_secs(1));
    let before = one.attributes(&mut bench, &root);
    let mut reply = one.ok(&mut bench, Number::LINK, &link(&file, &root, "hard"));
    assert_eq!(reply.post().unwrap().links, 2);
    let wcc = reply.wcc();
    reply.end();
    assert_eq!(wcc.before, Some((before.size, before.modified, before.changed)));
    assert_eq!(wcc.after, Some(one.attributes(&mut bench, &root)));
    assert_ne!(wcc.after.unwrap().changed, before.changed);
    assert_eq!(one.lookup(&mut bench, &root, "hard"), file);
}

#[test]
fn nodes_are_made() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    for (kind, user, device) in
        [(6, USER, (0, 0)), (7, USER, (0, 0)), (3, Some(0), (8, 9)), (4, Some(0), (8, 9))]
    {
        one.user = user;
        let mut reply = one.ok(&mut bench, Number::MKNOD, &mknod(&root, &kind.to_string(), kind));
        let (handle, attributes) = (reply.handle().unwrap(), reply.post().unwrap());
        assert!(reply.wcc().after.is_some());
        reply.end();
        assert_eq!((attributes.kind, attributes.device), (kind, device));
        assert_eq!(one.attributes(&mut bench, &handle), attributes);
    }
}

#[test]
fn files_are_created_in_three_ways() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let file = one.file(&mut bench, "file", b"bytes");
    // UNCHECKED takes what is there, as it is or cut.
    let taken = one.make(&mut bench, Number::CREATE, &create(&root, "file", 0, Wanted::mode(0o600)));
    assert_eq!((&taken, one.attributes(&mut bench, &file).mode), (&file, 0o644));
    let mut reply = one.ok(&mut bench, Number::CREATE, &create(&root, "file", 0, Wanted::size(0)));
    assert_eq!((reply.handle(), reply.post().unwrap().size), (Some(file), 0));
    // EXCLUSIVE is found again by its verifier, by another call, until attributes are set.
    let mut reply = one.ok(&mut bench, Number::CREATE, &v3::exclusive(&root, "alone", 1));
    let alone = reply.handle().unwrap();
    assert_eq!(one.make(&mut bench, Number::CREATE, &v3::exclusive(&root, "alone", 1)), alone);
    assert_eq!(one.status(&mut bench, Number::CREATE, &v3::exclusive(&root, "alone", 2)), Status::EXIST);
    bench.memory.crash(&mut Nothing);
    assert_eq!(one.make(&mut bench, Number::CREATE, &v3::exclusive(&root, "alone", 1)), alone);
    one.ok(&mut bench, Number::SETATTR, &setattr(&alone, Wanted::mode(0o600), None));
    assert_eq!(one.status(&mut bench, Number::CREATE, &v3::exclusive(&root, "alone", 1)), Status::EXIST);
    // What is made has the attributes that were asked for.
    let wanted = Wanted { mode: Some(0o640), size: Some(3), modified: Some((4, 5)), ..Wanted::default() };
    let mut reply = one.ok(&mut bench, Number::CREATE, &create(&root, "new", 1, wanted));
    reply.handle().unwrap();
    let attributes = reply.post().unwrap();
    assert_eq!((attributes.mode, attributes.size, attributes.modified), (0o640, 3, (4, 5)));
}

#[test]
fn names_are_removed_and_moved() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let dir = one.make(&mut bench, Number::MKDIR, &mkdir(&root, "dir"));
    let file = one.file(&mut bench, "file", b"x");
    bench.pass(Duration::from_secs(1));
    let before = [one.attributes(&mut bench, &root), one.attributes(&mut bench, &dir)];
    let mut reply = one.ok(&mut bench, Number::RENAME, &v3::rename((&root, "file"), (&dir, "moved")));
    for (directory, before) in [&root, &dir].into_iter().zip(before) {
        let wcc = reply.wcc();
        assert_eq!(wcc.before, Some((before.size, before.modified, before.changed)));
        assert_eq!(wcc.after, Some(one.attributes(&mut bench, directory)));
        assert_ne!(wcc.after, Some(before));
    }
    reply.end();
    assert_eq!(one.lookup(&mut bench, &dir, "moved"), file);
    assert_eq!(one.status(&mut bench, Number::RMDIR, &place(&root, "dir")), Status::NOTEMPTY);
    let mut reply = one.ok(&mut bench, Number::REMOVE, &place(&dir, "moved"));
    assert!(reply.wcc().before.is_some());
    reply.end();
    let mut reply = one.ok(&mut bench, Number::RMDIR, &place(&root, "dir"));
    assert_eq!(reply.wcc().after, Some(one.attributes(&mut bench, &root)));
    reply.end();
    for handle in [dir, file] {
        assert_eq!(one.status(&mut bench, Number::GETATTR, &object(&handle)), Status::STALE);
    }
}

#[test]
fn data_is_written_and_read() {
    let (mut bench, mut one) = begin();
    let file = one.file(&mut bench, "file", b"");
    for (stable, told) in [(0, 0), (1, 2), (2, 2)] {
        bench.pass(Duration::from_secs(1));
        let before = one.attributes(&mut bench, &file);
        let mut reply = one.ok(&mut bench, Number::WRITE, &write(&file, u64::from(stable), stable, b"abc"));
        let wcc = reply.wcc();
        assert_eq!(wcc.before, Some((before.size, before.modified, before.changed)));
        assert_eq!(wcc.after, Some(one.attributes(&mut bench, &file)));
        assert_eq!((reply.u32(), reply.u32()), (3, told), "no less than was asked for");
        reply.verifier();
        reply.end();
    }
    assert_eq!(one.content(&mut bench, &file), b"aaabc");
    for (offset, count, data, eof) in [
        (0, 2, b"aa".as_slice(), false),
        (3, 2, b"bc", true),
        (3, 9, b"bc", true),
        (5, 1, b"", true),
        (1 << 40, 1, b"", true),
        (0, 0, b"", false),
    ] {
        let mut reply = one.ok(&mut bench, Number::READ, &read(&file, offset, count));
        assert_eq!(reply.post().unwrap().size, 5);
        assert_eq!((reply.u32() as usize, reply.bool()), (data.len(), eof), "{offset} {count}");
        assert_eq!(reply.opaque(), data);
        reply.end();
    }
    // The largest, and more than the largest.
    let large: Vec<u8> = (0..1_u32 << 20).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    let mut reply = one.ok(&mut bench, Number::WRITE, &write(&file, 0, 0, &large));
    reply.wcc();
    assert_eq!(reply.u32(), 1 << 20);
    let mut reply = one.ok(&mut bench, Number::READ, &read(&file, 0, u32::MAX));
    reply.post();
    assert_eq!((reply.u32(), reply.bool()), (1 << 20, true));
    assert!(reply.opaque() == large);
    assert_eq!(one.status(&mut bench, Number::WRITE, &write(&file, 0, 0, b"")), Status::OK);
}

#[test]
fn unstable_writes_are_safe_while_the_verifier_stays() {
    let (mut bench, mut one) = begin();
    let file = one.file(&mut bench, "file", b"old");
    let mut client = Writing(one);
    let (stable, first) = client.write(&mut bench, &file, b"new");
    assert_eq!(stable, 0);
    assert_eq!(client.commit(&mut bench, &file), first);
    bench.memory.crash(&mut Nothing);
    assert_eq!(client.0.content(&mut bench, &file), b"new", "it was committed");
    let (_, second) = client.write(&mut bench, &file, b"lost");
    assert_ne!(second, first);
    bench.memory.crash(&mut Nothing);
    let third = client.commit(&mut bench, &file);
    assert_ne!(third, second, "the client has to write again");
    assert_ne!(client.0.content(&mut bench, &file), b"lost");
    assert_eq!(client.write(&mut bench, &file, b"lost").1, third);
    assert_eq!(client.commit(&mut bench, &file), third);
    bench.memory.crash(&mut Nothing);
    assert_eq!(client.0.content(&mut bench, &file), b"lost");
}

/// Writes unstably and commits.
struct Writing(Mounted);

impl Writing {
    fn write(&mut self, bench: &mut Bench, file: &[u8], data: &[u8]) -> (u32, [u8; 8]) {
        let mut reply = self.0.ok(bench, Number::WRITE, &write(file, 0, 0, data));
        reply.wcc();
        assert_eq!(reply.u32() as usize, data.len());
        (reply.u32(), reply.verifier())
    }

    fn commit(&mut self, bench: &mut Bench, file: &[u8]) -> [u8; 8] {
        let mut reply = self.0.ok(bench, Number::COMMIT, &v3::commit(file));
        assert!(reply.wcc().after.is_some());
        let verifier = reply.verifier();
        reply.end();
        verifier
    }
}

/// Lists to the end, with so much room.
fn list(
    bench: &mut Bench,
    one: &mut Mounted,
    directory: &[u8],
    names: Option<u32>,
    count: u32,
) -> Vec<v3::Entry> {
    let number = if names.is_some() { Number::READDIRPLUS } else { Number::READDIR };
    let (mut cookie, mut verifier, mut all) = (0, [0; 8], Vec::new());
    loop {
        let reply = one.ok(bench, number, &readdir(directory, cookie, verifier, names, count));
        assert!(reply.bytes.len() - 4 <= count as usize, "{} of {count} bytes", reply.bytes.len() - 4);
        let page = reply.page(names.is_some());
        assert!(page.directory.is_some());
        if cookie != 0 {
            assert_eq!(page.verifier, verifier);
        }
        verifier = page.verifier;
        cookie = page.entries.last().map_or(cookie, |entry| entry.cookie);
        if let Some(names) = names {
            let own = page.entries.iter().filter(|entry| !entry.name.starts_with('.'));
            let bytes: usize = own.clone().map(|entry| 24 + entry.name.len().next_multiple_of(4)).sum();
            assert!(bytes <= names as usize || own.count() == 1, "{bytes} bytes of names");
        }
        assert!(page.eof || !page.entries.is_empty());
        all.extend(page.entries);
        if page.eof {
            return all;
        }
    }
}

#[test]
fn listings_have_each_name_once_with_any_room() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let dir = one.make(&mut bench, Number::MKDIR, &mkdir(&root, "dir"));
    let names: Vec<String> =
        (0..40).map(|number| format!("{number:0width$}", width = 1 + number % 7)).collect();
    for name in &names {
        one.ok(&mut bench, Number::MKDIR, &mkdir(&dir, name));
    }
    let expected: Vec<&str> = [".", ".."].into_iter().chain(names.iter().map(String::as_str)).collect();
    for count in [196, 200, 300, 777, 4096, u32::MAX] {
        let all = list(&mut bench, &mut one, &dir, None, count);
        let mut told: Vec<&str> = all.iter().map(|entry| entry.name.as_str()).collect();
        told.sort_unstable();
        let mut expected = expected.clone();
        expected.sort_unstable();
        assert_eq!(told, expected, "{count}");
    }
    for (dircount, count) in
        [(4096, 672), (4096, 1000), (64, 4096), (0, 4096), (4096, 4096), (u32::MAX, u32::MAX)]
    {
        let all = list(&mut bench, &mut one, &dir, Some(dircount), count);
        assert_eq!(all.len(), expected.len(), "{dircount} {count}");
        for entry in all {
            let handle = match entry.name.as_str() {
                "." => dir.clone(),
                ".." => root.clone(),
                name => one.lookup(&mut bench, &dir, name),
            };
            let attributes = one.attributes(&mut bench, &handle);
            assert_eq!(
                (entry.handle.as_ref(), entry.attributes),
                (Some(&handle), Some(attributes)),
                "{}",
                entry.name
            );
            assert_eq!(entry.fileid, attributes.fileid);
        }
    }
    // At the top both lead to itself.
    for entry in &list(&mut bench, &mut one, &root, Some(4096), 4096)[..2] {
        assert_eq!(entry.handle.as_ref(), Some(&root), "{}", entry.name);
        assert_eq!(entry.attributes, Some(one.attributes(&mut bench, &root)));
    }
    // From behind `.` and behind `..`.
    let page = one.ok(&mut bench, Number::READDIR, &readdir(&dir, 0, [0; 8], None, 4096)).page(false);
    for (behind, cookie, first) in [(1, 1, ".."), (2, 2, page.entries[2].name.as_str())] {
        let again = one
            .ok(&mut bench, Number::READDIR, &readdir(&dir, cookie, page.verifier, None, 4096))
            .page(false);
        assert_eq!(again.entries[0].name, first);
        assert_eq!(again.entries, page.entries[behind..]);
    }
    // What is removed meanwhile does not disturb the listing.
    one.ok(&mut bench, Number::RMDIR, &place(&dir, &page.entries[5].name));
    let rest = readdir(&dir, page.entries[5].cookie, page.verifier, None, 4096);
    assert_eq!(one.ok(&mut bench, Number::READDIR, &rest).page(false).entries, page.entries[6..]);
}

/// Whoever may read a directory, and not search it, lists it without what is above.
#[test]
fn a_directory_that_may_be_read_is_listed() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let dir = one.make(&mut bench, Number::MKDIR, &mkdir(&root, "dir"));
    one.ok(&mut bench, Number::SETATTR, &setattr(&dir, Wanted::mode(0o744), None));
    one.user = Some(2000);
    let entries = list(&mut bench, &mut one, &dir, Some(4096), 4096);
    assert_eq!(
        (entries[0].handle.as_ref(), &entries[1].handle, entries[1].attributes),
        (Some(&dir), &None, None)
    );
}

#[test]
fn what_the_file_system_can_is_told() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let limits = bench.memory.limits();
    let attributes = one.attributes(&mut bench, &root);
    let mut reply = one.ok(&mut bench, Number::FSINFO, &object(&root));
    assert_eq!(reply.post(), Some(attributes));
    let words: Vec<u32> = (0..7).map(|_| reply.u32()).collect();
    assert_eq!(words, [1 << 20, 1 << 20, 4096, 1 << 20, 1 << 20, 4096, 65_536]);
    assert_eq!((reply.u64(), reply.u32(), reply.u32(), reply.u32()), (limits.max_file_size, 0, 1, 0x1b));
    reply.end();
    let mut reply = one.ok(&mut bench, Number::PATHCONF, &object(&root));
    assert_eq!(reply.post(), Some(attributes));
    assert_eq!((reply.u32(), reply.u32()), (limits.max_links, 255));
    assert_eq!([reply.bool(), reply.bool(), reply.bool(), reply.bool()], [true, true, false, true]);
    reply.end();
    let mut space = |bench: &mut Bench| {
        let mut reply = one.ok(bench, Number::FSSTAT, &object(&root));
        assert!(reply.post().is_some());
        let numbers: Vec<u64> = (0..6).map(|_| reply.u64()).collect();
        assert_eq!(reply.u32(), 0);
        reply.end();
        numbers
    };
    let before = space(&mut bench);
    let mut other = Mounted::new(&mut bench, "/data");
    other.file(&mut bench, "file", &[1; 10_000]);
    let after = space(&mut bench);
    assert_eq!((before[0], before[3]), (after[0], after[3]));
    assert!(after[1] + 10_000 <= before[1] && after[4] + 1 == before[4]);
}

/// Opens of version 4 deny what version 3 does, for as long as they are open (docs/decisions/0037-nfs3.md).
#[test]
fn opens_of_version_4_deny() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let mut client = Client::new(&mut bench, "four");
    let four = client.open(&mut bench, "file", 3, 0).unwrap();
    let file = one.lookup(&mut bench, &root, "file");
    assert_eq!(file, four.1);
    client.status(&mut bench, &[op::putfh(&file), op::close(four.0)]);
    for (deny, readable, writable) in [(0, true, true), (1, false, true), (2, true, false), (3, false, false)]
    {
        let (open, _) = client.open(&mut bench, "file", 3, deny).unwrap();
        let status = |allowed| if allowed { Status::OK } else { Status::ACCES };
        for (number, arguments, allowed) in [
            (Number::READ, read(&file, 0, 9), readable),
            (Number::WRITE, write(&file, 0, 2, b"data"), writable),
            (Number::SETATTR, setattr(&file, Wanted::size(4), None), writable),
            (Number::CREATE, create(&root, "file", 0, Wanted::size(0)), writable),
            (Number::CREATE, create(&root, "file", 0, Wanted::default()), true),
            (Number::SETATTR, setattr(&file, Wanted::mode(0o666), None), true),
            (Number::GETATTR, object(&file), true),
        ] {
            assert_eq!(
                one.status(&mut bench, number, &arguments),
                status(allowed),
                "{deny}: {}",
                number.name()
            );
        }
        let size = one.attributes(&mut bench, &file).size;
        assert_eq!(size, 0, "nothing was written, or it was cut");
        let close = [op::putfh(&file), op::close(open)];
        assert_eq!(client.status(&mut bench, &close), nfs::v4::Status::OK);
        assert_eq!(one.status(&mut bench, Number::READ, &read(&file, 0, 9)), Status::OK);
        assert_eq!(one.status(&mut bench, Number::WRITE, &write(&file, 0, 2, b"")), Status::OK);
    }
}

#[test]
fn data_waits_for_the_end_of_grace() {
    let mut bench = v3::bench();
    let mut client = Client::new(&mut bench, "four");
    let (_, file) = client.open(&mut bench, "file", 3, 3).unwrap();
    let records: Vec<_> = bench.stable.values().cloned().collect();
    let export = export_of(&bench.memory, 1, &["data"], open_grant());
    let mut bench = Bench::with(bench.memory, vec![export], &records, 2);
    let mut one = Mounted::new(&mut bench, "/data");
    let calls = |root: &[u8]| {
        [
            (Number::READ, read(&file, 0, 1)),
            (Number::WRITE, write(&file, 0, 0, b"x")),
            (Number::SETATTR, setattr(&file, Wanted::size(1), None)),
            (Number::CREATE, create(root, "file", 0, Wanted::size(0))),
        ]
    };
    let root = one.root.clone();
    for (number, arguments) in calls(&root) {
        assert_eq!(one.status(&mut bench, number, &arguments), Status::JUKEBOX, "{}", number.name());
    }
    assert_eq!(
        one.status(&mut bench, Number::SETATTR, &setattr(&file, Wanted::mode(0o600), None)),
        Status::OK
    );
    let mut again = Client::establish(&mut bench, one.peer, "four", 1);
    assert_eq!(again.status(&mut bench, &[op::reclaim_complete(false)]), nfs::v4::Status::OK);
    for (number, arguments) in calls(&root) {
        assert_eq!(one.status(&mut bench, number, &arguments), Status::OK, "{}", number.name());
    }
    assert_eq!(
        again.status(&mut bench, &[op::putfh(&file), op::read(Stateid::ANONYMOUS, 0, 1)]),
        nfs::v4::Status::OK
    );
}

/// What each procedure that must not be repeated answers to the same call by another connection: the same bytes.
#[test]
fn each_that_changes_something_is_carried_out_once() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    let file = one.file(&mut bench, "file", b"x");
    let mut other = Mounted::new(&mut bench, "/data");
    for (number, arguments, again) in [
        (Number::CREATE, create(&root, "a", 1, Wanted::default()), Status::EXIST),
        (Number::MKDIR, mkdir(&root, "b"), Status::EXIST),
        (Number::SYMLINK, v3::symlink(&root, "c", "d"), Status::EXIST),
        (Number::MKNOD, mknod(&root, "d", 7), Status::EXIST),
        (Number::LINK, link(&file, &root, "e"), Status::EXIST),
        (Number::RENAME, v3::rename((&root, "a"), (&root, "f")), Status::NOENT),
        (Number::REMOVE, place(&root, "f"), Status::NOENT),
        (Number::RMDIR, place(&root, "b"), Status::NOENT),
        (
            Number::SETATTR,
            setattr(&file, Wanted::mode(0o600), Some(changed(&mut bench, &mut other, &file))),
            Status::NOT_SYNC,
        ),
    ] {
        let mut arguments = arguments;
        if number == Number::SETATTR {
            // LINK has changed it since.
            let guard = changed(&mut bench, &mut other, &file);
            arguments = setattr(&file, Wanted::mode(0o600), Some(guard));
            bench.pass(Duration::from_secs(1));
        }
        let first = one.ok(&mut bench, number, &arguments);
        other.xid = one.xid;
        let repeated = other.again(&mut bench, number, &arguments);
        assert_eq!(repeated.bytes, first.bytes, "{}", number.name());
        // With another number, by another user, it is another call.
        other.xid += 1000;
        assert_eq!(other.again(&mut bench, number, &arguments).status, again, "{}", number.name());
        one.user = Some(0);
        assert_eq!(one.again(&mut bench, number, &arguments).status, again, "{}", number.name());
        one.user = USER;
    }
}

/// A client that has restarted begins its numbers anew.
#[test]
fn the_same_number_with_other_arguments_is_another_call() {
    let (mut bench, mut one) = begin();
    let root = one.root.clone();
    one.xid = 5;
    for (made, name) in ["a", "b", "abcde"].into_iter().enumerate() {
        for _ in 0..2 {
            assert_eq!(
                one.again(&mut bench, Number::MKDIR, &mkdir(&root, name)).status,
                Status::OK,
                "{name}"
            );
            assert_eq!(bench.requests["make"], made + 1);
        }
    }
    assert_eq!(one.again(&mut bench, Number::RMDIR, &place(&root, "a")).status, Status::OK);
    assert_eq!(one.again(&mut bench, Number::REMOVE, &place(&root, "a")).status, Status::NOENT);
}

fn changed(bench: &mut Bench, one: &mut Mounted, file: &[u8]) -> v3::Moment {
    one.attributes(bench, file).changed
}

#[test]
fn a_repetition_waits_for_what_is_under_way() {
    let (mut bench, mut one) = begin();
    let other = bench.connect();
    let arguments = mkdir(&one.root, "dir");
    one.xid = 77;
    let call = v3::record(77, NFS, Number::MKDIR.0, USER, &arguments);
    bench.holds = true;
    bench.send_record(one.peer, &call);
    bench.send_record(other, &call);
    assert!(bench.replies(one.peer).is_empty() && bench.replies(other).is_empty());
    bench.let_go();
    let (first, second) = (bench.replies(one.peer), bench.replies(other));
    assert_eq!((first.len(), &first), (1, &second));
    assert_eq!((v3::Reply::new(&first[&77]).status, bench.requests["make"]), (Status::OK, 1));
    // A connection that ended while its call was under way: the call comes again by another.
    let arguments = mkdir(&one.root, "second");
    let call = v3::record(78, NFS, Number::MKDIR.0, USER, &arguments);
    bench.holds = true;
    bench.send_record(one.peer, &call);
    bench.end(one.peer);
    bench.send_record(other, &call);
    bench.let_go();
    assert_eq!(v3::Reply::new(&bench.replies(other)[&78]).status, Status::OK);
    assert_eq!(bench.requests["make"], 2);
}

/// As many calls of an address as may be under way: the next is told to come later, and so is its repetition, until there is room.
#[test]
fn calls_that_change_something_are_bounded() {
    let (mut bench, one) = begin();
    let peers: Vec<usize> = (0..16).map(|_| bench.connect()).collect();
    let call = |xid: u32| v3::record(xid, NFS, Number::MKDIR.0, USER, &mkdir(&one.root, &xid.to_string()));
    bench.holds = true;
    let most = u32::try_from(ADDRESS_ANSWERS).unwrap();
    for xid in 0..most {
        bench.send_record(peers[xid as usize % peers.len()], &call(xid));
    }
    assert_eq!(bench.requests["make"], ADDRESS_ANSWERS);
    for _ in 0..2 {
        let reply = v3::send(&mut bench, one.peer, most, &call(most));
        assert_eq!(reply.status, Status::JUKEBOX);
        assert_eq!(reply.failure(Number::MKDIR), None);
    }
    bench.let_go();
    assert_eq!(v3::send(&mut bench, one.peer, most, &call(most)).status, Status::OK);
    for peer in peers {
        let replies = bench.replies(peer);
        assert_eq!(replies.len(), ADDRESS_ANSWERS / 16);
        assert!(replies.values().all(|reply| v3::Reply::new(reply).status == Status::OK));
    }
}

#[test]
fn answers_are_kept_for_a_time_and_in_number() {
    let (mut bench, mut one) = begin();
    let arguments = mkdir(&one.root, "dir");
    let first = one.ok(&mut bench, Number::MKDIR, &arguments);
    let least = Duration::from_nanos(1);
    bench.pass(ANSWER_TIME.checked_sub(least).unwrap());
    assert_eq!(one.again(&mut bench, Number::MKDIR, &arguments), first);
    // Another address has its own.
    bench.address = v3::address("10.0.0.9");
    let mut other = Mounted::new(&mut bench, "/data");
    other.xid = one.xid;
    assert_eq!(other.again(&mut bench, Number::MKDIR, &arguments).status, Status::EXIST);
    let gone = place(&one.root, "x");
    for _ in 0..ADDRESS_ANSWERS - 1 {
        assert_eq!(other.status(&mut bench, Number::REMOVE, &gone), Status::NOENT);
    }
    let number = std::mem::replace(&mut other.xid, one.xid);
    assert_eq!(other.again(&mut bench, Number::MKDIR, &arguments).status, Status::EXIST);
    assert_eq!(bench.requests["make"], 2, "it was still known");
    other.xid = number;
    assert_eq!(other.status(&mut bench, Number::REMOVE, &gone), Status::NOENT);
    other.xid = one.xid;
    assert_eq!(other.again(&mut bench, Number::MKDIR, &arguments).status, Status::EXIST);
    assert_eq!(bench.requests["make"], 3, "it made room");
    assert_eq!(one.again(&mut bench, Number::MKDIR, &arguments), first, "the first address keeps its own");
    bench.pass(least);
    assert_eq!(one.again(&mut bench, Number::MKDIR, &arguments).status, Status::EXIST);
}
