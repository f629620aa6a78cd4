//! Calls of version 3 and MOUNT as they are sent, and their answers, read field by field.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test uses a part")]

use std::net::IpAddr;

use filesystem::{Memory, MemoryOptions};
use nfs::server::exports::{Export, Grant, Squash, Writes};
use nfs::v3::Status;
use nfs::v3::procedure::Number;
use rpc::message::AuthSysToSend;
use rpc::xdr::{Error, Reader, Writer};

use crate::common::{Bench, export_of, open_grant};

pub const NFS: (u32, u32) = (100_003, 3);
pub const MOUNT: (u32, u32) = (100_005, 3);
/// Who calls if nothing is said: AUTH_SYS with this user and group.
pub const USER: Option<u32> = Some(1000);

/// A call as it is sent; `None` calls as nobody.
pub fn record(
    xid: u32,
    (program, version): (u32, u32),
    procedure: u32,
    user: Option<u32>,
    arguments: &[u8],
) -> Vec<u8> {
    let mut out = Writer::new();
    for word in [xid, 0, 2, program, version, procedure] {
        out.u32(word);
    }
    if let Some(user) = user {
        out.put(&AuthSysToSend::new("host", user, user, &[]).as_auth());
    } else {
        out.u32(0);
        out.u32(0);
    }
    out.u32(0);
    out.u32(0);
    let mut bytes = out.finish().bytes().to_vec();
    bytes.extend_from_slice(arguments);
    bytes
}

pub fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    write(&mut out);
    out.finish().bytes().to_vec()
}

/// `nfs_fh3`.
pub fn object(handle: &[u8]) -> Vec<u8> {
    written(|out| out.opaque(handle))
}

/// `diropargs3`.
pub fn place(directory: &[u8], name: &str) -> Vec<u8> {
    written(|out| {
        out.opaque(directory);
        out.opaque(name.as_bytes());
    })
}

/// `sattr3`.
#[derive(Default, Clone, Copy)]
pub struct Wanted {
    pub mode: Option<u32>,
    pub owner: Option<u32>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<(u32, u32)>,
    pub modified: Option<(u32, u32)>,
}

impl Wanted {
    pub fn size(size: u64) -> Self {
        Self { size: Some(size), ..Self::default() }
    }

    pub fn mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    pub fn put(self, out: &mut Writer) {
        for word in [self.mode, self.owner, self.group] {
            out.put(&word);
        }
        out.put(&self.size);
        for time in [self.accessed, self.modified] {
            match time {
                None => out.u32(0),
                Some((seconds, nanos)) => [2, seconds, nanos].iter().for_each(|word| out.u32(*word)),
            }
        }
    }
}

pub fn setattr(handle: &[u8], wanted: Wanted, guard: Option<(u32, u32)>) -> Vec<u8> {
    written(|out| {
        out.opaque(handle);
        wanted.put(out);
        out.put(&guard.is_some());
        if let Some((seconds, nanos)) = guard {
            out.u32(seconds);
            out.u32(nanos);
        }
    })
}

/// UNCHECKED and GUARDED (0 and 1).
pub fn create(directory: &[u8], name: &str, how: u32, wanted: Wanted) -> Vec<u8> {
    let mut bytes = place(directory, name);
    bytes.extend(written(|out| {
        out.u32(how);
        wanted.put(out);
    }));
    bytes
}

pub fn exclusive(directory: &[u8], name: &str, verifier: u8) -> Vec<u8> {
    let mut bytes = place(directory, name);
    bytes.extend(written(|out| {
        out.u32(2);
        out.put(&[verifier; 8]);
    }));
    bytes
}

pub fn mkdir(directory: &[u8], name: &str) -> Vec<u8> {
    let mut bytes = place(directory, name);
    bytes.extend(written(|out| Wanted::default().put(out)));
    bytes
}

pub fn symlink(directory: &[u8], name: &str, target: &str) -> Vec<u8> {
    let mut bytes = mkdir(directory, name);
    bytes.extend(written(|out| out.opaque(target.as_bytes())));
    bytes
}

pub fn mknod(directory: &[u8], name: &str, kind: u32) -> Vec<u8> {
    let mut bytes = place(directory, name);
    bytes.extend(written(|out| {
        out.u32(kind);
        if matches!(kind, 3 | 4 | 6 | 7) {
            Wanted::default().put(out);
        }
        if matches!(kind, 3 | 4) {
            out.u32(8);
            out.u32(9);
        }
    }));
    bytes
}

