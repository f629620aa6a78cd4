//! Version 3 and MOUNT by bytes: what is made is found again, and what is sent twice is carried out once.

mod common;

use common::Bench;
use nfs::v3::Status;
use nfs::v3::procedure::Number;
use rpc::message::AuthSysToSend;
use rpc::xdr::{Reader, Writer};

const NFS: (u32, u32) = (100_003, 3);
const MOUNT: (u32, u32) = (100_005, 3);

/// A call as it is sent.
fn record(xid: u32, (program, version): (u32, u32), procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    for word in [xid, 0, 2, program, version, procedure] {
        out.u32(word);
    }
    out.put(&AuthSysToSend::new("host", 1000, 1000, &[]).as_auth());
    out.u32(0);
    out.u32(0);
    let mut bytes = out.finish().bytes().to_vec();
    bytes.extend_from_slice(arguments);
    bytes
}

/// The results of a call that was carried out.
fn results(reply: &[u8]) -> Vec<u8> {
    assert_eq!(reply[4..24], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    reply[24..].to_vec()
}

fn call(
    bench: &mut Bench,
    peer: usize,
    xid: u32,
    to: (u32, u32),
    procedure: u32,
    arguments: &[u8],
) -> Vec<u8> {
    bench.send_record(peer, &record(xid, to, procedure, arguments));
    results(&bench.replies(peer).remove(&xid).expect("an answer"))
}

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::new();
    write(&mut out);
    out.finish().bytes().to_vec()
}

fn mounted(bench: &mut Bench, peer: usize) -> Vec<u8> {
    let reply = call(bench, peer, 1, MOUNT, 1, &written(|out| out.opaque(b"/data")));
    let mut reader = Reader::new(&reply);
    assert_eq!(reader.u32(), Ok(0));
    reader.opaque(64).unwrap().to_vec()
}

fn status(reply: &[u8]) -> Status {
    Status(Reader::new(reply).u32().unwrap())
}

fn place(directory: &[u8], name: &str) -> Vec<u8> {
    written(|out| {
        out.opaque(directory);
        out.opaque(name.as_bytes());
    })
}

#[test]
fn a_directory_is_mounted_and_used() {
    let mut bench = Bench::new();
    let peer = bench.connect();
    let root = mounted(&mut bench, peer);
    let mut make = place(&root, "dir");
    make.extend_from_slice(&[0; 24]);
    assert_eq!(status(&call(&mut bench, peer, 2, NFS, Number::MKDIR.0, &make)), Status::OK);
    assert_eq!(status(&call(&mut bench, peer, 3, NFS, Number::LOOKUP.0, &place(&root, "dir"))), Status::OK);
    assert_eq!(status(&call(&mut bench, peer, 4, NFS, Number::LOOKUP.0, &place(&root, "x"))), Status::NOENT);
    let forged = written(|out| out.opaque(&[9, 9]));
    assert_eq!(status(&call(&mut bench, peer, 5, NFS, Number::GETATTR.0, &forged)), Status::BADHANDLE);
    let list = written(|out| {
        out.opaque(&root);
        out.u64(0);
        out.u64(0);
        out.u32(4096);
    });
    let reply = call(&mut bench, peer, 6, NFS, Number::READDIR.0, &list);
    let mut reader = Reader::new(&reply);
    assert_eq!((reader.u32(), reader.bool()), (Ok(0), Ok(true)));
    reader.fixed::<84>().unwrap();
    reader.u64().unwrap();
    let names = reader.list(8, |reader| {
        reader.u64()?;
        let name = reader.opaque(255)?.to_vec();
        reader.u64().map(|_| name)
    });
    assert_eq!(names.unwrap(), [b".".to_vec(), b"..".to_vec(), b"dir".to_vec()]);
    assert_eq!((reader.bool(), reader.end()), (Ok(true), Ok(())));
}

#[test]
fn what_is_sent_twice_is_carried_out_once() {
    let mut bench = Bench::new();
    let (one, other) = (bench.connect(), bench.connect());
    let root = mounted(&mut bench, one);
    let mut make = place(&root, "dir");
    make.extend_from_slice(&[0; 24]);
    let first = call(&mut bench, one, 7, NFS, Number::MKDIR.0, &make);
    let again = call(&mut bench, other, 7, NFS, Number::MKDIR.0, &make);
    assert_eq!((status(&first), &first), (Status::OK, &again));
    assert_eq!(bench.requests["make"], 1);
    assert_eq!(status(&call(&mut bench, other, 8, NFS, Number::MKDIR.0, &make)), Status::EXIST);
}
