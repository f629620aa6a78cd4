//! The procedures and their arguments (RFC 1813 §3.3).

use alloc::vec::Vec;

use buf::Buf;
use filesystem::{CreateHow, ExclusiveVerifier, NewObject, SetAttributes, Stability, Time};
use rpc::xdr::{Error, Reader, Step};

use super::attributes::{guard, numbers, set_attributes};
use crate::limits::{HANDLE_V3, PAYLOAD, STRING_V3};
use crate::named;

/// The number of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u32);

/// How many there are: 0 is NULL.
pub const PROCEDURES: u32 = 22;

named::numbers! {
    Number, "NFSPROC3_", "unknown";
    NULL = 0;
    GETATTR = 1;
    SETATTR = 2;
    LOOKUP = 3;
    ACCESS = 4;
    READLINK = 5;
    READ = 6;
    WRITE = 7;
    CREATE = 8;
    MKDIR = 9;
    SYMLINK = 10;
    MKNOD = 11;
    REMOVE = 12;
    RMDIR = 13;
    RENAME = 14;
    LINK = 15;
    READDIR = 16;
    READDIRPLUS = 17;
    FSSTAT = 18;
    FSINFO = 19;
    PATHCONF = 20;
    COMMIT = 21;
}

impl Number {
    /// True where carrying it out twice is not the same as once: its answer is kept for a caller that has not heard it.
    pub fn is_once(self) -> bool {
        matches!(
            self,
            Self::SETATTR
                | Self::CREATE
                | Self::MKDIR
                | Self::SYMLINK
                | Self::MKNOD
                | Self::REMOVE
                | Self::RMDIR
                | Self::RENAME
                | Self::LINK
        )
    }
}

/// `nfs_fh3`, as it was sent.
pub type Handle = Vec<u8>;

/// `diropargs3`: a name in a directory, as they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub directory: Handle,
    /// The name.
    pub name: Vec<u8>,
}

/// WRITE.
#[derive(Debug)]
pub struct Write {
    /// To what.
    pub file: Handle,
    /// Where, in bytes.
    pub offset: u64,
    /// How many bytes there should be.
    pub count: u32,
    /// When it is done.
    pub stability: Stability,
    /// How many bytes there are.
    pub length: usize,
    /// The bytes.
    pub data: Vec<Buf>,
}

/// What is asked of the entries of a listing beside their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// Nothing: READDIR.
    Names,
    /// Attributes and handles: READDIRPLUS.
    Objects {
        /// `dircount`: bytes of names, cookies and numbers at most.
        names: u32,
    },
}

/// READDIR, READDIRPLUS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Of what.
    pub directory: Handle,
    /// After which entry.
    pub cookie: u64,
    /// The verifier that came with that cookie.
    pub verifier: [u8; 8],
    /// Bytes of the results at most.
    pub count: u32,
    /// Which procedure it is.
    pub entries: Entries,
}

/// A procedure with its arguments.
#[derive(Debug)]
pub enum Procedure {
    /// GETATTR.
    GetAttributes(Handle),
    /// SETATTR.
    SetAttributes {
        /// Of what.
        object: Handle,
        /// Which.
        attributes: SetAttributes,
        /// `sattrguard3`.
        guard: Option<Time>,
    },
    /// LOOKUP.
    Lookup(Place),
    /// ACCESS.
    Access {
        /// On what.
        object: Handle,
        /// `ACCESS3_*`.
        rights: u32,
    },
    /// READLINK.
    ReadLink(Handle),
    /// READ.
    Read {
        /// What.
        file: Handle,
        /// Where, in bytes.
        offset: u64,
        /// Bytes.
        count: u32,
    },
    /// WRITE.
    Write(Write),
    /// CREATE.
    Create {
        /// Where.
        place: Place,
        /// What if it is there.
        how: CreateHow,
    },
    /// MKDIR, SYMLINK, MKNOD.
    Make {
        /// Where.
        place: Place,
        /// What; `None` for a type that MKNOD does not make.
        object: Option<NewObject>,
        /// Its attributes.
        attributes: SetAttributes,
    },
    /// REMOVE.
    Remove(Place),
    /// RMDIR.
    RemoveDirectory(Place),
    /// RENAME.
    Rename {
        /// Where it is.
        from: Place,
        /// Where it will be.
        to: Place,
    },
    /// LINK.
    Link {
        /// What.
        file: Handle,
        /// Its new name.
        to: Place,
    },
    /// READDIR, READDIRPLUS.
    List(List),
    /// FSSTAT.
    Space(Handle),
    /// FSINFO.
    Information(Handle),
    /// PATHCONF.
    Configuration(Handle),
    /// COMMIT.
    Commit {
        /// What.
        file: Handle,
        /// Where, in bytes.
        offset: u64,
        /// Bytes; zero means up to the end.
        count: u32,
    },
}

/// A procedure that was read, and what comes behind it.
#[derive(Debug)]
pub struct Decoded {
    /// The procedure.
    pub procedure: Procedure,
    /// Data, or the end.
    pub step: Step,
}

fn handle(reader: &mut Reader<'_>) -> Result<Handle, Error> {
    reader.opaque(HANDLE_V3).map(<[u8]>::to_vec)
}