pub fn access(handle: &[u8], rights: u32) -> Vec<u8> {
    written(|out| {
        out.opaque(handle);
        out.u32(rights);
    })
}

pub fn read(handle: &[u8], offset: u64, count: u32) -> Vec<u8> {
    written(|out| {
        out.opaque(handle);
        out.u64(offset);
        out.u32(count);
    })
}

/// COMMIT has the arguments of READ.
pub fn commit(handle: &[u8]) -> Vec<u8> {
    read(handle, 0, 0)
}

pub fn write_counted(handle: &[u8], offset: u64, count: u32, stable: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = read(handle, offset, count);
    bytes.extend(written(|out| {
        out.u32(stable);
        out.opaque(data);
    }));
    bytes
}

pub fn write(handle: &[u8], offset: u64, stable: u32, data: &[u8]) -> Vec<u8> {
    write_counted(handle, offset, data.len().try_into().unwrap(), stable, data)
}

pub fn rename(from: (&[u8], &str), to: (&[u8], &str)) -> Vec<u8> {
    [place(from.0, from.1), place(to.0, to.1)].concat()
}

pub fn link(handle: &[u8], directory: &[u8], name: &str) -> Vec<u8> {
    [object(handle), place(directory, name)].concat()
}

/// READDIR, or READDIRPLUS with a `dircount`.
pub fn readdir(handle: &[u8], cookie: u64, verifier: [u8; 8], names: Option<u32>, count: u32) -> Vec<u8> {
    written(|out| {
        out.opaque(handle);
        out.u64(cookie);
        out.put(&verifier);
        if let Some(names) = names {
            out.u32(names);
        }
        out.u32(count);
    })
}

pub type Moment = (u32, u32);

/// `fattr3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub kind: u32,
    pub mode: u32,
    pub links: u32,
    pub owner: u32,
    pub group: u32,
    pub size: u64,
    pub used: u64,
    pub device: (u32, u32),
    pub fsid: u64,
    pub fileid: u64,
    pub accessed: Moment,
    pub modified: Moment,
    pub changed: Moment,
}

/// `wcc_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wcc {
    pub before: Option<(u64, Moment, Moment)>,
    pub after: Option<Attributes>,
}

/// An entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub fileid: u64,
    pub name: String,
    pub cookie: u64,
    pub attributes: Option<Attributes>,
    pub handle: Option<Vec<u8>>,
}

/// A page of a listing.
#[derive(Debug)]
pub struct Page {
    pub directory: Option<Attributes>,
    pub verifier: [u8; 8],
    pub entries: Vec<Entry>,
    pub eof: bool,
}

/// The results of a call that was carried out, read from the front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub bytes: Vec<u8>,
    pub status: Status,
    at: usize,
}

fn word(reader: &mut Reader<'_>) -> Result<u32, Error> {
    reader.u32()
}

fn long(reader: &mut Reader<'_>) -> Result<u64, Error> {
    reader.u64()
}

fn truth(reader: &mut Reader<'_>) -> Result<bool, Error> {
    reader.bool()
}

fn eight(reader: &mut Reader<'_>) -> Result<[u8; 8], Error> {
    reader.fixed()
}

fn moment(reader: &mut Reader<'_>) -> Result<Moment, Error> {
    Ok((reader.u32()?, reader.u32()?))
}

fn attributes(reader: &mut Reader<'_>) -> Result<Attributes, Error> {
    Ok(Attributes {
        kind: reader.u32()?,
        mode: reader.u32()?,
        links: reader.u32()?,
        owner: reader.u32()?,
        group: reader.u32()?,
        size: reader.u64()?,
        used: reader.u64()?,
        device: (reader.u32()?, reader.u32()?),
        fsid: reader.u64()?,
        fileid: reader.u64()?,
        accessed: moment(reader)?,
        modified: moment(reader)?,
        changed: moment(reader)?,
    })
}

