//! What a procedure may touch.

use alloc::sync::Arc;
use alloc::vec::Vec;

use filesystem::{Credentials, FileErrorKind, FileHandle, Name, Operation, Outcome, Target};
use rpc::xdr::Writer;

use super::super::context::{Input, Shared};
use super::super::exports::{Export, FileKey, Grant, Place, Writes};
use super::super::held::{Resolved, Use};
use super::listed::Listing;
use crate::limits::HANDLE_V3;
use crate::state::messages::{Answer, Call, StateidUse};
use crate::v3::Status;
use crate::v3::procedure::Procedure;
use crate::v4::{ClientId, Modes, Stateid};

/// An object of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) export: usize,
    pub(super) key: FileKey,
}

impl Located {
    pub(super) fn handle(self) -> FileHandle {
        self.key.handle
    }
}

/// Where a procedure waits.
#[derive(Debug)]
pub(super) enum Stage {
    /// It begins again once anonymous access is lent or there is memory.
    Again(Procedure),
    GettingAttributes,
    SettingAttributes,
    LookingUp,
    /// LOOKUP of `.`, and of `..` at the top.
    LookingAtItself,
    Access,
    ReadingLink,
    Reading,
    Writing {
        count: usize,
    },
    /// `cut`: a file that was there is then cut to nothing.
    Creating {
        cut: bool,
    },
    /// A file that was taken waits for anonymous access, to be cut.
    JudgingCut(alloc::boxed::Box<filesystem::Created>),
    Cutting(alloc::boxed::Box<filesystem::Created>),
    Making,
    Removing,
    Renaming,
    Linking,
    LookingForParent(Listing),
    Listing(Listing),
    ReadingSpace,
    Committing,
    /// The result is known but for the attributes behind it.
    Closing(Tail),
}

/// A result that waits for attributes.
#[derive(Debug)]
pub(super) enum Tail {
    /// LOOKUP: what was found.
    Found(alloc::boxed::Box<filesystem::Object>),
    Access(u32),
    Link(Vec<u8>),
    Space(alloc::boxed::Box<filesystem::Space>),
    Information,
    Configuration,
}

/// How a procedure goes on.
#[derive(Debug)]
pub(super) enum Flow {
    /// The result is written.
    Done,
    /// The file system is asked.
    File { export: usize, operation: Operation, then: Stage },
    /// The group is asked.
    Group { call: Call<FileKey>, then: Stage },
    /// There is no memory.
    Memory { then: Stage },
}

/// What the file system answered.
pub(super) fn outcome(input: Input) -> Result<Outcome, Status> {
    match input {
        Input::File(result) => result.map_err(Status::of),
        Input::Group(_) | Input::Memory => Err(Status::SERVERFAULT),
    }
}

/// The group has answered about anonymous access, or there may be memory.
pub(super) fn lent(input: Input) -> Result<(), Status> {
    match input {
        Input::Memory => Ok(()),
        Input::Group(answer) => match answer? {
            Answer::Anonymous => Ok(()),
            _ => Err(Status::SERVERFAULT),
        },
        Input::File(_) => Err(Status::SERVERFAULT),
    }
}

/// A name as the file system takes it. One without bytes is NFS3ERR_ACCES (RFC 1813 §3.2).
pub(super) fn name(bytes: &[u8]) -> Result<Name, Status> {
    if bytes.is_empty() {
        return Err(Status::ACCES);
    }
    Name::new(bytes).map_err(Status::of)
}

/// A name that something new gets: `.` and `..` are there.
pub(super) fn new_name(bytes: &[u8]) -> Result<Name, Status> {
    if matches!(bytes, b"." | b"..") { Err(Status::EXIST) } else { name(bytes) }
}

/// What a procedure may touch.
#[derive(Debug)]
pub(super) struct Env<'a> {
    pub(super) shared: &'a mut Shared,
    pub(super) caller: Option<&'a Arc<Credentials>>,
    pub(super) out: &'a mut Writer,
    pub(super) uses: &'a mut Vec<Use>,
    /// The first object of the procedure, whose attributes its answer has.
    pub(super) subject: &'a mut Option<Located>,
}

impl Env<'_> {
    /// The object of a handle. Directories of the pseudo file system are not served in version 3, and nobody has their handles from it.
    pub(super) fn locate(&self, handle: &[u8]) -> Result<Located, Status> {
        let place = self.shared.exports.find(handle)?;
        let Place::File { export, handle } = place else { return Err(Status::STALE) };
        self.grant(export)?;
        Ok(Located { export, key: FileKey { filesystem: self.export(export)?.filesystem, handle } })
    }

    /// The first object of the procedure.
    pub(super) fn subject(&mut self, handle: &[u8]) -> Result<Located, Status> {
        let located = self.locate(handle)?;
        *self.subject = Some(located);
        Ok(located)
    }

    /// The first object, once it is known.
    pub(super) fn known_subject(&self) -> Result<Located, Status> {
        self.subject.ok_or(Status::SERVERFAULT)
    }

    /// Whether an object may be changed.
    pub(super) fn may_write(&self, of: Located) -> Result<(), Status> {
        if self.grant(of.export)?.writes == Writes::Refused { Err(Status::ROFS) } else { Ok(()) }
    }

    /// The first object, to be changed.
    pub(super) fn writable(&mut self, handle: &[u8]) -> Result<Located, Status> {
        let located = self.subject(handle)?;
        self.may_write(located)?;
        Ok(located)
    }

    pub(super) fn export(&self, export: usize) -> Result<&Export, Status> {
        self.shared.exports.get(export).ok_or(Status::STALE)
    }

    pub(super) fn grant(&self, export: usize) -> Result<Grant, Status> {
        self.shared.grants.get(export).copied().flatten().ok_or(Status::STALE)
    }

    /// Asks the file system that the first object is in.
    pub(super) fn ask(&self, operation: Operation, then: Stage) -> Result<Flow, Status> {
        Ok(Flow::File { export: self.known_subject()?.export, operation, then })
    }

    /// Anonymous access to data, which opens of version 4 may deny; `Err` of the result is what the group is to be asked.
    pub(super) fn target(
        &mut self,
        file: Located,
        access: Modes,
    ) -> Result<Result<Target, Call<FileKey>>, Status> {
        // Anonymous access is nobody's: the client is not looked at.
        let named = StateidUse { client: ClientId(0), file: file.key, stateid: Stateid::ANONYMOUS };
        match self.shared.loans.resolve(named, access)? {
            Resolved::Ask(call) => Ok(Err(call)),
            Resolved::Valid { by, open } => {
                self.uses.push(by);
                Ok(Ok(Target { file: file.handle(), open }))
            }
        }
    }

    /// The handle of an object on the wire; `None` where it is longer than version 3 has them.
    pub(super) fn wire_handle(&self, export: usize, handle: FileHandle) -> Option<Vec<u8>> {
        let bytes = self.shared.exports.handle(Place::File { export, handle });
        (bytes.len() <= HANDLE_V3).then_some(bytes)
    }
}

/// True for the failure that has a meaning of its own where something is looked for.
pub(super) fn is(input: &Input, kind: FileErrorKind) -> bool {
    matches!(input, Input::File(Err(failure)) if *failure == kind)
}
