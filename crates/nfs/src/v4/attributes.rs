//! `fattr4`: attributes of files (RFC 8881 §5, RFC 7862 §12).

use alloc::vec::Vec;

use filesystem::{Attributes, Features, FileType, Fsid, Limits, SetAttributes, SetTime, Space, Time};
use rpc::xdr::{Error, Reader, Writer};

use super::{Bitmap, Status};
use crate::limits::{ATTRIBUTES, LEASE_SECONDS, OWNER_NAME};

/// The numbers (RFC 8881 §5.6, §5.7).
#[expect(missing_docs, reason = "the names are the standard's, and its tables 3 and 4 say what each is")]
pub mod number {
    pub const SUPPORTED_ATTRS: u32 = 0;
    pub const TYPE: u32 = 1;
    pub const FH_EXPIRE_TYPE: u32 = 2;
    pub const CHANGE: u32 = 3;
    pub const SIZE: u32 = 4;
    pub const LINK_SUPPORT: u32 = 5;
    pub const SYMLINK_SUPPORT: u32 = 6;
    pub const NAMED_ATTR: u32 = 7;
    pub const FSID: u32 = 8;
    pub const UNIQUE_HANDLES: u32 = 9;
    pub const LEASE_TIME: u32 = 10;
    pub const RDATTR_ERROR: u32 = 11;
    pub const ACLSUPPORT: u32 = 13;
    pub const CANSETTIME: u32 = 15;
    pub const CASE_INSENSITIVE: u32 = 16;
    pub const CASE_PRESERVING: u32 = 17;
    pub const CHOWN_RESTRICTED: u32 = 18;
    pub const FILEHANDLE: u32 = 19;
    pub const FILEID: u32 = 20;
    pub const FILES_AVAIL: u32 = 21;
    pub const FILES_FREE: u32 = 22;
    pub const FILES_TOTAL: u32 = 23;
    pub const HOMOGENEOUS: u32 = 26;
    pub const MAXFILESIZE: u32 = 27;
    pub const MAXLINK: u32 = 28;
    pub const MAXNAME: u32 = 29;
    pub const MAXREAD: u32 = 30;
    pub const MAXWRITE: u32 = 31;
    pub const MODE: u32 = 33;
    pub const NO_TRUNC: u32 = 34;
    pub const NUMLINKS: u32 = 35;
    pub const OWNER: u32 = 36;
    pub const OWNER_GROUP: u32 = 37;
    pub const RAWDEV: u32 = 41;
    pub const SPACE_AVAIL: u32 = 42;
    pub const SPACE_FREE: u32 = 43;
    pub const SPACE_TOTAL: u32 = 44;
    pub const SPACE_USED: u32 = 45;
    pub const TIME_ACCESS: u32 = 47;
    pub const TIME_ACCESS_SET: u32 = 48;
    pub const TIME_CREATE: u32 = 50;
    pub const TIME_DELTA: u32 = 51;
    pub const TIME_METADATA: u32 = 52;
    pub const TIME_MODIFY: u32 = 53;
    pub const TIME_MODIFY_SET: u32 = 54;
    pub const MOUNTED_ON_FILEID: u32 = 55;
    pub const SUPPATTR_EXCLCREAT: u32 = 75;
}

use number::{
    ACLSUPPORT, CANSETTIME, CASE_INSENSITIVE, CASE_PRESERVING, CHANGE, CHOWN_RESTRICTED, FH_EXPIRE_TYPE,
    FILEHANDLE, FILEID, FILES_AVAIL, FILES_FREE, FILES_TOTAL, FSID, HOMOGENEOUS, LEASE_TIME, LINK_SUPPORT,
    MAXFILESIZE, MAXLINK, MAXNAME, MAXREAD, MAXWRITE, MODE, MOUNTED_ON_FILEID, NAMED_ATTR, NO_TRUNC,
    NUMLINKS, OWNER, OWNER_GROUP, RAWDEV, RDATTR_ERROR, SIZE, SPACE_AVAIL, SPACE_FREE, SPACE_TOTAL,
    SPACE_USED, SUPPATTR_EXCLCREAT, SUPPORTED_ATTRS, SYMLINK_SUPPORT, TIME_ACCESS, TIME_ACCESS_SET,
    TIME_CREATE, TIME_DELTA, TIME_METADATA, TIME_MODIFY, TIME_MODIFY_SET, TYPE, UNIQUE_HANDLES,
};

