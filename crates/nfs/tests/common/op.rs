//! Operations of version 4 as they are sent.

use nfs::v4::operation::OpNumber;
use nfs::v4::{ClientId, SessionId, Stateid};
use rpc::xdr::Writer;

use super::compound::Op;

fn operation(number: OpNumber, write: impl Fn(&mut Writer) + 'static) -> Op {
    Op(Box::new(move |out| {
        out.u32(number.0);
        write(out);
    }))
}

pub fn bare(number: OpNumber) -> Op {
    operation(number, |_| {})
}

pub fn raw(number: u32, words: &'static [u32]) -> Op {
    operation(OpNumber(number), move |out| words.iter().for_each(|word| out.u32(*word)))
}

fn put_stateid(out: &mut Writer, stateid: Stateid) {
    out.u32(stateid.seqid);
    out.put(&stateid.other.0);
}

pub fn exchange_id(owner: &[u8], verifier: u8, flags: u32) -> Op {
    let owner = owner.to_vec();
    operation(OpNumber::EXCHANGE_ID, move |out| {
        out.put(&[verifier; 8]);
        out.opaque(&owner);
        out.u32(flags);
        out.u32(0);
        out.u32(0);
    })
}

pub fn create_session(client: ClientId, sequence: u32, slots: u32) -> Op {
    operation(OpNumber::CREATE_SESSION, move |out| {
        out.u64(client.0);
        out.u32(sequence);
        out.u32(0);
        for _ in 0..2 {
            for word in [0, 1 << 21, 1 << 21, 4096, 64, slots, 0] {
                out.u32(word);
            }
        }
        out.u32(0);
        out.u32(1);
        out.u32(0);
    })
}

pub fn sequence(session: SessionId, sequence: u32, slot: u32, highest: u32, cache: bool) -> Op {
    operation(OpNumber::SEQUENCE, move |out| {
        out.put(&session.0);
        out.u32(sequence);
        out.u32(slot);
        out.u32(highest);
        out.put(&cache);
    })
}

pub fn bind(session: SessionId, direction: u32) -> Op {
    operation(OpNumber::BIND_CONN_TO_SESSION, move |out| {
        out.put(&session.0);
        out.u32(direction);
        out.put(&false);
    })
}

pub fn destroy_session(session: SessionId) -> Op {
    operation(OpNumber::DESTROY_SESSION, move |out| out.put(&session.0))
}

pub fn destroy_client(client: ClientId) -> Op {
    operation(OpNumber::DESTROY_CLIENTID, move |out| out.u64(client.0))
}

pub fn reclaim_complete(one: bool) -> Op {
    operation(OpNumber::RECLAIM_COMPLETE, move |out| out.put(&one))
}

pub fn putfh(handle: &[u8]) -> Op {
    let handle = handle.to_vec();
    operation(OpNumber::PUTFH, move |out| out.opaque(&handle))
}

pub fn putrootfh() -> Op {
    bare(OpNumber::PUTROOTFH)
}

pub fn getfh() -> Op {
    bare(OpNumber::GETFH)
}

pub fn savefh() -> Op {
    bare(OpNumber::SAVEFH)
}

pub fn restorefh() -> Op {
    bare(OpNumber::RESTOREFH)
}

fn named(number: OpNumber, name: &[u8]) -> Op {
    let name = name.to_vec();
    operation(number, move |out| out.opaque(&name))
}

pub fn lookup(name: &str) -> Op {
    named(OpNumber::LOOKUP, name.as_bytes())
}

pub fn lookup_bytes(name: &[u8]) -> Op {
    named(OpNumber::LOOKUP, name)
}

pub fn lookupp() -> Op {
    bare(OpNumber::LOOKUPP)
}

pub fn remove(name: &str) -> Op {
    named(OpNumber::REMOVE, name.as_bytes())
}

pub fn link(name: &str) -> Op {
    named(OpNumber::LINK, name.as_bytes())
}

pub fn secinfo(name: &str) -> Op {
    named(OpNumber::SECINFO, name.as_bytes())
}

pub fn secinfo_no_name(style: u32) -> Op {
    operation(OpNumber::SECINFO_NO_NAME, move |out| out.u32(style))
}

pub fn rename(from: &str, to: &str) -> Op {
    let (from, to) = (from.to_owned(), to.to_owned());
    operation(OpNumber::RENAME, move |out| {
        out.opaque(from.as_bytes());
        out.opaque(to.as_bytes());
    })
}