impl Reply {
    /// Of a record, which is a reply that was accepted with success.
    pub fn new(record: &[u8]) -> Self {
        assert_eq!(record[4..24], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let bytes = record[24..].to_vec();
        let status = Status(Reader::new(&bytes).u32().unwrap_or(0));
        Self { at: bytes.len().min(4), bytes, status }
    }

    pub fn read<T>(&mut self, read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>) -> T {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let value = read(&mut reader).unwrap();
        self.at = self.bytes.len() - reader.remaining();
        value
    }

    pub fn u32(&mut self) -> u32 {
        self.read(word)
    }

    pub fn u64(&mut self) -> u64 {
        self.read(long)
    }

    pub fn bool(&mut self) -> bool {
        self.read(truth)
    }

    pub fn verifier(&mut self) -> [u8; 8] {
        self.read(eight)
    }

    pub fn opaque(&mut self) -> Vec<u8> {
        self.read(|reader| reader.opaque(1 << 21).map(<[u8]>::to_vec))
    }

    pub fn attributes(&mut self) -> Attributes {
        self.read(attributes)
    }

    /// `post_op_attr`.
    pub fn post(&mut self) -> Option<Attributes> {
        self.read(|reader| reader.optional(attributes))
    }

    /// `post_op_fh3`.
    pub fn handle(&mut self) -> Option<Vec<u8>> {
        self.read(|reader| reader.optional(|reader| reader.opaque(64).map(<[u8]>::to_vec)))
    }

    pub fn wcc(&mut self) -> Wcc {
        let before = self
            .read(|reader| reader.optional(|reader| Ok((reader.u64()?, moment(reader)?, moment(reader)?))));
        Wcc { before, after: self.post() }
    }

    pub fn ok(mut self) -> Self {
        assert_eq!(self.status, Status::OK);
        self.at = 4;
        self
    }

    pub fn end(&self) {
        assert_eq!(self.at, self.bytes.len(), "bytes behind the result");
    }

    /// `READDIR3resok`, `READDIRPLUS3resok`.
    pub fn page(mut self, plus: bool) -> Page {
        assert_eq!(self.status, Status::OK);
        let (directory, verifier) = (self.post(), self.verifier());
        let mut entries = Vec::new();
        while self.bool() {
            let (fileid, name) = (self.u64(), String::from_utf8(self.opaque()).unwrap());
            let cookie = self.u64();
            let (attributes, handle) = if plus { (self.post(), self.handle()) } else { (None, None) };
            entries.push(Entry { fileid, name, cookie, attributes, handle });
        }
        let eof = self.bool();
        self.end();
        Page { directory, verifier, entries, eof }
    }

    /// Reads what a procedure tells when it fails, which must be all that there is; the attributes of its first object.
    pub fn failure(mut self, number: Number) -> Option<Attributes> {
        assert_ne!(self.status, Status::OK);
        let first = match number {
            Number::GETATTR => None,
            Number::LOOKUP
            | Number::ACCESS
            | Number::READLINK
            | Number::READ
            | Number::READDIR
            | Number::READDIRPLUS
            | Number::FSSTAT
            | Number::FSINFO
            | Number::PATHCONF => self.post(),
            Number::LINK => {
                let first = self.post();
                self.wcc();
                first
            }
            Number::RENAME => {
                let first = self.wcc().after;
                self.wcc();
                first
            }
            _ => self.wcc().after,
        };
        self.end();
        first
    }
}

/// A client that has mounted something.
#[derive(Clone)]
pub struct Mounted {
    pub peer: usize,
    pub root: Vec<u8>,
    pub user: Option<u32>,
    pub xid: u32,
}

/// What MNT answers: `mountstat3`, and the rest.
pub fn mount(bench: &mut Bench, peer: usize, path: &[u8]) -> Result<Vec<u8>, u32> {
    let arguments = written(|out| out.opaque(path));
    let mut reply = send(bench, peer, 0xffff_0000, &record(0xffff_0000, MOUNT, 1, USER, &arguments));
    if reply.status != Status::OK {
        reply.end();
        return Err(reply.status.0);
    }
    let handle = reply.opaque();
    assert_eq!(reply.read(|reader| reader.array::<u32>(8)), [1], "AUTH_SYS");
    reply.end();
    Ok(handle)
}

/// Sends a call, which is answered with success.
pub fn send(bench: &mut Bench, peer: usize, xid: u32, call: &[u8]) -> Reply {
    bench.send_record(peer, call);
    Reply::new(&bench.replies(peer).remove(&xid).unwrap())
}

impl Mounted {
    pub fn new(bench: &mut Bench, path: &str) -> Self {
        let peer = bench.connect();
        let root = mount(bench, peer, path.as_bytes()).unwrap();
        Self { peer, root, user: USER, xid: 0 }
    }

