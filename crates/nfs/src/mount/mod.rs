//! The MOUNT protocol, version 3 (RFC 1813, appendix I): how a client of version 3 gets the handle to begin with.
//!
//! It is served at the port of NFS, over TCP; no port mapper tells where (docs/decisions/0037-nfs3.md). Who has mounted what is not kept: MNT gives a handle to
//! whoever may have it, and the list that DUMP tells is empty.

use alloc::vec::Vec;

use filesystem::FileErrorKind;
use rpc::xdr::{Decoder, Error, Reader, Step, Writer};

use crate::limits::{HANDLE_V3, LIST, MOUNT_PATH, NAME};
use crate::named::statuses;

/// The program's number.
pub const PROGRAM: u32 = 100_005;
/// The version that is served.
pub const VERSION: u32 = 3;
/// How many procedures there are: 0 is NULL.
pub const PROCEDURES: u32 = 6;

/// `mountstat3`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

statuses! {
    MNT3, mountstat3;
    /// MNT3_OK.
    OK = 0;
    /// Only an owner or a privileged user may.
    PERM = 1;
    /// No such directory.
    NOENT = 2;
    /// The medium failed.
    IO = 5;
    /// It is not exported to this client, or not open to this caller.
    ACCES = 13;
    /// It is no directory.
    NOTDIR = 20;
    /// The path is none.
    INVAL = 22;
    /// A name in the path is too long.
    NAMETOOLONG = 63;
    /// It cannot be mounted.
    NOTSUPP = 10_004;
    /// An error that has no other name, or that passes.
    SERVERFAULT = 10_006;
}

impl Status {
    /// The status of a failure of the file system.
    pub fn of(failure: FileErrorKind) -> Self {
        match failure {
            FileErrorKind::NotOwner => Self::PERM,
            FileErrorKind::NoEntry | FileErrorKind::Stale => Self::NOENT,
            FileErrorKind::Io => Self::IO,
            FileErrorKind::Access => Self::ACCES,
            FileErrorKind::NotDirectory | FileErrorKind::SymbolicLink => Self::NOTDIR,
            FileErrorKind::Invalid | FileErrorKind::BadName => Self::INVAL,
            FileErrorKind::NameTooLong => Self::NAMETOOLONG,
            FileErrorKind::NotSupported => Self::NOTSUPP,
            _ => Self::SERVERFAULT,
        }
    }
}

/// A procedure with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Procedure {
    /// MOUNTPROC3_MNT: the path.
    Mount(Vec<u8>),
    /// MOUNTPROC3_DUMP.
    Dump,
    /// MOUNTPROC3_UMNT, MOUNTPROC3_UMNTALL: there is nothing to be forgotten.
    Unmount,
    /// MOUNTPROC3_EXPORT.
    Exports,
}

/// A call while its bytes arrive.
#[derive(Debug)]
pub struct Call {
    number: u32,
    procedure: Option<Procedure>,
}

impl Call {
    /// Nothing is read yet.
    pub fn new(number: u32) -> Self {
        Self { number, procedure: None }
    }

    /// The procedure, once it is read.
    pub fn into_procedure(self) -> Option<Procedure> {
        self.procedure
    }
}

impl Decoder for Call {
    fn step(&mut self, reader: &mut Reader<'_>) -> Result<Step, Error> {
        self.procedure = Some(match self.number {
            1 => Procedure::Mount(reader.opaque(MOUNT_PATH)?.to_vec()),
            2 => Procedure::Dump,
            3 => {
                reader.opaque(MOUNT_PATH)?;
                Procedure::Unmount
            }
            4 => Procedure::Unmount,
            5 => Procedure::Exports,
            other => return Err(Error::NotInEnumeration(other)),
        });
        Ok(Step::End)
    }
}