/// Attributes that can be set.
pub const SETTABLE: Bitmap = Bitmap::of(&[SIZE, MODE, OWNER, OWNER_GROUP, TIME_ACCESS_SET, TIME_MODIFY_SET]);
/// Those of them that EXCLUSIVE4_1 takes: times may hold the verifier, and there is no size yet (RFC 8881 §18.16.3).
pub const SETTABLE_EXCLUSIVE: Bitmap = Bitmap::of(&[MODE, OWNER, OWNER_GROUP]);
/// Attributes that can only be set, and never be asked for (RFC 8881 §5.4).
pub const WRITE_ONLY: Bitmap = Bitmap::of(&[TIME_ACCESS_SET, TIME_MODIFY_SET]);
/// Attributes that need the file system's space.
pub const OF_SPACE: Bitmap =
    Bitmap::of(&[FILES_AVAIL, FILES_FREE, FILES_TOTAL, SPACE_AVAIL, SPACE_FREE, SPACE_TOTAL]);
/// Every attribute that is served.
pub const SUPPORTED: Bitmap = Bitmap::of(&[
    SUPPORTED_ATTRS,
    TYPE,
    FH_EXPIRE_TYPE,
    CHANGE,
    SIZE,
    LINK_SUPPORT,
    SYMLINK_SUPPORT,
    NAMED_ATTR,
    FSID,
    UNIQUE_HANDLES,
    LEASE_TIME,
    RDATTR_ERROR,
    ACLSUPPORT,
    CANSETTIME,
    CASE_INSENSITIVE,
    CASE_PRESERVING,
    CHOWN_RESTRICTED,
    FILEHANDLE,
    FILEID,
    FILES_AVAIL,
    FILES_FREE,
    FILES_TOTAL,
    HOMOGENEOUS,
    MAXFILESIZE,
    MAXLINK,
    MAXNAME,
    MAXREAD,
    MAXWRITE,
    MODE,
    NO_TRUNC,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_AVAIL,
    SPACE_FREE,
    SPACE_TOTAL,
    SPACE_USED,
    TIME_ACCESS,
    TIME_ACCESS_SET,
    TIME_CREATE,
    TIME_DELTA,
    TIME_METADATA,
    TIME_MODIFY,
    TIME_MODIFY_SET,
    MOUNTED_ON_FILEID,
    SUPPATTR_EXCLCREAT,
]);

/// Those of them that are told.
const TOLD: Bitmap = SUPPORTED.difference(&WRITE_ONLY);
/// What few file systems know.
const MADE: Bitmap = Bitmap::of(&[TIME_CREATE]);

/// Digits of the largest number of a user or group.
const OWNER_DIGITS: usize = 10;

/// Everything that an object's attributes are made of.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The object's own.
    pub attributes: &'a Attributes,
    /// The file system's name, as this server tells it.
    pub fsid: Fsid,
    /// The object's handle on the wire, if it is asked for.
    pub handle: &'a [u8],
    /// The number of the directory that the object is mounted on, or the object's own.
    pub mounted_on: u64,
    /// The file system's limits.
    pub limits: &'a Limits,
    /// What it can do.
    pub features: Features,
    /// Its space, if it was asked for.
    pub space: Option<Space>,
}

/// Writes those of the attributes that are served and asked for, as `fattr4`.
pub fn encode(writer: &mut Writer, asked: &Bitmap, source: &Source<'_>) {
    let mut told = asked.intersection(&TOLD);
    if source.space.is_none() {
        told = told.difference(&OF_SPACE);
    }
    if source.attributes.time_create.is_none() {
        told = told.difference(&MADE);
    }
    writer.put(&told);
    let length = writer.place();
    let before = writer.len();
    for number in told.iter() {
        encode_one(writer, number, source);
    }
    let bytes = writer.len().saturating_sub(before);
    writer.set(length, wire::bounded(bytes));
}

