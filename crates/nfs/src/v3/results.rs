//! Results as a client reads them (RFC 1813 §3.3), of the procedures that a volume needs. What a volume has no use for is read and left out.

use alloc::vec::Vec;

use filesystem::Time;
use rpc::xdr::{Error, Reader};

use super::Status;
use super::attributes::time;
use super::procedure::{Handle, Number};
use crate::limits::HANDLE_V3;
use crate::v4::Verifier;

/// What a volume needs of `fattr3` (RFC 1813 §2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAttributes {
    /// `ftype3`.
    pub file_type: u32,
    /// Bytes.
    pub size: u64,
    /// The file system's number.
    pub fsid: u64,
    /// The file's number in it.
    pub fileid: u64,
    /// When its attributes last changed.
    pub changed: Time,
}

/// What a procedure answers that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Success {
    /// GETATTR.
    Attributes(FileAttributes),
    /// SETATTR.
    Changed,
    /// LOOKUP.
    Found(Handle),
    /// ACCESS: those of the `ACCESS3_*` that were asked about and are granted.
    Granted(u32),
    /// READ; the data follows.
    Read {
        /// Bytes, as the server counts them.
        count: u32,
        /// The file ends behind them.
        at_end: bool,
        /// Bytes of data.
        length: usize,
    },
    /// WRITE.
    Written {
        /// Bytes that were written.
        count: u32,
        /// `stable_how`: how durable they are at least.
        committed: u32,
        /// The write verifier.
        verifier: Verifier,
    },
    /// FSINFO.
    Information {
        /// Bytes of the largest READ (`rtmax`).
        max_read: u32,
        /// Bytes of the largest WRITE (`wtmax`).
        max_write: u32,
    },
    /// COMMIT: the write verifier.
    Committed(Verifier),
}

/// Reads `fattr3`.
///
/// # Errors
/// For what is none.
pub fn attributes(reader: &mut Reader<'_>) -> Result<FileAttributes, Error> {
    let file_type = reader.u32()?;
    // Mode, links, owner and group.
    for _ in 0..4 {
        reader.u32()?;
    }
    let size = reader.u64()?;
    // What it uses, and the numbers of a device.
    reader.u64()?;
    reader.u64()?;
    let (fsid, fileid) = (reader.u64()?, reader.u64()?);
    time(reader)?;
    time(reader)?;
    Ok(FileAttributes { file_type, size, fsid, fileid, changed: time(reader)? })
}

/// Reads `post_op_attr`.
///
/// # Errors
/// For what is none.
pub fn post(reader: &mut Reader<'_>) -> Result<Option<FileAttributes>, Error> {
    reader.optional(attributes)
}

/// Passes over `wcc_data`.
///
/// # Errors
/// For what is none.
pub fn pass_wcc(reader: &mut Reader<'_>) -> Result<(), Error> {
    reader.optional(|reader| {
        reader.u64()?;
        time(reader)?;
        time(reader)
    })?;
    post(reader).map(|_| ())
}

/// Reads the results of a procedure, up to the data of READ.
///
/// # Errors
/// For what are none, and [`Error::NotInEnumeration`] for a procedure that a volume does not need.
pub fn decode(number: Number, reader: &mut Reader<'_>) -> Result<Result<Success, Status>, Error> {
    let status = Status(reader.u32()?);
    if !status.is_ok() {
        match number {
            Number::GETATTR => {}
            Number::SETATTR | Number::WRITE | Number::COMMIT => pass_wcc(reader)?,
            _ => {
                post(reader)?;
            }
        }
        return Ok(Err(status));
    }
    Ok(Ok(match number {
        Number::GETATTR => Success::Attributes(attributes(reader)?),
        Number::SETATTR => {
            pass_wcc(reader)?;
            Success::Changed
        }
        Number::LOOKUP => {
            let handle: Vec<u8> = reader.opaque(HANDLE_V3)?.to_vec();
            post(reader)?;
            post(reader)?;
            Success::Found(handle)
        }
        Number::ACCESS => {
            post(reader)?;
            Success::Granted(reader.u32()?)
        }
        Number::READ => {
            post(reader)?;
            Success::Read { count: reader.u32()?, at_end: reader.bool()?, length: reader.length(usize::MAX)? }
        }
        Number::WRITE => {
            pass_wcc(reader)?;
            let (count, committed) = (reader.u32()?, reader.u32()?);
            Success::Written { count, committed, verifier: Verifier(reader.fixed()?) }
        }
        Number::FSINFO => information(reader)?,
        Number::COMMIT => {
            pass_wcc(reader)?;
            Success::Committed(Verifier(reader.fixed()?))
        }
        Number(other) => return Err(Error::NotInEnumeration(other)),
    }))
}

