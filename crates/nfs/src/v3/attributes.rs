//! Attributes on the wire: `fattr3`, `sattr3`, `post_op_attr`, `wcc_data` (RFC 1813 §2.5, §2.6).

use filesystem::{
    Attributes, DirectoryChange, FileType, Fsid, PreOperation, SetAttributes, SetTime, SpecData, Time,
    WccData,
};
use rpc::xdr::{Error, Reader, Writer};

/// The bits of a mode that there are (RFC 1813 §2.5.5). Some clients send the file's type above them, which says nothing new.
const MODES: u32 = 0o7777;

/// `ftype3` of an object.
pub fn file_type(of: FileType) -> u32 {
    match of {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::BlockDevice => 3,
        FileType::CharacterDevice => 4,
        FileType::SymbolicLink => 5,
        FileType::Socket => 6,
        FileType::Fifo => 7,
    }
}

/// `fsid`: both numbers of the file system in one.
pub fn fsid(of: Fsid) -> u64 {
    of.major ^ of.minor.rotate_left(32)
}

/// Writes `nfstime3`. Its seconds have no sign and 32 bits: what lies before 1970 is told as 1970, and what lies after 2106 as 2106.
pub fn put_time(out: &mut Writer, time: Time) {
    out.u32(wire::saturate(time.seconds.max(0)));
    out.u32(time.nanos);
}

/// Reads `nfstime3`.
///
/// # Errors
/// For what is none.
pub(super) fn time(reader: &mut Reader<'_>) -> Result<Time, Error> {
    Ok(Time { seconds: reader.u32()?.into(), nanos: reader.u32()? })
}

/// Writes `fattr3`: 84 bytes.
pub fn put_attributes(out: &mut Writer, of: &Attributes) {
    let words = [file_type(of.file_type), of.mode & MODES, of.numlinks, of.owner, of.owner_group];
    for word in words {
        out.u32(word);
    }
    out.u64(of.size);
    out.u64(of.space_used);
    out.u32(of.rawdev.major);
    out.u32(of.rawdev.minor);
    out.u64(fsid(of.fsid));
    out.u64(of.fileid);
    for time in [of.time_access, of.time_modify, of.time_metadata] {
        put_time(out, time);
    }
}

/// Writes `post_op_attr`.
pub fn put_post(out: &mut Writer, after: Option<&Attributes>) {
    out.put(&after.is_some());
    if let Some(after) = after {
        put_attributes(out, after);
    }
}

/// Writes `wcc_data`.
pub fn put_wcc(out: &mut Writer, data: &WccData) {
    out.put(&data.before.is_some());
    if let Some(PreOperation { size, time_modify, time_metadata, .. }) = data.before {
        out.u64(size);
        put_time(out, time_modify);
        put_time(out, time_metadata);
    }
    put_post(out, data.after.as_ref());
}

/// Writes `wcc_data` of a directory. What came before is told only if nothing else can have changed the directory in between: a client takes a
/// directory that was as it knew it for one that only itself has changed.
pub fn put_directory(out: &mut Writer, change: &DirectoryChange) {
    put_wcc(out, &WccData { before: change.atomic.then_some(change.before), after: Some(change.after) });
}

/// `set_atime`, `set_mtime`.
fn set_time(reader: &mut Reader<'_>) -> Result<Option<SetTime>, Error> {
    Ok(match reader.u32()? {
        0 => None,
        1 => Some(SetTime::ToServer),
        2 => Some(SetTime::ToClient(time(reader)?)),
        other => return Err(Error::NotInEnumeration(other)),
    })
}

/// Reads `sattr3`.
///
/// # Errors
/// For what is none.
pub fn set_attributes(reader: &mut Reader<'_>) -> Result<SetAttributes, Error> {
    Ok(SetAttributes {
        mode: reader.optional(Reader::u32)?.map(|mode| mode & MODES),
        owner: reader.optional(Reader::u32)?,
        owner_group: reader.optional(Reader::u32)?,
        size: reader.optional(Reader::u64)?,
        time_access: set_time(reader)?,
        time_modify: set_time(reader)?,
    })
}

/// Reads `sattrguard3`.
///
/// # Errors
/// For what is none.
pub fn guard(reader: &mut Reader<'_>) -> Result<Option<Time>, Error> {
    reader.optional(time)
}

/// Reads `specdata3`.
///
/// # Errors
/// For what is none.
pub fn numbers(reader: &mut Reader<'_>) -> Result<SpecData, Error> {
    Ok(SpecData { major: reader.u32()?, minor: reader.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_of_32_bits_are_told_as_the_nearest() {
        let told = |seconds| {
            let mut out = Writer::new();
            put_time(&mut out, Time { seconds, nanos: 5 });
            out.finish().bytes().to_vec()
        };
        assert_eq!(told(-1), [0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(told(1 << 40), [255, 255, 255, 255, 0, 0, 0, 5]);
        assert_eq!(told(7), [0, 0, 0, 7, 0, 0, 0, 5]);
    }

    #[test]
    fn attributes_to_be_set() {
        let mut out = Writer::new();
        out.put(&Some(0o100_644_u32));
        out.put(&None::<u32>);
        out.put(&Some(9_u32));
        out.put(&None::<u64>);
        for word in [1, 2, 5, 6] {
            out.u32(word);
        }
        let bytes = out.finish().bytes().to_vec();
        let wanted = SetAttributes {
            mode: Some(0o644),
            owner_group: Some(9),
            time_access: Some(SetTime::ToServer),
            time_modify: Some(SetTime::ToClient(Time { seconds: 5, nanos: 6 })),
            ..SetAttributes::default()
        };
        assert_eq!(set_attributes(&mut Reader::new(&bytes)), Ok(wanted));
        for end in 0..bytes.len() {
            let cut = set_attributes(&mut Reader::new(&bytes[..end]));
            assert!(matches!(cut, Err(Error::Truncated { .. })), "{end}");
        }
    }
}