fn encode_one(writer: &mut Writer, number: u32, source: &Source<'_>) {
    let Source { attributes, limits, features, .. } = source;
    match number {
        SUPPORTED_ATTRS => writer.put(&supported(*features)),
        SUPPATTR_EXCLCREAT => writer.put(&SETTABLE_EXCLUSIVE),
        TYPE => writer.u32(file_type(attributes.file_type)),
        // FH4_PERSISTENT, NFS4_OK, no lists.
        FH_EXPIRE_TYPE | RDATTR_ERROR | ACLSUPPORT => writer.u32(0),
        LEASE_TIME => writer.u32(LEASE_SECONDS),
        CHANGE => writer.u64(attributes.change),
        SIZE => writer.u64(attributes.size),
        FSID => {
            writer.u64(source.fsid.major);
            writer.u64(source.fsid.minor);
        }
        LINK_SUPPORT => writer.put(&features.contains(Features::LINKS)),
        SYMLINK_SUPPORT => writer.put(&features.contains(Features::SYMBOLIC_LINKS)),
        NAMED_ATTR | CASE_INSENSITIVE => writer.put(&false),
        UNIQUE_HANDLES | CANSETTIME | CASE_PRESERVING | CHOWN_RESTRICTED | HOMOGENEOUS | NO_TRUNC => {
            writer.put(&true);
        }
        FILEHANDLE => writer.opaque(source.handle),
        FILEID => writer.u64(attributes.fileid),
        MOUNTED_ON_FILEID => writer.u64(source.mounted_on),
        MAXFILESIZE => writer.u64(limits.max_file_size),
        MAXLINK => writer.u32(limits.max_links),
        MAXNAME => writer.u32(limits.max_name),
        MAXREAD => writer.u64(limits.max_read.min(crate::limits::PAYLOAD).into()),
        MAXWRITE => writer.u64(limits.max_write.min(crate::limits::PAYLOAD).into()),
        MODE => writer.u32(attributes.mode),
        NUMLINKS => writer.u32(attributes.numlinks),
        OWNER => decimal(writer, attributes.owner),
        OWNER_GROUP => decimal(writer, attributes.owner_group),
        RAWDEV => {
            writer.u32(attributes.rawdev.major);
            writer.u32(attributes.rawdev.minor);
        }
        SPACE_USED => writer.u64(attributes.space_used),
        TIME_ACCESS => time(writer, attributes.time_access),
        TIME_CREATE => time(writer, attributes.time_create.unwrap_or_default()),
        TIME_DELTA => time(writer, limits.time_delta),
        TIME_METADATA => time(writer, attributes.time_metadata),
        TIME_MODIFY => time(writer, attributes.time_modify),
        _ => writer.u64(source.space.map_or(0, |space| of_space(number, &space))),
    }
}

/// A user's or group's number as a name (RFC 8881 §5.9).
fn decimal(writer: &mut Writer, mut value: u32) {
    let (mut digits, mut used) = ([0; OWNER_DIGITS], 0);
    for digit in digits.iter_mut().rev() {
        *digit = b'0'.saturating_add(wire::saturate(value % 10));
        (value, used) = (value / 10, used + 1);
        if value == 0 {
            break;
        }
    }
    let unused = OWNER_DIGITS.saturating_sub(used);
    writer.opaque(digits.get(unused..).unwrap_or_default());
}

fn of_space(number: u32, space: &Space) -> u64 {
    match number {
        FILES_AVAIL => space.files_avail,
        FILES_FREE => space.files_free,
        FILES_TOTAL => space.files_total,
        SPACE_AVAIL => space.space_avail,
        SPACE_FREE => space.space_free,
        _ => space.space_total,
    }
}

fn supported(features: Features) -> Bitmap {
    if features.contains(Features::TIME_CREATE) {
        return SUPPORTED;
    }
    let mut without = Bitmap::default();
    SUPPORTED.iter().filter(|number| *number != TIME_CREATE).for_each(|number| without.add(number));
    without
}

/// `nfs_ftype4`.
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

fn time(writer: &mut Writer, time: Time) {
    writer.i64(time.seconds);
    writer.u32(time.nanos);
}

/// `fattr4` as it was sent: VERIFY compares its bytes, SETATTR reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Which attributes.
    pub bitmap: Bitmap,
    /// Their values, one behind the other.
    pub values: Vec<u8>,
}