fn place(reader: &mut Reader<'_>) -> Result<Place, Error> {
    Ok(Place { directory: handle(reader)?, name: reader.opaque(STRING_V3)?.to_vec() })
}

fn write(reader: &mut Reader<'_>) -> Result<Write, Error> {
    let (file, offset, count) = (handle(reader)?, reader.u64()?, reader.u32()?);
    let stability = reader.enumeration(|how| match how {
        0 => Some(Stability::Unstable),
        1 => Some(Stability::DataSync),
        2 => Some(Stability::FileSync),
        _ => None,
    })?;
    let length = reader.length(wire::index(PAYLOAD.into()))?;
    Ok(Write { file, offset, count, stability, length, data: Vec::new() })
}

/// `createhow3`.
fn how(reader: &mut Reader<'_>) -> Result<CreateHow, Error> {
    Ok(match reader.u32()? {
        0 => CreateHow::Unchecked(set_attributes(reader)?),
        1 => CreateHow::Guarded(set_attributes(reader)?),
        2 => {
            let (verifier, attributes) = (ExclusiveVerifier(reader.get()?), SetAttributes::default());
            CreateHow::Exclusive { verifier, attributes }
        }
        other => return Err(Error::NotInEnumeration(other)),
    })
}

/// `mknoddata3`.
fn node(reader: &mut Reader<'_>) -> Result<(Option<NewObject>, SetAttributes), Error> {
    Ok(match reader.u32()? {
        3 => {
            let attributes = set_attributes(reader)?;
            (Some(NewObject::BlockDevice(numbers(reader)?)), attributes)
        }
        4 => {
            let attributes = set_attributes(reader)?;
            (Some(NewObject::CharacterDevice(numbers(reader)?)), attributes)
        }
        6 => (Some(NewObject::Socket), set_attributes(reader)?),
        7 => (Some(NewObject::Fifo), set_attributes(reader)?),
        1 | 2 | 5 => (None, SetAttributes::default()),
        other => return Err(Error::NotInEnumeration(other)),
    })
}

fn list(reader: &mut Reader<'_>, plus: bool) -> Result<List, Error> {
    let (directory, cookie, verifier) = (handle(reader)?, reader.u64()?, reader.get()?);
    let entries = if plus { Entries::Objects { names: reader.u32()? } } else { Entries::Names };
    Ok(List { directory, cookie, verifier, count: reader.u32()?, entries })
}

impl Procedure {
    /// Reads the arguments of a procedure, and says whether data follows.
    ///
    /// # Errors
    /// For what are none; [`Error::NotInEnumeration`] also for a number of no procedure with arguments.
    pub fn decode(number: Number, reader: &mut Reader<'_>) -> Result<Decoded, Error> {
        let procedure = match number {
            Number::GETATTR => Self::GetAttributes(handle(reader)?),
            Number::SETATTR => Self::SetAttributes {
                object: handle(reader)?,
                attributes: set_attributes(reader)?,
                guard: guard(reader)?,
            },
            Number::LOOKUP => Self::Lookup(place(reader)?),
            Number::ACCESS => Self::Access { object: handle(reader)?, rights: reader.u32()? },
            Number::READLINK => Self::ReadLink(handle(reader)?),
            Number::READ => Self::Read { file: handle(reader)?, offset: reader.u64()?, count: reader.u32()? },
            Number::WRITE => {
                let write = write(reader)?;
                let step = if write.length == 0 { Step::End } else { Step::Payload(write.length) };
                return Ok(Decoded { procedure: Self::Write(write), step });
            }
            Number::CREATE => Self::Create { place: place(reader)?, how: how(reader)? },
            Number::MKDIR => Self::Make {
                place: place(reader)?,
                object: Some(NewObject::Directory),
                attributes: set_attributes(reader)?,
            },
            Number::SYMLINK => {
                let (place, attributes) = (place(reader)?, set_attributes(reader)?);
                let target = reader.opaque(STRING_V3)?.to_vec();
                Self::Make { place, object: Some(NewObject::SymbolicLink(target)), attributes }
            }
            Number::MKNOD => {
                let place = place(reader)?;
                let (object, attributes) = node(reader)?;
                Self::Make { place, object, attributes }
            }
            Number::REMOVE => Self::Remove(place(reader)?),
            Number::RMDIR => Self::RemoveDirectory(place(reader)?),
            Number::RENAME => Self::Rename { from: place(reader)?, to: place(reader)? },
            Number::LINK => Self::Link { file: handle(reader)?, to: place(reader)? },
            Number::READDIR => Self::List(list(reader, false)?),
            Number::READDIRPLUS => Self::List(list(reader, true)?),
            Number::FSSTAT => Self::Space(handle(reader)?),
            Number::FSINFO => Self::Information(handle(reader)?),
            Number::PATHCONF => Self::Configuration(handle(reader)?),
            Number::COMMIT => {
                Self::Commit { file: handle(reader)?, offset: reader.u64()?, count: reader.u32()? }
            }
            Number(other) => return Err(Error::NotInEnumeration(other)),
        };
        Ok(Decoded { procedure, step: Step::End })
    }
}
