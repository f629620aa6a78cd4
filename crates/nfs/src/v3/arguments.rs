//! Arguments as a client writes them (RFC 1813 §3.3): what [`Procedure::decode`](super::procedure::Procedure::decode) reads, of the procedures that a volume needs.

use buf::BufList;
use filesystem::{Stability, Time};
use rpc::xdr::Writer;

use super::attributes::put_time;

/// `stable_how` (RFC 1813 §3.3.7).
fn stable_how(stability: Stability) -> u32 {
    match stability {
        Stability::Unstable => 0,
        Stability::DataSync => 1,
        Stability::FileSync => 2,
    }
}

/// GETATTR, FSINFO: an object.
pub fn object(out: &mut Writer, handle: &[u8]) {
    out.opaque(handle);
}

/// LOOKUP: a name in a directory.
pub fn lookup(out: &mut Writer, directory: &[u8], name: &[u8]) {
    out.opaque(directory);
    out.opaque(name);
}

/// ACCESS: an object, and `ACCESS3_*`.
pub fn access(out: &mut Writer, handle: &[u8], rights: u32) {
    out.opaque(handle);
    out.u32(rights);
}

/// READ, of `count` bytes.
pub fn read(out: &mut Writer, file: &[u8], offset: u64, count: u32) {
    out.opaque(file);
    out.u64(offset);
    out.u32(count);
}

/// WRITE, of memory that is not copied.
pub fn write(out: &mut Writer, file: &[u8], offset: u64, stability: Stability, data: BufList) {
    out.opaque(file);
    out.u64(offset);
    out.u32(wire::bounded(data.len()));
    out.u32(stable_how(stability));
    out.payload(data);
}

/// COMMIT, of `count` bytes; zero means up to the end.
pub fn commit(out: &mut Writer, file: &[u8], offset: u64, count: u32) {
    out.opaque(file);
    out.u64(offset);
    out.u32(count);
}

/// SETATTR of the size alone, in bytes, if the object was last changed at `changed` (`sattrguard3`).
pub fn set_size(out: &mut Writer, handle: &[u8], size: u64, changed: Time) {
    out.opaque(handle);
    // No mode, no owner, no group.
    for _ in 0..3 {
        out.put(&false);
    }
    out.put(&Some(size));
    // DONT_CHANGE, for either time.
    out.u32(0);
    out.u32(0);
    out.put(&true);
    put_time(out, changed);
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use buf::SharedBuf;
    use filesystem::SetAttributes;
    use rpc::xdr::{Reader, Step};

    use super::super::procedure::{Decoded, Number, Place, Procedure, Write};
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::new();
        write(&mut out);
        out.finish().bytes().to_vec()
    }

    fn decoded(number: Number, bytes: &[u8]) -> (Procedure, Step, usize) {
        let mut reader = Reader::new(bytes);
        let Decoded { procedure, step } = Procedure::decode(number, &mut reader).unwrap();
        (procedure, step, reader.remaining())
    }

    #[test]
    fn what_is_written_is_what_a_server_reads() {
        let cases: Vec<(Number, Vec<u8>)> = vec![
            (Number::GETATTR, written(|out| object(out, b"handle"))),
            (Number::FSINFO, written(|out| object(out, b"handle"))),
            (Number::LOOKUP, written(|out| lookup(out, b"handle", b"name"))),
            (Number::ACCESS, written(|out| access(out, b"handle", 13))),
            (Number::READ, written(|out| read(out, b"handle", 1 << 40, 77))),
            (Number::COMMIT, written(|out| commit(out, b"handle", 3, 0))),
        ];
        for (number, bytes) in cases {
            let (procedure, step, left) = decoded(number, &bytes);
            assert_eq!((step, left), (Step::End, 0), "{number:?}");
            match procedure {
                Procedure::GetAttributes(handle) | Procedure::Information(handle) => {
                    assert_eq!(handle, b"handle");
                }
                Procedure::Lookup(Place { directory, name }) => {
                    assert_eq!((&directory[..], &name[..]), (&b"handle"[..], &b"name"[..]));
                }
                Procedure::Access { object, rights } => {
                    assert_eq!((&object[..], rights), (&b"handle"[..], 13));
                }
                Procedure::Read { file, offset, count } => {
                    assert_eq!((&file[..], offset, count), (&b"handle"[..], 1 << 40, 77));
                }
                Procedure::Commit { file, offset, count } => {
                    assert_eq!((&file[..], offset, count), (&b"handle"[..], 3, 0));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn data_that_is_written() {
        for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
            let data = BufList::from(SharedBuf::from(vec![7; 5]));
            let bytes = written(|out| write(out, b"handle", 9, stability, data));
            let (procedure, step, left) = decoded(Number::WRITE, &bytes);
            // The data is memory of its own; what fills up its last unit stands here.
            assert_eq!((step, left), (Step::Payload(5), 3));
            let Procedure::Write(Write { file, offset, count, stability: told, length, .. }) = procedure
            else {
                panic!("no WRITE")
            };
            assert_eq!((&file[..], offset, count, length), (&b"handle"[..], 9, 5, 5));
            assert_eq!(told, stability);
        }
    }

    #[test]
    fn a_size_that_is_set() {
        let changed = Time { seconds: 12, nanos: 34 };
        let bytes = written(|out| set_size(out, b"handle", 4096, changed));
        let (procedure, step, left) = decoded(Number::SETATTR, &bytes);
        assert_eq!((step, left), (Step::End, 0));
        let Procedure::SetAttributes { object, attributes, guard } = procedure else { panic!("no SETATTR") };
        assert_eq!((&object[..], guard), (&b"handle"[..], Some(changed)));
        assert_eq!(attributes, SetAttributes { size: Some(4096), ..SetAttributes::default() });
    }
}
