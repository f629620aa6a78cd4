//! What the client of names can be asked, what it answers, and the COMPOUND of each operation.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rpc::message::AuthSysToSend;

use crate::client::arguments::{Arguments, Opening};
use crate::client::config::Versions;
use crate::client::found::{Entry, FileFacts, Listed};
use crate::client::results::Results;
use crate::v4::{Bitmap, ClientId, Stateid, Status, Verifier};

/// What a stat asks for, as Linux does (RFC 8881 §5.8): type, change, size, fsid, fileid, mode, numlinks, owner, owner_group, rawdev, space_used, time_access,
/// time_metadata, time_modify.
const STAT: [u32; 14] = [1, 3, 4, 8, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53];
/// rdattr_error and filehandle, which a listing has beside them.
const LISTED: [u32; 16] = [1, 3, 4, 8, 11, 19, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53];
/// What a listing asks for whose entries are kept.
const ENTRIES: [u32; 4] = [FileFacts::TYPE, FileFacts::SIZE, FileFacts::RDATTR_ERROR, FileFacts::TIME_MODIFY];
/// Bytes of one answer to READDIR.
const PAGE: u32 = 64 << 10;
/// Permissions of new files and directories.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// One connection's configuration.
#[derive(Debug, Clone)]
pub struct NamesConfig {
    /// The names from the server's root to the directory to work in; none is the root.
    pub path: Vec<Vec<u8>>,
    /// Minor versions.
    pub versions: Versions,
    /// Who asks.
    pub user: Arc<AuthSysToSend>,
    /// The client's name (`co_ownerid`), which no other has.
    pub owner: Vec<u8>,
    /// What tells this start of the client from one before (`co_verifier`).
    pub verifier: Verifier,
    /// How long a COMPOUND may take, and the way to the directory as a whole.
    pub command_time: Duration,
}

/// The handle of a file or directory (RFC 8881 §4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectHandle(pub(super) Arc<[u8]>);

/// A file that was made, and is open until [`NameOperation::Close`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFileName {
    pub(super) handle: ObjectHandle,
    pub(super) stateid: Stateid,
}

/// An operation: one COMPOUND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameOperation {
    /// Makes a directory. [`NamesOutcome::Directory`].
    MakeDirectory {
        /// Where.
        parent: ObjectHandle,
        /// Its name.
        name: Vec<u8>,
    },
    /// Makes a file that must not be there, and opens it for reading and writing. [`NamesOutcome::Open`].
    Create {
        /// Where.
        parent: ObjectHandle,
        /// Its name.
        name: Vec<u8>,
    },
    /// Closes a file. [`NamesOutcome::Done`].
    Close(OpenFileName),
    /// Looks a name up and asks for its attributes. [`NamesOutcome::Seen`].
    Look {
        /// Where.
        parent: ObjectHandle,
        /// Its name.
        name: Vec<u8>,
    },
    /// Lists a directory, with the attributes of what is in it, as far as an answer of 64 KiB goes. [`NamesOutcome::Listed`].
    List {
        /// Which.
        directory: ObjectHandle,
        /// What the answer before ended with; nothing to begin.
        from: Option<Listed>,
    },
    /// The same, for the names themselves. [`NamesOutcome::Entries`].
    Entries {
        /// Which.
        directory: ObjectHandle,
        /// What the answer before ended with; nothing to begin.
        from: Option<Listed>,
    },
    /// Removes a file, or a directory without anything in it. [`NamesOutcome::Done`].
    Remove {
        /// Where.
        parent: ObjectHandle,
        /// Its name.
        name: Vec<u8>,
    },
}

/// What an object is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// `nfs_ftype4`: 1 is a file, 2 a directory.
    pub kind: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamesOutcome {
    /// It is done.
    Done,
    /// The directory that was made.
    Directory(ObjectHandle),
    /// The file that was made.
    Open(OpenFileName),
    /// What the name stands for.
    Seen(Seen),
    /// How many names there were.
    Listed(Listed),
    /// Names, in the server's order.
    Entries(Vec<Entry>, Listed),
}

/// What the client of names learns before anything is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamesReady {
    /// The directory of the configured path.
    pub directory: ObjectHandle,
    /// Operations that can be under way at a time: more wait.
    pub slots: u32,
    /// The minor version that is spoken.
    pub minor: u32,
}

/// What comes from inside.
#[derive(Debug)]
pub enum NamesInput {
    /// Do an operation; [`NamesAction::Done`] has the same number.
    Do(u64, NameOperation),
    /// Leave, once nothing is under way.
    Disconnect,
}

/// What goes inside.
#[derive(Debug)]
pub enum NamesAction {
    /// The directory was found.
    Ready(NamesReady),
    /// An operation has ended. NFS4ERR_DELAY and NFS4ERR_GRACE never come here: it is made again.
    Done(u64, Result<NamesOutcome, Status>),
    /// It cannot go on.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

impl NameOperation {
    /// True for what changes something: its answer is kept for a retry (RFC 8881 §2.10.6.1.3), as clients ask that mean to reconnect.
    pub(super) fn changes(&self) -> bool {
        !matches!(self, Self::Look { .. } | Self::List { .. } | Self::Entries { .. })
    }

    /// What follows SEQUENCE.
    pub(super) fn write(&self, arguments: Arguments, client: ClientId, owner: &[u8]) -> Arguments {
        let opening = Opening { writes: true, excludes_writers: false };
        match self {
            Self::MakeDirectory { parent, name } => {
                arguments.put_handle(&parent.0).create_directory(name, DIRECTORY_MODE).get_handle()
            }
            Self::Create { parent, name } => arguments
                .put_handle(&parent.0)
                .open_new(opening, client, owner, name, FILE_MODE)
                .get_handle()
                .get_attributes(&Bitmap::of(&STAT)),
            Self::Close(open) => arguments.put_handle(&open.handle.0).close(open.stateid),
            Self::Look { parent, name } => {
                arguments.put_handle(&parent.0).lookup(name).get_handle().get_attributes(&Bitmap::of(&STAT))
            }
            Self::List { directory, from } => {
                let Listed { cookie, verifier, .. } = from.unwrap_or_default();
                arguments.put_handle(&directory.0).list(cookie, verifier, PAGE, &Bitmap::of(&LISTED))
            }
            Self::Entries { directory, from } => {
                let Listed { cookie, verifier, .. } = from.unwrap_or_default();
                arguments.put_handle(&directory.0).list(cookie, verifier, PAGE, &Bitmap::of(&ENTRIES))
            }
            Self::Remove { parent, name } => arguments.put_handle(&parent.0).remove(name),
        }
    }

    /// What its results say; nothing if they lack what they must have.
    pub(super) fn outcome(&self, results: &mut Results) -> Option<NamesOutcome> {
        let found = results.found.take().unwrap_or_default();
        let handle = found.handle.map(|handle| ObjectHandle(handle.into()));
        Some(match self {
            Self::MakeDirectory { .. } => NamesOutcome::Directory(handle?),
            Self::Create { .. } => {
                NamesOutcome::Open(OpenFileName { handle: handle?, stateid: found.stateid? })
            }
            Self::Look { .. } => {
                let facts = found.facts?;
                NamesOutcome::Seen(Seen { kind: facts.kind, size: facts.size })
            }
            Self::List { .. } => NamesOutcome::Listed(found.listed?),
            Self::Entries { .. } => NamesOutcome::Entries(found.entries, found.listed?),
            Self::Close(_) | Self::Remove { .. } => NamesOutcome::Done,
        })
    }
}