impl Sent {
    /// Reads it, without its values' meaning.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let bitmap = reader.get()?;
        Ok(Self { bitmap, values: reader.opaque(ATTRIBUTES)?.to_vec() })
    }

    /// What is to be set.
    ///
    /// # Errors
    /// ATTRNOTSUPP for what nobody knows, INVAL for what cannot be set, BADOWNER, BADXDR.
    pub fn to_set(&self) -> Result<SetAttributes, Status> {
        if !SUPPORTED.contains(&self.bitmap) {
            return Err(Status::ATTRNOTSUPP);
        }
        if !SETTABLE.contains(&self.bitmap) {
            return Err(Status::INVAL);
        }
        let mut reader = Reader::new(&self.values);
        let mut set = SetAttributes::default();
        for number in self.bitmap.iter() {
            read_one(&mut reader, number, &mut set)?;
        }
        reader.end().map_err(|_| Status::BADXDR)?;
        Ok(set)
    }
}

fn read_one(reader: &mut Reader<'_>, number: u32, set: &mut SetAttributes) -> Result<(), Status> {
    let bad = |_: Error| Status::BADXDR;
    match number {
        SIZE => set.size = Some(reader.u64().map_err(bad)?),
        MODE => set.mode = Some(reader.u32().map_err(bad)?),
        OWNER => set.owner = Some(read_owner(reader)?),
        OWNER_GROUP => set.owner_group = Some(read_owner(reader)?),
        TIME_ACCESS_SET => set.time_access = Some(read_time(reader)?),
        TIME_MODIFY_SET => set.time_modify = Some(read_time(reader)?),
        _ => return Err(Status::INVAL),
    }
    Ok(())
}

/// A number in decimal (RFC 8881 §5.9): what AUTH_SYS speaks of. Names need a service that translates them.
fn read_owner(reader: &mut Reader<'_>) -> Result<u32, Status> {
    let name = reader.opaque(OWNER_NAME).map_err(|_| Status::BADXDR)?;
    let digits = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(name).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or(Status::BADOWNER)
}

fn read_time(reader: &mut Reader<'_>) -> Result<SetTime, Status> {
    let bad = |_: Error| Status::BADXDR;
    match reader.u32().map_err(bad)? {
        0 => Ok(SetTime::ToServer),
        1 => {
            let (seconds, nanos) = (reader.i64().map_err(bad)?, reader.u32().map_err(bad)?);
            if nanos < 1_000_000_000 {
                Ok(SetTime::ToClient(Time { seconds, nanos }))
            } else {
                Err(Status::INVAL)
            }
        }
        _ => Err(Status::BADXDR),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn sent(bitmap: &[u32], write: impl FnOnce(&mut Writer)) -> Sent {
        let mut writer = Writer::new();
        write(&mut writer);
        Sent { bitmap: Bitmap::of(bitmap), values: writer.finish().bytes().to_vec() }
    }

    #[test]
    fn what_is_set_is_read() {
        let all = sent(&[SIZE, MODE, OWNER, TIME_MODIFY_SET], |writer| {
            writer.u64(5);
            writer.u32(0o640);
            writer.opaque(b"1000");
            writer.u32(1);
            writer.i64(-1);
            writer.u32(7);
        });
        let time = SetTime::ToClient(Time { seconds: -1, nanos: 7 });
        let expected = SetAttributes {
            size: Some(5),
            mode: Some(0o640),
            owner: Some(1000),
            time_modify: Some(time),
            ..SetAttributes::default()
        };
        assert_eq!(all.to_set(), Ok(expected));
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let refused = |bitmap: &[u32], write: fn(&mut Writer)| sent(bitmap, write).to_set().unwrap_err();
        assert_eq!(refused(&[76], |_| {}), Status::ATTRNOTSUPP);
        assert_eq!(refused(&[FILEID], |writer| writer.u64(1)), Status::INVAL);
        assert_eq!(refused(&[OWNER], |writer| writer.opaque(b"root@example")), Status::BADOWNER);
        assert_eq!(refused(&[OWNER], |writer| writer.opaque(b"99999999999")), Status::BADOWNER);
        assert_eq!(refused(&[SIZE], |writer| writer.u32(1)), Status::BADXDR);
        assert_eq!(refused(&[MODE], |writer| writer.u64(1)), Status::BADXDR);
        assert_eq!(Sent { bitmap: Bitmap::default(), values: vec![] }.to_set(), Ok(SetAttributes::default()));
    }

    #[test]
    fn nothing_write_only_is_told_and_the_sets_fit() {
        assert!(SUPPORTED.contains(&SETTABLE) && SETTABLE.contains(&SETTABLE_EXCLUSIVE));
        assert!(SUPPORTED.contains(&OF_SPACE) && SETTABLE.contains(&WRITE_ONLY));
    }
}
