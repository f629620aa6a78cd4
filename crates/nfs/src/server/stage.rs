//! Where an operation waits, and for what: the continuation of each operation that needs more than one step.
//!
//! These are data alone, so that what begins an operation and what goes on with it know one word for its place.

use alloc::boxed::Box;
use alloc::vec::Vec;

use filesystem::{Access, Attributes, DirectoryChange, Name, OpenId, SeekWhat, SetAttributes, Space};

use super::exports::{FileKey, FileRef};
use super::identity::ServerIdentity;
use crate::state::messages::{Claim, LockTest, StateidLoan};
use crate::v4::attributes::Sent;
use crate::v4::operation::{Copy, OpenHow, Ranged, ReadDirectory, Write};
use crate::v4::{Bitmap, SessionId, Share, Stateid, Status};

/// Where an operation waits.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It wants data, and begins again once its stateid is known or there is memory.
    Begin(DataOperation),
    Data(DataStage),
    Name(NameStage),
    Attributes(AttributeStage),
    Directory(DirectoryStage),
    Open(OpenStage),
    Stateful(StatefulStage),
}

/// An operation whose stateid is not judged yet.
#[derive(Debug)]
pub(crate) enum DataOperation {
    Read(Ranged),
    Write(Write),
    SetSize { stateid: Stateid, set: SetAttributes, bitmap: Bitmap },
    Allocate(Ranged),
    Deallocate(Ranged),
    Seek { stateid: Stateid, offset: u64, what: SeekWhat },
    Copy(Copy),
}

/// What an operation on data waits for.
#[derive(Debug)]
pub(crate) enum DataStage {
    Reading,
    Writing { count: usize },
    Committing,
    SettingAttributes(Bitmap),
    Changing,
    Seeking,
    Copying,
}

/// What an operation on names waits for.
#[derive(Debug)]
pub(crate) enum NameStage {
    LookingUp {
        file: FileRef,
    },
    /// What LOOKUP's directory is, as it is none.
    JudgingDirectory,
    /// LOOKUPP asks first what the object is.
    JudgingParent {
        file: FileRef,
    },
    LookingUpParent {
        export: usize,
    },
    ReadingLink,
    Creating {
        export: usize,
        bitmap: Bitmap,
    },
    Removing,
    Renaming,
    Linking,
    LookingForSecurity,
}

/// What attributes are read for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// To be told.
    Get(Bitmap),
    /// To be compared; the same is right.
    Same(Sent),
    /// To be compared; the same is wrong.
    Different(Sent),
}

/// What GETATTR, VERIFY, NVERIFY and ACCESS wait for.
#[derive(Debug)]
pub(crate) enum AttributeStage {
    Reading { purpose: Purpose },
    ReadingSpace { purpose: Purpose, attributes: Box<Attributes> },
    Access { asked: Access },
}

/// What READDIR waits for.
#[derive(Debug)]
pub(crate) enum DirectoryStage {
    ReadingSpace(ReadDirectory),
    Reading {
        arguments: ReadDirectory,
        space: Option<Space>,
    },
    /// The roots of exports in a directory of the pseudo file system, one by one.
    ReadingRoots(Roots),
}

/// Entries of the pseudo file system, as far as their attributes are known.
#[derive(Debug)]
pub(crate) struct Roots {
    pub(crate) arguments: ReadDirectory,
    pub(crate) node: usize,
    pub(crate) known: Vec<Attributes>,
}

/// What OPEN waits for.
#[derive(Debug)]
pub(crate) enum OpenStage {
    /// A file is to be made, if the client may claim anything new.
    Admitting(Wanted, Name, Box<OpenHow>),
    LookingUp(Wanted),
    Opening(Box<Opening>),
    Creating {
        wanted: Wanted,
        export: usize,
        bitmap: Bitmap,
        cut: bool,
    },
    Granting(Box<Opening>, OpenId),
    Cutting(Box<Opening>, StateidLoan<FileKey>),
    /// It is refused; the file system closes what it has opened.
    Closing(Status),
}

/// Who opens, and for what.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) owner: Vec<u8>,
    pub(crate) share: Share,
    pub(crate) claim: Claim,
}

/// An OPEN whose file is known.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) wanted: Wanted,
    pub(crate) file: FileRef,
    pub(crate) change: Option<DirectoryChange>,
    pub(crate) bitmap: Bitmap,
    /// The file is to be cut once it is granted.
    pub(crate) cut: bool,
    /// What the file system told of it when it was opened.
    pub(crate) attributes: Option<Attributes>,
}

impl Opening {
    /// Of a file that was there before.
    pub(crate) fn there(wanted: Wanted, file: FileRef) -> Self {
        Self { wanted, file, change: None, bitmap: Bitmap::default(), cut: false, attributes: None }
    }
}

/// What an operation that only the group can carry out waits for.
#[derive(Debug)]
pub(crate) enum StatefulStage {
    ExchangingId(ServerIdentity),
    CreatingSession,
    Binding(SessionId),
    /// An answer without a result.
    Ending,
    Closing,
    /// The answer is a stateid.
    Stateid,
    Locking,
    /// LOCKT looks first at what the file is.
    JudgingType(LockTest<FileKey>),
    TestingLock,
    Testing,
}