/// Writes a path, from the root: MOUNTPROC3_MNT's arguments. `None` if it has more bytes than MOUNT takes.
pub fn put_path(out: &mut Writer, names: &[Vec<u8>]) -> Option<()> {
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    (path.len() <= MOUNT_PATH).then(|| out.opaque(&path))
}

/// Reads `mountres3`: the handle. Security flavors are passed over, as AUTH_SYS is the only one that a client of ours has.
///
/// # Errors
/// For what is none.
pub fn mounted(reader: &mut Reader<'_>) -> Result<Result<Vec<u8>, Status>, Error> {
    let status = Status(reader.u32()?);
    if !status.is_ok() {
        return Ok(Err(status));
    }
    let handle = reader.opaque(HANDLE_V3)?.to_vec();
    reader.array::<u32>(LIST)?;
    Ok(Ok(handle))
}

/// The names of a path, from its end to its front. Empty ones and `.` lead nowhere and are left out.
///
/// # Errors
/// For a path that does not begin at the root, or has `..`, a zero byte or a name that is too long.
pub fn components(path: &[u8]) -> Result<Vec<Vec<u8>>, Status> {
    if !path.is_empty() && path.first() != Some(&b'/') {
        return Err(Status::INVAL);
    }
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    let mut all = Vec::new();
    for name in names {
        if name == b".." || name.contains(&0) {
            return Err(Status::INVAL);
        }
        if name.len() > NAME {
            return Err(Status::NAMETOOLONG);
        }
        all.push(name.to_vec());
    }
    all.reverse();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn paths_are_put_together_as_they_are_read() {
        for names in [vec![], vec![b"a".to_vec()], vec![b"a".to_vec(), b"b c".to_vec()]] {
            let mut out = Writer::new();
            put_path(&mut out, &names).unwrap();
            let bytes = out.finish().bytes().to_vec();
            let mut call = Call::new(1);
            assert_eq!(call.step(&mut Reader::new(&bytes)), Ok(Step::End));
            let Some(Procedure::Mount(path)) = call.into_procedure() else { panic!("no MNT") };
            let mut read = components(&path).unwrap();
            read.reverse();
            assert_eq!(read, names);
        }
        let long = vec![vec![b'n'; 255]; 5];
        assert_eq!(put_path(&mut Writer::new(), &long), None);
    }

    #[test]
    fn what_a_path_leads_to() {
        let answer = |write: &dyn Fn(&mut Writer)| {
            let mut out = Writer::new();
            write(&mut out);
            let bytes = out.finish().bytes().to_vec();
            mounted(&mut Reader::new(&bytes))
        };
        let whole = answer(&|out| {
            out.u32(0);
            out.opaque(b"handle");
            out.array(&[1_u32, 390_003]);
        });
        assert_eq!(whole, Ok(Ok(b"handle".to_vec())));
        assert_eq!(answer(&|out| out.u32(13)), Ok(Err(Status::ACCES)));
        let long = answer(&|out| {
            out.u32(0);
            out.opaque(&[1; 65]);
        });
        assert_eq!(long, Err(Error::TooLong { length: 65, maximum: 64 }));
        let many = answer(&|out| {
            out.u32(0);
            out.opaque(b"handle");
            out.u32(u32::MAX);
        });
        assert!(matches!(many, Err(Error::TooLong { .. })));
    }

    #[test]
    fn paths_are_taken_apart() {
        let names = |path: &[u8]| components(path);
        assert_eq!(names(b"/a//./b/"), Ok(vec![b"b".to_vec(), b"a".to_vec()]));
        assert_eq!((names(b""), names(b"/")), (Ok(vec![]), Ok(vec![])));
        assert_eq!(names(b"a"), Err(Status::INVAL));
        assert_eq!(names(b"/a/../b"), Err(Status::INVAL));
        assert_eq!(names(b"/a\0b"), Err(Status::INVAL));
        let long = [b"/".as_slice(), &[b'n'; 256]].concat();
        assert_eq!(names(&long), Err(Status::NAMETOOLONG));
    }
}