    /// Calls with a number of its own.
    pub fn call(&mut self, bench: &mut Bench, number: Number, arguments: &[u8]) -> Reply {
        self.xid += 1;
        self.again(bench, number, arguments)
    }

    /// Calls with the last number.
    pub fn again(&self, bench: &mut Bench, number: Number, arguments: &[u8]) -> Reply {
        send(bench, self.peer, self.xid, &record(self.xid, NFS, number.0, self.user, arguments))
    }

    pub fn status(&mut self, bench: &mut Bench, number: Number, arguments: &[u8]) -> Status {
        self.call(bench, number, arguments).status
    }

    pub fn ok(&mut self, bench: &mut Bench, number: Number, arguments: &[u8]) -> Reply {
        let reply = self.call(bench, number, arguments);
        assert_eq!(reply.status, Status::OK, "{}", number.name());
        reply
    }

    pub fn attributes(&mut self, bench: &mut Bench, handle: &[u8]) -> Attributes {
        let mut reply = self.ok(bench, Number::GETATTR, &object(handle));
        let attributes = reply.attributes();
        reply.end();
        attributes
    }

    pub fn lookup(&mut self, bench: &mut Bench, directory: &[u8], name: &str) -> Vec<u8> {
        self.ok(bench, Number::LOOKUP, &place(directory, name)).opaque()
    }

    /// Makes something, and gives its handle.
    pub fn make(&mut self, bench: &mut Bench, number: Number, arguments: &[u8]) -> Vec<u8> {
        self.ok(bench, number, arguments).handle().unwrap()
    }

    pub fn file(&mut self, bench: &mut Bench, name: &str, data: &[u8]) -> Vec<u8> {
        let root = self.root.clone();
        let handle = self.make(bench, Number::CREATE, &create(&root, name, 1, Wanted::mode(0o644)));
        self.ok(bench, Number::WRITE, &write(&handle, 0, 2, data));
        handle
    }

    /// What a file has.
    pub fn content(&mut self, bench: &mut Bench, handle: &[u8]) -> Vec<u8> {
        let mut reply = self.ok(bench, Number::READ, &read(handle, 0, 1 << 20));
        let after = reply.post().unwrap();
        let count = reply.u32();
        assert!(reply.bool(), "to the end");
        let data = reply.opaque();
        assert_eq!((data.len(), data.len() as u64), (count as usize, after.size));
        reply.end();
        data
    }
}

pub fn memory() -> Memory {
    Memory::new(MemoryOptions { root_mode: 0o777, ..MemoryOptions::default() })
}

/// One file system that is exported in five ways: `/data`, `/ro` read-only, `/root` without user 0, `/all` without users, `/closed` to nobody.
pub fn exports(memory: &Memory) -> Vec<Export> {
    let squash = |squash| Grant { squash, ..Grant::new(Writes::Allowed) };
    let read_only = Grant { squash: Squash::Nobody, ..Grant::new(Writes::Refused) };
    let mut closed = export_of(memory, 5, &["closed"], open_grant());
    closed.rules.clear();
    vec![
        export_of(memory, 1, &["data"], open_grant()),
        export_of(memory, 2, &["deep", "ro"], read_only),
        export_of(memory, 3, &["root"], squash(Squash::Root)),
        export_of(memory, 4, &["all"], squash(Squash::All)),
        closed,
    ]
}

pub fn bench() -> Bench {
    let memory = memory();
    let exports = exports(&memory);
    Bench::with(memory, exports, &[], 1)
}

/// The same handle by another export.
pub fn by_export(handle: &[u8], id: u32) -> Vec<u8> {
    let mut handle = handle.to_vec();
    handle[1..5].copy_from_slice(&id.to_be_bytes());
    handle
}

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A server whose root has a handle of this many bytes.
pub fn bench_with_root(bytes: usize) -> Bench {
    let memory = memory();
    let mut export = export_of(&memory, 1, &["data"], open_grant());
    export.root = filesystem::FileHandle::new(&vec![7; bytes]).unwrap();
    Bench::with(memory, vec![export], &[], 1)
}