/// Words of a bitmap of these numbers.
pub fn bitmap(numbers: &[u32]) -> nfs::v4::Bitmap {
    nfs::v4::Bitmap::of(numbers)
}

/// Attributes with their values.
#[derive(Clone, Default)]
pub struct Attributes {
    pub numbers: Vec<u32>,
    pub values: Vec<u8>,
}

impl Attributes {
    pub fn mode(mode: u32) -> Self {
        Self { numbers: vec![33], values: mode.to_be_bytes().to_vec() }
    }

    pub fn size(size: u64) -> Self {
        Self { numbers: vec![4], values: size.to_be_bytes().to_vec() }
    }

    fn put(&self, out: &mut Writer) {
        out.put(&bitmap(&self.numbers));
        out.opaque(&self.values);
    }
}

pub fn create(kind: u32, name: &str) -> Op {
    let name = name.to_owned();
    operation(OpNumber::CREATE, move |out| {
        out.u32(kind);
        match kind {
            5 => out.opaque(b"target"),
            3 | 4 => out.u64(0),
            _ => {}
        }
        out.opaque(name.as_bytes());
        Attributes::mode(0o755).put(out);
    })
}

pub fn getattr(numbers: &[u32]) -> Op {
    let bitmap = bitmap(numbers);
    operation(OpNumber::GETATTR, move |out| out.put(&bitmap))
}

pub fn setattr(stateid: Stateid, attributes: &Attributes) -> Op {
    let attributes = attributes.clone();
    operation(OpNumber::SETATTR, move |out| {
        put_stateid(out, stateid);
        attributes.put(out);
    })
}

pub fn verify(attributes: &Attributes) -> Op {
    let attributes = attributes.clone();
    operation(OpNumber::VERIFY, move |out| attributes.put(out))
}

pub fn nverify(attributes: &Attributes) -> Op {
    let attributes = attributes.clone();
    operation(OpNumber::NVERIFY, move |out| attributes.put(out))
}

pub fn access(rights: u32) -> Op {
    operation(OpNumber::ACCESS, move |out| out.u32(rights))
}

pub fn read(stateid: Stateid, offset: u64, count: u32) -> Op {
    operation(OpNumber::READ, move |out| {
        put_stateid(out, stateid);
        out.u64(offset);
        out.u32(count);
    })
}

pub fn write(stateid: Stateid, offset: u64, data: &[u8]) -> Op {
    write_as(2, stateid, offset, data)
}

/// A WRITE that asks for this `stable_how4`.
pub fn write_as(stable: u32, stateid: Stateid, offset: u64, data: &[u8]) -> Op {
    let data = data.to_vec();
    operation(OpNumber::WRITE, move |out| {
        put_stateid(out, stateid);
        out.u64(offset);
        out.u32(stable);
        out.opaque(&data);
    })
}

pub fn commit(offset: u64, count: u32) -> Op {
    operation(OpNumber::COMMIT, move |out| {
        out.u64(offset);
        out.u32(count);
    })
}

pub fn ranged(number: OpNumber, stateid: Stateid, offset: u64, count: u64) -> Op {
    operation(number, move |out| {
        put_stateid(out, stateid);
        out.u64(offset);
        out.u64(count);
    })
}

pub fn seek(stateid: Stateid, offset: u64, what: u32) -> Op {
    operation(OpNumber::SEEK, move |out| {
        put_stateid(out, stateid);
        out.u64(offset);
        out.u32(what);
    })
}

pub fn copy(from: Stateid, to: Stateid, count: u64) -> Op {
    operation(OpNumber::COPY, move |out| {
        put_stateid(out, from);
        put_stateid(out, to);
        out.u64(0);
        out.u64(0);
        out.u64(count);
        out.put(&true);
        out.put(&true);
        out.u32(0);
    })
}

pub fn readdir(cookie: u64, verifier: [u8; 8], max: u32, numbers: &[u32]) -> Op {
    let bitmap = bitmap(numbers);
    operation(OpNumber::READDIR, move |out| {
        out.u64(cookie);
        out.put(&verifier);
        out.u32(max);
        out.u32(max);
        out.put(&bitmap);
    })
}

pub fn readlink() -> Op {
    bare(OpNumber::READLINK)
}

#[derive(Clone)]
pub enum How {
    NoCreate,
    Unchecked(Option<u64>),
    Guarded,
    Exclusive([u8; 8]),
}