/// `FSINFO3resok` (RFC 1813 §3.3.19).
fn information(reader: &mut Reader<'_>) -> Result<Success, Error> {
    post(reader)?;
    let mut most = [0; 2];
    for most in &mut most {
        *most = reader.u32()?;
        // What is best, and what it should be a multiple of.
        reader.u32()?;
        reader.u32()?;
    }
    // READDIR's size, the largest file, how fine times are, and what the file system can do.
    reader.u32()?;
    reader.u64()?;
    time(reader)?;
    reader.u32()?;
    let [max_read, max_write] = most;
    Ok(Success::Information { max_read, max_write })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use filesystem::{Attributes, FileType, Fsid, PreOperation, SpecData, WccData};
    use rpc::xdr::Writer;

    use super::super::attributes::{fsid, put_attributes, put_post, put_wcc};
    use super::*;

    const VERIFIER: Verifier = Verifier(*b"verifier");

    fn known() -> Attributes {
        let time = |seconds| Time { seconds, nanos: 9 };
        Attributes {
            file_type: FileType::Regular,
            mode: 0o644,
            numlinks: 1,
            owner: 1000,
            owner_group: 100,
            size: 1 << 33,
            space_used: 4096,
            rawdev: SpecData { major: 1, minor: 2 },
            fsid: Fsid { major: 3, minor: 4 },
            fileid: 55,
            time_access: time(1),
            time_modify: time(2),
            time_metadata: time(3),
            time_create: None,
            change: 7,
        }
    }

    fn wcc() -> WccData {
        let Attributes { size, time_modify, time_metadata, change, .. } = known();
        let before = Some(PreOperation { size, time_modify, time_metadata, change });
        WccData { before, after: Some(known()) }
    }

    fn seen() -> FileAttributes {
        let Attributes { size, fsid: system, fileid, time_metadata, .. } = known();
        FileAttributes { file_type: 1, size, fsid: fsid(system), fileid, changed: time_metadata }
    }

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::new();
        write(&mut out);
        out.finish().bytes().to_vec()
    }

    fn ok(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        written(|out| {
            out.u32(0);
            write(out);
        })
    }

    /// What the server writes of each procedure, and what a client reads of that.
    fn cases() -> Vec<(Number, Vec<u8>, Success)> {
        let read = Success::Read { count: 6, at_end: true, length: 6 };
        let written = Success::Written { count: 512, committed: 2, verifier: VERIFIER };
        Vec::from([
            (Number::GETATTR, ok(|out| put_attributes(out, &known())), Success::Attributes(seen())),
            (Number::SETATTR, ok(|out| put_wcc(out, &wcc())), Success::Changed),
            (
                Number::LOOKUP,
                ok(|out| {
                    out.opaque(b"handle");
                    put_post(out, Some(&known()));
                    put_post(out, None);
                }),
                Success::Found(b"handle".to_vec()),
            ),
            (
                Number::ACCESS,
                ok(|out| {
                    put_post(out, Some(&known()));
                    out.u32(5);
                }),
                Success::Granted(5),
            ),
            (
                Number::READ,
                ok(|out| {
                    put_post(out, Some(&known()));
                    out.u32(6);
                    out.put(&true);
                    out.u32(6);
                }),
                read,
            ),
            (
                Number::WRITE,
                ok(|out| {
                    put_wcc(out, &wcc());
                    out.u32(512);
                    out.u32(2);
                    out.fixed(&VERIFIER.0);
                }),
                written,
            ),
            (
                Number::FSINFO,
                ok(|out| {
                    put_post(out, None);
                    for word in [100, 10, 1, 200, 20, 2, 30] {
                        out.u32(word);
                    }
                    out.u64(u64::MAX);
                    for word in [0, 1, 0x1b] {
                        out.u32(word);
                    }
                }),
                Success::Information { max_read: 100, max_write: 200 },
            ),
            (
                Number::COMMIT,
                ok(|out| {
                    put_wcc(out, &WccData::default());
                    out.fixed(&VERIFIER.0);
                }),
                Success::Committed(VERIFIER),
            ),
        ])
    }

    #[test]
    fn what_a_server_writes_is_what_is_read() {
        for (number, bytes, expected) in cases() {
            let mut reader = Reader::new(&bytes);
            assert_eq!(decode(number, &mut reader), Ok(Ok(expected)), "{number:?}");
            assert_eq!(reader.remaining(), 0, "{number:?}");
            for end in 0..bytes.len() {
                let cut = decode(number, &mut Reader::new(&bytes[..end]));
                assert!(matches!(cut, Err(Error::Truncated { .. })), "{number:?} {end}");
            }
        }
    }

    #[test]
    fn what_a_server_writes_of_a_failure_is_what_is_read() {
        for (number, ..) in cases() {
            for after in [None, Some(known())] {
                let bytes = written(|out| {
                    out.u32(Status::JUKEBOX.0);
                    match number {
                        Number::GETATTR => {}
                        Number::SETATTR | Number::WRITE | Number::COMMIT => {
                            put_wcc(out, &WccData { before: None, after });
                        }
                        _ => put_post(out, after.as_ref()),
                    }
                });
                let mut reader = Reader::new(&bytes);
                assert_eq!(decode(number, &mut reader), Ok(Err(Status::JUKEBOX)), "{number:?}");
                assert_eq!(reader.remaining(), 0, "{number:?}");
            }
        }
    }

    #[test]
    fn a_handle_has_64_bytes_at_most() {
        let bytes = ok(|out| out.opaque(&[1; 65]));
        let error = decode(Number::LOOKUP, &mut Reader::new(&bytes));
        assert_eq!(error, Err(Error::TooLong { length: 65, maximum: 64 }));
    }
}