#[derive(Clone, Copy)]
pub enum Claim<'a> {
    Null(&'a str),
    Previous,
    Fh,
    DelegateCurrent(&'a str),
}

pub fn open(owner: &[u8], access: u32, deny: u32, how: How, claim: Claim<'_>) -> Op {
    let owner = owner.to_vec();
    let (kind, name) = match claim {
        Claim::Null(name) => (0, Some(name.to_owned())),
        Claim::Previous => (1, None),
        Claim::Fh => (4, None),
        Claim::DelegateCurrent(name) => (2, Some(name.to_owned())),
    };
    operation(OpNumber::OPEN, move |out| {
        out.u32(0);
        out.u32(access);
        out.u32(deny);
        out.u64(0);
        out.opaque(&owner);
        match &how {
            How::NoCreate => out.u32(0),
            How::Unchecked(size) => {
                out.u32(1);
                out.u32(0);
                size.map_or_else(|| Attributes::mode(0o644), Attributes::size).put(out);
            }
            How::Guarded => {
                out.u32(1);
                out.u32(1);
                Attributes::mode(0o644).put(out);
            }
            How::Exclusive(verifier) => {
                out.u32(1);
                out.u32(3);
                out.put(verifier);
                Attributes::mode(0o644).put(out);
            }
        }
        out.u32(kind);
        match kind {
            1 => out.u32(0),
            2 => put_stateid(out, Stateid::ANONYMOUS),
            _ => {}
        }
        if let Some(name) = &name {
            out.opaque(name.as_bytes());
        }
    })
}

pub fn close(stateid: Stateid) -> Op {
    operation(OpNumber::CLOSE, move |out| {
        out.u32(0);
        put_stateid(out, stateid);
    })
}

pub fn downgrade(stateid: Stateid, access: u32, deny: u32) -> Op {
    operation(OpNumber::OPEN_DOWNGRADE, move |out| {
        put_stateid(out, stateid);
        out.u32(0);
        out.u32(access);
        out.u32(deny);
    })
}

pub fn lock_new(kind: u32, offset: u64, length: u64, open: Stateid, owner: &[u8]) -> Op {
    lock_of(false, kind, offset, length, open, owner)
}

/// A LOCK that claims what its owner had before a restart.
pub fn lock_reclaim(kind: u32, offset: u64, length: u64, open: Stateid, owner: &[u8]) -> Op {
    lock_of(true, kind, offset, length, open, owner)
}

fn lock_of(reclaim: bool, kind: u32, offset: u64, length: u64, open: Stateid, owner: &[u8]) -> Op {
    let owner = owner.to_vec();
    operation(OpNumber::LOCK, move |out| {
        out.u32(kind);
        out.put(&reclaim);
        out.u64(offset);
        out.u64(length);
        out.put(&true);
        out.u32(0);
        put_stateid(out, open);
        out.u32(0);
        out.u64(0);
        out.opaque(&owner);
    })
}

pub fn lock(kind: u32, offset: u64, length: u64, lock: Stateid) -> Op {
    operation(OpNumber::LOCK, move |out| {
        out.u32(kind);
        out.put(&false);
        out.u64(offset);
        out.u64(length);
        out.put(&false);
        put_stateid(out, lock);
        out.u32(0);
    })
}

pub fn lockt(kind: u32, offset: u64, length: u64, owner: &[u8]) -> Op {
    let owner = owner.to_vec();
    operation(OpNumber::LOCKT, move |out| {
        out.u32(kind);
        out.u64(offset);
        out.u64(length);
        out.u64(0);
        out.opaque(&owner);
    })
}

pub fn locku(stateid: Stateid, offset: u64, length: u64) -> Op {
    operation(OpNumber::LOCKU, move |out| {
        out.u32(1);
        out.u32(0);
        put_stateid(out, stateid);
        out.u64(offset);
        out.u64(length);
    })
}

pub fn free_stateid(stateid: Stateid) -> Op {
    operation(OpNumber::FREE_STATEID, move |out| put_stateid(out, stateid))
}

pub fn test_stateid(stateids: &[Stateid]) -> Op {
    let stateids = stateids.to_vec();
    operation(OpNumber::TEST_STATEID, move |out| {
        out.length(stateids.len());
        for stateid in &stateids {
            put_stateid(out, *stateid);
        }
    })
}
